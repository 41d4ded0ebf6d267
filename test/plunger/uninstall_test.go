package plunger

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast-project/holdfast/internal/plunger"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
	"github.com/holdfast-project/holdfast/internal/plunger/plungertest"
	"github.com/holdfast-project/holdfast/test/helmcontroller"
	"github.com/holdfast-project/holdfast/test/helmcontroller/lab"
)

const deployer = "deployer"

// account makes a ServiceAccount that may do verbs with what the charts hold.
func (b *bench) account(t *testing.T, namespace string, verbs ...string) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: deployer}
	must(t, b.Client.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: meta}))
	must(t, b.Client.Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets"}, Verbs: verbs}}}))
	must(t, b.Client.Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: deployer},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: deployer}}}))
}

func asDeployer(hr *helmv2.HelmRelease) { hr.Spec.ServiceAccountName = deployer }

func uninstallFailed(hr *helmv2.HelmRelease) bool {
	return terminating(hr) && plungertest.Fenced(hr) && lab.Released(hr) == helmv2.UninstallFailedReason && len(hr.Status.History) > 0
}

// B5.5: an account without the right to delete keeps the release, fenced, and
// is not given way to; once it may, the release is uninstalled.
func TestFailingUninstallKeepsTheRelease(t *testing.T) {
	t.Parallel()
	b := shared
	must(t, b.Namespace(t.Context(), "norights"))
	b.account(t, "norights", "get", "list", "watch", "create", "update", "patch")
	key := b.Releases(t, "norights", 1, asDeployer)[0]
	must(t, b.Stick(t.Context(), key, lab.Damage{}))
	p := b.start(t, setup{strategy: repair, namespace: "norights"})
	b.Await(t, key, plungertest.Recovered)
	must(t, b.Stick(t.Context(), key, lab.Damage{Status: "unknown"}))
	b.Await(t, key, plungertest.Fenced)
	must(t, b.Delete(t.Context(), key))
	b.Await(t, key, uninstallFailed)
	b.Silent(t, key, "UninstallUnproven")
	if left := b.remains(t, key); len(left.Chart) != 4 {
		t.Errorf("left %+v", left)
	}
	must(t, b.Client.Update(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "norights", Name: deployer}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets"}, Verbs: []string{"*"}}}}))
	if left := b.gone(t, key); !left.Clean() {
		t.Errorf("with the right to delete: %+v", left)
	}
	must(t, p.stop())
}

// The natural recipe from its beginning (B, "How to make a release stuck"): a
// hook that never ends leaves it uninstalling, it is forced away and created
// again, and sticks; repaired and deleted again, the uninstall fails as the
// first did, and the fence stays (B5.5).
func TestTheNaturalRecipe(t *testing.T) {
	t.Parallel()
	b := shared
	must(t, b.Namespace(t.Context(), "natural"))
	must(t, b.Publish(t.Context(), "natural", lab.Source, lab.Chart{Hooks: map[string]lab.Hook{"pre-delete": lab.HookHangs}}))
	key := types.NamespacedName{Namespace: "natural", Name: "hr"}
	impatient := func(hr *helmv2.HelmRelease) {
		hr.Spec.Uninstall = &helmv2.Uninstall{Timeout: &metav1.Duration{Duration: time.Second}}
	}
	must(t, b.Install(t.Context(), []types.NamespacedName{key}, impatient))
	must(t, b.Delete(t.Context(), key))
	b.Await(t, key, func(hr *helmv2.HelmRelease) bool { return lab.Released(hr) == helmv2.UninstallFailedReason })
	must(t, b.ForceAway(t.Context(), key, b.gate))
	must(t, b.Client.Create(t.Context(), lab.NewRelease(key, impatient)))
	b.Await(t, key, lab.Stuck)

	b.start(t, setup{strategy: repair, namespace: "natural"})
	b.Await(t, key, plungertest.Recovered)
	must(t, b.Stick(t.Context(), key, lab.Damage{}))
	b.Await(t, key, plungertest.Fenced)
	must(t, b.Delete(t.Context(), key))
	b.Await(t, key, uninstallFailed)
	must(t, b.Edit(t.Context(), key, func(hr *helmv2.HelmRelease) { hr.Spec.Uninstall.DisableHooks = true }))
	if left := b.gone(t, key); !left.Clean() {
		t.Errorf("without the hook: %+v", left)
	}
}

// B5.9: an account that is gone is given way to after three counted attempts, or
// not, by policy.
func TestMissingAccountByPolicy(t *testing.T) {
	for _, policy := range []string{"release", "hold"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			b := shared
			namespace := "noaccount-" + policy
			must(t, b.Namespace(t.Context(), namespace))
			b.account(t, namespace, "*")
			key := b.Releases(t, namespace, 1, asDeployer)[0]
			must(t, b.Stick(t.Context(), key, lab.Damage{}))
			// The chart cannot be stored again, so the release stays fenced.
			must(t, b.Publish(t.Context(), namespace, lab.Source, lab.Chart{Version: "2.0.0", Broken: true}))
			b.start(t, setup{strategy: repair, namespace: namespace, flags: []string{"--unproven-uninstall=" + policy}})
			b.Await(t, key, plungertest.Fenced)
			must(t, b.Client.Delete(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: deployer}}))
			must(t, b.Delete(t.Context(), key))
			said := b.Told(t, key, "Warning UninstallUnproven")
			if !strings.Contains(said, "sh.helm.release.v1."+key.Name+".v1") {
				t.Errorf("the warning must name the storage Secret: %q", said)
			}
			if policy == "release" {
				if left := b.gone(t, key); len(left.Chart) != 4 {
					t.Errorf("given way: %+v", left)
				}
				return
			}
			if hr := b.Live(t, key); !plungertest.Fenced(hr) || !terminating(hr) {
				t.Errorf("hold must keep the fence: %s", lab.Describe(hr))
			}
		})
	}
}

