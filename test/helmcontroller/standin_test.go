package helmcontroller_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-project/holdfast/test/controlplane"
	"github.com/holdfast-project/holdfast/test/helmcontroller"
	"github.com/holdfast-project/holdfast/test/helmcontroller/lab"
)

// The facts below were measured on real helm-controllers; the stand-in must show
// them too, or what is proven against it is worth nothing. They run against a
// real one when HELM_CONTROLLER names it.

// bench is one control plane with a helm-controller, shared by the package's
// tests; each test has a namespace of its own.
type bench struct {
	*lab.Lab
	gate *helmcontroller.Gate
}

var shared *bench

func TestMain(m *testing.M) {
	gate := &helmcontroller.Gate{}
	os.Exit(lab.Tests{
		ControlPlane:   controlplane.Options{NoPodRunner: true, NoScheduler: true},
		SideBySide:     8,
		HelmController: &helmcontroller.Options{Concurrent: 8, At: gate.At},
		Begin: func(_ context.Context, l *lab.Lab) error {
			shared = &bench{Lab: l, gate: gate}
			return nil
		},
	}.Run(m))
}

// namespace makes one with a good chart in it.
func (b *bench) namespace(t *testing.T, name string, chart lab.Chart) {
	t.Helper()
	must(t, b.Namespace(t.Context(), name))
	must(t, b.Publish(t.Context(), name, lab.Source, chart))
}

func (b *bench) release(t *testing.T, key types.NamespacedName) *helmv2.HelmRelease {
	t.Helper()
	hr, err := b.Release(t.Context(), key)
	must(t, err)
	return hr
}

func (b *bench) until(t *testing.T, key types.NamespacedName, what func(*helmv2.HelmRelease) bool) *helmv2.HelmRelease {
	t.Helper()
	hr, err := b.Until(t.Context(), key, 60*time.Second, what)
	must(t, err)
	return hr
}

// deleted deletes the release, waits until the object is gone and returns what
// is left.
func (b *bench) deleted(t *testing.T, key types.NamespacedName) lab.Remains {
	t.Helper()
	hr := b.release(t, key)
	must(t, b.Delete(t.Context(), key))
	must(t, b.Gone(t.Context(), key, 60*time.Second))
	return b.remains(t, hr)
}

func (b *bench) remains(t *testing.T, hr *helmv2.HelmRelease) lab.Remains {
	t.Helper()
	left, err := b.Remains(t.Context(), hr)
	must(t, err)
	return left
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// B5.10: installs, upgrades and uninstalls for real.
func TestHealthyReleaseIsInstalledUpgradedAndUninstalled(t *testing.T) {
	b := shared
	b.namespace(t, "healthy", lab.Chart{})
	keys := lab.Names("healthy", "hr", 3)
	must(t, b.Install(t.Context(), keys))
	for _, key := range keys {
		hr := b.release(t, key)
		left := b.remains(t, hr)
		if len(left.Chart) != 4 || len(left.Storage) != 1 || hr.Status.History.Latest().Version != 1 || hr.Status.StorageNamespace != "healthy" {
			t.Fatalf("after the install: %+v, %s", left, lab.Describe(hr))
		}
	}
	must(t, b.Change(t.Context(), keys[0], 2))
	hr := b.until(t, keys[0], func(hr *helmv2.HelmRelease) bool { return lab.Ready(hr) && hr.Status.History.Latest().Version == 2 })
	if len(hr.Status.History) != 2 {
		t.Errorf("after the upgrade the history has %d snapshots, want 2", len(hr.Status.History))
	}
	for _, key := range keys {
		if left := b.deleted(t, key); !left.Clean() {
			t.Errorf("after the delete of %s: %+v", key, left)
		}
	}
}

// B5.10, and the second danger: a stuck release is one that has been forgotten.
func TestStuckReleaseIsForgottenAndItsDeleteOrphans(t *testing.T) {
	b := shared
	b.namespace(t, "stuck", lab.Chart{})
	keys := lab.Names("stuck", "hr", 6)
	must(t, b.Install(t.Context(), keys))
	must(t, lab.Each(keys, func(key types.NamespacedName) error { return b.Stick(t.Context(), key, lab.Damage{}) }))
	for _, key := range keys {
		hr := b.release(t, key)
		if len(hr.Status.History) != 0 || hr.Status.StorageNamespace == "" {
			t.Errorf("%s is stuck, but its history is not forgotten: %s", key, lab.Describe(hr))
		}
		if hr.Status.ObservedGeneration == hr.Generation {
			t.Errorf("%s: an error must leave the observed generation behind: %s", key, lab.Describe(hr))
		}
	}
	// Nobody helps: it stays stuck through a request, which is handled all the same.
	request, err := b.Ask(t.Context(), keys[0])
	must(t, err)
	hr := b.until(t, keys[0], func(hr *helmv2.HelmRelease) bool { return hr.Status.LastHandledReconcileAt == request })
	if !lab.Stuck(hr) {
		t.Errorf("a request alone helped: %s", lab.Describe(hr))
	}
	for _, key := range keys {
		if left := b.deleted(t, key); !left.Orphaned() || len(left.Chart) != 4 || len(left.Storage) != 1 {
			t.Errorf("the delete of a stuck release left %+v, want everything (F5)", left)
		}
	}
}

// Only two statuses of the latest revision give the error (B4.1a, B10.4, B10.7).
func TestWhichStatusesStick(t *testing.T) {
	b := shared
	b.namespace(t, "statuses", lab.Chart{})
	for _, tc := range []struct {
		status string
		stuck  bool
	}{{"uninstalling", true}, {"unknown", true}, {"failed", false}, {"superseded", false}, {"pending-install", false}, {"pending-upgrade", false}} {
		t.Run(tc.status, func(t *testing.T) {
			t.Parallel()
			key := types.NamespacedName{Namespace: "statuses", Name: tc.status}
			must(t, b.Install(t.Context(), []types.NamespacedName{key}))
			must(t, b.Harm(t.Context(), key, lab.Damage{Status: tc.status}))
			must(t, b.Change(t.Context(), key, 2))
			if tc.stuck {
				b.until(t, key, lab.Stuck)
				return
			}
			b.until(t, key, func(hr *helmv2.HelmRelease) bool { return lab.Ready(hr) && hr.Status.History.Latest().Version == 2 })
		})
	}
	t.Run("uninstalled", func(t *testing.T) {
		t.Parallel()
		key := types.NamespacedName{Namespace: "statuses", Name: "uninstalled"}
		must(t, b.Install(t.Context(), []types.NamespacedName{key}))
		must(t, b.Harm(t.Context(), key, lab.Damage{Status: "uninstalled"}))
		must(t, b.Change(t.Context(), key, 2))
		// The history does not recognise it and is forgotten; then there is "none
		// to upgrade", and an install finds the name taken.
		b.until(t, key, failingWith("cannot reuse a name that is still in use"))
	})
}

// failingWith reports Ready=False with a message that contains text.
func failingWith(text string) func(*helmv2.HelmRelease) bool {
	return func(hr *helmv2.HelmRelease) bool {
		for _, c := range hr.Status.Conditions {
			if c.Type == "Ready" && c.Status == "False" && strings.Contains(c.Message, text) {
				return true
			}
		}
		return false
	}
}
