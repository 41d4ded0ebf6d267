package lab

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"github.com/fluxcd/pkg/apis/meta"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Source is the name of the source that the lab's releases point at.
const Source = "lab"

// settle bounds the wait for what a helm-controller does when nothing is wrong.
const settle = 90 * time.Second

// NewRelease returns a HelmRelease of the lab's source, not created yet.
func NewRelease(key types.NamespacedName, edits ...func(*helmv2.HelmRelease)) *helmv2.HelmRelease {
	hr := &helmv2.HelmRelease{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Spec: helmv2.HelmReleaseSpec{
			Interval: metav1.Duration{Duration: time.Hour},
			Timeout:  &metav1.Duration{Duration: time.Minute},
			ChartRef: &helmv2.CrossNamespaceSourceReference{Kind: "OCIRepository", Name: Source},
			Values:   Values(1),
			// Parsing the API server's whole schema for every chart object is most
			// of what an install costs, and proves nothing here.
			Install: &helmv2.Install{DisableOpenAPIValidation: true},
			Upgrade: &helmv2.Upgrade{DisableOpenAPIValidation: true},
		},
	}
	for _, edit := range edits {
		edit(hr)
	}
	return hr
}

// Values are the lab chart's.
func Values(n int) *apiextensionsv1.JSON {
	return &apiextensionsv1.JSON{Raw: fmt.Appendf(nil, `{"n":%d}`, n)}
}

// Names returns count release keys prefix-0000 and on.
func Names(namespace, prefix string, count int) []types.NamespacedName {
	keys := make([]types.NamespacedName, count)
	for i := range keys {
		keys[i] = types.NamespacedName{Namespace: namespace, Name: fmt.Sprintf("%s-%04d", prefix, i)}
	}
	return keys
}

// Install creates the releases and waits until every one is Ready.
func (l *Lab) Install(ctx context.Context, keys []types.NamespacedName, edits ...func(*helmv2.HelmRelease)) error {
	return Each(keys, func(key types.NamespacedName) error {
		if err := l.Client.Create(ctx, NewRelease(key, edits...)); err != nil {
			return fmt.Errorf("creating HelmRelease %s: %w", key, err)
		}
		_, err := l.Until(ctx, key, settle, Ready)
		return err
	})
}

// Each runs do for every key, eight at a time, and joins what failed.
func Each(keys []types.NamespacedName, do func(types.NamespacedName) error) error {
	failures := make([]error, len(keys))
	slots := make(chan struct{}, 8)
	var all sync.WaitGroup
	for i, key := range keys {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			failures[i] = do(key)
		})
	}
	all.Wait()
	return errors.Join(failures...)
}

// Ask requests a reconcile by annotation and returns the request.
func (l *Lab) Ask(ctx context.Context, key types.NamespacedName, annotations ...string) (string, error) {
	request := time.Now().Format(time.RFC3339Nano)
	return request, l.Edit(ctx, key, func(hr *helmv2.HelmRelease) {
		if hr.Annotations == nil {
			hr.Annotations = map[string]string{}
		}
		for _, name := range append(annotations, meta.ReconcileRequestAnnotation) {
			hr.Annotations[name] = request
		}
	})
}

// Change sets other values, which makes a new generation.
func (l *Lab) Change(ctx context.Context, key types.NamespacedName, n int) error {
	return l.Edit(ctx, key, func(hr *helmv2.HelmRelease) { hr.Spec.Values = Values(n) })
}

// Wake sets values that the release never had, so that helm-controller looks and
// has something to upgrade to.
func (l *Lab) Wake(ctx context.Context, key types.NamespacedName) error {
	hr, err := l.Release(ctx, key)
	if err != nil {
		return err
	}
	return l.Change(ctx, key, int(hr.Generation)+1)
}

// Edit sends the difference that edit makes as a merge patch, as a user does.
func (l *Lab) Edit(ctx context.Context, key types.NamespacedName, edit func(*helmv2.HelmRelease)) error {
	hr, err := l.Release(ctx, key)
	if err != nil {
		return err
	}
	before := hr.DeepCopy()
	edit(hr)
	if err := l.Client.Patch(ctx, hr, client.MergeFrom(before), client.FieldOwner("lab-user")); err != nil {
		return fmt.Errorf("changing HelmRelease %s: %w", key, err)
	}
	return nil
}
