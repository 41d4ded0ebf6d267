package kube

import (
	"slices"
	"testing"
)

// A6.3: both names of the label raise doubt: the plain one, which Job controllers
// wrote alone before Kubernetes 1.27 and still write, and the prefixed one.
func TestA6_3_ControllerUIDs(t *testing.T) {
	const plain, prefixed = "controller-uid", "batch.kubernetes.io/controller-uid"
	for _, row := range []struct {
		labels map[string]string
		want   []string
	}{
		{nil, nil},
		{map[string]string{"job-name": testUID}, nil},
		{map[string]string{plain: ""}, nil},
		{map[string]string{plain: testUID}, []string{testUID}},
		{map[string]string{prefixed: testUID}, []string{testUID}},
		{map[string]string{plain: testUID, prefixed: testUID}, []string{testUID}},
		{map[string]string{plain: otherUID, prefixed: testUID}, []string{testUID, otherUID}},
	} {
		if got := (Meta{Labels: row.labels}).ControllerUIDs(); !slices.Equal(got, row.want) {
			t.Errorf("%v: %v, want %v", row.labels, got, row.want)
		}
	}
}
