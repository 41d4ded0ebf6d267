package e2e

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-project/holdfast/internal/plunger"
	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
	"github.com/holdfast-project/holdfast/internal/plunger/plungertest"
	"github.com/holdfast-project/holdfast/test/helmcontroller"
	"github.com/holdfast-project/holdfast/test/helmcontroller/lab"
)

// handover is how long a Lease that was given up may take to be taken: seconds,
// where one that was not takes its whole duration (B6.6).
const handover = 15 * time.Second

// elections makes the Lease's permissions in the test's own namespace, a copy of
// what ships for flux-plunger's, so that tests elect side by side.
func (b *bench) elections(t *testing.T, namespace string, strategy decide.Strategy) {
	t.Helper()
	const leader = "flux-plunger-leader"
	must(t, b.Namespace(t.Context(), namespace))
	role, binding, from := &rbacv1.Role{}, &rbacv1.RoleBinding{}, types.NamespacedName{Namespace: lab.System(string(strategy)), Name: leader}
	must(t, b.Client.Get(t.Context(), from, role))
	must(t, b.Client.Get(t.Context(), from, binding))
	meta := metav1.ObjectMeta{Namespace: namespace, Name: leader}
	must(t, b.Client.Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: role.Rules}))
	must(t, b.Client.Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: binding.RoleRef, Subjects: binding.Subjects}))
}

// electing runs with a Lease in the namespace. Its deadline is as long as a busy
// machine needs to renew it at all.
func electing(namespace, identity string) func(*plunger.Config) {
	return func(config *plunger.Config) {
		config.LeaderElect, config.LeaseNamespace, config.Identity = true, namespace, identity
		config.Timing = plunger.Timing{Grace: plunger.MinGrace, Renew: 10 * time.Second, Retry: 500 * time.Millisecond}
	}
}

// holder returns who holds the namespace's Lease.
func (b *bench) holder(t *testing.T, namespace string) string {
	t.Helper()
	lease, err := b.ControlPlane.Client().CoordinationV1().Leases(namespace).Get(t.Context(), contract.LeaderElectionID, metav1.GetOptions{})
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	if err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

func (b *bench) untilHeldBy(t *testing.T, namespace, identity string, bound time.Duration) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, bound, true, func(context.Context) (bool, error) {
		return b.holder(t, namespace) == identity, nil
	})
	if err != nil {
		t.Fatalf("the Lease names %q after %s, want %q", b.holder(t, namespace), bound, identity)
	}
}

// steal gives the Lease to somebody who renews it in the future.
func (b *bench) steal(t *testing.T, namespace, winner string) {
	t.Helper()
	leases := b.ControlPlane.Client().CoordinationV1().Leases(namespace)
	now := metav1.NewMicroTime(time.Now().Add(time.Hour))
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, plungertest.Settle, true, func(ctx context.Context) (bool, error) {
		lease, err := leases.Get(ctx, contract.LeaderElectionID, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		lease.Spec.HolderIdentity, lease.Spec.RenewTime = &winner, &now
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
		return err == nil, nil // its holder renews it in between
	})
	must(t, err)
}

// stopped is a flux-plunger that waits inside its own request, right after the
// step was answered, with the release that it was about.
type stopped struct {
	*plungerRun
	key      types.NamespacedName
	requests *tap
	goOn     func()
}

// stuckAt stops a flux-plunger with a stuck release right after the step was
// answered, and returns it while it waits there.
func (b *bench) stuckAt(t *testing.T, namespace string, strategy decide.Strategy, at step, edits ...func(*plunger.Config)) stopped {
	t.Helper()
	key := b.Releases(t, namespace, 1)[0]
	return b.stuckKeyAt(t, key, strategy, at, edits...)
}

