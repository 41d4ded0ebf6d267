package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-project/holdfast/internal/plunger"
	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
	"github.com/holdfast-project/holdfast/internal/plunger/plungertest"
	"github.com/holdfast-project/holdfast/test/helmcontroller"
	"github.com/holdfast-project/holdfast/test/helmcontroller/lab"
)

// through: helm-controller has let go of a terminating release (B5.3).
func through(hr *helmv2.HelmRelease) bool {
	return !slices.Contains(hr.Finalizers, contract.HelmFinalizer) && hr.Status.ObservedGeneration == hr.Generation && lab.Handled(hr)
}

// The tests above must be able to fail. The order of the first flux-plunger, suspend
// and fence, delete, lift, and the fence dropped when helm-controller is through,
// without reminding, orphans a truly stuck release; and so does a plain delete under a
// suspension of a healthy one, without a fence.
func TestWithoutReminderOrFenceADeleteOrphans(t *testing.T) {
	t.Parallel()
	b := shared
	t.Run("fence without reminder, stuck", func(t *testing.T) {
		key := b.Releases(t, "control-stuck", 1)[0]
		must(t, b.Stick(t.Context(), key, lab.Damage{}))
		d := b.drainer(t, key.Namespace, decide.Reclaim)
		read := func() decide.Release {
			r, err := d.Walker.Reader.Release(t.Context(), key.Namespace, key.Name)
			must(t, err)
			return *r
		}
		for {
			if _, err := d.Walker.Writer.Acquire(t.Context(), read()); err == nil {
				break
			} else if t.Context().Err() != nil {
				t.Fatal(err)
			}
		}
		must(t, b.Delete(t.Context(), key))
		b.Await(t, key, func(hr *helmv2.HelmRelease) bool { return !slices.Contains(hr.Finalizers, contract.HelmFinalizer) })
		b.untilWritten(t, func() error { _, err := d.Walker.Writer.Lift(t.Context(), read()); return err })
		b.Await(t, key, through)
		hr := b.Live(t, key)
		b.untilWritten(t, func() error { _, err := d.Walker.Writer.Drop(t.Context(), read()); return err })
		if left := b.Left(t, hr); left.Clean() {
			t.Error("nothing was left behind: then the reminder of B5.7 proves nothing here")
		}
	})
	t.Run("suspension without fence, healthy", func(t *testing.T) {
		key := b.Releases(t, "control-healthy", 1)[0]
		hr := b.Live(t, key)
		must(t, b.Edit(t.Context(), key, suspend))
		must(t, b.Delete(t.Context(), key))
		if left := b.Left(t, hr); left.Clean() {
			t.Error("nothing was left behind: then the fence proves nothing here")
		}
	})
	t.Run("the same two under flux-plunger", func(t *testing.T) {
		keys := b.Releases(t, "control-plunger", 2)
		b.start(t, "control-plunger", decide.Reclaim)
		d := b.drainer(t, "control-plunger", decide.Reclaim)
		for _, key := range keys {
			hr := b.Live(t, key)
			r, err := d.Walker.Reader.Release(t.Context(), key.Namespace, key.Name)
			must(t, err)
			// B5.1: the hold of a flux-plunger that has died, and the delete in it.
			_, err = d.Walker.Writer.Acquire(t.Context(), *r)
			must(t, err)
			must(t, b.Delete(t.Context(), key))
			b.uninstalled(t, hr)
		}
	})
}

