package decide

import (
	"slices"

	"github.com/holdfast-project/holdfast/internal/identity"
)

// Verdict is what may be claimed. The words are those of the result file.
type Verdict string

// The verdicts (A6.10, A6.15).
const (
	Complete   Verdict = "complete"
	Incomplete Verdict = "incomplete"
	Reconciled Verdict = "reconciled"
)

// Outcome is the end of one resource or planned name, in the words of the
// result file (A6.9).
type Outcome string

// The outcomes.
const (
	OutcomeAbsent      Outcome = "absent"
	OutcomeRetained    Outcome = "retained"
	OutcomeConflict    Outcome = "conflict"
	OutcomeOrphaned    Outcome = "orphaned"
	OutcomeUnexplained Outcome = "unexplained"
	OutcomeRemaining   Outcome = "remaining"
	OutcomeUnreadable  Outcome = "unreadable"
)

// Conclusion is the end of a cleanup.
type Conclusion struct {
	Verdict Verdict
	// Unknown are the uncertain slots, reconciled ones among them (A6.15).
	Unknown []identity.SlotRef
	// Reasons say why the verdict is not Complete.
	Reasons []Reason
	// Retained says what kept the dependencies; empty when none was kept.
	Retained  []Reason
	Resources []Ending
	Slots     []Ending
	Pods      []PodEnding
}

// Ending is the end of one resource or planned name.
type Ending struct {
	Ref     identity.SlotRef
	Object  identity.Object
	Outcome Outcome
	// Found is what was last read of the name, when something was there.
	Found *Read
	// CarriesNonce is true when what stands at a planned name has the plan's
	// nonce. It describes a candidate and authorises nothing.
	CarriesNonce bool
}

// Relation says why a Pod is named in the result.
type Relation string

// The relations.
const (
	Owned    Relation = "owned"
	Recorded Relation = "recorded"
	Orphaned Relation = "orphaned"
	Replaced Relation = "conflict"
)

// PodEnding is a Pod that holds the cleanup up.
type PodEnding struct {
	Ref      identity.SlotRef
	Object   identity.Object
	Relation Relation
	Found    Read
}

func (v *view) conclude() Conclusion {
	c := Conclusion{Reasons: v.shortcomings(), Verdict: Complete}
	for _, slot := range v.Slots {
		if slot.State == Uncertain {
			c.Unknown = append(c.Unknown, slot.Ref)
			c.Verdict = Reconciled
		}
	}
	if len(c.Reasons) > 0 {
		c.Verdict = Incomplete
	}
	for i := range v.jobs {
		c.Resources = append(c.Resources, v.endJob(&v.jobs[i]))
		c.Pods = append(c.Pods, v.jobs[i].podEndings()...)
	}
	for i := range v.dependencies {
		c.Resources = append(c.Resources, v.endDependency(&v.dependencies[i]))
	}
	for _, slot := range v.Slots {
		c.Slots = append(c.Slots, v.endSlot(slot))
	}
	for _, p := range v.census.strays(v.Pods) {
		ref := v.census.strayRef(p)
		c.Pods = append(c.Pods, podEnding(ref, p, Orphaned))
	}
	if slices.ContainsFunc(c.Resources, func(e Ending) bool { return e.Outcome == OutcomeRetained }) {
		c.Retained = v.barrier()
	}
	return c
}

// absent is what an absence read is worth: nothing, when the readings of the
// cluster's identity around it disagree.
func (v *view) absent() Outcome {
	if clusterDoubt(v.State) != "" {
		return OutcomeUnreadable
	}
	return OutcomeAbsent
}

func (v *view) endJob(j *job) Ending {
	e := Ending{Ref: j.Ref, Object: j.Object, Found: j.current}
	switch {
	case j.conflict:
		e.Outcome = OutcomeConflict
		if j.replaced == nil {
			e.Found = j.replacedBy
		}
	case j.gone():
		e.Outcome = v.absent()
	case j.remaining():
		e.Outcome = OutcomeRemaining
	case len(j.orphans) > 0:
		e.Outcome = OutcomeOrphaned
	default:
		e.Outcome = OutcomeUnreadable
	}
	return e
}

func (v *view) endDependency(d *dependency) Ending {
	e := Ending{Ref: d.Ref, Object: d.Object, Found: d.current}
	switch {
	case !d.asked:
		e.Outcome = OutcomeRetained
	case d.conflict:
		e.Outcome, e.Found = OutcomeConflict, d.last
	case d.gone:
		e.Outcome = v.absent()
	case d.current != nil:
		e.Outcome = OutcomeRemaining
	default:
		e.Outcome = OutcomeUnreadable
	}
	return e
}

func (v *view) endSlot(slot Slot) Ending {
	e := Ending{Ref: slot.Ref, Object: slot.Object}
	read, present := seen(slot)
	switch {
	case present:
		// Its create may be uncertain too; what is there is what a human needs.
		e.Outcome, e.Found = OutcomeUnexplained, &read
		e.CarriesNonce = read.Nonce != "" && read.Nonce == slot.Nonce
	case v.unread(slot) != "":
		e.Outcome = OutcomeUnreadable
	default:
		e.Outcome = v.absent()
	}
	return e
}

func (j *job) podEndings() (pods []PodEnding) {
	named := map[string]bool{}
	add := func(p PodEnding) {
		if !named[p.Object.UID] {
			named[p.Object.UID] = true
			pods = append(pods, p)
		}
	}
	for _, p := range j.orphans {
		add(podEnding(j.Ref, p, Orphaned))
	}
	for _, p := range j.owned {
		add(podEnding(j.Ref, p, Owned))
	}
	for _, child := range j.Children {
		if here, ok := j.childHere[child.Object.UID]; ok {
			add(PodEnding{j.Ref, child.Object, Recorded, *here})
		}
	}
	if j.replaced != nil {
		add(PodEnding{j.Ref, j.replaced.Object, Replaced, *j.replacedBy})
	}
	return pods
}

func podEnding(ref identity.SlotRef, p Pod, relation Relation) PodEnding {
	return PodEnding{ref, p.Object, relation, Read{Found: Present, UID: p.Object.UID, Nonce: p.Nonce, Deleting: p.Deleting, Finalizers: p.Finalizers}}
}
