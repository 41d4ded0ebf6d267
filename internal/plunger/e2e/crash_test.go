package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-project/holdfast/internal/plunger/decide"
	"github.com/holdfast-project/holdfast/internal/plunger/plungertest"
	"github.com/holdfast-project/holdfast/test/helmcontroller/lab"
)

// crashAfter runs a flux-plunger that dies when the given write was answered,
// deletes the release in that moment if asked to, and starts the next one.
func (b *bench) crashAfter(t *testing.T, key types.NamespacedName, strategy decide.Strategy, last step, remove bool, damage lab.Damage) []*tap {
	t.Helper()
	requests, reached := &tap{}, make(chan struct{})
	hold := b.untilAsked(t, key, last)
	requests.before = hold
	requests.after = func(r request) {
		hold(r)
		if r.Step != last || r.Status >= 300 || !requests.dead.CompareAndSwap(false, true) {
			return
		}
		if remove {
			if err := b.Delete(t.Context(), key); err != nil {
				t.Errorf("deleting %s: %v", key, err)
			}
		}
		close(reached)
	}
	b.abandon(t, key.Namespace, strategy, requests.wrap)
	must(t, b.Harm(t.Context(), key, damage))
	must(t, b.Change(t.Context(), key, 2))
	select {
	case <-reached:
	case <-time.After(plungertest.Settle):
		b.never(t, key, last)
	}
	next := &tap{}
	b.start(t, key.Namespace, strategy, next.wrap)
	return []*tap{requests, next}
}

// B4.4, B9.1, B9.3, B9.5: killed after any write, with and without a delete in
// that moment, the next one takes it up from what the cluster says.
func TestCrashAfterEachWrite(t *testing.T) {
	b := shared
	for strategy, steps := range map[decide.Strategy][]step{decide.Repair: repairSteps(), decide.Reclaim: reclaimSteps()} {
		for _, last := range steps {
			for _, remove := range []bool{false, true} {
				name := fmt.Sprintf("%s after %s deleted %t", strategy, last, remove)
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					key := b.Releases(t, "crash-"+strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, string(strategy)+" "), " ", "-"))+"-"+string(strategy), 1)[0]
					b.crashAfter(t, key, strategy, last, remove, lab.Damage{})
					if !remove {
						b.Await(t, key, plungertest.Recovered)
						return
					}
					left := b.Left(t, lab.NewRelease(key))
					stated := strategy == decide.Reclaim && (last == deleteSecret || last == noteVersion || last == lift)
					if !left.Clean() && !stated {
						t.Errorf("left %v and %v; events %v", left.Chart, left.Storage, b.Said(t, key))
					}
				})
			}
		}
	}
}

// B4.2, B4.4: two revisions that block, and a crash between the delete of the
// upper one and its note: never are two deleted in one hold, and the lower one
// is treated in a recovery of its own.
func TestTwoBlockedRevisions(t *testing.T) {
	b := shared
	for _, last := range []step{noteUID, deleteSecret, noteVersion, lift} {
		t.Run(string(last), func(t *testing.T) {
			t.Parallel()
			key := b.Releases(t, "two-"+strings.ToLower(strings.ReplaceAll(string(last), " ", "-")), 1)[0]
			taps := b.crashAfter(t, key, decide.Reclaim, last, false, lab.Damage{Below: "uninstalling"})
			b.Await(t, key, plungertest.Recovered)
			deletes, held := 0, 0
			for _, tap := range taps {
				written, _ := tap.of(key.Name)
				for _, w := range written {
					switch w.Step {
					case deleteSecret:
						deletes, held = deletes+1, held+1
					case lift, acquire:
						held = 0
					}
					if held > 1 {
						t.Errorf("B4.4 two revisions deleted in one hold: %v", written)
					}
				}
			}
			if deletes != 2 {
				t.Errorf("B4.4 %d revisions deleted, want the two that blocked", deletes)
			}
		})
	}
}
