package helmcontroller_test

import (
	"strings"
	"testing"
	"time"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"github.com/fluxcd/pkg/apis/meta"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-project/holdfast/test/helmcontroller"
	"github.com/holdfast-project/holdfast/test/helmcontroller/lab"
)

// hold is a finalizer of somebody else, standing where the fence will stand.
const hold = "lab.holdfast.test/hold"

func held(hr *helmv2.HelmRelease) { hr.Finalizers = append(hr.Finalizers, hold) }

// through is B5.3 read off the object: the finalizer gone, the generation
// observed, the request handled.
func through(hr *helmv2.HelmRelease) bool {
	for _, f := range hr.Finalizers {
		if f == helmv2.HelmReleaseFinalizer {
			return false
		}
	}
	return !hr.DeletionTimestamp.IsZero() && hr.Status.ObservedGeneration == hr.Generation && lab.Handled(hr)
}

func (b *bench) install(t *testing.T, key types.NamespacedName, edits ...func(*helmv2.HelmRelease)) *helmv2.HelmRelease {
	t.Helper()
	must(t, b.Install(t.Context(), []types.NamespacedName{key}, edits...))
	return b.release(t, key)
}

// letGo removes the finalizers that are not helm-controller's.
func (b *bench) letGo(t *testing.T, key types.NamespacedName) {
	t.Helper()
	must(t, b.Edit(t.Context(), key, func(hr *helmv2.HelmRelease) {
		var kept []string
		for _, f := range hr.Finalizers {
			if f == helmv2.HelmReleaseFinalizer {
				kept = append(kept, f)
			}
		}
		hr.Finalizers = kept
	}))
	must(t, b.Gone(t.Context(), key, 10*time.Second))
}

