package kube

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Annotate sets annotations by a merge patch of their own on exactly the version
// that was read. It is an Update in managedFields, never part of an apply: the
// next apply, which does not say them, would remove them (B4.2a). Errors as for
// Apply.
func (o *Objects) Annotate(ctx context.Context, v Version, annotations map[string]string) (*unstructured.Unstructured, error) {
	return o.merge(ctx, v, map[string]any{"annotations": annotations}, nil)
}

// PatchStatus sets fields of the status subresource by a merge patch. There the
// API server ignores a wrong UID, so the resourceVersion is the only guard, and
// it is always sent (B3.2). Errors as for Apply.
func (o *Objects) PatchStatus(ctx context.Context, v Version, status map[string]any) (*unstructured.Unstructured, error) {
	return o.merge(ctx, v, map[string]any{}, map[string]any{"status": status}, "status")
}

func (o *Objects) merge(ctx context.Context, v Version, meta, body map[string]any, subresources ...string) (*unstructured.Unstructured, error) {
	if err := v.check(); err != nil {
		return nil, err
	}
	meta["uid"], meta["resourceVersion"] = v.Object.UID, v.ResourceVersion
	patch := map[string]any{"metadata": meta}
	for key, value := range body {
		patch[key] = value
	}
	raw, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("patching %s: %w", v.Object, err)
	}
	return o.patch(ctx, v, types.MergePatchType, raw, metav1.PatchOptions{FieldManager: o.manager}, subresources...)
}
