package helmcontroller

import (
	"context"
	"errors"
	"fmt"
	"time"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/fluxcd/pkg/runtime/jitter"
	"github.com/fluxcd/pkg/runtime/patch"
	"github.com/fluxcd/pkg/runtime/predicates"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// What the real one's loop waits for, and how long.
const (
	requeueDependency = 30 * time.Second
	historySyncPoll   = time.Second
	historySyncBound  = 10 * time.Second
)

var (
	// errWaitForSource ends a look without an error for the queue, but without
	// an observed generation either: the source will wake the object.
	errWaitForSource = errors.New("must wait for source")
	errNoLatest      = errors.New("no latest release")
	errMustRequeue   = errors.New("must requeue")
	errRetryLater    = errors.New("retry after the strategy's interval")
	// The two ways in which retrying is given up until something changes.
	errExceededMaxRetries    = errors.New("exceeded maximum retries")
	errMissingRollbackTarget = errors.New("missing target release for rollback")
)

// ownedConditions are overwritten without a merge when they changed underneath.
func ownedConditions() []string {
	return []string{helmv2.ReleasedCondition, helmv2.RemediatedCondition, helmv2.TestSuccessCondition,
		meta.ReconcilingCondition, meta.ReadyCondition, meta.StalledCondition}
}

type reconciler struct {
	client.Client
	events    record.EventRecorder
	config    *rest.Config
	discovery discovery.CachedDiscoveryInterface
	mapper    apimeta.RESTMapper
	at        func(context.Context, Point, types.NamespacedName)
	gap       time.Duration
}

// setup watches as the real one does: a HelmRelease wakes by a new generation or
// a new requestedAt and by nothing else, and everything is looked at on start.
func (r *reconciler) setup(mgr ctrl.Manager, concurrent int, limiter workqueue.TypedRateLimiter[reconcile.Request]) error {
	return ctrl.NewControllerManagedBy(mgr).Named("helmrelease").
		For(&helmv2.HelmRelease{}, builder.WithPredicates(
			predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicates.ReconcileRequestedPredicate{}))).
		Watches(&sourcev1.OCIRepository{}, handler.EnqueueRequestsFromMapFunc(r.releasesOf),
			builder.WithPredicates(newArtifact())).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrent, RateLimiter: limiter}).
		Complete(r)
}

// Reconcile is one look at one object.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (result ctrl.Result, failure error) {
	obj := &helmv2.HelmRelease{}
	if err := r.Get(ctx, req.NamespacedName, obj); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	r.at(ctx, PointRead, req.NamespacedName)
	patcher := patch.NewSerialPatcher(obj, steppedClient{Client: r.Client, r: r})
	defer func() { failure = r.close(ctx, patcher, obj, result, failure) }()

	if !obj.DeletionTimestamp.IsZero() {
		r.at(ctx, PointSawDelete, req.NamespacedName)
		return r.reconcileDelete(ctx, obj)
	}
	if controllerutil.AddFinalizer(obj, helmv2.HelmReleaseFinalizer) {
		return ctrl.Result{Requeue: true}, nil //nolint:staticcheck // requeued with the queue's backoff, as the real one is
	}
	if obj.Spec.Suspend {
		return ctrl.Result{}, nil
	}
	return r.reconcileRelease(ctx, patcher, obj)
}

// close ends every look, also a failed one: the request is recorded as handled,
// the generation as observed unless there was an error or more is to come, and
// the patches follow each other with whatever others do in between.
func (r *reconciler) close(ctx context.Context, patcher *patch.SerialPatcher, obj *helmv2.HelmRelease, result ctrl.Result, failure error) error {
	if request, ok := meta.ReconcileAnnotationValue(obj.GetAnnotations()); ok {
		obj.Status.SetLastHandledReconcileRequest(request)
	}
	opts := patchOptions()
	requeues := result.Requeue //nolint:staticcheck // see Reconcile
	if errors.Is(failure, reconcile.TerminalError(nil)) || (failure == nil && !requeues) {
		opts = append(opts, patch.WithStatusObservedGeneration{})
	}
	if errors.Is(failure, errWaitForSource) {
		failure = nil
	}
	err := patcher.Patch(ctx, obj, opts...)
	if err != nil && !obj.DeletionTimestamp.IsZero() {
		err = kerrors.FilterOut(err, apierrors.IsNotFound)
	}
	r.at(ctx, PointDone, keyOf(obj))
	// The next look must see the history this one wrote, so the worker waits for
	// its cache; a history that another wrote meanwhile makes it wait in vain.
	_ = wait.PollUntilContextTimeout(ctx, historySyncPoll, historySyncBound, true, func(ctx context.Context) (bool, error) {
		seen := &helmv2.HelmRelease{}
		if err := r.Get(ctx, keyOf(obj), seen); err != nil {
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		}
		return apiequality.Semantic.DeepEqual(obj.Status.History, seen.Status.History), nil
	})
	return kerrors.Reduce(kerrors.NewAggregate([]error{failure, err}))
}

