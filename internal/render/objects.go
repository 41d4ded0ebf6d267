package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-project/holdfast/internal/identity"
)

// object is one document of the rendered chart.
type object struct {
	unstructured.Unstructured
	// path is the template that rendered it, for messages.
	path string
}

// parseObjects splits what Helm rendered into objects, the chart's hooks among
// them (a migration is often one) but for its tests, which an upgrade does not
// run. Objects of other namespaces are dropped: nothing of a preflight comes
// from there and no selector reaches from there into ours.
func parseObjects(files map[string]string, namespace string) ([]object, error) {
	var objects []object
	for _, path := range sources(files) {
		docs := releaseutil.SplitManifests(files[path])
		keys := slices.Collect(maps.Keys(docs))
		slices.SortFunc(keys, compareDocs)
		for _, key := range keys {
			parsed, err := parseDocument(path, docs[key])
			if err != nil {
				return nil, err
			}
			objects = append(objects, parsed...)
		}
	}
	return slices.DeleteFunc(objects, func(o object) bool {
		foreign := o.GetNamespace() != "" && o.GetNamespace() != namespace
		return foreign || strings.HasPrefix(o.GetAnnotations()["helm.sh/hook"], "test")
	}), nil
}

// compareDocs puts "manifest-2" before "manifest-10".
func compareDocs(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

// parseDocument returns no object for a document of comments only, and the
// items of a List. It quotes nothing of the document: it may be a Secret.
func parseDocument(path, doc string) ([]object, error) {
	asJSON, err := yaml.YAMLToJSON([]byte(doc))
	if err != nil {
		return nil, refuse("chart", "%s does not render to valid YAML; helm template shows where", path)
	}
	if string(asJSON) == "null" {
		return nil, nil
	}
	var parsed unstructured.Unstructured
	if err := parsed.UnmarshalJSON(asJSON); err != nil {
		return nil, refuse("chart", "%s renders a document that is no Kubernetes object", path)
	}
	if !parsed.IsList() {
		return []object{{Unstructured: parsed, path: path}}, nil
	}
	var items []object
	err = parsed.EachListItem(func(item runtime.Object) error {
		u, ok := item.(*unstructured.Unstructured)
		// A document without a kind is refused by its decoder, an item is not.
		if !ok || u.GetKind() == "" {
			return errors.New("an item without a kind")
		}
		items = append(items, object{Unstructured: *u, path: path})
		return nil
	})
	if err != nil {
		return nil, refuse("chart", "%s renders a List whose items are no Kubernetes objects", path)
	}
	return items, nil
}

// findOne returns the only object of the kind that carries the component label.
// Two are refused like none: to pick one would be a guess.
func findOne(objects []object, kind, component string) (object, error) {
	var found []object
	for _, o := range objects {
		if o.GetKind() == kind && o.GetLabels()[identity.ComponentLabel] == component {
			found = append(found, o)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return object{}, refuse("chart", "it renders no %s with the label %s=%s, which the profile names", kind, identity.ComponentLabel, component)
	default:
		return object{}, refuse("chart", "it renders %s and %s, both a %s with the label %s=%s; the profile cannot mean both",
			found[0].GetName(), found[1].GetName(), kind, identity.ComponentLabel, component)
	}
}

// decodeStrict decodes a part of an object into a Kubernetes type. A field that
// the type does not know is refused: dropping it silently would test something
// else than the chart deploys.
func (o object) decodeStrict(into any, fields ...string) error {
	part, found, err := unstructured.NestedFieldNoCopy(o.Object, fields...)
	at := strings.Join(fields, ".")
	if err != nil || !found {
		return refuse("chart", "%s %s in %s has no %s", o.GetKind(), o.GetName(), o.path, at)
	}
	data, err := json.Marshal(part)
	if err != nil {
		return fmt.Errorf("encoding %s of %s %s: %w", at, o.GetKind(), o.GetName(), err)
	}
	unknown, err := strictjson.UnmarshalStrict(data, into)
	if err != nil {
		return refuse("chart", "%s %s in %s has an invalid %s", o.GetKind(), o.GetName(), o.path, at)
	}
	if len(unknown) > 0 {
		return refuse("chart", "%s %s in %s: %s: %v", o.GetKind(), o.GetName(), o.path, at, unknown[0])
	}
	return nil
}
