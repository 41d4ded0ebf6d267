package kube

import (
	"net/http"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// B3.2: a gateway's page is not an absence, and a write whose answer asks to be
// sent again is sent once.
func TestB32ForeignAnswersAndRepeatedWrites(t *testing.T) {
	configMaps := Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap"}
	notFound := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","details":{"name":"c","kind":"configmaps"},"code":404}`
	for name, row := range map[string]struct {
		code        int
		body, audit string
		gone        bool
	}{
		"absent":            {404, notFound, "echo", true},
		"a gateway's 404":   {404, "<html>", "", false},
		"a gateway's words": {404, notFound, "", false},
		"busy":              {503, "", "echo", false},
		"a gateway is busy": {503, "", "", false},
	} {
		network := &answers{code: row.code, header: http.Header{"Content-Type": {"application/json"}}, body: row.body}
		if row.audit != "" {
			network.header.Set(auditHeader, row.audit)
		}
		config := &rest.Config{Host: "http://cluster.invalid", Transport: network, RateLimiter: flowcontrol.NewFakeAlwaysRateLimiter()}
		o, err := NewObjects(config, "test")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.Get(t.Context(), configMaps, "ns", "c"); is[*Gone](err) != row.gone || !row.gone && !is[*Unreadable](err) {
			t.Errorf("%s: reading: %T %v", name, err, err)
		}
		network.posts.Store(0)
		network.header.Set("Retry-After", "0")
		v := Version{Resource: configMaps, Object: configMapAt("ns", "c"), ResourceVersion: "1"}
		v.Object.UID = testUID
		if err := o.DeleteExactly(t.Context(), v); is[*Gone](err) != row.gone || !row.gone && !is[*UnknownOutcome](err) {
			t.Errorf("%s: deleting: %T %v", name, err, err)
		}
		if n := network.posts.Load(); n != 1 {
			t.Errorf("%s: the delete was sent %d times", name, n)
		}
	}
}
