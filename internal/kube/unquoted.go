package kube

import (
	"context"
	"errors"
	"net/url"
	"regexp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An admission webhook or policy is shown the Secret that is deleted, and may
// quote a value of it in its refusal or its warning. A cleanup does not know the
// values (A6.8), so that nothing could redact them. So of the answer to the deletion
// of a Secret nobody's words are kept but the API server's own. Jobs and
// NetworkPolicies hold no value, and what refuses theirs is told in full. flux-plunger
// changes Secrets too, and tells on the HelmRelease what refuses it: of no answer about
// a Secret are more words kept.

// leftOut stands for what is not told.
const leftOut = "its words are left out, since they can quote the Secret"

// deletesSecret: the answer may quote what nobody can redact.
func (c call) deletesSecret() bool { return c.verb == "delete" && c.object.Kind == "Secret" }

// ownWords are the beginnings of messages that the API server words itself, up to
// where somebody else's words begin: who refused, and why a right is missing.
var ownWords = regexp.MustCompile(`^(?:` +
	`admission webhook "[a-z0-9.-]+" denied the request` +
	`|(?:Internal error occurred: )?failed calling webhook "[a-z0-9.-]+"` +
	`|(?:secrets "[a-z0-9.-]+" is forbidden: )?ValidatingAdmissionPolicy '[a-z0-9.-]+'(?: with binding '[a-z0-9.-]+')? denied request` +
	`|secrets "[a-z0-9.-]+" is forbidden: User "(?:[^"\\]|\\.)*" cannot [a-z]+ resource "secrets" in API group "" in the namespace "[a-z0-9-]+"` +
	`|secrets is forbidden: User "(?:[^"\\]|\\.)*" cannot list resource "secrets" in API group "" (?:in the namespace "[a-z0-9-]+"|at the cluster scope)` +
	`|Secret "[a-z0-9.-]+" is invalid` +
	`|secrets "[a-z0-9.-]+" not found` +
	`|Unauthorized)`)

// told returns what may be told of an answer about this kind, and why it is no good.
func told(resource Resource, answer Answer, cause error) (Answer, error) {
	if resource != Secrets() {
		return answer, cause
	}
	return answer.unquoted(), unquotedCause(cause)
}

// unquotedCause keeps what came from the connection. The rest has the server's words
// in it, or the decoder's, which quotes what it was given.
func unquotedCause(cause error) error {
	var connection *url.Error
	if errors.As(cause, &connection) || errors.Is(cause, context.Canceled) || errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return errUnquoted
}

var errUnquoted = errors.New("this answer proves nothing, and " + leftOut)

// unquoted returns what may be told of an answer about a Secret.
func (a Answer) unquoted() Answer {
	// A webhook chooses the reason too.
	if !knownReason(a.Reason) {
		a.Reason = ""
	}
	a.Details = nil
	if own := ownWords.FindString(a.Message); own == "" && a.Message != "" {
		a.Message = leftOut
	} else if own != a.Message {
		a.Message = own + "; " + leftOut
	}
	return a
}

func knownReason(reason string) bool {
	switch metav1.StatusReason(reason) {
	case metav1.StatusReasonUnauthorized, metav1.StatusReasonForbidden, metav1.StatusReasonNotFound,
		metav1.StatusReasonConflict, metav1.StatusReasonGone, metav1.StatusReasonInvalid,
		metav1.StatusReasonServerTimeout, metav1.StatusReasonTimeout, metav1.StatusReasonTooManyRequests,
		metav1.StatusReasonBadRequest, metav1.StatusReasonMethodNotAllowed, metav1.StatusReasonNotAcceptable,
		metav1.StatusReasonRequestEntityTooLarge, metav1.StatusReasonUnsupportedMediaType,
		metav1.StatusReasonInternalError, metav1.StatusReasonServiceUnavailable:
		return true
	default:
		return false
	}
}
