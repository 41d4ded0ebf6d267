package preflight

import (
	"context"
	"fmt"
	"strings"

	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/internal/render"
)

// checkPermissions asks for every permission that the run and its cleanup need,
// before anything is created: a run never creates what it could not delete
// (A1.6, A6.12). kube-system is optional and not asked for.
func (r *run) checkPermissions(ctx context.Context) error {
	denied, err := r.Cluster.May(ctx, permissions(r.Namespace, r.rendered.Slots))
	if err != nil {
		return r.unanswered(err, "asking for permissions")
	}
	if len(denied) == 0 {
		return nil
	}
	words := make([]string, len(denied))
	for i, p := range denied {
		words[i] = describe(p)
	}
	return refuse("the Roles for a run and for its cleanup are in config/rbac",
		"the current credentials may not: %s", strings.Join(words, ", "))
}

func describe(p kube.Permission) string {
	resource := p.Resource
	if p.Subresource != "" {
		resource += "/" + p.Subresource
	}
	if p.Name != "" {
		resource += " " + p.Name
	}
	return fmt.Sprintf("%s %s", p.Verb, resource)
}

// permissions lists what the two Roles in config/rbac grant for these slots.
func permissions(namespace string, slots []render.Slot) []kube.Permission {
	var all []kube.Permission
	add := func(group, resource string, verbs ...string) {
		for _, verb := range verbs {
			all = append(all, kube.Permission{Verb: verb, Group: group, Resource: resource, Namespace: namespace})
		}
	}
	kinds := map[string]bool{}
	for _, slot := range slots {
		kinds[slot.Object.Kind] = true
	}
	add("batch", "jobs", "create", "get", "list", "patch", "delete")
	if kinds["Secret"] {
		add("", "secrets", "create", "get", "delete")
	}
	if kinds["NetworkPolicy"] {
		add("networking.k8s.io", "networkpolicies", "create", "get", "delete")
	}
	add("", "pods", "get", "list")
	add("", "events", "list")
	add("", "services", "list")
	add("", "replicationcontrollers", "list")
	add("policy", "poddisruptionbudgets", "list")
	add("networking.k8s.io", "networkpolicies", "list")
	for _, workload := range []string{"deployments", "statefulsets", "daemonsets", "replicasets"} {
		add("apps", workload, "list")
	}
	return append(all,
		kube.Permission{Verb: "get", Resource: "pods", Subresource: "log", Namespace: namespace},
		kube.Permission{Verb: "get", Resource: "namespaces", Namespace: namespace, Name: namespace},
	)
}
