package journal_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/holdfast-project/holdfast/internal/durable"
	"github.com/holdfast-project/holdfast/internal/durable/durabletest"
	"github.com/holdfast-project/holdfast/internal/evidence"
	et "github.com/holdfast-project/holdfast/internal/evidence/evidencetest"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/journal"
)

const (
	secret    = identity.SlotSecret
	policy    = identity.SlotNetworkPolicy
	migration = identity.SlotMigration
	api       = identity.SlotAPI
)

// object is the planned place of a slot, acknowledged with a UID.
func object(slot identity.Slot, uid string) identity.Object {
	o := et.PlannedSlot(slot, et.Plan(0).Nonce).Object()
	o.UID = uid
	return o
}

const created = "2026-05-01T12:00:00Z"

// A2.5, A3.5, A4.2c: every call out of its order, and every value that no
// record may hold, is refused and writes nothing.
func TestA2_5_OutOfOrderWritesNothing(t *testing.T) {
	uid := et.ObjectUID(0, migration)
	pod := identity.Object{APIVersion: "v1", Kind: "Pod", Namespace: et.Namespace, Name: "pod", UID: et.UID("pod")}
	steps := func(s ...et.Step) []et.Step { return s }
	for _, test := range []struct {
		name  string
		steps []et.Step
		call  func(a *journal.Attempt) error
	}{
		{"start of a later slot first", nil, func(a *journal.Attempt) error { return a.Start(policy, "x", now()) }},
		{"start while the one before is uncertain", steps(et.Uncertain), func(a *journal.Attempt) error { return a.Start(policy, "x", now()) }},
		{"start after a rejection", steps(et.Rejected), func(a *journal.Attempt) error { return a.Start(policy, "x", now()) }},
		{"start while the Job before is not released", steps(et.Acknowledged, et.Acknowledged, et.Acknowledged), func(a *journal.Attempt) error { return a.Start(api, "x", now()) }},
		{"start twice", steps(et.Uncertain), func(a *journal.Attempt) error { return a.Start(secret, "x", now()) }},
		{"start of an unknown slot", nil, func(a *journal.Attempt) error { return a.Start("cache", "x", now()) }},
		{"start with an Audit-ID that would be cut", nil, func(a *journal.Attempt) error { return a.Start(secret, strings.Repeat("a", 65), now()) }},
		{"start with a used Audit-ID", steps(et.Acknowledged), func(a *journal.Attempt) error { return a.Start(policy, et.AuditID(0, secret), now()) }},
		{"receipt before the marker", nil, func(a *journal.Attempt) error { return a.Acknowledge(secret, object(secret, uid), created) }},
		{"receipt twice", steps(et.Acknowledged), func(a *journal.Attempt) error { return a.Acknowledge(secret, object(secret, uid), created) }},
		{"receipt of another object", steps(et.Uncertain), func(a *journal.Attempt) error { return a.Acknowledge(secret, object(policy, uid), created) }},
		{"receipt without a UID", steps(et.Uncertain), func(a *journal.Attempt) error { return a.Acknowledge(secret, object(secret, ""), created) }},
		{"receipt with a UID that is none", steps(et.Uncertain), func(a *journal.Attempt) error { return a.Acknowledge(secret, object(secret, "1; rm"), created) }},
		{"receipt with the UID of another", steps(et.Acknowledged, et.Uncertain), func(a *journal.Attempt) error {
			return a.Acknowledge(policy, object(policy, et.ObjectUID(0, secret)), created)
		}},
		{"receipt without a time", steps(et.Uncertain), func(a *journal.Attempt) error { return a.Acknowledge(secret, object(secret, uid), "") }},
		{"release of a Secret", steps(et.Acknowledged), func(a *journal.Attempt) error { return a.Release(secret, now()) }},
		{"release before the receipt", steps(et.Acknowledged, et.Acknowledged, et.Uncertain), func(a *journal.Attempt) error { return a.Release(migration, now()) }},
		{"child before the release", steps(et.Acknowledged, et.Acknowledged, et.Acknowledged), func(a *journal.Attempt) error { return a.Child(migration, pod, uid) }},
		{"child of another owner", steps(et.Acknowledged, et.Acknowledged, et.Released), func(a *journal.Attempt) error { return a.Child(migration, pod, et.UID("x")) }},
		{"child that is no Pod", steps(et.Acknowledged, et.Acknowledged, et.Released), func(a *journal.Attempt) error { return a.Child(migration, object(api, et.UID("y")), uid) }},
		{"child with its Job's UID", steps(et.Acknowledged, et.Acknowledged, et.Released), func(a *journal.Attempt) error {
			twin := pod
			twin.UID = uid
			return a.Child(migration, twin, uid)
		}},
		{"rejection before the marker", nil, func(a *journal.Attempt) error { return a.Reject(secret, journal.Rejection{Code: 403}, now()) }},
		{"rejection beside a receipt", steps(et.Acknowledged), func(a *journal.Attempt) error { return a.Reject(secret, journal.Rejection{Code: 403}, now()) }},
		{"rejection by 409", steps(et.Uncertain), func(a *journal.Attempt) error { return a.Reject(secret, journal.Rejection{Code: 409}, now()) }},
		{"rejection by 500", steps(et.Uncertain), func(a *journal.Attempt) error { return a.Reject(secret, journal.Rejection{Code: 500}, now()) }},
		{"rejection without an answer", steps(et.Uncertain), func(a *journal.Attempt) error { return a.Reject(secret, journal.Rejection{}, now()) }},
		{"error of a create that was not started", nil, func(a *journal.Attempt) error { return a.CreateError(secret, "x") }},
		{"log of a Job that never ran", steps(et.Acknowledged, et.Acknowledged, et.Acknowledged), func(a *journal.Attempt) error { return a.Log(migration, nil) }},
		{"log without the receipt of a Pod", steps(et.Acknowledged, et.Acknowledged, et.Released), func(a *journal.Attempt) error { return a.Log(migration, nil) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			disk := durabletest.New()
			j, a := create(t, disk)
			load(t, j)
			for i, step := range test.steps {
				et.Walk(t, a, 0, a.Plan().Slots[i], step)
			}
			before := len(disk.Trace())
			if err := test.call(a); !errors.Is(err, journal.ErrMisuse) {
				t.Errorf("got %v, want ErrMisuse", err)
			}
			if len(disk.Trace()) != before || j.Err() != nil {
				t.Errorf("it wrote %v, and the journal has failed with %v", disk.Trace()[before:], j.Err())
			}
		})
	}
}