// untilWritten sends a write again while it loses against helm-controller's.
func (b *bench) untilWritten(t *testing.T, send func() error) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		err := send()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// B10.2, B9.1: a stuck release that cannot be recovered, because its chart does
// not render any more, is uninstalled all the same when it is deleted, at any
// time after the fence.
func TestADeleteOfWhatCannotBeRecoveredIsUninstalled(t *testing.T) {
	b := shared
	for name, chart := range map[string]lab.Chart{
		"does not render":  {Version: "2.0.0", Broken: true},
		"new hook fails":   {Version: "2.0.0", Hooks: map[string]lab.Hook{"pre-upgrade": lab.HookFails}},
		"source not ready": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := "broken-" + dashed(name)
			key := b.Releases(t, namespace, 1)[0]
			requests, rewritten := &tap{}, make(chan struct{})
			hold := b.untilAsked(t, key, requestLook)
			requests.before = func(r request) {
				hold(r)
				if r.Step != rewrite {
					return
				}
				// From here on helm-controller cannot store a release.
				var err error
				if chart.Version == "" {
					err = b.Unready(t.Context(), namespace, lab.Source)
				} else {
					err = b.Publish(t.Context(), namespace, lab.Source, chart)
				}
				if err != nil {
					t.Error(err)
				}
			}
			requests.after = func(r request) {
				hold(r)
				if r.Step == requestLook && r.Status < 300 {
					close(rewritten)
				}
			}
			b.start(t, namespace, decide.Repair, requests.wrap)
			must(t, b.Stick(t.Context(), key, lab.Damage{}))
			select {
			case <-rewritten:
			case <-time.After(plungertest.Settle):
				t.Fatal("never repaired")
			}
			hr := b.Await(t, key, func(hr *helmv2.HelmRelease) bool { return lab.Handled(hr) && !lab.Ready(hr) })
			must(t, b.Delete(t.Context(), key))
			b.uninstalled(t, hr)
		})
	}
}

// B5.5, B5.9: an uninstall that fails keeps the release and its fence, whatever
// the policy, and is uninstalled once the reason is gone.
func TestAFailingUninstallIsHeld(t *testing.T) {
	t.Parallel()
	b := shared
	must(t, b.Namespace(t.Context(), "failing"))
	must(t, b.Publish(t.Context(), "failing", lab.Source, lab.Chart{Hooks: map[string]lab.Hook{"pre-delete": lab.HookFails}}))
	key := lab.Names("failing", "hr", 1)[0]
	must(t, b.Install(t.Context(), []types.NamespacedName{key}))
	var requests tap
	b.start(t, "failing", decide.Repair, requests.wrap, func(c *plunger.Config) {
		// The clock of flux-plunger runs eleven minutes ahead, so that B5.4's ten
		// are over at once.
		c.Now = func() time.Time { return time.Now().Add(11 * time.Minute) }
	})
	stop := b.gate.Hold(helmcontroller.PointRead, key)
	t.Cleanup(stop.Release)
	must(t, b.Harm(t.Context(), key, lab.Damage{}))
	must(t, b.Edit(t.Context(), key, func(hr *helmv2.HelmRelease) { hr.Labels = map[string]string{"look": "1"} }))
	b.say(t, key, lab.Phrase, 0)
	b.Await(t, key, plungertest.Fenced)
	hr := b.Live(t, key)
	must(t, b.Delete(t.Context(), key))
	stop.Release()
	b.Await(t, key, func(hr *helmv2.HelmRelease) bool { return lab.Released(hr) == helmv2.UninstallFailedReason })
	b.Told(t, key, decide.UninstallPending)
	if hr := b.Live(t, key); !plungertest.Fenced(hr) {
		t.Error("B5.5 let go of a release whose uninstall fails")
	}
	must(t, b.Edit(t.Context(), key, func(hr *helmv2.HelmRelease) { hr.Spec.Uninstall = &helmv2.Uninstall{DisableHooks: true} }))
	b.uninstalled(t, hr)
}

// B5.4: while the storage of a deleted release cannot be listed nothing is decided about
// it, and what is held by that for long is told all the same.
func TestB5_4_AStorageThatCannotBeListedIsTold(t *testing.T) {
	t.Parallel()
	b := shared
	key := b.Releases(t, "unlisted", 1)[0]
	must(t, b.Stick(t.Context(), key, lab.Damage{}))
	must(t, b.Edit(t.Context(), key, addFence))
	must(t, b.Delete(t.Context(), key))
	b.Await(t, key, through)
	b.start(t, key.Namespace, decide.Repair, func(c *plunger.Config) {
		c.Now = func() time.Time { return time.Now().Add(11 * time.Minute) }
		c.Rest.Wrap(func(next http.RoundTripper) http.RoundTripper { return noLists{next} })
	})
	if note := b.Told(t, key, decide.UninstallPending); !strings.Contains(note, string(decide.ReadStorage)) {
		t.Errorf("said %q", note)
	}
}

