package plunger

import (
	"bytes"
	"context"
	"fmt"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-project/holdfast/internal/plunger/contract"
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
	release.ManagedFields = relevant(release.ManagedFields)
	release.Labels, release.Annotations = nil, noted(release.Annotations)
	return release, nil
}

// noted keeps the annotations that a decision reads: ours and Flux's requests.
// kubectl's copy of the last applied manifest is as large as the values.
func noted(annotations map[string]string) map[string]string {
	kept := map[string]string{}
	for _, key := range []string{contract.ProcessedVersion, contract.ProcessedUID, contract.Reminders, contract.RequestedUID, contract.Unproven, contract.RequestedAt} {
		if value, found := annotations[key]; found {
			kept[key] = value
		}
	}
	return kept
}

// relevant keeps the managers that can say whose a suspension is.
func relevant(entries []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	var kept []metav1.ManagedFieldsEntry
	for _, entry := range entries {
		if entry.Manager == contract.FieldManager || entry.FieldsV1 != nil && bytes.Contains(entry.FieldsV1.GetRawBytes(), []byte(`"f:suspend"`)) {
			kept = append(kept, entry)
		}
	}
	return kept
}
