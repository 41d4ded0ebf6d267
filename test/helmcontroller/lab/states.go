package lab

import (
	"fmt"
	"strings"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"github.com/fluxcd/pkg/apis/meta"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Phrase is Helm's, and the trigger.
const Phrase = "has no deployed releases"

// Ready reports Ready=True for the current generation with everything that was
// asked for handled.
func Ready(hr *helmv2.HelmRelease) bool {
	c := apimeta.FindStatusCondition(hr.Status.Conditions, meta.ReadyCondition)
	return c != nil && c.Status == metav1.ConditionTrue && hr.Status.ObservedGeneration == hr.Generation && Handled(hr)
}

// Handled reports that the last request for a reconcile was handled.
func Handled(hr *helmv2.HelmRelease) bool {
	return hr.Annotations[meta.ReconcileRequestAnnotation] == hr.Status.LastHandledReconcileAt
}

// Stuck reports the trigger: Ready=False with the phrase.
func Stuck(hr *helmv2.HelmRelease) bool {
	c := apimeta.FindStatusCondition(hr.Status.Conditions, meta.ReadyCondition)
	return c != nil && c.Status == metav1.ConditionFalse && strings.Contains(c.Message, Phrase)
}

// Failing reports Ready=False for any reason, and the reason of Released when
// given.
func Failing(reason string) func(*helmv2.HelmRelease) bool {
	return func(hr *helmv2.HelmRelease) bool {
		c := apimeta.FindStatusCondition(hr.Status.Conditions, meta.ReadyCondition)
		return c != nil && c.Status == metav1.ConditionFalse && (reason == "" || c.Reason == reason)
	}
}

// Released reports the reason that the Released condition gives, "" without one.
func Released(hr *helmv2.HelmRelease) string {
	if c := apimeta.FindStatusCondition(hr.Status.Conditions, helmv2.ReleasedCondition); c != nil {
		return c.Reason
	}
	return ""
}

// Says returns the reason of the Ready condition, "" without one.
func Says(hr *helmv2.HelmRelease) string {
	if c := apimeta.FindStatusCondition(hr.Status.Conditions, meta.ReadyCondition); c != nil {
		return c.Reason
	}
	return ""
}

// Describe says in one line what decides about a release.
func Describe(hr *helmv2.HelmRelease) string {
	var conditions []string
	for _, c := range hr.Status.Conditions {
		conditions = append(conditions, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return fmt.Sprintf("generation %d (observed %d), requested %q (handled %q), suspend %t, terminating %t, finalizers %v, storage %q, history %d, %s",
		hr.Generation, hr.Status.ObservedGeneration, hr.Annotations[meta.ReconcileRequestAnnotation], hr.Status.LastHandledReconcileAt,
		hr.Spec.Suspend, !hr.DeletionTimestamp.IsZero(), hr.Finalizers, hr.Status.StorageNamespace, len(hr.Status.History), strings.Join(conditions, "; "))
}