func (b *bench) stuckKeyAt(t *testing.T, key types.NamespacedName, strategy decide.Strategy, at step, edits ...func(*plunger.Config)) stopped {
	t.Helper()
	requests, reached, free := &tap{}, make(chan struct{}), make(chan struct{})
	var once, gone atomic.Bool
	hold := b.untilAsked(t, key, at)
	requests.before = hold
	requests.after = func(r request) {
		hold(r)
		if r.Release == key.Name && r.Step == at && r.Status < 300 && once.CompareAndSwap(false, true) {
			close(reached)
			<-free
		}
	}
	goOn := func() {
		if gone.CompareAndSwap(false, true) {
			close(free)
		}
	}
	t.Cleanup(goOn)
	run := b.start(t, key.Namespace, strategy, append(edits, requests.wrap)...)
	must(t, b.Harm(t.Context(), key, lab.Damage{}))
	must(t, b.Change(t.Context(), key, 2))
	select {
	case <-reached:
	case <-run.done:
		t.Fatalf("it ended before: %s: %v", at, run.err)
	case <-time.After(plungertest.Settle):
		b.never(t, key, at)
	}
	return stopped{run, key, requests, goOn}
}

// never ends a test whose step did not come, with what was there instead.
func (b *bench) never(t *testing.T, key types.NamespacedName, at step) {
	t.Helper()
	t.Fatalf("never came to: %s; the Lease names %q, events %v; %s", at, b.holder(t, key.Namespace), b.Said(t, key), lab.Describe(b.Live(t, key)))
}

// untilAsked returns a hook that keeps helm-controller off the release from the
// rewrite until it is asked, where the step is that request: its own retry can be
// quicker, and then nothing is asked. One that is under way ends before the rewrite.
func (b *bench) untilAsked(t *testing.T, key types.NamespacedName, at step) func(request) {
	t.Helper()
	var stop atomic.Pointer[helmcontroller.Stop]
	release := func() {
		if held := stop.Load(); held != nil {
			held.Release()
		}
	}
	t.Cleanup(release)
	return func(r request) {
		switch {
		case at != requestLook || r.Release != key.Name:
		case r.Step == rewrite && r.Status == 0 && stop.Load() == nil:
			stop.Store(b.gate.Hold(helmcontroller.PointRead, key))
			for ended := time.Now().Add(plungertest.Settle); b.gate.Under(key) && time.Now().Before(ended); {
				time.Sleep(time.Millisecond)
			}
		case r.Step == requestLook && r.Status != 0:
			release()
		}
	}
}

// B6.1, B6.2, B6.4a, B6.6: SIGTERM at each step of a recovery, with and without
// a delete at that moment, and a second one waiting. The drain leaves a live
// release without fence and suspension, and a deleted one fenced or uninstalled;
// the second leads within seconds, writes nothing before the first has written
// its last, and finishes.
func TestSigtermAtEachStepHandsOver(t *testing.T) {
	for strategy, steps := range map[decide.Strategy][]step{decide.Repair: repairSteps(), decide.Reclaim: reclaimSteps()} {
		for _, at := range steps {
			for _, deleted := range []bool{false, true} {
				name := string(strategy) + " " + string(at)
				if deleted {
					name += " deleted"
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					shared.sigtermAt(t, "term-"+dashed(name), strategy, at, deleted)
				})
			}
		}
	}
}

func (b *bench) sigtermAt(t *testing.T, namespace string, strategy decide.Strategy, at step, deleted bool) {
	b.elections(t, namespace, strategy)
	order := &requestOrder{}
	first := b.stuckAt(t, namespace, strategy, at, electing(namespace, "first"), order.wrap)
	second, looked := &tap{}, make(chan struct{})
	second.before = func(request) { <-looked } // what the drain left is looked at first
	b.start(t, namespace, strategy, electing(namespace, "second"), second.wrap)
	if deleted {
		must(t, b.Delete(t.Context(), first.key))
	}
	first.cancel()
	first.goOn()
	if err := first.stop(); err != nil {
		t.Errorf("B6.1 the stop: %v", err)
	}
	if said := order.of(); len(said) == 0 || said[len(said)-1] != gaveUpLease {
		t.Errorf("B6.6 the Lease was not given up as the last request: %v", said)
	}
	written := first.requests.written()
	b.expectDrained(t, first.key, at, deleted)
	close(looked)
	b.untilHeldBy(t, namespace, "second", handover)
	if deleted {
		left := b.Left(t, lab.NewRelease(first.key))
		if taken, _ := first.requests.of(first.key.Name); !left.Clean() && (strategy == decide.Repair || !has(taken, deleteSecret)) {
			t.Errorf("left %v and %v; events %v", left.Chart, left.Storage, b.Said(t, first.key))
		}
	} else {
		b.Await(t, first.key, plungertest.Recovered)
	}
	if after := first.requests.written(); after != written {
		t.Errorf("B6.5 the first one wrote %d times after it had ended", after-written)
	}
}

