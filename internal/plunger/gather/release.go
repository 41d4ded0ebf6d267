package gather

import (
	"bytes"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"github.com/fluxcd/pkg/apis/meta"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
)

// FromHelmRelease turns a HelmRelease, live or cached, into a decision's input. What
// no decision reads stays behind: thousands of them are held at once.
func FromHelmRelease(release *helmv2.HelmRelease) decide.Release {
	view := decide.Release{
		Namespace: release.Namespace, Name: release.Name,
		UID: string(release.UID), ResourceVersion: release.ResourceVersion, Generation: release.Generation,
		Finalizers: release.Finalizers, Annotations: Noted(release.Annotations), Managers: managers(Relevant(release.ManagedFields)),
		Spec: specOf(release), Status: statusOf(release),
	}
	if release.DeletionTimestamp != nil {
		view.DeletionTimestamp = release.DeletionTimestamp.Time
	}
	return view
}

func specOf(release *helmv2.HelmRelease) decide.Spec {
	spec := decide.Spec{
		ReleaseName: release.Spec.ReleaseName, TargetNamespace: release.Spec.TargetNamespace,
		StorageNamespace: release.Spec.StorageNamespace, Remote: release.Spec.KubeConfig != nil,
		KeepHistory: release.GetUninstall().KeepHistory,
	}
	// The API type cannot tell an absent field from false, and no decision needs
	// to: only true is a suspension, and only managedFields say whose.
	if release.Spec.Suspend {
		spec.Suspend = new(true)
	}
	return spec
}

func statusOf(release *helmv2.HelmRelease) decide.Status {
	status := decide.Status{
		ObservedGeneration: release.Status.ObservedGeneration, StorageNamespace: release.Status.StorageNamespace,
		Ready:                  conditionOf(release, meta.ReadyCondition),
		Released:               conditionOf(release, helmv2.ReleasedCondition),
		LastHandledReconcileAt: release.Status.LastHandledReconcileAt, Failures: release.Status.Failures,
	}
	for _, snapshot := range release.Status.History {
		if snapshot == nil {
			continue
		}
		status.History = append(status.History, decide.Snapshot{Name: snapshot.Name, Namespace: snapshot.Namespace,
			Version: snapshot.Version, Status: snapshot.Status})
	}
	return status
}

func conditionOf(release *helmv2.HelmRelease, kind string) decide.Condition {
	condition := apimeta.FindStatusCondition(release.Status.Conditions, kind)
	if condition == nil {
		return decide.Condition{}
	}
	return decide.Condition{Status: string(condition.Status), Reason: condition.Reason, Message: condition.Message,
		ObservedGeneration: condition.ObservedGeneration, LastTransition: condition.LastTransitionTime.Time}
}

func managers(entries []metav1.ManagedFieldsEntry) []decide.ManagedField {
	fields := make([]decide.ManagedField, 0, len(entries))
	for _, entry := range entries {
		field := decide.ManagedField{Manager: entry.Manager, Operation: string(entry.Operation), Subresource: entry.Subresource}
		if entry.FieldsV1 != nil {
			field.Fields = entry.FieldsV1.GetRawBytes()
		}
		if entry.Time != nil {
			field.Time = entry.Time.Time
		}
		fields = append(fields, field)
	}
	return fields
}

// Noted keeps the annotations that a decision reads: ours and Flux's requests.
// kubectl's copy of the last applied manifest is as large as the values.
func Noted(annotations map[string]string) map[string]string {
	kept := map[string]string{}
	for _, key := range []string{contract.ProcessedVersion, contract.ProcessedUID, contract.NotedRevision, contract.Reminders, contract.RequestedUID, contract.Unproven, contract.RequestedAt} {
		if value, found := annotations[key]; found {
			kept[key] = value
		}
	}
	return kept
}

// Relevant keeps the managers that can say whose a suspension is.
func Relevant(entries []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	var kept []metav1.ManagedFieldsEntry
	for _, entry := range entries {
		if entry.Manager == contract.FieldManager || entry.FieldsV1 != nil && bytes.Contains(entry.FieldsV1.GetRawBytes(), []byte(`"f:suspend"`)) {
			kept = append(kept, entry)
		}
	}
	return kept
}