// remember writes a snapshot of the latest stored revision into the status, as
// B5.7 does: from labels alone.
func (b *bench) remember(t *testing.T, key types.NamespacedName) {
	t.Helper()
	hr := b.release(t, key)
	stored, err := b.Revisions(t.Context(), hr)
	must(t, err)
	latest := stored[len(stored)-1]
	before := hr.DeepCopy()
	hr.Status.StorageNamespace = hr.GetStorageNamespace()
	hr.Status.History = helmv2.Snapshots{{
		Digest: "unknown", Name: latest.Labels["name"], Namespace: hr.GetReleaseNamespace(), Version: lab.Version(latest), Status: latest.Labels["status"],
		ChartName: "unknown", ChartVersion: "unknown", ConfigDigest: "unknown", FirstDeployed: metav1.Now(), LastDeployed: metav1.Now(),
	}}
	must(t, b.Client.Status().Patch(t.Context(), hr, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
}

func TestF1SuspendedDeleteOrphans(t *testing.T) {
	t.Parallel()
	b := shared
	b.namespace(t, "f1", lab.Chart{})
	key := types.NamespacedName{Namespace: "f1", Name: "hr"}
	b.install(t, key)
	must(t, b.Edit(t.Context(), key, func(hr *helmv2.HelmRelease) { hr.Spec.Suspend = true }))
	if left := b.deleted(t, key); len(left.Chart) != 4 || len(left.Storage) != 1 {
		t.Errorf("a suspended delete left %+v, want everything", left)
	}
}

// B5.1: held by somebody, unsuspended afterwards, it is uninstalled.
func TestF1LiftedUnderAnotherFinalizerUninstalls(t *testing.T) {
	t.Parallel()
	b := shared
	b.namespace(t, "f1lift", lab.Chart{})
	key := types.NamespacedName{Namespace: "f1lift", Name: "hr"}
	hr := b.install(t, key, held)
	must(t, b.Edit(t.Context(), key, func(hr *helmv2.HelmRelease) { hr.Spec.Suspend = true }))
	must(t, b.Delete(t.Context(), key))
	seen := b.until(t, key, through)
	if left := b.remains(t, hr); len(left.Chart) != 4 || len(seen.Status.History) == 0 {
		t.Fatalf("suspended: %+v, %s", left, lab.Describe(seen))
	}
	must(t, b.Edit(t.Context(), key, func(hr *helmv2.HelmRelease) { hr.Spec.Suspend = false }))
	seen = b.until(t, key, func(hr *helmv2.HelmRelease) bool {
		return through(hr) && lab.Released(hr) == helmv2.UninstallSucceededReason
	})
	if left := b.remains(t, hr); len(left.Chart) != 0 || len(left.Storage) != 0 {
		t.Errorf("after the lift: %+v, %s", left, lab.Describe(seen))
	}
	b.letGo(t, key)
}

// F5 and the cure of B5.7: forgotten, through, reminded, really uninstalled.
func TestF5RemindedReleaseIsUninstalled(t *testing.T) {
	t.Parallel()
	b := shared
	b.namespace(t, "f5", lab.Chart{})
	keys := lab.Names("f5", "hr", 4)
	must(t, b.Install(t.Context(), keys, held))
	for i, key := range keys {
		hr := b.release(t, key)
		must(t, b.Stick(t.Context(), key, lab.Damage{}))
		must(t, b.Delete(t.Context(), key))
		seen := b.until(t, key, through)
		if seen.Status.StorageNamespace != "" || len(b.remains(t, hr).Chart) != 4 {
			t.Fatalf("%s: F5 skips the uninstall and clears the storage namespace: %s", key, lab.Describe(seen))
		}
		b.remember(t, key)
		if i%2 == 0 { // a request or a new generation: either wakes it
			_, err := b.Ask(t.Context(), key)
			must(t, err)
		} else {
			must(t, b.Edit(t.Context(), key, func(hr *helmv2.HelmRelease) { hr.Spec.Interval = metav1.Duration{Duration: 2 * time.Hour} }))
		}
		seen = b.until(t, key, func(hr *helmv2.HelmRelease) bool {
			return through(hr) && lab.Released(hr) == helmv2.UninstallSucceededReason
		})
		if left := b.remains(t, hr); len(left.Chart) != 0 || len(left.Storage) != 0 {
			t.Errorf("%s: reminded and still there: %+v, %s", key, left, lab.Describe(seen))
		}
		b.letGo(t, key)
	}
}

// Written while a pass is not over, the reminder's storage namespace is wiped by
// that pass's last patch; the history, which it never read, is not.
func TestReminderWrittenTooEarlyIsWiped(t *testing.T) {
	t.Parallel()
	b := shared
	b.points(t)
	b.namespace(t, "early", lab.Chart{})
	key := types.NamespacedName{Namespace: "early", Name: "hr"}
	hr := b.install(t, key, held)
	must(t, b.Stick(t.Context(), key, lab.Damage{}))
	// The pass must be the delete's: one that retries the upgrade may still run.
	deleting := b.gate.Hold(helmcontroller.PointSawDelete, key)
	must(t, b.Delete(t.Context(), key))
	arrive(t, deleting)
	stop := b.gate.Hold(helmcontroller.PointBeforeStatusPatch, key)
	deleting.Release()
	arrive(t, stop)
	b.remember(t, key)
	_, err := b.Ask(t.Context(), key)
	must(t, err)
	stop.Release()
	// The pass that the request wakes finds no storage namespace: F2.
	seen := b.until(t, key, through)
	if seen.Status.StorageNamespace != "" || len(seen.Status.History) != 1 {
		t.Errorf("want the storage namespace wiped and the history kept: %s", lab.Describe(seen))
	}
	if left := b.remains(t, hr); len(left.Chart) != 4 || len(left.Storage) != 1 {
		t.Errorf("want nothing uninstalled: %+v", left)
	}
	b.letGo(t, key)
}

// F6, and why reclaim's window exists: no Secret, no uninstall, but success.
func TestF6MissingStorageIsTakenForUninstalled(t *testing.T) {
	t.Parallel()
	b := shared
	b.namespace(t, "f6", lab.Chart{})
	key := types.NamespacedName{Namespace: "f6", Name: "hr"}
	hr := b.install(t, key, held)
	stored, err := b.Revisions(t.Context(), hr)
	must(t, err)
	must(t, b.Client.Delete(t.Context(), &stored[0]))
	must(t, b.Delete(t.Context(), key))
	b.until(t, key, through)
	b.until(t, key, failingWith("was not found, assuming it is uninstalled"))
	if left := b.remains(t, hr); len(left.Chart) != 4 {
		t.Errorf("F6 must leave the chart's objects: %+v", left)
	}
	b.letGo(t, key)
}

// The cure that reclaim rests on: the Secret gone, a request, and the release is
// installed anew.
func TestDeletedSecretIsInstalledAgain(t *testing.T) {
	t.Parallel()
	b := shared
	b.namespace(t, "reinstall", lab.Chart{})
	key := types.NamespacedName{Namespace: "reinstall", Name: "hr"}
	hr := b.install(t, key)
	must(t, b.Stick(t.Context(), key, lab.Damage{}))
	stored, err := b.Revisions(t.Context(), hr)
	must(t, err)
	must(t, b.Client.Delete(t.Context(), &stored[0]))
	_, err = b.Ask(t.Context(), key)
	must(t, err)
	seen := b.until(t, key, lab.Ready)
	if lab.Released(seen) != helmv2.InstallSucceededReason || seen.Status.History.Latest().Version != 1 {
		t.Errorf("want a fresh install: %s", lab.Describe(seen))
	}
}

// repair's cure: the status rewritten to failed, a request, and it is upgraded.
func TestRewrittenStatusIsUpgraded(t *testing.T) {
	t.Parallel()
	b := shared
	b.namespace(t, "rewrite", lab.Chart{})
	key := types.NamespacedName{Namespace: "rewrite", Name: "hr"}
	b.install(t, key)
	must(t, b.Stick(t.Context(), key, lab.Damage{}))
	must(t, b.Harm(t.Context(), key, lab.Damage{Status: "failed"}))
	_, err := b.Ask(t.Context(), key)
	must(t, err)
	seen := b.until(t, key, lab.Ready)
	if lab.Released(seen) != helmv2.UpgradeSucceededReason || seen.Status.History.Latest().Version != 2 {
		t.Errorf("want an upgrade to version 2: %s", lab.Describe(seen))
	}
}

func TestF2EmptyStorageNamespaceSkips(t *testing.T) {
	t.Parallel()
	b := shared
	b.namespace(t, "f2", lab.Chart{})
	key := types.NamespacedName{Namespace: "f2", Name: "hr"}
	hr := b.install(t, key, held)
	before := hr.DeepCopy()
	hr.Status.StorageNamespace = ""
	must(t, b.Client.Status().Patch(t.Context(), hr, client.MergeFrom(before)))
	must(t, b.Delete(t.Context(), key))
	seen := b.until(t, key, through)
	if len(seen.Status.History) != 1 || len(b.remains(t, hr).Chart) != 4 {
		t.Errorf("F2 skips and keeps the history: %s", lab.Describe(seen))
	}
	b.letGo(t, key)
}

func TestF3MissingKubeconfigSecretSkips(t *testing.T) {
	t.Parallel()
	b := shared
	b.namespace(t, "f3", lab.Chart{})
	data, err := kubeconfig(b)
	must(t, err)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "f3", Name: "remote"}, Data: map[string][]byte{"value": data}}
	must(t, b.Client.Create(t.Context(), secret))
	key := types.NamespacedName{Namespace: "f3", Name: "hr"}
	hr := b.install(t, key, held, func(hr *helmv2.HelmRelease) {
		hr.Spec.KubeConfig = &meta.KubeConfigReference{SecretRef: &meta.SecretKeyReference{Name: "remote"}}
	})
	must(t, b.Client.Delete(t.Context(), secret))
	must(t, b.Delete(t.Context(), key))
	seen := b.until(t, key, through)
	if seen.Status.StorageNamespace == "" || len(seen.Status.History) != 1 || len(b.remains(t, hr).Chart) != 4 {
		t.Errorf("F3 skips and keeps the status: %s", lab.Describe(seen))
	}
	b.letGo(t, key)
}

