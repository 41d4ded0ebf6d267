package plunger

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-project/holdfast/internal/plunger/plungertest"
	"github.com/holdfast-project/holdfast/test/apiproxy"
	"github.com/holdfast-project/holdfast/test/helmcontroller/lab"
)

// position is where in a recovery something happens: before or after the n-th
// write of flux-plunger's about that release.
type position struct {
	n      int
	before bool
}

func (p position) String() string {
	if p.before {
		return fmt.Sprintf("before write %d", p.n)
	}
	return fmt.Sprintf("after write %d", p.n)
}

func positions(strategy string) (all []position) {
	writes, _ := bars(strategy)
	for n := 1; n <= writes; n++ {
		all = append(all, position{n, true}, position{n, false})
	}
	return all
}

// situation is a way of being stuck.
type situation struct {
	name   string
	damage lab.Damage
	edit   func(*helmv2.HelmRelease)
	// next is published while the release is stuck, before flux-plunger starts.
	next *lab.Chart
	// unready makes the release's source, which is its own, not ready at
	// flux-plunger's first write: before it, the message would say so instead.
	unready bool
	// covered makes it not ready before flux-plunger starts, so that this is what
	// the message says and only Released tells of the refused attempt.
	covered bool
	// second upgrades the release once before, to a chart that owns one more.
	second bool
}

func situations() []situation {
	return []situation{
		{name: "single"},
		{name: "several", second: true},
		{name: "keephistory", edit: func(hr *helmv2.HelmRelease) { hr.Spec.Uninstall = &helmv2.Uninstall{KeepHistory: true} }},
		{name: "broken", next: &lab.Chart{Version: "2.0.0", Broken: true}},
		{name: "unready", unready: true},
		{name: "covered", covered: true},
		{name: "hookfails", next: &lab.Chart{Version: "2.0.0", Hooks: map[string]lab.Hook{"pre-upgrade": lab.HookFails, "pre-install": lab.HookFails}}},
	}
}

// B5, B9.1, B10.2: a delete before and after each write of a recovery, recovered
// or not: every chart object gone, storage empty, object gone.
func TestDeleteAtEveryWrite(t *testing.T) {
	for _, strategy := range []string{repair, reclaim} {
		for _, s := range situations() {
			t.Run(strategy+"/"+s.name, func(t *testing.T) {
				t.Parallel()
				shared.deleteEverywhere(t, strategy, s)
			})
		}
	}
}

func (b *bench) deleteEverywhere(t *testing.T, strategy string, s situation) {
	namespace := "at-" + strategy + "-" + s.name
	at := positions(strategy)
	keys := b.stuckReleases(t, namespace, s, len(at))
	d := &deleter{b: b, unready: s.unready, count: newCounter(), namespace: namespace, at: map[string]position{}, fenced: map[string]bool{}}
	seen := &answers{}
	for i, key := range keys {
		d.at[key.Name] = at[i]
	}
	b.start(t, setup{strategy: strategy, namespace: namespace, hooks: apiproxy.Hooks{Before: d.before(t), After: func(x apiproxy.Exchange) apiproxy.Action {
		seen.after(x)
		return d.after(t)(x)
	}}})
	orphans := 0
	for i, key := range keys {
		b.deleteUnlessDone(t, d, key)
		left := b.gone(t, key)
		switch taken := deletedSecret(seen.all(), key.Name); {
		case settled(s, left):
		case !d.fencedAt(key.Name):
			// The very first write is the fence: the delete came before it.
			b.Told(t, key, "Warning DeletedUnfenced")
		case strategy == reclaim && taken:
			orphans++
			b.Told(t, key, "Warning UninstallUnproven")
			if s.second && !onlyTheDeletedRevisions(left) {
				t.Errorf("deleted %s, left %+v, want at most what only the deleted revision owned", at[i], left)
			}
		default:
			t.Errorf("deleted %s (fenced), left %+v; events %v", at[i], left, b.Said(t, key))
		}
	}
	t.Logf("%d of %d deletes came at their positions, the others after a shorter recovery", d.hit, len(at))
	if writes, _ := bars(strategy); s.name == "single" && d.hit < 2*writes-2 {
		t.Error("too few deletes came at their positions")
	}
	if strategy == reclaim && (s.name == "broken" || s.name == "unready") && orphans == 0 {
		t.Error("reclaim orphaned nothing although the release could not be stored again: the stated exception is not what is tested here")
	}
}

