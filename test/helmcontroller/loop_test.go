package helmcontroller_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-project/holdfast/test/helmcontroller"
	"github.com/holdfast-project/holdfast/test/helmcontroller/lab"
)

func kubeconfig(b *bench) ([]byte, error) { return os.ReadFile(b.ControlPlane.AdminKubeconfig()) }

// points skips what needs the stand-in's points.
func (b *bench) points(t *testing.T) {
	t.Helper()
	if lab.Real() {
		t.Skip("a real helm-controller cannot be stopped at a point")
	}
}

func arrive(t *testing.T, stop *helmcontroller.Stop) {
	t.Helper()
	t.Cleanup(stop.Release)
	select {
	case <-stop.Arrived():
	case <-time.After(30 * time.Second):
		t.Fatal("the stand-in never reached the point")
	}
}

// The first sign that a release is forgotten comes before the error (B5.8):
// the history is cleared and Ready says what is about to be tried.
func TestForgettingIsPublishedBeforeTheUpgrade(t *testing.T) {
	t.Parallel()
	b := shared
	b.points(t)
	b.namespace(t, "sign", lab.Chart{})
	key := types.NamespacedName{Namespace: "sign", Name: "hr"}
	b.install(t, key)
	must(t, b.Harm(t.Context(), key, lab.Damage{}))
	stop := b.gate.Hold(helmcontroller.PointBeforeAction, key)
	must(t, b.Change(t.Context(), key, 2))
	arrive(t, stop)
	hr := b.release(t, key)
	ready := hr.Status.Conditions[slices.IndexFunc(hr.Status.Conditions, func(c metav1.Condition) bool { return c.Type == meta.ReadyCondition })]
	if ready.Status != metav1.ConditionUnknown || !strings.HasPrefix(ready.Message, "Running 'upgrade' action") ||
		len(hr.Status.History) != 0 || hr.Status.StorageNamespace != "sign" || !slices.Contains(hr.Finalizers, helmv2.HelmReleaseFinalizer) {
		t.Errorf("want all four signs: %s", lab.Describe(hr))
	}
	stop.Release()
	b.until(t, key, lab.Stuck)
}

// The finalizers go as a whole list without a lock: what was added since the
// object was read is erased (B5.8, the 7 of 20).
func TestFinalizerPatchErasesWhatItDidNotRead(t *testing.T) {
	t.Parallel()
	b := shared
	b.points(t)
	b.namespace(t, "erase", lab.Chart{})
	key := types.NamespacedName{Namespace: "erase", Name: "hr"}
	b.install(t, key)
	must(t, b.Edit(t.Context(), key, func(hr *helmv2.HelmRelease) { hr.Finalizers = nil }))
	stop := b.gate.Hold(helmcontroller.PointRead, key)
	_, err := b.Ask(t.Context(), key)
	must(t, err)
	arrive(t, stop)
	must(t, b.Edit(t.Context(), key, held))
	stop.Release()
	hr := b.until(t, key, func(hr *helmv2.HelmRelease) bool { return slices.Contains(hr.Finalizers, helmv2.HelmReleaseFinalizer) })
	if slices.Contains(hr.Finalizers, hold) {
		t.Errorf("the finalizer added meanwhile survived: %v", hr.Finalizers)
	}
}

// Three closing patches in this order, each visible before the next.
func TestClosingPatchesFollowEachOther(t *testing.T) {
	t.Parallel()
	b := shared
	b.points(t)
	b.namespace(t, "gap", lab.Chart{})
	key := types.NamespacedName{Namespace: "gap", Name: "hr"}
	b.install(t, key, held)
	conditions := b.gate.Hold(helmcontroller.PointPatchedConditions, key)
	finalizers := b.gate.Hold(helmcontroller.PointDroppedFinalizer, key)
	must(t, b.Delete(t.Context(), key))
	arrive(t, conditions)
	hr := b.release(t, key)
	if lab.Released(hr) != helmv2.UninstallSucceededReason || !slices.Contains(hr.Finalizers, helmv2.HelmReleaseFinalizer) {
		t.Errorf("conditions come first: %s", lab.Describe(hr))
	}
	conditions.Release()
	arrive(t, finalizers)
	hr = b.release(t, key)
	if slices.Contains(hr.Finalizers, helmv2.HelmReleaseFinalizer) || hr.Status.StorageNamespace == "" || hr.Status.ObservedGeneration == hr.Generation {
		t.Errorf("the finalizer goes before the rest of the status: %s", lab.Describe(hr))
	}
	finalizers.Release()
	b.until(t, key, func(hr *helmv2.HelmRelease) bool { return through(hr) && hr.Status.StorageNamespace == "" })
	b.letGo(t, key)
}

// What the two ways of failing leave, and that a good chart ends them.
func TestBrokenChartAndSourceNotReady(t *testing.T) {
	t.Parallel()
	b := shared
	b.namespace(t, "broken", lab.Chart{})
	key := types.NamespacedName{Namespace: "broken", Name: "hr"}
	b.install(t, key)
	must(t, b.Publish(t.Context(), "broken", lab.Source, lab.Chart{Version: "1.1.0", Broken: true}))
	hr := b.until(t, key, failingWith("this chart does not render"))
	if len(hr.Status.History) != 1 {
		t.Errorf("a chart that does not render changes no history: %s", lab.Describe(hr))
	}
	must(t, b.Publish(t.Context(), "broken", lab.Source, lab.Chart{Version: "1.2.0"}))
	b.until(t, key, lab.Ready)
	must(t, b.Unready(t.Context(), "broken", lab.Source))
	must(t, b.Change(t.Context(), key, 3))
	hr = b.until(t, key, failingWith("is not ready"))
	if hr.Status.ObservedGeneration == hr.Generation {
		t.Errorf("waiting for a source observes nothing: %s", lab.Describe(hr))
	}
}