// account makes a ServiceAccount with the given verbs on what the charts hold.
func (b *bench) account(t *testing.T, namespace string, verbs ...string) *corev1.ServiceAccount {
	t.Helper()
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "deployer"}}
	must(t, b.Client.Create(t.Context(), sa))
	must(t, b.Client.Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "deployer"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets"}, Verbs: verbs}}}))
	must(t, b.Client.Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "deployer"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "deployer"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: "deployer"}}}))
	return sa
}

func as(account string) func(*helmv2.HelmRelease) {
	return func(hr *helmv2.HelmRelease) { hr.Spec.ServiceAccountName = account }
}

func TestF4MissingServiceAccountSkips(t *testing.T) {
	t.Parallel()
	b := shared
	b.namespace(t, "f4", lab.Chart{})
	sa := b.account(t, "f4", "get", "list", "watch", "create", "update", "patch", "delete")
	key := types.NamespacedName{Namespace: "f4", Name: "hr"}
	hr := b.install(t, key, held, as("deployer"))
	must(t, b.Client.Delete(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: sa.Namespace, Name: sa.Name}}))
	must(t, b.Delete(t.Context(), key))
	seen := b.until(t, key, through)
	if seen.Status.StorageNamespace == "" || len(seen.Status.History) != 1 || len(b.remains(t, hr).Chart) != 4 {
		t.Errorf("F4 skips and keeps the status: %s", lab.Describe(seen))
	}
	b.letGo(t, key)
}

