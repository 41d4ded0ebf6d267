package helmcontroller

import (
	"context"
	"fmt"
	"strings"
	"time"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"github.com/fluxcd/pkg/runtime/conditions"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/release/common"
)

// kind says how often an action may run in one look, and what follows it.
type kind int

const (
	unlocks kind = iota
	releases
	remediates
)

// step is an action that has been chosen.
type step struct {
	name    string
	kind    kind
	timeout time.Duration
	run     func(context.Context) error
}

// nextAction chooses by state. A release that is not managed is upgraded without
// asking how often that failed, and its history is forgotten first: this is the
// state from which a delete orphans everything.
func (r *reconciler) nextAction(helm *helmClient, obj *helmv2.HelmRelease, want desired, seen state) (*step, error) {
	forced := helmv2.ShouldHandleForceRequest(obj)
	switch seen {
	case stateInSync:
		return r.inSync(helm, obj, want, forced), nil
	case stateLocked:
		return r.unlock(helm, obj), nil
	case stateAbsent:
		if obj.GetInstall().GetRetry(false) == nil && obj.GetInstall().GetRemediation().RetriesExhausted(obj) && !forced {
			return nil, fmt.Errorf("%w: cannot install release", errExceededMaxRetries)
		}
		return r.install(helm, obj, want), nil
	case stateUnmanaged:
		obj.Status.ClearHistory()
		return r.upgrade(helm, obj, want), nil
	case stateOutOfSync:
		if obj.GetUpgrade().GetRetry(false) == nil && obj.GetUpgrade().GetRemediation().RetriesExhausted(obj) && !forced {
			return nil, fmt.Errorf("%w: cannot upgrade release", errExceededMaxRetries)
		}
		return r.upgrade(helm, obj, want), nil
	}
	return r.afterFailure(helm, obj, want, forced)
}

// inSync has nothing to do unless it is forced to.
func (r *reconciler) inSync(helm *helmClient, obj *helmv2.HelmRelease, want desired, forced bool) *step {
	obj.Status.History.Truncate(true)
	if forced {
		return r.upgrade(helm, obj, want)
	}
	if conditions.IsTrue(obj, helmv2.RemediatedCondition) {
		conditions.Delete(obj, helmv2.RemediatedCondition)
		latest := obj.Status.History.Latest()
		conditions.MarkTrue(obj, helmv2.ReleasedCondition, helmv2.UpgradeSucceededReason,
			"Helm upgrade succeeded for release %s with chart %s", latest.FullReleaseName(), latest.VersionedChartName())
	}
	return nil
}

// afterFailure retries, remediates or gives up on a release that this very
// controller saw fail.
func (r *reconciler) afterFailure(helm *helmClient, obj *helmv2.HelmRelease, want desired, forced bool) (*step, error) {
	remediation := obj.GetActiveRemediation()
	if obj.GetActiveRetry(false) != nil || remediation == nil || remediation.GetFailureCount(obj) <= 0 || forced {
		return r.upgrade(helm, obj, want), nil
	}
	if remediation.RetriesExhausted(obj) && !remediation.MustRemediateLastFailure() {
		return nil, fmt.Errorf("%w: cannot remediate failed release", errExceededMaxRetries)
	}
	obj.Status.History.Truncate(true)
	switch remediation.GetStrategy() {
	case helmv2.RollbackRemediationStrategy:
		previous := obj.Status.History.Previous(true)
		if previous == nil {
			return nil, fmt.Errorf("%w: cannot remediate failed release", errMissingRollbackTarget)
		}
		return r.rollback(helm, obj, previous.Version), nil
	case helmv2.UninstallRemediationStrategy:
		return r.remediateByUninstall(helm, obj), nil
	}
	return nil, fmt.Errorf("unknown remediation strategy: %s", remediation.GetStrategy())
}

