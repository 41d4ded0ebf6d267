package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/internal/identity"
)

// pageSize is how many objects one page of a list holds.
const pageSize = 500

// Observe reads the metadata of whatever has this name now; place's UID is not
// looked at. What it finds proves nothing about who made it.
func (c *Client) Observe(ctx context.Context, place identity.Object) Observation {
	place = place.Place()
	if place.Name == "" {
		// Without a name the request would list the collection.
		return Observation{Err: &NotSent{Answer{Verb: "get", Object: place}, errors.New("it has no name")}}
	}
	got := c.send(ctx, call{verb: "get", object: place, name: place.Name, accept: acceptMetadata})
	return observe(place, got)
}

// observe says what a read of one name established (A6.2a).
func observe(place identity.Object, got answer) Observation {
	if err := readVerdict(got); err != nil {
		var gone *Gone
		if errors.As(err, &gone) {
			return Observation{Presence: Absent, Err: err}
		}
		return Observation{Err: err}
	}
	meta, err := got.meta(place)
	if err != nil {
		return Observation{Err: &Unreadable{got.about(metav1.Status{}), err}}
	}
	return Observation{Presence: Present, Meta: meta}
}

// ClusterIdentity reads the Namespaces whose UIDs tell one cluster, and one life
// of a namespace, from another (A3.9, A6.2).
func (c *Client) ClusterIdentity(ctx context.Context, namespace string) ClusterReading {
	return ClusterReading{
		Namespace:  c.Observe(ctx, identity.Object{APIVersion: "v1", Kind: "Namespace", Name: namespace}),
		KubeSystem: c.Observe(ctx, identity.Object{APIVersion: "v1", Kind: "Namespace", Name: "kube-system"}),
	}
}

// Pods lists the metadata of every Pod of a namespace: cleanup looks for owners
// and children by UID and never selects by label (A6.3).
func (c *Client) Pods(ctx context.Context, namespace string) ([]Meta, error) {
	return c.List(ctx, "v1", "Pod", namespace, "")
}

// List returns the metadata of a namespace's objects of one kind, those of a
// label selector only unless it is empty. An error means that the list is not
// known to be whole.
func (c *Client) List(ctx context.Context, apiVersion, kind, namespace, labelSelector string) ([]Meta, error) {
	listed := identity.Object{APIVersion: apiVersion, Kind: kind, Namespace: namespace}
	items, err := list[metav1.PartialObjectMetadata](ctx, c, listing{of: listed, metadata: true, labels: labelSelector})
	if err != nil {
		return nil, err
	}
	metas := make([]Meta, 0, len(items))
	for i := range items {
		place := listed
		place.Name = items[i].Name
		if place.Name == "" || items[i].Namespace != namespace || !identity.ValidUID(string(items[i].UID)) {
			return nil, &Unreadable{Answer{Verb: "list", Object: listed, Code: http.StatusOK}, fmt.Errorf("the list holds an object %q of namespace %q with UID %q", place.Name, items[i].Namespace, items[i].UID)}
		}
		metas = append(metas, metaOf(place, &items[i].ObjectMeta))
	}
	return metas, nil
}

// listing is what to list, of one namespace.
type listing struct {
	of       identity.Object
	metadata bool
	labels   string
	fields   string
}

// page is one page of a list of anything.
type page[T any] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []T `json:"items"`
}

// errSelfPage: a server or a proxy that ignores the continue token answers for ever.
var errSelfPage = errors.New("a page of the list refers to itself")

// list reads all pages of one list. The first page fixes the state that the
// others are read at; should that expire, the whole list is an error. How many
// pages there are is the server's word: the caller's context bounds them.
func list[T any](ctx context.Context, c *Client, want listing) ([]T, error) {
	request := call{verb: "list", object: want.of, accept: acceptObject, limit: pageLimit}
	kind, apiVersion := want.of.Kind+"List", want.of.APIVersion
	if want.metadata {
		request.accept, kind, apiVersion = acceptList, "PartialObjectMetadataList", "meta.k8s.io/v1"
	}
	var items []T
	for token := ""; ; {
		request.query = query("limit", strconv.Itoa(pageSize), "labelSelector", want.labels, "fieldSelector", want.fields, "continue", token)
		got := c.send(ctx, request)
		if err := readVerdict(got); err != nil {
			return nil, err
		}
		var one page[T]
		err := got.decode(&one)
		if err == nil && (one.Kind != kind || one.APIVersion != apiVersion) {
			// An empty object, or a gateway's page, is not an empty list.
			err = fmt.Errorf("the answer holds a %q of %q", one.Kind, one.APIVersion)
		}
		if err != nil {
			return nil, &Unreadable{got.about(metav1.Status{}), err}
		}
		items = append(items, one.Items...)
		switch one.Continue {
		case "":
			return items, nil
		case token:
			return nil, &Unreadable{got.about(metav1.Status{}), errSelfPage}
		}
		token = one.Continue
	}
}

// query pairs names with values and leaves out the empty ones.
func query(pairs ...string) (parameters [][2]string) {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			parameters = append(parameters, [2]string{pairs[i], pairs[i+1]})
		}
	}
	return parameters
}

// May asks the API server for each permission and returns those that are denied
// (A1.6). It needs no permission itself.
func (c *Client) May(ctx context.Context, permissions []Permission) (denied []Permission, err error) {
	for _, p := range permissions {
		allowed, err := c.may(ctx, p)
		if err != nil {
			return nil, err
		}
		if !allowed {
			denied = append(denied, p)
		}
	}
	return denied, nil
}

func (c *Client) may(ctx context.Context, p Permission) (bool, error) {
	review := authorizationv1.SelfSubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"},
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: p.Namespace, Verb: p.Verb, Group: p.Group, Resource: p.Resource, Subresource: p.Subresource, Name: p.Name,
		}},
	}
	body, err := json.Marshal(review)
	if err != nil {
		return false, fmt.Errorf("encoding an access review: %w", err)
	}
	object := identity.Object{APIVersion: review.APIVersion, Kind: review.Kind}
	got := c.send(ctx, call{verb: "create", object: object, accept: acceptObject, contentType: jsonBody, body: body})
	if err := writeVerdict(got); err != nil {
		return false, fmt.Errorf("asking whether %s on %s is allowed: %w", p.Verb, p.Resource, err)
	}
	var answered authorizationv1.SelfSubjectAccessReview
	if err := got.decode(&answered); err != nil || answered.Kind != review.Kind {
		return false, &Unreadable{got.about(metav1.Status{}), errors.Join(err, errors.New("the answer is not an access review"))}
	}
	return answered.Status.Allowed, nil
}
