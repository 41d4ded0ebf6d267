package e2e

import (
	"sync/atomic"
	"testing"
	"time"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-project/holdfast/internal/plunger"
	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
	"github.com/holdfast-project/holdfast/internal/plunger/plungertest"
	"github.com/holdfast-project/holdfast/test/helmcontroller/lab"
)

func suspend(hr *helmv2.HelmRelease) { hr.Spec.Suspend = true }
func resume(hr *helmv2.HelmRelease)  { hr.Spec.Suspend = false }

// at runs a flux-plunger that is interrupted once, right before or after a step,
// by what do does, and waits until that was done.
func (b *bench) at(t *testing.T, namespace string, strategy decide.Strategy, where position, do func(types.NamespacedName), edits ...func(*plunger.Config)) types.NamespacedName {
	t.Helper()
	key := b.Releases(t, namespace, 1)[0]
	requests, done := &tap{}, make(chan struct{})
	hold := b.untilAsked(t, key, where.step)
	hook := func(before bool) func(request) {
		return func(r request) {
			hold(r)
			if (position{before, r.Step}) != where {
				return
			}
			select {
			case <-done:
			default:
				do(key)
				close(done)
			}
		}
	}
	requests.before, requests.after = hook(true), hook(false)
	b.start(t, namespace, strategy, append(edits, requests.wrap)...)
	must(t, b.Harm(t.Context(), key, lab.Damage{}))
	must(t, b.Change(t.Context(), key, 2))
	select {
	case <-done:
	case <-time.After(plungertest.Settle):
		t.Fatalf("never came %s; events %v", where, b.Said(t, key))
	}
	return key
}

func named(prefix string, p position) string {
	side := "after"
	if p.before {
		side = "before"
	}
	return prefix + "-" + side + "-" + dashed(string(p.step))
}

// B2.2, B9.2, B10.6: an operator who suspends is never undone: under repair at
// any moment, under reclaim at any moment but inside the hold, where the same
// value leaves no trace on the API server (stated).
func TestASuspensionOfSomebodyElseStands(t *testing.T) {
	places := map[decide.Strategy][]position{
		decide.Repair:  positions(repairSteps()...),
		decide.Reclaim: {{true, setFence}, {false, setFence}, {true, acquire}, {false, lift}, {true, drop}, {false, drop}},
	}
	for strategy, list := range places {
		for _, where := range list {
			t.Run(string(strategy)+" "+where.String(), func(t *testing.T) {
				t.Parallel()
				shared.suspendedAt(t, strategy, where)
			})
		}
	}
}

func (b *bench) suspendedAt(t *testing.T, strategy decide.Strategy, where position) {
	var stood *standing
	// One worker and one queue: what was seen before the marker was looked at first.
	key := b.at(t, named("operator-"+string(strategy), where), strategy, where, func(key types.NamespacedName) {
		stood = b.follow(t, key)
		if err := b.Edit(t.Context(), key, suspend); err != nil {
			t.Error(err)
		}
	}, func(c *plunger.Config) { c.Concurrent = 1 })
	must(t, b.Edit(t.Context(), key, func(hr *helmv2.HelmRelease) { hr.Labels = map[string]string{"look": "again"} }))
	marker := types.NamespacedName{Namespace: key.Namespace, Name: "marker"}
	must(t, b.Install(t.Context(), []types.NamespacedName{marker}))
	b.say(t, marker, lab.Phrase, 0)
	b.Await(t, marker, plungertest.Fenced)
	if !b.Live(t, key).Spec.Suspend || stood.lifted.Load() {
		t.Error("B9.2 the operator's suspension was lifted")
	}
	stood.stop()
	must(t, b.Edit(t.Context(), key, resume))
	b.Await(t, key, plungertest.Recovered)
}

// standing watches a release from when it is suspended.
type standing struct {
	lifted atomic.Bool
	stop   func()
}

func (b *bench) follow(t *testing.T, key types.NamespacedName) *standing {
	t.Helper()
	w, err := b.Client.Watch(t.Context(), &helmv2.HelmReleaseList{}, client.InNamespace(key.Namespace), client.MatchingFields{"metadata.name": key.Name})
	if err != nil {
		t.Error(err)
		return &standing{stop: func() {}}
	}
	s := &standing{stop: w.Stop}
	go func() {
		suspended := false
		for event := range w.ResultChan() {
			if hr, ok := event.Object.(*helmv2.HelmRelease); ok {
				if suspended && !hr.Spec.Suspend {
					s.lifted.Store(true)
				}
				suspended = hr.Spec.Suspend
			}
		}
	}()
	return s
}