// requestOrder records the writes of a process and the end of its Lease in their
// order.
type requestOrder struct {
	mu   sync.Mutex
	seen []step
}

const gaveUpLease step = "give up the Lease"

func (o *requestOrder) wrap(config *plunger.Config) {
	config.Rest.Wrap(func(next http.RoundTripper) http.RoundTripper { return ordered{o, next} })
}

func (o *requestOrder) of() []step {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.seen)
}

type ordered struct {
	order *requestOrder
	next  http.RoundTripper
}

// RoundTrip is http.RoundTripper.
func (o ordered) RoundTrip(req *http.Request) (*http.Response, error) {
	var what step
	switch {
	case req.Method == http.MethodGet:
	case strings.Contains(req.URL.Path, "/leases/"):
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte(`"holderIdentity":""`)) {
			what = gaveUpLease
		}
	case releaseOf(req) != "":
		what = stepOf(req)
	}
	if what != "" {
		o.order.mu.Lock()
		o.order.seen = append(o.order.seen, what)
		o.order.mu.Unlock()
	}
	return o.next.RoundTrip(req)
}

// B6.4a: a stop that arrives while a write is on its way does not cut it: its
// outcome is known, so the Lease can be given up.
func TestAStopDoesNotCutAWrite(t *testing.T) {
	t.Parallel()
	b, namespace := shared, "uncut"
	b.elections(t, namespace, decide.Repair)
	key := b.Releases(t, namespace, 1)[0]
	sent := &onItsWay{step: rewrite, reached: make(chan struct{}), stopped: make(chan struct{})}
	run := b.start(t, namespace, decide.Repair, electing(namespace, "first"), sent.wrap)
	must(t, b.Harm(t.Context(), key, lab.Damage{}))
	must(t, b.Change(t.Context(), key, 2))
	select {
	case <-sent.reached:
	case <-time.After(plungertest.Settle):
		b.never(t, key, rewrite)
	}
	run.cancel()
	<-sent.stopped
	if err := run.stop(); err != nil {
		t.Errorf("B6.1 the stop: %v", err)
	}
	if sent.cut.Load() {
		t.Error("B6.4a the stop ended the write's context")
	}
	if holder := b.holder(t, namespace); holder != "" {
		t.Errorf("B6.6 the Lease still names %q", holder)
	}
}

// onItsWay holds the first write of a kind until its context ends, or, as it must
// not, for a time that a stop needs many times over to end all that it ends.
type onItsWay struct {
	step             step
	reached, stopped chan struct{}
	once, cut        atomic.Bool
}

func (o *onItsWay) wrap(config *plunger.Config) {
	config.Rest.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(req *http.Request) (*http.Response, error) {
			if req.Method == http.MethodGet || releaseOf(req) == "" || stepOf(req) != o.step || !o.once.CompareAndSwap(false, true) {
				return next.RoundTrip(req)
			}
			close(o.reached)
			select {
			case <-req.Context().Done():
				o.cut.Store(true)
			case <-time.After(3 * time.Second):
			}
			close(o.stopped)
			return next.RoundTrip(req)
		})
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip is http.RoundTripper.
func (r roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return r(req) }

// expectDrained is B6.2 for the one release. After the last step nothing of ours
// is left to drain, and a delete is helm-controller's alone.
func (b *bench) expectDrained(t *testing.T, key types.NamespacedName, at step, deleted bool) {
	t.Helper()
	hr, err := b.Release(t.Context(), key)
	switch {
	case err != nil && deleted: // uninstalled in time, which is asked about later
	case err != nil:
		t.Error(err)
	case deleted && !plungertest.Fenced(hr) && at != drop:
		t.Error("B6.2 a deleted release is still there, and lost its fence")
	case !deleted && (plungertest.Fenced(hr) || hr.Spec.Suspend):
		t.Errorf("B6.2 a live release was left fenced %t, suspended %t", plungertest.Fenced(hr), hr.Spec.Suspend)
	}
}

