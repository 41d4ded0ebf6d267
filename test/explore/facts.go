package explore

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/holdfast-project/holdfast/internal/durable/durabletest"
	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/identity"
)

// facts are what a disk says of each slot that a registered attempt plans.
type facts map[identity.SlotRef]fact

// fact is what the files of one slot say. It is comparable.
type fact struct {
	place                                                 identity.Object
	started, acknowledged, rejected, reconciled, released bool
	// uid is that of the receipt, and children those of the Pods with a receipt,
	// in the order of their names.
	uid, children string
}

// uncertain: a create left, and nothing says what became of it. A statement of
// its owner changes nothing about that.
func (f fact) uncertain() bool { return f.started && !f.acknowledged && !f.rejected }

// read is this package's own reader of a disk that the loader has accepted. It
// shares nothing with that loader: it knows the names of files and a few fields in
// them. What the oracle takes for proven, open and stated is what this finds; were
// it what the loader says, a loader that invents a statement, or overlooks a Pod,
// would be judged by its own mistake.
func read(disk *durabletest.FS) (facts, error) {
	files := disk.Files()
	var registry struct{ Attempts []struct{ Name string } }
	if err := json.Unmarshal([]byte(files[path.Join(root, "preflight-journal.json")]), &registry); err != nil {
		return nil, fmt.Errorf("reading the registry: %w", err)
	}
	found := facts{}
	for _, attempt := range registry.Attempts {
		at := path.Join(root, attempt.Name)
		var plan struct {
			Slots []struct {
				Slot                              identity.Slot
				APIVersion, Kind, Namespace, Name string
			}
		}
		if err := json.Unmarshal([]byte(files[path.Join(at, "preflight-plan.json")]), &plan); err != nil {
			return nil, fmt.Errorf("reading the plan of %s: %w", attempt.Name, err)
		}
		for _, s := range plan.Slots {
			place := identity.Object{APIVersion: s.APIVersion, Kind: s.Kind, Namespace: s.Namespace, Name: s.Name}
			found[identity.SlotRef{Attempt: attempt.Name, Slot: s.Slot}] = readSlot(files, path.Join(at, "preflight-"+string(s.Slot)), place)
		}
	}
	return found, nil
}

// readSlot reads the files of one slot, whose names all begin alike.
func readSlot(files map[string]string, begin string, place identity.Object) fact {
	exists := func(end string) bool { _, ok := files[begin+end]; return ok }
	f := fact{
		place: place, started: exists("-started.json"), acknowledged: exists("-identity.json"), rejected: exists("-rejected.json"),
		reconciled: exists("-reconciled.json"), released: exists("-released.json"),
	}
	var receipt struct{ UID string }
	_ = json.Unmarshal([]byte(files[begin+"-identity.json"]), &receipt)
	f.uid = receipt.UID
	var children []string
	for name := range files {
		if uid, isChild := strings.CutPrefix(name, begin+"-child-"); isChild {
			children = append(children, strings.TrimSuffix(uid, ".json"))
		}
	}
	f.children = inOrder(children)
	return f
}

func inOrder(uids []string) string {
	slices.Sort(uids)
	return strings.Join(uids, " ")
}

// told is what the loader says, in the same terms.
func told(inventory *evidence.Inventory) facts {
	all := facts{}
	for _, s := range inventory.Slots {
		all[s.Ref] = fact{
			place: s.Object, started: s.State != evidence.StatePlanned, acknowledged: s.State == evidence.StateAcknowledged,
			rejected: s.State == evidence.StateRejected, reconciled: s.Reconciled,
		}
	}
	for _, r := range inventory.Resources {
		f := all[r.Ref()]
		var children []string
		for _, child := range r.Children() {
			children = append(children, child.UID)
		}
		f.place, f.uid, f.released, f.children = r.Object().Place(), r.Object().UID, r.Released(), inOrder(children)
		all[r.Ref()] = f
	}
	return all
}

// differ names a slot of which the loader says something else than the disk, or
// returns "".
func differ(disk, loader facts) string {
	refs := map[identity.SlotRef]bool{}
	for ref := range disk {
		refs[ref] = true
	}
	for ref := range loader {
		refs[ref] = true
	}
	for ref := range refs {
		if disk[ref] != loader[ref] {
			return fmt.Sprintf("of %s the disk says\n  %+v\nand the loader\n  %+v", ref, disk[ref], loader[ref])
		}
	}
	return ""
}

// brokenPromise says what a disk lacks of, or adds to, how far a slot had come:
// the first of statuses, which go on with the slots after it.
func brokenPromise(slot Slot, statuses []Status, f fact) string {
	status := statuses[0]
	if added := invented(slot, status, f); added != "" {
		return added
	}
	followed := slices.ContainsFunc(statuses[1:], func(s Status) bool { return s != Idle })
	switch {
	case status != Idle && !f.started:
		return "its create left, and its marker is not there"
	case (status >= Released || status == Answered && followed) && !f.acknowledged:
		return "something else was sent, and its receipt is not there"
	case status >= Released && !f.released:
		return "its Job was let run, and its release is not there"
	case status == Recorded && f.children != Pod(slot.Object).UID:
		return "something else was asked after its Pod was seen, and the Pod's receipt is not there"
	}
	return ""
}

// invented says what a disk claims that nothing gave.
func invented(slot Slot, status Status, f fact) string { //nolint:gocyclo // a table
	switch {
	case f.acknowledged && status < Answered:
		return "adopted: a receipt that no answer gave"
	case f.acknowledged && f.uid != slot.Object.UID:
		return "adopted: a receipt with the UID " + f.uid
	case f.children != "" && (status < Seen || f.children != Pod(slot.Object).UID):
		return "adopted: a Pod that was not seen: " + f.children
	case f.rejected && status != Refused:
		return "a rejection that no answer gave"
	case f.reconciled && status != Sent:
		return "a statement on a create that is settled"
	case f.released && status < Answered:
		return "a release of what was not made"
	}
	return ""
}
