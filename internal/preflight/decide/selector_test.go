package decide

import (
	"errors"
	"maps"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-project/holdfast/internal/identity"
)

type fields = map[string]any

func object(apiVersion, kind, namespace string, spec fields) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: fields{"apiVersion": apiVersion, "kind": kind, "metadata": fields{"name": "x"}, "spec": spec}}
	u.SetNamespace(namespace)
	return u
}

func TestMatches(t *testing.T) {
	template := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "demo-preflight-api-0a0a0a0a", UID: ours}}
	template.Spec.Template.Labels = map[string]string{identity.InstanceLabel: "demo", identity.ComponentLabel: identity.ComponentPreflight}
	pods := []PreflightPod{{Slot: identity.SlotAPI, Namespace: "ns", Labels: PodLabels(template)}}

	instance := fields{identity.InstanceLabel: "demo"}
	full := fields{identity.InstanceLabel: "demo", "app.kubernetes.io/name": "demo"}
	byLabels := func(labels fields) fields { return fields{"selector": fields{"matchLabels": labels}} }
	expression := func(key, operator string, values ...any) fields {
		return fields{"selector": fields{"matchExpressions": []any{fields{"key": key, "operator": operator, "values": values}}}}
	}
	const (
		no, refuses, restricts = "no match", "refused", "restricts"
	)
	for name, row := range map[string]struct {
		object *unstructured.Unstructured
		want   string
	}{
		"A4.3: a Service by the instance alone":            {object("v1", "Service", "", fields{"selector": instance}), refuses},
		"A4.3: a Service with another label too":           {object("v1", "Service", "", fields{"selector": full}), no},
		"A4.3: a Service without a selector":               {object("v1", "Service", "", fields{}), no},
		"A4.3: a Service with an empty selector":           {object("v1", "Service", "", fields{"selector": fields{}}), no},
		"A4.3: a Service of another namespace":             {object("v1", "Service", "elsewhere", fields{"selector": instance}), no},
		"A4.3: a Service of this namespace":                {object("v1", "Service", "ns", fields{"selector": instance}), refuses},
		"A4.3: a Service by a Job's own label":             {object("v1", "Service", "", fields{"selector": fields{"job-name": "demo-preflight-api-0a0a0a0a"}}), refuses},
		"A4.3: a Service that is not the core's":           {object("serving.knative.dev/v1", "Service", "", fields{"selector": instance}), no},
		"A4.3: a PDB by the instance alone":                {object("policy/v1", "PodDisruptionBudget", "", byLabels(instance)), refuses},
		"A4.3: a PDB for every Pod":                        {object("policy/v1", "PodDisruptionBudget", "", fields{"selector": fields{}}), refuses},
		"A4.3: a PDB without a selector":                   {object("policy/v1", "PodDisruptionBudget", "", fields{}), no},
		"A4.3: a PDB for Pods without the name label":      {object("policy/v1", "PodDisruptionBudget", "", expression("app.kubernetes.io/name", "DoesNotExist")), refuses},
		"A4.3: a PDB for Pods of other releases":           {object("policy/v1", "PodDisruptionBudget", "", expression(identity.InstanceLabel, "NotIn", "demo")), no},
		"A4.3: a PDB for whatever Jobs run":                {object("policy/v1", "PodDisruptionBudget", "", expression(batchv1.JobNameLabel, "Exists")), refuses},
		"A4.3: a Deployment by the instance alone":         {object("apps/v1", "Deployment", "", byLabels(instance)), refuses},
		"A4.3: a Deployment of its own Pods":               {object("apps/v1", "Deployment", "", byLabels(full)), no},
		"A4.3: a StatefulSet by the instance alone":        {object("apps/v1", "StatefulSet", "", byLabels(instance)), refuses},
		"A4.3: a DaemonSet by the instance alone":          {object("apps/v1", "DaemonSet", "", byLabels(instance)), refuses},
		"A4.3: a ReplicaSet by the instance alone":         {object("apps/v1", "ReplicaSet", "", byLabels(instance)), refuses},
		"A4.3: a ReplicationController by the instance":    {object("v1", "ReplicationController", "", fields{"selector": instance}), refuses},
		"A4.3: a Job with a manual selector":               {object("batch/v1", "Job", "", byLabels(instance)), refuses},
		"A4.3: a Job with its own UID":                     {object("batch/v1", "Job", "", byLabels(fields{batchv1.ControllerUidLabel: theirs})), no},
		"A4.3: a rendered Job has no selector":             {object("batch/v1", "Job", "", fields{}), no},
		"A4.3: the namespace's default deny is named":      {object("networking.k8s.io/v1", "NetworkPolicy", "ns", fields{"podSelector": fields{}}), restricts},
		"A4.3: a policy without a podSelector is for all":  {object("networking.k8s.io/v1", "NetworkPolicy", "ns", fields{}), restricts},
		"A4.3: a policy by the instance alone is named":    {object("networking.k8s.io/v1", "NetworkPolicy", "", fields{"podSelector": fields{"matchLabels": instance}}), restricts},
		"A4.3: a policy for others is not named":           {object("networking.k8s.io/v1", "NetworkPolicy", "", fields{"podSelector": fields{"matchLabels": full}}), no},
		"A4.3: an object that chooses no Pods":             {object("v1", "ConfigMap", "", fields{"selector": instance}), no},
		"A4.3: an old group of another maker's Deployment": {object("example.com/v1", "Deployment", "", byLabels(instance)), no},
	} {
		t.Run(name, func(t *testing.T) {
			var selectors []Selector
			selector, chooses, err := SelectorOf(row.object)
			if err != nil {
				t.Fatal(err)
			}
			if chooses {
				selectors = append(selectors, selector)
			}
			refused, restricting := Matches(selectors, pods)
			for _, match := range append(refused, restricting...) {
				u := row.object
				if want := (identity.Object{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: "x"}); match.Selector.Object != want || match.Slot != identity.SlotAPI {
					t.Errorf("%s for %s, want %s for %s", match.Selector.Object, match.Slot, want, identity.SlotAPI)
				}
			}
			got := no
			if len(refused) > 0 {
				got = refuses
			}
			if len(restricting) > 0 {
				got = restricts
			}
			if len(refused)+len(restricting) > 1 || got != row.want {
				t.Errorf("%d refused, %d restricting; want %s", len(refused), len(restricting), row.want)
			}
		})
	}
}