// B5.4: held for more than ten minutes, it is said. The clock is flux-plunger's
// own, eleven minutes ahead, so this one runs in the test's process.
func TestHeldForLongIsSaid(t *testing.T) {
	t.Parallel()
	b := shared
	must(t, b.Namespace(t.Context(), "pending"))
	b.account(t, "pending", "get", "list", "watch", "create", "update", "patch")
	key := b.Releases(t, "pending", 1, asDeployer)[0]
	must(t, b.Stick(t.Context(), key, lab.Damage{}))
	must(t, b.Publish(t.Context(), "pending", lab.Source, lab.Chart{Version: "2.0.0", Broken: true}))
	path, err := b.ControlPlane.KubeconfigFor(t.Context(), lab.System(repair), lab.Account(repair))
	must(t, err)
	config, err := clientcmd.BuildConfigFromFlags("", path)
	must(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() {
		ended <- plunger.Run(ctx, plunger.Config{Rest: config, Timing: plunger.DefaultTiming(), Identity: "pending", Namespace: "pending", Concurrent: 1,
			Options:        decide.Options{Strategy: decide.Repair, FenceUntil: decide.UntilRemembered, UnprovenUninstall: decide.ReleaseUnproven},
			MetricsAddress: "0", HealthAddress: "0", Registry: prometheus.NewRegistry(), Log: logr.Discard(),
			Now: func() time.Time { return time.Now().Add(11 * time.Minute) }})
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	b.Await(t, key, plungertest.Fenced)
	must(t, b.Delete(t.Context(), key))
	b.Await(t, key, uninstallFailed)
	b.Told(t, key, "Warning UninstallPending")
	if hr := b.Live(t, key); !plungertest.Fenced(hr) {
		t.Errorf("said, and still held: %s", lab.Describe(hr))
	}
}

// B5.8: helm-controller's finalizer patch replaces the whole list and erases a
// fence that it has not read; it is set again.
func TestErasedFenceIsSetAgain(t *testing.T) {
	t.Parallel()
	b := shared
	if lab.Real() {
		t.Skip("a real helm-controller cannot be stopped at a point")
	}
	key := b.Releases(t, "erased", 1)[0]
	must(t, b.Stick(t.Context(), key, lab.Damage{}))
	must(t, b.Publish(t.Context(), "erased", lab.Source, lab.Chart{Version: "2.0.0", Broken: true}))
	b.start(t, setup{strategy: repair, namespace: "erased"})
	line := b.watch(t, "erased")
	for try := 1; !b.erase(t, line, key); try++ {
		if try == 10 {
			t.Fatal("the fence was never erased: nothing is proven")
		}
	}
	b.Await(t, key, plungertest.Fenced)
	must(t, b.Delete(t.Context(), key))
	if left := b.gone(t, key); !left.Clean() {
		t.Errorf("left %+v", left)
	}
}

// erase makes helm-controller read the release without any finalizer and patch
// the list when the fence stands. It reports whether that erased the fence: a
// look of its own backoff can come first and take the stop with an older read.
func (b *bench) erase(t *testing.T, line *timeline, key types.NamespacedName) bool {
	t.Helper()
	b.Await(t, key, plungertest.Fenced)
	must(t, b.Edit(t.Context(), key, func(hr *helmv2.HelmRelease) { hr.Finalizers = nil }))
	stop := b.gate.Hold(helmcontroller.PointRead, key)
	defer stop.Release()
	_, err := b.Ask(t.Context(), key)
	must(t, err)
	<-stop.Arrived()
	must(t, b.Edit(t.Context(), key, func(hr *helmv2.HelmRelease) { hr.Finalizers = []string{helmv2.HelmReleaseFinalizer} }))
	b.Await(t, key, plungertest.Fenced)
	from := time.Now()
	stop.Release()
	return line.within(key.Name, from, 3*time.Second, func(m moment) bool { return !m.fenced })
}

// B9.5: pruned and applied again under the same name while the old one is still
// fenced: the new one ends Ready and nothing of the old one is left.
func TestPrunedAndAppliedAgain(t *testing.T) {
	t.Parallel()
	b := shared
	keys := b.Releases(t, "again", b.of(24))
	b.start(t, setup{strategy: repair, namespace: "again"})
	must(t, lab.Each(keys, func(key types.NamespacedName) error {
		old, err := b.Release(t.Context(), key)
		if err != nil {
			return err
		}
		if err := b.Harm(t.Context(), key, lab.Damage{}); err != nil {
			return err
		}
		if err := b.Wake(t.Context(), key); err != nil {
			return err
		}
		if _, err := b.Until(t.Context(), key, plungertest.Settle, plungertest.Fenced); err != nil {
			return err
		}
		if err := b.Delete(t.Context(), key); err != nil {
			return err
		}
		if err := b.Gone(t.Context(), key, plungertest.Settle); err != nil {
			return err
		}
		if err := b.Client.Create(t.Context(), lab.NewRelease(key)); err != nil {
			return err
		}
		_, err = b.Until(t.Context(), key, plungertest.Settle, func(hr *helmv2.HelmRelease) bool { return plungertest.Recovered(hr) && hr.UID != old.UID })
		return err
	}))
	for _, key := range keys {
		left := b.remains(t, key)
		if slices.Sort(left.Storage); len(left.Chart) != 4 || len(left.Storage) != 1 {
			t.Errorf("%s: %+v", key, left)
		}
	}
}
