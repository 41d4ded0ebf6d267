package kube

import (
	"errors"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/holdfast-project/holdfast/internal/apipath"
	"github.com/holdfast-project/holdfast/internal/identity"
)

// This file is the one place where an answer becomes knowledge. Everything in
// it is pure.

var (
	errForeignAudit = errors.New("the answer does not carry our Audit-ID, so it is not the API server's answer to this request")
	errRepeated     = errors.New("more than one request was sent")
	errUnproven     = errors.New("this answer does not say whether the write was carried out")
)

// classify says what is known about a create (A3.5, A3.7). Everything that is
// not proven to be a refusal or an acknowledgement is unknown.
func classify(want CreateRequest, got answer) Created {
	status, hasStatus := got.status()
	created := Created{Code: got.code, Reason: string(status.Reason)}
	about := got.about(status)
	if got.code == 0 && !got.connected {
		created.Outcome, created.Err = Unsent, &NotSent{about, got.err}
		return created
	}
	if cause := got.foreign(); cause != nil {
		created.Err = &UnknownOutcome{about, cause}
		return created
	}
	if refusedCreate(want.Place.Namespace, got, status, hasStatus) {
		created.Outcome, created.Err = Rejected, &Refused{about}
		return created
	}
	meta, err := got.stored(want)
	if err != nil {
		created.Err = &UnknownOutcome{about, err}
		return created
	}
	created.Outcome, created.Meta = Acknowledged, meta
	return created
}

// foreign returns why the answer cannot be our own request's, nil if it is.
func (a answer) foreign() error {
	switch {
	case a.code == 0:
		return a.err
	case a.attempts != 1:
		return errRepeated
	case !echoes(a.auditIDs, a.call.auditID):
		return errForeignAudit
	default:
		return nil
	}
}

// echoes reports whether an answer carries the Audit-ID of its request, and no other.
func echoes(auditIDs []string, sent string) bool { return len(auditIDs) == 1 && auditIDs[0] == sent }

// refusedCreate is the list of A3.7. 409 is not in it: it can be the echo of our
// own first request. 408 and every 5xx are not: the handler may still run.
func refusedCreate(namespace string, got answer, status metav1.Status, hasStatus bool) bool {
	switch got.code {
	case http.StatusTooManyRequests:
		// Fairness refuses before a request is processed, in plain text.
		return true
	case http.StatusNotFound:
		return notFoundOf(status, "", "namespaces", namespace)
	default:
		return hasStatus && refusalCode(got.code)
	}
}

func refusalCode(code int) bool {
	switch code {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed,
		http.StatusNotAcceptable, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return true
	default:
		return false
	}
}

// stored returns the metadata of a 201 that proves that this create made the
// object (A3.5).
func (a answer) stored(want CreateRequest) (Meta, error) {
	if a.code != http.StatusCreated {
		return Meta{}, errUnproven
	}
	meta, err := a.meta(want.Place)
	if err != nil {
		return Meta{}, err
	}
	if want.Nonce == "" || meta.Nonce != want.Nonce {
		return Meta{}, errors.New("the object in the answer does not carry our nonce")
	}
	return meta, nil
}

// writeVerdict says what an answer proves about a write: nil when it was accepted,
// which for a delete is not yet absence (A6.5). A create that makes an object is
// judged by classify instead; one that makes none, a dry run or an access review,
// is refused by the same list.
func writeVerdict(got answer) error {
	status, hasStatus := got.status()
	about := got.about(status)
	if got.code == 0 && !got.connected {
		return &NotSent{about, got.err}
	}
	if cause := got.foreign(); cause != nil {
		return &UnknownOutcome{about, cause}
	}
	switch {
	case got.code == http.StatusOK, got.code == http.StatusCreated, got.code == http.StatusAccepted:
		if got.err != nil {
			return &UnknownOutcome{about, got.err}
		}
		return nil
	case got.call.verb == "create" && refusedCreate(got.call.object.Namespace, got, status, hasStatus),
		got.code == http.StatusTooManyRequests:
		return &Refused{about}
	case !hasStatus:
		return &UnknownOutcome{about, errUnproven}
	default:
		failed := got.call.contentType == jsonPatch && testFailed(got.code, status.Details)
		return verdictOf(about, failed, got.absent(status), errUnproven)
	}
}

