package kube

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// B7.4: a list is all of its pages or an error; what is cut off, or is something
// else than the list that was asked for, is never taken for an empty one.
func TestB7_4_AListIsCompleteOrAnError(t *testing.T) {
	const head = `"kind":"ConfigMapList","apiVersion":"v1","metadata":{"continue":"%s"}`
	page := func(token, items string) string { return fmt.Sprintf(`{`+head+`,"items":%s}`, token, items) }
	for name, row := range map[string]struct {
		pages []string
		want  string
		ok    bool
	}{
		"one page":           {[]string{page("", `[{"a":1},{"b":2}]`)}, `{"a":1}{"b":2}`, true},
		"two pages":          {[]string{page("next", `[{"a":1}]`), page("", `[{"b":2}]`)}, `{"a":1}{"b":2}`, true},
		"none":               {[]string{page("", `[]`)}, "", true},
		"items first":        {[]string{`{"items":[{"a":1}],"more":{"x":[1]},` + fmt.Sprintf(head, "") + `}`}, `{"a":1}`, true},
		"cut off":            {[]string{page("", `[{"a":1}`)[:len(page("", `[{"a":1}`))-1]}, "", false},
		"cut in an item":     {[]string{`{` + fmt.Sprintf(head, "") + `,"items":[{"a":`}, "", false},
		"cut after items":    {[]string{`{` + fmt.Sprintf(head, "") + `,"items":[]`}, "", false},
		"second page cut":    {[]string{page("next", `[{"a":1}]`), `{"kind":`}, "", false},
		"another kind":       {[]string{strings.Replace(page("", `[]`), "ConfigMapList", "SecretList", 1)}, "", false},
		"another version":    {[]string{strings.Replace(page("", `[]`), `"v1"`, `"v2"`, 1)}, "", false},
		"an empty object":    {[]string{`{}`}, "", false},
		"items of null":      {[]string{page("", `null`)}, "", true},
		"items of another":   {[]string{page("", `{}`)}, "", false},
		"no object":          {[]string{`[]`}, "", false},
		"something follows":  {[]string{page("", `[]`) + `{}`}, "", false},
		"a gateway's page":   {[]string{`<html>`}, "", false},
		"an item is refused": {[]string{page("", `[{"refuse":1}]`)}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			served := roundTripper(func(r *http.Request) (*http.Response, error) {
				answer := row.pages[asked]
				if asked++; r.URL.Path != "/api/v1/namespaces/ns/configmaps" || r.URL.Query().Get("limit") != "500" ||
					r.URL.Query().Get("labelSelector") != "l=1" || r.URL.Query().Get("fieldSelector") != "f=1" || asked == 2 != (r.URL.Query().Get("continue") == "next") {
					t.Errorf("asked for %s", r.URL)
				}
				return &http.Response{StatusCode: 200, Header: http.Header{http.CanonicalHeaderKey(auditHeader): {r.Header.Get(auditHeader)}}, Body: io.NopCloser(strings.NewReader(answer))}, nil
			})
			o, err := NewObjects(&rest.Config{Host: "http://cluster.invalid", Transport: served, RateLimiter: flowcontrol.NewFakeAlwaysRateLimiter()}, "test")
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			err = o.List(t.Context(), Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap"}, Selection{Namespace: "ns", Labels: "l=1", Fields: "f=1"}, func(object []byte) error {
				if strings.Contains(string(object), "refuse") {
					return errors.New("refused")
				}
				got += string(object)
				return nil
			})
			if (err == nil) != row.ok || !row.ok && !is[*Unreadable](err) || row.ok && got != row.want {
				t.Errorf("took %s, %v", got, err)
			}
		})
	}
}

// B7.4: a list of metadata is asked for whole, and one page of it is none.
func TestB7_4_OnePageIsNoWholeList(t *testing.T) {
	network := &answers{code: 200, header: http.Header{"Content-Type": {"application/json"}, http.CanonicalHeaderKey(auditHeader): {"echo"}}}
	o, err := NewObjects(&rest.Config{Host: "http://cluster.invalid", Transport: network, RateLimiter: flowcontrol.NewFakeAlwaysRateLimiter()}, "test")
	if err != nil {
		t.Fatal(err)
	}
	for token, whole := range map[string]bool{"": true, "next": false} {
		network.body = `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"continue":"` + token + `"},"items":[{"metadata":{"name":"p"}}]}`
		items, err := o.ListMetadata(t.Context(), Pods(), Selection{Namespace: "ns"})
		if (err == nil) != whole || !whole && (!is[*Unreadable](err) || items != nil) || whole && len(items) != 1 {
			t.Errorf("continue %q: %v, %v", token, items, err)
		}
	}
}