// A1.6: no slot starts before the run has loaded its own evidence.
func TestA1_6_NoStartBeforeLoad(t *testing.T) {
	j, a := create(t, durabletest.New())
	if err := a.Start(secret, "x", now()); !errors.Is(err, journal.ErrMisuse) {
		t.Fatalf("Start before Load returned %v", err)
	}
	load(t, j)
	if err := a.Start(secret, "x", now()); err != nil {
		t.Fatal(err)
	}
}

// A1.6: a run whose own evidence is refused cannot go on.
func TestA1_6_RefusedLoadPoisons(t *testing.T) {
	disk := durabletest.New()
	j, a := create(t, disk)
	disk.Chmod(root+"/upgrade-preflight/preflight-plan.json", 0o644)
	var refusal *evidence.Refusal
	if _, err := j.Load(et.Expectation(j.Parameters())); !errors.As(err, &refusal) {
		t.Fatalf("Load returned %v", err)
	}
	if err := a.Start(secret, "x", now()); err == nil {
		t.Fatal("a slot started on refused evidence")
	}
}

// A1.3: only a run in which every create has its receipt may be finished.
func TestA1_3_FinishRefusesAnOpenSlot(t *testing.T) {
	for _, step := range []et.Step{et.Uncertain, et.Rejected} {
		disk := durabletest.New()
		j, a := create(t, disk)
		load(t, j)
		et.Walk(t, a, 0, a.Plan().Slots[0], step)
		if err := j.Finish(); !errors.Is(err, journal.ErrMisuse) {
			t.Errorf("Finish returned %v", err)
		}
		if _, exists := disk.Files()[root+"/.upgrade-lock"]; !exists {
			t.Error(".upgrade-lock was removed")
		}
	}
}

// A1.1, A1.2: the directory must be new, and on a file system that keeps it.
func TestA1_1_CreateRefuses(t *testing.T) {
	t.Run("an existing directory", func(t *testing.T) {
		disk := durabletest.New()
		disk.Place(root, fs.ModeDir|0o700, "")
		if _, err := journal.Create(disk, root, setup()); !errors.Is(err, fs.ErrExist) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a file system in memory", func(t *testing.T) {
		disk := durabletest.New()
		disk.SetType("tmpfs")
		if _, err := journal.Create(disk, root, setup()); !errors.Is(err, durable.ErrFileSystem) {
			t.Errorf("got %v", err)
		}
		if paths := disk.Paths(); len(paths) != 0 {
			t.Errorf("it left %v", paths)
		}
	})
	t.Run("parameters that lack a value", func(t *testing.T) {
		disk, s := durabletest.New(), setup()
		s.Parameters.Context = ""
		if _, err := journal.Create(disk, root, s); err == nil || len(disk.Paths()) != 0 {
			t.Errorf("got %v and %v", err, disk.Paths())
		}
	})
	t.Run("another executable than the running one", func(t *testing.T) {
		disk, s := durabletest.New(), setup()
		s.Executable = et.Opens("replaced")
		if _, err := journal.Create(disk, root, s); err == nil || !strings.Contains(err.Error(), "changed while it ran") {
			t.Errorf("got %v", err)
		}
		if _, exists := disk.Files()[root+"/helper/upgrade-production-images"]; exists {
			t.Error("it was retained")
		}
	})
}

