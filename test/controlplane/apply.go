package controlplane

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
)

// fieldManager is the name under which Apply writes.
const fieldManager = "controlplane"

// ApplyFiles applies YAML files as admin. A directory stands for the .yaml files in
// it and below, in lexical order.
func (cp *ControlPlane) ApplyFiles(ctx context.Context, paths ...string) error {
	for _, root := range paths {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || (path != root && filepath.Ext(path) != ".yaml") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if err := cp.ApplyYAML(ctx, text); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("applying files: %w", err)
		}
	}
	return nil
}

// ApplyYAML applies the documents of a YAML stream as admin, in their order, by
// server-side apply. After a CustomResourceDefinition it waits until it is served,
// so that objects of the new kind may follow at once.
func (cp *ControlPlane) ApplyYAML(ctx context.Context, stream []byte) error {
	objects, err := decode(stream)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(cp.admin)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	lookup, err := discovery.NewDiscoveryClientForConfig(cp.admin)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(lookup))
	for _, object := range objects {
		if err := applyOne(ctx, client, mapper, object); err != nil {
			return fmt.Errorf("applying %s %s/%s: %w", object.GetKind(), object.GetNamespace(), object.GetName(), err)
		}
	}
	return nil
}

func decode(stream []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(stream))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading YAML: %w", err)
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			return nil, fmt.Errorf("decoding YAML: %w", err)
		}
		if len(object.Object) > 0 { // not only comments
			objects = append(objects, object)
		}
	}
}

func applyOne(ctx context.Context, client dynamic.Interface, mapper meta.ResettableRESTMapper, object *unstructured.Unstructured) error {
	resource, err := resourceOf(ctx, client, mapper, object)
	if err != nil {
		return err
	}
	options := metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
	if _, err := resource.Apply(ctx, object.GetName(), object, options); err != nil {
		return err
	}
	if object.GetKind() != "CustomResourceDefinition" {
		return nil
	}
	return poll(ctx, pollInterval, func() (bool, error) {
		crd, err := resource.Get(ctx, object.GetName(), metav1.GetOptions{})
		return err == nil && established(crd), err
	})
}

// resourceOf waits for a kind that is not served: a CustomResourceDefinition is
// established a little before discovery shows its kind.
func resourceOf(ctx context.Context, client dynamic.Interface, mapper meta.ResettableRESTMapper, object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := object.GroupVersionKind()
	var mapping *meta.RESTMapping
	ctx, cancel := context.WithTimeoutCause(ctx, kindTimeout, fmt.Errorf("the API server does not serve %s", kind))
	defer cancel()
	err := poll(ctx, 4*pollInterval, func() (bool, error) {
		var err error
		mapping, err = mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if meta.IsNoMatchError(err) {
			mapper.Reset()
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return nil, err
	}
	resources := client.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return resources, nil
	}
	if object.GetNamespace() == "" {
		object.SetNamespace(metav1.NamespaceDefault)
	}
	return resources.Namespace(object.GetNamespace()), nil
}

func established(crd *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		if condition["type"] == "Established" && condition["status"] == string(metav1.ConditionTrue) {
			return true
		}
	}
	return false
}

// CreateNode makes a Node that nobody reports for: a node without a kubelet. A Pod
// whose spec.nodeName names it stays Pending, and deleting the Pod stays unfinished.
// The scheduler does not choose it, because it is not ready.
func (cp *ControlPlane) CreateNode(ctx context.Context, name string, labels map[string]string, taints ...corev1.Taint) error {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       corev1.NodeSpec{Taints: taints},
	}
	_, err := cp.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating node %s: %w", name, err)
	}
	return nil
}
