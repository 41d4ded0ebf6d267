package journal

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-project/holdfast/internal/durable"
	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/strictjson"
)

// Reconcile records the release owner's statement on an uncertain slot (A6.15),
// bound to the SHA-256 of its started marker: offline, under the lock, after
// A5.2 and A5.4 to A5.10. A refusal of the evidence is an *evidence.Refusal; a
// slot that is not uncertain, a second statement, and a text that
// evidence.ValidStatement refuses are ErrMisuse.
func Reconcile(disk durable.FS, path string, ref identity.SlotRef, statement string, now time.Time) error {
	if !evidence.ValidStatement(statement) {
		return misuse("the statement must be text of 1 to %d bytes on one line", evidence.MaxStatementBytes)
	}
	dir, err := evidence.Open(disk, path)
	if err != nil {
		return err
	}
	return errors.Join(reconcile(dir, ref, statement, now), dir.Close())
}

func reconcile(dir *evidence.Dir, ref identity.SlotRef, statement string, now time.Time) error {
	inventory, err := dir.LoadUnbound()
	if err != nil {
		return err
	}
	slot, err := uncertainSlot(inventory, ref)
	if err != nil {
		return err
	}
	record := &evidence.Reconciled{
		Record: evidence.Record{
			Version: evidence.Version, Attempt: ref.Attempt, Slot: ref.Slot, PlanSHA256: slot.PlanSHA256,
		},
		MarkerSHA256: slot.MarkerSHA256, Statement: statement, Time: evidence.FormatTime(now),
	}
	if err := evidence.Seal(record); err != nil {
		return err
	}
	data, err := strictjson.Encode(record)
	if err != nil {
		return err
	}
	attempt, err := dir.Root().OpenDir(ref.Attempt)
	if err != nil {
		return err
	}
	return errors.Join(publishStatement(attempt, evidence.ReconciledFile(ref.Slot), data), attempt.Close())
}

// publishStatement publishes the one write-once file that a later process may
// have to write where an earlier one was cut off. The earlier one's staging
// file alone is nothing (A2.2), and is in the way.
func publishStatement(attempt durable.Dir, file string, data []byte) error {
	if err := durable.RemoveStaging(attempt, file); err != nil {
		return err
	}
	return durable.Publish(attempt, file, data)
}

func uncertainSlot(inventory *evidence.Inventory, ref identity.SlotRef) (evidence.SlotState, error) {
	for _, slot := range inventory.Slots {
		switch {
		case slot.Ref != ref:
		case slot.State != evidence.StateUncertain:
			return slot, misuse("%s is %s, and only an uncertain slot is reconciled", ref, slot.State)
		case slot.Reconciled:
			return slot, misuse("%s is reconciled already", ref)
		default:
			return slot, nil
		}
	}
	return evidence.SlotState{}, fmt.Errorf("%w: no attempt of this evidence plans %s", ErrMisuse, ref)
}
