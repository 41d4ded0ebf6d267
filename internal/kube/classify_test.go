package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/holdfast-project/holdfast/internal/identity"
)

const (
	testUID   = "0b4a1c1e-6f0e-4f0c-9b0a-3d9f3f1f2a11"
	otherUID  = "5d1f3b2c-1111-4222-8333-444455556666"
	testNonce = "00112233445566778899aabbccddeeff"
)

func testJob() identity.Object {
	return identity.Object{APIVersion: "batch/v1", Kind: "Job", Namespace: "ns", Name: "rel-preflight-api-00112233"}
}

// answers is a transport that gives one fixed answer and counts the complete
// requests that it is sent.
type answers struct {
	code   int
	header http.Header
	body   string
	posts  atomic.Int64
}

func (a *answers) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Body != nil {
		if _, err := io.Copy(io.Discard, request.Body); err != nil {
			return nil, err
		}
	}
	a.posts.Add(1)
	header := a.header.Clone()
	for i, v := range header.Values(auditHeader) {
		if v == "echo" {
			header.Values(auditHeader)[i] = request.Header.Get(auditHeader)
		}
	}
	return &http.Response{
		StatusCode: a.code, Header: header, Body: io.NopCloser(strings.NewReader(a.body)), Request: request,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}, nil
}

