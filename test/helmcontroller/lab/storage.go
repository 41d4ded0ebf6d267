package lab

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-project/holdfast/test/helmcontroller"
)

// payloadKey is where Helm keeps a release in its Secret.
const payloadKey = "release"

// Damage says what is done to the storage of a release.
type Damage struct {
	// Status is what the latest revision ends up with, "uninstalling" when empty.
	Status string
	// Label is what its label says, the status when empty: with another one the
	// two contradict each other.
	Label string
	// Below, when set, makes a second revision: the first gets this status, and a
	// copy of it, one higher, gets Status.
	Below string
	// Padding adds that many bytes that do not compress to the payload.
	Padding int
	// Unknown is added at the top of the payload, as a field of a later Helm.
	Unknown map[string]any
	// Garbage replaces the payload by bytes that are no release.
	Garbage bool
}

// EffectiveName is the name under which Helm stores the release.
func EffectiveName(hr *helmv2.HelmRelease) string {
	return helmcontroller.ShortenName(hr.GetReleaseName())
}

// Revisions returns the stored revisions of the release, lowest first. It looks
// where the spec says that they are.
func (l *Lab) Revisions(ctx context.Context, hr *helmv2.HelmRelease) ([]corev1.Secret, error) {
	list := &corev1.SecretList{}
	err := l.Client.List(ctx, list, client.InNamespace(hr.GetStorageNamespace()),
		client.MatchingLabels{"owner": "helm", "name": EffectiveName(hr)})
	if err != nil {
		return nil, fmt.Errorf("listing the storage of %s/%s: %w", hr.Namespace, hr.Name, err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Secret) int { return Version(a) - Version(b) })
	return list.Items, nil
}

// Version is the revision number that a storage Secret's label gives.
func Version(s corev1.Secret) int {
	n, err := strconv.Atoi(s.Labels["version"])
	if err != nil {
		return -1
	}
	return n
}

// Decode returns the release in a storage Secret as the JSON it is.
func Decode(s corev1.Secret) (map[string]any, error) {
	zipped, err := base64.StdEncoding.DecodeString(string(s.Data[payloadKey]))
	if err != nil {
		return nil, fmt.Errorf("decoding %s: %w", s.Name, err)
	}
	reader, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		return nil, fmt.Errorf("unpacking %s: %w", s.Name, err)
	}
	plain, err := io.ReadAll(reader)
	if err != nil {
		return nil, fmt.Errorf("unpacking %s: %w", s.Name, err)
	}
	release := map[string]any{}
	if err := json.Unmarshal(plain, &release); err != nil {
		return nil, fmt.Errorf("parsing the release in %s: %w", s.Name, err)
	}
	return release, nil
}

func encode(s *corev1.Secret, release map[string]any) error {
	plain, err := json.Marshal(release)
	if err != nil {
		return fmt.Errorf("encoding the release in %s: %w", s.Name, err)
	}
	var zipped bytes.Buffer
	writer := gzip.NewWriter(&zipped)
	if _, err := writer.Write(plain); err != nil {
		return fmt.Errorf("packing the release in %s: %w", s.Name, err)
	}
	if err := writer.Close(); err != nil {
		return fmt.Errorf("packing the release in %s: %w", s.Name, err)
	}
	s.Data[payloadKey] = []byte(base64.StdEncoding.EncodeToString(zipped.Bytes()))
	return nil
}

// Harm does the damage to the latest stored revision and wakes nobody.
func (l *Lab) Harm(ctx context.Context, key types.NamespacedName, d Damage) error {
	hr, err := l.Release(ctx, key)
	if err != nil {
		return err
	}
	stored, err := l.Revisions(ctx, hr)
	if err != nil {
		return err
	}
	if len(stored) == 0 {
		return fmt.Errorf("HelmRelease %s has no stored revision to damage", key)
	}
	latest := stored[len(stored)-1]
	if d.Below == "" {
		return l.rewrite(ctx, &latest, Version(latest), d)
	}
	upper := latest.DeepCopy()
	lower := Damage{Status: d.Below}
	if err := l.rewrite(ctx, &latest, Version(latest), lower); err != nil {
		return err
	}
	upper.ResourceVersion, upper.UID = "", ""
	return l.rewrite(ctx, upper, Version(latest)+1, d)
}

