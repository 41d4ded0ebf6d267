package cleanup

import (
	"slices"

	"github.com/holdfast-project/holdfast/internal/kube"
)

// Permissions are what cleanup uses in a namespace for objects of these kinds
// (A6.12), and nothing more: config/rbac/preflight-cleanup-role.yaml grants
// exactly these for Job, Secret and NetworkPolicy. The run asks for each of them
// before its first marker (A1.6). Reading kube-system's Namespace is optional and
// not among them.
//
// A Namespace object belongs to itself as far as RBAC is concerned, so that a
// Role inside the namespace can allow reading it and no cluster-wide right is
// needed.
func Permissions(namespace string, kinds ...string) []kube.Permission {
	permissions := []kube.Permission{{Verb: "get", Resource: "namespaces", Namespace: namespace, Name: namespace}}
	for _, place := range []struct{ kind, group, resource string }{
		{"Job", "batch", "jobs"},
		{"Secret", "", "secrets"},
		{"NetworkPolicy", "networking.k8s.io", "networkpolicies"},
	} {
		if !slices.Contains(kinds, place.kind) {
			continue
		}
		for _, verb := range []string{"get", "delete"} {
			permissions = append(permissions, kube.Permission{Verb: verb, Group: place.group, Resource: place.resource, Namespace: namespace})
		}
	}
	return append(permissions,
		kube.Permission{Verb: "get", Resource: "pods", Namespace: namespace},
		kube.Permission{Verb: "list", Resource: "pods", Namespace: namespace},
	)
}
