package journal_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-project/holdfast/internal/durable/durabletest"
	"github.com/holdfast-project/holdfast/internal/evidence"
	et "github.com/holdfast-project/holdfast/internal/evidence/evidencetest"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/journal"
)

// truth is what a run knows of itself when it dies: which calls it made, and
// which of them returned nil. A create leaves only after a Start that did.
type truth struct {
	startCalled, started     map[identity.Slot]bool
	ackCalled, acked         map[identity.Slot]bool
	releaseCalled, released  map[identity.Slot]bool
	childCalled, childKnown  map[identity.Slot]bool
	lockRemoved, lockRemoval bool
}

func newTruth() *truth {
	set := func() map[identity.Slot]bool { return map[identity.Slot]bool{} }
	return &truth{
		startCalled: set(), started: set(), ackCalled: set(), acked: set(),
		releaseCalled: set(), released: set(), childCalled: set(), childKnown: set(),
	}
}

// run makes every call of a five-slot run, whatever fails, so that a journal
// that goes on after a failure is caught.
func run(disk *durabletest.FS) *truth {
	know := newTruth()
	j, err := journal.Create(disk, root, setup())
	if err != nil {
		return know
	}
	a, err := j.Register(evidence.Startup, et.Plan(0))
	if err != nil {
		return know
	}
	// The verdict is Start's own to know.
	_, _ = j.Load(et.Expectation(j.Parameters()))
	for _, planned := range a.Plan().Slots {
		slot := planned.Slot
		created := planned.Object()
		created.UID = et.ObjectUID(0, slot)
		know.startCalled[slot] = true
		know.started[slot] = a.Start(slot, et.AuditID(0, slot), now()) == nil
		if !know.started[slot] {
			continue
		}
		know.ackCalled[slot] = true
		know.acked[slot] = a.Acknowledge(slot, created, "2026-05-01T12:00:00Z") == nil
		if !created.Consumer() {
			continue
		}
		know.releaseCalled[slot] = true
		know.released[slot] = a.Release(slot, now()) == nil
		pod := identity.Object{APIVersion: "v1", Kind: "Pod", Namespace: et.Namespace, Name: "pod", UID: et.PodUID(0, slot)}
		know.childCalled[slot] = true
		know.childKnown[slot] = a.Child(slot, pod, created.UID) == nil
	}
	know.lockRemoval = true
	know.lockRemoved = j.Finish() == nil
	return know
}

// judge holds what the loader says of a disk against what the run knew.
func judge(t *testing.T, disk *durabletest.FS, know *truth) {
	t.Helper()
	dir, err := evidence.Open(disk, root)
	if err == nil {
		defer func() { _ = dir.Close() }()
		var inventory *evidence.Inventory
		if inventory, err = dir.Load(et.Expectation(et.Parameters())); err == nil {
			judgeInventory(t, inventory, know)
			judgeLock(t, disk, know)
			return
		}
	}
	// A refusal loses nothing only while nothing was sent, and must say so.
	for slot, sent := range know.started {
		if sent {
			t.Errorf("%s may have been created, and its evidence is refused: %v", slot, err)
		}
	}
	if text := err.Error(); !strings.HasSuffix(text, "the run was killed before anything could be created") &&
		!strings.HasSuffix(text, root+" does not exist") {
		t.Errorf("a crash of ours is refused with: %v", err)
	}
}

