package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// patchStep is one step of a JSON patch (RFC 6902).
type patchStep struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// RemoveFinalizerAt removes the finalizer at an index by a JSON patch that tests
// the UID and that this very finalizer is there, so that a list which changed in
// between makes it fail instead of removing another one (B7.3). It works
// whoever owns the entry, which an apply does not. Errors as for Apply; a failed
// test is a *Conflict.
func (o *Objects) RemoveFinalizerAt(ctx context.Context, v Version, index int, finalizer string) (*unstructured.Unstructured, error) {
	if err := v.check(); err != nil {
		return nil, err
	}
	path := fmt.Sprintf("/metadata/finalizers/%d", index)
	return o.jsonPatch(ctx, v,
		patchStep{Op: "test", Path: "/metadata/uid", Value: v.Object.UID},
		patchStep{Op: "test", Path: path, Value: finalizer},
		patchStep{Op: "remove", Path: path})
}

// RemoveSuspend removes spec.suspend by a JSON patch that tests UID and
// resourceVersion (B7.3). Errors as for RemoveFinalizerAt.
func (o *Objects) RemoveSuspend(ctx context.Context, v Version) (*unstructured.Unstructured, error) {
	if err := v.check(); err != nil {
		return nil, err
	}
	return o.jsonPatch(ctx, v,
		patchStep{Op: "test", Path: "/metadata/uid", Value: v.Object.UID},
		patchStep{Op: "test", Path: "/metadata/resourceVersion", Value: v.ResourceVersion},
		patchStep{Op: "remove", Path: "/spec/suspend"})
}

func (o *Objects) jsonPatch(ctx context.Context, v Version, steps ...patchStep) (*unstructured.Unstructured, error) {
	raw, err := json.Marshal(steps)
	if err != nil {
		return nil, fmt.Errorf("patching %s: %w", v.Object, err)
	}
	object, err := o.patch(ctx, v, types.JSONPatchType, raw, metav1.PatchOptions{FieldManager: o.manager})
	var refused *Refused
	if errors.As(err, &refused) && testFailed(refused.Code, refused.Details) {
		return nil, &Conflict{refused.Answer}
	}
	return object, err
}