func TestServiceAccountWithoutDeleteFailsTheUninstall(t *testing.T) {
	t.Parallel()
	b := shared
	b.namespace(t, "noright", lab.Chart{})
	b.account(t, "noright", "get", "list", "watch", "create", "update", "patch")
	key := types.NamespacedName{Namespace: "noright", Name: "hr"}
	b.install(t, key, as("deployer"))
	must(t, b.Delete(t.Context(), key))
	seen := b.until(t, key, func(hr *helmv2.HelmRelease) bool { return lab.Released(hr) == helmv2.UninstallFailedReason })
	if seen.Status.StorageNamespace == "" || len(seen.Status.History) == 0 || seen.Status.ObservedGeneration == seen.Generation {
		t.Errorf("a failed uninstall keeps history, storage namespace and the old observed generation: %s", lab.Describe(seen))
	}
	if len(seen.Finalizers) != 1 || len(b.remains(t, seen).Chart) != 4 {
		t.Errorf("a failed uninstall keeps the object: %s", lab.Describe(seen))
	}
}

// The storage can be empty although the uninstall failed; only the retry, which
// finds nothing, calls it a success.
func TestFailingPostDeleteHookEmptiesTheStorageAndFails(t *testing.T) {
	t.Parallel()
	b := shared
	b.namespace(t, "posthook", lab.Chart{Hooks: map[string]lab.Hook{"post-delete": lab.HookFails}})
	key := types.NamespacedName{Namespace: "posthook", Name: "hr"}
	hr := b.install(t, key, held)
	must(t, b.Delete(t.Context(), key))
	seen := b.until(t, key, func(hr *helmv2.HelmRelease) bool { return lab.Released(hr) == helmv2.UninstallFailedReason })
	if left := b.remains(t, hr); len(left.Storage) != 0 {
		t.Errorf("want an empty storage with UninstallFailed: %+v, %s", left, lab.Describe(seen))
	}
	b.until(t, key, func(hr *helmv2.HelmRelease) bool {
		return through(hr) && lab.Released(hr) == helmv2.UninstallSucceededReason
	})
	b.letGo(t, key)
}

func TestHangingPreDeleteHookLeavesTheReleaseUninstalling(t *testing.T) {
	t.Parallel()
	b := shared
	b.namespace(t, "prehook", lab.Chart{Hooks: map[string]lab.Hook{"pre-delete": lab.HookHangs}})
	key := types.NamespacedName{Namespace: "prehook", Name: "hr"}
	hr := b.install(t, key, func(hr *helmv2.HelmRelease) {
		hr.Spec.Uninstall = &helmv2.Uninstall{Timeout: &metav1.Duration{Duration: time.Second}}
	})
	must(t, b.Delete(t.Context(), key))
	b.until(t, key, func(hr *helmv2.HelmRelease) bool { return lab.Released(hr) == helmv2.UninstallFailedReason })
	if left := b.remains(t, hr); len(left.Storage) != 1 || !strings.Contains(left.Storage[0], "uninstalling") {
		t.Errorf("want what an interrupted uninstall leaves: %+v", left)
	}
	// The natural recipe goes on: forced away, created again, it sticks.
	must(t, b.ForceAway(t.Context(), key, b.gate))
	must(t, b.Client.Create(t.Context(), lab.NewRelease(key)))
	b.until(t, key, lab.Stuck)
}

func TestKeepHistory(t *testing.T) {
	t.Parallel()
	b := shared
	b.namespace(t, "keephist", lab.Chart{})
	key := types.NamespacedName{Namespace: "keephist", Name: "hr"}
	hr := b.install(t, key, held, func(hr *helmv2.HelmRelease) { hr.Spec.Uninstall = &helmv2.Uninstall{KeepHistory: true} })
	must(t, b.Change(t.Context(), key, 2))
	b.until(t, key, func(hr *helmv2.HelmRelease) bool { return lab.Ready(hr) && len(hr.Status.History) == 2 })
	must(t, b.Delete(t.Context(), key))
	b.until(t, key, func(hr *helmv2.HelmRelease) bool {
		return through(hr) && lab.Released(hr) == helmv2.UninstallSucceededReason
	})
	left := b.remains(t, hr)
	if len(left.Chart) != 0 || strings.Join(left.Storage, ", ") != "v1 superseded, v2 uninstalled" {
		t.Errorf("want no objects and the whole history: %+v", left)
	}
	b.letGo(t, key)
}
