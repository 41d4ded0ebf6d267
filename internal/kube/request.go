package kube

import (
	"bytes"
	"net/http"

	"k8s.io/client-go/rest"

	"github.com/holdfast-project/holdfast/internal/apipath"
)

// readRetries is how often client-go may repeat a read that the server put off
// with Retry-After or whose connection broke.
const readRetries = 3

// request builds what client-go sends. Reads carry no resourceVersion, so that
// they are quorum reads.
func (c *Client) request(call call, resource apipath.Resource) *rest.Request {
	r := c.rest.Verb(method(call.verb)).AbsPath(resource.Root()).Resource(resource.Plural)
	if !resource.ClusterScoped {
		r = r.Namespace(call.object.Namespace)
	}
	if call.name != "" {
		r = r.Name(call.name)
	}
	if call.subresource != "" {
		r = r.SubResource(call.subresource)
	}
	for _, parameter := range call.query {
		r = r.Param(parameter[0], parameter[1])
	}
	r = r.SetHeader("Accept", call.accept).SetHeader(auditHeader, call.auditID).MaxRetries(readRetries)
	if call.body != nil {
		r = r.SetHeader("Content-Type", call.contentType).Body(opaque{bytes.NewReader(call.body)}).MaxRetries(0)
	}
	return r
}

func method(verb string) string {
	switch verb {
	case "create":
		return http.MethodPost
	case "update":
		return http.MethodPut
	case "patch":
		return http.MethodPatch
	case "delete":
		return http.MethodDelete
	default:
		return http.MethodGet
	}
}
