package kube

import (
	"errors"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/internal/identity"
)

// This file brings the answers that client-go has taken apart for [Objects]
// under the rules of classify.go. [guard] has checked the Audit-ID before.

// answerOf takes apart what came back with an error; ok is false where nothing
// came back that the API server itself can have said: client-go makes a Status
// of its own out of a page, names the object in it, and says so in a cause.
func answerOf(verb string, object identity.Object, err error) (answer Answer, ok bool) {
	answer = Answer{Verb: verb, Object: object}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return answer, false
	}
	s := status.Status()
	answer.Code, answer.Reason, answer.Message, answer.Details = int(s.Code), string(s.Reason), s.Message, s.Details
	invented := s.Details != nil && slices.ContainsFunc(s.Details.Causes, func(c metav1.StatusCause) bool {
		return c.Type == metav1.CauseTypeUnexpectedServerResponse
	})
	return answer, !invented
}

// absentFrom is A6.2a for an answer that client-go has taken apart.
func (a Answer) absentFrom(resource Resource) bool {
	return a.Code == http.StatusNotFound &&
		notFoundOf(metav1.Status{Reason: metav1.StatusReason(a.Reason), Details: a.Details}, resource.Group, resource.Plural, a.Object.Name)
}

func readError(verb string, resource Resource, object identity.Object, err error) error {
	answer, ok := answerOf(verb, object, err)
	absent := ok && answer.absentFrom(resource)
	answer, err = told(resource, answer, err)
	switch {
	case absent:
		return &Gone{answer}
	case ok && refusalCode(answer.Code):
		return &Refused{answer}
	default:
		return &Unreadable{Answer: answer, Cause: err}
	}
}

// writeError judges the answer to a write that carried preconditions (B3.2), by
// the rules of writeVerdict. One is added: a 422 that names the UID is the API server's
// answer to an apply on an object that was created again under the name, so that
// the one which was read is gone.
func writeError(verb string, resource Resource, object identity.Object, err error) error {
	answer, ok := answerOf(verb, object, err)
	replaced := answer.Code == http.StatusUnprocessableEntity && namesField(answer, "metadata.uid")
	absent := replaced || answer.absentFrom(resource)
	answer, err = told(resource, answer, err)
	var never *unsent
	switch {
	case errors.As(err, &never):
		return &NotSent{Answer: answer, Cause: err}
	case answer.Code == http.StatusTooManyRequests:
		return &Refused{answer}
	case !ok:
		return &UnknownOutcome{Answer: answer, Cause: err}
	default:
		return verdictOf(answer, false, absent, err)
	}
}

// verdictOf says what the API server's own answer to a write proves. failedTest:
// a test of our JSON patch did not hold; absent: it says that the object is not
// there.
func verdictOf(answer Answer, failedTest, absent bool, cause error) error {
	switch {
	case answer.Code == http.StatusConflict, failedTest:
		return &Conflict{answer}
	case absent:
		return &Gone{answer}
	case refusalCode(answer.Code):
		return &Refused{answer}
	default:
		return &UnknownOutcome{answer, cause}
	}
}

// testFailed reports whether a JSON patch was refused because it could not be
// applied, which for our patches means that a test failed: the object has
// another UID or changed. The API server says so with a 422 that names no
// object and no field; an object that would be invalid is named with its fields.
func testFailed(code int, details *metav1.StatusDetails) bool {
	return code == http.StatusUnprocessableEntity && (details == nil || details.Name == "" && len(details.Causes) == 0)
}

// namesField reports whether one of the answer's causes is about the field.
func namesField(answer Answer, field string) bool {
	return answer.Details != nil && slices.ContainsFunc(answer.Details.Causes, func(c metav1.StatusCause) bool { return c.Field == field })
}
