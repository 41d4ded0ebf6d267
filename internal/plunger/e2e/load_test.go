package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-project/holdfast/internal/plunger"
	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
	"github.com/holdfast-project/holdfast/test/helmcontroller/lab"
)

// scale is how many releases a test of many uses: a few by default, so that the
// package stays quick, and the full numbers with HOLDFAST_SCALE=full or
// a number.
func scale(few, full int) int {
	switch chosen := os.Getenv("HOLDFAST_SCALE"); chosen {
	case "":
		return few
	case "full":
		return full
	default:
		n, err := strconv.Atoi(chosen)
		if err != nil {
			return few
		}
		return n
	}
}

// latency is a network of so much each way.
type latency struct {
	next http.RoundTripper
	each time.Duration
}

func (l latency) RoundTrip(req *http.Request) (*http.Response, error) {
	wait := func() error {
		select {
		case <-time.After(l.each):
			return nil
		case <-req.Context().Done():
			return req.Context().Err()
		}
	}
	if err := wait(); err != nil {
		return nil, err
	}
	response, err := l.next.RoundTrip(req)
	if err == nil {
		err = wait()
	}
	return response, err
}

func far(each time.Duration) func(*plunger.Config) {
	return func(c *plunger.Config) {
		c.Rest.Wrap(func(next http.RoundTripper) http.RoundTripper { return latency{next, each} })
	}
}

// times are what a test of many publishes; it asserts on counts, not on speed.
type times struct {
	mu                    sync.Mutex
	errorToReady, toFence []time.Duration
}

func median(d []time.Duration) time.Duration {
	if len(d) == 0 {
		return 0
	}
	d = slices.Sorted(slices.Values(d))
	return d[len(d)/2]
}

// watchTimes follows a namespace and notes when each release showed the error,
// carried the fence and became Ready.
func (b *bench) watchTimes(t *testing.T, namespace string) *times {
	t.Helper()
	seen := &times{}
	watcher, err := b.Client.Watch(t.Context(), &helmv2.HelmReleaseList{}, client.InNamespace(namespace))
	must(t, err)
	t.Cleanup(watcher.Stop)
	go func() {
		failed, held := map[string]time.Time{}, map[string]time.Time{}
		for event := range watcher.ResultChan() {
			hr, ok := event.Object.(*helmv2.HelmRelease)
			if !ok {
				continue
			}
			at := time.Now()
			_, known := held[hr.Name]
			if fenced(hr) && !known {
				held[hr.Name] = at
			}
			if _, known := failed[hr.Name]; lab.Stuck(hr) && !known {
				failed[hr.Name] = at
			}
			since, stuck := failed[hr.Name]
			if ready := apimeta.IsStatusConditionTrue(hr.Status.Conditions, "Ready"); stuck && ready {
				seen.mu.Lock()
				seen.errorToReady = append(seen.errorToReady, at.Sub(since))
				if fence, ok := held[hr.Name]; ok {
					seen.toFence = append(seen.toFence, fence.Sub(since))
				}
				seen.mu.Unlock()
				delete(failed, hr.Name)
				delete(held, hr.Name)
			}
		}
	}()
	return seen
}

// B9.5: many stuck one after another, and many at once, with and without
// latency: every one Ready, none suspended, none fenced, none without its
// storage.
func TestManyStuckReleases(t *testing.T) {
	b := shared
	for _, strategy := range []decide.Strategy{decide.Repair, decide.Reclaim} {
		for _, each := range []time.Duration{0, 2 * time.Millisecond} {
			for way, together := range map[string]bool{"one by one": false, "at once": true} {
				t.Run(fmt.Sprintf("%s %s, %s each way", strategy, way, each), func(t *testing.T) {
					namespace := dashed(fmt.Sprintf("many-%s-%s-%d", strategy, way, each.Milliseconds()))
					count := scale(6, 60)
					if together {
						count = scale(10, 100)
					}
					keys := b.namespace(t, namespace, count)
					requests := &tap{}
					b.start(t, namespace, strategy, requests.wrap, far(each))
					seen := b.watchTimes(t, namespace)
					b.stickMany(t, keys, together)
					b.allRecovered(t, keys, strategy)
					b.publish(t, keys, requests, seen)
				})
			}
		}
	}
}

func (b *bench) stickMany(t *testing.T, keys []types.NamespacedName, together bool) {
	t.Helper()
	if !together {
		for _, key := range keys {
			must(t, b.Stick(t.Context(), key, lab.Damage{}))
		}
		return
	}
	must(t, lab.Each(keys, func(key types.NamespacedName) error { return b.Harm(t.Context(), key, lab.Damage{}) }))
	must(t, lab.Each(keys, func(key types.NamespacedName) error { return b.Change(t.Context(), key, 2) }))
}

