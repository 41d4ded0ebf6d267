package cleanup

import (
	"context"
	"errors"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-project/holdfast/internal/durable/durabletest"
	"github.com/holdfast-project/holdfast/internal/evidence"
	. "github.com/holdfast-project/holdfast/internal/evidence/evidencetest"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/kube"
)

// failing is a record that fails from its nth call on.
type failing struct {
	Record
	calls, failAt int
	result        bool
}

var errDisk = errors.New("no space left on device")

func (f *failing) next() error {
	f.calls++
	if f.calls >= f.failAt {
		return errDisk
	}
	return nil
}

func (f *failing) Report(line string) error {
	if err := f.next(); err != nil {
		return err
	}
	return f.Record.Report(line)
}

func (f *failing) Observe(name string, readback any) error {
	if err := f.next(); err != nil {
		return err
	}
	return f.Record.Observe(name, readback)
}

func (f *failing) Publish(result evidence.Result) (string, error) {
	if err := f.next(); err != nil {
		return "", err
	}
	f.result = true
	return f.Record.Publish(result)
}

// A6.10: when a file of the record cannot be written, at whichever call, there
// is an error and no result, and nothing more is sent.
func TestA6_10_RecordFails(t *testing.T) {
	for failAt, done := 1, false; !done; failAt++ {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, Acknowledged, Acknowledged, WithChild, Uncertain)
			record := &failing{Record: b.record(), failAt: failAt}
			_, err := Run(context.Background(), b.config(record))
			if err == nil {
				done = true
				return
			}
			if !errors.Is(err, errDisk) || record.result {
				t.Errorf("call %d: %v", failAt, err)
			}
			sent := len(b.cluster.log)
			time.Sleep(time.Minute)
			if len(b.cluster.log) != sent {
				t.Errorf("call %d: something is sent after the failure", failAt)
			}
		})
		if failAt > 100 {
			t.Fatal("the record takes more than 100 calls")
		}
		if done && failAt < 5 {
			t.Errorf("only %d calls were failed", failAt)
		}
	}
}

// A6.10: after the result is durable a signal changes nothing, and one during
// its publication comes too late.
func TestA6_10_SignalAfterTheResult(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		b := newBench(t, Acknowledged)
		ctx, cancel := context.WithCancel(context.Background())
		outcome, err := Run(ctx, b.config(&late{Record: b.record(), cancel: cancel}))
		if err != nil || outcome.Path == "" || !outcome.Result.Complete {
			t.Errorf("got %+v, %v", outcome, err)
		}
	})
}

// A6.10: and one that comes before it, when everything was concluded, still
// means that no result is written.
func TestA6_10_SignalBeforeTheResult(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		b := newBench(t, Acknowledged, Uncertain)
		ctx, cancel := context.WithCancel(context.Background())
		record := &failing{Record: &reporting{Record: b.record(), cancel: cancel}, failAt: 1000}
		if _, err := Run(ctx, b.config(record)); !errors.Is(err, context.Canceled) || record.result {
			t.Errorf("got %v, a result %v", err, record.result)
		}
	})
}

// reporting is interrupted while the conclusion's reasons are written down.
type reporting struct {
	Record
	cancel func()
}

func (r *reporting) Report(line string) error {
	r.cancel()
	return r.Record.Report(line)
}

type late struct {
	Record
	cancel func()
}

func (l *late) Publish(result evidence.Result) (string, error) {
	l.cancel()
	return l.Record.Publish(result)
}

// A6.9, A6.8: one line per failed request, redacted, whatever a server says.
func TestA6_9_ErrorLines(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		b := newBench(t, Acknowledged, Acknowledged, WithChild)
		var failures atomic.Int32
		b.cluster.before = func(verb string, object identity.Object) error {
			if verb == "get" && object.Kind == "Job" && failures.Add(1) <= 3 {
				return errors.New("cannot read hunter2\nforged line")
			}
			return nil
		}
		record := b.record()
		config := b.config(record)
		config.Redact = func(s string) string { return strings.ReplaceAll(s, "hunter2", "[redacted]") }
		outcome, err := Run(context.Background(), config)
		if err != nil || !outcome.Result.Complete {
			t.Fatalf("a transient failure does not heal: %+v, %v", outcome.Result, err)
		}
		lines := string(b.read(path.Join(path.Dir(outcome.Path), "preflight-cleanup.err")))
		if strings.Count(lines, "\n") != 3 || strings.Contains(lines, "hunter2") || !strings.Contains(lines, "[redacted]") {
			t.Errorf("got %q", lines)
		}
		if outcome.Result.Requests.Failed != 3 {
			t.Errorf("counted %d", outcome.Result.Requests.Failed)
		}
	})
}

// A6.9: a line for each resource that is not confirmed absent, and none for the
// others: for what the barrier kept, and for what was not even asked for because the
// cluster is another one.
func TestA6_9_EachUnconfirmedResourceHasALine(t *testing.T) {
	lines := func(b *bench) string {
		outcome := b.run()
		return string(b.read(path.Join(path.Dir(outcome.Path), "preflight-cleanup.err")))
	}
	bubble(t, "kept", func(t *testing.T) {
		b := newBench(t, Acknowledged, Acknowledged, WithChild, Uncertain)
		got := lines(b)
		for _, want := range []string{"retained: " + b.object("secret").String(), "retained: " + b.object("network-policy").String(), "upgrade-preflight/api"} {
			if strings.Count(got, want) != 1 {
				t.Errorf("%q is there %d times:\n%s", want, strings.Count(got, want), got)
			}
		}
		if strings.Contains(got, "upgrade-preflight/migration") {
			t.Errorf("what is gone has a line:\n%s", got)
		}
	})
	bubble(t, "another cluster", func(t *testing.T) {
		b := newBench(t, Acknowledged, Acknowledged, WithChild)
		b.cluster.cluster.KubeSystemUID = "99999999-0000-4000-8000-000000000009"
		got := lines(b)
		for _, slot := range []identity.Slot{"secret", "network-policy", "migration"} {
			if !strings.Contains(got, b.object(slot).String()) {
				t.Errorf("nothing is said of %s:\n%s", slot, got)
			}
		}
	})
}

