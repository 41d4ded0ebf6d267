package kube

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func deployments() Resource {
	return Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment"}
}

// ScaleToZero asks a Deployment for no Pods, through its scale subresource, so
// that the right to do it is no right to change anything else of it. The patch
// names the UID that was read. Errors: *Gone where there is no such Deployment,
// else as for Get and Apply.
func (o *Objects) ScaleToZero(ctx context.Context, namespace, name string) error {
	place := deployments().At(namespace, name)
	client := o.dynamic.Resource(deployments().gvr()).Namespace(namespace)
	scale, err := client.Get(ctx, name, metav1.GetOptions{}, "scale")
	if err != nil {
		return readError("get", deployments(), place, err)
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": scale.GetUID()}, "spec": map[string]any{"replicas": 0}})
	if err != nil {
		return fmt.Errorf("scaling %s: %w", place, err)
	}
	if _, err := client.Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: o.manager}, "scale"); err != nil {
		return writeError("patch", deployments(), place, err)
	}
	return nil
}

// Pods is the core Pod.
func Pods() Resource { return Resource{Version: "v1", Plural: "pods", Kind: "Pod"} }
