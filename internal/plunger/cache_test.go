package plunger

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"github.com/fluxcd/pkg/apis/meta"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/gather"
)

// B1.2: what is cached of a release decides as the whole one does, and holds
// nothing that grows with its values: not the values, nor kubectl's copy of them,
// nor who owns which of them.
func TestCachedReleasesAreSlim(t *testing.T) {
	large := strings.Repeat("v", 100_000)
	whole := &helmv2.HelmRelease{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "app", UID: "uid", ResourceVersion: "7", Generation: 4,
		Labels: map[string]string{"large": large}, Finalizers: []string{contract.HelmFinalizer, contract.Fence},
		Annotations: map[string]string{
			"kubectl.kubernetes.io/last-applied-configuration": large,
			contract.ProcessedVersion:                          "3", contract.ProcessedUID: "u@3", contract.NotedRevision: "3@2026-11-29T11:00:00Z", contract.Reminders: "1",
			contract.RequestedUID: "u", contract.Unproven: "2", contract.RequestedAt: "t",
		},
		ManagedFields: []metav1.ManagedFieldsEntry{
			{Manager: contract.FieldManager, Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:suspend":{}}}`)},
			{Manager: "kustomize-controller", Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:values":{"f:` + large + `":{}}}}`)},
		}}}
	whole.Spec = helmv2.HelmReleaseSpec{ReleaseName: "name", TargetNamespace: "target", StorageNamespace: "storage", Suspend: true,
		KubeConfig: &meta.KubeConfigReference{}, Uninstall: &helmv2.Uninstall{KeepHistory: true}, Values: &apiextensionsv1.JSON{Raw: []byte(`"` + large + `"`)}}
	whole.Status = helmv2.HelmReleaseStatus{ObservedGeneration: 3, StorageNamespace: "storage", Failures: 2,
		History: helmv2.Snapshots{{Name: "name", Namespace: "target", Version: 2, Status: "failed"}}}
	whole.Status.LastHandledReconcileAt = "t"
	whole.Status.Conditions = []metav1.Condition{{Type: meta.ReadyCondition, Status: metav1.ConditionFalse, Message: "m", ObservedGeneration: 3}}

	want := gather.FromHelmRelease(whole.DeepCopy())
	if _, copied := want.Annotations["kubectl.kubernetes.io/last-applied-configuration"]; copied || len(want.Managers) != 1 {
		t.Errorf("a decision is given what it does not read: %+v", want)
	}
	slimmed, err := slim(whole)
	if err != nil {
		t.Fatal(err)
	}
	cached, ok := slimmed.(*helmv2.HelmRelease)
	if !ok {
		t.Fatalf("cached as %T", slimmed)
	}
	if got := gather.FromHelmRelease(cached); !reflect.DeepEqual(got, want) {
		t.Errorf("decides on\n%+v, want\n%+v", got, want)
	}
	if raw, err := json.Marshal(cached); err != nil || len(raw) > 4000 {
		t.Errorf("%d bytes are cached of it: %v", len(raw), err)
	}
}
