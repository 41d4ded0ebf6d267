package plunger

import (
	"context"
	"fmt"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-project/holdfast/internal/plunger/gather"
)

// claimIndex finds the releases that name the same release in the same storage.
const claimIndex = "holdfast.claim"

func indexClaims(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, &helmv2.HelmRelease{}, claimIndex, func(object client.Object) []string {
		release, ok := object.(*helmv2.HelmRelease)
		if !ok {
			return nil
		}
		return []string{gather.FromHelmRelease(release).Claim()}
	})
}

// cacheOptions narrows the cache to HelmReleases that are watched, without what
// no look needs. Nothing else is ever cached: the reads of Secrets are live, and
// an informer on them would need the right to watch.
func cacheOptions(namespace string, selector labels.Selector) cache.Options {
	options := cache.Options{ByObject: map[client.Object]cache.ByObject{
		&helmv2.HelmRelease{}: {Label: selector, Transform: slim},
	}}
	if namespace != "" {
		options.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	}
	return options
}

// slim drops what the decision does not read from a cached release: its values,
// their copy in an annotation and the inventory are most of it, and there may be
// thousands.
func slim(object any) (any, error) {
	release, ok := object.(*helmv2.HelmRelease)
	if !ok {
		return nil, fmt.Errorf("caching a release: it is a %T", object)
	}
	spec := release.Spec
	release.Spec = helmv2.HelmReleaseSpec{
		ReleaseName: spec.ReleaseName, TargetNamespace: spec.TargetNamespace, StorageNamespace: spec.StorageNamespace,
		Suspend: spec.Suspend, KubeConfig: spec.KubeConfig, Uninstall: spec.Uninstall,
	}
	release.Status.Inventory = nil
	release.ManagedFields = gather.Relevant(release.ManagedFields)
	release.Labels, release.Annotations = nil, gather.Noted(release.Annotations)
	return release, nil
}
