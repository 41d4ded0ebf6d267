package e2e

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/internal/plunger"
	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
	"github.com/holdfast-project/holdfast/internal/plunger/drain"
	"github.com/holdfast-project/holdfast/internal/plunger/fence"
	"github.com/holdfast-project/holdfast/internal/plunger/gather"
	"github.com/holdfast-project/holdfast/internal/plunger/observe"
	"github.com/holdfast-project/holdfast/internal/plunger/walk"
	"github.com/holdfast-project/holdfast/test/helmcontroller"
	"github.com/holdfast-project/holdfast/test/helmcontroller/lab"
)

// electing runs with a Lease in the test's own namespace: the shipped Role is for
// flux-plunger's namespace, so the test grants the same there.
func electing(identity string) func(*plunger.Config) {
	return func(config *plunger.Config) {
		config.LeaderElect, config.LeaseNamespace, config.Identity = true, "flux-system-"+string(config.Options.Strategy), identity
		config.Timing = plunger.Timing{Grace: plunger.MinGrace, Renew: 3 * time.Second, Retry: 500 * time.Millisecond}
	}
}

// holder returns who holds the Lease.
func (b *bench) holder(t *testing.T, strategy decide.Strategy) string {
	t.Helper()
	lease, err := b.ControlPlane.Client().CoordinationV1().Leases("flux-system-"+string(strategy)).Get(t.Context(), contract.LeaderElectionID, metav1.GetOptions{})
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	if err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

func (b *bench) untilHeldBy(t *testing.T, strategy decide.Strategy, identity string, bound time.Duration) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, bound, true, func(context.Context) (bool, error) {
		return b.holder(t, strategy) == identity, nil
	})
	if err != nil {
		t.Fatalf("the Lease names %q after %s, want %q", b.holder(t, strategy), bound, identity)
	}
}

func (b *bench) dropLease(t *testing.T, strategy decide.Strategy) {
	t.Helper()
	err := b.ControlPlane.Client().CoordinationV1().Leases("flux-system-"+string(strategy)).Delete(t.Context(), contract.LeaderElectionID, metav1.DeleteOptions{})
	must(t, client.IgnoreNotFound(err))
}

// stuckAt stops a flux-plunger with a stuck release right after the step was
// answered, and returns it while it waits there.
func (b *bench) stuckAt(t *testing.T, namespace string, strategy decide.Strategy, at step, edits ...func(*plunger.Config)) (types.NamespacedName, *plungerRun, func()) {
	t.Helper()
	key := b.namespace(t, namespace, 1)[0]
	requests, reached, free := &tap{}, make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	requests.after = func(r request) {
		if r.Step == at && r.Status < 300 && once.CompareAndSwap(false, true) {
			close(reached)
			<-free
		}
	}
	run := b.start(t, namespace, strategy, append(edits, requests.wrap)...)
	must(t, b.Harm(t.Context(), key, lab.Damage{}))
	must(t, b.Change(t.Context(), key, 2))
	select {
	case <-reached:
	case <-time.After(30 * time.Second):
		t.Fatalf("never came to: %s", at)
	}
	return key, run, func() { close(free) }
}

// B6.1, B6.2, B6.6: SIGTERM at each step of a hold: suspension and fence go
// together, the Lease is given up as the last request, and a second one leads
// within seconds and finishes the recovery.
func TestSigtermAtEachStepHandsOver(t *testing.T) {
	b := shared
	for _, strategy := range []decide.Strategy{decide.Repair, decide.Reclaim} {
		steps := []step{acquire, noteUID, deleteSecret, noteVersion}
		if strategy == decide.Repair {
			steps = []step{setFence, rewrite, requestLook}
		}
		for _, at := range steps {
			t.Run(string(strategy)+" "+string(at), func(t *testing.T) {
				b.dropLease(t, strategy)
				namespace := "term-" + string(strategy) + "-" + strings.ToLower(strings.ReplaceAll(string(at), " ", "-"))
				key, first, goOn := b.stuckAt(t, namespace, strategy, at, electing("first"))
				b.start(t, namespace, strategy, electing("second"))
				first.cancel()
				goOn()
				if err := first.stop(); err != nil {
					t.Errorf("B6.1 the stop: %v", err)
				}
				b.untilHeldBy(t, strategy, "second", 10*time.Second)
				b.until(t, key, recovered)
			})
		}
	}
}

