package evidence

import (
	"slices"

	"github.com/holdfast-project/holdfast/internal/identity"
)

// Inventory is what validated evidence says, flat over all attempts (A5.11).
// Only the loader builds a complete one.
type Inventory struct {
	Parameters Parameters
	Journal    Journal
	// Plans holds the plan of each attempt, in the order of Journal.Attempts.
	Plans []Plan
	// Resources holds every acknowledged object, in the order of creation.
	Resources []Acknowledged
	// Slots holds every planned slot, acknowledged or not, in the order of
	// creation.
	Slots []SlotState
	// Warnings are for the operator: accepted, but worth a line.
	Warnings []string
}

// Acknowledged is an object that our own create made, proven by a durable
// receipt. It is the only thing that a deletion accepts. Its fields are closed
// and the loader alone builds it, so that a UID read from the live cluster can
// not be turned into one.
type Acknowledged struct {
	ref      identity.SlotRef
	object   identity.Object
	nonce    string
	released bool
	children []identity.Object
}

// Ref is the attempt and slot that it belongs to.
func (a Acknowledged) Ref() identity.SlotRef { return a.ref }

// Object is the recorded identity, with the UID of the receipt.
func (a Acknowledged) Object() identity.Object { return a.object }

// Nonce is the attempt's nonce, which the object and its Pods carry.
func (a Acknowledged) Nonce() string { return a.nonce }

// Released reports whether the release of a suspended Job was made durable, so
// that it may have had Pods (A4.2c).
func (a Acknowledged) Released() bool { return a.released }

// Children are the Pods with a receipt of their own, sorted by UID.
func (a Acknowledged) Children() []identity.Object { return slices.Clone(a.children) }

// State is how far a slot came.
type State string

// The states of a slot. An uncertain one stays uncertain when it is reconciled: a
// statement is no proof.
const (
	StatePlanned      State = "planned"
	StateUncertain    State = "uncertain"
	StateRejected     State = "rejected"
	StateAcknowledged State = "acknowledged"
)

// SlotState is one planned slot and what the evidence says of it.
type SlotState struct {
	Ref identity.SlotRef
	// Object is the planned place; it has no UID.
	Object     identity.Object
	Nonce      string
	PlanSHA256 string
	State      State
	// AuditID is that of the create request, and MarkerSHA256 the digest of the
	// started marker's file. Both are empty when it is planned only.
	AuditID      string
	MarkerSHA256 string
	// Reconciled is true when a release owner's statement is recorded
	// (A6.15), and Statement is its text.
	Reconciled bool
	Statement  string
}

// inventory flattens what was read over all attempts (A5.11).
func (l *loading) inventory() *Inventory {
	inv := &Inventory{Parameters: l.parameters, Journal: l.journal, Warnings: l.warnings}
	for _, a := range l.attempts {
		inv.Plans = append(inv.Plans, a.plan)
		for _, s := range a.slots {
			inv.Slots = append(inv.Slots, s.state())
			if s.receipt != nil {
				inv.Resources = append(inv.Resources, s.acknowledged())
			}
		}
	}
	return inv
}

func (s *slot) ref() identity.SlotRef {
	return identity.SlotRef{Attempt: s.attempt.entry.Name, Slot: s.planned.Slot}
}

// state says how far the slot came. An absent receipt is never replaced by
// looking in the cluster (A5.9): started and nothing else is uncertain.
func (s *slot) state() SlotState {
	out := SlotState{
		Ref: s.ref(), Object: s.planned.Object(), Nonce: s.attempt.plan.Nonce,
		PlanSHA256: s.attempt.entry.PlanSHA256, State: StatePlanned,
	}
	if s.started == nil {
		return out
	}
	out.AuditID, out.MarkerSHA256 = s.started.AuditID, s.startedSHA256
	switch {
	case s.receipt != nil:
		out.State = StateAcknowledged
	case s.rejected != nil:
		out.State = StateRejected
	default:
		out.State = StateUncertain
	}
	if s.reconciled != nil {
		out.Reconciled, out.Statement = true, s.reconciled.Statement
	}
	return out
}

func (s *slot) acknowledged() Acknowledged {
	a := Acknowledged{
		ref: s.ref(), object: s.receipt.Object(), nonce: s.attempt.plan.Nonce,
		released: s.released != nil,
	}
	// They were read in the order of their files' names, which end in the UIDs.
	for _, child := range s.children {
		a.children = append(a.children, identity.Object{
			APIVersion: "v1", Kind: "Pod", Namespace: child.Namespace, Name: child.Name, UID: child.UID,
		})
	}
	return a
}
