package kube

import (
	"errors"
	"net/http"
	"reflect"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// replied is an answer of the API server as client-go hands it on.
func replied(code int32, reason metav1.StatusReason, details *metav1.StatusDetails) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: "m", Details: details}}
}

// The details of a NotFound of the test's Job, and ways to spoil them.
func detailsOf(edits ...func(*metav1.StatusDetails)) *metav1.StatusDetails {
	d := &metav1.StatusDetails{Name: testJob().Name, Group: "batch", Kind: "jobs"}
	for _, edit := range edits {
		edit(d)
	}
	return d
}

func caused(kind metav1.CauseType, field string) func(*metav1.StatusDetails) {
	return func(d *metav1.StatusDetails) {
		d.Causes = append(d.Causes, metav1.StatusCause{Type: "Other", Field: "spec"}, metav1.StatusCause{Type: kind, Field: field})
	}
}

// A6.2a, A6.5, B3.2: what client-go's errors of a read and of a write prove, and that
// the verdict keeps the whole answer.
func TestA6_2a_VerdictsOfTakenApartAnswers(t *testing.T) {
	invented := caused(metav1.CauseTypeUnexpectedServerResponse, "")
	other := func(d *metav1.StatusDetails) { d.Name = "another" }
	cut := errors.New("the connection was cut")
	for _, row := range []struct {
		name        string
		err         error
		read, write string
	}{
		{"not found", replied(404, metav1.StatusReasonNotFound, detailsOf()), "gone", "gone"},
		{"not found, no details", replied(404, metav1.StatusReasonNotFound, nil), "unreadable", "unknown"},
		{"not found, another object", replied(404, metav1.StatusReasonNotFound, detailsOf(other)), "unreadable", "unknown"},
		{"another reason", replied(404, metav1.StatusReasonGone, detailsOf()), "unreadable", "unknown"},
		{"not found with another code", replied(500, metav1.StatusReasonNotFound, detailsOf()), "unreadable", "unknown"},
		{"a page that client-go made a NotFound of", replied(404, metav1.StatusReasonNotFound, detailsOf(invented)), "unreadable", "unknown"},
		{"forbidden", replied(403, metav1.StatusReasonForbidden, detailsOf()), "refused", "refused"},
		{"forbidden, no details", replied(403, metav1.StatusReasonForbidden, nil), "refused", "refused"},
		{"a page that client-go made a Forbidden of", replied(403, metav1.StatusReasonForbidden, detailsOf(invented)), "unreadable", "unknown"},
		{"conflict", replied(409, metav1.StatusReasonConflict, detailsOf()), "unreadable", "conflict"},
		{"too many requests", replied(429, metav1.StatusReasonTooManyRequests, nil), "unreadable", "refused"},
		{"too many requests, in plain text", replied(429, metav1.StatusReasonTooManyRequests, detailsOf(invented)), "unreadable", "refused"},
		{"invalid", replied(422, metav1.StatusReasonInvalid, detailsOf(caused("", "metadata.name"))), "refused", "refused"},
		{"invalid, no details", replied(422, metav1.StatusReasonInvalid, nil), "refused", "refused"},
		{"another UID", replied(422, metav1.StatusReasonInvalid, detailsOf(caused("", "metadata.uid"))), "refused", "gone"},
		{"another UID, with another code", replied(400, metav1.StatusReasonInvalid, detailsOf(caused("", "metadata.uid"))), "refused", "refused"},
		{"a server's own failure", replied(500, metav1.StatusReasonInternalError, nil), "unreadable", "unknown"},
		{"no answer", cut, "unreadable", "unknown"},
	} {
		about := func(verb string) Answer {
			a := Answer{Verb: verb, Object: testJob()}
			if status := apierrors.APIStatus(nil); errors.As(row.err, &status) {
				s := status.Status()
				a.Code, a.Reason, a.Message, a.Details = int(s.Code), string(s.Reason), s.Message, s.Details
			}
			return a
		}
		jobs := Resource{Group: "batch", Version: "v1", Plural: "jobs"}
		for verb, got := range map[string]error{
			row.read + " get":    readError("get", jobs, testJob(), row.err),
			row.write + " patch": writeError("patch", jobs, testJob(), row.err),
		} {
			var want error
			switch verb {
			case "gone get", "gone patch":
				want = &Gone{about(verb[5:])}
			case "refused get", "refused patch":
				want = &Refused{about(verb[8:])}
			case "conflict patch":
				want = &Conflict{about("patch")}
			case "unreadable get":
				want = &Unreadable{about("get"), row.err}
			case "unknown patch":
				want = &UnknownOutcome{about("patch"), row.err}
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %s: got %T %+v, want %T %+v", row.name, verb, got, got, want, want)
			}
		}
	}
}

// A4.2c, B3.2: a JSON patch whose test failed names no object and no field.
func TestA4_2c_TestFailed(t *testing.T) {
	for name, row := range map[string]struct {
		code    int
		details *metav1.StatusDetails
		want    bool
	}{
		"nothing named":          {422, nil, true},
		"empty details":          {422, &metav1.StatusDetails{}, true},
		"an object":              {422, &metav1.StatusDetails{Name: "x"}, false},
		"a field":                {422, &metav1.StatusDetails{Causes: []metav1.StatusCause{{Field: "spec"}}}, false},
		"another code":           {400, nil, false},
		"another code, no names": {409, &metav1.StatusDetails{}, false},
	} {
		if testFailed(row.code, row.details) != row.want {
			t.Errorf("%s: want %v", name, row.want)
		}
	}
	failed := verdictOf(Answer{Code: http.StatusUnprocessableEntity}, true, true, nil)
	if !reflect.DeepEqual(failed, &Conflict{Answer{Code: http.StatusUnprocessableEntity}}) {
		t.Errorf("a failed test is %T", failed)
	}
}
