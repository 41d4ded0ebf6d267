package chart

import (
	"reflect"
	"slices"
	"testing"
)

// B7.4: the limit of each container is also what its collector goes by: a hook that
// is killed for its memory is killed at each try, and the chart stays for ever.
func TestB7_4_TheCollectorKnowsTheLimit(t *testing.T) {
	t.Parallel()
	for kind, object := range workloads(t, render(t, nil)) {
		_, _, container := pod(t, object)
		limits, _ := container["resources"].(values)["limits"].(values)
		if limits["memory"] == nil {
			t.Errorf("%s has no limit of memory", kind)
		}
		limit := values{"name": "GOMEMLIMIT", "valueFrom": values{"resourceFieldRef": values{"resource": "limits.memory"}}}
		if env := container["env"].([]any); !slices.ContainsFunc(env, func(e any) bool { return reflect.DeepEqual(e, limit) }) {
			t.Errorf("%s: %v", kind, env)
		}
	}
}
