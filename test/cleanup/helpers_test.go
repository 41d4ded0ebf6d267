package cleanup

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/test/apiproxy"
)

// permissions are what cleanup uses in a namespace (A6.12), and nothing more:
// config/rbac/preflight-cleanup-role.yaml grants exactly these. Reading
// kube-system's Namespace is optional and not among them.
//
// A Namespace object belongs to itself as far as RBAC is concerned, so that a
// Role inside the namespace can allow reading it and no cluster-wide right is
// needed.
func permissions(namespace string) []kube.Permission {
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

// contextOf is for what is undone after a test's own context has ended.
func contextOf(t *testing.T) context.Context { return context.WithoutCancel(t.Context()) }

// notFoundFor answers every request for a part of a path with a gateway's page.
func notFoundFor(part string) apiproxy.Hooks {
	return apiproxy.Hooks{Before: func(x apiproxy.Exchange) apiproxy.Action {
		if !strings.Contains(x.Path, part) {
			return apiproxy.Action{}
		}
		return apiproxy.Action{Reply: http.StatusNotFound, ContentType: "text/html", Body: "<h1>404 page not found</h1>"}
	}}
}
