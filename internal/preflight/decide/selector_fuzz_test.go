package decide

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// A4.3: whatever a chart or the API server gives for an object that selects, it is an
// error or a selector that can be asked. One without a selector chooses nothing,
// unless it is a NetworkPolicy: that chooses everything.
func FuzzSelector(f *testing.F) {
	kinds := []string{"v1 Service", "policy/v1 PodDisruptionBudget", "networking.k8s.io/v1 NetworkPolicy", "apps/v1 Deployment",
		"apps/v1 StatefulSet", "apps/v1 DaemonSet", "apps/v1 ReplicaSet", "v1 ReplicationController", "batch/v1 Job", "v1 ConfigMap"}
	for i := range kinds {
		f.Add([]byte(`{"selector":{"matchLabels":{"a":"b"}}}`), uint8(i))
		f.Add([]byte(`{"selector":{"a":"b"},"podSelector":{"matchExpressions":[{"key":"a","operator":"In","values":["b"]}]}}`), uint8(i))
		f.Add([]byte(`{"selector":null,"podSelector":{}}`), uint8(i))
		f.Add([]byte(`{}`), uint8(i))
	}
	f.Fuzz(func(t *testing.T, body []byte, kind uint8) {
		var spec map[string]any
		if json.Unmarshal(body, &spec) != nil {
			return
		}
		u := &unstructured.Unstructured{Object: fields{"spec": spec}}
		apiVersion, name, _ := strings.Cut(kinds[int(kind)%len(kinds)], " ")
		u.SetAPIVersion(apiVersion)
		u.SetKind(name)
		selector, selects, err := SelectorOf(u)
		if err != nil || !selects {
			if name != "ConfigMap" && err == nil {
				t.Fatalf("%s is said not to select: %s", name, body)
			}
			return
		}
		path := "selector"
		if selector.onlyRestricts() {
			path = "podSelector"
		}
		matches := selector.matches.Matches(labels.Set{"a": "b"})
		if _, given := spec[path]; !given && matches != selector.onlyRestricts() {
			t.Fatalf("a %s without a selector selects: %v", name, matches)
		}
	})
}
