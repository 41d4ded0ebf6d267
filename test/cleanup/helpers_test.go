package cleanup

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-project/holdfast/internal/cleanup"
	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/test/apiproxy"
)

// permissions are those that the shipped Role grants.
func permissions(namespace string) []kube.Permission {
	return cleanup.Permissions(namespace, "Job", "Secret", "NetworkPolicy")
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