// A1.2: a file system that was allowed by name is recorded, and later commands
// follow the record.
func TestA1_2_AllowedFileSystemIsRecorded(t *testing.T) {
	disk, s := durabletest.New(), setup()
	disk.SetType("tmpfs")
	s.AllowFileSystem = "tmpfs"
	j, err := journal.Create(disk, root, s)
	if err != nil {
		t.Fatal(err)
	}
	if got := j.Parameters().FileSystem; got != (evidence.FileSystem{Type: "tmpfs", Allowed: true}) || len(j.Warnings()) != 1 {
		t.Errorf("recorded %+v, warned %q", got, j.Warnings())
	}
	load(t, j)
}

// A3.6: the helper is retained with its own mode, unless it is not wanted.
func TestA3_6_HelperIsRetained(t *testing.T) {
	disk := durabletest.New()
	j, _ := create(t, disk)
	if got := disk.Files()[root+"/helper/upgrade-production-images"]; got != et.Executable || !j.Parameters().HelperRetained {
		t.Errorf("retained %q", got)
	}
	disk, s := durabletest.New(), setup()
	s.Executable = nil
	j, err := journal.Create(disk, root, s)
	if err != nil {
		t.Fatal(err)
	}
	if got := disk.Paths(); strings.Contains(strings.Join(got, " "), "helper") || j.Parameters().HelperRetained {
		t.Errorf("%v, although no copy was wanted", got)
	}
}

// A4.7: attempts follow one another, and only the last one writes.
func TestA4_7_OnlyTheLastAttemptWrites(t *testing.T) {
	disk := durabletest.New()
	j, first := create(t, disk)
	if _, err := j.Register(evidence.Startup, et.Plan(1)); !errors.Is(err, journal.ErrMisuse) {
		t.Errorf("a second startup attempt: %v", err)
	}
	if _, err := j.Register(evidence.MigrationResume, et.Plan(1)); !errors.Is(err, journal.ErrMisuse) {
		t.Errorf("a migration-resume attempt: %v", err)
	}
	second, err := j.Register(evidence.Resume, et.Plan(1))
	if err != nil {
		t.Fatal(err)
	}
	load(t, j)
	if err := first.Start(secret, "x", now()); !errors.Is(err, journal.ErrMisuse) {
		t.Errorf("the first attempt still writes: %v", err)
	}
	if err := second.Start(secret, "x", now()); err != nil {
		t.Error(err)
	}
}

// A5.4: the journal registers no plan that the loader would refuse.
func TestA5_4_RegisterRefusesAnIncompletePlan(t *testing.T) {
	disk := durabletest.New()
	j, err := journal.Create(disk, root, setup())
	if err != nil {
		t.Fatal(err)
	}
	plan := et.Plan(0)
	plan.Slots = plan.Slots[:3]
	before := len(disk.Trace())
	if _, err := j.Register(evidence.Startup, plan); !errors.Is(err, journal.ErrMisuse) || len(disk.Trace()) != before {
		t.Errorf("got %v", err)
	}
}

// A3.8: texts are kept once, and within their bounds.
func TestA3_8_TextsAreBounded(t *testing.T) {
	disk := durabletest.New()
	j, a := create(t, disk)
	load(t, j)
	for i, step := range []et.Step{et.Acknowledged, et.Acknowledged, et.WithChild} {
		et.Walk(t, a, 0, a.Plan().Slots[i], step)
	}
	et.Walk(t, a, 0, a.Plan().Slots[3], et.Uncertain)
	if err := errors.Join(
		a.CreateError(api, strings.Repeat("x", evidence.MaxCreateErrorBytes+1)),
		a.Log(migration, []byte(strings.Repeat("y", evidence.MaxLogBytes)+"end")),
	); err != nil {
		t.Fatal(err)
	}
	files := disk.Files()
	if got := len(files[root+"/upgrade-preflight/preflight-api-create.err"]); got != evidence.MaxCreateErrorBytes {
		t.Errorf("the error has %d bytes", got)
	}
	if got := files[root+"/upgrade-preflight/preflight-migration.log"]; len(got) != evidence.MaxLogBytes || !strings.HasSuffix(got, "end") {
		t.Errorf("the log has %d bytes", len(got))
	}
	if err := a.Log(migration, nil); !errors.Is(err, journal.ErrMisuse) {
		t.Errorf("a second log: %v", err)
	}
	load(t, j)
}
