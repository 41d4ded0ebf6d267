package decide

import (
	"slices"
	"time"

	"github.com/holdfast-project/holdfast/internal/identity"
)

// census is what the Pods of a list mean for the acknowledged Jobs.
type census struct {
	// jobs maps the UID of each acknowledged Job to its slot.
	jobs map[string]identity.SlotRef
	// nonces maps each registered nonce to its attempt.
	nonces map[string]string
	// withJob are the attempts that have an acknowledged Job.
	withJob map[string]bool
}

func newCensus(s State) census {
	c := census{jobs: map[string]identity.SlotRef{}, nonces: map[string]string{}, withJob: map[string]bool{}}
	for _, r := range s.Resources {
		c.nonces[r.Nonce] = r.Ref.Attempt
		if r.Object.Consumer() {
			c.jobs[r.Object.UID] = r.Ref
			c.withJob[r.Ref.Attempt] = true
		}
	}
	for _, slot := range s.Slots {
		c.nonces[slot.Nonce] = slot.Ref.Attempt
	}
	// A damaged row must not turn every Pod without our annotation into doubt.
	delete(c.nonces, "")
	return c
}

// ownedBy: the Pod's ownerReferences hold the Job's UID. It is the one relation
// that the garbage collector acts on.
func ownedBy(p Pod, job Resource) bool { return slices.Contains(p.Owners, job.Object.UID) }

// pointsAt: a controller-uid label or a child receipt ties the Pod to this Job.
func pointsAt(p Pod, job Resource) bool {
	return slices.Contains(p.ControllerUIDs, job.Object.UID) ||
		slices.ContainsFunc(job.Children, func(child Child) bool { return child.Object.UID == p.Object.UID })
}

// orphanOf: the Pod points at this Job, or carries its attempt's nonce and
// belongs to no acknowledged Job, and the Job does not own it. A raw API delete
// of a Job leaves its Pods so by default, and they still use what the
// dependencies give.
func (c census) orphanOf(p Pod, job Resource) bool {
	if ownedBy(p, job) {
		return false
	}
	return pointsAt(p, job) || c.nonces[p.Nonce] == job.Ref.Attempt && !c.belongsToAJob(p)
}

// belongsToAJob: ownership or a label ties the Pod to one acknowledged Job, so
// that its nonce says nothing about that Job's siblings.
func (c census) belongsToAJob(p Pod) bool {
	known := func(uid string) bool { _, ok := c.jobs[uid]; return ok }
	return slices.ContainsFunc(p.Owners, known) || slices.ContainsFunc(p.ControllerUIDs, known)
}

// stray: the Pod carries a registered nonce and no acknowledged Job can answer
// for it. The attempt's Job is uncertain or its files were lost.
func (c census) stray(p Pod) bool {
	attempt, registered := c.nonces[p.Nonce]
	return registered && !c.belongsToAJob(p) && !c.withJob[attempt]
}

// strays are those of the latest successful list.
func (c census) strays(lists []PodList) (found []Pod) {
	for _, list := range slices.Backward(lists) {
		if list.Failed {
			continue
		}
		for _, p := range list.Pods {
			if c.stray(p) {
				found = append(found, p)
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
		if _, registered := c.nonces[p.Nonce]; registered || c.belongsToAJob(p) {
			return true
		}
		return slices.ContainsFunc(s.Resources, func(r Resource) bool { return pointsAt(p, r) })
	}
}