// B9.2: the stated exception, so that it is known when it changes: inside the
// hold the operator's true is our true, and goes with ours.
func TestTheNoOpSuspensionInsideAHoldIsLost(t *testing.T) {
	t.Parallel()
	b := shared
	key := b.at(t, "operator-no-op", decide.Reclaim, position{false, noteUID}, func(key types.NamespacedName) {
		if err := b.Edit(t.Context(), key, func(hr *helmv2.HelmRelease) { hr.Spec.Suspend = true }); err != nil {
			t.Error(err)
		}
	})
	b.Await(t, key, plungertest.Recovered)
}

// B3.3: one who resumes during a hold is not fought in that generation.
func TestAResumeDuringAHoldIsNotFought(t *testing.T) {
	b := shared
	for _, where := range []position{{false, acquire}, {false, noteUID}} {
		t.Run(where.String(), func(t *testing.T) {
			t.Parallel()
			key := b.at(t, named("resume", where), decide.Reclaim, where, func(key types.NamespacedName) {
				if err := b.Edit(t.Context(), key, resume); err != nil {
					t.Error(err)
				}
			})
			resumed := b.Live(t, key)
			stuck := b.Await(t, key, func(hr *helmv2.HelmRelease) bool {
				return lab.Stuck(hr) && hr.Status.Conditions[0].ObservedGeneration >= resumed.Generation
			})
			if stuck.Spec.Suspend {
				t.Error("B3.3 suspended again against the resume")
			}
			stored, err := b.Revisions(t.Context(), stuck)
			must(t, err)
			if len(stored) != 1 {
				t.Errorf("B3.3 %d revisions stored: the recovery went on", len(stored))
			}
			// Other values are another generation: the recovery begins again.
			must(t, b.Change(t.Context(), key, 3))
			b.Await(t, key, plungertest.Recovered)
		})
	}
}

// B2.3: a delete under somebody else's suspension is theirs: not held, and told.
func TestADeleteUnderAnotherSuspensionIsNotHeld(t *testing.T) {
	b := shared
	for name, processed := range map[string]bool{"plain": false, "processed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := b.at(t, "foreign-delete-"+name, decide.Repair, position{false, setFence}, func(key types.NamespacedName) {
				err := b.Edit(t.Context(), key, func(hr *helmv2.HelmRelease) {
					suspend(hr)
					if processed {
						hr.Annotations = map[string]string{contract.ProcessedVersion: "1"}
					}
				})
				if err != nil {
					t.Error(err)
				}
				if err := b.Delete(t.Context(), key); err != nil {
					t.Error(err)
				}
			})
			left := b.Left(t, lab.NewRelease(key))
			if left.Clean() {
				t.Error("B2.3 uninstalled although its owner had suspended it")
			}
			reason := decide.DeletedWhileSuspended
			if processed {
				reason = decide.UninstallSkipped
			}
			b.Told(t, key, reason)
		})
	}
}

// B2.2, B2.4: what an earlier flux-plunger left, its suspension by
// flux-client-side-apply and its annotation, is left alone and said.
func TestAnEarlierFluxPlungersLeftoverIsLeftAlone(t *testing.T) {
	t.Parallel()
	b := shared
	key := b.Releases(t, "leftover", 1)[0]
	must(t, b.Edit(t.Context(), key, func(hr *helmv2.HelmRelease) {
		suspend(hr)
		hr.Annotations = map[string]string{contract.ProcessedVersion: "2"}
	}))
	before := b.Live(t, key)
	b.start(t, key.Namespace, decide.Reclaim)
	b.Told(t, key, decide.SuspensionNotOwned)
	if after := b.Live(t, key); !after.Spec.Suspend || after.Generation != before.Generation || plungertest.Fenced(after) {
		t.Errorf("touched: suspended %t, generation %d after %d, fenced %t", after.Spec.Suspend, after.Generation, before.Generation, plungertest.Fenced(after))
	}
}
