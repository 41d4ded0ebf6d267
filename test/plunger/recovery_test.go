package plunger

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/plungertest"
	"github.com/holdfast-project/holdfast/test/helmcontroller"
	"github.com/holdfast-project/holdfast/test/helmcontroller/lab"
)

// The full counts, of which EnvCounts takes a share.
const (
	oneByOne = 60
	atOnce   = 100
)

// bars are what a recovery may cost in requests, conflicts apart.
func bars(strategy string) (writes, reads int) {
	if strategy == repair {
		return 4, 8
	}
	return 7, 10
}

// B9.5, B10.1, B4: however many stick, with and without latency, every one ends
// Ready, unsuspended, unfenced and with its storage, at a bounded cost.
func TestEveryStuckReleaseRecovers(t *testing.T) {
	for _, strategy := range []string{repair, reclaim} {
		for _, latency := range []time.Duration{0, 2 * time.Millisecond} {
			name := fmt.Sprintf("%s-%s", strategy, latency)
			t.Run("one by one/"+name, func(t *testing.T) {
				t.Parallel()
				shared.recoverOneByOne(t, setup{strategy: strategy, namespace: "single-" + name, latency: latency})
			})
			t.Run("at once/"+name, func(t *testing.T) {
				t.Parallel()
				shared.recoverAtOnce(t, setup{strategy: strategy, namespace: "crowd-" + name, latency: latency})
			})
		}
	}
}

func (b *bench) recoverOneByOne(t *testing.T, s setup) {
	keys := b.Releases(t, s.namespace, b.of(oneByOne))
	line := b.watch(t, s.namespace)
	seen := &answers{}
	s.hooks = seen.hooks()
	b.start(t, s)
	for _, key := range keys {
		b.stick(t, key, lab.Damage{Padding: tablePayload})
		b.Await(t, key, plungertest.Recovered)
	}
	for _, key := range keys { // at rest, all of them
		b.expectRecovered(t, s.strategy, key)
	}
	b.expectCost(t, s.strategy, costs(seen.all()), keys)
	report(t, line, keys)
}

// recoverAtOnce: they stick while none runs, as after an outage.
func (b *bench) recoverAtOnce(t *testing.T, s setup) {
	keys := b.Releases(t, s.namespace, b.of(atOnce))
	must(t, lab.Each(keys, func(key types.NamespacedName) error { return b.Stick(t.Context(), key, lab.Damage{}) }))
	b.start(t, s)
	must(t, lab.Each(keys, func(key types.NamespacedName) error {
		_, err := b.Until(t.Context(), key, 2*plungertest.Settle, plungertest.Recovered)
		return err
	}))
	for _, key := range keys {
		b.expectRecovered(t, s.strategy, key)
	}
}

// stick damages the release and wakes helm-controller; it does not wait for the
// error, which may be gone before anybody else can see it.
func (b *bench) stick(t testing.TB, key types.NamespacedName, d lab.Damage) {
	t.Helper()
	must(t, b.Harm(t.Context(), key, d))
	must(t, b.Wake(t.Context(), key))
}

func (b *bench) expectRecovered(t *testing.T, strategy string, key types.NamespacedName) {
	t.Helper()
	hr, left := b.Live(t, key), b.remains(t, key)
	if !plungertest.Recovered(hr) || len(left.Chart) != 4 || len(left.Storage) == 0 {
		t.Errorf("%s: %s, %+v", key, lab.Describe(hr), left)
	}
	if strategy == reclaim && (hr.Annotations[contract.ProcessedVersion] != "1" || hr.Annotations[contract.ProcessedUID] == "") {
		t.Errorf("%s: the notes of the recovery are missing: %v", key, hr.Annotations)
	}
}

// expectCost holds the recoveries to their bars (B1.2, B10.1). A write that lost
// against one of helm-controller's own is not counted as one, and is the only
// thing that may cost more than the bar: each is decided again from a fresh read,
// and one against the storage from a fresh list. On the whole there is about one
// in each recovery.
func (b *bench) expectCost(t *testing.T, strategy string, spent map[string]*cost, keys []types.NamespacedName) {
	t.Helper()
	maxWrites, maxReads := bars(strategy)
	var conflicts, bytes int
	var reads []int
	for _, key := range keys {
		c := spent[key.Name]
		if c == nil {
			t.Errorf("%s recovered without a request of flux-plunger's", key)
			continue
		}
		conflicts, bytes, reads = conflicts+c.Conflicts, bytes+c.Bytes, append(reads, c.Reads)
		if c.Writes > maxWrites || c.Reads > maxReads+c.Conflicts+2*c.Relisted {
			t.Errorf("%s: %d writes (at most %d), %d reads (at most %d), %d conflicts, %d of them against the storage: %v",
				key, c.Writes, maxWrites, c.Reads, maxReads, c.Conflicts, c.Relisted, c.Kinds)
		}
		if strategy == repair && c.Payloads > 1+c.Relisted || strategy == reclaim && c.Payloads > 0 {
			t.Errorf("%s: %d payloads were read", key, c.Payloads)
		}
	}
	slices.Sort(reads)
	median := reads[len(reads)/2]
	t.Logf("%s: reads in a recovery %d / %d / %d (least / median / most), %.1f conflicts, %d bytes of storage each",
		strategy, reads[0], median, reads[len(reads)-1], float64(conflicts)/float64(len(keys)), bytes/len(keys))
	if median > maxReads || conflicts > 2*len(keys) {
		t.Errorf("%d reads (median), want at most %d; %d conflicts in %d recoveries", median, maxReads, conflicts, len(keys))
	}
	if strategy == reclaim && bytes > len(keys)*tablePayload/50 {
		t.Errorf("%d bytes of storage were read, more than 2 %% of what is stored", bytes)
	}
}

