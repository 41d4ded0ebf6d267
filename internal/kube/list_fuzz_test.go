package kube

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/holdfast-project/holdfast/internal/identity"
)

// B7.4: a page that is read as it arrives is a whole one or an error: one that is
// cut off anywhere is refused, and of one that is not every item was taken.
func FuzzStreamedList(f *testing.F) {
	f.Add([]byte(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"continue":"next"},"items":[{"a":1},{"b":[2]}]}`), 60)
	f.Add([]byte(`{"items":[{"a":1}],"more":{"x":[1]},"kind":"ConfigMapList","apiVersion":"v1"} `), 20)
	f.Add([]byte(`{"kind":"ConfigMapList","items":null}`), 35)
	f.Add([]byte(`{"kind":"ConfigMapList","items":[null]}{}`), 38)
	f.Add([]byte(`{"items":{}}`), 5)
	f.Add([]byte(`<html>`), 0)
	f.Fuzz(func(t *testing.T, body []byte, cut int) {
		var taken []json.RawMessage
		take := func(item []byte) error { taken = append(taken, bytes.Clone(item)); return nil }
		head, err := readList(bytes.NewReader(body), take)
		if err != nil {
			return
		}
		var whole map[string]json.RawMessage
		if err := json.Unmarshal(body, &whole); err != nil {
			t.Fatalf("taken for a list: %v", err)
		}
		var items []json.RawMessage
		if err := json.Unmarshal(whole["items"], &items); whole["items"] != nil && err != nil {
			t.Fatalf("its items: %v", err)
		}
		// Of a member that stands there twice the decoder keeps the last.
		if len(taken) < len(items) || !slices.EqualFunc(taken[len(taken)-len(items):], items, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
			t.Fatalf("took %s of %s", taken, items)
		}
		if kind := whole["kind"]; kind == nil && head.Kind != "" {
			t.Fatalf("the kind is %q out of nothing", head.Kind)
		}
		if end := len(bytes.TrimSpace(body)); cut >= 0 && cut < end {
			if _, err := readList(bytes.NewReader(bytes.TrimSpace(body)[:cut]), take); err == nil {
				t.Fatalf("cut off, and taken for a list: %s", body[:cut])
			}
		}
	})
}

// A6.3, B4.3, B7.4: a list of metadata is all that the API server's own answer holds,
// or it is an error; it is never a page of more. A list that decides on a deletion
// names each object exactly, and is never empty out of something else: client-go's
// own, which [Objects.ListMetadata] uses, takes a kind that it does not know.
func FuzzMetadataList(f *testing.F) {
	const pod = `{"metadata":{"name":"p","namespace":"ns","uid":"` + testUID + `"}}`
	const head = `"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1"`
	for _, body := range []string{
		`{` + head + `,"metadata":{},"items":[` + pod + `]}`,
		`{` + head + `,"metadata":{"continue":"next"},"items":[` + pod + `]}`,
		`{` + head + `,"items":null}`, `{` + head + `,"items":[{}]}`, `{` + head + `,"items":{}}`, `{` + head + `,"items":[` + pod,
		`{"kind":"PodList","apiVersion":"v1","items":[]}`, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1"}`,
		`{"kind":"Status","apiVersion":"v1","status":"Failure","code":200}`, `{}`, `[]`, `<html>`, ``,
	} {
		f.Add(200, []byte(body), true)
		f.Add(200, []byte(body), false)
		f.Add(500, []byte(body), true)
	}
	network := &answers{}
	c, o := fuzzed(f, network)
	f.Fuzz(func(t *testing.T, code int, body []byte, ours bool) {
		network.say(code, body, ours)
		metas, err := c.Pods(t.Context(), "ns")
		if err == nil {
			judgeList(t, code, body, ours, len(metas))
			if head := headOf(body); head.Kind != "PartialObjectMetadataList" || head.APIVersion != "meta.k8s.io/v1" {
				t.Errorf("a list out of %q", body)
			}
		}
		for _, meta := range metas {
			if meta.Object.Name == "" || meta.Object.Namespace != "ns" || !identity.ValidUID(meta.Object.UID) {
				t.Errorf("lists %s", meta.Object)
			}
		}
		items, err := o.ListMetadata(t.Context(), Pods(), Selection{Namespace: "ns"})
		switch {
		case err == nil:
			judgeList(t, code, body, ours, len(items))
		case !is[*Refused](err) && !is[*Unreadable](err) && !is[*Gone](err):
			t.Errorf("%T: %v", err, err)
		case !ours && !is[*Unreadable](err):
			t.Errorf("a foreign answer proves something: %v", err)
		}
	})
}

// judgeList reads as the API does, which knows a field by its exact spelling only.
func judgeList(t *testing.T, code int, body []byte, ours bool, items int) {
	t.Helper()
	var list metav1.PartialObjectMetadataList
	if err := utiljson.Unmarshal(body, &list); err != nil || !ours || code < 200 || code > 206 || list.Continue != "" || len(list.Items) != items {
		t.Errorf("%d %q (ours: %v) is a list of %d", code, body, ours, items)
	}
}

func headOf(body []byte) (head metav1.TypeMeta) {
	_ = utiljson.Unmarshal(body, &head)
	return head
}

// fuzzed are clients whose network says what it is told to.
func fuzzed(f *testing.F, network *answers) (*Client, *Objects) {
	f.Helper()
	config := &rest.Config{Host: "http://cluster.invalid", Transport: network, RateLimiter: flowcontrol.NewFakeAlwaysRateLimiter()}
	c, err := newForConfig(config, Options{})
	if err != nil {
		f.Fatal(err)
	}
	o, err := NewObjects(config, "test")
	if err != nil {
		f.Fatal(err)
	}
	return c, o
}

func (a *answers) say(code int, body []byte, ours bool) {
	a.code, a.body, a.header = code, string(body), http.Header{"Content-Type": {"application/json"}}
	if ours {
		a.header.Set(auditHeader, "echo")
	}
	a.posts.Store(0)
}