// over returns a client whose network is the given transport.
func over(t *testing.T, network http.RoundTripper) *Client {
	t.Helper()
	c, err := newForConfig(&rest.Config{Host: "http://cluster.invalid", Transport: network, RateLimiter: flowcontrol.NewFakeAlwaysRateLimiter()}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// bodies are the kinds of body that an answer can have, for one status code.
func bodies(code int) map[string]string {
	const object = `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"%s","namespace":"%s","uid":"%s","creationTimestamp":"2026-01-02T03:04:05Z","annotations":{"%s":"%s"}}}`
	const status = `{"kind":"Status","apiVersion":"v1","status":"%s","message":"m","reason":"%s","details":%s,"code":%d}`
	name := testJob().Name
	stored := func(name, namespace, uid, annotation, nonce string) string {
		return fmt.Sprintf(object, name, namespace, uid, annotation, nonce)
	}
	good := stored(name, "ns", testUID, identity.NonceAnnotation, testNonce)
	return map[string]string{
		"status":             fmt.Sprintf(status, "Failure", "Reason", `{"name":"`+name+`","group":"batch","kind":"jobs"}`, code),
		"status namespace":   fmt.Sprintf(status, "Failure", "NotFound", `{"name":"ns","kind":"namespaces"}`, code),
		"status other space": fmt.Sprintf(status, "Failure", "NotFound", `{"name":"other","kind":"namespaces"}`, code),
		"status other code":  fmt.Sprintf(status, "Failure", "NotFound", `{"name":"ns","kind":"namespaces"}`, code+1),
		"status success":     fmt.Sprintf(status, "Success", "", `{"name":"ns","kind":"namespaces"}`, code),
		"html":               "<html><body>gateway</body></html>",
		"empty":              "",
		"empty object":       "{}",
		"object":             good,
		"truncated object":   good[:len(good)-5],
		"other nonce":        stored(name, "ns", testUID, identity.NonceAnnotation, "ffffffffffffffffffffffffffffffff"),
		"no nonce":           stored(name, "ns", testUID, "other.example/annotation", testNonce),
		"no uuid":            stored(name, "ns", "not-a-uuid", identity.NonceAnnotation, testNonce),
		"no uid":             stored(name, "ns", "", identity.NonceAnnotation, testNonce),
		"other name":         stored("another", "ns", testUID, identity.NonceAnnotation, testNonce),
		"other namespace":    stored(name, "another", testUID, identity.NonceAnnotation, testNonce),
		"other kind":         strings.Replace(good, "PartialObjectMetadata", "PartialObjectMetadataList", 1),
		"folded keys":        strings.Replace(good, `"uid"`, `"UID"`, 1),
	}
}

// codes are the status codes from the first to the last, and under -short those
// that a rule names, with one to each side.
func codes(first, last int) (all []int) {
	for code := first; code <= last; code++ {
		told := code == first || code == last || code >= 199 && code <= 205 || code >= 399 && code <= 430 || code >= 499 && code <= 505
		if told || !testing.Short() {
			all = append(all, code)
		}
	}
	return all
}

func audits() map[string][]string {
	return map[string][]string{"ours": {"echo"}, "none": nil, "other": {otherUID}, "two": {"echo", otherUID}}
}

// expected is A3.7 and A3.5 written down a second time, from the text.
func expected(code int, body, audit string) Outcome {
	if audit != "ours" {
		return Unknown
	}
	switch code {
	case 201:
		if body == "object" {
			return Acknowledged
		}
	case 400, 401, 403, 405, 406, 413, 415, 422:
		switch body {
		case "status", "status namespace", "status other space":
			return Rejected
		}
	case 404:
		if body == "status namespace" {
			return Rejected
		}
	case 429:
		return Rejected
	}
	return Unknown
}

// A3.7, A3.5: every status code, with every kind of body, Audit-ID and
// Retry-After, through client-go: the outcome, and one request each.
func TestA3_7_EveryAnswer(t *testing.T) {
	counts := map[Outcome]int{}
	cells := 0
	network := &answers{}
	client := over(t, network)
	every := codes(100, 599)
	for _, code := range every {
		for bodyName, body := range bodies(code) {
			for auditName, audit := range audits() {
				for _, retryAfter := range []string{"", "0"} {
					header := http.Header{"Content-Type": {"application/json"}}
					for _, id := range audit {
						header.Add(auditHeader, id)
					}
					if retryAfter != "" {
						header.Set("Retry-After", retryAfter)
					}
					network.code, network.header, network.body = code, header, body
					network.posts.Store(0)
					created := client.Create(t.Context(), CreateRequest{Place: testJob(), Body: []byte("{}"), AuditID: NewAuditID(), Nonce: testNonce})
					cells++
					counts[created.Outcome]++
					cell := fmt.Sprintf("%d, %s, Audit-ID %s, Retry-After %q", code, bodyName, auditName, retryAfter)
					if want := expected(code, bodyName, auditName); created.Outcome != want {
						t.Errorf("%s: %v, want %v (%v)", cell, created.Outcome, want, created.Err)
					}
					if n := network.posts.Load(); n != 1 {
						t.Errorf("%s: %d requests", cell, n)
					}
					checkCreated(t, cell, created, code)
				}
			}
		}
	}
	want := map[Outcome]int{
		Acknowledged: 2,                // one body, with and without Retry-After
		Rejected:     2*(8*3+1) + 2*18, // eight codes with a Status, 404 of the namespace, 429 with any body
		Unknown:      len(every)*18*4*2 - 2 - 86,
	}
	if cells != len(every)*18*4*2 || counts[Acknowledged] != want[Acknowledged] || counts[Rejected] != want[Rejected] || counts[Unknown] != want[Unknown] {
		t.Errorf("%d cells: %v, want %v", cells, counts, want)
	}
	t.Logf("%d cells: %v", cells, counts)
}

func checkCreated(t *testing.T, cell string, created Created, code int) {
	t.Helper()
	if created.Code != code {
		t.Errorf("%s: code %d", cell, created.Code)
	}
	var typed bool
	switch created.Err.(type) { //nolint:errorlint // callers are promised the type itself, not a wrapped one
	case nil:
		typed = created.Outcome == Acknowledged && created.Meta.Object.UID == testUID && created.Meta.CreationTimestamp == "2026-01-02T03:04:05Z"
	case *Refused:
		typed = created.Outcome == Rejected
	case *UnknownOutcome:
		typed = created.Outcome == Unknown
	}
	if !typed {
		t.Errorf("%s: %v comes with %T and %+v", cell, created.Outcome, created.Err, created.Meta.Object)
	}
}

// A3.7: two requests on the wire leave the outcome unknown, whatever the last
// one was answered: the first may have created the object.
func TestA3_7_TwoRequestsAreUnknown(t *testing.T) {
	for _, code := range []int{201, 403, 429} {
		for _, body := range bodies(code) {
			got := answer{call: call{verb: "create", object: testJob(), auditID: "id"}, attempts: 2, connected: true, code: code, auditIDs: []string{"id"}, body: []byte(body)}
			if created := classify(CreateRequest{Place: testJob(), Nonce: testNonce}, got); created.Outcome != Unknown {
				t.Errorf("%d %.40s: %v", code, body, created.Outcome)
			}
		}
	}
}

// A3.7: only a request without a connection is not sent; one with a connection
// and without an answer is unknown.
func TestA3_7_NotSent(t *testing.T) {
	for _, row := range []struct {
		attempts  int
		connected bool
		want      Outcome
	}{{0, false, Unsent}, {1, false, Unsent}, {1, true, Unknown}, {2, true, Unknown}} {
		got := answer{call: call{verb: "create", object: testJob()}, attempts: row.attempts, connected: row.connected, err: io.ErrUnexpectedEOF}
		if created := classify(CreateRequest{Place: testJob(), Nonce: testNonce}, got); created.Outcome != row.want {
			t.Errorf("%+v: %v", row, created.Outcome)
		}
	}
}

// A4.1: a context that is done sends nothing; a request that could not be
// recognised again is not sent either.
func TestA4_1_NothingIsSent(t *testing.T) {
	network := &answers{code: 201, header: http.Header{}}
	c := over(t, network)
	done, cancel := context.WithCancel(t.Context())
	cancel()
	complete := CreateRequest{Place: testJob(), Body: []byte("{}"), AuditID: NewAuditID(), Nonce: testNonce}
	if created := c.Create(done, complete); created.Outcome != Unsent {
		t.Errorf("after the context ended: %v", created.Outcome)
	}
	for name, spoil := range map[string]func(*CreateRequest){
		"no audit id": func(r *CreateRequest) { r.AuditID = "" },
		"no nonce":    func(r *CreateRequest) { r.Nonce = "" },
		"no name":     func(r *CreateRequest) { r.Place.Name = "" },
		"a uid":       func(r *CreateRequest) { r.Place.UID = testUID },
		"no body":     func(r *CreateRequest) { r.Body = nil },
		"other kind":  func(r *CreateRequest) { r.Place.Kind = "Node" },
	} {
		request := complete
		spoil(&request)
		if created := c.Create(t.Context(), request); created.Outcome != Unsent {
			t.Errorf("%s: %v", name, created.Outcome)
		}
	}
	if n := network.posts.Load(); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

// A6.2a: of all answers to a GET, only a NotFound of exactly this object with
// our Audit-ID is an absence, and only a whole object with a UID is presence.
func TestA6_2a_AbsenceAndPresence(t *testing.T) {
	notFound := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","details":{"name":"` + testJob().Name + `","group":"batch","kind":"jobs"},"code":404}`
	counts := map[Presence]int{}
	network := &answers{}
	client := over(t, network)
	every := codes(200, 599)
	for _, code := range every {
		all := bodies(code)
		all["not found"] = notFound
		all["not found, other name"] = strings.Replace(notFound, testJob().Name, "another", 1)
		all["not found, other group"] = strings.Replace(notFound, `"batch"`, `"extensions"`, 1)
		all["not found, other kind"] = strings.Replace(notFound, `"jobs"`, `"cronjobs"`, 1)
		all["not found, no details"] = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
		all["not found, other reason"] = strings.Replace(notFound, `"NotFound"`, `"Gone"`, 1)
		for bodyName, body := range all {
			for auditName, audit := range audits() {
				header := http.Header{}
				for _, id := range audit {
					header.Add(auditHeader, id)
				}
				network.code, network.header, network.body = code, header, body
				seen := client.Observe(t.Context(), testJob())
				want := NotRead
				switch {
				case auditName != "ours":
				case code == 404 && bodyName == "not found":
					want = Absent
				case code == 200 && strings.Contains(" object other nonce no nonce ", " "+bodyName+" "):
					want = Present
				}
				counts[seen.Presence]++
				if seen.Presence != want || (seen.Err == nil) != (want == Present) {
					t.Errorf("%d, %s, Audit-ID %s: %v (%v)", code, bodyName, auditName, seen.Presence, seen.Err)
				}
			}
		}
	}
	if counts[Absent] != 1 || counts[Present] != 3 || counts[NotRead] != len(every)*24*4-4 {
		t.Errorf("counts: %v", counts)
	}
}

// An empty object, a gateway's page or a list of another kind is not an empty
// list: it must not read as "no Pods" (A6.3).
func TestA6_3_OnlyAListIsAList(t *testing.T) {
	item := `{"metadata":{"name":"p","namespace":"ns","uid":"` + testUID + `"}}`
	whole := `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{},"items":[` + item + `]}`
	for name, row := range map[string]struct {
		body string
		ok   bool
	}{
		"list":            {whole, true},
		"empty list":      {strings.Replace(whole, item, "", 1), true},
		"empty object":    {"{}", false},
		"nothing":         {"", false},
		"html":            {"<html>", false},
		"pod list":        {`{"kind":"PodList","apiVersion":"v1","items":[]}`, false},
		"cut":             {whole[:len(whole)-2], false},
		"other namespace": {strings.Replace(whole, `"ns"`, `"other"`, 1), false},
		"no uid":          {strings.Replace(whole, testUID, "", 1), false},
	} {
		pods, err := over(t, &answers{code: 200, header: http.Header{"Audit-Id": {"echo"}}, body: row.body}).Pods(t.Context(), "ns")
		if (err == nil) != row.ok {
			t.Errorf("%s: %v, %v", name, pods, err)
		}
		if _, err := over(t, &answers{code: 200, header: http.Header{}, body: row.body}).Pods(t.Context(), "ns"); err == nil {
			t.Errorf("%s without our Audit-ID is believed", name)
		}
	}
}

// A list whose pages do not end is an error when a page refers to itself, and at the
// latest with the caller's context.
func TestA4_2_ListWithoutAnEnd(t *testing.T) {
	page := `{"kind":"PodList","apiVersion":"v1","metadata":{"continue":"%s"},"items":[]}`
	var pages atomic.Int64
	always := func(next func() string) roundTripper {
		return func(r *http.Request) (*http.Response, error) {
			pages.Add(1)
			header := http.Header{}
			header.Set(auditHeader, r.Header.Get(auditHeader))
			return &http.Response{StatusCode: 200, Header: header, Body: io.NopCloser(strings.NewReader(fmt.Sprintf(page, next())))}, nil
		}
	}
	job := testJob()
	job.UID = testUID
	_, err := over(t, always(func() string { return "same" })).PodsOf(t.Context(), job)
	if err == nil || !strings.Contains(err.Error(), "refers to itself") || pages.Load() != 2 {
		t.Errorf("%d pages, %v", pages.Load(), err)
	}
	pages.Store(0)
	objects, err := NewObjects(&rest.Config{Host: "http://cluster.invalid", Transport: always(func() string { return "same" })}, "test")
	if err != nil {
		t.Fatal(err)
	}
	err = objects.List(t.Context(), Resource{Version: "v1", Plural: "pods", Kind: "Pod"}, Selection{Namespace: "ns"}, func([]byte) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "refers to itself") || pages.Load() != 2 {
		t.Errorf("%d pages, %v", pages.Load(), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = over(t, always(func() string {
		if pages.Load() == 50 {
			cancel()
		}
		return fmt.Sprint(pages.Load())
	})).PodsOf(ctx, job)
	if err == nil || pages.Load() > 51 {
		t.Errorf("%d pages, %v", pages.Load(), err)
	}
}

// What a delete or a patch was answered, by type (A6.5).
func TestA6_5_Settle(t *testing.T) {
	job := testJob()
	job.UID = testUID
	status := func(code int, reason, details string) string {
		return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"details":%s,"code":%d}`, reason, details, code)
	}
	mine := `{"name":"` + job.Name + `","group":"batch","kind":"jobs"}`
	for _, row := range []struct {
		name, body, audit string
		code              int
		want              any
	}{
		{"accepted", "{}", "echo", 200, nil},
		{"accepted 202", "{}", "echo", 202, nil},
		{"accepted by a stranger", "{}", "", 200, &UnknownOutcome{}},
		{"conflict", status(409, "Conflict", mine), "echo", 409, &Conflict{}},
		{"conflict in html", "<html>", "echo", 409, &UnknownOutcome{}},
		{"gone", status(404, "NotFound", mine), "echo", 404, &Gone{}},
		{"gone, somebody else", status(404, "NotFound", `{"name":"x","group":"batch","kind":"jobs"}`), "echo", 404, &UnknownOutcome{}},
		{"forbidden", status(403, "Forbidden", mine), "echo", 403, &Refused{}},
		{"throttled", "later", "echo", 429, &Refused{}},
		{"failed", status(500, "InternalError", mine), "echo", 500, &UnknownOutcome{}},
		{"timeout", status(504, "Timeout", mine), "echo", 504, &UnknownOutcome{}},
	} {
		header := http.Header{}
		if row.audit != "" {
			header.Set(auditHeader, row.audit)
		}
		network := &answers{code: row.code, header: header, body: row.body}
		err := over(t, network).Delete(t.Context(), job, Foreground)
		if fmt.Sprintf("%T", err) != fmt.Sprintf("%T", row.want) {
			t.Errorf("%s: %T %v, want %T", row.name, err, err, row.want)
		}
		if network.posts.Load() != 1 {
			t.Errorf("%s: %d requests", row.name, network.posts.Load())
		}
	}
}

// A4.2a, A6.3: a delete without a name, a UID or a propagation policy is never
// sent.
func TestDeleteNeedsAnExactIdentity(t *testing.T) {
	network := &answers{code: 200, header: http.Header{}}
	c := over(t, network)
	whole := testJob()
	whole.UID = testUID
	for name, spoil := range map[string]func(*identity.Object){
		"no uid":       func(o *identity.Object) { o.UID = "" },
		"no name":      func(o *identity.Object) { o.Name = "" },
		"no uuid":      func(o *identity.Object) { o.UID = "1" },
		"unknown kind": func(o *identity.Object) { o.Kind = "Node" },
		"path in name": func(o *identity.Object) { o.Name = "../secrets/x" },
	} {
		object := whole
		spoil(&object)
		if err := c.Delete(t.Context(), object, Foreground); err == nil {
			t.Errorf("deleting with %s is accepted", name)
		}
		if err := c.Unsuspend(t.Context(), object); err == nil {
			t.Errorf("releasing with %s is accepted", name)
		}
	}
	if err := c.Delete(t.Context(), whole, ""); err == nil {
		t.Error("deleting without a propagation policy is accepted")
	}
	if network.posts.Load() != 0 {
		t.Errorf("%d requests were sent", network.posts.Load())
	}
}

// The body of a DELETE carries the UID and the policy (A6.3, A6.7).
func TestA6_3_DeleteBody(t *testing.T) {
	var sent bytes.Buffer
	job := testJob()
	job.UID = testUID
	c := over(t, roundTripper(func(r *http.Request) (*http.Response, error) {
		fmt.Fprintf(&sent, "%s %s ", r.Method, r.URL.Path)
		_, err := io.Copy(&sent, r.Body)
		return nil, errors.Join(err, errors.New("cut"))
	}))
	_ = c.Delete(t.Context(), job, Orphan)
	want := `DELETE /apis/batch/v1/namespaces/ns/jobs/` + job.Name + ` {"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"` + testUID + `"},"propagationPolicy":"Orphan"}`
	if sent.String() != want {
		t.Errorf("sent %s", sent.String())
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (roundTripper) CloseIdleConnections() {}

// CloseIdleConnections is what a real transport offers too.
func (*answers) CloseIdleConnections() {}
