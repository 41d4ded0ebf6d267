package installed

import (
	"errors"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/plungertest"
	"github.com/holdfast-project/holdfast/test/controlplane"
	"github.com/holdfast-project/holdfast/test/helmcontroller/lab"
)

// B7.4, through the chart's own Job: where flux-plunger cannot be stopped, or the
// releases cannot be listed, the Job ends non-zero before anything is touched;
// where a fence cannot be removed it ends non-zero and names every one. The chart's
// release stays, and once the cause is mended the same uninstall goes through.
func TestJobThatCannotDoItsWork(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		verb, resource string
		says           []string
		scaled         bool
	}{
		"scale": {"patch", "deployments/scale", []string{"stopping flux-plunger; no fence was touched", "403"}, false},
		"pods":  {"list", "pods", []string{"stopping flux-plunger; no fence was touched: listing Pods", "403"}, true},
		"list":  {"list", "helmreleases", []string{"listing fenced releases; no fence was touched", "403"}, true},
		"patch": {"patch", "helmreleases", []string{"HelmRelease cannot-patch-tenant/held", "HelmRelease cannot-patch-tenant/live",
			"cannot-patch-tenant/held carries a fence after the sweep", "cannot-patch-tenant/live carries a fence after the sweep"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "cannot-"+name)
			s.fencedBeforeTheUninstall("live", "held")
			s.role(c.resource, func(verbs []string) []string {
				return slices.DeleteFunc(slices.Clone(verbs), func(v string) bool { return v == c.verb })
			})

			if err := s.uninstall(); err == nil {
				t.Fatal("the uninstall succeeded")
			}
			report := s.report()
			s.says(report, c.says...)
			if strings.Contains(report, "let go of") || strings.Contains(report, "done") {
				t.Errorf("the Job says that it did what it could not do:\n%s", report)
			}
			s.untouched(c.scaled)

			s.role(c.resource, func(verbs []string) []string { return append(verbs, c.verb) })
			s.must(s.uninstall())
			if held := s.live("held"); plungertest.Fenced(s.live("live")) || plungertest.Fenced(held) || held.Spec.Suspend {
				t.Errorf("after the second uninstall: %v, %v, suspended %t", s.live("live").Finalizers, held.Finalizers, held.Spec.Suspend)
			}
			s.nothingLeft(nil)
		})
	}
}

// fencedBeforeTheUninstall installs the chart without Pods of its own, with two
// releases that carry the fence, "held" under our suspension too, and a Lease.
func (s *site) fencedBeforeTheUninstall(live, held string) {
	s.Helper()
	s.install(s.chart(), values{"replicas": 0})
	s.fenced(live, held)
	// One replica that never comes to be: what is scaled is seen.
	s.must(shared.Client.Patch(s.Context(), s.deployment(), client.RawPatch(types.MergePatchType,
		[]byte(`{"spec":{"replicas":1,"template":{"spec":{"nodeSelector":{"none":"such"}}}}}`))))
}

// fenced makes the two releases, and the Lease.
func (s *site) fenced(live, held string) {
	s.Helper()
	s.releases(live, held)
	s.patch(live, types.ApplyPatchType, "flux-plunger", fenceOnly)
	s.patch(held, types.ApplyPatchType, "flux-plunger", fenceHold)
	s.must(shared.Client.Create(s.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: contract.LeaderElectionID}}))
}

func (s *site) deployment() *appsv1.Deployment {
	s.Helper()
	var deployment appsv1.Deployment
	s.must(shared.Client.Get(s.Context(), types.NamespacedName{Namespace: s.ns, Name: s.fullname()}, &deployment))
	return &deployment
}

// untouched is the state of B7.4: the Job failed with 1, and releases, Lease and
// the chart's own objects are there as before.
func (s *site) untouched(scaled bool) {
	s.Helper()
	if job := s.job(); job.Status.Failed != 1 || job.Status.Succeeded != 0 || s.exitCode() != 1 {
		s.Errorf("B7.5: the Job's status is %+v, the exit code %d", job.Status, s.exitCode())
	}
	if live, held := s.live("live"), s.live("held"); !plungertest.Fenced(live) || !plungertest.Fenced(held) || !held.Spec.Suspend {
		s.Errorf("B7.4: touched: %v, %v, suspended %t", live.Finalizers, held.Finalizers, held.Spec.Suspend)
	}
	wrote, err := shared.ControlPlane.AuditOf(controlplane.AuditFilter{User: s.user("-hook"), Resource: "helmreleases", Writes: true})
	s.must(err)
	if slices.ContainsFunc(wrote, func(r controlplane.AuditRecord) bool { return r.Code < http.StatusBadRequest }) {
		s.Errorf("B7.4: the hook wrote to a release: %+v", wrote)
	}
	s.must(shared.Client.Get(s.Context(), types.NamespacedName{Namespace: s.ns, Name: contract.LeaderElectionID}, &coordinationv1.Lease{}))
	if replicas := *s.deployment().Spec.Replicas; (replicas == 0) != scaled {
		s.Errorf("B7.4: the Deployment has %d replicas", replicas)
	}
	for _, object := range s.manifest(nil) {
		if err := shared.Client.Get(s.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			s.Errorf("B7.4: the chart's release lost %T %s: %v", object, object.GetName(), err)
		}
	}
}

