package e2e

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/internal/plunger"
	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
	"github.com/holdfast-project/holdfast/internal/plunger/gather"
	"github.com/holdfast-project/holdfast/internal/plunger/observe"
	"github.com/holdfast-project/holdfast/internal/plunger/plungertest"
	"github.com/holdfast-project/holdfast/test/helmcontroller"
	"github.com/holdfast-project/holdfast/test/helmcontroller/lab"
)

// B2.4: stuck, and suspended by somebody else, which makes a generation that
// helm-controller never speaks of: said, and nothing written.
func TestSuspensionLeftAloneIsSaid(t *testing.T) {
	t.Parallel()
	b := shared
	key := b.Releases(t, "left-alone", 1)[0]
	must(t, b.Stick(t.Context(), key, lab.Damage{}))
	must(t, b.Edit(t.Context(), key, suspend))
	requests := &tap{}
	b.start(t, key.Namespace, decide.Repair, requests.wrap)
	b.Told(t, key, decide.SuspensionLeftAlone)
	if n := requests.written(); n > 0 {
		t.Errorf("B10.6 wrote %d times", n)
	}
}

// B3.3: a write that loses five times is deferred, which is said, and done later.
func TestADeferredRecoveryIsSaidAndDone(t *testing.T) {
	t.Parallel()
	b := shared
	key := b.Releases(t, "deferred", 1)[0]
	requests := &tap{}
	var tries atomic.Int32
	hold := b.untilAsked(t, key, requestLook)
	requests.before = func(r request) {
		hold(r)
		if n := tries.Load(); r.Step == requestLook && n < 6 {
			tries.Add(1)
			if err := b.Edit(t.Context(), key, func(hr *helmv2.HelmRelease) { hr.Labels = map[string]string{"try": string('a' + n)} }); err != nil {
				t.Error(err)
			}
		}
	}
	requests.after = func(r request) {
		if r.Status < 300 {
			hold(r)
		}
	}
	b.start(t, key.Namespace, decide.Repair, requests.wrap)
	must(t, b.Stick(t.Context(), key, lab.Damage{}))
	b.Told(t, key, decide.RecoveryDeferred)
	b.Await(t, key, plungertest.Recovered)
	if _, lost := requests.of(key.Name); lost < 6 {
		t.Errorf("deferred after %d conflicts", lost)
	}
}

// B4.5: a suspension that cannot be lifted is said, and lifted when it can be.
func TestAHeldSuspensionIsSaid(t *testing.T) {
	t.Parallel()
	b := shared
	key := b.Releases(t, "held", 1)[0]
	failing := &atomic.Bool{}
	failing.Store(true)
	b.start(t, key.Namespace, decide.Reclaim, func(c *plunger.Config) {
		c.Rest.Wrap(func(next http.RoundTripper) http.RoundTripper { return noLifts{next, failing} })
	})
	must(t, b.Harm(t.Context(), key, lab.Damage{}))
	must(t, b.Change(t.Context(), key, 2))
	note := b.Told(t, key, decide.SuspensionHeld)
	if !strings.Contains(note, errNoLift.Error()) {
		t.Errorf("the event does not say why: %q", note)
	}
	if hr := b.Live(t, key); !hr.Spec.Suspend || !plungertest.Fenced(hr) {
		t.Errorf("B3.1 said to be held: suspended %t, fenced %t", hr.Spec.Suspend, plungertest.Fenced(hr))
	}
	failing.Store(false)
	b.Await(t, key, plungertest.Recovered)
}

var errNoLift = errors.New("this lift was not sent")

type noLifts struct {
	next    http.RoundTripper
	failing *atomic.Bool
}

func (n noLifts) RoundTrip(req *http.Request) (*http.Response, error) {
	if n.failing.Load() && req.Method == http.MethodPatch && releaseOf(req) != "" && stepOf(req) == lift {
		return nil, errNoLift
	}
	return n.next.RoundTrip(req)
}

// B4.2: a release that sticks again waits, which is said, and is recovered.
func TestStuckAgainWaits(t *testing.T) {
	t.Parallel()
	b := shared
	key := b.Releases(t, "again", 1)[0]
	b.start(t, key.Namespace, decide.Repair)
	must(t, b.Harm(t.Context(), key, lab.Damage{}))
	must(t, b.Change(t.Context(), key, 2))
	b.Await(t, key, func(hr *helmv2.HelmRelease) bool {
		return plungertest.Recovered(hr) && hr.Status.History.Latest().Version == 2
	})
	must(t, b.Harm(t.Context(), key, lab.Damage{}))
	must(t, b.Change(t.Context(), key, 3))
	b.Told(t, key, decide.RecoveryBackoff)
	b.Await(t, key, func(hr *helmv2.HelmRelease) bool {
		return plungertest.Recovered(hr) && hr.Status.History.Latest().Version == 3
	})
}

// B8.3: of two events about one release at one moment both arrive.
func TestTwoEventsAtOnce(t *testing.T) {
	t.Parallel()
	b := shared
	key := b.Releases(t, "two-events", 1)[0]
	objects, err := kube.NewObjects(b.config[decide.Repair], contract.FieldManager)
	must(t, err)
	told, err := observe.NewMetrics(prometheus.NewRegistry(), time.Now)
	must(t, err)
	release, err := gather.NewReader(objects).Release(t.Context(), key.Namespace, key.Name)
	must(t, err)
	observe.NewTeller(objects, "test", told).Tell(t.Context(), *release,
		[]decide.Event{{Reason: decide.SuspensionNotOwned, Message: "one"}, {Reason: decide.Recovered, Message: "two"}}, time.Now())
	b.Told(t, key, decide.SuspensionNotOwned)
	b.Told(t, key, decide.Recovered)
}