// drainer is a drain without any manager before it, under the shipped
// permissions: all that happens is the drain's doing.
func (b *bench) drainer(t *testing.T, namespace string, strategy decide.Strategy) drain.Drain {
	t.Helper()
	objects, err := kube.NewObjects(b.config[strategy], contract.FieldManager)
	must(t, err)
	metrics, err := observe.NewMetrics(prometheus.NewRegistry(), time.Now)
	must(t, err)
	return drain.Drain{Namespace: namespace, Walker: &walk.Walker{
		Reader: gather.NewReader(objects), Writer: fence.NewWriter(objects), Teller: observe.NewTeller(objects, "drain", metrics),
		Metrics: metrics, Ledger: &walk.Ledger{}, Now: time.Now,
		Options: decide.Options{Strategy: strategy, FenceUntil: decide.UntilRemembered, UnprovenUninstall: decide.ReleaseUnproven}}}
}

// B6.2: what the drain does to each kind of release.
func TestDrain(t *testing.T) {
	b := shared
	keys := b.namespace(t, "drain", 6)
	quiet, fencedOnly, foreign, foreignDeleted, deleting, ours := keys[0], keys[1], keys[2], keys[3], keys[4], keys[5]
	stop := b.gate.Hold(helmcontroller.PointSawDelete, deleting)
	t.Cleanup(stop.Release)
	for _, key := range []types.NamespacedName{fencedOnly, foreign, foreignDeleted, deleting} {
		must(t, b.Edit(t.Context(), key, func(hr *helmv2.HelmRelease) { hr.Finalizers = append(hr.Finalizers, contract.Fence) }))
	}
	for _, key := range []types.NamespacedName{foreign, foreignDeleted} {
		must(t, b.Edit(t.Context(), key, func(hr *helmv2.HelmRelease) { hr.Spec.Suspend = true }))
	}
	d := b.drainer(t, "drain", decide.Reclaim)
	held, err := d.Walker.Reader.Release(t.Context(), ours.Namespace, ours.Name)
	must(t, err)
	_, err = d.Walker.Writer.Acquire(t.Context(), *held)
	must(t, err)
	must(t, b.Delete(t.Context(), foreignDeleted))
	must(t, b.Delete(t.Context(), deleting))
	<-stop.Arrived()
	kept := b.release(t, deleting)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan drain.Outcome, 1)
	go func() { ended <- d.Run(ctx) }()
	b.until(t, fencedOnly, func(hr *helmv2.HelmRelease) bool { return !fenced(hr) })
	b.until(t, ours, func(hr *helmv2.HelmRelease) bool { return !fenced(hr) && !hr.Spec.Suspend })
	b.told(t, ours, decide.DrainAborted)
	if hr := b.until(t, foreign, func(hr *helmv2.HelmRelease) bool { return !fenced(hr) }); !hr.Spec.Suspend {
		t.Error("B6.2 another manager's suspension was lifted")
	}
	must(t, b.Gone(t.Context(), foreignDeleted, 30*time.Second))
	b.told(t, foreignDeleted, decide.DeletedWhileSuspended)
	if hr := b.release(t, deleting); !fenced(hr) {
		t.Error("B6.2 the fence of a release that helm-controller has not handled is gone")
	}
	stop.Release()
	b.uninstalled(t, kept)
	if outcome := <-ended; outcome.Word() != "clean" {
		t.Errorf("B6.2 ended %s: %v, kept %v", outcome.Word(), outcome.Err, outcome.Kept)
	}
	if hr := b.release(t, quiet); fenced(hr) || hr.Spec.Suspend {
		t.Error("B6.2 a quiet release was touched")
	}
}

