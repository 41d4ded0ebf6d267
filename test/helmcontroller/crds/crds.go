// Package crds owns the custom resource definitions that the tests install:
// HelmRelease, OCIRepository and HelmChart, generated from the API modules in
// go.mod, so that their validation, their defaults and their status
// subresources are the ones a cluster with Flux has. Descriptions are left out,
// because nothing validates by them.
//
// Its invariant: nothing in the definitions is written by hand. It must not
// import any package of the preflight or of flux-plunger.
package crds

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// The generator comes from a module of its own, so that its dependencies never
// enter the product's; the packages are loaded through the root module, so that
// the definitions belong to the very versions the product is built with.
//
//go:generate go tool -modfile=tools/go.mod controller-gen crd:crdVersions=v1,maxDescLen=0 paths=github.com/fluxcd/helm-controller/api/v2 paths=github.com/fluxcd/source-controller/api/v1 output:crd:dir=.
//go:generate rm -f source.toolkit.fluxcd.io_buckets.yaml source.toolkit.fluxcd.io_externalartifacts.yaml source.toolkit.fluxcd.io_gitrepositories.yaml source.toolkit.fluxcd.io_helmrepositories.yaml

//go:embed *.yaml
var files embed.FS

// established bounds the wait for the API server to serve a new kind; it needs
// well under a second, and more means that it refused a name.
const established = 30 * time.Second

// Install creates the definitions in the cluster of config, which needs the
// right to do so, and returns when every one of them is served. Definitions that
// are there already are left as they are.
func Install(ctx context.Context, config *rest.Config) error {
	c, err := client.New(config, client.Options{})
	if err != nil {
		return fmt.Errorf("building a client for the definitions: %w", err)
	}
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		return fmt.Errorf("listing the embedded definitions: %w", err)
	}
	for _, name := range names {
		definition, err := read(name)
		if err != nil {
			return err
		}
		if err := c.Create(ctx, definition); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating %s: %w", name, err)
		}
		if err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, established, true, func(ctx context.Context) (bool, error) {
			err := c.Get(ctx, client.ObjectKeyFromObject(definition), definition)
			return isEstablished(definition), err
		}); err != nil {
			return fmt.Errorf("waiting for %s to be served: %w", name, err)
		}
	}
	return nil
}

func read(name string) (*unstructured.Unstructured, error) {
	data, err := files.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("reading embedded %s: %w", name, err)
	}
	definition := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(data, &definition.Object); err != nil {
		return nil, fmt.Errorf("parsing embedded %s: %w", name, err)
	}
	return definition, nil
}

func isEstablished(definition *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(definition.Object, "status", "conditions")
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		if condition["type"] == "Established" && condition["status"] == "True" {
			return true
		}
	}
	return false
}
