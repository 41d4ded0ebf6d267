package installed

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/plungertest"
	"github.com/holdfast-project/holdfast/test/chart/rendered"
	"github.com/holdfast-project/holdfast/test/helmcontroller/lab"
)

const (
	fenceOnly = `{"metadata":{"finalizers":["` + contract.Fence + `"]}}`
	fenceHold = `{"metadata":{"finalizers":["` + contract.Fence + `"]},"spec":{"suspend":true}}`
	other     = "other.example/hold"
)

// B7.1 to B7.7: the chart is installed with one strategy and recovers a release,
// is upgraded to the other and recovers one, and is uninstalled with fenced
// releases present; everything as Pods under its own ServiceAccounts.
func TestInstallRecoverUpgradeUninstall(t *testing.T) {
	t.Parallel()
	s := newSite(t, "life")
	reclaim := values{"strategy": "reclaim", "fenceUntil": "lifted", "shutdownGracePeriodSeconds": 45}
	s.install(s.chart(), reclaim)
	s.releases("one", "two")
	s.recovers("one")
	if err := s.upgrade(s.chart(), nil); err != nil {
		t.Fatalf("upgrading from the previous values: %v", err)
	}
	s.recovers("two")
	s.remindsAfterAStart("three")
	s.uninstallWithFences()
	// Installed again, the finished Job is in no way, and the hook runs once more.
	s.install(s.chart(), nil)
	first := s.job().UID
	s.must(s.uninstall())
	if again := s.job(); again.UID == first || again.Status.Succeeded != 1 {
		t.Errorf("B7.5: the second Job is %s (first %s), succeeded %d", again.UID, first, again.Status.Succeeded)
	}
	s.nothingLeft(nil)
	s.usedWhatWasGranted()
}

// remindsAfterAStart: a release that helm-controller has forgotten is deleted under
// the fence while flux-plunger is scaled to zero; the next start sees it uninstalled
// (B5.7, and B9's last limit).
func (s *site) remindsAfterAStart(name string) {
	s.Helper()
	s.releases(name)
	s.scale(0)
	s.must(shared.Stick(s.Context(), s.key(name), lab.Damage{}))
	s.patch(name, types.ApplyPatchType, "flux-plunger", fenceOnly)
	s.must(shared.Delete(s.Context(), s.key(name)))
	hr, err := shared.Until(s.Context(), s.key(name), settle, func(hr *helmv2.HelmRelease) bool {
		return !slices.Contains(hr.Finalizers, contract.HelmFinalizer)
	})
	s.must(err)
	s.scale(1)
	s.must(shared.Gone(s.Context(), s.key(name), settle))
	left, err := shared.Remains(s.Context(), hr)
	s.must(err)
	if !left.Clean() {
		s.Errorf("%s left %v and %v behind", name, left.Chart, left.Storage)
	}
}

// uninstallWithFences prepares every state of B7.3 while flux-plunger is scaled to
// zero, and uninstalls.
func (s *site) uninstallWithFences() {
	s.Helper()
	names := []string{"live", "held", "shared", "foreign", "clientside", "changing", "deleted"}
	s.releases(append(names, "ending")...)
	s.scale(0)
	s.patch("live", types.ApplyPatchType, "flux-plunger", fenceOnly)
	s.patch("held", types.ApplyPatchType, "flux-plunger", fenceHold)
	s.patch("shared", types.ApplyPatchType, "flux-plunger", fenceHold)
	s.patch("shared", types.ApplyPatchType, "migration", `{"metadata":{},"spec":{"suspend":true}}`)
	s.patch("foreign", types.ApplyPatchType, "flux-plunger", fenceOnly)
	s.patch("foreign", types.MergePatchType, "kubectl", `{"spec":{"suspend":true}}`)
	s.patch("clientside", types.MergePatchType, "kubectl-client-side-apply",
		`{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}"}},"spec":{"values":{"n":3}}}`)
	s.patch("clientside", types.ApplyPatchType, "flux-plunger", fenceHold)
	// Deleted under our suspension: the chart's objects of it are still there, and
	// helm-controller has dropped its own finalizer without an uninstall.
	s.patch("deleted", types.ApplyPatchType, "flux-plunger", fenceHold)
	s.patch("deleted", types.MergePatchType, "kubectl", `{"metadata":{"finalizers":["`+contract.Fence+`","`+other+`"]}}`)
	s.must(shared.Delete(s.Context(), s.key("deleted")))
	// Deleted, and held by nothing but the fence: it goes with it.
	s.patch("ending", types.ApplyPatchType, "flux-plunger", fenceHold)
	s.must(shared.Delete(s.Context(), s.key("ending")))
	_, err := shared.Until(s.Context(), s.key("ending"), settle, func(hr *helmv2.HelmRelease) bool {
		return slices.Equal(hr.Finalizers, []string{contract.Fence})
	})
	s.must(err)
	// Whoever changes the list of finalizers between the hook's read and its patch.
	s.patch("changing", types.ApplyPatchType, "flux-plunger", fenceOnly)
	changed := s.underThePatch("changing", func() error {
		return s.patched("changing", types.MergePatchType, "kubectl", `{"metadata":{"finalizers":["`+other+`","`+contract.HelmFinalizer+`","`+contract.Fence+`"]}}`)
	})
	before := map[string]*helmv2.HelmRelease{}
	for _, release := range names {
		before[release] = s.live(release)
	}

	s.must(s.uninstall())

	report := s.report()
	for _, release := range names {
		after := s.live(release)
		want := release == "shared" || release == "foreign"
		if plungertest.Fenced(after) || after.Spec.Suspend != want {
			s.Errorf("B7.3: %s: finalizers %v, suspend %t", release, after.Finalizers, after.Spec.Suspend)
		}
		if diff := cmp.Diff(before[release].Spec, restored(after.Spec, before[release].Spec.Suspend)); diff != "" {
			s.Errorf("B7.3: the specification of %s changed:\n%s", release, diff)
		}
		if diff := cmp.Diff(before[release].Annotations, after.Annotations); diff != "" {
			s.Errorf("B7.3: the annotations of %s changed:\n%s", release, diff)
		}
		s.says(report, "HelmRelease "+s.tenant+"/"+release)
	}
	if finalizers := s.live("changing").Finalizers; !changed() || !slices.Equal(finalizers, []string{other, contract.HelmFinalizer}) {
		s.Errorf("B7.3: changed under the patch %t, then %v", changed(), finalizers)
	}
	s.must(shared.Gone(s.Context(), s.key("ending"), settle))
	s.says(report, "let go of HelmRelease "+s.tenant+"/ending before helm-controller uninstalled it", "deleted Lease "+s.ns+"/"+contract.LeaderElectionID)
	s.says(report, "let go of HelmRelease "+s.tenant+"/deleted before helm-controller uninstalled it")
	for _, release := range []string{"changing", "deleted"} {
		s.patch(release, types.MergePatchType, "kubectl", `{"metadata":{"finalizers":null}}`)
	}
	s.nothingLeft(nil)
}