// stuckReleases makes releases that are stuck in the situation, each for one
// position, while no flux-plunger runs.
func (b *bench) stuckReleases(t *testing.T, namespace string, s situation, count int) []types.NamespacedName {
	t.Helper()
	var edits []func(*helmv2.HelmRelease)
	if s.edit != nil {
		edits = append(edits, s.edit)
	}
	if s.unready || s.covered {
		must(t, b.Namespace(t.Context(), namespace))
		for _, key := range lab.Names(namespace, "hr", count) {
			must(t, b.Publish(t.Context(), namespace, key.Name, lab.Chart{}))
		}
		edits = append(edits, func(hr *helmv2.HelmRelease) { hr.Spec.ChartRef.Name = hr.Name })
	}
	keys := b.Releases(t, namespace, count, edits...)
	if s.second {
		must(t, b.Publish(t.Context(), namespace, lab.Source, lab.Chart{Version: "1.1.0", Objects: 5}))
		must(t, lab.Each(keys, func(key types.NamespacedName) error {
			_, err := b.Until(t.Context(), key, plungertest.Settle, func(hr *helmv2.HelmRelease) bool { return lab.Ready(hr) && hr.Status.History.Latest().Version == 2 })
			return err
		}))
	}
	must(t, lab.Each(keys, func(key types.NamespacedName) error { return b.Stick(t.Context(), key, s.damage) }))
	if s.next != nil {
		must(t, b.Publish(t.Context(), namespace, lab.Source, *s.next))
	}
	if s.covered {
		must(t, lab.Each(keys, func(key types.NamespacedName) error { return b.cover(t.Context(), key) }))
	}
	return keys
}

// cover makes the source of a stuck release, which has its name, not ready, and
// waits until that is what the release says.
func (b *bench) cover(ctx context.Context, key types.NamespacedName) error {
	if err := b.Unready(ctx, key.Namespace, key.Name); err != nil {
		return err
	}
	if _, err := b.Ask(ctx, key); err != nil {
		return err
	}
	_, err := b.Until(ctx, key, plungertest.Settle, func(hr *helmv2.HelmRelease) bool {
		return !lab.Stuck(hr) && lab.Failing("SourceNotReady")(hr) && lab.Handled(hr)
	})
	return err
}

// settled reports that everything is gone that the situation wants gone.
func settled(s situation, left lab.Remains) bool {
	if s.name == "keephistory" {
		return !left.Object && len(left.Chart) == 0 && len(left.Storage) > 0 && strings.HasSuffix(left.Storage[len(left.Storage)-1], "uninstalled")
	}
	return left.Clean()
}

// onlyTheDeletedRevisions reports that of a release whose second revision was
// deleted nothing is left but the one object that the second chart added: the
// first revision was uninstalled (B9.1).
func onlyTheDeletedRevisions(left lab.Remains) bool {
	return len(left.Storage) == 0 && len(left.Chart) <= 1 && strings.HasSuffix(strings.Join(left.Chart, ""), "-4")
}

func deletedSecret(exchanges []apiproxy.Exchange, release string) bool {
	for _, x := range exchanges {
		if x.Method == http.MethodDelete && releaseOf(x) == release && x.Code < 300 {
			return true
		}
	}
	return false
}

// deleter deletes each release at its position, from inside flux-plunger's own
// request, so that nothing of flux-plunger's can happen in between.
type deleter struct {
	b         *bench
	unready   bool
	count     *counter
	namespace string
	at        map[string]position

	mu     sync.Mutex
	fenced map[string]bool
	// hit counts the deletes that came at their very position, and not after a
	// recovery that ended before it.
	hit int
}

func (d *deleter) before(t *testing.T) func(apiproxy.Exchange) apiproxy.Action {
	return func(x apiproxy.Exchange) apiproxy.Action {
		if writes(x) {
			release := releaseOf(x)
			n := d.count.next(release)
			if n == 1 && d.unready {
				if err := d.b.Unready(t.Context(), d.namespace, release); err != nil {
					t.Error(err)
				}
			}
			d.here(t, release, position{n, true})
		}
		return apiproxy.Action{}
	}
}