func has(writes []request, what step) bool {
	for _, w := range writes {
		if w.Step == what {
			return true
		}
	}
	return false
}

// B6.1, B6.3: a stop that overran its bound is drained too, its events arrive,
// it is an error all the same, and the Lease is left to run out, because a
// reconcile of ours may still be on its way.
func TestAnOverrunStopIsDrained(t *testing.T) {
	t.Parallel()
	b, namespace := shared, "overrun"
	b.elections(t, namespace, decide.Reclaim)
	keys := b.Releases(t, namespace, 2)
	held, deleting := keys[0], keys[1]
	stop := b.gate.Hold(helmcontroller.PointSawDelete, deleting)
	t.Cleanup(stop.Release)
	must(t, b.Edit(t.Context(), deleting, func(hr *helmv2.HelmRelease) { hr.Finalizers = append(hr.Finalizers, contract.Fence) }))
	must(t, b.Delete(t.Context(), deleting))
	<-stop.Arrived()
	kept := b.Live(t, deleting)
	run := b.stuckKeyAt(t, held, decide.Reclaim, acquire, electing(namespace, "overrun"))

	if err := run.stop(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("B6.1 a stop that overran ended with: %v", err)
	}
	if hr := b.Live(t, held); plungertest.Fenced(hr) || hr.Spec.Suspend {
		t.Fatalf("B6.1 not drained: fenced %t, suspended %t", plungertest.Fenced(hr), hr.Spec.Suspend)
	}
	b.Told(t, held, decide.DrainAborted)
	if !plungertest.Fenced(b.Live(t, deleting)) {
		t.Error("B6.2 the fence is gone before helm-controller handled the delete")
	}
	b.Told(t, deleting, decide.FenceKept)
	if holder := b.holder(t, namespace); holder != "overrun" {
		t.Errorf("B6.6 the Lease names %q: given up while a reconcile still runs", holder)
	}
	run.goOn()
	stop.Release()
	b.start(t, namespace, decide.Reclaim)
	b.uninstalled(t, kept)
	b.Await(t, held, plungertest.Recovered)
}

// B6.4: one that never led drains nothing.
func TestOneThatNeverLedDrainsNothing(t *testing.T) {
	t.Parallel()
	b, namespace := shared, "never-led"
	b.elections(t, namespace, decide.Repair)
	first := b.stuckAt(t, namespace, decide.Repair, setFence, electing(namespace, "first"))
	requests := &tap{}
	second := b.start(t, namespace, decide.Repair, electing(namespace, "second"), requests.wrap)
	if err := second.stop(); err != nil {
		t.Errorf("B6.1 the stop: %v", err)
	}
	if n := requests.written(); n > 0 || !plungertest.Fenced(b.Live(t, first.key)) {
		t.Errorf("B6.4 it wrote %d times without having led; fenced %t", n, plungertest.Fenced(b.Live(t, first.key)))
	}
	if holder := b.holder(t, namespace); holder != "first" {
		t.Errorf("B6.6 the Lease names %q", holder)
	}
	first.goOn()
	b.Await(t, first.key, plungertest.Recovered)
}

// B6.2, B6.3: a release that helm-controller does not handle in time keeps its
// fence, which is said by an event that arrives although the manager is gone,
// and the Lease is given up all the same: nothing of ours is on its way.
func TestDrainKeepsTheFenceWithoutHelmController(t *testing.T) {
	t.Parallel()
	b, namespace := shared, "drain-kept"
	b.elections(t, namespace, decide.Repair)
	run := b.stuckAt(t, namespace, decide.Repair, setFence, electing(namespace, "alone"))
	stop := b.gate.Hold(helmcontroller.PointRead, run.key)
	t.Cleanup(stop.Release)
	hr := b.Live(t, run.key)
	must(t, b.Delete(t.Context(), run.key))
	<-stop.Arrived()
	run.cancel()
	run.goOn()
	if err := run.stop(); err != nil {
		t.Errorf("B6.1 the stop: %v", err)
	}
	if hr := b.Live(t, run.key); !plungertest.Fenced(hr) {
		t.Error("B6.2 the fence is gone before helm-controller handled the delete")
	}
	b.Told(t, run.key, decide.FenceKept)
	if holder := b.holder(t, namespace); holder != "" {
		t.Errorf("B6.6 the Lease still names %q", holder)
	}
	stop.Release()
	b.start(t, namespace, decide.Repair)
	b.uninstalled(t, hr)
}

