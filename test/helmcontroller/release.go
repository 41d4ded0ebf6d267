package helmcontroller

import (
	"context"
	"errors"
	"fmt"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/fluxcd/pkg/runtime/patch"
	ctrl "sigs.k8s.io/controller-runtime"

	"helm.sh/helm/v4/pkg/release/common"
	release "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
)

// state is what the storage says, measured against what the status remembers.
type state string

const (
	stateAbsent    state = "absent"
	stateLocked    state = "locked"
	stateUnmanaged state = "unmanaged"
	stateFailed    state = "failed"
	stateOutOfSync state = "out of sync"
	stateInSync    state = "in sync"
)

// atomicRelease looks, acts and looks again, each kind of action at most once,
// until nothing is left to do. What is about to be done is published before it
// is done.
func (r *reconciler) atomicRelease(ctx context.Context, patcher *patch.SerialPatcher, helm *helmClient, obj *helmv2.HelmRelease, want desired) error {
	done := map[kind]bool{}
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("atomic release canceled: %w", err)
		}
		seen, reason, err := determine(helm, obj, want)
		if err != nil {
			conditions.MarkFalse(obj, meta.ReadyCondition, "StateError", "Could not determine release state: %s", err)
			return fmt.Errorf("cannot determine release state: %w", err)
		}
		ctrl.LoggerFrom(ctx).Info("release state", "state", seen, "reason", reason)
		next, err := r.nextAction(helm, obj, want, seen)
		if err != nil {
			return stall(obj, err)
		}
		if next == nil {
			conditions.Delete(obj, meta.ReconcilingCondition)
			summarize(obj)
			return nil
		}
		if done[next.kind] {
			return r.stopEarly(obj)
		}
		if err := r.run(ctx, patcher, obj, next); err != nil {
			return err
		}
		if next.kind == remediates {
			if remediation := obj.GetActiveRemediation(); remediation != nil && remediation.RetriesExhausted(obj) {
				return stall(obj, errExceededMaxRetries)
			}
			return r.stopEarly(obj)
		}
		done[next.kind] = true
		if err := patcher.Patch(ctx, obj, patchOptions()...); err != nil {
			return err
		}
	}
}

// run publishes the action and runs it. Ready becomes unknown with the action's
// name before Helm is called: the first sign that a release was forgotten.
func (r *reconciler) run(ctx context.Context, patcher *patch.SerialPatcher, obj *helmv2.HelmRelease, next *step) error {
	message := fmt.Sprintf("Running '%s' action with timeout of %s", next.name, next.timeout)
	conditions.MarkReconciling(obj, meta.ProgressingReason, "%s", message)
	if next.kind == releases {
		conditions.MarkUnknown(obj, meta.ReadyCondition, meta.ProgressingReason, "%s", message)
	}
	if err := patcher.Patch(ctx, obj, patchOptions()...); err != nil {
		return err
	}
	r.at(ctx, PointBeforeAction, keyOf(obj))
	err := next.run(ctx)
	r.at(ctx, PointAfterAction, keyOf(obj))
	summarize(obj)
	if err != nil && conditions.IsReady(obj) {
		conditions.MarkFalse(obj, meta.ReadyCondition, "ReconcileError", "%s", err)
	}
	return err
}

// stopEarly ends the loop with more to do: soon while retries are left.
func (r *reconciler) stopEarly(obj *helmv2.HelmRelease) error {
	conditions.MarkReconciling(obj, meta.ProgressingWithRetryReason, "%s", conditions.GetMessage(obj, meta.ReadyCondition))
	if obj.GetActiveRetry(false) != nil {
		return errRetryLater
	}
	if remediation := obj.GetActiveRemediation(); remediation == nil || !remediation.RetriesExhausted(obj) {
		return errMustRequeue
	}
	conditions.Delete(obj, meta.ReconcilingCondition)
	return nil
}

func stall(obj *helmv2.HelmRelease, err error) error {
	switch {
	case errors.Is(err, errExceededMaxRetries):
		conditions.MarkStalled(obj, "RetriesExceeded", "Failed to %s after %d attempt(s)",
			obj.Status.LastAttemptedReleaseAction, obj.GetActiveRemediation().GetFailureCount(obj))
	case errors.Is(err, errMissingRollbackTarget):
		conditions.MarkStalled(obj, "MissingRollbackTarget", "Failed to perform remediation: %s", err)
	}
	return err
}

// determine compares the latest stored revision with the latest snapshot. A
// revision that the snapshot does not recognise, because somebody changed it or
// because nothing is remembered, is not managed.
func determine(helm *helmClient, obj *helmv2.HelmRelease, want desired) (state, string, error) {
	last, err := lastRelease(helm, obj)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return stateAbsent, "no release in storage for object", nil
	}
	if err != nil {
		return "", "", fmt.Errorf("failed to retrieve last release from storage: %w", err)
	}
	status := last.Info.Status
	latest := obj.Status.History.Latest()
	switch {
	case status.IsPending():
		return stateLocked, "release with status '" + status.String() + "'", nil
	case latest == nil && status == common.StatusUninstalled:
		return stateAbsent, "found uninstalled release in storage", nil
	case latest == nil:
		return stateUnmanaged, "found existing release in storage", nil
	case !recognises(latest, last):
		return stateUnmanaged, "release not observed to be made for object", nil
	}
	return recognised(latest, last, want)
}

// recognised judges a revision that the snapshot knows.
func recognised(latest *helmv2.Snapshot, last *release.Release, want desired) (state, string, error) {
	switch status := last.Info.Status; status {
	case common.StatusFailed:
		return stateFailed, "", nil
	case common.StatusUninstalled:
		return stateAbsent, "found uninstalled release in storage", nil
	case common.StatusDeployed:
		if observe(last).ChartVer != want.chart.Metadata.Version || latest.ConfigDigest != want.configDigest {
			return stateOutOfSync, "chart or values changed", nil
		}
		return stateInSync, "", nil
	default:
		return "", "", fmt.Errorf("unable to determine state for release with status '%s'", status)
	}
}

func lastRelease(helm *helmClient, obj *helmv2.HelmRelease) (*release.Release, error) {
	stored, err := helm.configure(obj.Status.StorageNamespace, ignore).Releases.Last(ShortenName(obj.GetReleaseName()))
	if err != nil {
		return nil, err
	}
	rel, ok := stored.(*release.Release)
	if !ok {
		return nil, fmt.Errorf("storage holds a %T", stored)
	}
	return rel, nil
}

func ignore(observation) {}

// summarize makes Ready of what was last said about a remediation or a release.
// A remediated release is not ready, however well the remediation went.
func summarize(obj *helmv2.HelmRelease) {
	conditions.Delete(obj, helmv2.TestSuccessCondition)
	said := conditions.Get(obj, helmv2.ReleasedCondition)
	if remediated := conditions.Get(obj, helmv2.RemediatedCondition); remediated != nil &&
		(said == nil || remediated.ObservedGeneration >= said.ObservedGeneration) {
		said = remediated.DeepCopy()
		said.Status = "False"
	}
	if said == nil {
		return
	}
	ready := said.DeepCopy()
	ready.Type, ready.ObservedGeneration = meta.ReadyCondition, obj.Generation
	if ready.Status == "True" {
		conditions.Delete(obj, meta.StalledCondition)
	}
	conditions.Set(obj, ready)
}