func (d *deleter) after(t *testing.T) func(apiproxy.Exchange) apiproxy.Action {
	return func(x apiproxy.Exchange) apiproxy.Action {
		if writes(x) {
			release := releaseOf(x)
			d.here(t, release, position{d.count.last(release), false})
		}
		return apiproxy.Action{}
	}
}

func (d *deleter) here(t *testing.T, release string, p position) {
	if d.at[release] == p && d.delete(t, types.NamespacedName{Namespace: d.namespace, Name: release}) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.hit++
	}
}

// delete deletes the release unless that was done, and reports whether it did.
func (d *deleter) delete(t *testing.T, key types.NamespacedName) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, done := d.fenced[key.Name]; done {
		return false
	}
	hr, err := d.b.DeleteSeen(t.Context(), key)
	if err != nil {
		if !apierrors.IsNotFound(err) {
			t.Errorf("deleting %s in the middle: %v", key, err)
		}
		return false
	}
	d.fenced[key.Name] = plungertest.Fenced(hr)
	return true
}

func (d *deleter) done(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, done := d.fenced[name]
	return done
}

func (d *deleter) fencedAt(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fenced[name]
}

// deleteUnlessDone waits for the delete at the release's position, or, when the
// recovery came to an end before it got there, deletes now.
func (b *bench) deleteUnlessDone(t *testing.T, d *deleter, key types.NamespacedName) {
	t.Helper()
	ended := func(hr *helmv2.HelmRelease) bool {
		return plungertest.Recovered(hr) || !lab.Stuck(hr) && lab.Failing("")(hr) && lab.Handled(hr) && d.count.last(key.Name) > 0
	}
	_, err := b.Until(t.Context(), key, plungertest.Settle, func(hr *helmv2.HelmRelease) bool { return d.done(key.Name) || ended(hr) })
	if err != nil && !d.done(key.Name) && !apierrors.IsNotFound(err) {
		t.Fatalf("%s: neither deleted at %s nor at an end: %v; events %v", key, d.at[key.Name], err, b.Said(t, key))
	}
	d.delete(t, key)
}

// The runs above can fail. With a fence that is taken for proof by itself, as
// soon as helm-controller is through, a truly stuck release is orphaned; and
// without any fence, a healthy one that is suspended, deleted and lifted.
func TestWhatWouldHappenWithoutIt(t *testing.T) {
	t.Run("fenced but not reminded", func(t *testing.T) {
		t.Parallel()
		b := shared
		key := b.stuckReleases(t, "notreminded", situation{name: "single"}, 1)[0]
		must(t, b.Edit(t.Context(), key, func(hr *helmv2.HelmRelease) { // as the first flux-plunger did
			hr.Spec.Suspend = true
			hr.Finalizers = append(hr.Finalizers, "lab.holdfast.test/fence")
		}))
		must(t, b.Delete(t.Context(), key))
		must(t, b.Edit(t.Context(), key, func(hr *helmv2.HelmRelease) { hr.Spec.Suspend = false }))
		b.Await(t, key, through)
		must(t, b.Edit(t.Context(), key, func(hr *helmv2.HelmRelease) { hr.Finalizers = nil }))
		if left := b.gone(t, key); len(left.Chart) != 4 || len(left.Storage) != 1 {
			t.Errorf("the order of the first flux-plunger left %+v, want an orphan", left)
		}
	})
	t.Run("not fenced", func(t *testing.T) {
		t.Parallel()
		b := shared
		key := b.Releases(t, "notfenced", 1)[0]
		must(t, b.Edit(t.Context(), key, func(hr *helmv2.HelmRelease) { hr.Spec.Suspend = true }))
		must(t, b.Delete(t.Context(), key))
		if left := b.gone(t, key); len(left.Chart) != 4 || len(left.Storage) != 1 {
			t.Errorf("a suspended delete left %+v, want an orphan", left)
		}
	})
}

// through is B5.3.
func through(hr *helmv2.HelmRelease) bool {
	for _, finalizer := range hr.Finalizers {
		if finalizer == helmv2.HelmReleaseFinalizer {
			return false
		}
	}
	return terminating(hr) && hr.Status.ObservedGeneration == hr.Generation && lab.Handled(hr)
}
