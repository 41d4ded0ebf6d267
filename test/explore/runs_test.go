package explore_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/holdfast-project/holdfast/internal/durable/durabletest"
	"github.com/holdfast-project/holdfast/internal/evidence"
	et "github.com/holdfast-project/holdfast/internal/evidence/evidencetest"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/journal"
	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/internal/preflight"
	"github.com/holdfast-project/holdfast/internal/redact"
	"github.com/holdfast-project/holdfast/test/explore"
)

const (
	digest = "sha256:4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"
	values = `{"credentials":{"databaseURL":"postgres://demo:example-password@db/demo","token":"example-token-5c1e0f"}}`
)

// scenario is one run: which create ends it and how, and what its Jobs do.
type scenario struct {
	name             string
	number           int
	answer           kube.Outcome
	barren, podFails bool
	// builtIn: with a profile that the loader takes for the built-in one.
	builtIn bool
}

// endings are all attempts that a create ends, one with each of these outcomes for
// each slot.
func endings(outcomes ...kube.Outcome) (list []scenario) {
	for n := range 5 {
		for _, answer := range outcomes {
			list = append(list, scenario{name: answer.String(), number: n, answer: answer})
		}
	}
	return list
}

// scenarios are all runs that differ in what they write.
func scenarios() []scenario {
	list := []scenario{
		{name: "passes", number: 5, answer: kube.Acknowledged},
		{name: "fails", number: 5, answer: kube.Acknowledged, podFails: true},
		{name: "shows no Pod", number: 5, answer: kube.Acknowledged, barren: true},
	}
	return append(list, endings(kube.Unknown, kube.Rejected, kube.Unsent)...)
}

func slots(attempt string, index int) []explore.Slot {
	var list []explore.Slot
	for _, p := range et.Plan(index).Slots {
		s := explore.Slot{Ref: identity.SlotRef{Attempt: attempt, Slot: p.Slot}, Object: p.Object(), Nonce: et.Plan(index).Nonce}
		s.Object.UID = et.ObjectUID(index, p.Slot)
		list = append(list, s)
	}
	return list
}

func sum(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:])
}

type silent struct{}

func (silent) Step(string)                           {}
func (silent) Warn(string)                           {}
func (silent) Slot(_, _, _ string, _ preflight.Mark) {}
func (silent) Log(_, _ string)                       {}

// base is the end of an attempt: what is then on the disk, and how far each slot
// came.
type base struct {
	disk     *durabletest.FS
	statuses []explore.Status
}

// recordRun carries a real preflight out and takes every disk that a crash of it
// can leave, up to where its own cleanup begins.
func recordRun(t *testing.T, album *explore.Album, planned []explore.Slot, s scenario) base {
	t.Helper()
	return record(t, durabletest.New(), nil, planned, s, album.Look, preflight.Run)
}

// recordResume carries a real resume out on the end of a first attempt, in the
// same way. What comes before the create that ends it is the same in each, and is
// looked at where none ends it.
func recordResume(t *testing.T, album *explore.Album, b base, planned []explore.Slot, s scenario) base {
	t.Helper()
	look := func(disk *durabletest.FS, statuses []explore.Status) {
		if before := len(b.statuses) + s.number - 1; s.number == 0 || s.number == len(planned) || statuses[before] >= explore.Answered {
			album.Look(disk, statuses)
		}
	}
	return resumeOn(t, b, planned, s, look)
}

func resumeOn(t *testing.T, b base, planned []explore.Slot, s scenario, look func(*durabletest.FS, []explore.Status)) base {
	t.Helper()
	disk := b.disk.Killed()
	return record(t, disk, b.statuses, planned, s, look, func(ctx context.Context, config preflight.Config) (preflight.Outcome, error) {
		dir, accepted := load(t, disk)
		return preflight.Resume(ctx, config, dir, accepted)
	})
}

func load(t *testing.T, disk *durabletest.FS) (*evidence.Dir, *evidence.Inventory) {
	t.Helper()
	dir, err := evidence.Open(disk, "/evidence")
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := dir.Load(expectation())
	if err != nil {
		t.Fatal(err)
	}
	return dir, accepted
}