// A6.1, A6.2: the readback of a Namespace that is gone says which one that is.
func TestReadbackOfAnAbsentNamespace(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		b := newBench(t)
		b.cluster.cluster.NamespaceUID = ""
		outcome := b.run()
		directory := path.Join(path.Dir(outcome.Path), "observations")
		var all strings.Builder
		for _, name := range b.names(directory) {
			all.Write(b.read(path.Join(directory, name)))
		}
		if want := `"name": "` + b.inventory.Parameters.Namespace + `"`; !strings.Contains(all.String(), want) {
			t.Errorf("no readback has %s:\n%s", want, all.String())
		}
	})
}

// A6.8: what a readback keeps is identity, whatever else the Meta holds.
func TestA6_8_ReadbacksKeepIdentity(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		b := newBench(t, Acknowledged, Acknowledged, WithChild)
		secret := b.object("secret")
		b.cluster.put(secret, heldBy("a/b"), func(m *kube.Meta) {
			m.Labels, m.Nonce = map[string]string{"x": "canary-value"}, "canary-nonce"
		})
		outcome := b.run()
		directory := path.Join(path.Dir(outcome.Path), "observations")
		found := false
		for _, name := range b.names(directory) {
			text := string(b.read(path.Join(directory, name)))
			if strings.Contains(text, "canary") {
				t.Errorf("%s holds more than identity:\n%s", name, text)
			}
			found = found || strings.Contains(text, secret.UID) && strings.Contains(text, "a/b")
		}
		if !found {
			t.Error("no readback of the Secret")
		}
	})
}

// A6.8: of the Pods of the namespace, those that concern this evidence are kept, and
// nobody else's.
func TestA6_8_ReadbacksOfOurPodsAlone(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		b := newBench(t, Acknowledged, Acknowledged, WithChild)
		pod := func(name string) identity.Object {
			return identity.Object{APIVersion: "v1", Kind: "Pod", Namespace: Namespace, Name: name, UID: UID(name)}
		}
		job := b.object("migration")
		b.cluster.put(pod("a-strangers"))
		b.cluster.put(pod("anothers"), ownedBy(identity.Object{Kind: "Job", Name: "x", UID: UID("x")}))
		b.cluster.put(pod("ours"), ownedBy(job))
		b.cluster.put(pod("labelled"), func(m *kube.Meta) { m.Labels = map[string]string{"controller-uid": job.UID} })
		directory := path.Join(path.Dir(b.run().Path), "observations")
		kept := ""
		for _, name := range b.names(directory) {
			kept += string(b.read(path.Join(directory, name)))
		}
		for name, want := range map[string]bool{"a-strangers": false, "anothers": false, "ours": true, "labelled": true} {
			if strings.Contains(kept, `"`+name+`"`) != want {
				t.Errorf("%s is kept: %v", name, !want)
			}
		}
	})
}

// A6.11: every resource is verified again, and a result that was complete stays.
func TestA6_11_Converges(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		b := newBench(t, Acknowledged, Acknowledged, WithChild, WithChild, WithChild)
		for range 3 {
			if r := b.run().Result; !r.Complete || len(r.Resources) != 5 || r.Requests.Deletes != 5 {
				t.Errorf("got %+v", r)
			}
		}
	})
}

// A5.11, A6.2: an empty registry and an attempt without a start are complete.
func TestA5_11_Nothing(t *testing.T) {
	bubble(t, "nothing started", func(t *testing.T) {
		b := newBench(t)
		if got := b.outcomes(b.run().Result); !strings.HasSuffix(got, "complete") || len(b.cluster.deletes()) > 0 {
			t.Errorf("got %s", got)
		}
	})
	bubble(t, "nothing registered", func(t *testing.T) {
		disk := durabletest.New()
		Build(t, disk, evidencePath)
		b := &bench{t: t, disk: disk, cluster: newModel()}
		b.dir, b.inventory = Open(t, disk, evidencePath)
		if r := b.run().Result; !r.Complete || len(b.cluster.log) != 2 {
			t.Errorf("%+v after %+v", r, b.cluster.log)
		}
	})
}

// Whoever watches hears of each deletion and each change, once.
func TestProgress(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		b := newBench(t, Acknowledged, Acknowledged, WithChild)
		var heard []string
		config := b.config(b.record())
		config.Progress = func(p Progress) { heard = append(heard, string(p.Ref.Slot)+" "+p.Object.Kind+" "+p.Text) }
		if _, err := Run(context.Background(), config); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"migration Job deleting", "migration Job deletion accepted", "migration Job absent", "secret Secret deletion accepted", "secret Secret absent"} {
			n := 0
			for _, text := range heard {
				if text == want {
					n++
				}
			}
			if n != 1 {
				t.Errorf("heard %q %d times in %q", want, n, heard)
			}
		}
	})
}