func judgeInventory(t *testing.T, inventory *evidence.Inventory, know *truth) {
	t.Helper()
	resources := map[identity.Slot]evidence.Acknowledged{}
	for _, r := range inventory.Resources {
		resources[r.Ref().Slot] = r
		if r.Object().UID != et.ObjectUID(0, r.Ref().Slot) {
			t.Errorf("%s has the invented UID %s", r.Ref(), r.Object().UID)
		}
	}
	for _, s := range inventory.Slots {
		slot := s.Ref.Slot
		r, acknowledged := resources[slot]
		switch {
		case know.acked[slot] && !acknowledged:
			t.Errorf("the durable receipt of %s is lost: %s", slot, s.State)
		case acknowledged && !know.ackCalled[slot]:
			t.Errorf("a receipt of %s is invented", slot)
		case know.started[slot] && s.State == evidence.StatePlanned:
			t.Errorf("%s may have been created and reads as planned", slot)
		case !know.startCalled[slot] && s.State != evidence.StatePlanned:
			t.Errorf("%s was never started and reads as %s", slot, s.State)
		case know.released[slot] && !r.Released():
			t.Errorf("the durable release of %s is lost", slot)
		case r.Released() && !know.releaseCalled[slot]:
			t.Errorf("a release of %s is invented", slot)
		case know.childKnown[slot] && len(r.Children()) != 1:
			t.Errorf("the durable child of %s is lost", slot)
		case len(r.Children()) > 0 && !know.childCalled[slot]:
			t.Errorf("a child of %s is invented", slot)
		}
	}
}

// A1.3: .upgrade-lock stays until the run was told that it succeeded.
func judgeLock(t *testing.T, disk *durabletest.FS, know *truth) {
	t.Helper()
	_, exists := disk.Files()[root+"/.upgrade-lock"]
	if !exists && !know.lockRemoval {
		t.Error(".upgrade-lock is gone before the end of the run")
	}
	if exists && know.lockRemoved {
		t.Error(".upgrade-lock came back after its durable removal")
	}
}

// A2.1 to A2.5, A5.9: the run stops at each of its operations, and the loader
// reads every disk that the crash may legally leave.
func TestA2_5_EveryCrashStateOfARun(t *testing.T) {
	whole := durabletest.New()
	run(whole)
	boundaries := len(whole.Trace())
	states := 0
	for n := 1; n <= boundaries+1; n++ {
		disk := durabletest.New()
		disk.StopAt(n)
		know := run(disk)
		for state := range disk.CrashStates() {
			states++
			judge(t, state, know)
			if t.Failed() {
				t.Fatalf("at operation %d (%s), on the disk %v", n, disk.Trace()[max(n-2, 0)], state.Paths())
			}
		}
	}
	t.Logf("%d boundaries, %d disks", boundaries, states)
	if boundaries != 184 || states != 494 {
		t.Errorf("%d boundaries and %d disks, want 184 and 494: the space has changed", boundaries, states)
	}
}

// A2.4: each operation fails, once or for good, with and without having taken
// effect. No create leaves after the first failure, the journal says that same
// failure for ever, and what is on the disk is never more than what was known.
func TestA2_4_EveryFailureOfARun(t *testing.T) {
	whole := durabletest.New()
	run(whole)
	for n := 1; n <= len(whole.Trace()); n++ {
		for _, sticky := range []bool{false, true} {
			for _, applied := range []bool{false, true} {
				fault := durabletest.Fault{At: n, Err: syscall.EIO, Sticky: sticky, Applied: applied}
				disk := durabletest.New()
				disk.Inject(fault)
				know := run(disk)
				for _, op := range disk.Trace()[n:] {
					if op.Kind != durabletest.Close && op.Kind != durabletest.Fsync && op.Kind != durabletest.FsyncDir {
						t.Errorf("%s still happened", op)
					}
				}
				for state := range disk.CrashStates() {
					judge(t, state, know)
				}
				judge(t, disk.Killed(), know)
				if t.Failed() {
					t.Fatalf("after %s failed as %+v", disk.Trace()[n-1], fault)
				}
			}
		}
	}
}

