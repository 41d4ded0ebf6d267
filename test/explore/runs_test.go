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

// scenarios are all runs that differ in what they write.
func scenarios() []scenario {
	list := []scenario{
		{name: "passes", number: 5, answer: kube.Acknowledged},
		{name: "fails", number: 5, answer: kube.Acknowledged, podFails: true},
		{name: "shows no Pod", number: 5, answer: kube.Acknowledged, barren: true},
	}
	for n := range 5 {
		for _, answer := range []kube.Outcome{kube.Unknown, kube.Rejected, kube.Unsent} {
			list = append(list, scenario{name: answer.String(), number: n, answer: answer})
		}
	}
	return list
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

// recordRun carries a real preflight out and takes every disk that a crash of it
// can leave, up to where its own cleanup begins.
// It returns what is then on the disk, and how far each slot came.
func recordRun(t *testing.T, album *explore.Album, planned []explore.Slot, s scenario) (end *durabletest.FS, statuses []explore.Status) {
	profile, maker := example(t, s.builtIn)
	cryptotest.SetGlobalRandom(t, 1)
	synctest.Test(t, func(t *testing.T) {
		disk := durabletest.New()
		target := explore.NewTarget(et.Parameters().Cluster, digest, planned, s.number, s.answer, s.barren, s.podFails)
		look := func(statuses []explore.Status) { album.Look(disk, statuses) }
		target.OnChange(look)
		disk.Watch(func(next durabletest.Op) {
			if strings.Contains(next.Path, "/preflight-cleanup.") {
				disk.StopAt(len(disk.Trace()) + 1)
				return
			}
			look(target.Statuses())
		})
		config := preflight.Config{
			Files: disk, Directory: "/evidence", Helper: maker,
			Executable:     func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("helper")), nil },
			KubeconfigPath: "/kubeconfig", KubeconfigSHA256: sum("kubeconfig"),
			Context: "prod", Namespace: et.Namespace, Release: et.Release,
			Chart: "../../examples/chart", Values: []byte(values), ValuesName: "values.yaml", StretchIterations: 1, Profile: profile,
			Image: "registry.example/demo@" + digest, Timeout: time.Minute,
			Cluster: target, Index: func(context.Context, string, string) ([]string, error) { return nil, nil },
			Report: silent{}, Redact: &redact.Redactor{}, Escape: func(s string) string { return s }, GiveUp: make(chan struct{}),
		}
		var refusal *preflight.Refusal
		if _, err := preflight.Run(context.Background(), config); err == nil || errors.As(err, &refusal) {
			t.Fatalf("%s: the run ended with %v", s.name, err)
		}
		end, statuses = disk.PowerLost(), target.Statuses()
		look(statuses)
	})
	return end, statuses
}

// reconcile states that an uncertain slot was settled by hand (A6.15), and takes
// every disk that a crash of that can leave.
func reconcile(t *testing.T, album *explore.Album, disk *durabletest.FS, ref identity.SlotRef, statuses []explore.Status) {
	t.Helper()
	disk.Watch(func(durabletest.Op) { album.Look(disk, statuses) })
	if err := journal.Reconcile(disk, "/evidence", ref, et.Statement, moment()); err != nil {
		t.Fatal(err)
	}
	disk.Watch(nil)
	album.Look(disk, statuses)
}

func moment() time.Time { return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) }

// resume registers a second attempt in the directory of a first one and carries
// it to its end, or to the refusal of one create. It begins to look at slot from.
func resume(t *testing.T, album *explore.Album, base *durabletest.FS, before []explore.Status, refused int) {
	t.Helper()
	cryptotest.SetGlobalRandom(t, 2)
	disk := base.Killed()
	dir, err := evidence.Open(disk, "/evidence")
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := dir.Load(expectation())
	if err != nil {
		t.Fatal(err)
	}
	statuses := append(slices.Clone(before), make([]explore.Status, len(before))...)
	looking := refused >= len(before)
	look := func() {
		if looking {
			album.Look(disk, statuses)
		}
	}
	disk.Watch(func(durabletest.Op) { look() })
	j := journal.Reopen(dir, accepted)
	a, err := j.Register(evidence.Resume, et.Plan(1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.Load(expectation()); err != nil {
		t.Fatal(err)
	}
	for i, planned := range a.Plan().Slots {
		looking = looking || i == refused
		status := &statuses[len(before)+i]
		carry(t, a, planned, status, i == refused, look)
		if i == refused {
			break
		}
	}
	look()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// carry takes one slot of a second attempt as far as it goes, each request
// leaving between the two records that belong around it.
func carry(t *testing.T, a *journal.Attempt, planned evidence.PlannedSlot, status *explore.Status, refused bool, look func()) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(a.Start(planned.Slot, et.AuditID(1, planned.Slot), moment()))
	*status = explore.Sent
	look()
	if refused {
		*status = explore.Refused
		must(a.CreateError(planned.Slot, "refused"))
		must(a.Reject(planned.Slot, journal.Rejection{Code: 403, Reason: "Forbidden"}, moment()))
		return
	}
	*status = explore.Answered
	created := planned.Object()
	created.UID = et.ObjectUID(1, planned.Slot)
	must(a.Acknowledge(planned.Slot, created, "2026-05-01T12:00:00Z"))
	if !created.Consumer() {
		return
	}
	must(a.Release(planned.Slot, moment()))
	*status = explore.Released
	look()
	*status = explore.Seen
	must(a.Child(planned.Slot, explore.Pod(created), created.UID))
}

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
	disk := b.disk.Killed()
	cryptotest.SetGlobalRandom(t, 2)
	dir, err := evidence.Open(disk, "/evidence")
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := dir.Load(expectation())
	if err != nil {
		t.Fatal(err)
	}
	a, err := journal.Reopen(dir, accepted).Register(evidence.Resume, et.Plan(1))
	if err != nil {
		t.Fatal(err)
	}
	return a.Name()
}