// report prints the times, which are for people: a busy machine fails nothing.
func report(t *testing.T, line *timeline, keys []types.NamespacedName) {
	t.Helper()
	var ready, fence spread
	slowest, slow := "", time.Duration(0)
	for _, key := range keys {
		seen := line.of(key.Name)
		failed := first(seen, time.Time{}, func(m moment) bool { return m.stuck })
		if failed.IsZero() {
			continue // the message came and went between two events
		}
		if at := first(seen, failed, func(m moment) bool { return m.ready }); !at.IsZero() {
			ready = append(ready, at.Sub(failed))
			if at.Sub(failed) > slow {
				slowest, slow = key.Name, at.Sub(failed)
			}
		}
		if at := first(seen, time.Time{}, func(m moment) bool { return m.fenced }); !at.IsZero() {
			fence = append(fence, at.Sub(failed))
		}
	}
	t.Logf("error to Ready %v; error to fence %v (min / median / max); the slowest: %s", ready, fence, line.story(slowest))
	if len(fence) > 0 && fence.median() > 0 {
		t.Errorf("the fence stands %v after the error is seen (median), want before (B5.8)", fence.median())
	}
}

// B5.8: ordinary installs and upgrades cause no write; an adoption is fenced and
// unfenced, no more.
func TestOrdinaryWorkCausesNoWrite(t *testing.T) {
	t.Parallel()
	b := shared
	seen := &answers{}
	must(t, b.Namespace(t.Context(), "ordinary"))
	b.start(t, setup{strategy: repair, namespace: "ordinary", hooks: seen.hooks()})
	keys := b.Releases(t, "ordinary", b.of(15))
	must(t, lab.Each(keys, func(key types.NamespacedName) error {
		if err := b.Change(t.Context(), key, 2); err != nil {
			return err
		}
		_, err := b.Until(t.Context(), key, plungertest.Settle, func(hr *helmv2.HelmRelease) bool { return lab.Ready(hr) && len(hr.Status.History) == 2 })
		return err
	}))
	for release, c := range costs(seen.all()) {
		if c.Writes+c.Conflicts > 0 {
			t.Errorf("%s was installed and upgraded, and written to %d times", release, c.Writes)
		}
	}

	// A release in storage that no history knows: helm-controller adopts it by an
	// upgrade, which looks like the first sign.
	key, before := keys[0], len(seen.all())
	must(t, b.Edit(t.Context(), key, func(hr *helmv2.HelmRelease) { hr.Finalizers, hr.Spec.Suspend = nil, true }))
	must(t, b.Delete(t.Context(), key))
	b.gone(t, key)
	adopting := b.gate.Hold(helmcontroller.PointBeforeAction, key)
	t.Cleanup(adopting.Release)
	must(t, b.Client.Create(t.Context(), lab.NewRelease(key)))
	if !lab.Real() { // which cannot be stopped, and may be done before anybody has looked
		<-adopting.Arrived()
		b.Await(t, key, plungertest.Fenced)
	}
	adopting.Release()
	b.Await(t, key, plungertest.Recovered)
	for release, c := range costs(seen.all()[before:]) {
		switch {
		case release != key.Name && c.Writes > 0:
			t.Errorf("%s was written to %d times while another was adopted", release, c.Writes)
		case release == key.Name && (c.Writes != 2 && !lab.Real() || c.Writes > 2 || slices.Contains(c.Kinds, "patch of HelmRelease")):
			t.Errorf("the adopted release was written to %d times, want the fence set and dropped: %v", c.Writes, c.Kinds)
		}
	}
}

// B5.8: a release whose refused attempt was covered by another message before
// flux-plunger saw it is fenced and no more, while nothing can be recovered; with
// its source back it speaks again, and is recovered.
func TestCoveredMessageIsFencedAndThenRecovered(t *testing.T) {
	for _, strategy := range []string{repair, reclaim} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			b, namespace := shared, "covered-"+strategy
			key := b.stuckReleases(t, namespace, situation{name: "covered", covered: true}, 1)[0]
			seen := &answers{}
			b.start(t, setup{strategy: strategy, namespace: namespace, hooks: seen.hooks()})
			b.Await(t, key, plungertest.Fenced)
			// A look that finds something to do would do it before it waits.
			must(t, b.Edit(t.Context(), key, func(hr *helmv2.HelmRelease) { hr.Labels = map[string]string{"look": "again"} }))
			must(t, wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, plungertest.Settle, true, func(context.Context) (bool, error) {
				return costs(seen.all())[key.Name].Reads >= 4, nil // the second look has listed, too
			}))
			if c := costs(seen.all())[key.Name]; c.Writes != 1 {
				t.Errorf("%d writes while nothing can be recovered, want the fence alone", c.Writes)
			}
			must(t, b.Publish(t.Context(), namespace, key.Name, lab.Chart{}))
			_, err := b.Ask(t.Context(), key) // the artifact is the same one, which wakes nobody
			must(t, err)
			b.Await(t, key, plungertest.Recovered)
			b.expectRecovered(t, strategy, key)
		})
	}
}
