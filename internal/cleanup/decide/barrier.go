package decide

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-project/holdfast/internal/identity"
)

// Cause names the rule that a Reason comes from.
type Cause string

// The causes that keep the dependencies (A6.7), and after them those that only
// forbid a better verdict.
const (
	ClusterUnproven    Cause = "cluster-unproven"
	JobConflict        Cause = "job-conflict"
	ChildConflict      Cause = "child-conflict"
	PodOrphaned        Cause = "pod-orphaned"
	JobRemaining       Cause = "job-remaining"
	JobUnreadable      Cause = "job-unreadable"
	PodsUnreadable     Cause = "pods-unreadable"
	JobCreateUncertain Cause = "job-create-uncertain"
	JobUnexplained     Cause = "job-unexplained"
	JobNameUnreadable  Cause = "job-name-unreadable"

	CreateUncertain       Cause = "create-uncertain"
	DependencyConflict    Cause = "dependency-conflict"
	DependencyRemaining   Cause = "dependency-remaining"
	DependencyUnreadable  Cause = "dependency-unreadable"
	DependencyUnexplained Cause = "dependency-unexplained"
	NameUnreadable        Cause = "name-unreadable"
)

// Reason is one thing that stands in the way, as a clause for people.
type Reason struct {
	Cause Cause
	// Ref is the slot that it is about; empty when it is about the cluster.
	Ref  identity.SlotRef
	Text string
}

// barrier lists what keeps Secrets and NetworkPolicies, of all attempts. It is
// open when nothing does (A6.7).
func (v *view) barrier() []Reason {
	return append(v.unprovenCluster(), v.consumerDoubts()...)
}

// consumerDoubts are the reasons to think that something may still use what the
// dependencies give.
func (v *view) consumerDoubts() []Reason {
	return concat(
		// A replacement that we may not touch may use our Secret by its name.
		v.jobsInConflict(),
		// A Pod without its Job still runs.
		v.podsOrphaned(),
		// An accepted DELETE is not absence.
		v.jobsRemaining(),
		v.jobsUnreadable(),
		v.podsUnreadable(),
		// An uncertain Job means that consumers are unknown (A5.11).
		v.jobCreatesUncertain(),
		// A Job that nobody recorded may be ours after all (A6.14).
		v.jobsUnexplained(),
		v.jobNamesUnreadable(),
	)
}

// shortcomings are all reasons why the verdict is not complete, but for slots
// that the release owner has reconciled.
func (v *view) shortcomings() []Reason {
	return concat(
		v.barrier(),
		v.otherCreatesUncertain(),
		v.dependenciesUnsettled(),
		v.dependenciesUnexplained(),
		v.otherNamesUnreadable(),
	)
}

