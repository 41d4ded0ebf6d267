package kube

import (
	"context"
	"encoding/base64"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Secrets is the core Secret.
func Secrets() Resource { return Resource{Version: "v1", Plural: "secrets", Kind: "Secret"} }

// Secret is one Secret with its contents. Its fields are private and its String
// names it only, so that no log or error can show what is in it.
type Secret struct{ object *unstructured.Unstructured }

// Version names the Secret as it was read; one that was not read has no UID, and
// nothing can be written on it.
func (s Secret) Version() Version {
	if s.object == nil {
		return Version{Resource: Secrets()}
	}
	return Secrets().Named(s.object)
}

// String names the Secret and shows none of its contents.
func (s Secret) String() string {
	if s.object == nil {
		return "Secret (unread)"
	}
	return s.Version().Object.String()
}

// GoString is String: %#v shows no contents either.
func (s Secret) GoString() string { return s.String() }

// Type returns the Secret's type.
func (s Secret) Type() string {
	kind, _, _ := unstructured.NestedString(s.object.Object, "type")
	return kind
}

// Labels returns a copy of its labels.
func (s Secret) Labels() map[string]string { return s.object.GetLabels() }

// Data returns one value, decoded from the API's base64.
func (s Secret) Data(key string) ([]byte, error) {
	text, found, err := unstructured.NestedString(s.object.Object, "data", key)
	if err != nil || !found {
		return nil, fmt.Errorf("reading %s: it has no value %q", s, key)
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		// The error of base64 may quote a byte of the value.
		return nil, fmt.Errorf("reading %s: value %q is no base64", s, key)
	}
	return raw, nil
}

// GetSecret reads one Secret with its contents. Errors as for Get.
func (o *Objects) GetSecret(ctx context.Context, namespace, name string) (Secret, error) {
	object, err := o.Get(ctx, Secrets(), namespace, name)
	if err != nil {
		return Secret{}, err
	}
	return Secret{object}, nil
}

// SecretChange is what UpdateSecret changes; everything else of the Secret,
// known to us or not, is sent back as it was read.
type SecretChange struct {
	Data   map[string][]byte
	Labels map[string]string
}

// UpdateSecret replaces a Secret by what was read with the change, in one PUT
// preconditioned on the UID and the resourceVersion of that read (B10.1). The
// answer is metadata: the contents do not come back to the caller. Errors as for
// Apply.
func (o *Objects) UpdateSecret(ctx context.Context, read Secret, change SecretChange) (Version, error) {
	v := read.Version()
	if err := v.check(); err != nil {
		return Version{}, err
	}
	next := read.object.DeepCopy()
	for key, value := range change.Data {
		if err := unstructured.SetNestedField(next.Object, base64.StdEncoding.EncodeToString(value), "data", key); err != nil {
			return Version{}, fmt.Errorf("updating %s: setting value %q", read, key)
		}
	}
	labels := next.GetLabels()
	for key, value := range change.Labels {
		if labels == nil {
			labels = map[string]string{}
		}
		labels[key] = value
	}
	next.SetLabels(labels)
	answer, err := o.dynamic.Resource(v.Resource.gvr()).Namespace(v.Object.Namespace).
		Update(ctx, next, metav1.UpdateOptions{FieldManager: o.manager})
	if err != nil {
		return Version{}, writeError("update", v.Resource, v.Object, err)
	}
	v.ResourceVersion = answer.GetResourceVersion()
	return v, nil
}
