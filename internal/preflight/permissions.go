package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-project/holdfast/internal/cleanup"
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

// permissions lists what the two Roles in config/rbac grant for these slots: what
// cleanup will need, and what only the run does.
func permissions(namespace string, slots []render.Slot) []kube.Permission {
	kinds := make([]string, len(slots))
	for i, slot := range slots {
		kinds[i] = slot.Object.Kind
	}
	all := cleanup.Permissions(namespace, kinds...)
	add := func(group, resource string, verbs ...string) {
		for _, verb := range verbs {
			all = append(all, kube.Permission{Verb: verb, Group: group, Resource: resource, Namespace: namespace})
		}
	}
	add("batch", "jobs", "create", "list", "patch")
	if slices.Contains(kinds, "Secret") {
		add("", "secrets", "create")
	}
	if slices.Contains(kinds, "NetworkPolicy") {
		add("networking.k8s.io", "networkpolicies", "create")
	}
	add("", "events", "list")
	add("", "services", "list")
	add("", "replicationcontrollers", "list")
	add("policy", "poddisruptionbudgets", "list")
	add("networking.k8s.io", "networkpolicies", "list")
	for _, workload := range []string{"deployments", "statefulsets", "daemonsets", "replicasets"} {
		add("apps", workload, "list")
	}
	return append(all, kube.Permission{Verb: "get", Resource: "pods", Subresource: "log", Namespace: namespace})
}