func concat(lists ...[]Reason) (all []Reason) {
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

func (v *view) unprovenCluster() []Reason {
	if doubt := clusterDoubt(v.State); doubt != "" {
		return []Reason{{Cause: ClusterUnproven, Text: doubt}}
	}
	return nil
}

// eachJob collects a reason per Job for which clause gives one.
func (v *view) eachJob(cause Cause, clause func(*job) string) (found []Reason) {
	if v.stopped() {
		return nil
	}
	for i := range v.jobs {
		if text := clause(&v.jobs[i]); text != "" {
			found = append(found, Reason{cause, v.jobs[i].Ref, text})
		}
	}
	return found
}

func (v *view) jobsInConflict() []Reason {
	return append(
		v.eachJob(JobConflict, func(j *job) string {
			if !j.conflict || j.replaced != nil {
				return ""
			}
			return fmt.Sprintf("%s was replaced by another object with the UID %s", j.Object, j.replacedBy.UID)
		}),
		v.eachJob(ChildConflict, func(j *job) string {
			if j.replaced == nil {
				return ""
			}
			return fmt.Sprintf("%s, a Pod of %s, was replaced by another object with the UID %s", j.replaced.Object, j.Object, j.replacedBy.UID)
		})...)
}

func (v *view) podsOrphaned() []Reason {
	found := v.eachJob(PodOrphaned, func(j *job) string {
		if len(j.orphans) == 0 {
			return ""
		}
		if j.away() {
			return fmt.Sprintf("%s of %s runs on without it", podNames(j.orphans), j.Object)
		}
		return fmt.Sprintf("%s is not owned by %s, though a label, a nonce or a receipt says that it is of it", podNames(j.orphans), j.Object)
	})
	for _, p := range v.census.strays(v.Pods) {
		ref := v.census.strayRef(p)
		found = append(found, Reason{PodOrphaned, ref, fmt.Sprintf("%s carries the nonce of attempt %s, and no acknowledged Job answers for it", p.Object, ref.Attempt)})
	}
	return found
}

// remaining: something of the Job was there when it was last read. Of a Job that
// is gone nothing was, and of one in conflict other words are due. An orphaned Pod is
// no part of it and takes nothing away from it.
func (j *job) remaining() bool {
	return !j.conflict && (j.current != nil || len(j.owned) > 0 || len(j.unlisted()) > 0)
}

// unlisted are the recorded Pods that are still there and not in the last list.
func (j *job) unlisted() (left []Child) {
	for _, child := range j.Children {
		is := func(p Pod) bool { return p.Object.UID == child.Object.UID }
		if _, here := j.childHere[child.Object.UID]; here && !slices.ContainsFunc(j.owned, is) && !slices.ContainsFunc(j.orphans, is) {
			left = append(left, child)
		}
	}
	return left
}

func (v *view) jobsRemaining() []Reason {
	return v.eachJob(JobRemaining, func(j *job) string {
		if !j.remaining() {
			return ""
		}
		return j.holdUp()
	})
}

// holdUp says what of the Job is left and which finalizers hold it. The Job's
// own "foregroundDeletion" only says that its Pods come first, so that the Pods
// are named too.
func (j *job) holdUp() string {
	its := "its "
	var parts []string
	switch {
	case j.current != nil:
		parts = append(parts, heldBy(j.Object.String(), *j.current))
	case j.confirmed:
		its = j.Object.String() + " is gone, but its "
	default:
		its = "of " + j.Object.String() + ", which could not be read, "
	}
	add := func(pod identity.Object, read Read) {
		parts = append(parts, heldBy(its+pod.String(), read))
		its = "its "
	}
	for _, p := range j.owned {
		add(p.Object, Read{Deleting: p.Deleting, Finalizers: p.Finalizers})
	}
	for _, child := range j.unlisted() {
		add(child.Object, *j.childHere[child.Object.UID])
	}
	return strings.Join(parts, ", and ")
}

func heldBy(what string, read Read) string {
	switch {
	case len(read.Finalizers) > 0:
		return what + " is still there, held by the finalizers " + strings.Join(read.Finalizers, ", ")
	case read.Deleting:
		return what + " is still there, being deleted"
	default:
		return what + " is still there, and its deletion has not begun"
	}
}

// unread: what became of the Job, or of a recorded Pod of it, is not known by the last
// answers; or everything is, and still nothing says why it is not gone. What else is
// left of it hides neither.
func (j *job) unread() bool {
	switch {
	case j.gone() || j.conflict:
		return false
	case j.current == nil && !j.confirmed:
		return true
	}
	for _, child := range j.Children {
		if _, here := j.childHere[child.Object.UID]; !here && !j.childGone[child.Object.UID] {
			return true
		}
	}
	return len(j.orphans) == 0 && !j.remaining()
}

func (v *view) jobsUnreadable() []Reason {
	return v.eachJob(JobUnreadable, func(j *job) string {
		if !j.unread() {
			return ""
		}
		return fmt.Sprintf("the absence of %s and its Pods could not be confirmed in its time", j.Object)
	})
}

func (v *view) podsUnreadable() []Reason {
	if v.stopped() || len(v.Resources)+len(v.Slots) == 0 {
		return nil
	}
	if _, ok := listed(v.Pods); ok {
		return nil
	}
	return []Reason{{Cause: PodsUnreadable, Text: "the Pods of the namespace could not be listed"}}
}

// eachSlot collects a reason per slot without a receipt of the wanted sort.
func (v *view) eachSlot(cause Cause, consumers bool, clause func(Slot) string) (found []Reason) {
	for _, slot := range v.Slots {
		if slot.Object.Consumer() != consumers {
			continue
		}
		if text := clause(slot); text != "" {
			found = append(found, Reason{cause, slot.Ref, text})
		}
	}
	return found
}

func uncertain(slot Slot) string {
	if slot.State != Uncertain || slot.Reconciled {
		return ""
	}
	return fmt.Sprintf("the create of %s (%s) was started and its outcome is not on record", slot.Object, slot.Ref)
}

func (v *view) jobCreatesUncertain() []Reason {
	return v.eachSlot(JobCreateUncertain, true, uncertain)
}

func (v *view) otherCreatesUncertain() []Reason {
	return v.eachSlot(CreateUncertain, false, uncertain)
}

// seen is the first Present read of a slot's planned name. Nothing found later
// takes it back: it was there while we looked, and nobody can say whose it was.
func seen(slot Slot) (Read, bool) {
	for _, read := range slot.Reads {
		if read.Found == Present {
			return read, true
		}
	}
	return Read{}, false
}

func unexplained(slot Slot) string {
	read, ok := seen(slot)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%s exists with the UID %s, and there is no receipt for it (%s, %s)", slot.Object, read.UID, slot.Ref, slot.State)
}

func (v *view) jobsUnexplained() []Reason { return v.eachSlot(JobUnexplained, true, unexplained) }

func (v *view) dependenciesUnexplained() []Reason {
	return v.eachSlot(DependencyUnexplained, false, unexplained)
}

// unread: the planned name could not be read when it had to be. When cleanup was
// stopped at the first reading, it did not have to be.
func (v *view) unread(slot Slot) string {
	if v.stopped() {
		return ""
	}
	_, first := readSince(slot, v.consumersEnded())
	_, last := readSince(slot, v.secondLook())
	if first && (last || !v.gaveUp(slot, v.secondLook())) {
		return ""
	}
	return fmt.Sprintf("the planned name of %s could not be read: %s", slot.Ref, slot.Object)
}

func (v *view) jobNamesUnreadable() []Reason { return v.eachSlot(JobNameUnreadable, true, v.unread) }

func (v *view) otherNamesUnreadable() []Reason { return v.eachSlot(NameUnreadable, false, v.unread) }

func (v *view) dependenciesUnsettled() (found []Reason) {
	for i := range v.dependencies {
		d := &v.dependencies[i]
		switch {
		case !d.asked || d.gone:
			// Kept by the barrier, whose reasons say why, or gone.
		case d.conflict:
			found = append(found, Reason{DependencyConflict, d.Ref, fmt.Sprintf("%s was replaced by another object with the UID %s", d.Object, d.last.UID)})
		case d.current != nil:
			found = append(found, Reason{DependencyRemaining, d.Ref, heldBy(d.Object.String(), *d.current)})
		default:
			found = append(found, Reason{DependencyUnreadable, d.Ref, fmt.Sprintf("the absence of %s could not be confirmed in its time", d.Object)})
		}
	}
	return found
}

func podNames(pods []Pod) string {
	names := make([]string, len(pods))
	for i, p := range pods {
		names[i] = p.Object.String()
	}
	return strings.Join(names, ", ")
}