// record carries one attempt out against a target that answers as the scenario
// says, and looks whenever something is about to change on the disk, and while a
// request is on its way. Attempts draw the same random numbers each time, and
// others than the attempt before them.
func record(t *testing.T, disk *durabletest.FS, before []explore.Status, planned []explore.Slot, s scenario,
	look func(*durabletest.FS, []explore.Status), carryOut func(context.Context, preflight.Config) (preflight.Outcome, error)) (end base) {
	t.Helper()
	cryptotest.SetGlobalRandom(t, uint64(1+len(before)))
	synctest.Test(t, func(t *testing.T) {
		target := explore.NewTarget(et.Parameters().Cluster, digest, planned, s.number, s.answer, s.barren, s.podFails)
		after := func(statuses []explore.Status) []explore.Status { return append(slices.Clone(before), statuses...) }
		target.OnChange(func(statuses []explore.Status) { look(disk, after(statuses)) })
		disk.Watch(func(next durabletest.Op) {
			if strings.Contains(next.Path, "/preflight-cleanup.") {
				disk.StopAt(len(disk.Trace()) + 1)
				return
			}
			look(disk, after(target.Statuses()))
		})
		var refusal *preflight.Refusal
		if _, err := carryOut(context.Background(), config(t, disk, target, s.builtIn)); err == nil || errors.As(err, &refusal) {
			t.Fatalf("%s: the attempt ended with %v", s.name, err)
		}
		end = base{disk.PowerLost(), after(target.Statuses())}
		look(disk, end.statuses)
	})
	return end
}

func config(t *testing.T, disk *durabletest.FS, target *explore.Target, builtIn bool) preflight.Config {
	t.Helper()
	profile, maker := example(t, builtIn)
	return preflight.Config{
		Files: disk, Directory: "/evidence", Helper: maker,
		Executable:     func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("helper")), nil },
		KubeconfigPath: "/kubeconfig", KubeconfigSHA256: sum("kubeconfig"),
		Context: "prod", Namespace: et.Namespace, Release: et.Release,
		Chart: "../../examples/chart", Values: []byte(values), ValuesName: "values.yaml", StretchIterations: 1, Profile: profile,
		Image: "registry.example/demo@" + digest, Timeout: time.Minute,
		Cluster: target, Index: func(context.Context, string, string) ([]string, error) { return nil, nil },
		Report: silent{}, Redact: &redact.Redactor{}, Escape: func(s string) string { return s }, GiveUp: make(chan struct{}),
	}
}

// reconcile states that an uncertain slot was settled by hand (A6.15), and takes
// every disk that a crash of that can leave.
func reconcile(t *testing.T, album *explore.Album, b base, ref identity.SlotRef) {
	t.Helper()
	b.disk.Watch(func(durabletest.Op) { album.Look(b.disk, b.statuses) })
	if err := journal.Reconcile(b.disk, "/evidence", ref, et.Statement, moment()); err != nil {
		t.Error(err) // what the disks before it show says more
	}
	b.disk.Watch(nil)
	album.Look(b.disk, b.statuses)
}

func moment() time.Time { return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) }

// example is the example's profile and the helper of a run with it. The built-in one
// has the same slots in the same order; where the example's stands for it, the loader
// knows that order too (A5.5).
func example(t *testing.T, builtIn bool) ([]byte, identity.Helper) {
	t.Helper()
	profile, err := os.ReadFile("../../examples/profile.yaml")
	if err != nil {
		t.Fatal(err)
	}
	maker := helper()
	if builtIn {
		profile = bytes.Replace(profile, []byte("name: holdfast-demo"), []byte("name: "+evidence.BuiltInProfile), 1)
		maker.Assets = map[string]string{"profile": sum(string(profile))}
	}
	return profile, maker
}

func helper() identity.Helper {
	return identity.Helper{SHA256: sum("helper"), ModuleVersion: "v1", Revision: "r", Assets: map[string]string{"a": sum("a")}}
}

func expectation() evidence.Expectation {
	return evidence.Expectation{
		KubeconfigPath: "/kubeconfig", KubeconfigSHA256: sum("kubeconfig"),
		Context: "prod", Namespace: et.Namespace, Release: et.Release, Helper: helper(),
	}
}

// resumeDirectory is the name that every second attempt gets here.
func resumeDirectory(t *testing.T, b base) string {
	t.Helper()
	end := resumeOn(t, b, slots("", 1), scenario{name: "passes", number: 5, answer: kube.Acknowledged}, func(*durabletest.FS, []explore.Status) {})
	_, accepted := load(t, end.disk)
	return accepted.Plans[1].Attempt
}