func restored(spec helmv2.HelmReleaseSpec, suspend bool) helmv2.HelmReleaseSpec {
	spec.Suspend = suspend
	return spec
}

func (s *site) scale(replicas int) {
	s.Helper()
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: s.fullname()}}
	s.must(shared.Client.Patch(s.Context(), deployment, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))))
	s.eventually("flux-plunger to be scaled", func() bool { return len(s.controllerPods()) == replicas })
}

func (s *site) controllerPods() []string {
	s.Helper()
	pods, err := shared.ControlPlane.Client().CoreV1().Pods(s.ns).List(s.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=controller"})
	s.must(err)
	var names []string
	for _, pod := range pods.Items {
		names = append(names, pod.Name)
	}
	return names
}

// nothingLeft: of the chart, only the finished Job (B7.7).
func (s *site) nothingLeft(v values) {
	s.Helper()
	s.onlyTheJobIsLeft(v)
	job := s.job()
	if job.Status.Succeeded != 1 || job.Spec.TTLSecondsAfterFinished == nil {
		s.Errorf("B7.5: the Job's status is %+v", job.Status)
	}
}

// onlyTheJobIsLeft asks for every object of the chart, its Pods and its Lease.
func (s *site) onlyTheJobIsLeft(v values) {
	s.Helper()
	for _, object := range s.manifest(v) {
		key := client.ObjectKeyFromObject(object)
		s.eventually(fmt.Sprintf("%T %s to go", object, key), func() bool {
			return apierrors.IsNotFound(shared.Client.Get(s.Context(), key, object))
		})
	}
	lease := types.NamespacedName{Namespace: s.ns, Name: contract.LeaderElectionID}
	if err := shared.Client.Get(s.Context(), lease, &coordinationv1.Lease{}); !apierrors.IsNotFound(err) {
		s.Errorf("B7.7: the Lease is left: %v", err)
	}
	if pods := s.controllerPods(); len(pods) != 0 {
		s.Errorf("Pods are left: %v", pods)
	}
}

// B7.5: the finished Job goes after its TTL.
func TestJobGoesAfterItsTTL(t *testing.T) {
	t.Parallel()
	s := newSite(t, "ttl")
	s.install(s.chart(), values{"preDeleteHook": values{"ttlSecondsAfterFinished": 1}, "replicas": 0})
	s.must(s.uninstall())
	s.eventually("the Job to go", func() bool {
		key := types.NamespacedName{Namespace: s.ns, Name: s.fullname() + "-release-fences"}
		return apierrors.IsNotFound(shared.Client.Get(t.Context(), key, &batchv1.Job{}))
	})
}

// usedWhatWasGranted compares, from the audit log, what each ServiceAccount asked
// for with what its roles grant under the two strategies (B7.6, B7.1).
func (s *site) usedWhatWasGranted() {
	s.Helper()
	records, err := shared.ControlPlane.Audit()
	s.must(err)
	for _, suffix := range []string{"", "-hook"} {
		used := rights{}
		for _, record := range records {
			if record.User == s.user(suffix) && record.Resource != "" {
				used.add(strings.TrimSuffix(record.Resource+"/"+record.Subresource, "/"), record.Verb)
			}
		}
		if diff := cmp.Diff(s.granted(suffix), used); diff != "" {
			s.Errorf("B7.6: %s used other rights than it is granted:\n%s", s.user(suffix), diff)
		}
	}
}

// rights are verbs by resource.
type rights map[string][]string

func (r rights) add(resource string, verbs ...string) {
	r[resource] = slices.Compact(slices.Sorted(slices.Values(append(r[resource], verbs...))))
}

// granted reads the rights of a ServiceAccount out of the chart's roles.
func (s *site) granted(suffix string) rights {
	s.Helper()
	found := rights{}
	for _, strategy := range []string{"repair", "reclaim"} {
		made, err := rendered.Render(s.Context(), chartDir, rendered.Options{Name: s.name, Namespace: s.ns, Values: s.values(values{"strategy": strategy})})
		s.must(err)
		for _, object := range made.Objects {
			ours := object.GetName() == s.fullname()+suffix || suffix == "" && object.GetName() == s.fullname()+"-leader"
			if !ours || !strings.HasSuffix(object.GetKind(), "Role") {
				continue
			}
			var role rbacv1.ClusterRole
			s.must(runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role))
			for _, rule := range role.Rules {
				for _, resource := range rule.Resources {
					found.add(resource, rule.Verbs...)
				}
			}
		}
	}
	return found
}
