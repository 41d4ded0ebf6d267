// Package truth is the ownership truth table of flux-plunger: who wrote
// spec.suspend, its value, whether the release is terminating, fenced and marked
// as processed, and whether it is the object that this process held or one that
// was created again under the name. Each of its cells has one expectation,
// written as a rule of the specification (B2.1 to B2.4, B3.1, B4.4, B5.1, B5.7).
//
// The table is asked twice: of the pure function with the managedFields that are
// written here, and of a real API server with those that it records. Its
// invariant: an expectation never looks at managedFields, only at who wrote what.
// It must not import a client.
package truth

import (
	"fmt"
	"time"

	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
)

// Size is the number of cells.
const Size = 9 * 3 * 2 * 2 * 3 * 2

// Manager is who wrote spec.suspend last, and how.
type Manager string

// The managers. What each needs on a real API server is the live test's.
const (
	Nobody           Manager = "none"
	Us               Manager = "ours"
	OtherApply       Manager = "other Apply"
	OtherUpdate      Manager = "other Update"
	Both             Manager = "shared"
	Ancient          Manager = "ancient-changes"
	BeforeFirstApply Manager = "before-first-apply"
	SpoofedName      Manager = "spoofed name"
	OtherSubresource Manager = "other subresource"
)

func managers() []Manager {
	return []Manager{Nobody, Us, OtherApply, OtherUpdate, Both, Ancient, BeforeFirstApply, SpoofedName, OtherSubresource}
}

// Value is spec.suspend.
type Value string

// The values.
const (
	Absent Value = "absent"
	False  Value = "false"
	True   Value = "true"
)

// Mark is the processed annotation (B4.2).
type Mark string

// The marks: none, the number alone as an earlier flux-plunger leaves it, and
// the number with the noted UID.
const (
	NoMark  Mark = "none"
	Old     Mark = "old"
	Current Mark = "current"
)

// Cell is one cell of the table.
type Cell struct {
	Manager             Manager
	Value               Value
	Terminating, Fenced bool
	Mark                Mark
	// Recreated is true where the object that this process held is gone, and this
	// is another one of its name.
	Recreated bool
}

// Cells returns the whole table.
func Cells() (all []Cell) {
	for _, manager := range managers() {
		for _, value := range []Value{Absent, False, True} {
			for _, mark := range []Mark{NoMark, Old, Current} {
				for bits := range 8 {
					all = append(all, Cell{Manager: manager, Value: value, Mark: mark,
						Terminating: bits&1 != 0, Fenced: bits&2 != 0, Recreated: bits&4 != 0})
				}
			}
		}
	}
	return all
}

func (c Cell) String() string {
	return fmt.Sprintf("%s, suspend %s, terminating %t, fenced %t, mark %s, recreated %t",
		c.Manager, c.Value, c.Terminating, c.Fenced, c.Mark, c.Recreated)
}

// Answer is what is decided about a cell.
type Answer struct {
	Owner  decide.Suspension
	Verb   decide.Verb
	Reason decide.Reason
}

// Ask puts the question to the pure function.
func Ask(in decide.Input) Answer {
	in.Memory = in.Memory.Look(*in.Release)
	action := decide.Next(in)
	answer := Answer{Owner: in.Release.Suspension(), Verb: action.Verb}
	if len(action.Events) > 0 {
		answer.Reason = action.Events[0].Reason
	}
	return answer
}

// Want is the expectation.
func (c Cell) Want() Answer {
	owner := c.owner()
	verb := c.verb(owner)
	return Answer{Owner: owner, Verb: verb, Reason: c.reason(owner, verb)}
}

// owner: only our own Apply makes a suspension ours, and only alone (B2.1, B2.2).
func (c Cell) owner() decide.Suspension {
	switch {
	case c.Value != True:
		return decide.Running
	case c.Manager == Us:
		return decide.Ours
	case c.Manager == Both:
		return decide.Shared
	default:
		return decide.Foreign
	}
}

func (c Cell) verb(owner decide.Suspension) decide.Verb {
	if c.Terminating {
		return c.verbDeleted(owner)
	}
	switch {
	case owner == decide.Ours && c.Recreated:
		return decide.Lift // B4.4: found, not set by this process
	case owner == decide.Ours && !c.Fenced:
		return decide.Acquire // B3.1: never without its fence
	case owner == decide.Shared && c.Fenced:
		return decide.Lift // B2.2: only our claim goes
	case owner == decide.Shared:
		return decide.DropFence // B2.2
	case c.Fenced:
		return decide.ReadStorage // B3.4, B4.3: the storage decides
	default:
		return decide.None
	}
}

