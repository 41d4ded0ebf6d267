package decide

import (
	"slices"
	"time"

	"github.com/holdfast-project/holdfast/internal/identity"
)

// census is what the Pods of a list mean for the acknowledged Jobs. The evidence has
// few rows, and every decision is made from all of it anew: to look through them costs
// less than to index them each time.
type census struct {
	resources []Resource
	slots     []Slot
}

func newCensus(s State) census { return census{s.Resources, s.Slots} }

// attempt returns whose registered nonce this is, "" for nobody's. A damaged row must
// not turn every Pod without our annotation into doubt.
func (c census) attempt(nonce string) (attempt string) {
	if nonce == "" {
		return attempt
	}
	for i := range c.resources {
		if r := &c.resources[i]; r.Nonce == nonce {
			return r.Ref.Attempt
		}
	}
	for i := range c.slots {
		if s := &c.slots[i]; s.Nonce == nonce {
			return s.Ref.Attempt
		}
	}
	return attempt
}

// isJob: the UID is that of an acknowledged Job.
func (c census) isJob(uid string) bool {
	return c.anyJob(func(r *Resource) bool { return r.Object.UID == uid })
}

// hasJob: the attempt has an acknowledged Job.
func (c census) hasJob(attempt string) bool {
	return c.anyJob(func(r *Resource) bool { return r.Ref.Attempt == attempt })
}

func (c census) anyJob(is func(*Resource) bool) bool {
	for i := range c.resources {
		if r := &c.resources[i]; is(r) && r.Object.Consumer() {
			return true
		}
	}
	return false
}

// ownedBy: the Pod's ownerReferences hold the Job's UID. It is the one relation
// that the garbage collector acts on.
func ownedBy(p *Pod, job *Resource) bool { return slices.Contains(p.Owners, job.Object.UID) }

// pointsAt: a controller-uid label or a child receipt ties the Pod to this Job.
func pointsAt(p *Pod, job *Resource) bool {
	return slices.Contains(p.ControllerUIDs, job.Object.UID) ||
		slices.ContainsFunc(job.Children, func(child Child) bool { return child.Object.UID == p.Object.UID })
}

// orphanOf: the Pod points at this Job, or carries its attempt's nonce and
// belongs to no acknowledged Job, and the Job does not own it. A raw API delete
// of a Job leaves its Pods so by default, and they still use what the
// dependencies give.
func (c census) orphanOf(p *Pod, job *Resource) bool {
	if ownedBy(p, job) {
		return false
	}
	return pointsAt(p, job) || c.attempt(p.Nonce) == job.Ref.Attempt && !c.belongsToAJob(p)
}

// belongsToAJob: ownership or a label ties the Pod to one acknowledged Job, so
// that its nonce says nothing about that Job's siblings.
func (c census) belongsToAJob(p *Pod) bool {
	return slices.ContainsFunc(p.Owners, c.isJob) || slices.ContainsFunc(p.ControllerUIDs, c.isJob)
}

// stray: the Pod carries a registered nonce and no acknowledged Job can answer
// for it. The attempt's Job is uncertain or its files were lost.
func (c census) stray(p *Pod) bool {
	attempt := c.attempt(p.Nonce)
	return attempt != "" && !c.belongsToAJob(p) && !c.hasJob(attempt)
}

// strayRef names the attempt that a stray belongs to; which slot of it, nobody knows.
func (c census) strayRef(p Pod) identity.SlotRef {
	return identity.SlotRef{Attempt: c.attempt(p.Nonce)}
}

// strays are those of the latest successful list.
func (c census) strays(lists []PodList) (found []Pod) {
	for _, list := range slices.Backward(lists) {
		if list.Failed {
			continue
		}
		for i := range list.Pods {
			if p := &list.Pods[i]; c.stray(p) {
				found = append(found, *p)
			}
		}
		break
	}
	return found
}

// listed reports whether any list succeeded, and when the last one that did was
// answered.
func listed(lists []PodList) (at time.Duration, ok bool) {
	for _, list := range slices.Backward(lists) {
		if !list.Failed {
			return list.Answered, true
		}
	}
	return at, false
}

// nextList is when Pods may be listed again.
func nextList(lists []PodList) time.Duration {
	if len(lists) == 0 {
		return 0
	}
	return lists[len(lists)-1].Answered + pause(len(lists))
}

// Concerns returns whether a Pod of the namespace matters to this cleanup. All
// others are strangers, and nothing is kept of them.
func (s State) Concerns() func(Pod) bool {
	c := newCensus(s)
	return func(p Pod) bool {
		if c.attempt(p.Nonce) != "" || c.belongsToAJob(&p) {
			return true
		}
		return slices.ContainsFunc(s.Resources, func(r Resource) bool { return pointsAt(&p, &r) })
	}
}