// B10.1: what makes it try again after it gave up.
func TestGivingUpAndWhatEndsIt(t *testing.T) {
	t.Parallel()
	b := shared
	for _, tc := range []struct {
		name, reason string
		remediation  *helmv2.UpgradeRemediation
	}{
		{"retriesexceeded", "RetriesExceeded", nil},
		{"missingrollback", "MissingRollbackTarget", &helmv2.UpgradeRemediation{Retries: 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b.namespace(t, tc.name, lab.Chart{})
			key := types.NamespacedName{Namespace: tc.name, Name: "hr"}
			b.install(t, key, func(hr *helmv2.HelmRelease) { hr.Spec.Upgrade = &helmv2.Upgrade{Remediation: tc.remediation} })
			if tc.remediation != nil { // a release that is not managed has nothing to roll back to
				must(t, b.Harm(t.Context(), key, lab.Damage{Status: "failed"}))
			}
			must(t, b.Publish(t.Context(), tc.name, lab.Source, lab.Chart{Version: "1.1.0", Hooks: map[string]lab.Hook{"pre-upgrade": lab.HookFails}}))
			stalled := func(hr *helmv2.HelmRelease) bool {
				return slices.ContainsFunc(hr.Status.Conditions, func(c metav1.Condition) bool { return c.Type == meta.StalledCondition && c.Reason == tc.reason })
			}
			b.until(t, key, stalled)
			for _, annotation := range []string{"", "reconcile.fluxcd.io/resetAt", "reconcile.fluxcd.io/forceAt"} {
				hr := b.release(t, key)
				stored, err := b.Revisions(t.Context(), hr)
				must(t, err)
				var more []string
				if annotation != "" {
					more = append(more, annotation)
				}
				request, err := b.Ask(t.Context(), key, more...)
				must(t, err)
				b.until(t, key, func(hr *helmv2.HelmRelease) bool { return stalled(hr) && hr.Status.LastHandledReconcileAt == request })
				after, err := b.Revisions(t.Context(), hr)
				must(t, err)
				if tried := lab.Version(after[len(after)-1]) > lab.Version(stored[len(stored)-1]); tried != (annotation != "") {
					t.Errorf("with %q: tried again %t", annotation, tried)
				}
			}
		})
	}
}

// B9.1: install remediation removes what runs.
func TestInstallRemediationRemovesRunningObjects(t *testing.T) {
	t.Parallel()
	b := shared
	b.namespace(t, "remedy", lab.Chart{})
	key := types.NamespacedName{Namespace: "remedy", Name: "hr"}
	hr := b.install(t, key, func(hr *helmv2.HelmRelease) {
		last := true
		hr.Spec.Install = &helmv2.Install{Remediation: &helmv2.InstallRemediation{Retries: 1, RemediateLastFailure: &last}}
	})
	must(t, b.Stick(t.Context(), key, lab.Damage{}))
	must(t, b.Publish(t.Context(), "remedy", lab.Source, lab.Chart{Version: "1.1.0", Hooks: map[string]lab.Hook{"post-install": lab.HookFails}}))
	stored, err := b.Revisions(t.Context(), hr)
	must(t, err)
	must(t, b.Client.Delete(t.Context(), &stored[0]))
	_, err = b.Ask(t.Context(), key)
	must(t, err)
	b.until(t, key, func(hr *helmv2.HelmRelease) bool {
		left, err := b.Remains(t.Context(), hr)
		return err == nil && len(left.Chart) == 0
	})
}

// Killed and started again: everything is looked at, a terminating object
// without its finalizer too.
func TestEveryObjectIsHandledAtTheStart(t *testing.T) {
	b := shared
	b.namespace(t, "restart", lab.Chart{})
	key := types.NamespacedName{Namespace: "restart", Name: "hr"}
	hr := b.install(t, key, held)
	must(t, b.Stick(t.Context(), key, lab.Damage{}))
	must(t, b.Delete(t.Context(), key))
	b.until(t, key, through)
	b.KillHelmController()
	b.remember(t, key) // no request: only the start will notice
	must(t, b.StartHelmControllerAgain(t.Context()))
	b.until(t, key, func(hr *helmv2.HelmRelease) bool { return lab.Released(hr) == helmv2.UninstallSucceededReason })
	if left := b.remains(t, hr); len(left.Chart) != 0 || len(left.Storage) != 0 {
		t.Errorf("after the restart: %+v", left)
	}
	b.letGo(t, key)
}

// Effective names: a long one, a target namespace, a storage namespace.
func TestEffectiveNames(t *testing.T) {
	t.Parallel()
	b := shared
	b.namespace(t, "names", lab.Chart{})
	must(t, b.Namespace(t.Context(), "names-target"))
	must(t, b.Namespace(t.Context(), "names-storage"))
	long := strings.Repeat("long-", 11) + "name"
	key := types.NamespacedName{Namespace: "names", Name: long}
	hr := b.install(t, key, func(hr *helmv2.HelmRelease) {
		hr.Spec.TargetNamespace, hr.Spec.StorageNamespace = "names-target", "names-storage"
	})
	left := b.remains(t, hr)
	if len(left.Chart) != 4 || len(left.Storage) != 1 || len(lab.EffectiveName(hr)) != 53 || hr.Status.StorageNamespace != "names-storage" {
		t.Errorf("as %q: %+v, %s", lab.EffectiveName(hr), left, lab.Describe(hr))
	}
	if left := b.deleted(t, key); !left.Clean() {
		t.Errorf("after the delete: %+v", left)
	}
}
