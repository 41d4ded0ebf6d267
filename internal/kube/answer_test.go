package kube

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/internal/identity"
)

// given is a complete answer to a call about the test's Job, in need of being
// spoilt.
func given(verb string, code int, body string, edits ...func(*answer)) answer {
	got := answer{
		call:     call{verb: verb, object: testJob(), name: testJob().Name, auditID: "ours", contentType: jsonBody},
		attempts: 1, connected: true, code: code, auditIDs: []string{"ours"}, body: []byte(body),
	}
	for _, edit := range edits {
		edit(&got)
	}
	return got
}

func failure(code int, reason, details string) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"m","reason":%q,"details":%s,"code":%d}`, reason, details, code)
}

const (
	ofJob       = `{"name":"rel-preflight-api-00112233","group":"batch","kind":"jobs"}`
	ofNamespace = `{"name":"ns","kind":"namespaces"}`
)

var errCut = errors.New("the connection was cut")

func cutOff(a *answer)        { a.err = errCut }
func notConnected(a *answer)  { a.connected, a.err = false, errCut }
func unanswered(a *answer)    { a.code, a.auditIDs, a.err = 0, nil, errCut }
func repeated(a *answer)      { a.attempts = 2 }
func foreignAudit(a *answer)  { a.auditIDs = []string{"other"} }
func noAudit(a *answer)       { a.auditIDs = nil }
func twoAudits(a *answer)     { a.auditIDs = []string{"ours", "ours"} }
func patched(a *answer)       { a.call.contentType = jsonPatch }
func nameless(a *answer)      { a.call.name = "" }
func unknownObject(a *answer) { a.call.object.Kind = "Node" }

// said is what a verdict says of the answer: everything, if its Status counts.
func said(a answer, reason string, details *metav1.StatusDetails) Answer {
	about := Answer{Verb: a.call.verb, Object: a.call.object, Code: a.code, Reason: reason, Details: details}
	if reason != "" {
		about.Message = "m"
	}
	return about
}

func jobDetails() *metav1.StatusDetails {
	return &metav1.StatusDetails{Name: testJob().Name, Group: "batch", Kind: "jobs"}
}

func namespaceDetails() *metav1.StatusDetails {
	return &metav1.StatusDetails{Name: "ns", Kind: "namespaces"}
}

// A6.5, A4.2b, A4.2c: what every kind of answer proves of a write that is not a
// create, or a create that was a dry run.
func TestA6_5_EveryAnswerToAWrite(t *testing.T) {
	forbidden, invalid := failure(403, "Forbidden", ofJob), failure(422, "Invalid", "{}")
	unknown := func(a answer, cause error) error { return &UnknownOutcome{said(a, "", nil), cause} }
	for name, row := range map[string]struct {
		got  answer
		want func(a answer) error
	}{
		"200":                      {given("delete", 200, "{}"), nil},
		"201":                      {given("create", 201, "{}"), nil},
		"202":                      {given("delete", 202, "{}"), nil},
		"200, cut":                 {given("delete", 200, "{}", cutOff), func(a answer) error { return unknown(a, errCut) }},
		"204":                      {given("delete", 204, ""), func(a answer) error { return unknown(a, errUnproven) }},
		"200, twice sent":          {given("delete", 200, "{}", repeated), func(a answer) error { return unknown(a, errRepeated) }},
		"200, another Audit-ID":    {given("delete", 200, "{}", foreignAudit), func(a answer) error { return unknown(a, errForeignAudit) }},
		"200, no Audit-ID":         {given("delete", 200, "{}", noAudit), func(a answer) error { return unknown(a, errForeignAudit) }},
		"200, two Audit-IDs":       {given("delete", 200, "{}", twoAudits), func(a answer) error { return unknown(a, errForeignAudit) }},
		"never connected":          {given("delete", 0, "", unanswered, notConnected), func(a answer) error { return &NotSent{said(a, "", nil), errCut} }},
		"no answer":                {given("delete", 0, "", unanswered), func(a answer) error { return unknown(a, errCut) }},
		"403 without a connection": {given("delete", 403, forbidden, func(a *answer) { a.connected = false }), func(a answer) error { return &Refused{said(a, "Forbidden", jobDetails())} }},
		"403":                      {given("delete", 403, forbidden), func(a answer) error { return &Refused{said(a, "Forbidden", jobDetails())} }},
		"403, cut":                 {given("delete", 403, forbidden, cutOff), func(a answer) error { return unknown(a, errUnproven) }},
		"403, a page":              {given("delete", 403, "<html>"), func(a answer) error { return unknown(a, errUnproven) }},
		"429, a page":              {given("delete", 429, "<html>"), func(a answer) error { return &Refused{said(a, "", nil)} }},
		"409":                      {given("delete", 409, failure(409, "Conflict", ofJob)), func(a answer) error { return &Conflict{said(a, "Conflict", jobDetails())} }},
		"404":                      {given("delete", 404, failure(404, "NotFound", ofJob)), func(a answer) error { return &Gone{said(a, "NotFound", jobDetails())} }},
		"404 of the namespace":     {given("delete", 404, failure(404, "NotFound", ofNamespace)), func(a answer) error { return &UnknownOutcome{said(a, "NotFound", namespaceDetails()), errUnproven} }},
		"a create's 404 of it":     {given("create", 404, failure(404, "NotFound", ofNamespace)), func(a answer) error { return &Refused{said(a, "NotFound", namespaceDetails())} }},
		"a create's 409":           {given("create", 409, failure(409, "AlreadyExists", ofJob)), func(a answer) error { return &Conflict{said(a, "AlreadyExists", jobDetails())} }},
		"500":                      {given("delete", 500, failure(500, "InternalError", ofJob)), func(a answer) error { return &UnknownOutcome{said(a, "InternalError", jobDetails()), errUnproven} }},
		"500 that says NotFound":   {given("delete", 500, failure(500, "NotFound", ofJob)), func(a answer) error { return &UnknownOutcome{said(a, "NotFound", jobDetails()), errUnproven} }},
		"422":                      {given("patch", 422, invalid), func(a answer) error { return &Refused{said(a, "Invalid", &metav1.StatusDetails{})} }},
		"422 of a JSON patch":      {given("patch", 422, invalid, patched), func(a answer) error { return &Conflict{said(a, "Invalid", &metav1.StatusDetails{})} }},
		"422 of its object":        {given("patch", 422, failure(422, "Invalid", ofJob), patched), func(a answer) error { return &Refused{said(a, "Invalid", jobDetails())} }},
	} {
		var want error
		if row.want != nil {
			want = row.want(row.got)
		}
		if err := writeVerdict(row.got); !reflect.DeepEqual(err, want) {
			t.Errorf("%s: got %T %+v, want %T %+v", name, err, err, want, want)
		}
	}
}

// A6.2a: what every kind of answer proves of a read.
func TestA6_2a_EveryAnswerToARead(t *testing.T) {
	notFound := failure(404, "NotFound", ofJob)
	neither := errors.New("this answer proves neither presence nor absence")
	unreadable := func(a answer, cause error) error { return &Unreadable{said(a, "", nil), cause} }
	unsaid := func(reason string, details *metav1.StatusDetails) func(answer) error {
		return func(a answer) error { return &Unreadable{said(a, reason, details), neither} }
	}
	other := failure(404, "NotFound", `{"name":"","group":"batch","kind":"jobs"}`)
	for name, row := range map[string]struct {
		got  answer
		want func(a answer) error
	}{
		"200":                    {given("get", 200, "{}"), nil},
		"200, repeated":          {given("get", 200, "{}", repeated), nil},
		"200, cut":               {given("get", 200, "{}", cutOff), func(a answer) error { return unreadable(a, errCut) }},
		"200, another Audit-ID":  {given("get", 200, "{}", foreignAudit), func(a answer) error { return unreadable(a, errForeignAudit) }},
		"200, no Audit-ID":       {given("get", 200, "{}", noAudit), func(a answer) error { return unreadable(a, errForeignAudit) }},
		"200, two Audit-IDs":     {given("get", 200, "{}", twoAudits), func(a answer) error { return unreadable(a, errForeignAudit) }},
		"never connected":        {given("get", 0, "", unanswered, notConnected), func(a answer) error { return &NotSent{said(a, "", nil), errCut} }},
		"no answer":              {given("get", 0, "", unanswered), func(a answer) error { return unreadable(a, errCut) }},
		"404":                    {given("get", 404, notFound), func(a answer) error { return &Gone{said(a, "NotFound", jobDetails())} }},
		"404, without a network": {given("get", 404, notFound, func(a *answer) { a.connected = false }), func(a answer) error { return &Gone{said(a, "NotFound", jobDetails())} }},
		"404, a page":            {given("get", 404, "<html>"), unsaid("", nil)},
		"404 of no name":         {given("get", 404, other, nameless), unsaid("NotFound", &metav1.StatusDetails{Group: "batch", Kind: "jobs"})},
		"404 of an unknown kind": {given("get", 404, notFound, unknownObject), unsaid("NotFound", jobDetails())},
		"500 that says NotFound": {given("get", 500, failure(500, "NotFound", ofJob)), unsaid("NotFound", jobDetails())},
		"403":                    {given("get", 403, failure(403, "Forbidden", ofJob)), func(a answer) error { return &Refused{said(a, "Forbidden", jobDetails())} }},
		"403, a page":            {given("get", 403, "<html>"), unsaid("", nil)},
		"500":                    {given("get", 500, failure(500, "InternalError", ofJob)), unsaid("InternalError", jobDetails())},
		"another kind":           {given("get", 403, `{"kind":"Stat","apiVersion":"v1","status":"Failure","code":403}`), unsaid("", nil)},
		"another version":        {given("get", 403, `{"kind":"Status","apiVersion":"v2","status":"Failure","code":403}`), unsaid("", nil)},
		"a success":              {given("get", 403, `{"kind":"Status","apiVersion":"v1","status":"Success","code":403}`), unsaid("", nil)},
		"another code":           {given("get", 403, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":404}`), unsaid("", nil)},
	} {
		var want error
		if row.want != nil {
			want = row.want(row.got)
		}
		if err := readVerdict(row.got); !reflect.DeepEqual(err, want) {
			t.Errorf("%s: got %T %+v, want %T %+v", name, err, err, want, want)
		}
	}
}

