package explore_test

import (
	"slices"
	"testing"

	"github.com/holdfast-project/holdfast/internal/durable"
	"github.com/holdfast-project/holdfast/internal/durable/durabletest"
	"github.com/holdfast-project/holdfast/internal/evidence"
	et "github.com/holdfast-project/holdfast/internal/evidence/evidencetest"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/strictjson"
	"github.com/holdfast-project/holdfast/test/explore"
)

const historicalDirectory = "migration-preflight-resume.ABCDEFGH"

func historicalSlot() explore.Slot {
	s := slots(historicalDirectory, 2)[2]
	s.Object.UID = et.ObjectUID(2, identity.SlotMigration)
	return s
}

// historical is a migration-resume (A5.4) in the directory of a first attempt. No
// command of ours writes one any more, so it is written here: in the order of the
// protocol (A2.5), by the real publication.
type historical struct {
	t      *testing.T
	disk   *durabletest.FS
	root   durable.Dir
	dir    durable.Dir
	record evidence.Record
	look   func(explore.Status)
}

// recordHistorical carries one out, and takes every disk that a crash of it can
// leave.
func recordHistorical(t *testing.T, album *explore.Album, b base, refused bool) {
	t.Helper()
	h := &historical{t: t, disk: b.disk.Killed()}
	now := explore.Idle
	look := func() { album.Look(h.disk, append(slices.Clone(b.statuses), now)) }
	h.look = func(next explore.Status) { now = next; look() }
	h.disk.Watch(func(durabletest.Op) { look() })
	planned := h.register()
	slot, uid := planned.Slot, et.ObjectUID(2, planned.Slot)
	h.publish(evidence.StartedFile(slot), &evidence.Started{Record: h.record, Time: evidence.FormatTime(moment()), AuditID: et.AuditID(2, slot)})
	h.look(explore.Sent)
	if refused {
		h.look(explore.Refused)
		h.publish(evidence.RejectedFile(slot), &evidence.Rejected{Record: h.record, AuditID: et.AuditID(2, slot), Code: 403, Reason: "Forbidden", Time: evidence.FormatTime(moment())})
		look()
		return
	}
	h.look(explore.Answered)
	h.publish(evidence.ReceiptFile(slot), &evidence.Receipt{
		Record: h.record, APIVersion: planned.APIVersion, Kind: planned.Kind, Namespace: planned.Namespace, Name: planned.Name,
		UID: uid, CreationTimestamp: evidence.FormatTime(moment()),
	})
	h.publish(evidence.ReleasedFile(slot), &evidence.Released{Record: h.record, UID: uid, Time: evidence.FormatTime(moment())})
	h.look(explore.Released)
	h.look(explore.Seen)
	pod := explore.Pod(identity.Object{Kind: planned.Kind, Namespace: planned.Namespace, Name: planned.Name, UID: uid})
	h.publish(evidence.ChildFile(slot, pod.UID), &evidence.Child{Record: h.record, Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, OwnerUID: uid})
	h.look(explore.Recorded)
}

func (h *historical) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// register makes the attempt durable: its directory, its plan, its registry entry.
func (h *historical) register() evidence.PlannedSlot {
	h.t.Helper()
	var err error
	h.root, err = h.disk.Open("/evidence")
	h.must(err)
	h.dir, err = h.root.MakeDir(historicalDirectory)
	h.must(err)
	h.must(h.root.Sync())
	plan := et.Plan(2)
	plan.Version, plan.Attempt, plan.Kind, plan.Slots = evidence.Version, historicalDirectory, evidence.MigrationResume, plan.Slots[2:3]
	data, err := strictjson.Encode(plan)
	h.must(err)
	h.must(durable.Publish(h.dir, evidence.PlanFile, data))
	info, err := h.dir.Stat()
	h.must(err)
	var registry evidence.Journal
	content := []byte(h.disk.Files()["/evidence/"+evidence.JournalFile])
	h.must(strictjson.Decode(content, len(content), &registry))
	registry.Attempts = append(registry.Attempts, evidence.Attempt{
		Kind: evidence.MigrationResume, Name: historicalDirectory, PlanSHA256: strictjson.Sum(data),
		Directory: identity.Directory{Path: h.dir.Path(), Inode: info.Inode, BirthTime: info.BirthTime},
	})
	data, err = strictjson.Encode(registry)
	h.must(err)
	h.must(durable.Replace(h.root, evidence.JournalFile, data))
	h.record = evidence.Record{Version: evidence.Version, Attempt: historicalDirectory, Slot: identity.SlotMigration, PlanSHA256: registry.Attempts[len(registry.Attempts)-1].PlanSHA256}
	return plan.Slots[0]
}

func (h *historical) publish(name string, record evidence.Sealed) {
	h.t.Helper()
	h.must(evidence.Seal(record))
	data, err := strictjson.Encode(record)
	h.must(err)
	h.must(durable.Publish(h.dir, name, data))
}