func (c Cell) verbDeleted(owner decide.Suspension) decide.Verb {
	switch {
	case owner == decide.Running && c.Fenced:
		return decide.Wait // B5.3
	case owner == decide.Ours && c.Fenced:
		return decide.ReadStorage // B5.7: before the lift
	case owner == decide.Shared, owner == decide.Ours, owner == decide.Foreign && c.Fenced:
		return decide.DropFence // B2.3, B5.1
	default:
		return decide.None
	}
}

func (c Cell) reason(owner decide.Suspension, verb decide.Verb) decide.Reason {
	others := owner == decide.Foreign || owner == decide.Shared
	switch {
	case c.Terminating && others && c.Mark != NoMark:
		return decide.UninstallSkipped // B2.3
	case c.Terminating && others:
		return decide.DeletedWhileSuspended // B2.3
	case owner == decide.Foreign && c.Mark != NoMark && !verb.Reads():
		return decide.SuspensionNotOwned // B2.4
	default:
		return ""
	}
}

// Annotations are the cell's mark.
func (c Cell) Annotations() map[string]string {
	switch c.Mark {
	case Old:
		return map[string]string{contract.ProcessedVersion: "1"}
	case Current:
		return map[string]string{contract.ProcessedVersion: "1", contract.ProcessedUID: "u1@1"}
	default:
		return map[string]string{}
	}
}

// Finalizers are the cell's, helm-controller's among them.
func (c Cell) Finalizers() []string {
	if c.Fenced {
		return []string{contract.HelmFinalizer, contract.Fence}
	}
	return []string{contract.HelmFinalizer}
}

// Suspend is the cell's value as a decision reads it: absent and false are the
// same to it.
func (c Cell) Suspend() *bool {
	if c.Value == True {
		yes := true
		return &yes
	}
	return nil
}

// Quiet fills in what makes nothing but the suspension interesting: Ready,
// remembered, and, where the release is the one that this process held, its
// memory of that.
func (c Cell) Quiet(r decide.Release) decide.Input {
	r.Status = decide.Status{ObservedGeneration: r.Generation, StorageNamespace: r.Namespace,
		Ready:   decide.Condition{Status: "True", Reason: "UpgradeSucceeded", ObservedGeneration: r.Generation},
		History: []decide.Snapshot{{Name: r.Name, Namespace: r.Namespace, Version: 1, Status: "deployed"}}}
	in := decide.Input{Release: &r, Now: time.Now(), Options: decide.Options{
		Strategy: decide.Reclaim, FenceUntil: decide.UntilRemembered, UnprovenUninstall: decide.ReleaseUnproven}}
	if !c.Recreated {
		in.Memory.HoldGeneration, in.Memory.HoldUID, in.Memory.HoldVersion = r.Generation, "u1", 1
	}
	return in
}

// Input is the cell for the pure function, with managedFields as they are
// documented to be.
func (c Cell) Input() decide.Input {
	r := decide.Release{Namespace: "ns", Name: "app", UID: "uid", ResourceVersion: "7", Generation: 4,
		Finalizers: c.Finalizers(), Annotations: c.Annotations(), Managers: c.entries(), Spec: decide.Spec{Suspend: c.Suspend()}}
	if c.Terminating {
		r.DeletionTimestamp, r.Generation = time.Now(), 5
	}
	return c.Quiet(r)
}

func (c Cell) entries() []decide.ManagedField {
	if c.Value == Absent {
		return nil
	}
	entry := func(manager, operation, subresource string) decide.ManagedField {
		return decide.ManagedField{Manager: manager, Operation: operation, Subresource: subresource,
			Fields: []byte(`{"f:spec":{"f:suspend":{}}}`)}
	}
	us := entry(contract.FieldManager, decide.OperationApply, "")
	applier := entry("kustomize-controller", decide.OperationApply, "")
	return map[Manager][]decide.ManagedField{
		Us: {us}, OtherApply: {applier}, OtherUpdate: {entry("flux", decide.OperationUpdate, "")}, Both: {us, applier},
		Ancient: {entry("ancient-changes", decide.OperationUpdate, "")}, BeforeFirstApply: {entry("before-first-apply", decide.OperationUpdate, "")},
		SpoofedName:      {entry(contract.FieldManager, decide.OperationUpdate, "")},
		OtherSubresource: {entry(contract.FieldManager, decide.OperationApply, "status")},
	}[c.Manager]
}
