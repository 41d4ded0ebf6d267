package kube

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// B3.2: a gateway's page is not an absence, and a write whose answer asks to be
// sent again is sent once.
func TestB3_2_ForeignAnswersAndRepeatedWrites(t *testing.T) {
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
		"no final answer":   {101, "", "echo", false},
		"nor with words":    {101, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"c"}}`, "echo", false},
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

// B3.2, B6.6: a write that no connection was made for is not sent. Where one was made
// it is unknown, and so it is where a redirect led to none: the first request was sent.
func TestB6_6_AWriteWithoutAConnectionIsNotSent(t *testing.T) {
	ended := httptest.NewServer(http.NotFoundHandler())
	ended.Close()
	cuts := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer cuts.Close()
	redirects := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(auditHeader, r.Header.Get(auditHeader))
		http.Redirect(w, r, ended.URL, http.StatusTemporaryRedirect)
	}))
	defer redirects.Close()
	for name, row := range map[string]struct {
		host    string
		notSent bool
	}{"nobody listens": {ended.URL, true}, "the connection is cut": {cuts.URL, false}, "a redirect to nobody": {redirects.URL, false}} {
		o, err := NewObjects(&rest.Config{Host: row.host, RateLimiter: flowcontrol.NewFakeAlwaysRateLimiter()}, "test")
		if err != nil {
			t.Fatal(err)
		}
		for _, resource := range []Resource{{Version: "v1", Plural: "configmaps", Kind: "ConfigMap"}, Secrets()} {
			v := Version{Resource: resource, Object: resource.At("ns", "c"), ResourceVersion: "1"}
			v.Object.UID = testUID
			for verb, write := range map[string]func() error{
				"delete":   func() error { return o.DeleteExactly(t.Context(), v) },
				"apply":    func() error { _, err := o.Apply(t.Context(), v, Fields{}, false); return err },
				"annotate": func() error { _, err := o.Annotate(t.Context(), v, nil); return err },
				"event":    func() error { return o.WriteEvent(t.Context(), v.Object, Note{}) },
			} {
				err := write()
				if is[*NotSent](err) != row.notSent || !row.notSent && !is[*UnknownOutcome](err) {
					t.Errorf("%s: %s of a %s: %T %v", name, verb, resource.Kind, err, err)
				}
				if row.notSent && (!errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), "ns/c")) {
					t.Errorf("%s: %s of a %s says neither of what nor why: %v", name, verb, resource.Kind, err)
				}
			}
		}
		if _, err := o.Get(t.Context(), Pods(), "ns", "p"); !is[*Unreadable](err) {
			t.Errorf("%s: reading: %T %v", name, err, err)
		}
	}
}

// B3.2, A6.2a, A3.7: the answers to a guarded patch, judged as every write's.
func TestB3_2_AnswersToAPatch(t *testing.T) {
	configMaps := Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap"}
	status := func(code int, reason, details string) string {
		return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"details":%s,"code":%d}`, reason, details, code)
	}
	invalid := func(field string) string {
		return `{"name":"c","kind":"ConfigMap","causes":[{"reason":"FieldValueInvalid","field":"` + field + `"}]}`
	}
	for _, row := range []struct {
		name, body string
		code       int
		want       error
	}{
		{"a test did not hold", status(422, "Invalid", `{}`), 422, &Conflict{}},
		{"the result would be invalid", status(422, "Invalid", invalid("spec.interval")), 422, &Refused{}},
		{"a finalizer would be added", status(422, "Invalid", invalid("metadata.finalizers")), 422, &Refused{}},
		{"made again under the name", status(422, "Invalid", invalid("metadata.uid")), 422, &Gone{}},
		{"422 of a page", "<html>", 422, &UnknownOutcome{}},
		{"another version", status(409, "Conflict", `{"name":"c","kind":"configmaps"}`), 409, &Conflict{}},
		{"409 of a page", "<html>", 409, &UnknownOutcome{}},
		{"absent", status(404, "NotFound", `{"name":"c","kind":"configmaps"}`), 404, &Gone{}},
		{"another is absent", status(404, "NotFound", `{"name":"d","kind":"configmaps"}`), 404, &UnknownOutcome{}},
		{"404 of a page", "<html>", 404, &UnknownOutcome{}},
		{"forbidden", status(403, "Forbidden", `{"name":"c","kind":"configmaps"}`), 403, &Refused{}},
		{"throttled", "later", 429, &Refused{}},
		{"failed", status(500, "InternalError", `{}`), 500, &UnknownOutcome{}},
		{"timed out", status(504, "Timeout", `{}`), 504, &UnknownOutcome{}},
	} {
		network := &answers{code: row.code, body: row.body, header: http.Header{"Content-Type": {"application/json"}}}
		network.header.Set(auditHeader, "echo")
		o, err := NewObjects(&rest.Config{Host: "http://cluster.invalid", Transport: network, RateLimiter: flowcontrol.NewFakeAlwaysRateLimiter()}, "test")
		if err != nil {
			t.Fatal(err)
		}
		v := Version{Resource: configMaps, Object: configMapAt("ns", "c"), ResourceVersion: "1"}
		v.Object.UID = testUID
		_, err = o.RemoveFinalizerAt(t.Context(), v, 0, "f")
		if fmt.Sprintf("%T", err) != fmt.Sprintf("%T", row.want) {
			t.Errorf("%s: %T %v, want %T", row.name, err, err, row.want)
		}
		if n := network.posts.Load(); n != 1 {
			t.Errorf("%s: sent %d times", row.name, n)
		}
	}
}
