package kube

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Leases is the coordination Lease.
func Leases() Resource {
	return Resource{Group: "coordination.k8s.io", Version: "v1", Plural: "leases", Kind: "Lease"}
}

// LeaseHolder returns who holds a Lease, empty when nobody does. Errors as for
// Get.
func (o *Objects) LeaseHolder(ctx context.Context, namespace, name string) (string, error) {
	lease, err := o.Get(ctx, Leases(), namespace, name)
	if err != nil {
		return "", err
	}
	holder, _, _ := unstructured.NestedString(lease.Object, "spec", "holderIdentity")
	return holder, nil
}

// ReleaseLease gives up a Lease that names the holder, in one update on the
// resourceVersion that said so (B6.6): the next candidate takes it at its next
// try. A Lease that names somebody else is left alone, with an error. Errors as
// for Apply.
func (o *Objects) ReleaseLease(ctx context.Context, namespace, name, holder string) error {
	lease, err := o.Get(ctx, Leases(), namespace, name)
	if err != nil {
		return err
	}
	if named, _, _ := unstructured.NestedString(lease.Object, "spec", "holderIdentity"); named != holder || holder == "" {
		return fmt.Errorf("giving up Lease %s/%s: it names %q, not us", namespace, name, named)
	}
	if err := unstructured.SetNestedField(lease.Object, "", "spec", "holderIdentity"); err != nil {
		return fmt.Errorf("giving up Lease %s/%s: %w", namespace, name, err)
	}
	if err := unstructured.SetNestedField(lease.Object, int64(1), "spec", "leaseDurationSeconds"); err != nil {
		return fmt.Errorf("giving up Lease %s/%s: %w", namespace, name, err)
	}
	_, err = o.dynamic.Resource(Leases().gvr()).Namespace(namespace).Update(ctx, lease, metav1.UpdateOptions{FieldManager: o.manager})
	if err != nil {
		return writeError("update", Leases(), Leases().At(namespace, name), err)
	}
	return nil
}
