package helmcontroller

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"github.com/opencontainers/go-digest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	releaser "helm.sh/helm/v4/pkg/release"
	release "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
)

// Helm's bound on a release name and the form that helm-controller gives to a
// longer one.
const (
	maxNameLength   = 53
	keptNameLength  = 40
	nameDigestChars = 12
)

// ShortenName returns the name under which Helm stores a release that is asked
// for as name: longer than 53 characters, it is the first 40, a dash and the
// first 12 hex digits of its SHA-256.
func ShortenName(name string) string {
	if len(name) <= maxNameLength {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return name[:keptNameLength] + "-" + hex.EncodeToString(sum[:])[:nameDigestChars]
}

// observation is what is remembered of a stored release: enough to recognise
// that anybody else has changed it since.
type observation struct {
	Name      string
	Namespace string
	Version   int
	Status    string
	Chart     string
	ChartVer  string
	AppVer    string
	Config    map[string]any
	Manifest  string
	Hooks     []*release.Hook

	first, last, deleted metav1.Time
}

func observe(stored releaser.Releaser) observation {
	rel, ok := stored.(*release.Release)
	if !ok || rel == nil {
		return observation{}
	}
	o := observation{Name: rel.Name, Namespace: rel.Namespace, Version: rel.Version, Config: rel.Config, Manifest: rel.Manifest, Hooks: rel.Hooks}
	if rel.Info != nil {
		o.Status = rel.Info.Status.String()
		o.first, o.last, o.deleted = metav1.NewTime(rel.Info.FirstDeployed), metav1.NewTime(rel.Info.LastDeployed), metav1.NewTime(rel.Info.Deleted)
	}
	if rel.Chart != nil && rel.Chart.Metadata != nil {
		o.Chart, o.ChartVer, o.AppVer = rel.Chart.Metadata.Name, rel.Chart.Metadata.Version, rel.Chart.Metadata.AppVersion
	}
	return o
}

func (o observation) digest() string {
	if len(o.Config) == 0 {
		o.Config = nil // the storage does not tell empty from absent
	}
	hooks := make([]release.Hook, 0, len(o.Hooks))
	for _, hook := range o.Hooks {
		hooks = append(hooks, release.Hook{Name: hook.Name, Kind: hook.Kind, Path: hook.Path, Manifest: hook.Manifest})
	}
	data, err := json.Marshal(struct {
		observation
		Hooks []release.Hook
	}{o, hooks})
	if err != nil {
		// Everything in a release came out of JSON or goes into it.
		panic(fmt.Sprintf("encoding an observed release: %v", err))
	}
	return digest.FromBytes(data).String()
}

func (o observation) snapshot(sourceDigest string) *helmv2.Snapshot {
	config, err := json.Marshal(o.Config)
	if err != nil {
		panic(fmt.Sprintf("encoding observed values: %v", err)) // as above
	}
	return &helmv2.Snapshot{
		APIVersion: helmv2.CurrentSnapshotAPIVersion, Digest: o.digest(), Name: o.Name, Namespace: o.Namespace, Version: o.Version,
		Status: o.Status, ChartName: o.Chart, ChartVersion: o.ChartVer, AppVersion: o.AppVer,
		ConfigDigest: digest.FromBytes(config).String(), FirstDeployed: o.first, LastDeployed: o.last, Deleted: o.deleted, OCIDigest: sourceDigest,
	}
}

// recognises reports whether rel is exactly what s was taken from. A snapshot of
// an earlier format cannot be checked by digest, only by what it targets.
func recognises(s *helmv2.Snapshot, rel *release.Release) bool {
	o := observe(rel)
	if s.APIVersion != helmv2.CurrentSnapshotAPIVersion {
		return s.Targets(o.Name, o.Namespace, o.Version)
	}
	return s.Digest == o.digest()
}

// observer stands before Helm's storage driver and hears of every write that
// really reached the storage, so that the status records what was persisted and
// not what an action meant to persist.
type observer struct {
	driver.Driver
	heard func(observation)
}

func (o observer) Create(key string, rel releaser.Releaser) error {
	if err := o.Driver.Create(key, rel); err != nil {
		return err
	}
	o.heard(observe(rel))
	return nil
}

func (o observer) Update(key string, rel releaser.Releaser) error {
	if err := o.Driver.Update(key, rel); err != nil {
		return err
	}
	o.heard(observe(rel))
	return nil
}

func (o observer) Delete(key string) (releaser.Releaser, error) {
	rel, err := o.Driver.Delete(key)
	if err != nil {
		return nil, err
	}
	o.heard(observe(rel))
	return rel, nil
}

// written collects, by version, what one action stored.
type written map[int]observation

func (w written) hear(o observation) { w[o.Version] = o }

// record puts the newest of what was stored on top of the history and refreshes
// the older ones that the history knows.
func (w written) record(obj *helmv2.HelmRelease) {
	versions := make([]int, 0, len(w))
	for version := range w {
		versions = append(versions, version)
	}
	slices.Sort(versions)
	slices.Reverse(versions)
	for i, version := range versions {
		if i == 0 {
			s := w[version].snapshot(obj.Status.LastAttemptedRevisionDigest)
			obj.Status.History = append(helmv2.Snapshots{s}, obj.Status.History...)
			continue
		}
		replaceIn(obj)(w[version])
	}
}

// replaceIn refreshes the snapshot of what was stored, if the history has one,
// and adds nothing: an uninstall or an unlock makes no release known.
func replaceIn(obj *helmv2.HelmRelease) func(observation) {
	return func(o observation) {
		for i, s := range obj.Status.History {
			if s.Targets(o.Name, o.Namespace, o.Version) {
				obj.Status.History[i] = o.snapshot(s.OCIDigest)
				return
			}
		}
	}
}