func TestA2_4_PoisonedJournalRepeatsItsFirstFailure(t *testing.T) {
	disk := durabletest.New()
	j, a := create(t, disk)
	load(t, j)
	disk.Inject(durabletest.Fault{At: len(disk.Trace()) + 3, Err: syscall.EIO}) // the marker's fsync
	secret := a.Plan().Slots[0]
	if err := a.Start(secret.Slot, "audit-1", now()); !errors.Is(err, syscall.EIO) {
		t.Fatalf("Start returned %v", err)
	}
	before := len(disk.Trace())
	for name, call := range map[string]func() error{
		"Start":       func() error { return a.Start(secret.Slot, "audit-2", now()) },
		"Acknowledge": func() error { return a.Acknowledge(secret.Slot, secret.Object(), "2026-05-01T12:00:00Z") },
		"Reject":      func() error { return a.Reject(secret.Slot, journal.Rejection{Code: 403}, now()) },
		"CreateError": func() error { return a.CreateError(secret.Slot, "x") },
		"Finish":      j.Finish,
		"Load":        func() error { _, err := j.Load(et.Expectation(j.Parameters())); return err },
		"Register":    func() error { _, err := j.Register(evidence.Resume, et.Plan(1)); return err },
	} {
		if err := call(); !errors.Is(err, syscall.EIO) {
			t.Errorf("%s returned %v after the failure", name, err)
		}
	}
	if !errors.Is(j.Err(), syscall.EIO) {
		t.Errorf("Err is %v", j.Err())
	}
	if after := len(disk.Trace()); after != before {
		t.Errorf("something was still done: %v", disk.Trace()[before:])
	}
}

// A2.3: what a crash leaves, a left-over staging of the registry among it, does
// not keep a resume from registering.
func TestA2_3_ResumeRegistersOnEveryCrashState(t *testing.T) {
	whole := durabletest.New()
	run(whole)
	resumed := 0
	for n := 1; n <= len(whole.Trace()); n++ {
		disk := durabletest.New()
		disk.StopAt(n)
		run(disk)
		for state := range disk.CrashStates() {
			dir, err := evidence.Open(state, root)
			if err != nil {
				continue
			}
			accepted, err := dir.Load(et.Expectation(et.Parameters()))
			if err != nil || len(accepted.Journal.Attempts) == 0 {
				continue
			}
			dir, accepted = settled(t, state, dir, accepted)
			j := journal.Reopen(dir, accepted)
			if _, err := j.Register(evidence.Resume, et.Plan(1)); err != nil {
				t.Fatalf("at operation %d: %v", n, err)
			}
			load(t, j)
			resumed++
		}
	}
	if resumed < 329 {
		t.Errorf("only %d disks were resumed", resumed)
	}
}

// settled lets the release owner state what came of an uncertain create, without
// which no resume is registered (A4.7).
func settled(t *testing.T, disk *durabletest.FS, dir *evidence.Dir, accepted *evidence.Inventory) (*evidence.Dir, *evidence.Inventory) {
	t.Helper()
	for _, slot := range accepted.Slots {
		if slot.State != evidence.StateUncertain {
			continue
		}
		if err := errors.Join(dir.Close(), journal.Reconcile(disk, root, slot.Ref, et.Statement, now())); err != nil {
			t.Fatal(err)
		}
		var err error
		if dir, err = evidence.Open(disk, root); err != nil {
			t.Fatal(err)
		}
		if accepted, err = dir.Load(et.Expectation(et.Parameters())); err != nil {
			t.Fatal(err)
		}
	}
	return dir, accepted
}

// A2.3: nor does what a crash of a resume's registration leaves, which is where a
// registry that names an attempt has a staging file beside it.
func TestA2_3_ResumeRegistersAfterACrashedResume(t *testing.T) {
	finished := durabletest.New()
	run(finished)
	register := func(disk *durabletest.FS, index int) error {
		dir, err := evidence.Open(disk, root)
		if err != nil {
			return err
		}
		accepted, err := dir.Load(et.Expectation(et.Parameters()))
		if err != nil {
			return err
		}
		_, err = journal.Reopen(dir, accepted).Register(evidence.Resume, et.Plan(index))
		return err
	}
	leftOver := 0
	for n := 1; ; n++ {
		disk := finished.Killed()
		disk.StopAt(n)
		if err := register(disk, 1); err == nil {
			break
		}
		for state := range disk.CrashStates() {
			if _, exists := state.Files()[root+"/.preflight-journal.json.staging"]; exists {
				leftOver++
			}
			if err := register(state, 2); err != nil {
				t.Fatalf("at operation %d: %v", n, err)
			}
		}
	}
	if leftOver == 0 {
		t.Error("no crash left a staging file of the registry")
	}
}
