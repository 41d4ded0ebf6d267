package plunger

import (
	"context"
	"fmt"
	"sync"
	"time"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-project/holdfast/internal/plunger/decide"
	"github.com/holdfast-project/holdfast/internal/plunger/gather"
	"github.com/holdfast-project/holdfast/internal/plunger/walk"
)

// Reconciler walks one release at a time. It holds nothing that a restart must
// not lose.
type Reconciler struct {
	// Cache is the manager's, of HelmReleases only.
	Cache client.Reader
	// Walker does the rest.
	Walker *walk.Walker

	mu       sync.Mutex
	memories map[types.NamespacedName]memory
}

// memory is what this process did to one object. An object that was created
// again under the name is another one.
type memory struct {
	uid string
	// seen is the resourceVersion of the last live read or write's answer, until a
	// view from before it was left alone once.
	seen string
	decide.Memory
}

// staleLook is when a view that was left alone as stale is looked at all the
// same: should the cache not move on, a release must not be left for ever.
const staleLook = time.Second

// Reconcile is reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var cached helmv2.HelmRelease
	if err := r.Cache.Get(ctx, req.NamespacedName, &cached); err != nil {
		if !apierrors.IsNotFound(err) {
			return ctrl.Result{}, fmt.Errorf("reading the cache: %w", err)
		}
		r.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	view := gather.FromHelmRelease(&cached)
	if r.stale(req.NamespacedName, view) {
		return ctrl.Result{RequeueAfter: staleLook}, nil
	}
	c := &walk.Case{Namespace: req.Namespace, Name: req.Name, Release: &view, Memory: r.recall(req.NamespacedName, view.UID)}
	var err error
	if c.Claimants, err = r.claimants(ctx, view); err != nil {
		return ctrl.Result{}, err
	}
	after, err := r.Walker.Walk(ctx, c)
	r.remember(req.NamespacedName, c)
	r.Walker.Metrics.Saw(req.String(), c.Release)
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: after}, nil
}

// stale reports whether the cache still shows the release as it was before what
// this process last saw of it live. Such a view asks for what was just done, and
// costs a list to find out; the newer one is on its way and brings a look.
func (r *Reconciler) stale(key types.NamespacedName, view decide.Release) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, found := r.memories[key]
	if !found || known.uid != view.UID || known.seen == "" {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(view.ResourceVersion, known.seen)
	if err != nil || order >= 0 {
		return false
	}
	known.seen = ""
	r.memories[key] = known
	return true
}

// claimants returns the other releases of this cluster that name the same
// release in the same storage (B4.1b). It is asked only where something could be
// done about the release.
func (r *Reconciler) claimants(ctx context.Context, view decide.Release) ([]decide.Release, error) {
	if !view.Concerns() {
		return nil, nil
	}
	var claiming helmv2.HelmReleaseList
	if err := r.Cache.List(ctx, &claiming, client.MatchingFields{claimIndex: view.Claim()}); err != nil {
		return nil, fmt.Errorf("reading the cache: %w", err)
	}
	var others []decide.Release
	for i := range claiming.Items {
		other := gather.FromHelmRelease(&claiming.Items[i])
		if other.Ref() != view.Ref() {
			others = append(others, other)
		}
	}
	return others, nil
}

func (r *Reconciler) recall(key types.NamespacedName, uid string) decide.Memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, found := r.memories[key]; found && known.uid == uid {
		return known.Memory
	}
	return decide.Memory{}
}

func (r *Reconciler) remember(key types.NamespacedName, c *walk.Case) {
	if c.Release == nil {
		r.forget(key)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.memories == nil {
		r.memories = map[types.NamespacedName]memory{}
	}
	known := memory{uid: c.Release.UID, seen: c.Seen, Memory: c.Memory}
	if known == (memory{uid: known.uid}) {
		delete(r.memories, key)
		return
	}
	r.memories[key] = known
}

func (r *Reconciler) forget(key types.NamespacedName) {
	r.mu.Lock()
	delete(r.memories, key)
	r.mu.Unlock()
	r.Walker.Teller.Forget(key.String())
	r.Walker.Metrics.Saw(key.String(), nil)
}