func (b *bench) allRecovered(t *testing.T, keys []types.NamespacedName, strategy decide.Strategy) {
	t.Helper()
	for _, key := range keys {
		hr, err := b.Until(t.Context(), key, 120*time.Second, recovered)
		if err != nil {
			t.Errorf("%v; events %v", err, b.events(t, key))
			continue
		}
		stored, err := b.Revisions(t.Context(), hr)
		must(t, err)
		if len(stored) == 0 {
			t.Errorf("%s has no storage", key)
		}
		if strategy == decide.Reclaim && hr.Annotations[contract.ProcessedVersion] != "1" {
			t.Errorf("%s: annotations %v", key, hr.Annotations)
		}
	}
}

// publish prints what a recovery cost, and holds its writes to the bar.
func (b *bench) publish(t *testing.T, keys []types.NamespacedName, requests *tap, seen *times) {
	t.Helper()
	var writes, conflicts, reads, most int
	for _, key := range keys {
		written, lost := requests.of(key.Name)
		writes, conflicts, reads = writes+len(written), conflicts+lost, reads+len(requests.readsOf(key.Name))
		most = max(most, len(written))
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	n := float64(len(keys))
	line, _ := json.Marshal(map[string]any{"releases": len(keys), "writes": float64(writes) / n, "mostWrites": most,
		"conflicts": float64(conflicts) / n, "reads": float64(reads) / n,
		"errorToReadyMedian": median(seen.errorToReady).String(), "errorToFenceMedian": median(seen.toFence).String()})
	t.Logf("%s", line)
}

// B9.1: deletes at random moments after the error: none from the fence on leaves
// anything behind under repair; under reclaim only the stated exception, each
// told. Those that came before the fence are counted apart.
func TestRandomDeletes(t *testing.T) {
	b := shared
	for _, strategy := range []decide.Strategy{decide.Repair, decide.Reclaim} {
		for name, within := range map[string]time.Duration{"30 ms": 30 * time.Millisecond, "400 ms": 400 * time.Millisecond, "5 s": 5 * time.Second} {
			t.Run(string(strategy)+" within "+name, func(t *testing.T) {
				namespace := dashed("random-" + string(strategy) + "-" + name)
				keys := b.namespace(t, namespace, scale(8, 60))
				b.start(t, namespace, strategy)
				var mu sync.Mutex
				var before, after, orphans int
				must(t, lab.Each(keys, func(key types.NamespacedName) error {
					carried, err := b.deleteWithin(t.Context(), key, within)
					if err != nil {
						return err
					}
					if err := b.Gone(t.Context(), key, 90*time.Second); err != nil {
						return err
					}
					left, err := b.Remains(t.Context(), lab.NewRelease(key))
					mu.Lock()
					defer mu.Unlock()
					if !carried {
						before++
						return err
					}
					after++
					if !left.Clean() {
						orphans++
						if strategy == decide.Repair || !slices.Contains(b.events(t, key), string(decide.UninstallUnproven)) {
							t.Errorf("%s was fenced and left %v and %v; events %v", key, left.Chart, left.Storage, b.events(t, key))
						}
					}
					return err
				}))
				t.Logf("deleted before the fence or after it left %d, under it %d, of which left something %d", before, after, orphans)
			})
		}
	}
}

// deleteWithin sticks the release, deletes it at a random moment after the error
// and reports whether it carried the fence when the delete was accepted.
func (b *bench) deleteWithin(ctx context.Context, key types.NamespacedName, within time.Duration) (bool, error) {
	if err := b.Harm(ctx, key, lab.Damage{}); err != nil {
		return false, err
	}
	if err := b.Change(ctx, key, 2); err != nil {
		return false, err
	}
	if _, err := b.Until(ctx, key, time.Minute, func(hr *helmv2.HelmRelease) bool { return lab.Stuck(hr) || fenced(hr) }); err != nil {
		return false, err
	}
	select {
	case <-time.After(rand.N(within)): //nolint:gosec // a moment, not a secret
	case <-ctx.Done():
	}
	hr := lab.NewRelease(key)
	if err := b.Client.Delete(ctx, hr); err != nil {
		return false, err
	}
	// The first state with a deletion timestamp is the object as it was when the
	// delete was accepted; finalizers only ever go from then on.
	after, err := b.Release(ctx, key)
	if err != nil {
		return false, nil //nolint:nilerr // gone at once: it carried nothing
	}
	return fenced(after), nil
}