// B6.2: a listing that fails is tried again, until the deadline.
func TestDrainRetriesItsListing(t *testing.T) {
	b := shared
	key := b.namespace(t, "drain-listing", 1)[0]
	must(t, b.Edit(t.Context(), key, func(hr *helmv2.HelmRelease) { hr.Finalizers = append(hr.Finalizers, contract.Fence) }))
	failing := &failingLists{left: 2}
	config := rest.CopyConfig(b.config[decide.Repair])
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { failing.next = next; return failing })
	whole := b.config[decide.Repair]
	b.config[decide.Repair] = config
	d := b.drainer(t, key.Namespace, decide.Repair)
	b.config[decide.Repair] = whole
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if outcome := d.Run(ctx); outcome.Word() != "clean" {
		t.Errorf("ended %s: %v", outcome.Word(), outcome.Err)
	}
	if fenced(b.release(t, key)) {
		t.Error("still fenced")
	}
	failing.left = 1 << 20
	ctx, cancel = context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if outcome := d.Run(ctx); outcome.Word() != "incomplete" {
		t.Errorf("ended %s without ever listing", outcome.Word())
	}
}

// failingLists fails the first lists of HelmReleases.
type failingLists struct {
	next http.RoundTripper
	left int
}

func (f *failingLists) RoundTrip(req *http.Request) (*http.Response, error) {
	if strings.HasSuffix(req.URL.Path, "/helmreleases") && f.left > 0 {
		f.left--
		return nil, errDead
	}
	return f.next.RoundTrip(req)
}

// B6.2, B6.3: a release that helm-controller does not handle in time keeps its
// fence, which is said by an event that arrives although the manager is gone,
// and the Lease is given up all the same: nothing of ours is on its way.
func TestDrainKeepsTheFenceWithoutHelmController(t *testing.T) {
	b := shared
	b.dropLease(t, decide.Repair)
	key, run, goOn := b.stuckAt(t, "drain-kept", decide.Repair, setFence, electing("alone"))
	stop := b.gate.Hold(helmcontroller.PointRead, key)
	t.Cleanup(stop.Release)
	hr := b.release(t, key)
	must(t, b.Delete(t.Context(), key))
	<-stop.Arrived()
	run.cancel()
	goOn()
	if err := run.stop(); err != nil {
		t.Errorf("B6.1 the stop: %v", err)
	}
	if hr := b.release(t, key); !fenced(hr) {
		t.Error("B6.2 the fence is gone before helm-controller handled the delete")
	}
	b.told(t, key, decide.FenceKept)
	if holder := b.holder(t, decide.Repair); holder != "" {
		t.Errorf("B6.6 the Lease still names %q", holder)
	}
	stop.Release()
	b.start(t, key.Namespace, decide.Repair)
	b.uninstalled(t, hr)
}

// B6.4: after a lost Lease nothing is drained, also where the process is asked
// to stop then.
func TestLostLeaseIsNotDrained(t *testing.T) {
	b := shared
	b.dropLease(t, decide.Repair)
	key, run, goOn := b.stuckAt(t, "lease-lost", decide.Repair, setFence, electing("loser"))
	leases := b.ControlPlane.Client().CoordinationV1().Leases("flux-system-repair")
	lease, err := leases.Get(t.Context(), contract.LeaderElectionID, metav1.GetOptions{})
	must(t, err)
	winner := "winner"
	lease.Spec.HolderIdentity = &winner
	now := metav1.NewMicroTime(time.Now().Add(time.Hour))
	lease.Spec.RenewTime = &now
	_, err = leases.Update(t.Context(), lease, metav1.UpdateOptions{})
	must(t, err)
	select {
	case <-run.done:
	case <-time.After(30 * time.Second):
		t.Fatal("still running without its Lease")
	}
	goOn()
	if run.err == nil {
		t.Error("B6.4 a lost Lease is no clean end")
	}
	if hr := b.release(t, key); !fenced(hr) {
		t.Error("B6.4 drained after the Lease was lost")
	}
	if holder := b.holder(t, decide.Repair); holder != winner {
		t.Errorf("B6.6 the Lease names %q", holder)
	}
	b.dropLease(t, decide.Repair)
	b.start(t, key.Namespace, decide.Repair)
	b.until(t, key, recovered)
}
