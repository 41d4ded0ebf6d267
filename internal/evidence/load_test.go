package evidence_test

import (
	"slices"
	"testing"

	"github.com/holdfast-project/holdfast/internal/durable/durabletest"
	"github.com/holdfast-project/holdfast/internal/evidence"
	et "github.com/holdfast-project/holdfast/internal/evidence/evidencetest"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/strictjson"
)

const root = "/evidence"

// all is a startup attempt in which every slot was created and every Job has a
// Pod.
func all() et.Attempt {
	return et.Attempt{Steps: []et.Step{et.Acknowledged, et.Acknowledged, et.WithChild, et.WithChild, et.WithChild}}
}

func TestA5_11_InventoryIsFlatOverAllAttempts(t *testing.T) {
	disk := durabletest.New()
	et.Build(t, disk, root, all(), et.Attempt{Steps: []et.Step{et.Acknowledged, et.Acknowledged, et.WithChild, et.Reconciled}})
	inv := et.Load(t, disk, root)

	want := []evidence.State{
		evidence.StateAcknowledged, evidence.StateAcknowledged, evidence.StateAcknowledged,
		evidence.StateAcknowledged, evidence.StateAcknowledged,
		evidence.StateAcknowledged, evidence.StateAcknowledged, evidence.StateAcknowledged,
		evidence.StateUncertain, evidence.StatePlanned,
	}
	if len(inv.Slots) != len(want) || len(inv.Resources) != 8 || len(inv.Plans) != 2 {
		t.Fatalf("%d slots, %d resources, %d plans", len(inv.Slots), len(inv.Resources), len(inv.Plans))
	}
	for i, slot := range inv.Slots {
		if slot.State != want[i] {
			t.Errorf("slot %d %s is %s; want %s", i, slot.Ref, slot.State, want[i])
		}
	}
	api := inv.Slots[8]
	if !api.Reconciled || api.Statement != et.Statement || api.AuditID != et.AuditID(1, identity.SlotAPI) {
		t.Errorf("the uncertain slot reads %+v", api)
	}
	migration := inv.Resources[2]
	if migration.Object().UID != et.ObjectUID(0, identity.SlotMigration) || !migration.Released() ||
		len(migration.Children()) != 1 || migration.Children()[0].UID != et.PodUID(0, identity.SlotMigration) {
		t.Errorf("the migration Job reads %+v", migration)
	}
	if inv.Resources[0].Released() || inv.Resources[0].Nonce() != et.Plan(0).Nonce {
		t.Errorf("the Secret reads %+v", inv.Resources[0])
	}
}

func TestA5_11_EmptyRegistryIsValid(t *testing.T) {
	disk := durabletest.New()
	et.Build(t, disk, root)
	if inv := et.Load(t, disk, root); len(inv.Slots) != 0 || len(inv.Resources) != 0 {
		t.Fatalf("an empty registry reads %+v", inv)
	}
}

// A5.11: what each slot and resource says of itself, whole: a deletion, an advice and
// a report rest on every field.
func TestA5_11_EveryField(t *testing.T) {
	disk := durabletest.New()
	et.Build(t, disk, root, et.Attempt{Steps: []et.Step{et.Acknowledged, et.Acknowledged, et.WithChild, et.Rejected}}, et.Attempt{Steps: []et.Step{et.Uncertain}})
	inv := et.Load(t, disk, root)
	states := ""
	for order, slot := range inv.Slots {
		at := order / 5
		planned := et.Plan(at).Slots[order%5]
		want := evidence.SlotState{
			Ref: identity.SlotRef{Attempt: inv.Journal.Attempts[at].Name, Slot: planned.Slot}, Object: planned.Object(),
			Nonce: et.Plan(at).Nonce, PlanSHA256: inv.Journal.Attempts[at].PlanSHA256,
		}
		states += string(slot.State) + " "
		want.State = slot.State
		if slot.State != evidence.StatePlanned {
			marker := disk.Files()[root+"/"+want.Ref.Attempt+"/"+evidence.StartedFile(planned.Slot)]
			want.AuditID, want.MarkerSHA256 = et.AuditID(at, planned.Slot), strictjson.Sum([]byte(marker))
		}
		if slot != want {
			t.Errorf("got %+v, want %+v", slot, want)
		}
	}
	if want := "acknowledged acknowledged acknowledged rejected planned uncertain planned planned planned planned "; states != want {
		t.Errorf("states %s, want %s", states, want)
	}
	for order, resource := range inv.Resources {
		planned := et.Plan(0).Slots[order]
		object := planned.Object()
		object.UID = et.ObjectUID(0, planned.Slot)
		if resource.Ref() != inv.Slots[order].Ref || resource.Object() != object || resource.Nonce() != et.Plan(0).Nonce ||
			resource.Released() != (planned.Slot == identity.SlotMigration) {
			t.Errorf("resource %d reads %+v", order, resource)
		}
	}
	migration := inv.Resources[2].Object()
	want := identity.Object{APIVersion: "v1", Kind: "Pod", Namespace: et.Namespace, Name: migration.Name + "-abcde", UID: et.PodUID(0, identity.SlotMigration)}
	if children := inv.Resources[2].Children(); len(children) != 1 || children[0] != want {
		t.Errorf("children %+v, want %+v", children, want)
	}
	if len(inv.Resources) != 3 || inv.Parameters.Namespace != et.Namespace || len(inv.Plans) != 2 || inv.Plans[1].Nonce != et.Plan(1).Nonce {
		t.Errorf("%d resources, %+v, %d plans", len(inv.Resources), inv.Parameters, len(inv.Plans))
	}
}

// A5.11: children are sorted by UID, and what is handed out is a copy.
func TestA5_11_ChildrenAreSortedCopies(t *testing.T) {
	disk := durabletest.New()
	et.Build(t, disk, root, all())
	const slot = identity.SlotWorker
	uids := []string{et.PodUID(0, slot)}
	for _, name := range []string{"a", "b", "c", "d"} {
		uids = append(uids, et.UID(name))
		disk.Place(attempt+"/"+evidence.ChildFile(slot, et.UID(name)), 0o600, bound(disk, slot, func(r evidence.Record) evidence.Sealed {
			return &evidence.Child{Record: r, Namespace: et.Namespace, Name: name, UID: et.UID(name), OwnerUID: et.ObjectUID(0, slot)}
		}))
	}
	slices.Sort(uids)
	worker := et.Load(t, disk, root).Resources[4]
	var got []string
	for i, child := range worker.Children() {
		got = append(got, child.UID)
		worker.Children()[i] = identity.Object{}
	}
	if !slices.Equal(got, uids) || worker.Children()[0].UID == "" {
		t.Errorf("children %q, want %q", got, uids)
	}
}