// B6.4: after a lost Lease nothing is drained, also where the process is asked
// to stop then.
func TestLostLeaseIsNotDrained(t *testing.T) {
	for name, asked := range map[string]bool{"noticed while running": false, "noticed at the stop": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, namespace := shared, "lost-"+dashed(name)
			b.elections(t, namespace, decide.Repair)
			run := b.stuckAt(t, namespace, decide.Repair, setFence, electing(namespace, "loser"))
			if asked {
				// The stop waits for the reconcile, and the Lease is lost meanwhile.
				run.cancel()
				b.steal(t, namespace, "winner")
				run.goOn()
			} else {
				b.steal(t, namespace, "winner")
			}
			select {
			case <-run.done:
			case <-time.After(plungertest.Settle):
				t.Fatal("still running without its Lease")
			}
			run.goOn()
			if run.err == nil {
				t.Error("B6.4 a lost Lease is no clean end")
			}
			if hr := b.Live(t, run.key); !plungertest.Fenced(hr) {
				t.Error("B6.4 drained after the Lease was lost")
			}
			if holder := b.holder(t, namespace); holder != "winner" {
				t.Errorf("B6.6 the Lease names %q", holder)
			}
			b.start(t, namespace, decide.Repair)
			b.Await(t, run.key, plungertest.Recovered)
		})
	}
}

// B6.6: where a write was never answered the Lease is left to run out, although
// everything was drained: that write may still be on its way. The next one leads
// after the Lease's expiry and not before, and finishes.
func TestAnUnknownOutcomeLeavesTheLeaseToRunOut(t *testing.T) {
	t.Parallel()
	b, namespace := shared, "indefinite"
	b.elections(t, namespace, decide.Repair)
	// A Lease as short as the relations allow, so that this does not take long.
	const lease = 31 * time.Second
	brief := func(c *plunger.Config) {
		c.Timing = plunger.Timing{Grace: plunger.MinGrace, Renew: 5 * time.Second, Retry: 200 * time.Millisecond, Lease: lease}
	}
	key := b.Releases(t, namespace, 1)[0]
	lost := &loseAnswer{step: rewrite, done: make(chan struct{})}
	first := b.start(t, namespace, decide.Repair, electing(namespace, "first"), brief, lost.wrap)
	must(t, b.Harm(t.Context(), key, lab.Damage{}))
	must(t, b.Change(t.Context(), key, 2))
	select {
	case <-lost.done:
	case <-first.done:
		t.Fatal(first.err)
	case <-time.After(plungertest.Settle):
		b.never(t, key, rewrite)
	}
	requests := &tap{}
	b.start(t, namespace, decide.Repair, electing(namespace, "second"), brief, requests.wrap)
	if err := first.stop(); err != nil {
		t.Errorf("B6.1 the stop: %v", err)
	}
	ended := time.Now()
	if holder := b.holder(t, namespace); holder != "first" {
		t.Errorf("B6.6 the Lease names %q although a write of its holder was not answered", holder)
	}
	if hr := b.Live(t, key); plungertest.Fenced(hr) {
		t.Error("B6.2 not drained")
	}
	b.untilHeldBy(t, namespace, "second", lease+plungertest.Settle)
	if took := time.Since(ended); took < 20*time.Second {
		t.Errorf("B6.6 taken %s after the end, before it had run out", took)
	}
	b.Await(t, key, plungertest.Recovered)
}

// loseAnswer carries out the first write of a kind and loses its answer.
type loseAnswer struct {
	step step
	done chan struct{}
	once atomic.Bool
}

func (l *loseAnswer) wrap(config *plunger.Config) {
	config.Rest.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(req *http.Request) (*http.Response, error) {
			if req.Method == http.MethodGet || releaseOf(req) == "" || stepOf(req) != l.step || !l.once.CompareAndSwap(false, true) {
				return next.RoundTrip(req)
			}
			answer, err := next.RoundTrip(req)
			if err == nil {
				err = errors.Join(errors.New("the connection was cut"), answer.Body.Close())
			}
			close(l.done)
			return nil, err
		})
	})
}
