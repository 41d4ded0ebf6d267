package decide

import (
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/holdfast-project/holdfast/internal/identity"
)

// Selector is an object that chooses Pods by their labels.
type Selector struct {
	// Object is where it is; the namespace is empty for one that a chart
	// renders without.
	Object  identity.Object
	matches labels.Selector
}

// onlyRestricts reports whether a match takes something from a Pod and gives
// nothing to it: a NetworkPolicy is named, and everything else is refused
// (A4.3).
func (s Selector) onlyRestricts() bool { return s.Object.Kind == "NetworkPolicy" }

// SelectorOf reads the selector of a Service, PodDisruptionBudget,
// NetworkPolicy or workload; false for every other object. The group is
// compared too: there are Services that are not the core's.
func SelectorOf(u *unstructured.Unstructured) (Selector, bool, error) {
	s := Selector{Object: identity.Object{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName()}}
	group, _, grouped := strings.Cut(u.GetAPIVersion(), "/")
	if !grouped {
		group = ""
	}
	var err error
	switch group + "/" + u.GetKind() {
	case "/Service", "/ReplicationController":
		s.matches, err = plainSelector(u)
	case "policy/PodDisruptionBudget", "apps/Deployment", "apps/StatefulSet", "apps/DaemonSet", "apps/ReplicaSet", "batch/Job":
		s.matches, err = labelSelector(u, labels.Nothing(), "spec", "selector")
	case "networking.k8s.io/NetworkPolicy":
		// Alone among these, a missing selector means every Pod.
		s.matches, err = labelSelector(u, labels.Everything(), "spec", "podSelector")
	default:
		return Selector{}, false, nil
	}
	if err != nil {
		return Selector{}, false, fmt.Errorf("reading the selector of %s: %w", s.Object, err)
	}
	return s, true, nil
}

// plainSelector reads a map of labels, where none at all chooses nothing: such
// a Service has endpoints that somebody else writes. One that is no map of texts
// is empty too, and comes with an error.
func plainSelector(u *unstructured.Unstructured) (labels.Selector, error) {
	set, _, err := unstructured.NestedStringMap(u.Object, "spec", "selector")
	if len(set) == 0 {
		return labels.Nothing(), err
	}
	return labels.SelectorFromValidatedSet(set), nil
}

// labelSelector reads a LabelSelector, where an empty one chooses every Pod. One
// that is no map is not found either, and comes with an error.
func labelSelector(u *unstructured.Unstructured, missing labels.Selector, path ...string) (labels.Selector, error) {
	content, found, err := unstructured.NestedMap(u.Object, path...)
	if !found {
		return missing, err
	}
	var selector metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &selector); err != nil {
		return nil, err
	}
	return metav1.LabelSelectorAsSelector(&selector)
}

// PodLabels returns the labels that the Pods of a Job will have: the
// template's, and those that the Job controller adds. Give it the Job as a dry
// run returned it, and labels that a webhook adds are judged too.
func PodLabels(job *batchv1.Job) map[string]string {
	all := map[string]string{
		"job-name":                 job.Name,
		batchv1.JobNameLabel:       job.Name,
		"controller-uid":           string(job.UID),
		batchv1.ControllerUidLabel: string(job.UID),
	}
	for key, value := range job.Spec.Template.Labels {
		all[key] = value
	}
	return all
}

// PreflightPod is a Pod that a slot's Job will have.
type PreflightPod struct {
	Slot      identity.Slot
	Namespace string
	Labels    map[string]string
}

// Match is a selector that would choose a preflight Pod.
type Match struct {
	Selector Selector
	Slot     identity.Slot
}

// Matches compares selectors, the rendered chart's or the live namespace's,
// with the Pods of a preflight (A4.3). A Service would send users to them, a
// budget would count them, a workload would adopt them.
func Matches(selectors []Selector, pods []PreflightPod) (refused, restricting []Match) {
	for _, selector := range selectors {
		for _, pod := range pods {
			elsewhere := selector.Object.Namespace != "" && selector.Object.Namespace != pod.Namespace
			if elsewhere || !selector.matches.Matches(labels.Set(pod.Labels)) {
				continue
			}
			match := Match{Selector: selector, Slot: pod.Slot}
			if selector.onlyRestricts() {
				restricting = append(restricting, match)
			} else {
				refused = append(refused, match)
			}
		}
	}
	return refused, restricting
}
