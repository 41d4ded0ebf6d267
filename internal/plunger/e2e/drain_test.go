package e2e

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/internal/plunger"
	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
	"github.com/holdfast-project/holdfast/internal/plunger/drain"
	"github.com/holdfast-project/holdfast/internal/plunger/gather"
	"github.com/holdfast-project/holdfast/internal/plunger/observe"
	"github.com/holdfast-project/holdfast/internal/plunger/plungertest"
	"github.com/holdfast-project/holdfast/internal/plunger/walk"
	"github.com/holdfast-project/holdfast/internal/plunger/write"
	"github.com/holdfast-project/holdfast/test/helmcontroller"
	"github.com/holdfast-project/holdfast/test/helmcontroller/lab"
)

// drainer is a drain without any manager before it, under the shipped
// permissions: all that happens is the drain's doing.
func (b *bench) drainer(t *testing.T, namespace string, strategy decide.Strategy, wraps ...func(*plunger.Config)) drain.Drain {
	t.Helper()
	config := plunger.Config{Rest: rest.CopyConfig(b.config[strategy])}
	for _, wrap := range wraps {
		wrap(&config)
	}
	objects, err := kube.NewObjects(config.Rest, contract.FieldManager)
	must(t, err)
	metrics, err := observe.NewMetrics(prometheus.NewRegistry(), time.Now)
	must(t, err)
	return drain.Drain{Namespace: namespace, Walker: &walk.Walker{
		Reader: gather.NewReader(objects), Writer: write.NewWriter(objects), Teller: observe.NewTeller(objects, "drain", metrics),
		Metrics: metrics, Ledger: &walk.Ledger{}, Now: time.Now,
		Options: decide.Options{Strategy: strategy, FenceUntil: decide.UntilRemembered, UnprovenUninstall: decide.ReleaseUnproven}}}
}

// held makes a release that is stuck and that an earlier flux-plunger suspends.
func (b *bench) held(t *testing.T, key types.NamespacedName) {
	t.Helper()
	must(t, b.Stick(t.Context(), key, lab.Damage{}))
	d := b.drainer(t, key.Namespace, decide.Reclaim)
	b.untilWritten(t, func() error {
		r, err := d.Walker.Reader.Release(t.Context(), key.Namespace, key.Name)
		if err == nil {
			_, err = d.Walker.Writer.Acquire(t.Context(), *r)
		}
		return err
	})
}

func addFence(hr *helmv2.HelmRelease) { hr.Finalizers = append(hr.Finalizers, contract.Fence) }