// noLists loses every list of Secrets.
type noLists struct{ next http.RoundTripper }

func (n noLists) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodGet && strings.HasSuffix(req.URL.Path, "/secrets") {
		return nil, errDead
	}
	return n.next.RoundTrip(req)
}

// B5.6a, F6: somebody deletes the storage of a fenced release, and then the release:
// helm-controller assumes that it is uninstalled and reports success, and everything is
// still there.
func TestB5_6a_AnAssumedUninstallIsTold(t *testing.T) {
	t.Parallel()
	b := shared
	key := b.Releases(t, "assumed", 1)[0]
	must(t, b.Edit(t.Context(), key, addFence))
	hr := b.Live(t, key)
	stored, err := b.Revisions(t.Context(), hr)
	must(t, err)
	must(t, b.Client.Delete(t.Context(), &stored[0]))
	must(t, b.Delete(t.Context(), key))
	b.Await(t, key, through)
	b.start(t, key.Namespace, decide.Repair)
	if note := b.Told(t, key, decide.UninstallUnproven); !strings.Contains(note, "only assumed") {
		t.Errorf("said %q", note)
	}
	must(t, b.Gone(t.Context(), key, plungertest.Settle))
	if left := b.Left(t, hr); len(left.Chart) == 0 {
		t.Error("nothing was left behind: then there was nothing to tell")
	}
}

// B5.6: with keepHistory the proof is a latest revision that is uninstalled.
func TestKeepHistoryIsProvenByItsLatestRevision(t *testing.T) {
	t.Parallel()
	b := shared
	key := b.Releases(t, "keep-history", 1, func(hr *helmv2.HelmRelease) { hr.Spec.Uninstall = &helmv2.Uninstall{KeepHistory: true} })[0]
	requests := &tap{}
	requests.after = func(r request) {
		if r.Step == setFence && r.Status < 300 {
			if err := b.Delete(t.Context(), key); client.IgnoreNotFound(err) != nil {
				t.Error(err)
			}
		}
	}
	b.start(t, key.Namespace, decide.Repair, requests.wrap)
	must(t, b.Harm(t.Context(), key, lab.Damage{Below: "superseded"}))
	must(t, b.Change(t.Context(), key, 2))
	left := b.Left(t, lab.NewRelease(key))
	if len(left.Chart) > 0 || len(left.Storage) == 0 {
		t.Errorf("left %v and %v, want no object and the kept history; events %v", left.Chart, left.Storage, b.Said(t, key))
	}
	b.Silent(t, key, decide.UninstallUnproven) // B5.6: taken for proven
}

// B5.8: helm-controller's patch of the whole list of finalizers can erase the
// fence; it is put back.
func TestAnErasedFenceIsPutBack(t *testing.T) {
	t.Parallel()
	b := shared
	key := b.Releases(t, "erased", 1)[0]
	stop := b.gate.Hold(helmcontroller.PointRead, key)
	t.Cleanup(stop.Release)
	must(t, b.Harm(t.Context(), key, lab.Damage{}))
	must(t, b.Edit(t.Context(), key, func(hr *helmv2.HelmRelease) { hr.Labels = map[string]string{"look": "1"} }))
	// Fenced and no more: the rewrite is not permitted here.
	b.start(t, key.Namespace, decide.Repair, func(c *plunger.Config) {
		c.Rest.Wrap(func(next http.RoundTripper) http.RoundTripper { return noPuts{next} })
	})
	b.say(t, key, lab.Phrase, 0)
	b.Await(t, key, plungertest.Fenced)
	must(t, b.Edit(t.Context(), key, func(hr *helmv2.HelmRelease) {
		hr.Finalizers = slices.DeleteFunc(hr.Finalizers, func(s string) bool { return s == contract.Fence })
	}))
	b.Await(t, key, plungertest.Fenced)
}

type noPuts struct{ next http.RoundTripper }

func (n noPuts) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodPut {
		return nil, errDead
	}
	return n.next.RoundTrip(req)
}
