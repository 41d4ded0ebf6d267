package preflight

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-project/holdfast/internal/cleanup"
	"github.com/holdfast-project/holdfast/internal/durable/durabletest"
	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/journal"
	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/internal/redact"
)

func exampleProfile(t *testing.T) []byte {
	t.Helper()
	content, err := os.ReadFile("../../examples/profile.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// trial is one run in memory and how it ended.
type trial struct {
	model   *model
	config  Config
	outcome Outcome
	err     error
}

// try runs a preflight in a bubble of time, so that no wait takes any.
func try(t *testing.T, profile []byte, prepare func(*trial)) *trial {
	t.Helper()
	one := &trial{model: newModel(durabletest.New())}
	synctest.Test(t, func(t *testing.T) {
		one.config = config(t, one.model, profile)
		ctx := context.Background()
		prepare(one)
		one.outcome, one.err = Run(ctx, one.config)
	})
	return one
}

// A4.1 exit 0 on the model, which the other tests take as their measure.
func TestModelPasses(t *testing.T) {
	one := try(t, exampleProfile(t), func(*trial) {})
	if one.err != nil {
		t.Fatalf("%v\n%s", one.err, strings.Join(one.config.Report.(*silent).lines, "\n"))
	}
	if left := one.model.left(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if one.outcome.Result.Verdict != evidence.Complete || one.outcome.ResultPath == "" {
		t.Errorf("outcome %+v", one.outcome)
	}
	for path, content := range one.model.disk.Files() {
		if strings.Contains(content, "example-token-5c1e0f") || strings.Contains(content, "example-password") {
			t.Errorf("A3.3: %s holds a Secret value", path)
		}
	}
}

// A2.4: every operation on the evidence fails, or reports a failure although it
// took effect. From then on nothing is sent: no create, no release, no deletion;
// and a UID that only memory knows is told.
func TestFailedDurabilityStopsEverything(t *testing.T) {
	profile := exampleProfile(t)
	operations := len(try(t, profile, func(*trial) {}).model.disk.Trace())
	if operations < 200 {
		t.Fatalf("the sweep has shrunk to %d operations", operations)
	}
	for at := 1; at <= operations; at++ {
		for _, applied := range []bool{false, true} {
			fault := durabletest.Fault{At: at, Applied: applied, Err: errors.New("injected I/O error")}
			one := try(t, profile, func(one *trial) { one.model.disk.Inject(fault) })
			// How often cleanup looks at the cluster differs from run to run, and
			// with it the length of the trace.
			if trace := one.model.disk.Trace(); at <= len(trace) {
				judgeFault(t, one, fault, trace[at-1])
			}
		}
	}
}

func judgeFault(t *testing.T, one *trial, fault durabletest.Fault, op durabletest.Op) {
	t.Helper()
	where := fmt.Sprintf("at %d (%s, applied %v)", fault.At, op, fault.Applied)
	if one.err == nil {
		t.Fatalf("%s: a failed durability call was not noticed", where)
	}
	for _, w := range one.model.writes {
		// Cleanup sends deletes side by side: one may leave while the readback
		// of another fails to be kept, which no decision rests on.
		aside := w.verb == "delete" && strings.Contains(op.Path, "/observations/")
		if w.at >= fault.At && !aside {
			t.Errorf("%s: %s %s was sent after the failure: %v", where, w.verb, w.kind, one.err)
		}
	}
	if !strings.HasSuffix(op.Path, "-identity.json.staging") {
		return
	}
	var lost *NotDurable
	if !errors.As(one.err, &lost) || lost.Unrecorded.UID == "" || !strings.Contains(one.err.Error(), lost.Unrecorded.UID) {
		t.Errorf("%s: the UID in memory is not told: %v", where, one.err)
	}
}

// A4.1, A1.1: every operation fails with which the directory is made. The refusal says
// whether anything is left on the disk, and after what it says has been done the same
// command passes.
func TestA4_1_WhatAnUnfinishedDirectoryLeaves(t *testing.T) {
	profile := exampleProfile(t)
	trace := try(t, profile, func(*trial) {}).model.disk.Trace()
	made := slices.IndexFunc(trace, func(op durabletest.Op) bool { return strings.HasSuffix(op.Path, "/upgrade-preflight") })
	if made < 20 {
		t.Fatalf("the directory is made with %d operations", made)
	}
	for at := 1; at <= made; at++ {
		for _, applied := range []bool{false, true} {
			where := fmt.Sprintf("at %d (%s, applied %v)", at, trace[at-1], applied)
			one := try(t, profile, func(one *trial) {
				one.model.disk.Inject(durabletest.Fault{At: at, Applied: applied, Err: errors.New("injected I/O error")})
			})
			var refused *Refusal
			if !errors.As(one.err, &refused) || len(one.model.writes) > 0 {
				t.Fatalf("%s: %v, sent %v", where, one.err, one.model.writes)
			}
			left := slices.Contains(one.model.disk.Paths(), "/evidence")
			if strings.Contains(refused.Hint, "remove /evidence") != left || !strings.Contains(refused.Hint, "run the same command again") {
				t.Errorf("%s: the directory is left: %v; the hint is %q", where, left, refused.Hint)
			}
			disk := one.model.disk.Killed()
			if left {
				disk.Delete("/evidence")
			}
			if again := try(t, profile, func(one *trial) { one.model.disk, one.config.Files = disk, disk }); again.err != nil {
				t.Errorf("%s: the same command again: %v", where, again.err)
			}
		}
	}
}

// A1.6, A5, A6: the process dies before each operation on its evidence; what the
// disk then holds, after a kill and after a power cut, is cleaned up. Either
// everything is gone, or exactly what is uncertain is named; and nothing is deleted
// of which the disk holds no receipt, neither then nor before.
func TestDiesBeforeEachOperation(t *testing.T) {
	profile := exampleProfile(t)
	trace := try(t, profile, func(*trial) {}).model.disk.Trace()
	for at := 1; at <= len(trace); at++ {
		one := try(t, profile, func(one *trial) { one.model.disk.StopAt(at) })
		for name, disk := range map[string]*durabletest.FS{"kill": one.model.disk.Killed(), "power cut": one.model.disk.PowerLost()} {
			t.Run(fmt.Sprintf("%s before %d %s", name, at, trace[at-1]), func(t *testing.T) { judgeDeath(t, one, disk) })
		}
	}
}

func judgeDeath(t *testing.T, one *trial, disk *durabletest.FS) {
	m := newModel(disk)
	m.objects, m.next = slices.Clone(one.model.objects), one.model.next
	dir, err := evidence.Open(disk, "/evidence")
	var inventory *evidence.Inventory
	if err == nil {
		inventory, err = dir.Load(expectation(one.config))
	}
	if err != nil {
		if len(one.model.writes) > 0 {
			t.Fatalf("after %v the evidence is refused: %v", one.model.writes, err)
		}
		return
	}
	uncertain, receipts := recorded(t, disk)
	result := cleanUp(t, m, dir, inventory)
	left := m.left()
	switch {
	case !slices.Equal(result.Unknown, uncertain) || len(uncertain) > 1:
		t.Errorf("it names %v for uncertain, and the disk holds a marker alone of %v", result.Unknown, uncertain)
	case result.Complete != (len(uncertain) == 0) || result.Complete && len(left) > 0:
		t.Errorf("complete: %v, beside %v; left %v: %v", result.Complete, uncertain, left, result.Reasons)
	}
	for _, w := range slices.Concat(one.model.writes, m.writes) {
		if w.verb == "delete" && !receipts[w.uid] {
			t.Errorf("%s: no receipt holds %s", w, w.uid)
		}
	}
}

// recorded is what the names of the files on a disk say without the loader: the
// slots that were started and have neither receipt nor rejection, and the UIDs of the
// receipts.
func recorded(t *testing.T, disk *durabletest.FS) (uncertain []identity.SlotRef, receipts map[string]bool) {
	t.Helper()
	files, receipts := disk.Files(), map[string]bool{}
	for file, content := range files {
		if strings.HasSuffix(file, "-identity.json") {
			var receipt evidence.Receipt
			if err := json.Unmarshal([]byte(content), &receipt); err != nil || receipt.UID == "" {
				t.Fatalf("%s: %v", file, err)
			}
			receipts[receipt.UID] = true
		}
		started, isMarker := strings.CutSuffix(file, "-started.json")
		_, acknowledged := files[started+"-identity.json"]
		_, rejected := files[started+"-rejected.json"]
		if isMarker && !acknowledged && !rejected {
			directory, slot := path.Split(strings.TrimPrefix(started, "/evidence/"))
			uncertain = append(uncertain, identity.SlotRef{Attempt: path.Clean(directory), Slot: identity.Slot(strings.TrimPrefix(slot, "preflight-"))})
		}
	}
	return uncertain, receipts
}

func cleanUp(t *testing.T, m *model, dir *evidence.Dir, inventory *evidence.Inventory) evidence.Result {
	t.Helper()
	var outcome cleanup.Outcome
	record, err := journal.NewCleanup(dir)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		outcome, err = cleanup.Run(context.Background(), cleanup.Config{
			Inventory: inventory, Cluster: m, Record: record, Redact: func(s string) string { return s },
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return outcome.Result
}

// A4.1: each create in turn is answered in each way that is no acknowledgement.
func TestEachCreateEachAnswer(t *testing.T) {
	profile := exampleProfile(t)
	for n := range 5 {
		for _, given := range []answer{{outcome: kube.Unknown}, {outcome: kube.Unknown, applied: true}, {outcome: kube.Rejected}, {outcome: kube.Unsent}} {
			t.Run(fmt.Sprintf("create %d %s applied %v", n, given.outcome, given.applied), func(t *testing.T) {
				one := try(t, profile, func(one *trial) { one.model.creates[n] = given })
				if one.model.created != n+1 {
					t.Errorf("%d creates were sent, want %d", one.model.created, n+1)
				}
				if given.outcome == kube.Unknown {
					judgeUncertain(t, one)
					return
				}
				var rejected *Rejected
				if !errors.As(one.err, &rejected) || len(one.model.left()) > 0 {
					t.Errorf("%v; left %v", one.err, one.model.left())
				}
			})
		}
	}
}

func judgeUncertain(t *testing.T, one *trial) {
	t.Helper()
	var uncertain *Uncertain
	if !errors.As(one.err, &uncertain) || uncertain.AuditID == "" {
		t.Errorf("ended with %v", one.err)
	}
	for _, w := range one.model.writes {
		if w.verb == "delete" {
			t.Errorf("A4.1: %s after an uncertain create", w)
		}
	}
}

// A4.1: the first signal arrives at each request in turn. No create starts after
// it, the one in flight is not cancelled, and nothing of an interrupted run is
// deleted by a run that did not reach its own cleanup.
func TestInterruptedAtEachRequest(t *testing.T) {
	profile := exampleProfile(t)
	total := try(t, profile, func(*trial) {}).model.requests
	for n := 1; n <= total; n++ {
		one := &trial{model: newModel(durabletest.New())}
		synctest.Test(t, func(t *testing.T) {
			one.config = config(t, one.model, profile)
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			creates := 0
			one.model.onRequest = func(at int) {
				if at == n {
					one.model.mu.Lock()
					creates = one.model.created
					one.model.mu.Unlock()
					stop()
				}
			}
			one.outcome, one.err = Run(ctx, one.config)
			if one.err != nil && !errors.Is(one.err, ErrInterrupted) {
				t.Errorf("at request %d: %v", n, one.err)
			}
			if one.model.created > creates+1 {
				t.Errorf("at request %d: %d creates followed the signal", n, one.model.created-creates)
			}
		})
		if one.err == nil && n < total-2 {
			t.Errorf("at request %d of %d: it passed as if there had been no signal", n, total)
		}
	}
}

// A4.1: the first signal does not cut off a release that is on its way, nor the
// timeout the log that would be lost; the second signal gives both up at once.
func TestSecondSignalGivesUpEveryRequest(t *testing.T) {
	for _, verb := range []string{"release", "log"} {
		t.Run(verb, func(t *testing.T) {
			one := &trial{model: newModel(durabletest.New())}
			profile := exampleProfile(t)
			synctest.Test(t, func(t *testing.T) {
				one.config = config(t, one.model, profile)
				ctx, first := context.WithCancel(context.Background())
				defer first()
				second := make(chan struct{})
				one.config.GiveUp, one.model.podHangs = second, true
				var given time.Time
				one.model.stalled = func(ctx context.Context, at string) error {
					if at != verb {
						return nil
					}
					first()
					select {
					case <-ctx.Done():
						t.Errorf("the first signal cut off the %s", at)
					case <-time.After(5 * time.Second):
					}
					given = time.Now()
					close(second)
					<-ctx.Done()
					return ctx.Err()
				}
				_, err := Run(ctx, one.config)
				if !errors.Is(err, ErrInterrupted) || given.IsZero() || time.Since(given) > time.Second {
					t.Errorf("ended %s after the second signal with %v", time.Since(given), err)
				}
			})
		})
	}
}

// A4.1, A4.5: a Job that fails is removed with everything else, and no other
// starts.
func TestFailedJobInTheModel(t *testing.T) {
	one := try(t, exampleProfile(t), func(one *trial) { one.model.podFails = true })
	var failed *Failed
	if !errors.As(one.err, &failed) || failed.Slot != "migration" {
		t.Errorf("ended with %v", one.err)
	}
	if left := one.model.left(); len(left) > 0 || one.model.created != 3 {
		t.Errorf("left %v after %d creates", left, one.model.created)
	}
}

// A4.1: a signal in the middle of the cleanup of a failure does not take the failure's
// reason with it.
func TestInterruptedCleanupKeepsTheCause(t *testing.T) {
	one := &trial{model: newModel(durabletest.New())}
	profile := exampleProfile(t)
	synctest.Test(t, func(t *testing.T) {
		one.config = config(t, one.model, profile)
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		one.model.podFails, one.model.onDelete = true, stop
		_, one.err = Run(ctx, one.config)
	})
	var failed *Failed
	if !errors.As(one.err, &failed) || !errors.Is(one.err, ErrInterrupted) {
		t.Errorf("ended with %v", one.err)
	}
}

// A4.5: what is kept and shown is the log of the container that failed; the
// candidate's own has none when an init container fails before it.
func TestLogOfTheContainerThatFailed(t *testing.T) {
	one := try(t, exampleProfile(t), func(one *trial) { one.model.podFails, one.model.initFails = true, "prepare" })
	var failed *Failed
	if !errors.As(one.err, &failed) || !slices.Equal(one.model.logs, []string{"prepare"}) {
		t.Errorf("ended with %v after the logs of %v", one.err, one.model.logs)
	}
}

// A4.1, A4.5: a run that is overdue says of which Jobs, and how far each was: one
// whose credentials expired has not seen any.
func TestOverdueSaysWhatItKnows(t *testing.T) {
	for want, prepare := range map[string]func(*model){
		"migration (waiting":                         func(m *model) { m.podHangs = true },
		"migration (unreadable: 401 with [redacted]": func(m *model) { m.unread = errors.New("401 with example-token-5c1e0f") },
	} {
		one := try(t, exampleProfile(t), func(one *trial) { prepare(one.model) })
		var failed *Failed
		if !errors.As(one.err, &failed) || !strings.Contains(one.err.Error(), "within --timeout 1m0s") || !strings.Contains(one.err.Error(), want) {
			t.Errorf("%v, want %q", one.err, want)
		}
	}
}

// A3.3, A6.8: a log whose connection is cut ends in the middle of a line, perhaps
// of a Secret value, of which no half may be kept or shown.
func TestLogThatIsCutOff(t *testing.T) {
	one := try(t, exampleProfile(t), func(one *trial) { one.model.cutLog, one.model.podFails = true, true })
	kept := 0
	for path, content := range one.model.disk.Files() {
		if strings.Contains(content, "example-token") {
			t.Errorf("%s holds half a Secret value: %q", path, content)
		}
		if strings.Contains(content, "it began") {
			kept++
		}
	}
	if shown := strings.Join(one.config.Report.(*silent).lines, "\n"); strings.Contains(shown, "example-token") {
		t.Errorf("half a Secret value is shown:\n%s", shown)
	}
	if kept == 0 {
		t.Error("the whole lines are not kept")
	}
}

// A3.3, A3.7, A1.6: a webhook words the reason of its refusal as it likes. Whatever
// that holds, no Secret value gets into the evidence, and the evidence stays such
// that cleanup accepts it.
func TestReasonOfARefusal(t *testing.T) {
	for name, reason := range map[string]string{
		"holds a Secret value":    "token example-token-5c1e0f is too weak",
		"is larger than a record": strings.Repeat("no ", 1<<15),
		"is cut within a letter":  strings.Repeat("é", evidence.MaxReasonBytes)[1:],
	} {
		t.Run(name, func(t *testing.T) {
			one := try(t, exampleProfile(t), func(one *trial) {
				one.model.creates[3] = answer{outcome: kube.Rejected, reason: reason}
			})
			var rejected *Rejected
			if !errors.As(one.err, &rejected) || len(one.model.left()) > 0 || one.outcome.Result.Verdict != evidence.Complete {
				t.Errorf("%v; left %v", one.err, one.model.left())
			}
			if n := len(one.err.Error()); n > 2*redact.MaxSaid {
				t.Errorf("the end quotes %d bytes, and pushes out what is said after it", n)
			}
			for path, content := range one.model.disk.Files() {
				if strings.Contains(content, "example-token") {
					t.Errorf("%s holds a Secret value: %q", path, content)
				}
			}
		})
	}
}

// A7.1: a webhook words what it refuses as it likes, a create and a deletion alike. No
// file that a person shows on a terminal holds a control character of it.
func TestA7_1_EvidenceHoldsNoControlCharacter(t *testing.T) {
	const words, seen = "no\u009b2J", `no\x9b2J`
	for name, prepare := range map[string]func(*model){
		"create":   func(m *model) { m.creates[3] = answer{outcome: kube.Rejected, reason: words} },
		"unknown":  func(m *model) { m.creates[3] = answer{outcome: kube.Unknown, reason: words} },
		"deletion": func(m *model) { m.refused = errors.New(words) },
	} {
		one := try(t, exampleProfile(t), func(one *trial) { prepare(one.model) })
		kept := 0
		for path, content := range one.model.disk.Files() {
			if strings.Contains(content, "\u009b") {
				t.Errorf("%s: %s holds it: %q", name, path, content)
			}
			if strings.Contains(content, seen) || strings.Contains(content, strings.ReplaceAll(seen, `\`, `\\`)) {
				kept++
			}
		}
		if kept == 0 {
			t.Errorf("%s: the words are not kept", name)
		}
	}
}

// A6.8: what refuses a deletion of the run's own cleanup may quote a Secret: it gets
// all of it.
func TestRefusedDeletionIsShownWithoutSecrets(t *testing.T) {
	one := try(t, exampleProfile(t), func(one *trial) {
		one.model.refused = errors.New("denied while token is example-token-5c1e0f")
	})
	shown := strings.Join(one.config.Report.(*silent).lines, "\n")
	if one.err != nil || strings.Contains(shown, "example-token") || !strings.Contains(shown, "denied while token is") {
		t.Errorf("%v\n%s", one.err, shown)
	}
}