// A3.5, A3.7: what a create proves, with the whole of what is said of it.
func TestA3_5_EveryAnswerToACreate(t *testing.T) {
	object := fmt.Sprintf(`{"kind":"Job","apiVersion":"batch/v1","metadata":{"name":%q,"namespace":"ns","uid":%q,"annotations":{%q:%q}}}`,
		testJob().Name, testUID, identity.NonceAnnotation, testNonce)
	bare := fmt.Sprintf(`{"kind":"Job","apiVersion":"batch/v1","metadata":{"name":%q,"namespace":"ns","uid":%q}}`, testJob().Name, testUID)
	made := Meta{Object: testJob(), Nonce: testNonce}
	made.Object.UID = testUID
	with := func(kind, apiVersion string) string {
		return fmt.Sprintf(`{"kind":%q,"apiVersion":%q,"metadata":{"name":"x"}}`, kind, apiVersion)
	}
	unknown := func(cause error) func(answer) Created {
		return func(a answer) Created { return Created{Code: a.code, Err: &UnknownOutcome{said(a, "", nil), cause}} }
	}
	for name, row := range map[string]struct {
		got   answer
		nonce string
		want  func(a answer) Created
	}{
		"a whole object": {given("create", 201, object), testNonce, func(answer) Created { return Created{Outcome: Acknowledged, Code: 201, Meta: made} }},
		"never connected": {given("create", 0, "", unanswered, notConnected), testNonce, func(a answer) Created {
			return Created{Outcome: Unsent, Err: &NotSent{said(a, "", nil), errCut}}
		}},
		"no answer": {given("create", 0, "", unanswered), testNonce, unknown(errCut)},
		"201, cut":  {given("create", 201, object, cutOff), testNonce, unknown(errCut)},
		"403, unconnected": {given("create", 403, failure(403, "Forbidden", ofJob), func(a *answer) { a.connected = false }), testNonce, func(a answer) Created {
			return Created{Outcome: Rejected, Code: 403, Reason: "Forbidden", Err: &Refused{said(a, "Forbidden", jobDetails())}}
		}},
		"403, cut":          {given("create", 403, failure(403, "Forbidden", ofJob), cutOff), testNonce, unknown(errUnproven)},
		"200":               {given("create", 200, object), testNonce, unknown(errUnproven)},
		"another nonce":     {given("create", 201, object), "other", unknown(errors.New("the object in the answer does not carry our nonce"))},
		"no nonce to ask":   {given("create", 201, bare), "", unknown(errors.New("the object in the answer does not carry our nonce"))},
		"no JSON":           {given("create", 201, "<html>"), testNonce, unknown(errors.New("the answer is not the JSON that was asked for"))},
		"another kind":      {given("create", 201, with("Pod", "batch/v1")), testNonce, unknown(errors.New(`the answer holds a "Pod" of "batch/v1"`))},
		"another version":   {given("create", 201, with("Job", "batch/v2")), testNonce, unknown(errors.New(`the answer holds a "Job" of "batch/v2"`))},
		"metadata of v1":    {given("create", 201, with("PartialObjectMetadata", "v1")), testNonce, unknown(errors.New(`the answer holds a "PartialObjectMetadata" of "v1"`))},
		"another name":      {given("create", 201, with("Job", "batch/v1")), testNonce, unknown(errors.New(`the answer holds the object "x" of namespace ""`))},
		"a list's metadata": {given("create", 201, with("List", "meta.k8s.io/v1")), testNonce, unknown(errors.New(`the answer holds a "List" of "meta.k8s.io/v1"`))},
	} {
		want, got := row.want(row.got), classify(CreateRequest{Place: testJob(), Nonce: row.nonce}, row.got)
		// The words of a cause are compared, not how it was made.
		if fmt.Sprint(got.Err) != fmt.Sprint(want.Err) || reflect.TypeOf(got.Err) != reflect.TypeOf(want.Err) {
			t.Errorf("%s: got %T %v, want %T %v", name, got.Err, got.Err, want.Err, want.Err)
		}
		var known, wanted *UnknownOutcome
		if errors.As(got.Err, &known) && errors.As(want.Err, &wanted) && !reflect.DeepEqual(known.Answer, wanted.Answer) {
			t.Errorf("%s: said of %+v, want %+v", name, known.Answer, wanted.Answer)
		}
		if _, uncertain := got.Err.(*UnknownOutcome); uncertain { //nolint:errorlint // the type itself is promised
			got.Err, want.Err = nil, nil
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
}

// A6.8: a Meta keeps all that a decision and a readback rest on.
func TestA6_8_MetaOfAnObject(t *testing.T) {
	body := fmt.Sprintf(`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":%q,"namespace":"ns","uid":%q,
		"resourceVersion":"7","creationTimestamp":"2026-01-02T03:04:05Z","deletionTimestamp":"2026-01-02T03:04:06Z","finalizers":["a/b"],"labels":{"l":"v"},
		"annotations":{%q:%q,"other":"x"},"ownerReferences":[
		{"apiVersion":"v1","kind":"A","name":"a","uid":"1"},
		{"apiVersion":"v2","kind":"B","name":"b","uid":"2","controller":false},
		{"apiVersion":"v3","kind":"C","name":"c","uid":"3","controller":true}]}}`, testJob().Name, testUID, identity.NonceAnnotation, testNonce)
	want := Meta{
		Object: testJob(), ResourceVersion: "7", CreationTimestamp: "2026-01-02T03:04:05Z", DeletionTimestamp: "2026-01-02T03:04:06Z",
		Finalizers: []string{"a/b"}, Labels: map[string]string{"l": "v"}, Nonce: testNonce,
		Owners: []Owner{{"v1", "A", "a", "1", false}, {"v2", "B", "b", "2", false}, {"v3", "C", "c", "3", true}},
	}
	want.Object.UID = testUID
	got, err := given("get", 200, body).meta(testJob())
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	// The UID, place and kind are compared whole.
	for _, uid := range []string{"", "x"} {
		object := fmt.Sprintf(`{"kind":"Job","apiVersion":"batch/v1","metadata":{"name":%q,"namespace":"ns","uid":%q}}`, testJob().Name, uid)
		if _, err := given("get", 200, object).meta(testJob()); err == nil || err.Error() != fmt.Sprintf("the object in the answer has %q for a UID", uid) {
			t.Errorf("UID %q: %v", uid, err)
		}
	}
}

// A3.3: of what refuses the deletion of a Secret, only our own words are kept.
func TestA3_3_AboutADeletionOfASecret(t *testing.T) {
	secret := identity.Object{APIVersion: "v1", Kind: "Secret", Namespace: "ns", Name: "s"}
	for verb, want := range map[string]string{"delete": leftOut, "get": "m"} {
		got := given(verb, 403, failure(403, "Forbidden", ofJob), func(a *answer) { a.call.object = secret })
		status, _ := got.status()
		if about := got.about(status); about.Message != want {
			t.Errorf("%s: %q, want %q", verb, about.Message, want)
		}
	}
}
