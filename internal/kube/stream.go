package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/internal/apipath"
)

// List hands whole objects to take, as JSON and one by one as they arrive. It holds
// one of them at a time, and neither a page nor its maps: an object can be a megabyte,
// there can be thousands, and the caller has a limit. After an error what was taken is
// not the list. Errors: *Refused, *Unreadable, which wraps an error of take.
func (o *Objects) List(ctx context.Context, resource Resource, sel Selection, take func(object []byte) error) error {
	place := resource.At(sel.Namespace, "")
	for token := ""; ; {
		head, err := o.listPage(ctx, resource, sel, token, take)
		if err == nil && head.Continue != "" && head.Continue == token {
			err = errSelfPage
		}
		if err != nil {
			return readError("list", resource, place, err)
		}
		if head.Continue == "" {
			return nil
		}
		token = head.Continue
	}
}

// listPage reads one page.
func (o *Objects) listPage(ctx context.Context, resource Resource, sel Selection, token string, take func([]byte) error) (head listHead, err error) {
	place := apipath.Resource{Group: resource.Group, Version: resource.Version, Plural: resource.Plural}
	request := o.rest.Get().AbsPath(place.Root()).NamespaceIfScoped(sel.Namespace, sel.Namespace != "").Resource(resource.Plural)
	for _, parameter := range query("limit", strconv.Itoa(pageSize), "labelSelector", sel.Labels, "fieldSelector", sel.Fields, "continue", token) {
		request = request.Param(parameter[0], parameter[1])
	}
	body, err := request.SetHeader("Accept", acceptObject).Stream(ctx)
	if err != nil {
		return head, err
	}
	defer func() { _ = body.Close() }()
	if head, err = readList(body, take); err != nil {
		return head, err
	}
	if head.Kind != resource.Kind+"List" || head.APIVersion != resource.APIVersion() {
		// An empty object, or a gateway's page, is not an empty list.
		return head, fmt.Errorf("the answer holds a %q of %q", head.Kind, head.APIVersion)
	}
	return head, nil
}

// listHead is what a list is beside its items.
type listHead struct {
	metav1.TypeMeta
	metav1.ListMeta
}

// errNoList says no more: the decoder's own message can quote the answer.
var errNoList = errors.New("the answer is not the list that was asked for, or is cut off")

// readList reads one page to its end, in whatever order its members come.
func readList(body io.Reader, take func([]byte) error) (head listHead, err error) {
	decoder := json.NewDecoder(body)
	if !next(decoder, json.Delim('{')) {
		return head, errNoList
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return head, errNoList
		}
		var skipped json.RawMessage
		into := any(&skipped)
		switch name {
		case "kind":
			into = &head.Kind
		case "apiVersion":
			into = &head.APIVersion
		case "metadata":
			into = &head.ListMeta
		case "items":
			if err := readItems(decoder, take); err != nil {
				return head, err
			}
			continue
		}
		if decoder.Decode(into) != nil {
			return head, errNoList
		}
	}
	if !next(decoder, json.Delim('}')) {
		return head, errNoList
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return head, errNoList
	}
	return head, nil
}

// readItems reads the items; null is how the API server writes none of a typed kind.
func readItems(decoder *json.Decoder, take func([]byte) error) error {
	switch begin, err := decoder.Token(); {
	case err != nil || begin != nil && begin != json.Delim('['):
		return errNoList
	case begin == nil:
		return nil
	}
	for decoder.More() {
		var item json.RawMessage
		if decoder.Decode(&item) != nil {
			return errNoList
		}
		if err := take(item); err != nil {
			return err
		}
	}
	if !next(decoder, json.Delim(']')) {
		return errNoList
	}
	return nil
}

// next reports whether the decoder's next token is this one.
func next(decoder *json.Decoder, want json.Delim) bool {
	got, err := decoder.Token()
	return err == nil && got == want
}
