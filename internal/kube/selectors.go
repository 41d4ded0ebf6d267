package kube

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/holdfast-project/holdfast/internal/identity"
)

// Selector is an object that selects Pods by their labels.
type Selector struct {
	Object  identity.Object
	matches labels.Selector
}

// Matches reports whether a Pod with these labels is selected.
func (s Selector) Matches(podLabels map[string]string) bool {
	return s.matches.Matches(labels.Set(podLabels))
}

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
		Selector    json.RawMessage       `json:"selector"`
		PodSelector *metav1.LabelSelector `json:"podSelector"`
	} `json:"spec"`
}

// Selectors lists every Service, PodDisruptionBudget, NetworkPolicy and workload
// of a namespace with what it selects (A4.3).
func (c *Client) Selectors(ctx context.Context, namespace string) ([]Selector, error) {
	var all []Selector
	for _, kind := range selecting() {
		kind.Namespace = namespace
		objects, err := list[selectingObject](ctx, c, listing{of: kind})
		if err != nil {
			return nil, err
		}
		for _, object := range objects {
			place := kind
			place.Name, place.UID = object.Name, string(object.UID)
			matches, err := object.selector(kind.Kind)
			if err != nil {
				return nil, fmt.Errorf("reading the selector of %s: %w", place, err)
			}
			all = append(all, Selector{Object: place, matches: matches})
		}
	}
	return all, nil
}

// selector follows the API: an absent or empty selector of a Service or a
// ReplicationController selects nothing, an empty one elsewhere everything.
func (o selectingObject) selector(kind string) (labels.Selector, error) {
	switch kind {
	case "NetworkPolicy":
		return metav1.LabelSelectorAsSelector(o.Spec.PodSelector)
	case "Service", "ReplicationController":
		var set map[string]string
		if err := unmarshal(o.Spec.Selector, &set); err != nil {
			return nil, err
		}
		if len(set) == 0 {
			return labels.Nothing(), nil
		}
		return labels.ValidatedSelectorFromSet(set)
	default:
		var selector *metav1.LabelSelector
		if err := unmarshal(o.Spec.Selector, &selector); err != nil {
			return nil, err
		}
		return metav1.LabelSelectorAsSelector(selector)
	}
}

// unmarshal leaves into as it is when there is nothing to decode.
func unmarshal(raw json.RawMessage, into any) error {
	if len(raw) == 0 {
		return nil
	}
	return json.Unmarshal(raw, into)
}