// rewrite stores the damaged revision, as a new Secret when it has no
// resourceVersion.
func (l *Lab) rewrite(ctx context.Context, s *corev1.Secret, version int, d Damage) error {
	status := d.Status
	if status == "" {
		status = "uninstalling"
	}
	release, err := Decode(*s)
	if err != nil {
		return err
	}
	info, ok := release["info"].(map[string]any)
	if !ok {
		return fmt.Errorf("the release in %s has no info", s.Name)
	}
	info["status"], release["version"] = status, version
	for name, value := range d.Unknown {
		release[name] = value
	}
	if d.Padding > 0 {
		noise := make([]byte, d.Padding*3/4)
		_, _ = rand.Read(noise) // it never fails: the Go runtime ends the program first
		info["notes"] = base64.StdEncoding.EncodeToString(noise)
	}
	if err := encode(s, release); err != nil {
		return err
	}
	if d.Garbage {
		s.Data[payloadKey] = []byte("this is no release")
	}
	s.Name = fmt.Sprintf("sh.helm.release.v1.%s.v%d", s.Labels["name"], version)
	s.Labels["version"], s.Labels["status"] = strconv.Itoa(version), status
	if d.Label != "" {
		s.Labels["status"] = d.Label
	}
	if s.ResourceVersion == "" {
		return l.Client.Create(ctx, s)
	}
	return l.Client.Update(ctx, s)
}

// Stick makes the release stuck as the field does: the damage, then something
// that makes helm-controller look (new values). It waits for the error.
func (l *Lab) Stick(ctx context.Context, key types.NamespacedName, d Damage) error {
	if err := l.Harm(ctx, key, d); err != nil {
		return err
	}
	if err := l.Wake(ctx, key); err != nil {
		return err
	}
	_, err := l.Until(ctx, key, settle, Stuck)
	return err
}

// Remains is what the oracle found of a release.
type Remains struct {
	// Object is whether the HelmRelease exists.
	Object bool
	// Chart are the chart's objects that exist, Storage its stored revisions.
	Chart, Storage []string
}

// Clean reports that nothing is left.
func (r Remains) Clean() bool { return !r.Object && len(r.Chart) == 0 && len(r.Storage) == 0 }

// Orphaned reports that the object went and left something behind.
func (r Remains) Orphaned() bool { return !r.Object && len(r.Chart)+len(r.Storage) > 0 }

// Remains asks the API server what is left of hr, which may be gone: it is used
// for its names only.
func (l *Lab) Remains(ctx context.Context, hr *helmv2.HelmRelease) (Remains, error) {
	var found Remains
	err := l.Client.Get(ctx, client.ObjectKeyFromObject(hr), &helmv2.HelmRelease{})
	if client.IgnoreNotFound(err) != nil {
		return found, fmt.Errorf("asking for HelmRelease %s/%s: %w", hr.Namespace, hr.Name, err)
	}
	found.Object = err == nil
	objects := &corev1.ConfigMapList{}
	if err := l.Client.List(ctx, objects, client.InNamespace(hr.GetReleaseNamespace()), client.MatchingLabels{ReleaseLabel: EffectiveName(hr)}); err != nil {
		return found, fmt.Errorf("listing the objects of %s/%s: %w", hr.Namespace, hr.Name, err)
	}
	for _, object := range objects.Items {
		found.Chart = append(found.Chart, object.Name)
	}
	stored, err := l.Revisions(ctx, hr)
	if err != nil {
		return found, err
	}
	for _, s := range stored {
		found.Storage = append(found.Storage, fmt.Sprintf("v%d %s", Version(s), s.Labels["status"]))
	}
	return found, nil
}
