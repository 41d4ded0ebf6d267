package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Fields is the whole of what an apply says. What an earlier apply of ours said
// and this one does not, the API server removes, unless somebody else owns it
// too.
type Fields struct {
	// Finalizers are ours; the set of the others is not touched.
	Finalizers []string
	// Suspend is spec.suspend, nil for not said. There is nothing else to say
	// about a specification, so that an apply cannot leak or conflict on any
	// other field (B3.5).
	Suspend *bool
}

func (f Fields) body(v Version, resourceVersion string) ([]byte, error) {
	meta := map[string]any{"name": v.Object.Name, "namespace": v.Object.Namespace, "uid": v.Object.UID}
	if resourceVersion != "" {
		meta["resourceVersion"] = resourceVersion
	}
	if len(f.Finalizers) > 0 {
		meta["finalizers"] = f.Finalizers
	}
	body := map[string]any{"apiVersion": v.Resource.APIVersion(), "kind": v.Resource.Kind, "metadata": meta}
	if f.Suspend != nil {
		body["spec"] = map[string]any{"suspend": *f.Suspend}
	}
	return json.Marshal(body)
}

// Apply sends one server-side apply on exactly the version that was read (B3.2).
// Without force a field that another manager owns at another value is a
// *Conflict with causes ([Conflict.Fields]). Errors: *Conflict, *Gone, *Refused,
// *NotSent, *UnknownOutcome.
func (o *Objects) Apply(ctx context.Context, v Version, fields Fields, force bool) (*unstructured.Unstructured, error) {
	if err := v.check(); err != nil {
		return nil, err
	}
	return o.apply(ctx, v, v.ResourceVersion, fields, force)
}

// ApplyFinalizers sends one server-side apply of finalizers alone, on the UID
// only. It is for the one write that must not lose against another writer of
// the same object and that decides nothing by the object's content: a finalizer
// cannot be added once the delete was accepted, so the API server itself orders
// this apply and the delete (B5.8). Errors as for Apply.
func (o *Objects) ApplyFinalizers(ctx context.Context, v Version, finalizers ...string) (*unstructured.Unstructured, error) {
	if err := v.checkUID(); err != nil {
		return nil, err
	}
	return o.apply(ctx, v, "", Fields{Finalizers: finalizers}, false)
}

func (o *Objects) apply(ctx context.Context, v Version, resourceVersion string, fields Fields, force bool) (*unstructured.Unstructured, error) {
	body, err := fields.body(v, resourceVersion)
	if err != nil {
		return nil, fmt.Errorf("applying to %s: %w", v.Object, err)
	}
	return o.patch(ctx, v, types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: o.manager, Force: &force})
}

func (o *Objects) patch(ctx context.Context, v Version, kind types.PatchType, body []byte, options metav1.PatchOptions, subresources ...string) (*unstructured.Unstructured, error) {
	object, err := o.dynamic.Resource(v.Resource.gvr()).Namespace(v.Object.Namespace).
		Patch(ctx, v.Object.Name, kind, body, options, subresources...)
	if err != nil {
		return nil, writeError("patch", v.Resource, v.Object, err)
	}
	if got := string(object.GetUID()); got != v.Object.UID {
		// The precondition makes this impossible; an answer about another object
		// must not be taken for the next input all the same.
		return nil, &UnknownOutcome{Answer: Answer{Verb: "patch", Object: v.Object, Code: http.StatusOK},
			Cause: fmt.Errorf("the answer is about uid %q", got)}
	}
	return object, nil
}

// FieldConflict is one field that another manager owns at another value.
type FieldConflict struct {
	// Field is the path as the API server writes it, ".spec.suspend".
	Field string
	// Message names the manager.
	Message string
}

// Fields returns which fields an apply without force conflicted on; empty for a
// conflict on the UID or the resourceVersion.
func (e *Conflict) Fields() []FieldConflict {
	if e.Details == nil {
		return nil
	}
	var fields []FieldConflict
	for _, cause := range e.Details.Causes {
		if cause.Type == metav1.CauseTypeFieldManagerConflict {
			fields = append(fields, FieldConflict{Field: cause.Field, Message: cause.Message})
		}
	}
	return fields
}

// AddsFinalizerToTerminating reports whether the API server refused a write
// because it would have added a finalizer to an object whose delete was
// accepted (B5.8): a refusal that names metadata.finalizers.
func AddsFinalizerToTerminating(err error) bool {
	var refused *Refused
	return errors.As(err, &refused) && refused.Code == http.StatusUnprocessableEntity &&
		namesField(refused.Answer, "metadata.finalizers")
}
