package plunger

import (
	"context"
	"fmt"
	"sync"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
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
	decide.Memory
}

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

// claimants returns the other releases of this cluster that name the same
// release in the same storage (B4.1b). It is asked only where something could be
// done about the release.
func (r *Reconciler) claimants(ctx context.Context, view decide.Release) ([]decide.Release, error) {
	if !view.Concerns() {
		return nil, nil
	}
	var claiming helmv2.HelmReleaseList
	if err := r.Cache.List(ctx, &claiming, client.MatchingFields{claimIndex: claim(view)}); err != nil {
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
	if c.Memory == (decide.Memory{}) {
		delete(r.memories, key)
		return
	}
	r.memories[key] = memory{c.Release.UID, c.Memory}
}

func (r *Reconciler) forget(key types.NamespacedName) {
	r.mu.Lock()
	known := r.memories[key]
	delete(r.memories, key)
	r.mu.Unlock()
	r.Walker.Teller.Forget(known.uid)
	r.Walker.Metrics.Saw(key.String(), nil)
}
