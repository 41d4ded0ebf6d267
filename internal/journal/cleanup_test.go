package journal_test

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-project/holdfast/internal/durable"
	"github.com/holdfast-project/holdfast/internal/durable/durabletest"
	"github.com/holdfast-project/holdfast/internal/evidence"
	et "github.com/holdfast-project/holdfast/internal/evidence/evidencetest"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/journal"
)

// A6.1, A6.9: a fresh private directory, an error file that always exists, and
// a result that comes last.
func TestA6_1_CleanupDirectory(t *testing.T) {
	disk := durabletest.New()
	et.Build(t, disk, root, et.Attempt{Steps: []et.Step{et.Acknowledged}})
	before := disk.Files()
	dir, _ := et.Open(t, disk, root)
	c, err := journal.NewCleanup(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got, exists := disk.Files()[filepath.Join(c.Path(), evidence.ErrorFile)]; !exists || got != "" {
		t.Errorf("the error file reads %q, exists %t", got, exists)
	}
	if err := errors.Join(c.Report("delete Secret x: refused\nby \x1b[31mred \u202egpj.exe\u2028y"), c.Observe("0001-secret.json", map[string]string{"kind": "Secret"})); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"preflight-api-started.json", ".hidden", "a/b", "", ".."} {
		if c.Observe(name, 1) == nil {
			t.Errorf("%q names an observation", name)
		}
	}
	path, err := c.Publish(evidence.Result{Version: 1, Verdict: evidence.Incomplete, Unknown: []identity.SlotRef{}})
	if err != nil {
		t.Fatal(err)
	}
	files := disk.Files()
	if got, want := files[filepath.Join(c.Path(), evidence.ErrorFile)], "delete Secret x: refused by  [31mred  gpj.exe y\n"; got != want {
		t.Errorf("the error file reads %q, want %q", got, want)
	}
	if !strings.Contains(files[path], `"complete": false`) || filepath.Dir(path) != c.Path() {
		t.Errorf("%s reads %s", path, files[path])
	}
	if err := c.Report("late"); !errors.Is(err, journal.ErrMisuse) {
		t.Errorf("a report after the result: %v", err)
	}
	for name, content := range before {
		if files[name] != content {
			t.Errorf("cleanup changed %s", name)
		}
	}
}

// A6.10: an observation or report that cannot be kept leaves no result, nor
// does a result that cannot be made durable.
func TestA6_10_NoResultAfterAFailure(t *testing.T) {
	cleanup := func(disk *durabletest.FS) error {
		dir, err := evidence.Open(disk, root)
		if err != nil {
			return err
		}
		defer func() { _ = dir.Close() }()
		c, err := journal.NewCleanup(dir)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		// The result must not depend on anybody looking at these.
		_ = c.Report("line")
		_ = c.Observe("0001-secret.json", 1)
		_, err = c.Publish(evidence.Result{Version: 1, Complete: true, Verdict: evidence.Complete})
		return err
	}
	begin := func() (*durabletest.FS, int) {
		disk := durabletest.New()
		et.Build(t, disk, root)
		return disk, len(disk.Trace())
	}
	disk, before := begin()
	if err := cleanup(disk); err != nil {
		t.Fatal(err)
	}
	for n := before + 1; n <= len(disk.Trace()); n++ {
		failing, _ := begin()
		failing.Inject(durabletest.Fault{At: n, Err: syscall.EIO})
		if err := cleanup(failing); err == nil {
			t.Errorf("%s failed, and the cleanup has a result", disk.Trace()[n-1])
		}
		stopped, _ := begin()
		stopped.StopAt(n)
		if err := cleanup(stopped); err == nil {
			t.Errorf("a cleanup that stopped at %s has a result", disk.Trace()[n-1])
		}
		for state := range stopped.CrashStates() {
			// A5.7: a cut-off cleanup does not block the next.
			et.Load(t, state, root)
		}
	}
}

// A6.15: the statement is bound to the marker's file, and given once.
func TestA6_15_Reconcile(t *testing.T) {
	disk := durabletest.New()
	et.Build(t, disk, root, et.Attempt{Steps: []et.Step{et.Acknowledged, et.Uncertain}})
	reconcile := func(slot identity.SlotRef, statement string) error {
		return journal.Reconcile(disk, root, slot, statement, now())
	}
	for name, err := range map[string]error{
		"an acknowledged slot":     reconcile(ref(secret), "x"),
		"a planned slot":           reconcile(ref(migration), "x"),
		"an unknown slot":          reconcile(ref("cache"), "x"),
		"an unknown attempt":       reconcile(identity.SlotRef{Attempt: "other", Slot: policy}, "x"),
		"an empty statement":       reconcile(ref(policy), ""),
		"a statement of two lines": reconcile(ref(policy), "a\nb"),
		"a statement too long":     reconcile(ref(policy), strings.Repeat("x", evidence.MaxStatementBytes+1)),
	} {
		if !errors.Is(err, journal.ErrMisuse) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := reconcile(ref(policy), "seen in the audit log: 403"); err != nil {
		t.Fatal(err)
	}
	if err := reconcile(ref(policy), "again"); !errors.Is(err, journal.ErrMisuse) {
		t.Errorf("a second statement: %v", err)
	}
	slot := et.Load(t, disk, root).Slots[1]
	if slot.State != evidence.StateUncertain || !slot.Reconciled || slot.Statement != "seen in the audit log: 403" {
		t.Errorf("the slot reads %+v", slot)
	}
}

// A6.15, A2.2: a reconcile that a crash cut off at any operation can be done
// again, and leaves nothing that the loader refuses.
func TestA6_15_ReconcileAfterEveryCrash(t *testing.T) {
	begin := func() (*durabletest.FS, int) {
		disk := durabletest.New()
		et.Build(t, disk, root, et.Attempt{Steps: []et.Step{et.Uncertain}})
		return disk, len(disk.Trace())
	}
	reconcile := func(disk *durabletest.FS) error {
		return journal.Reconcile(disk, root, ref(secret), et.Statement, now())
	}
	whole, before := begin()
	if err := reconcile(whole); err != nil {
		t.Fatal(err)
	}
	for n := before + 1; n <= len(whole.Trace()); n++ {
		disk, _ := begin()
		disk.StopAt(n)
		if err := reconcile(disk); err == nil {
			t.Fatalf("a reconcile that stopped at %s says that it is done", whole.Trace()[n-1])
		}
		for once := range disk.CrashStates() {
			again := once.Killed()
			if err := reconcile(again); err != nil && !errors.Is(err, journal.ErrMisuse) {
				t.Fatalf("again after a crash at %s: %v", whole.Trace()[n-1], err)
			}
			dir, err := evidence.Open(again, root)
			if err != nil {
				t.Fatal(err)
			}
			inventory, err := dir.Load(et.Expectation(et.Parameters()))
			if err != nil || !inventory.Slots[0].Reconciled {
				t.Fatalf("after a crash at %s and again: %v", whole.Trace()[n-1], err)
			}
		}
	}
}

// A1.2: reconcile takes the lock.
func TestA1_2_ReconcileIsRefusedBesideAnother(t *testing.T) {
	disk := durabletest.New()
	et.Build(t, disk, root, et.Attempt{Steps: []et.Step{et.Uncertain}})
	et.Open(t, disk, root)
	err := journal.Reconcile(disk, root, ref(secret), "x", now())
	if !errors.Is(err, durable.ErrLocked) || !strings.Contains(err.Error(), "another process holds this evidence") {
		t.Errorf("got %v", err)
	}
}
