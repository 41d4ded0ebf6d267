package helmcontroller

import (
	"context"
	"errors"
	"strings"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/release/common"
	"helm.sh/helm/v4/pkg/storage/driver"
)

// reconcileDelete is where releases are lost: whatever is decided here but an
// error, the finalizer goes, and with it the object unless somebody else holds
// it. It does not ask whether its own finalizer is there: a terminating object
// that another holds is handled like any other (F7).
func (r *reconciler) reconcileDelete(ctx context.Context, obj *helmv2.HelmRelease) (ctrl.Result, error) {
	if !obj.Spec.Suspend { // F1: a suspended release keeps everything
		if err := r.uninstallDeleted(ctx, obj); err != nil {
			return ctrl.Result{}, err
		}
	}
	controllerutil.RemoveFinalizer(obj, helmv2.HelmReleaseFinalizer)
	return ctrl.Result{}, nil
}

func (r *reconciler) uninstallDeleted(ctx context.Context, obj *helmv2.HelmRelease) error {
	log := ctrl.LoggerFrom(ctx)
	if obj.Status.StorageNamespace == "" { // F2
		log.Info("skipping Helm release uninstallation: no storage namespace configured")
		return nil
	}
	helm, err := r.connect(ctx, obj)
	if apierrors.IsNotFound(err) { // F3: the Secret behind spec.kubeConfig is gone
		log.Error(err, "skipping Helm release uninstallation")
		return nil
	}
	if err != nil {
		conditions.MarkFalse(obj, meta.ReadyCondition, helmv2.UninstallFailedReason, "failed to build REST client getter to uninstall release: %s", err)
		return err
	}
	if account := obj.Spec.ServiceAccountName; obj.Spec.KubeConfig == nil && account != "" {
		err := r.Get(ctx, client.ObjectKey{Namespace: obj.Namespace, Name: account}, &corev1.ServiceAccount{})
		if apierrors.IsNotFound(err) { // F4: history and storage namespace stay as they are
			log.Error(err, "skipping Helm release uninstallation")
			return nil
		}
		if err != nil {
			conditions.MarkFalse(obj, meta.ReadyCondition, helmv2.UninstallFailedReason,
				"failed to confirm ServiceAccount '%s' can be used to uninstall release: %s", account, err)
			return err
		}
	}
	if err := r.uninstall(ctx, helm, obj); err != nil && !errors.Is(err, errNoLatest) {
		return err
	}
	// F5 ends here too, with nothing uninstalled: a history that is empty is
	// "cleared", and the storage namespace with it.
	obj.Status.ClearHistory()
	obj.Status.StorageNamespace = ""
	return nil
}

// uninstall runs Helm's uninstall of the release that status.history names. It
// knows nothing else: no history, no uninstall (F5).
func (r *reconciler) uninstall(ctx context.Context, helm *helmClient, obj *helmv2.HelmRelease) error {
	defer summarize(obj)
	latest := obj.Status.History.Latest().DeepCopy()
	if latest == nil {
		return errNoLatest
	}
	cfg := helm.configure(obj.Status.StorageNamespace, replaceIn(obj))
	run := action.NewUninstall(cfg)
	spec := obj.GetUninstall()
	run.Timeout = spec.GetTimeout(obj.GetTimeout()).Duration
	run.DisableHooks = spec.DisableHooks
	run.KeepHistory = spec.KeepHistory
	run.WaitStrategy = waitStrategy(spec.GetDisableWait())
	run.DeletionPropagation = spec.GetDeletionPropagation()

	r.at(ctx, PointBeforeAction, keyOf(obj))
	response, err := run.Run(latest.Name)
	r.at(ctx, PointAfterAction, keyOf(obj))

	switch {
	case errors.Is(err, driver.ErrReleaseNotFound): // F6: chart objects, if any, stay
		conditions.MarkFalse(obj, helmv2.ReleasedCondition, helmv2.UninstallSucceededReason,
			"Release %s was not found, assuming it is uninstalled", latest.FullReleaseName())
		return nil
	case err != nil && spec.KeepHistory && strings.Contains(err.Error(), "is already deleted"):
		conditions.MarkFalse(obj, helmv2.ReleasedCondition, helmv2.UninstallSucceededReason,
			"Release %s was already uninstalled", latest.FullReleaseName())
		return nil
	}
	if response != nil {
		if seen := observe(response.Release); !latest.Targets(seen.Name, seen.Namespace, seen.Version) {
			err = errors.New("release mismatch: uninstalled another release than the current " + latest.FullReleaseName())
		}
	}
	if err == nil && latest.Digest == obj.Status.History.Latest().Digest && latest.Status != common.StatusUninstalled.String() {
		err = errors.New("uninstall completed with error: no release in storage was updated")
	}
	if err != nil {
		obj.Status.Failures++
		message := r.event(obj, corev1.EventTypeWarning, helmv2.UninstallFailedReason,
			"Helm uninstall failed for release %s with chart %s: %s", latest.FullReleaseName(), latest.VersionedChartName(), strings.TrimSpace(err.Error()))
		conditions.MarkFalse(obj, helmv2.ReleasedCondition, helmv2.UninstallFailedReason, "%s", message)
		return err
	}
	message := r.event(obj, corev1.EventTypeNormal, helmv2.UninstallSucceededReason,
		"Helm uninstall succeeded for release %s with chart %s", latest.FullReleaseName(), latest.VersionedChartName())
	conditions.MarkFalse(obj, helmv2.ReleasedCondition, helmv2.UninstallSucceededReason, "%s", message)
	return nil
}
