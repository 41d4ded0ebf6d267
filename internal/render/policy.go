package render

import (
	batchv1 "k8s.io/api/batch/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/internal/identity"
)

// networkPolicy copies the chart's policy for this attempt's Pods. They are
// selected by their Jobs' names, which carry the nonce, because the two labels
// of A4.3 are also those of the release's own migration Pods: a policy by these
// labels would open to them, for as long as the preflight lasts, what the chart
// keeps shut. It returns nil when the profile calls it optional and the chart
// renders none.
func networkPolicy(objects []object, wanted *PolicySource, release string, jobs []string) (*networkingv1.NetworkPolicySpec, error) {
	if wanted == nil {
		return nil, nil
	}
	if wanted.Optional && !rendersAny(objects, "NetworkPolicy", wanted.Component) {
		return nil, nil
	}
	source, err := findOne(objects, "NetworkPolicy", wanted.Component)
	if err != nil {
		return nil, err
	}
	var spec networkingv1.NetworkPolicySpec
	if err := source.decodeStrict(&spec, "spec"); err != nil {
		return nil, err
	}
	spec.PodSelector = metav1.LabelSelector{
		MatchLabels:      map[string]string{identity.InstanceLabel: release},
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: batchv1.JobNameLabel, Operator: metav1.LabelSelectorOpIn, Values: jobs}},
	}
	return &spec, nil
}

func rendersAny(objects []object, kind, component string) bool {
	for _, o := range objects {
		if o.GetKind() == kind && o.GetLabels()[identity.ComponentLabel] == component {
			return true
		}
	}
	return false
}
