package cleanup

import "github.com/holdfast-project/holdfast/internal/kube"

// Permissions are what cleanup uses in a namespace (A6.12), and nothing more:
// config/rbac/preflight-cleanup-role.yaml grants exactly these. The run asks for
// each of them before its first marker (A1.6). Reading kube-system's Namespace
// is optional and not among them.
//
// A Namespace object belongs to itself as far as RBAC is concerned, so that a
// Role inside the namespace can allow reading it and no cluster-wide right is
// needed.
func Permissions(namespace string) []kube.Permission {
	permissions := []kube.Permission{{Verb: "get", Resource: "namespaces", Namespace: namespace, Name: namespace}}
	for _, kind := range []kube.Permission{
		{Group: "batch", Resource: "jobs"},
		{Resource: "secrets"},
		{Group: "networking.k8s.io", Resource: "networkpolicies"},
	} {
		for _, verb := range []string{"get", "delete"} {
			permissions = append(permissions, kube.Permission{Verb: verb, Group: kind.Group, Resource: kind.Resource, Namespace: namespace})
		}
	}
	return append(permissions,
		kube.Permission{Verb: "get", Resource: "pods", Namespace: namespace},
		kube.Permission{Verb: "list", Resource: "pods", Namespace: namespace},
	)
}
