package evidence_test

import (
	"testing"

	"github.com/holdfast-project/holdfast/internal/durable/durabletest"
	"github.com/holdfast-project/holdfast/internal/evidence"
	et "github.com/holdfast-project/holdfast/internal/evidence/evidencetest"
	"github.com/holdfast-project/holdfast/internal/identity"
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
