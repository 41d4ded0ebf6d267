package kube

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-project/holdfast/internal/identity"
)

// selecting returns the kinds whose selector could take a preflight Pod for one
// of its own (A4.3).
func selecting() []identity.Object {
	return []identity.Object{
		{APIVersion: "v1", Kind: "Service"},
		{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"},
		{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"},
		{APIVersion: "apps/v1", Kind: "Deployment"},
		{APIVersion: "apps/v1", Kind: "StatefulSet"},
		{APIVersion: "apps/v1", Kind: "DaemonSet"},
		{APIVersion: "apps/v1", Kind: "ReplicaSet"},
		{APIVersion: "v1", Kind: "ReplicationController"},
		{APIVersion: "batch/v1", Kind: "Job"},
	}
}

// selectingObject is the part of these kinds that says what they select.
type selectingObject struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector    any `json:"selector"`
		PodSelector any `json:"podSelector"`
	} `json:"spec"`
}

// Selectors lists every Service, PodDisruptionBudget, NetworkPolicy and workload
// of a namespace (A4.3). Of each there is its kind, name, namespace and UID, and of
// its spec the selector alone, where it has one.
func (c *Client) Selectors(ctx context.Context, namespace string) ([]unstructured.Unstructured, error) {
	var all []unstructured.Unstructured
	for _, kind := range selecting() {
		kind.Namespace = namespace
		objects, err := list[selectingObject](ctx, c, listing{of: kind})
		if err != nil {
			return nil, err
		}
		for i := range objects {
			all = append(all, objects[i].stripped(kind))
		}
	}
	return all, nil
}

// stripped gives the object its kind back, which a list says once for all.
func (o *selectingObject) stripped(kind identity.Object) unstructured.Unstructured {
	spec := map[string]any{}
	if o.Spec.Selector != nil {
		spec["selector"] = o.Spec.Selector
	}
	if o.Spec.PodSelector != nil {
		spec["podSelector"] = o.Spec.PodSelector
	}
	u := unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetAPIVersion(kind.APIVersion)
	u.SetKind(kind.Kind)
	u.SetNamespace(kind.Namespace)
	u.SetName(o.Name)
	u.SetUID(o.UID)
	return u
}
