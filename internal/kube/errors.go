package kube

import (
	"fmt"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/internal/identity"
)

// Answer is what a request was and what came back. It is the common part of
// every error of this package. Message and Details are the server's own words:
// redact and escape them before a person or a file gets them.
type Answer struct {
	// Verb is the request's verb as RBAC names it: create, get, list, delete,
	// patch, update.
	Verb string
	// Object is what was asked for; its Name is empty for a list.
	Object identity.Object
	// Code is the HTTP status, 0 when nothing was answered.
	Code int
	// Reason and Message come from the Status, empty when there was none.
	Reason  string
	Message string
	// Details are those of the Status: causes of a field conflict, for example.
	Details *metav1.StatusDetails
}

// String returns "deleting Job ns/name: 409 Conflict: the server's message".
func (a Answer) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", gerund(a.Verb), a.Object)
	if a.Code != 0 {
		fmt.Fprintf(&b, ": %d", a.Code)
	}
	if a.Reason != "" {
		b.WriteString(" " + a.Reason)
	}
	if a.Message != "" {
		b.WriteString(": " + a.Message)
	}
	return b.String()
}

func gerund(verb string) string {
	switch verb {
	case "get":
		return "reading"
	case "create", "delete", "update":
		return strings.TrimSuffix(verb, "e") + "ing"
	default:
		return verb + "ing"
	}
}

// Refused is a definite refusal: the server answered our own request, and said
// that it changed nothing (A3.7).
type Refused struct{ Answer }

func (e *Refused) Error() string { return e.String() + " (refused; nothing was changed)" }

// Final reports whether the same request would be refused again: everything but an
// API server that is too busy just now.
func (e *Refused) Final() bool { return e.Code != http.StatusTooManyRequests }

// Conflict is a precondition that did not hold: another UID, another
// resourceVersion, a field that another manager owns, a JSON patch whose test
// failed. Nothing was changed by this request. What is there now must be read
// again before anything is concluded.
type Conflict struct{ Answer }

func (e *Conflict) Error() string { return e.String() + " (conflict; nothing was changed)" }

// Gone is an absence read (A6.2a): a 404 whose Status names this very group,
// resource and name, with our Audit-ID.
type Gone struct{ Answer }

func (e *Gone) Error() string { return e.String() + " (absent)" }

// NotSent says that the request never left: no connection was ever obtained,
// for example because it was refused or because a login expired. [Objects] say it of
// a write alone, and only where the connection could not be made; what fails before
// that, at their rate limit or a login, is an unknown outcome to them.
type NotSent struct {
	Answer
	Cause error
}

func (e *NotSent) Error() string { return fmt.Sprintf("%s: not sent: %v", e.Answer, e.Cause) }

// Unwrap returns why it was not sent.
func (e *NotSent) Unwrap() error { return e.Cause }

// UnknownOutcome says that a write may or may not have been carried out, or may
// still be.
type UnknownOutcome struct {
	Answer
	// Cause is never nil: what made the answer unusable.
	Cause error
}

func (e *UnknownOutcome) Error() string {
	return fmt.Sprintf("%s: outcome unknown: %v", e.Answer, e.Cause)
}

// Unwrap returns what made the answer unusable.
func (e *UnknownOutcome) Unwrap() error { return e.Cause }

// Unreadable says that a read returned nothing that can be relied on. It is
// neither presence nor absence.
type Unreadable struct {
	Answer
	// Cause is never nil.
	Cause error
}

func (e *Unreadable) Error() string { return fmt.Sprintf("%s: unreadable: %v", e.Answer, e.Cause) }

// Unwrap returns what made the answer unusable.
func (e *Unreadable) Unwrap() error { return e.Cause }