// role changes the hook's verbs on a resource.
func (s *site) role(resource string, edit func([]string) []string) {
	s.Helper()
	var cluster rbacv1.ClusterRole
	var local rbacv1.Role
	s.must(errors.Join(shared.Client.Get(s.Context(), types.NamespacedName{Name: s.fullname() + "-hook"}, &cluster),
		shared.Client.Get(s.Context(), types.NamespacedName{Namespace: s.ns, Name: s.fullname() + "-hook"}, &local)))
	changed := 0
	for _, rules := range [][]rbacv1.PolicyRule{cluster.Rules, local.Rules} {
		for i := range rules {
			if slices.Contains(rules[i].Resources, resource) {
				rules[i].Verbs = edit(slices.DeleteFunc(rules[i].Verbs, func(v string) bool { return v == "none" }))
				changed++
			}
			if len(rules[i].Verbs) == 0 {
				rules[i].Verbs = []string{"none"} // a rule without any is not valid
			}
		}
	}
	if changed != 1 {
		s.Fatalf("%d rules of the hook are about %s", changed, resource)
	}
	s.must(errors.Join(shared.Client.Update(s.Context(), &cluster), shared.Client.Update(s.Context(), &local)))
}

// exitCode is that of the hook's container.
func (s *site) exitCode() int32 {
	s.Helper()
	for _, status := range s.hookPod().Status.ContainerStatuses {
		if status.State.Terminated != nil {
			return status.State.Terminated.ExitCode
		}
	}
	return -1
}

// B7.4: with its Deployment already gone the sweep is done and the uninstall goes
// through.
func TestDeploymentAlreadyGone(t *testing.T) {
	t.Parallel()
	s := newSite(t, "gone")
	s.fencedBeforeTheUninstall("live", "held")
	s.must(shared.Client.Delete(t.Context(), s.deployment()))
	s.must(s.uninstall())
	s.says(s.report(), "is not there: it counts as stopped", "HelmRelease gone-tenant/live", "HelmRelease gone-tenant/held")
	if held := s.live("held"); plungertest.Fenced(s.live("live")) || plungertest.Fenced(held) || held.Spec.Suspend {
		t.Errorf("%v, %v, suspended %t", s.live("live").Finalizers, held.Finalizers, held.Spec.Suspend)
	}
	s.nothingLeft(nil)
}

// B7.4: a Pod of flux-plunger that stays Terminating, on a node that does not
// answer, is waited for as long as its grace period, then reported; the fences go
// and the uninstall goes through.
func TestPodStuckTerminating(t *testing.T) {
	t.Parallel()
	s := newSite(t, "stuck")
	s.fencedBeforeTheUninstall("live", "held")
	// Tainted, so that no other Pod goes there.
	s.must(shared.ControlPlane.CreateNode(t.Context(), "stuck-node", nil, corev1.Taint{Key: "example.com/silent", Effect: corev1.TaintEffectNoSchedule}))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "stuck", Labels: s.deployment().Spec.Selector.MatchLabels},
		Spec: corev1.PodSpec{NodeName: "stuck-node", Containers: []corev1.Container{{Name: "c", Image: "registry.invalid/never:1"}}}}
	s.must(errors.Join(shared.Client.Create(t.Context(), pod), shared.Client.Delete(t.Context(), pod.DeepCopy())))

	s.must(s.uninstall())
	s.says(s.report(), "still there after the wait, and left alone: Pod stuck-system/stuck (terminating)", "no release carries a fence: done")
	if held := s.live("held"); plungertest.Fenced(s.live("live")) || plungertest.Fenced(held) || held.Spec.Suspend {
		t.Errorf("%v, %v, suspended %t", s.live("live").Finalizers, held.Finalizers, held.Spec.Suspend)
	}
	job := s.job()
	if waited := job.Status.CompletionTime.Sub(job.Status.StartTime.Time); waited < testGrace {
		t.Errorf("B7.4: the Job took %s, less than the Pod's grace period %s", waited, testGrace)
	}
	s.must(shared.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	s.nothingLeft(nil)
}

