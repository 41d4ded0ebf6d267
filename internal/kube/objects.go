package kube

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/holdfast-project/holdfast/internal/identity"
)

// Resource is one kind of object together with the path it is served under.
type Resource struct {
	Group, Version, Plural, Kind string
}

// APIVersion returns "group/version", or the version alone for the core group.
func (r Resource) APIVersion() string { return r.gvr().GroupVersion().String() }

func (r Resource) gvr() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Plural}
}

// At returns the place of one object of this kind.
func (r Resource) At(namespace, name string) identity.Object {
	return identity.Object{APIVersion: r.APIVersion(), Kind: r.Kind, Namespace: namespace, Name: name}
}

// Version names one object at one moment: the precondition of every write that
// rests on a read. A write names the UID always; it names the resourceVersion
// too, unless its signature says otherwise (B3.2).
type Version struct {
	Resource Resource
	// Object has the UID that was read.
	Object          identity.Object
	ResourceVersion string
}

// Named returns the version of an object of this kind as its metadata were read.
func (r Resource) Named(meta metav1.Object) Version {
	object := r.At(meta.GetNamespace(), meta.GetName())
	object.UID = string(meta.GetUID())
	return Version{Resource: r, Object: object, ResourceVersion: meta.GetResourceVersion()}
}

// check refuses what would be a write without a precondition, before anything
// is sent.
func (v Version) check() error {
	if err := v.checkUID(); err != nil {
		return err
	}
	if v.ResourceVersion == "" {
		return fmt.Errorf("writing %s: no resourceVersion was read, so nothing is sent", v.Object)
	}
	return nil
}

// checkUID is check for the write that names no resourceVersion: with an empty uid
// a server-side apply creates what is missing.
func (v Version) checkUID() error {
	if v.Object.UID == "" {
		return fmt.Errorf("writing %s: no UID was read, so nothing is sent", v.Object)
	}
	return nil
}

// Objects reads and writes whole objects live, each write under the
// preconditions of the read that it rests on. It holds no state but its
// connections and may be used by many goroutines.
type Objects struct {
	rest     rest.Interface
	dynamic  dynamic.Interface
	metadata metadata.Interface
	manager  string
}

// NewObjects returns Objects that write as the given field manager. It sends
// nothing.
func NewObjects(config *rest.Config, fieldManager string) (*Objects, error) {
	if fieldManager == "" {
		return nil, errors.New("making a client: the field manager has no name")
	}
	config = guarded(config)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	r, err := rest.UnversionedRESTClientForConfigAndClient(dynamic.ConfigFor(config), client)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	m, err := metadata.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("making a metadata client: %w", err)
	}
	return &Objects{rest: r, dynamic: dynamic.New(r), metadata: m, manager: fieldManager}, nil
}

// Get reads one object from the API server's storage, not from a cache. Errors:
// *Gone, *Refused, *Unreadable.
func (o *Objects) Get(ctx context.Context, resource Resource, namespace, name string) (*unstructured.Unstructured, error) {
	place := resource.At(namespace, name)
	object, err := o.dynamic.Resource(resource.gvr()).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, readError("get", resource, place, err)
	}
	return object, nil
}

// GetMetadata reads one object's metadata. Errors as for Get.
func (o *Objects) GetMetadata(ctx context.Context, resource Resource, namespace, name string) (*metav1.PartialObjectMetadata, error) {
	place := resource.At(namespace, name)
	object, err := o.metadata.Resource(resource.gvr()).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, readError("get", resource, place, err)
	}
	return object, nil
}

// Selection narrows a list.
type Selection struct {
	// Namespace is empty for all of them.
	Namespace string
	// Labels and Fields are selectors in their usual text form.
	Labels, Fields string
}

// errOnePage: no page was asked for, and what is missing would read as absent.
var errOnePage = errors.New("the answer is one page of a list that was asked for whole")

// ListMetadata reads the metadata alone of what is selected: contents never
// travel (B1.2). It is a quorum read, in one piece. Errors as for List.
func (o *Objects) ListMetadata(ctx context.Context, resource Resource, sel Selection) ([]metav1.PartialObjectMetadata, error) {
	list, err := o.metadata.Resource(resource.gvr()).Namespace(sel.Namespace).List(ctx,
		metav1.ListOptions{LabelSelector: sel.Labels, FieldSelector: sel.Fields})
	if err == nil && list.Continue != "" {
		err = errOnePage
	}
	if err != nil {
		return nil, readError("list", resource, resource.At(sel.Namespace, ""), err)
	}
	return list.Items, nil
}

// DeleteExactly deletes an object that nothing depends on, under both
// preconditions: the UID, and the resourceVersion of the metadata on which the
// decision rests (B4.3). Errors as for Apply.
func (o *Objects) DeleteExactly(ctx context.Context, v Version) error {
	if err := v.check(); err != nil {
		return err
	}
	uid := types.UID(v.Object.UID)
	background := metav1.DeletePropagationBackground
	err := o.metadata.Resource(v.Resource.gvr()).Namespace(v.Object.Namespace).Delete(ctx, v.Object.Name, metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &uid, ResourceVersion: &v.ResourceVersion},
		PropagationPolicy: &background,
	})
	if err != nil {
		return writeError("delete", v.Resource, v.Object, err)
	}
	return nil
}