func (r *reconciler) install(helm *helmClient, obj *helmv2.HelmRelease, want desired) *step {
	spec := obj.GetInstall()
	timeout := spec.GetTimeout(obj.GetTimeout()).Duration
	return &step{name: "install", kind: releases, timeout: timeout, run: func(ctx context.Context) error {
		obj.Status.LastAttemptedReleaseAction = helmv2.ReleaseActionInstall
		// An install begins a new history, whatever was known before.
		obj.Status.ClearHistory()
		stored := written{}
		run := action.NewInstall(helm.configure(obj.Status.StorageNamespace, stored.hear))
		run.ReleaseName, run.Namespace = ShortenName(obj.GetReleaseName()), obj.GetReleaseNamespace()
		run.Timeout, run.WaitStrategy = timeout, waitStrategy(spec.GetDisableWait())
		run.DisableHooks, run.Replace, run.CreateNamespace = spec.DisableHooks, spec.Replace, spec.CreateNamespace
		run.DisableOpenAPIValidation = spec.DisableOpenAPIValidation
		_, err := run.RunWithContext(ctx, want.chart, want.values)
		return r.released(obj, want, stored, err, helmv2.InstallSucceededReason, helmv2.InstallFailedReason, spec.GetRemediation())
	}}
}

func (r *reconciler) upgrade(helm *helmClient, obj *helmv2.HelmRelease, want desired) *step {
	spec := obj.GetUpgrade()
	timeout := spec.GetTimeout(obj.GetTimeout()).Duration
	return &step{name: "upgrade", kind: releases, timeout: timeout, run: func(ctx context.Context) error {
		obj.Status.LastAttemptedReleaseAction = helmv2.ReleaseActionUpgrade
		stored := written{}
		run := action.NewUpgrade(helm.configure(obj.Status.StorageNamespace, stored.hear))
		run.Namespace, run.MaxHistory = obj.GetReleaseNamespace(), obj.GetMaxHistory()
		run.Timeout, run.WaitStrategy = timeout, waitStrategy(spec.GetDisableWait())
		run.DisableHooks, run.CleanupOnFail = spec.DisableHooks, spec.CleanupOnFail
		run.DisableOpenAPIValidation = spec.DisableOpenAPIValidation
		_, err := run.RunWithContext(ctx, ShortenName(obj.GetReleaseName()), want.chart, want.values)
		return r.released(obj, want, stored, err, helmv2.UpgradeSucceededReason, helmv2.UpgradeFailedReason, spec.GetRemediation())
	}}
}

// released says how an install or upgrade went. A failure that stored nothing is
// an error for the queue and counts for no remediation: this is how "has no
// deployed releases" is retried for ever and never remediated.
func (r *reconciler) released(obj *helmv2.HelmRelease, want desired, stored written, err error, good, bad string, remediation helmv2.Remediation) error {
	conditions.Delete(obj, helmv2.TestSuccessCondition)
	conditions.Delete(obj, helmv2.RemediatedCondition)
	stored.record(obj)
	verb := obj.Status.LastAttemptedReleaseAction
	if err != nil {
		obj.Status.Failures++
		message := r.event(obj, corev1.EventTypeWarning, bad, "Helm %s failed for release %s/%s with chart %s@%s: %s", verb,
			obj.GetReleaseNamespace(), obj.GetReleaseName(), want.chart.Name(), want.chart.Metadata.Version, strings.TrimSpace(err.Error()))
		conditions.MarkFalse(obj, helmv2.ReleasedCondition, bad, "%s", message)
		if len(stored) == 0 {
			return err
		}
		remediation.IncrementFailureCount(obj)
		return nil
	}
	latest := obj.Status.History.Latest()
	message := r.event(obj, corev1.EventTypeNormal, good, "Helm %s succeeded for release %s with chart %s", verb,
		latest.FullReleaseName(), latest.VersionedChartName())
	conditions.MarkTrue(obj, helmv2.ReleasedCondition, good, "%s", message)
	return nil
}