func patchOptions() []patch.Option {
	return []patch.Option{patch.WithFieldOwner(fieldManager), patch.WithOwnedConditions{Conditions: ownedConditions()}}
}

func (r *reconciler) reconcileRelease(ctx context.Context, patcher *patch.SerialPatcher, obj *helmv2.HelmRelease) (ctrl.Result, error) {
	conditions.MarkReconciling(obj, meta.ProgressingReason, "Fulfilling prerequisites")
	if err := patcher.Patch(ctx, obj, patchOptions()...); err != nil {
		return ctrl.Result{}, err
	}
	desired, result, err := r.prepare(ctx, obj)
	if err != nil {
		return result, err
	}
	helm, err := r.connect(ctx, obj)
	if err != nil {
		conditions.MarkFalse(obj, meta.ReadyCondition, "RESTClientError", "%s", err)
		return ctrl.Result{}, err
	}
	if targetChanged(obj, desired.chart.Name()) {
		if err := r.uninstall(ctx, helm, obj); err != nil && !errors.Is(err, errNoLatest) {
			return ctrl.Result{}, err
		}
		obj.Status.ClearHistory()
		obj.Status.ClearFailures()
		obj.Status.StorageNamespace = ""
		return ctrl.Result{Requeue: true}, nil //nolint:staticcheck // see Reconcile
	}
	obj.Status.StorageNamespace = obj.GetStorageNamespace()
	recordAttempt(obj, desired)
	return r.outcome(obj, r.atomicRelease(ctx, patcher, helm, obj, desired))
}

// outcome turns the end of the release loop into what the queue does next.
func (r *reconciler) outcome(obj *helmv2.HelmRelease, err error) (ctrl.Result, error) {
	switch {
	case err == nil:
		return jitter.JitteredRequeueInterval(ctrl.Result{RequeueAfter: obj.GetRequeueAfter()}), nil
	case errors.Is(err, errMustRequeue):
		return ctrl.Result{Requeue: true}, nil //nolint:staticcheck // see Reconcile
	case errors.Is(err, errRetryLater):
		return ctrl.Result{RequeueAfter: obj.GetActiveRetry(false).GetRetryInterval()}, nil
	case errors.Is(err, errExceededMaxRetries), errors.Is(err, errMissingRollbackTarget):
		return ctrl.Result{}, reconcile.TerminalError(err)
	}
	return ctrl.Result{}, err
}

// recordAttempt resets the failure counters when what is attempted has changed
// (a new generation, chart or values, or a reset request) and notes the attempt.
func recordAttempt(obj *helmv2.HelmRelease, d desired) {
	asked := helmv2.ShouldHandleResetRequest(obj)
	if asked || obj.Status.LastAttemptedGeneration != obj.Generation ||
		obj.Status.GetLastAttemptedRevision() != d.chart.Metadata.Version || obj.Status.LastAttemptedConfigDigest != d.configDigest {
		obj.Status.ClearFailures()
	}
	obj.Status.LastAttemptedGeneration = obj.Generation
	obj.Status.LastAttemptedRevision = d.chart.Metadata.Version
	obj.Status.LastAttemptedRevisionDigest = d.sourceDigest
	obj.Status.LastAttemptedConfigDigest = d.configDigest
}

// targetChanged reports that what is recorded lives elsewhere than what is now
// wanted, so that the old one must be uninstalled first.
func targetChanged(obj *helmv2.HelmRelease, chartName string) bool {
	latest := obj.Status.History.Latest()
	if obj.Status.StorageNamespace == "" || latest == nil {
		return false
	}
	return obj.GetStorageNamespace() != obj.Status.StorageNamespace || obj.GetReleaseNamespace() != latest.Namespace ||
		ShortenName(obj.GetReleaseName()) != latest.Name || chartName != latest.ChartName
}

func (r *reconciler) event(obj *helmv2.HelmRelease, kind, reason, format string, args ...any) string {
	message := fmt.Sprintf(format, args...)
	r.events.Event(obj, kind, reason, message)
	return message
}
