package main

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-project/holdfast/test/chart/rendered"
)

// kustomizeDir is where the Kustomize form is, below the repository's root.
const kustomizeDir = "config/flux-plunger"

const kustomization = `# Generated from charts/flux-plunger by "make chart".
#
# There are no hooks without Helm: before you delete these objects, run
# "flux-plunger release-fences --namespace flux-system --pod-selector ` + podSelector + `",
# or releases that still carry a fence stay Terminating when they are deleted.
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: flux-system
resources:
  - flux-plunger.yaml
`

const podSelector = "app.kubernetes.io/name=flux-plunger,app.kubernetes.io/component=controller"

// kustomize renders the chart's defaults without the hook, and without what says
// that Helm manages the objects.
func kustomize(ctx context.Context, dir string) (map[string][]byte, error) {
	chart, err := rendered.Render(ctx, dir, rendered.Options{Values: map[string]any{"preDeleteHook": map[string]any{"enabled": false}}})
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.WriteString("# Generated from charts/flux-plunger by \"make chart\".\n")
	for _, object := range chart.Objects {
		withoutHelm(object)
		text, err := yaml.Marshal(object.Object)
		if err != nil {
			return nil, fmt.Errorf("encoding %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		out.WriteString("---\n")
		out.Write(text)
	}
	return map[string][]byte{
		filepath.Join(kustomizeDir, "flux-plunger.yaml"):  out.Bytes(),
		filepath.Join(kustomizeDir, "kustomization.yaml"): []byte(kustomization),
	}, nil
}

func withoutHelm(object *unstructured.Unstructured) {
	labels := object.GetLabels()
	delete(labels, "helm.sh/chart")
	delete(labels, "app.kubernetes.io/managed-by")
	object.SetLabels(labels)
}
