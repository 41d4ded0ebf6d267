// Package gather reads, live, what a decision about a HelmRelease rests on, and
// turns it into the plain values of package decide.
//
// Its invariants: every read goes to the API server, never to a cache (B1.2);
// storage is read as metadata, and a payload only where the decision asked for
// it; what is absent becomes nil, what could not be read becomes an error and
// never an absence. Reconciler, drain and commands share it.
//
// It must not import a cache or a manager, and it writes nothing.
package gather

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
	"github.com/holdfast-project/holdfast/internal/plunger/payload"
)

// SecretType is the type of Helm's storage Secrets.
const SecretType = "helm.sh/release.v1"

// HelmReleases is the resource that flux-plunger watches.
func HelmReleases() kube.Resource {
	return kube.Resource{Group: helmv2.GroupVersion.Group, Version: helmv2.GroupVersion.Version,
		Plural: "helmreleases", Kind: helmv2.HelmReleaseKind}
}

// Version names a release as it was read, for a write that rests on that read.
func Version(r decide.Release) kube.Version {
	object := HelmReleases().At(r.Namespace, r.Name)
	object.UID = r.UID
	return kube.Version{Resource: HelmReleases(), Object: object, ResourceVersion: r.ResourceVersion}
}

// Reader reads live.
type Reader struct{ objects *kube.Objects }

// NewReader returns a Reader over the client.
func NewReader(objects *kube.Objects) Reader { return Reader{objects} }

// Release reads a HelmRelease; nil when there is none.
func (r Reader) Release(ctx context.Context, namespace, name string) (*decide.Release, error) {
	object, err := r.objects.Get(ctx, HelmReleases(), namespace, name)
	var gone *kube.Gone
	if errors.As(err, &gone) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading HelmRelease %s/%s: %w", namespace, name, err)
	}
	return FromUnstructured(object)
}

// Releases lists the HelmReleases of one namespace, or of all with "", that a
// label selector matches.
func (r Reader) Releases(ctx context.Context, namespace, selector string) ([]decide.Release, error) {
	var releases []decide.Release
	err := r.objects.List(ctx, HelmReleases(), kube.Selection{Namespace: namespace, Labels: selector}, func(object []byte) error {
		release, err := fromJSON(object)
		if err == nil {
			releases = append(releases, *release)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing HelmReleases: %w", err)
	}
	return releases, nil
}

// Storage lists the stored revisions of a release by Helm's labels and the type
// of its Secrets, as metadata (B1.2).
func (r Reader) Storage(ctx context.Context, release decide.Release) (*decide.Storage, error) {
	selector := labels.Set{"owner": "helm", "name": release.ReleaseName()}.AsSelector().String()
	items, err := r.objects.ListMetadata(ctx, kube.Secrets(), kube.Selection{
		Namespace: release.StorageNamespace(), Labels: selector, Fields: "type=" + SecretType})
	if err != nil {
		return nil, fmt.Errorf("listing the storage of release %s: %w", release.Ref(), err)
	}
	storage := &decide.Storage{}
	for i := range items {
		storage.Revisions = append(storage.Revisions, revisionOf(&items[i]))
	}
	slices.SortFunc(storage.Revisions, func(a, b decide.Revision) int { return b.Version - a.Version })
	return storage, nil
}

// Recheck asks, by name, whether the latest revision is still there under its
// UID and still the latest, and returns the storage as it is now known (B1.2,
// B4.3). It is nil where a later revision exists by now: then everything is to
// be listed again.
func (r Reader) Recheck(ctx context.Context, storage decide.Storage, revision decide.Revision) (*decide.Storage, error) {
	later, err := r.revision(ctx, revision.Namespace, followingName(revision))
	if err != nil {
		return nil, err
	}
	if later != nil {
		return nil, nil
	}
	again, err := r.revision(ctx, revision.Namespace, revision.Name)
	if err != nil {
		return nil, err
	}
	if again == nil || again.UID != revision.UID {
		next := storage.Without(revision.UID)
		return &next, nil
	}
	next := storage
	next.Revisions = slices.Clone(storage.Revisions)
	for i := range next.Revisions {
		if next.Revisions[i].UID == again.UID {
			next.Revisions[i] = *again
		}
	}
	next.Rechecked = true
	return &next, nil
}

// followingName is the name that Helm gives the Secret of the next revision.
func followingName(r decide.Revision) string {
	return fmt.Sprintf("%s.v%d", strings.TrimSuffix(r.Name, fmt.Sprintf(".v%d", r.Version)), r.Version+1)
}

// revision reads one Secret's metadata; nil when there is none.
func (r Reader) revision(ctx context.Context, namespace, name string) (*decide.Revision, error) {
	meta, err := r.objects.GetMetadata(ctx, kube.Secrets(), namespace, name)
	var gone *kube.Gone
	if errors.As(err, &gone) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s/%s: %w", namespace, name, err)
	}
	revision := revisionOf(meta)
	return &revision, nil
}

// Payload reads the content of the latest revision for repair. It returns the
// Secret too, since a rewrite is preconditioned on this very read.
func (r Reader) Payload(ctx context.Context, revision decide.Revision) (*decide.Payload, kube.Secret, error) {
	secret, err := r.objects.GetSecret(ctx, revision.Namespace, revision.Name)
	if err != nil {
		return nil, kube.Secret{}, fmt.Errorf("reading the latest revision: %w", err)
	}
	read := &decide.Payload{UID: secret.Version().Object.UID}
	content, err := secret.Data(payload.Key)
	if err == nil {
		read.Status, err = payload.Status(content)
	}
	if err != nil {
		read.Undecodable = err.Error()
	}
	return read, secret, nil
}

// revisionOf turns a Secret's metadata into a revision. One whose version label
// is no number is not a revision that Helm's labels describe: it counts as
// stored, so that an uninstall is not called proven over it, but sorts below
// every other and has no status, so that nothing is ever decided on it.
func revisionOf(meta *metav1.PartialObjectMetadata) decide.Revision {
	revision := decide.Revision{Namespace: meta.Namespace, Name: meta.Name, UID: string(meta.UID), ResourceVersion: meta.ResourceVersion,
		Created: meta.CreationTimestamp.Time}
	version, err := strconv.Atoi(meta.Labels["version"])
	if err != nil || version < 1 {
		return revision
	}
	revision.Version, revision.Status = version, meta.Labels["status"]
	revision.RepairedByUs = decide.RepairedByUs(managers(meta.ManagedFields))
	return revision
}

// FromUnstructured turns an answer of the API server into a decision's input.
func FromUnstructured(object *unstructured.Unstructured) (*decide.Release, error) {
	raw, err := object.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("reading HelmRelease %s/%s: %w", object.GetNamespace(), object.GetName(), err)
	}
	return fromJSON(raw)
}

func fromJSON(raw []byte) (*decide.Release, error) {
	var release helmv2.HelmRelease
	if err := json.Unmarshal(raw, &release); err != nil {
		return nil, fmt.Errorf("reading HelmRelease %s/%s: %w", release.Namespace, release.Name, err)
	}
	view := FromHelmRelease(&release)
	return &view, nil
}
