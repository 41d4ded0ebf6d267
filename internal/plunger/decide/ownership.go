package decide

import (
	"bytes"
	"time"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/holdfast-project/holdfast/internal/plunger/contract"
)

// ManagedField is one entry of an object's metadata.managedFields.
type ManagedField struct {
	// Manager is the name that the writer gave; anybody can give any name.
	Manager string
	// Operation is "Apply" or "Update".
	Operation string
	// Subresource is empty for writes to the object itself.
	Subresource string
	// Fields is the entry's fieldsV1, as JSON.
	Fields []byte
	// Time is when the API server recorded it, by its own clock.
	Time time.Time
}

// The operations of a managedFields entry.
const (
	OperationApply  = "Apply"
	OperationUpdate = "Update"
)

// owns reports whether the entry owns the exact field. An entry that cannot be
// parsed owns nothing: of two errors, taking a suspension for somebody else's
// only costs a recovery, taking it for ours would undo a decision of theirs.
func (m ManagedField) owns(path fieldpath.Path) bool {
	var set fieldpath.Set
	if err := set.FromJSON(bytes.NewReader(m.Fields)); err != nil {
		return false
	}
	return set.Has(path)
}

// Suspension says who suspends a release.
type Suspension int

// The answers of [Release.Suspension].
const (
	// Running: spec.suspend is false or absent.
	Running Suspension = iota
	// Ours: our Apply alone owns spec.suspend at true (B2.1).
	Ours
	// Shared: our Apply and another manager own it at true (B2.2).
	Shared
	// Foreign: spec.suspend is true and not ours, whoever set it, also where
	// nobody is recorded as its owner (B2.2).
	Foreign
)

// String returns the word used in messages and tests.
func (s Suspension) String() string {
	switch s {
	case Running:
		return "running"
	case Ours:
		return "ours"
	case Shared:
		return "shared"
	default:
		return "foreign"
	}
}

// Suspension decides the ownership of spec.suspend (B2.1, B2.2):
//
//  1. not true: nobody suspends, whatever managedFields say;
//  2. no entry of manager flux-plunger, operation Apply, without subresource,
//     that owns f:spec.f:suspend: foreign. An Update by a manager that calls
//     itself flux-plunger does not count, nor does an apply to /status;
//  3. such an entry alone: ours;
//  4. such an entry and any other that owns the field: shared. The API server
//     records a second owner at the same value only for an apply, and moves the
//     field away from us for any write of another value.
func (r Release) Suspension() Suspension {
	if !r.Suspended() {
		return Running
	}
	path := fieldpath.MakePathOrDie("spec", "suspend")
	ours, others := false, false
	for _, entry := range r.Managers {
		if !entry.owns(path) {
			continue
		}
		if entry.Manager == contract.FieldManager && entry.Operation == OperationApply && entry.Subresource == "" {
			ours = true
		} else {
			others = true
		}
	}
	switch {
	case !ours:
		return Foreign
	case others:
		return Shared
	default:
		return Ours
	}
}

// RepairedByUs reports whether the status label of a storage Secret was last
// changed by us: the API server's own record that this revision was rewritten
// by repair. It needs no annotation on an object that belongs to Helm, and it
// goes as soon as Helm writes another status.
func RepairedByUs(managers []ManagedField) bool {
	path := fieldpath.MakePathOrDie("metadata", "labels", "status")
	for _, entry := range managers {
		if entry.Manager == contract.FieldManager && entry.Operation == OperationUpdate && entry.owns(path) {
			return true
		}
	}
	return false
}

// FencedSince returns when our apply last changed, by the API server's clock;
// zero for a release that we do not fence.
func (r Release) FencedSince() time.Time {
	for _, entry := range r.Managers {
		if r.Fenced() && entry.Manager == contract.FieldManager && entry.Operation == OperationApply && entry.Subresource == "" {
			return entry.Time
		}
	}
	return time.Time{}
}
