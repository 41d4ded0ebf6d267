// Package rendered renders flux-plunger's chart with Helm's own code and without
// a cluster, as "helm template" does: for the generator of what is derived from
// the chart, and for its tests.
//
// Its invariant: what it returns is what Helm would send, hooks apart. It must
// not import anything of the product.
package rendered

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	release "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// AdmissionPolicyAPI is what a cluster serves that has the admission policy.
const AdmissionPolicyAPI = "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy"

// Options say how to render. The zero value is the chart's defaults.
type Options struct {
	// Name and Namespace are the Helm release's, "flux-plunger" in "flux-system"
	// when empty.
	Name, Namespace string
	// Values override the chart's.
	Values map[string]any
	// NoAdmissionPolicy renders for a cluster that does not serve it.
	NoAdmissionPolicy bool
}

// Chart is what was rendered.
type Chart struct {
	// Objects are those of the release, Hooks the hooks.
	Objects, Hooks []*unstructured.Unstructured
	// Manifest is the text of the objects.
	Manifest string
}

// Load reads the chart in dir.
func Load(dir string) (*chart.Chart, error) {
	loaded, err := loader.Load(dir)
	if err != nil {
		return nil, fmt.Errorf("loading the chart %s: %w", dir, err)
	}
	return loaded, nil
}

// Render renders the chart in dir.
func Render(ctx context.Context, dir string, options Options) (Chart, error) {
	loaded, err := Load(dir)
	if err != nil {
		return Chart{}, err
	}
	install := action.NewInstall(action.NewConfiguration())
	install.DryRunStrategy = action.DryRunClient
	install.ReleaseName, install.Namespace = or(options.Name, "flux-plunger"), or(options.Namespace, "flux-system")
	install.KubeVersion = &common.KubeVersion{Version: "v1.36.0", Major: "1", Minor: "36"}
	if !options.NoAdmissionPolicy {
		install.APIVersions = common.VersionSet{AdmissionPolicyAPI}
	}
	made, err := install.RunWithContext(ctx, loaded, options.Values)
	if err != nil {
		return Chart{}, fmt.Errorf("rendering the chart: %w", err)
	}
	result, ok := made.(*release.Release)
	if !ok {
		return Chart{}, fmt.Errorf("rendering the chart: Helm returned a %T", made)
	}
	rendered := Chart{Manifest: result.Manifest}
	if rendered.Objects, err = Decode([]byte(result.Manifest)); err != nil {
		return Chart{}, err
	}
	for _, hook := range result.Hooks {
		objects, err := Decode([]byte(hook.Manifest))
		if err != nil {
			return Chart{}, err
		}
		rendered.Hooks = append(rendered.Hooks, objects...)
	}
	return rendered, nil
}

// Find returns the one object of a kind and name, nil when there is none.
func (c Chart) Find(kind, name string) *unstructured.Unstructured {
	for _, object := range append(c.Objects, c.Hooks...) {
		if object.GetKind() == kind && object.GetName() == name {
			return object
		}
	}
	return nil
}

// Decode reads a YAML stream; documents of comments only are left out.
func Decode(stream []byte) ([]*unstructured.Unstructured, error) {
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
			return nil, fmt.Errorf("decoding YAML: %w in\n%s", err, document)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

func or(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}
