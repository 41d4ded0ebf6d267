package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-project/holdfast/internal/identity"
)

// Content types of a body.
const (
	jsonBody  = "application/json"
	jsonPatch = string(types.JSONPatchType)
)

// Create sends exactly one POST and says what is known afterwards (A3.7). A
// context that is already done sends nothing; one that ends later does not
// cancel the request, which would make it uncertain for ever (A4.1): the
// answer is awaited for want.Wait.
func (c *Client) Create(ctx context.Context, want CreateRequest) Created {
	request := call{
		verb: "create", object: want.Place, accept: acceptMetadata, contentType: jsonBody, body: want.Body,
		auditID: want.AuditID, timeout: cmp.Or(want.Wait, CreateWait), fresh: true,
	}
	if err := errors.Join(ctx.Err(), want.incomplete()); err != nil {
		return classify(want, answer{call: request, err: err})
	}
	got := c.carryOut(context.WithoutCancel(ctx), request)
	created := classify(want, got)
	created.Warnings = got.warnings
	return created
}

// incomplete returns why the request could not be recognised again.
func (want CreateRequest) incomplete() error {
	if want.AuditID == "" || want.Nonce == "" || want.Place.Name == "" || want.Place.UID != "" || len(want.Body) == 0 {
		return errors.New("a create needs an Audit-ID, a nonce, a body and a name, and no UID")
	}
	return nil
}

// Tried is what a create would have made.
type Tried struct {
	// Object is the whole object as it would be stored, without the UID that a
	// dry run invents; nil for a Secret, whose data never comes back (A6.8).
	Object *unstructured.Unstructured
	// Meta is its metadata, without a UID.
	Meta Meta
	// Warnings are the server's Warning headers.
	Warnings []string
}

// TryCreate sends the object once with dryRun=All, through every webhook, quota
// and admission plugin, and stores nothing (A4.2b). Whatever is answered, nothing
// was created: an answer that cannot be used is *Unreadable.
func (c *Client) TryCreate(ctx context.Context, place identity.Object, body []byte) (Tried, error) {
	request := call{verb: "create", object: place, accept: acceptObject, contentType: jsonBody, body: body, query: [][2]string{{"dryRun", metav1.DryRunAll}}}
	if place.Kind == "Secret" {
		request.accept = acceptMetadata
	}
	got := c.send(ctx, request)
	tried := Tried{Warnings: got.warnings}
	if err := writeVerdict(got); err != nil {
		var unknown *UnknownOutcome
		if errors.As(err, &unknown) {
			err = &Unreadable{unknown.Answer, unknown.Cause}
		}
		return tried, fmt.Errorf("dry run: %w", err)
	}
	meta, err := got.meta(place)
	if err == nil && place.Kind != "Secret" {
		tried.Object = &unstructured.Unstructured{}
		if err = got.decode(&tried.Object.Object); err == nil {
			tried.Object.SetUID("")
		}
	}
	if err != nil {
		return tried, fmt.Errorf("dry run: %w", &Unreadable{got.about(metav1.Status{}), err})
	}
	meta.Object.UID = ""
	tried.Meta = meta
	return tried, nil
}

// Unsuspend lets a suspended Job run, with one JSON patch that tests its UID
// (A4.2c). Another UID is a *Conflict, and an absent Job *Gone.
func (c *Client) Unsuspend(ctx context.Context, job identity.Object) error {
	if err := exact(job); err != nil {
		return fmt.Errorf("releasing %s: %w", job, err)
	}
	return c.patch(ctx, job, []patchStep{
		{Op: "test", Path: "/metadata/uid", Value: job.UID},
		{Op: "add", Path: "/spec/suspend", Value: false},
	})
}

// patch sends one JSON patch; its first step tests what the caller read.
func (c *Client) patch(ctx context.Context, object identity.Object, steps []patchStep) error {
	body, err := json.Marshal(steps)
	if err != nil {
		return fmt.Errorf("encoding the patch of %s: %w", object, err)
	}
	return writeVerdict(c.send(ctx, call{
		verb: "patch", object: object, name: object.Name, accept: acceptMetadata, contentType: jsonPatch, body: body, fresh: true,
	}))
}

// Delete deletes exactly this object: the UID is a precondition that the API
// server enforces (A6.3). nil means accepted, not absent (A6.5). A *Conflict may
// be a replacement under the same name or a change in between: look again.
func (c *Client) Delete(ctx context.Context, object identity.Object, propagation Propagation) error {
	if err := exact(object); err != nil {
		return fmt.Errorf("deleting %s: %w", object, err)
	}
	if propagation != Foreground && propagation != Background && propagation != Orphan {
		return fmt.Errorf("deleting %s: %q is not a propagation policy", object, propagation)
	}
	uid, policy := types.UID(object.UID), metav1.DeletionPropagation(propagation)
	options := metav1.DeleteOptions{
		TypeMeta:          metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		Preconditions:     &metav1.Preconditions{UID: &uid},
		PropagationPolicy: &policy,
	}
	body, err := json.Marshal(options)
	if err != nil {
		return fmt.Errorf("encoding the options that delete %s: %w", object, err)
	}
	return writeVerdict(c.send(ctx, call{
		verb: "delete", object: object, name: object.Name, accept: acceptMetadata, contentType: jsonBody, body: body,
	}))
}

// exact refuses an identity that does not name one object: without a name a
// DELETE would go to the whole collection, without a UID to whoever has the name.
func exact(object identity.Object) error {
	if object.Name == "" || !identity.ValidUID(object.UID) {
		return errors.New("it does not name one object by a name and a UID")
	}
	return nil
}

// timestamp returns the time as the API server writes it, empty for none.
func timestamp(t *metav1.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