// B6.2: what the drain does to each kind of release, and with which writes.
func TestDrain(t *testing.T) {
	t.Parallel()
	b := shared
	keys := b.Releases(t, "drain", 7)
	quiet, fencedOnly, foreign, foreignDeleted, deleting, ours, oursDeleted := keys[0], keys[1], keys[2], keys[3], keys[4], keys[5], keys[6]
	stop := b.gate.Hold(helmcontroller.PointSawDelete, deleting)
	t.Cleanup(stop.Release)
	for _, key := range []types.NamespacedName{fencedOnly, foreign, foreignDeleted, deleting} {
		must(t, b.Edit(t.Context(), key, addFence))
	}
	for _, key := range []types.NamespacedName{foreign, foreignDeleted} {
		must(t, b.Edit(t.Context(), key, suspend))
	}
	b.held(t, ours)
	b.held(t, oursDeleted)
	kept := map[types.NamespacedName]*helmv2.HelmRelease{deleting: b.Live(t, deleting), oursDeleted: b.Live(t, oursDeleted)}
	for _, key := range []types.NamespacedName{foreignDeleted, deleting, oursDeleted} {
		must(t, b.Delete(t.Context(), key))
	}
	<-stop.Arrived()

	requests := &tap{}
	d := b.drainer(t, "drain", decide.Reclaim, requests.wrap)
	ctx, cancel := context.WithTimeout(t.Context(), 2*plungertest.Settle)
	defer cancel()
	ended := make(chan drain.Outcome, 1)
	go func() { ended <- d.Run(ctx) }()
	b.Await(t, fencedOnly, func(hr *helmv2.HelmRelease) bool { return !plungertest.Fenced(hr) })
	b.Await(t, ours, func(hr *helmv2.HelmRelease) bool { return !plungertest.Fenced(hr) && !hr.Spec.Suspend })
	b.Told(t, ours, decide.DrainAborted)
	if hr := b.Await(t, foreign, func(hr *helmv2.HelmRelease) bool { return !plungertest.Fenced(hr) }); !hr.Spec.Suspend {
		t.Error("B6.2 another manager's suspension was lifted")
	}
	if left := b.Left(t, lab.NewRelease(foreignDeleted)); left.Clean() {
		t.Error("B2.3 uninstalled although its owner had suspended it")
	}
	b.Told(t, foreignDeleted, decide.DeletedWhileSuspended)
	b.uninstalled(t, kept[oursDeleted])
	if hr := b.Live(t, deleting); !plungertest.Fenced(hr) {
		t.Error("B6.2 the fence of a release that helm-controller has not handled is gone")
	}
	stop.Release()
	b.uninstalled(t, kept[deleting])
	if outcome := <-ended; outcome.Word() != "clean" {
		t.Errorf("B6.2 ended %s: %v, kept %v", outcome.Word(), outcome.Err, outcome.Kept)
	}
	if hr := b.Live(t, quiet); plungertest.Fenced(hr) || hr.Spec.Suspend {
		t.Error("B6.2 a quiet release was touched")
	}
	if live, terminating := requests.first(ours.Name), requests.first(foreignDeleted.Name); live < 0 || terminating < live {
		t.Errorf("B6.2 a terminating release was written to before a live one: %v", stepsOf(requests.all()))
	}
	for key, want := range map[types.NamespacedName][]step{
		quiet: nil, fencedOnly: {drop}, foreign: {drop}, foreignDeleted: {drop}, deleting: {drop},
		ours:        {drop},             // suspension and fence in one apply
		oursDeleted: {fill, lift, drop}, // reminded before the lift, dropped when proven
	} {
		written, _ := requests.of(key.Name)
		if got := stepsOf(written); !slices.Equal(withoutPatches(got), want) {
			t.Errorf("B6.2 %s: wrote %v, want %v", key, got, want)
		}
	}
}

func stepsOf(writes []request) (steps []step) {
	for _, w := range writes {
		steps = append(steps, w.Step)
	}
	return steps
}

// withoutPatches: a fence that the test wrote under its own name is not given up
// by an apply and goes by a patch that follows it (B7.3).
func withoutPatches(steps []step) []step {
	return slices.DeleteFunc(slices.Clone(steps), func(s step) bool { return s == removeByPatch })
}

// B6.1: a reconcile that overran its stop may fence a release after the drain has
// listed what is held, so it asks once more.
func TestDrainAsksOnceMore(t *testing.T) {
	t.Parallel()
	b := shared
	keys := b.Releases(t, "drain-again", 2)
	must(t, b.Edit(t.Context(), keys[0], addFence))
	requests := &tap{}
	requests.after = func(r request) {
		if r.Step == drop && r.Release == keys[0].Name {
			if err := b.Edit(t.Context(), keys[1], addFence); err != nil {
				t.Error(err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), plungertest.Settle)
	defer cancel()
	if outcome := b.drainer(t, "drain-again", decide.Repair, requests.wrap).Run(ctx); outcome.Word() != "clean" {
		t.Errorf("ended %s: %v", outcome.Word(), outcome.Err)
	}
	for _, key := range keys {
		if plungertest.Fenced(b.Live(t, key)) {
			t.Errorf("%s is still fenced", key)
		}
	}
}

// B6.2: a listing that fails is tried again, until the deadline.
func TestDrainRetriesItsListing(t *testing.T) {
	t.Parallel()
	b := shared
	key := b.Releases(t, "drain-listing", 1)[0]
	must(t, b.Edit(t.Context(), key, addFence))
	failing := &failingLists{left: 2}
	d := b.drainer(t, key.Namespace, decide.Repair, func(c *plunger.Config) {
		c.Rest.Wrap(func(next http.RoundTripper) http.RoundTripper { failing.next = next; return failing })
	})
	ctx, cancel := context.WithTimeout(t.Context(), plungertest.Settle)
	defer cancel()
	if outcome := d.Run(ctx); outcome.Word() != "clean" {
		t.Errorf("ended %s: %v", outcome.Word(), outcome.Err)
	}
	if plungertest.Fenced(b.Live(t, key)) {
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
