// Package apipath knows where the API server keeps the kinds that Holdfast
// touches.
//
// Its invariant: the table is fixed. No discovery decides which URL a deletion
// goes to, and a kind that is not in the table is an error.
//
// It must not import net or any k8s.io module: commands are printed for people
// without a cluster at hand (A7.1).
package apipath

import (
	"fmt"
	"path"
	"strings"
)

// Resource is a kind's place in the API.
type Resource struct {
	// Group is empty for the core group.
	Group   string
	Version string
	// Plural is the resource's name in URLs and in RBAC.
	Plural string
	// ClusterScoped is true for a kind without a namespace.
	ClusterScoped bool
}

// Of returns the place of a kind, and an error for a kind that is not known.
func Of(apiVersion, kind string) (Resource, error) {
	plural := plural(apiVersion + "/" + kind)
	if plural == "" {
		return Resource{}, fmt.Errorf("finding the API path of %s %s: this kind is not known", apiVersion, kind)
	}
	group, version, found := strings.Cut(apiVersion, "/")
	if !found {
		group, version = "", apiVersion
	}
	return Resource{Group: group, Version: version, Plural: plural, ClusterScoped: kind == "Namespace" || kind == "SelfSubjectAccessReview"}, nil
}

func plural(kind string) string {
	switch kind {
	case "v1/Pod", "v1/Secret", "v1/ConfigMap", "v1/Service", "v1/Event", "v1/Namespace", "v1/ReplicationController",
		"batch/v1/Job", "policy/v1/PodDisruptionBudget",
		"apps/v1/Deployment", "apps/v1/StatefulSet", "apps/v1/DaemonSet", "apps/v1/ReplicaSet",
		"authorization.k8s.io/v1/SelfSubjectAccessReview":
		return strings.ToLower(kind[strings.LastIndex(kind, "/")+1:]) + "s"
	case "networking.k8s.io/v1/NetworkPolicy":
		return "networkpolicies"
	default:
		return ""
	}
}

// Root returns "/api/v1" or "/apis/GROUP/VERSION".
func (r Resource) Root() string {
	if r.Group == "" {
		return "/api/" + r.Version
	}
	return "/apis/" + r.Group + "/" + r.Version
}

// Path returns the URL path of one object. It refuses names that could leave
// their place in it.
func (r Resource) Path(namespace, name string) (string, error) {
	if !segment(name) || (!r.ClusterScoped && !segment(namespace)) {
		return "", fmt.Errorf("building the API path of %s %q in namespace %q: a name may hold lower-case letters, digits, '-' and '.' only", r.Plural, name, namespace)
	}
	if r.ClusterScoped {
		return path.Join(r.Root(), r.Plural, name), nil
	}
	return path.Join(r.Root(), "namespaces", namespace, r.Plural, name), nil
}

// segment reports whether s is a DNS subdomain in form: nothing in it can end a
// path segment or mean anything to a shell.
func segment(s string) bool {
	return s != "" && len(s) <= 253 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-.") == "" && strings.Trim(s, ".") != ""
}
