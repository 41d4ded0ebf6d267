package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// A6.2a, B3.2, B4.3: whatever is answered to a delete and to an apply, each is sent
// once, and each certainty has its conditions.
func FuzzAnswerToAWrite(f *testing.F) {
	const status = `{"kind":"Status","apiVersion":"v1","status":%q,"reason":%q,"details":%s,"code":%d}`
	details := map[string]string{
		"named": `{"name":"c","kind":"configmaps"}`, "another": `{"name":"d","kind":"configmaps"}`, "none": `{}`,
		"uid":   `{"name":"c","causes":[{"reason":"FieldValueInvalid","field":"metadata.uid"}]}`,
		"field": `{"name":"c","causes":[{"reason":"FieldManagerConflict","field":".spec.suspend"}]}`,
	}
	for _, row := range []struct {
		code   int
		reason string
	}{{200, ""}, {202, ""}, {403, "Forbidden"}, {404, "NotFound"}, {409, "Conflict"}, {422, "Invalid"}, {429, "TooManyRequests"}, {500, "InternalError"}} {
		for _, about := range details {
			f.Add(row.code, fmt.Appendf(nil, status, "Failure", row.reason, about, row.code), true)
		}
		f.Add(row.code, fmt.Appendf(nil, status, "Success", "", "{}", row.code), true)
		f.Add(row.code, fmt.Appendf(nil, status, "Failure", "NotFound", details["named"], 404), true)
		f.Add(row.code, fmt.Appendf(nil, status, "Failure", row.reason, details["named"], row.code), false)
		f.Add(row.code, []byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"c","namespace":"ns","uid":"`+testUID+`"}}`), true)
		f.Add(row.code, []byte(`<html>`), true)
	}
	network := &answers{}
	_, o := fuzzed(f, network)
	v := Version{Resource: Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap"}, Object: configMapAt("ns", "c"), ResourceVersion: "1"}
	v.Object.UID = testUID
	f.Fuzz(func(t *testing.T, code int, body []byte, ours bool) {
		network.say(code, body, ours)
		judgeWrite(t, network, code, ours, o.DeleteExactly(t.Context(), v))
		network.say(code, body, ours)
		object, err := o.Apply(t.Context(), v, Fields{Finalizers: []string{"f"}}, false)
		judgeWrite(t, network, code, ours, err)
		if (err == nil) != (object != nil) || err == nil && string(object.GetUID()) != testUID {
			t.Errorf("%d %q: applied %v, %v", code, body, object, err)
		}
	})
}

// judgeWrite takes the code from the Status, as client-go does: the API server
// writes both from one value.
func judgeWrite(t *testing.T, network *answers, code int, ours bool, err error) {
	t.Helper()
	if n := network.posts.Load(); n != 1 {
		t.Errorf("sent %d times", n)
	}
	accepted, said := code >= 200 && code <= 206, []int{code}
	var status metav1.Status
	if json.Unmarshal([]byte(network.body), &status) == nil && status.Status == metav1.StatusFailure {
		said = append(said, int(status.Code))
	}
	proven := func(codes ...int) bool {
		return ours && !accepted && slices.ContainsFunc(said, func(one int) bool { return slices.Contains(codes, one) })
	}
	holds := false
	var unknown *UnknownOutcome
	var conflict *Conflict
	var gone *Gone
	var refused *Refused
	switch {
	case err == nil:
		holds = ours && accepted
	case errors.As(err, &unknown):
		holds = true
	case errors.As(err, &conflict):
		holds = proven(409)
	case errors.As(err, &gone):
		holds = proven(404, 422)
	case errors.As(err, &refused):
		holds = proven(400, 401, 403, 405, 406, 413, 415, 422, 429)
	}
	if !holds {
		t.Errorf("%d %q (ours: %v) is %T: %v", code, network.body, ours, err, err)
	}
}

// A1.6: a right is there only where the API server itself says so, in an access
// review; no other answer grants or denies one.
func FuzzAccessReview(f *testing.F) {
	const review = `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":%v}}`
	for _, code := range []int{200, 201, 202, 403, 404, 429, 500} {
		f.Add(code, fmt.Appendf(nil, review, true), true)
		f.Add(code, fmt.Appendf(nil, review, false), true)
		f.Add(code, fmt.Appendf(nil, review, true), false)
		f.Add(code, fmt.Appendf(nil, review, `"true"`), true)
		f.Add(code, fmt.Appendf(nil, review, true)[:90], true)
		f.Add(code, []byte(`{"kind":"SelfSubjectRulesReview","status":{"allowed":true}}`), true)
		f.Add(code, []byte(failure(code, "Forbidden", `{}`)), true)
		f.Add(code, []byte(`{}`), true)
	}
	network := &answers{}
	c, _ := fuzzed(f, network)
	f.Fuzz(func(t *testing.T, code int, body []byte, ours bool) {
		network.say(code, body, ours)
		denied, err := c.May(t.Context(), []Permission{{Verb: "create", Group: "batch", Resource: "jobs", Namespace: "ns"}})
		if n := network.posts.Load(); n != 1 {
			t.Errorf("sent %d times", n)
		}
		if err != nil {
			if denied != nil {
				t.Errorf("%d %q denies %v, with %v", code, body, denied, err)
			}
			return
		}
		var answered struct {
			Kind   string `json:"kind"`
			Status struct {
				Allowed bool `json:"allowed"`
			} `json:"status"`
		}
		if failed := utiljson.Unmarshal(body, &answered); failed != nil || !ours || code < 200 || code > 202 ||
			answered.Kind != "SelfSubjectAccessReview" || answered.Status.Allowed == (len(denied) > 0) {
			t.Errorf("%d %q (ours: %v) denies %v", code, body, ours, denied)
		}
	})
}