func (r *reconciler) rollback(helm *helmClient, obj *helmv2.HelmRelease, version int) *step {
	spec := obj.GetRollback()
	timeout := spec.GetTimeout(obj.GetTimeout()).Duration
	return &step{name: "rollback", kind: remediates, timeout: timeout, run: func(context.Context) error {
		failed := obj.Status.History.Latest().DeepCopy()
		stored := written{}
		run := action.NewRollback(helm.configure(obj.Status.StorageNamespace, stored.hear))
		run.Version, run.Timeout, run.WaitStrategy = version, timeout, waitStrategy(spec.GetDisableWait())
		run.DisableHooks, run.CleanupOnFail, run.MaxHistory = spec.DisableHooks, spec.CleanupOnFail, obj.GetMaxHistory()
		err := run.Run(failed.Name)
		stored.record(obj)
		return r.remediated(obj, failed, err, len(stored) > 0, "rollback", helmv2.RollbackSucceededReason, helmv2.RollbackFailedReason)
	}}
}

// remediateByUninstall removes a failed first install, running objects included.
func (r *reconciler) remediateByUninstall(helm *helmClient, obj *helmv2.HelmRelease) *step {
	spec := obj.GetUninstall()
	timeout := spec.GetTimeout(obj.GetTimeout()).Duration
	return &step{name: "uninstall", kind: remediates, timeout: timeout, run: func(context.Context) error {
		failed := obj.Status.History.Latest().DeepCopy()
		stored := written{}
		run := action.NewUninstall(helm.configure(obj.Status.StorageNamespace, func(o observation) {
			stored.hear(o)
			replaceIn(obj)(o)
		}))
		run.Timeout, run.DisableHooks, run.KeepHistory = timeout, spec.DisableHooks, spec.KeepHistory
		run.WaitStrategy, run.DeletionPropagation = waitStrategy(spec.GetDisableWait()), spec.GetDeletionPropagation()
		_, err := run.Run(failed.Name)
		return r.remediated(obj, failed, err, len(stored) > 0, "uninstall remediation", helmv2.UninstallSucceededReason, helmv2.UninstallFailedReason)
	}}
}

func (r *reconciler) remediated(obj *helmv2.HelmRelease, failed *helmv2.Snapshot, err error, stored bool, what, good, bad string) error {
	if err != nil {
		obj.Status.Failures++
		message := r.event(obj, corev1.EventTypeWarning, bad, "Helm %s for release %s with chart %s failed: %s", what,
			failed.FullReleaseName(), failed.VersionedChartName(), strings.TrimSpace(err.Error()))
		conditions.MarkFalse(obj, helmv2.RemediatedCondition, bad, "%s", message)
		if !stored {
			return err
		}
		return nil
	}
	message := r.event(obj, corev1.EventTypeNormal, good, "Helm %s for release %s with chart %s succeeded", what,
		failed.FullReleaseName(), failed.VersionedChartName())
	conditions.MarkTrue(obj, helmv2.RemediatedCondition, good, "%s", message)
	return nil
}

// unlock marks a revision that an interrupted action left pending as failed.
func (r *reconciler) unlock(helm *helmClient, obj *helmv2.HelmRelease) *step {
	return &step{name: "unlock", kind: unlocks, timeout: obj.GetTimeout().Duration, run: func(context.Context) error {
		last, err := lastRelease(helm, obj)
		if err != nil {
			return err
		}
		pending := last.Info.Status
		last.SetStatus(common.StatusFailed, fmt.Sprintf("Release unlocked from stale '%s' state", pending))
		if err := helm.configure(obj.Status.StorageNamespace, replaceIn(obj)).Releases.Update(last); err != nil {
			return err
		}
		obj.Status.Failures++
		conditions.Set(obj, &metav1.Condition{Type: helmv2.ReleasedCondition, Status: metav1.ConditionFalse, Reason: "PendingRelease",
			Message: "Unlocked Helm release with status '" + pending.String() + "'"})
		return nil
	}}
}