// readVerdict returns why a read proves nothing, and nil for a 200 that answers
// our own request in full. A read may have been repeated.
func readVerdict(got answer) error {
	status, ok := got.status()
	about := got.about(status)
	switch {
	case got.code == 0 && !got.connected:
		return &NotSent{about, got.err}
	case got.code == 0:
		return &Unreadable{about, got.err}
	case !echoes(got.auditIDs, got.call.auditID):
		return &Unreadable{about, errForeignAudit}
	case got.err != nil:
		return &Unreadable{about, got.err}
	case got.code == http.StatusOK:
		return nil
	case got.absent(status):
		return &Gone{about}
	case ok && refusalCode(got.code):
		return &Refused{about}
	default:
		return &Unreadable{about, errors.New("this answer proves neither presence nor absence")}
	}
}

// absent is A6.2a; the caller has checked the Audit-ID.
func (a answer) absent(status metav1.Status) bool {
	resource, err := apipath.Of(a.call.object.APIVersion, a.call.object.Kind)
	return err == nil && a.code == http.StatusNotFound && notFoundOf(status, resource.Group, resource.Plural, a.call.name)
}

// notFoundOf reports whether a Status says NotFound of exactly this object.
func notFoundOf(status metav1.Status, group, plural, name string) bool {
	d := status.Details
	return status.Reason == metav1.StatusReasonNotFound && d != nil && name != "" &&
		d.Name == name && d.Group == group && d.Kind == plural
}

// status returns the answer's Status. It counts only when it is a complete
// failure Status with the code of the response itself; otherwise an empty one is
// returned, which names nothing.
func (a answer) status() (metav1.Status, bool) {
	var status metav1.Status
	counts := a.err == nil && utiljson.Unmarshal(a.body, &status) == nil &&
		status.Kind == "Status" && status.APIVersion == "v1" && status.Status == metav1.StatusFailure && int(status.Code) == a.code
	if !counts {
		return metav1.Status{}, false
	}
	return status, true
}

// meta returns the metadata of the one object in the answer, which must be the
// one that was asked for.
func (a answer) meta(place identity.Object) (Meta, error) {
	var object metav1.PartialObjectMetadata
	if err := a.decode(&object); err != nil {
		return Meta{}, err
	}
	partial := object.Kind == "PartialObjectMetadata" && object.APIVersion == "meta.k8s.io/v1"
	if !partial && (object.Kind != place.Kind || object.APIVersion != place.APIVersion) {
		return Meta{}, fmt.Errorf("the answer holds a %q of %q", object.Kind, object.APIVersion)
	}
	if object.Name != place.Name || object.Namespace != place.Namespace {
		return Meta{}, fmt.Errorf("the answer holds the object %q of namespace %q", object.Name, object.Namespace)
	}
	if !identity.ValidUID(string(object.UID)) {
		return Meta{}, fmt.Errorf("the object in the answer has %q for a UID", object.UID)
	}
	return metaOf(place, &object.ObjectMeta), nil
}

// decode reads the complete body. Keys are case-sensitive, as they are to the
// API server.
func (a answer) decode(into any) error {
	if a.err != nil {
		return a.err
	}
	if err := utiljson.Unmarshal(a.body, into); err != nil {
		// The decoder's own message can quote the body.
		return errors.New("the answer is not the JSON that was asked for")
	}
	return nil
}

// about returns what messages say of the answer.
func (a answer) about(status metav1.Status) Answer {
	about := Answer{Verb: a.call.verb, Object: a.call.object, Code: a.code, Reason: string(status.Reason), Message: status.Message, Details: status.Details}
	if a.call.deletesSecret() {
		return about.unquoted()
	}
	return about
}

func metaOf(place identity.Object, object *metav1.ObjectMeta) Meta {
	meta := Meta{
		Object: place, ResourceVersion: object.ResourceVersion, Finalizers: object.Finalizers,
		Labels: object.Labels, Nonce: object.Annotations[identity.NonceAnnotation],
		CreationTimestamp: timestamp(&object.CreationTimestamp), DeletionTimestamp: timestamp(object.DeletionTimestamp),
	}
	meta.Object.UID = string(object.UID)
	for _, o := range object.OwnerReferences {
		meta.Owners = append(meta.Owners, Owner{APIVersion: o.APIVersion, Kind: o.Kind, Name: o.Name, UID: string(o.UID), Controller: o.Controller != nil && *o.Controller})
	}
	return meta
}
