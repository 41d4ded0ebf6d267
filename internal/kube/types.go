package kube

import (
	"errors"
	"net/http"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/holdfast-project/holdfast/internal/identity"
)

// Outcome says what is known about a create. Its zero value is Unknown, so that
// a forgotten assignment retains instead of deleting.
type Outcome int

// The outcomes of a create (A3.5, A3.7).
const (
	// Unknown: the object may exist, or may still come to exist.
	Unknown Outcome = iota
	// Acknowledged: a 201 to our own request, with our nonce and a valid UID.
	Acknowledged
	// Rejected: the server definitely refused; Code and Reason say how.
	Rejected
	// Unsent: no connection was ever obtained; Code is 0.
	Unsent
)

// String returns the word that messages use.
func (o Outcome) String() string {
	switch o {
	case Acknowledged:
		return "acknowledged"
	case Rejected:
		return "rejected"
	case Unsent:
		return "not sent"
	default:
		return "uncertain"
	}
}

// CreateRequest is one create. The caller has made AuditID durable before.
type CreateRequest struct {
	// Place is where the object will be; it has no UID.
	Place identity.Object
	// Body is the object in JSON. It carries Nonce as its NonceAnnotation.
	Body []byte
	// AuditID identifies this one request, at most 64 ASCII bytes: NewAuditID.
	AuditID string
	// Nonce is the plan's; an answer without it is not an answer to us (A3.5).
	Nonce string
	// Wait bounds the wait for the answer; zero means CreateWait. The caller's
	// context does not shorten it: cancelling a create that is in flight would
	// make it uncertain for ever (A4.1).
	Wait time.Duration
}

// CreateWait is how long the answer to a create is awaited: longer than the 34 s
// that an API server gives a write and the 60 s of common gateways (A4.1).
const CreateWait = 75 * time.Second

// Created is what is known about a create after its one request.
type Created struct {
	Outcome Outcome
	// Meta is what the server stored, with its UID; only when Acknowledged.
	Meta Meta
	// Code is the HTTP status, 0 when there was no answer.
	Code int
	// Reason is the Status's reason, empty when there was none.
	Reason string
	// Err is nil when Acknowledged, otherwise *Refused, *NotSent or
	// *UnknownOutcome. Redact it before it is written anywhere.
	Err error
	// Warnings are the answer's Warning headers. Options.Warn is not given them: tell
	// them when the outcome is durable, since telling can be held up (A2.5).
	Warnings []string
}

// Meta is what a read keeps of an object: identity, never contents (A6.8).
type Meta struct {
	// Object has the UID that was read. A UID that was read live proves
	// nothing about who made the object.
	Object          identity.Object
	ResourceVersion string
	// CreationTimestamp and DeletionTimestamp are RFC 3339 as the server wrote
	// them; the second is empty unless the object is terminating.
	CreationTimestamp string
	DeletionTimestamp string
	Finalizers        []string
	Owners            []Owner
	// Labels locate and may add doubt; they never authorise (A6.3).
	Labels map[string]string
	// Nonce is the value of identity.NonceAnnotation, empty when there is none.
	Nonce string
}

// Owner is one ownerReference.
type Owner struct {
	APIVersion string
	Kind       string
	Name       string
	UID        string
	Controller bool
}

// OwnedBy reports whether an ownerReference holds uid.
func (m Meta) OwnedBy(uid string) bool {
	return slices.ContainsFunc(m.Owners, func(o Owner) bool { return o.UID == uid })
}

// ControllerUIDs returns what the controller-uid labels of a Pod say, which its
// Job controller wrote and anybody can change: doubt, not proof (A6.3).
func (m Meta) ControllerUIDs() []string {
	var uids []string
	for _, label := range []string{batchv1.ControllerUidLabel, "controller-uid"} {
		if uid := m.Labels[label]; uid != "" && !slices.Contains(uids, uid) {
			uids = append(uids, uid)
		}
	}
	return uids
}

// Presence says what a read of one name established. Its zero value is
// NotRead.
type Presence int

// What a read can establish.
const (
	// NotRead: the read failed. It is neither presence nor absence.
	NotRead Presence = iota
	// Absent: an absence read (A6.2a).
	Absent
	// Present: the object is there, perhaps with another UID.
	Present
)

// Observation is the result of one metadata-only quorum read of a name.
type Observation struct {
	Presence Presence
	// Meta is set when Present.
	Meta Meta
	// Err is nil when Present, *Gone when Absent, otherwise *Unreadable,
	// *Refused or *NotSent.
	Err error
}

// Forbidden reports whether the server refused the read with 403.
func (o Observation) Forbidden() bool {
	var refused *Refused
	return errors.As(o.Err, &refused) && refused.Code == http.StatusForbidden
}

// Propagation says what happens to an object's dependents. There is no default:
// for a Job the server's is to orphan its Pods.
type Propagation string

// The propagation policies of the API.
const (
	Foreground Propagation = "Foreground"
	Background Propagation = "Background"
	Orphan     Propagation = "Orphan"
)

// ClusterReading is what A6.2 decides on: the target Namespace and kube-system,
// each read by itself, since one may be readable without the other.
type ClusterReading struct {
	Namespace  Observation
	KubeSystem Observation
}

// Cluster returns the UIDs that were read, each empty where it was not.
func (r ClusterReading) Cluster() identity.Cluster {
	return identity.Cluster{NamespaceUID: r.Namespace.Meta.Object.UID, KubeSystemUID: r.KubeSystem.Meta.Object.UID}
}

// Permission is one thing that the client may need to be allowed.
type Permission struct {
	Verb        string
	Group       string
	Resource    string
	Subresource string
	// Namespace is empty for a cluster-scoped resource.
	Namespace string
	// Name is empty for every name.
	Name string
}