// B3.3, B4.4: a lift that was carried out and never answered is not somebody's
// resume: the revision below blocks too, and is recovered in that generation.
func TestALiftWithoutAnAnswerIsNoResume(t *testing.T) {
	t.Parallel()
	b := shared
	key := b.Releases(t, "lost-lift", 1)[0]
	lost := &atomic.Bool{}
	b.start(t, key.Namespace, decide.Reclaim, func(c *plunger.Config) {
		c.Rest.Wrap(func(next http.RoundTripper) http.RoundTripper { return lostLift{next, lost} })
	})
	must(t, b.Stick(t.Context(), key, lab.Damage{Below: "uninstalling"}))
	b.Await(t, key, plungertest.Recovered)
	if !lost.Load() {
		t.Error("no answer was lost")
	}
}

// lostLift loses the answer to the first lift.
type lostLift struct {
	next http.RoundTripper
	lost *atomic.Bool
}

func (l lostLift) RoundTrip(req *http.Request) (*http.Response, error) {
	lose := req.Method == http.MethodPatch && releaseOf(req) != "" && stepOf(req) == lift && !l.lost.Swap(true)
	response, err := l.next.RoundTrip(req)
	if lose && err == nil {
		_ = response.Body.Close()
		return nil, errors.New("this answer was lost")
	}
	return response, err
}

// B10.1: where the next release fails it is said, with what would help, and not
// asked for again; the fence goes, because helm-controller remembers.
func TestAFailedRecoveryIsSaidAndNotAskedForAgain(t *testing.T) {
	t.Parallel()
	b := shared
	key := b.Releases(t, "failed", 1)[0]
	requests := &tap{}
	hold := b.untilAsked(t, key, requestLook)
	requests.after = hold
	requests.before = func(r request) {
		hold(r)
		if r.Step != rewrite {
			return
		}
		if err := b.Publish(t.Context(), key.Namespace, lab.Source, lab.Chart{Version: "2.0.0", Hooks: map[string]lab.Hook{"pre-upgrade": lab.HookFails}}); err != nil {
			t.Error(err)
		}
	}
	b.start(t, key.Namespace, decide.Repair, requests.wrap)
	must(t, b.Harm(t.Context(), key, lab.Damage{}))
	must(t, b.Change(t.Context(), key, 2))
	note := b.Told(t, key, decide.RecoveryFailed)
	if !strings.Contains(note, "--reset") || !strings.Contains(note, "new values") {
		t.Errorf("the event does not say what would help: %q", note)
	}
	b.Await(t, key, func(hr *helmv2.HelmRelease) bool { return !plungertest.Fenced(hr) && len(hr.Status.History) > 0 })
	written, _ := requests.of(key.Name)
	asked := 0
	for _, w := range written {
		if w.Step == requestLook {
			asked++
		}
	}
	if asked > 1 { // none where helm-controller's own retry came between rewrite and request
		t.Errorf("B10.1 asked %d times: %v", asked, stepsOf(written))
	}
}

// values reads the metrics as a scrape does: name, then the labels' values.
func values(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	must(t, err)
	read := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.Metric {
			name := strings.TrimPrefix(family.GetName(), "flux_plunger_")
			for _, label := range metric.Label {
				name += " " + label.GetValue()
			}
			read[name] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}
	}
	return read
}

// B8.2: the metrics say what happened and what stands.
func TestMetrics(t *testing.T) {
	t.Parallel()
	b := shared
	keys := b.Releases(t, "metrics", 3)
	stuck, leftover, held := keys[0], keys[1], keys[2]
	stop := b.gate.Hold(helmcontroller.PointSawDelete, held)
	t.Cleanup(stop.Release)
	must(t, b.Edit(t.Context(), leftover, func(hr *helmv2.HelmRelease) {
		suspend(hr)
		hr.Annotations = map[string]string{contract.ProcessedVersion: "2"}
	}))
	must(t, b.Edit(t.Context(), held, addFence))
	must(t, b.Delete(t.Context(), held))
	<-stop.Arrived()
	kept := b.Live(t, held)
	registry := prometheus.NewRegistry()
	run := b.start(t, "metrics", decide.Repair, func(c *plunger.Config) { c.Registry = registry })
	must(t, b.Harm(t.Context(), stuck, lab.Damage{}))
	must(t, b.Change(t.Context(), stuck, 2))
	b.Await(t, stuck, plungertest.Recovered)
	b.Told(t, stuck, decide.Recovered)
	b.Told(t, leftover, decide.SuspensionNotOwned)
	// A write shows in the cluster before its answer is counted.
	expect := func(want map[string]float64) {
		t.Helper()
		var got map[string]float64
		err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
			got = values(t, registry)
			for name, value := range want {
				if got[name] != value {
					return false, nil
				}
			}
			return true, nil
		})
		if err != nil {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	expect(map[string]float64{"recoveries_total begun": 1, "recoveries_total recovered": 1, "recoveries_total failed": 0,
		"writes_total set-fence": 1, "writes_total rewrite-status": 1, "writes_total drop-fence": 1,
		"events_total Recovered": 1, "events_total SuspensionNotOwned": 1,
		"fences": 1, "deletes_held": 1, "suspensions_not_owned": 1})
	if age := values(t, registry)["oldest_fence_age_seconds"]; age <= 0 {
		t.Errorf("the oldest fence is %v seconds old", age)
	}
	stop.Release()
	b.uninstalled(t, kept)
	must(t, run.stop())
	expect(map[string]float64{"fences": 0, "deletes_held": 0, "oldest_fence_age_seconds": 0, "drains_total clean": 1})
}
