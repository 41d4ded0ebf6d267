package plunger

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-project/holdfast/internal/plunger/plungertest"
	"github.com/holdfast-project/holdfast/test/apiproxy"
	"github.com/holdfast-project/holdfast/test/helmcontroller/lab"
)

// B9.1: deletes at random moments after the error. From the fence on, repair
// leaves nothing behind; reclaim leaves what is stated, and says so.
func TestDeletesAtRandomMoments(t *testing.T) {
	for _, strategy := range []string{repair, reclaim} {
		for _, tc := range []struct {
			within  time.Duration
			deletes int
		}{{5 * time.Second, 120}, {30 * time.Millisecond, 60}} {
			t.Run(fmt.Sprintf("%s/%s", strategy, tc.within), func(t *testing.T) {
				t.Parallel()
				shared.race(t, strategy, tc.within, shared.of(tc.deletes))
			})
		}
	}
}

// tally counts how the deletes of a race ended.
type tally struct {
	mu                                       sync.Mutex
	unfenced, unfencedOrphans, fenced, after int
	// orphans are those that were fenced before, or when, they were deleted.
	orphans []types.NamespacedName
}

func (b *bench) race(t *testing.T, strategy string, within time.Duration, deletes int) {
	namespace := fmt.Sprintf("race-%s-%d", strategy, within.Milliseconds())
	keys := b.Releases(t, namespace, deletes)
	seen := &answers{}
	b.start(t, setup{strategy: strategy, namespace: namespace, hooks: seen.hooks()})
	line := b.watch(t, namespace)
	moments := rand.New(rand.NewPCG(1, uint64(within)))
	delays := map[string]time.Duration{}
	for _, key := range keys {
		delays[key.Name] = time.Duration(moments.Int64N(int64(within)))
	}
	ends := &tally{}
	must(t, lab.Each(keys, func(key types.NamespacedName) error { return b.raceOne(t, line, key, delays[key.Name], ends) }))

	t.Logf("%s, deleted within %s: %d before the fence (%d orphans), %d fenced (%d orphans), %d after it was gone",
		strategy, within, ends.unfenced, ends.unfencedOrphans, ends.fenced, len(ends.orphans), ends.after)
	b.expectOrphans(t, strategy, ends, seen.all())
}

// expectOrphans: none under repair, and under reclaim only those that are named
// (B9.1): releases whose one Secret was deleted and not replaced. A delete that
// came before the fence is not among them, one after it was gone is.
func (b *bench) expectOrphans(t testing.TB, strategy string, ends *tally, sent []apiproxy.Exchange) {
	t.Helper()
	for _, key := range ends.orphans {
		if strategy == repair || !deletedSecret(sent, key.Name) {
			t.Errorf("%s was fenced before its delete was accepted, and was orphaned: %+v, events %v", key, b.remains(t, key), b.Said(t, key))
			continue
		}
		b.Told(t, key, "Warning UninstallUnproven")
	}
}

func (b *bench) raceOne(t testing.TB, line *timeline, key types.NamespacedName, delay time.Duration, ends *tally) error {
	if err := b.Harm(t.Context(), key, lab.Damage{}); err != nil {
		return err
	}
	if err := b.Wake(t.Context(), key); err != nil {
		return err
	}
	if err := line.wait(key.Name, func(m moment) bool { return m.stuck }); err != nil {
		return err
	}
	<-time.After(delay) // the moment is the test's subject, nothing is waited for
	seen, err := b.DeleteSeen(t.Context(), key)
	if err != nil {
		return err
	}
	if err := b.Gone(t.Context(), key, plungertest.Settle); err != nil {
		return fmt.Errorf("%w; events %v", err, strings.Join(b.Said(t, key), "; "))
	}
	left, err := b.Remains(t.Context(), lab.NewRelease(key))
	if err != nil {
		return err
	}
	stood := !first(line.of(key.Name), time.Time{}, func(m moment) bool { return m.fenced }).IsZero()
	ends.mu.Lock()
	defer ends.mu.Unlock()
	switch {
	case plungertest.Fenced(seen):
		ends.fenced++
	case stood:
		ends.after++
	default:
		ends.unfenced++
	}
	switch {
	case left.Orphaned() && (plungertest.Fenced(seen) || stood):
		ends.orphans = append(ends.orphans, key)
	case left.Orphaned():
		ends.unfencedOrphans++
	}
	return nil
}