// A4.3: a selector that cannot be read is an error and never "no match".
func TestUnreadableSelectorsAreErrors(t *testing.T) {
	for name, u := range map[string]*unstructured.Unstructured{
		"a Service whose selector is a list":   object("v1", "Service", "", fields{"selector": []any{"a"}}),
		"a Service with a number for a value":  object("v1", "Service", "", fields{"selector": fields{"a": int64(1)}}),
		"a Deployment whose labels are a text": object("apps/v1", "Deployment", "", fields{"selector": fields{"matchLabels": "a"}}),
		"a Deployment with a text":             object("apps/v1", "Deployment", "", fields{"selector": "a"}),
		"a PDB with an operator of its own":    object("policy/v1", "PodDisruptionBudget", "", fields{"selector": fields{"matchExpressions": []any{fields{"key": "a", "operator": "Like"}}}}),
		"a policy with In and without a value": object("networking.k8s.io/v1", "NetworkPolicy", "", fields{"podSelector": fields{"matchExpressions": []any{fields{"key": "a", "operator": "In"}}}}),
	} {
		_, chooses, err := SelectorOf(u)
		if chooses || err == nil || errors.Unwrap(err) == nil || !strings.Contains(err.Error(), u.GetKind()+" ") || !strings.Contains(err.Error(), "/x") {
			t.Errorf("%s is read as a selector (%v) with the error %v, want one that names it", name, chooses, err)
		}
	}
}

// A4.3: the labels of a Job's Pods are the template's and the Job controller's,
// under both of their names.
func TestPodLabels(t *testing.T) {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "demo", UID: ours}}
	j.Spec.Template.Labels = map[string]string{"a": "b"}
	want := map[string]string{
		"a": "b", "job-name": "demo", "batch.kubernetes.io/job-name": "demo",
		"controller-uid": ours, "batch.kubernetes.io/controller-uid": ours,
	}
	if got := PodLabels(j); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
