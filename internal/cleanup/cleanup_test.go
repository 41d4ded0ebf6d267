package cleanup

import (
	"context"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-project/holdfast/internal/evidence"
	. "github.com/holdfast-project/holdfast/internal/evidence/evidencetest"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/internal/strictjson"
)

// The client satisfies what cleanup asks of a cluster.
var _ Cluster = (*kube.Client)(nil)

// bubble runs a test under a clock that stands still while anybody works. It
// also fails when a goroutine is left behind.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// A6.3, A6.6, A6.7: Jobs side by side in the foreground, then dependencies side
// by side with Orphan, each with its UID, and nothing else.
func TestOrderOfDeletes(t *testing.T) {
	bubble(t, "A6.3", func(t *testing.T) {
		b := newBench(t, Acknowledged, Acknowledged, WithChild, WithChild, WithChild)
		outcome := b.run()
		if got := b.outcomes(outcome.Result); got != "migration=absent api=absent worker=absent secret=absent network-policy=absent complete" {
			t.Errorf("got %s", got)
		}
		deletes := b.cluster.deletes()
		if len(deletes) != 5 {
			t.Fatalf("sent %d DELETEs: %+v", len(deletes), deletes)
		}
		for i, d := range deletes {
			want := kube.Foreground
			if i >= 3 {
				want = kube.Orphan
			}
			if d.propagation != want || d.object != b.object(slotOf(b, d.object)) || d.object.Consumer() != (i < 3) {
				t.Errorf("DELETE %d: %+v", i, d)
			}
		}
		if !deletes[0].at.Equal(deletes[2].at) || !deletes[3].at.Equal(deletes[4].at) {
			t.Error("independent DELETEs do not go out side by side")
		}
		if left := b.cluster.left(); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

func slotOf(b *bench, object identity.Object) identity.Slot {
	for _, a := range b.inventory.Resources {
		if a.Object() == object {
			return a.Ref().Slot
		}
	}
	return ""
}

// A6.9, A6.8: the result is published in its strict form, the error file always
// exists, and observations hold identities.
func TestA6_9_Published(t *testing.T) {
	bubble(t, "complete", func(t *testing.T) {
		b := newBench(t, Acknowledged, Acknowledged, WithChild)
		outcome := b.run()
		data := b.read(outcome.Path)
		var decoded evidence.Result
		if err := strictjson.Decode(data, 1<<20, &decoded); err != nil {
			t.Fatalf("%s %v\n%s", outcome.Path, err, data)
		}
		if !decoded.Complete || decoded.Verdict.ExitCode() != 0 || decoded.Version != 1 || decoded.Requests.Deletes != 3 {
			t.Errorf("got %s", data)
		}
		if !strings.Contains(string(data), `"unknown": []`) {
			t.Errorf("unknown is not an empty list:\n%s", data)
		}
		if lines := b.read(path.Join(path.Dir(outcome.Path), "preflight-cleanup.err")); len(lines) > 0 {
			t.Errorf("the error file says %q", lines)
		}
		names := b.names(path.Join(path.Dir(outcome.Path), "observations"))
		if len(names) < 5 || len(names) > 20 {
			t.Errorf("observations: %v", names)
		}
	})
	bubble(t, "uncertain", func(t *testing.T) {
		b := newBench(t, Acknowledged, Acknowledged, WithChild, Uncertain)
		outcome := b.run()
		if got := b.outcomes(outcome.Result); got != "migration=absent secret=retained network-policy=retained api:uncertain=absent worker:planned=absent incomplete" {
			t.Errorf("got %s", got)
		}
		r := outcome.Result
		if len(r.Unknown) != 1 || r.Unknown[0].Slot != "api" || r.Complete || r.Verdict.ExitCode() != 1 || len(r.RetainedBecause) != 1 {
			t.Errorf("got %+v", r)
		}
		if r.PlannedNames[0].AuditID != AuditID(0, "api") {
			t.Errorf("the Audit-ID is %q", r.PlannedNames[0].AuditID)
		}
		lines := string(b.read(path.Join(path.Dir(outcome.Path), "preflight-cleanup.err")))
		if strings.Count(lines, "\n") != 3 || !strings.Contains(lines, "upgrade-preflight/api") {
			t.Errorf("the error file says %q", lines)
		}
		for _, d := range b.cluster.deletes() {
			if !d.object.Consumer() {
				t.Errorf("sent %+v", d)
			}
		}
	})
	bubble(t, "A6.15 reconciled", func(t *testing.T) {
		b := newBench(t, Acknowledged, Acknowledged, WithChild, Reconciled)
		r := b.run().Result
		if r.Verdict.ExitCode() != 3 || r.Complete || len(r.Unknown) != 1 || r.PlannedNames[0].Statement != Statement {
			t.Errorf("got %+v", r)
		}
	})
}

func (b *bench) read(name string) []byte {
	b.t.Helper()
	dir, err := b.disk.Open(path.Dir(name))
	if err != nil {
		b.t.Fatal(err)
	}
	defer dir.Close()
	file, err := dir.Open(path.Base(name))
	if err != nil {
		b.t.Fatal(err)
	}
	defer file.Close()
	data, err := io.ReadAll(file)
	if err != nil {
		b.t.Fatal(err)
	}
	return data
}

func (b *bench) names(dir string) []string {
	b.t.Helper()
	d, err := b.disk.Open(dir)
	if err != nil {
		b.t.Fatal(err)
	}
	defer d.Close()
	names, err := d.Names()
	if err != nil {
		b.t.Fatal(err)
	}
	return names
}

// A6.2: on another cluster nothing but the identity is read.
func TestA6_2_NothingIsSentElsewhere(t *testing.T) {
	bubble(t, "another cluster", func(t *testing.T) {
		b := newBench(t, Acknowledged, Acknowledged, WithChild)
		b.cluster.cluster.KubeSystemUID = UID("another")
		if got := b.outcomes(b.run().Result); !strings.HasPrefix(got, "migration=unreadable secret=retained network-policy=retained") || !strings.HasSuffix(got, "incomplete") {
			t.Errorf("got %s", got)
		}
		for _, s := range b.cluster.log {
			if s.verb != "get" || s.object.Kind != "Namespace" {
				t.Errorf("sent %+v", s)
			}
		}
	})
}

// A6.3, A6.6: the times, on a clock that nothing but waiting moves.
func TestTimes(t *testing.T) {
	took := func(b *bench) time.Duration {
		begin := time.Now()
		b.run()
		return time.Since(begin)
	}
	bubble(t, "A6.3 45 s for a released Job whose Pod was never seen", func(t *testing.T) {
		b := newBench(t, Acknowledged, Acknowledged, WithChild, Released, Released)
		if d := took(b); d < 45*time.Second || d > 48*time.Second {
			t.Errorf("took %s: one window for all", d)
		}
	})
	bubble(t, "A6.3 none with a Pod on record", func(t *testing.T) {
		if d := took(newBench(t, Acknowledged, Acknowledged, WithChild, WithChild)); d > 6*time.Second {
			t.Errorf("took %s", d)
		}
	})
	bubble(t, "A6.6 30 s for a held Pod, and its finalizer is named", func(t *testing.T) {
		b := newBench(t, Acknowledged, Acknowledged, WithChild)
		job := b.object("migration")
		child := b.inventory.Resources[2].Children()[0]
		b.cluster.put(child, ownedBy(job), heldBy("example.com/hold"))
		begin := time.Now()
		r := b.run().Result
		if d := time.Since(begin); d < 30*time.Second || d > 32*time.Second {
			t.Errorf("took %s", d)
		}
		if got := b.outcomes(r); !strings.HasPrefix(got, "migration=remaining secret=retained") {
			t.Errorf("got %s", got)
		}
		if !strings.Contains(r.Reasons[0], "example.com/hold") {
			t.Errorf("the finalizer is not named: %s", r.Reasons[0])
		}
	})
	bubble(t, "A6.4 a replacement ends the wait at once", func(t *testing.T) {
		b := newBench(t, Acknowledged, Acknowledged, Acknowledged)
		stranger := b.object("migration")
		stranger.UID = UID("stranger")
		b.cluster.put(stranger)
		if d := took(b); d > time.Second {
			t.Errorf("took %s", d)
		}
		if !slices.Contains(b.cluster.left(), stranger) {
			t.Error("the stranger's Job is gone")
		}
	})
	bubble(t, "A6.6 a DELETE that hangs does not hold up the others", func(t *testing.T) {
		b := newBench(t, Acknowledged, Acknowledged, WithChild, WithChild)
		slow := b.object("api")
		b.cluster.hang = func(verb string, object identity.Object) bool {
			return verb == "delete" && object == slow && len(b.cluster.deletes()) <= 2
		}
		begin := time.Now()
		r := b.run().Result
		if d := time.Since(begin); !r.Complete || d < deleteTimeout || d > deleteTimeout+10*time.Second {
			t.Errorf("took %s: %s", d, b.outcomes(r))
		}
		if r.Requests.Failed != 1 {
			t.Errorf("%d requests failed", r.Requests.Failed)
		}
	})
	bubble(t, "A6.3 a read that hangs is given up and repeated", func(t *testing.T) {
		b := newBench(t, Acknowledged, Acknowledged, WithChild)
		var hung atomic.Bool
		b.cluster.hang = func(verb string, _ identity.Object) bool {
			return verb == "list" && hung.CompareAndSwap(false, true)
		}
		if d := took(b); d < readTimeout || d > readTimeout+10*time.Second {
			t.Errorf("took %s", d)
		}
		if left := b.cluster.left(); len(left) > 0 {
			t.Errorf("left %v", left)
		}
	})
}

// A6.10: a signal stops the sending, no result is written, no request is left
// behind; at every moment of a cleanup. A6.11: the same command again finishes.
func TestA6_10_InterruptedAtEveryRequest(t *testing.T) {
	cause := errors.New("SIGTERM")
	ended := 0
	for n := 0; ended == 0; n++ {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, Acknowledged, Acknowledged, WithChild, WithChild, WithChild)
			ctx, cancel := context.WithCancelCause(context.Background())
			defer cancel(nil)
			b.cluster.before = func(string, identity.Object) error {
				if b.cluster.sent() > n {
					cancel(cause)
				}
				return nil
			}
			outcome, err := Run(ctx, b.config(b.record()))
			if err == nil {
				// There is no nth request: the signal never came.
				ended = n
				return
			}
			if !errors.Is(err, cause) || outcome.Path != "" {
				t.Errorf("after %d requests: %+v, %v", n, outcome, err)
			}
			for _, name := range b.names(evidencePath) {
				if strings.HasPrefix(name, "preflight-cleanup.") && slices.Contains(b.names(path.Join(evidencePath, name)), "preflight-cleanup-result.json") {
					t.Errorf("after %d requests: a result was written", n)
				}
			}
			sentBefore := len(b.cluster.log)
			time.Sleep(time.Minute)
			if len(b.cluster.log) != sentBefore {
				t.Errorf("after %d requests: something is sent after the end", n)
			}
			b.cluster.before = nil
			if r := b.run().Result; !r.Complete || len(b.cluster.left()) > 0 {
				t.Errorf("after %d requests, again: %s, left %v", n, b.outcomes(r), b.cluster.left())
			}
		})
		if n > 400 {
			t.Fatal("a cleanup of five objects takes more than 400 requests")
		}
	}
	if ended < 20 {
		t.Errorf("only %d requests were interrupted", ended)
	}
}