// B7.4, B7.5: a Job whose Pod is never scheduled. Helm gives up after its timeout,
// and nothing is touched; what the README says to do instead is all it takes.
func TestJobThatNeverRuns(t *testing.T) {
	t.Parallel()
	s := newSite(t, "never")
	s.install(s.chart(), values{"replicas": 0, "nodeSelector": values{"none": "such"}})
	s.fenced("live", "held")
	uninstall := s.uninstallAction()
	uninstall.Timeout = 5 * time.Second
	if _, err := uninstall.Run(s.name); err == nil {
		t.Fatal("the uninstall succeeded without its hook")
	}
	if live, held := s.live("live"), s.live("held"); !plungertest.Fenced(live) || !plungertest.Fenced(held) || !held.Spec.Suspend || s.hookPod().Spec.NodeName != "" {
		t.Errorf("B7.4: touched: %v, %v, suspended %t, hook on %q", live.Finalizers, held.Finalizers, held.Spec.Suspend, s.hookPod().Spec.NodeName)
	}
	s.deployment()

	s.readmeCommand()
	s.uninstallWithoutHooks()
	s.onlyTheJobIsLeft(nil)
}

// B7.4: an installer without hooks has deleted everything of the chart, its rights
// too, and fences are left. The README's command, run after it, is the way out.
func TestObjectsGoneWithoutHooks(t *testing.T) {
	t.Parallel()
	s := newSite(t, "hookless")
	s.install(s.chart(), values{"replicas": 0})
	s.fenced("live", "held")
	s.uninstallWithoutHooks()
	if live, held := s.live("live"), s.live("held"); !plungertest.Fenced(live) || !plungertest.Fenced(held) || !held.Spec.Suspend {
		t.Errorf("touched without a hook: %v, %v, suspended %t", live.Finalizers, held.Finalizers, held.Spec.Suspend)
	}
	s.readmeCommand()
	s.onlyTheJobIsLeft(nil)
}

// readmeCommand runs what the README says for where the Job cannot run, and sees
// every release let go.
func (s *site) readmeCommand() {
	s.Helper()
	out := s.byHand(filepath.Join(chartDir, "README.md"), strings.NewReplacer("NAMESPACE", s.ns, "DEPLOYMENT", s.fullname(), "RELEASE", s.name))
	s.says(out, "HelmRelease "+s.tenant+"/live", "HelmRelease "+s.tenant+"/held", "no release carries a fence: done")
	if held := s.live("held"); plungertest.Fenced(s.live("live")) || plungertest.Fenced(held) || held.Spec.Suspend {
		s.Errorf("%v, %v, suspended %t", s.live("live").Finalizers, held.Finalizers, held.Spec.Suspend)
	}
}

func (s *site) uninstallWithoutHooks() {
	s.Helper()
	uninstall := s.uninstallAction()
	uninstall.DisableHooks = true
	_, err := uninstall.Run(s.name)
	s.must(err)
}

// B7.2, B7.4: flux-plunger runs and holds a delete whose uninstall fails. First the
// hook may not patch: it ends non-zero, names the release, and leaves the release
// of the chart for another try; then it may, and the uninstall goes through.
func TestFailedHookKeepsTheChart(t *testing.T) {
	t.Parallel()
	s := newSite(t, "failed")
	s.must(shared.Publish(t.Context(), s.tenant, lab.Source, lab.Chart{Hooks: map[string]lab.Hook{"pre-delete": lab.HookFails}}))
	s.install(s.chart(), nil)
	s.releases("one")
	// A fence that flux-plunger itself set, on a release that it recovers, whose
	// delete then cannot be uninstalled.
	s.must(shared.Stick(t.Context(), s.key("one"), lab.Damage{}))
	_, err := shared.Until(t.Context(), s.key("one"), settle, plungertest.Fenced)
	s.must(err)
	s.must(shared.Delete(t.Context(), s.key("one")))
	_, err = shared.Until(t.Context(), s.key("one"), settle, uninstallFailed)
	s.must(err)
	s.role("helmreleases", func(verbs []string) []string {
		return slices.DeleteFunc(verbs, func(v string) bool { return v == "patch" })
	})

	if err := s.uninstall(); err == nil {
		t.Fatal("B7.4: the uninstall succeeded although a fence could not be removed")
	}
	if hr := s.live("one"); !plungertest.Fenced(hr) {
		t.Error("B7.4: the fence is gone")
	}
	s.says(s.report(), "scaled Deployment", "HelmRelease "+s.tenant+"/one")
	if job := s.job(); job.Status.Failed != 1 {
		t.Errorf("B7.5: the Job's status is %+v", job.Status)
	}
	s.deployment()

	s.role("helmreleases", func(verbs []string) []string { return append(verbs, "patch") })
	s.must(s.uninstall())
	s.says(s.report(), "let go of HelmRelease "+s.tenant+"/one before helm-controller uninstalled it", "--selector owner=helm,name=one")
	s.nothingLeft(nil)
}
