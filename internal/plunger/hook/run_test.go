package hook_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/hook"
	"github.com/holdfast-project/holdfast/test/controlplane"
	"github.com/holdfast-project/holdfast/test/helmcontroller/lab"
)

const other = "other.example/hold"

// B7.2, B7.3: every fence goes, only suspensions that are ours alone are lifted,
// every other field is as it was, each release is named; and once more.
func TestSweep(t *testing.T) {
	t.Parallel()
	s := newSite(t, "sweep", nil)
	s.deployment()
	names := []string{"live", "held", "deleted", "shared", "foreign", "clientside", "copies", "stripped"}
	for _, name := range names {
		s.release(name, func(hr *helmv2.HelmRelease) { hr.Finalizers = []string{other} })
	}
	s.apply("live", "flux-plunger", fenceOnly)
	s.apply("held", "flux-plunger", fenceHold)
	s.apply("deleted", "flux-plunger", fenceHold)
	s.must(shared.Delete(t.Context(), types.NamespacedName{Namespace: s.ns, Name: "deleted"}))
	s.apply("shared", "flux-plunger", fenceHold)
	s.apply("shared", "migration", `"metadata":{},"spec":{"suspend":true}`)
	s.apply("foreign", "flux-plunger", fenceOnly)
	s.must(s.merge("foreign", `{"spec":{"suspend":true}}`))
	s.clientSideApplied("clientside")
	s.must(s.merge("copies", `{"metadata":{"finalizers":["`+contract.Fence+`","`+other+`","`+contract.Fence+`","`+contract.HelmFinalizer+`"]}}`))
	// Somebody took the fence away from under our suspension.
	s.apply("stripped", "flux-plunger", fenceHold)
	s.must(s.merge("stripped", `{"metadata":{"finalizers":["`+other+`"]}}`))
	if s.fences("copies") != 2 {
		t.Fatal("the API server did not keep two copies of the fence")
	}
	before := map[string]*helmv2.HelmRelease{}
	for _, name := range names {
		before[name] = s.live(name)
	}

	s.must(s.hook())

	wantSuspend := map[string]bool{"shared": true, "foreign": true}
	for _, name := range names {
		after := s.live(name)
		if after == nil {
			t.Fatalf("%s is gone although another finalizer holds it", name)
		}
		if s.fences(name) != 0 || after.Spec.Suspend != wantSuspend[name] {
			t.Errorf("%s: finalizers %v, suspend %t", name, after.Finalizers, after.Spec.Suspend)
		}
		if diff := cmp.Diff(rest(before[name]), rest(after)); diff != "" {
			t.Errorf("%s: another field changed:\n%s", name, diff)
		}
		s.says("HelmRelease sweep/" + name)
	}
	if raw := s.live("held").ManagedFields; slices.ContainsFunc(raw, func(m metav1.ManagedFieldsEntry) bool {
		return m.FieldsV1 != nil && strings.Contains(string(m.FieldsV1.GetRawBytes()), "f:suspend")
	}) {
		t.Error("B7.3: the lifted suspension is not absent: somebody owns the field")
	}
	s.apply("shared", "migration", `"metadata":{}`)
	if s.live("shared").Spec.Suspend {
		t.Error("B2.2: what the other manager has given up stays suspended by a claim of ours")
	}
	s.says("deleted before helm-controller uninstalled it", "deleted Lease sweep/"+contract.LeaderElectionID)
	if len(s.podNames()) != 0 || s.hasLease() {
		t.Errorf("B7.2, B7.7: Pods %v, Lease %t", s.podNames(), s.hasLease())
	}

	writes := len(s.wrote())
	s.must(s.hook())
	if again := len(s.wrote()); again != writes {
		t.Errorf("a second run wrote %d times", again-writes)
	}
}

// B7.2: fifty fenced releases, every third of them terminating, and the command run
// twice: every one is let go and named, the second run finds nothing to do.
func TestFiftyReleasesTwice(t *testing.T) {
	t.Parallel()
	s := newSite(t, "fifty", nil)
	s.deployment()
	keys := lab.Names(s.ns, "hr", 50)
	s.must(lab.Each(keys, func(key types.NamespacedName) error {
		hr := lab.NewRelease(key)
		hr.Finalizers = []string{contract.HelmFinalizer}
		return errors.Join(shared.Client.Create(t.Context(), hr), s.applied(key.Name, "flux-plunger", fenceOnly))
	}))
	for i := 0; i < len(keys); i += 3 {
		s.must(s.remove(keys[i].Name))
	}
	s.must(s.hook())
	s.must(s.hook())
	for i, key := range keys {
		if s.fences(key.Name) != 0 || s.live(key.Name) == nil {
			t.Errorf("%s: %d fences", key.Name, s.fences(key.Name))
		}
		want := "let go of HelmRelease " + key.String() + ", which is not being deleted"
		if i%3 == 0 {
			want = "let go of HelmRelease " + key.String() + " before helm-controller uninstalled it"
		}
		s.says(want)
	}
	if got := len(s.wrote()); got != len(keys) {
		t.Errorf("the two runs wrote %d times, want %d", got, len(keys))
	}
}

// clientSideApplied makes the release as kubectl's client-side apply leaves one:
// on it kubectl's server-side apply would take over, and empty, the whole spec.
func (s *site) clientSideApplied(name string) {
	s.Helper()
	hr := s.live(name)
	hr.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": `{"apiVersion":"helm.toolkit.fluxcd.io/v2","kind":"HelmRelease"}`}
	hr.Spec.Values = lab.Values(7)
	s.must(shared.Client.Update(s.Context(), hr, client.FieldOwner("kubectl-client-side-apply")))
	s.apply(name, "flux-plunger", fenceHold)
}

// rest is all of a release but what the hook is to change.
func rest(hr *helmv2.HelmRelease) *helmv2.HelmRelease {
	hr = hr.DeepCopy()
	hr.Spec.Suspend, hr.ManagedFields, hr.ResourceVersion, hr.Generation, hr.DeletionGracePeriodSeconds = false, nil, "", 0, nil
	hr.Finalizers = slices.DeleteFunc(hr.Finalizers, func(f string) bool { return f == contract.Fence })
	return hr
}

// B7.3: a list that changes, or a release that goes or is made again, between the
// read and the patch.
func TestChangeUnderThePatch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fields string
		change func(*site) error
		fences int
	}{
		"list": {fenceOnly, func(s *site) error {
			return s.merge("hr", `{"metadata":{"finalizers":["`+other+`","`+contract.HelmFinalizer+`","`+contract.Fence+`"]}}`)
		}, 0},
		"spec": {fenceHold, func(s *site) error { return s.merge("hr", `{"spec":{"interval":"2h0m0s"}}`) }, 0},
		"takenover": {fenceHold, func(s *site) error {
			return errors.Join(s.merge("hr", `{"spec":{"suspend":false}}`), s.merge("hr", `{"spec":{"suspend":true}}`))
		}, 0},
		"gone": {fenceOnly, func(s *site) error {
			return errors.Join(s.merge("hr", `{"metadata":{"finalizers":null}}`), s.remove("hr"))
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "change-"+name, nil)
			s.release("hr")
			s.apply("hr", "flux-plunger", c.fields)
			changed := false
			s.first(http.MethodPatch, "/helmreleases/hr", func() error { changed = true; return c.change(s) })
			s.must(s.hook())
			if !changed {
				t.Fatal("the change never happened")
			}
			if got := s.fences("hr"); got != c.fences {
				t.Errorf("%d fences", got)
			}
			switch hr := s.live("hr"); name {
			case "gone":
				if hr != nil {
					t.Errorf("it is there: %v", hr.Finalizers)
				}
			case "list":
				if want := []string{other, contract.HelmFinalizer}; !slices.Equal(hr.Finalizers, want) {
					t.Errorf("finalizers are %v, want %v", hr.Finalizers, want)
				}
			default:
				if want := name == "takenover"; hr.Spec.Suspend != want {
					t.Errorf("suspend is %t", hr.Spec.Suspend)
				}
			}
		})
	}
}

// B7.4: a release of the same name that was made again is another one: its fence
// is found by the second listing and fails the hook, it is not taken for ours.
func TestMadeAgainUnderTheName(t *testing.T) {
	t.Parallel()
	s := newSite(t, "again", nil)
	s.release("hr")
	s.apply("hr", "flux-plunger", fenceOnly)
	s.first(http.MethodPatch, "/helmreleases/hr", func() error {
		if err := errors.Join(s.merge("hr", `{"metadata":{"finalizers":null}}`), s.remove("hr")); err != nil {
			return err
		}
		next := lab.NewRelease(types.NamespacedName{Namespace: s.ns, Name: "hr"})
		next.Finalizers = []string{contract.Fence}
		return shared.Client.Create(context.Background(), next)
	})
	err := s.hook()
	if err == nil || !strings.Contains(err.Error(), "again/hr carries a fence after the sweep") {
		t.Errorf("the hook ended with %v", err)
	}
	if s.fences("hr") != 1 {
		t.Errorf("%d fences", s.fences("hr"))
	}
}

// B7.4: what ends the hook before any fence is touched.
func TestEndsBeforeAnyFenceIsTouched(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ verb, resource, says string }{
		"scale":    {"patch", "deployments/scale", "stopping flux-plunger; no fence was touched"},
		"readcale": {"get", "deployments/scale", "stopping flux-plunger; no fence was touched"},
		"pods":     {"list", "pods", "stopping flux-plunger; no fence was touched: listing Pods"},
		"list":     {"list", "helmreleases", "listing fenced releases; no fence was touched"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "untouched-"+name, without(c.verb, c.resource))
			s.deployment()
			s.release("hr")
			s.apply("hr", "flux-plunger", fenceHold)
			err := s.hook()
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the hook ended with %v, want %q", err, c.says)
			}
			if hr := s.live("hr"); s.fences("hr") != 1 || !hr.Spec.Suspend || len(s.wrote()) != 0 || !s.hasLease() {
				t.Errorf("touched: finalizers %v, suspend %t, writes %v, Lease %t", hr.Finalizers, hr.Spec.Suspend, s.wrote(), s.hasLease())
			}
		})
	}
}

// B7.4: a listing that never succeeds by no fault of RBAC, within its bound.
func TestListingThatNeverSucceeds(t *testing.T) {
	t.Parallel()
	s := newSite(t, "never", nil)
	s.release("hr")
	s.apply("hr", "flux-plunger", fenceOnly)
	s.before = func(request *http.Request) error {
		if strings.HasSuffix(request.URL.Path, "/helmreleases") {
			return errors.New("connection reset")
		}
		return nil
	}
	err := s.hook(func(c *hook.Config) { c.Timing.List = 300 * time.Millisecond })
	if err == nil || !strings.Contains(err.Error(), "no fence was touched") || s.fences("hr") != 1 {
		t.Errorf("the hook ended with %v, %d fences", err, s.fences("hr"))
	}
}

// B7.4: the definition of HelmRelease is gone. It is not for the hook to conclude
// from a 404 that there are no fences, so it fails; what to do is in the chart's README.
func TestDefinitionGone(t *testing.T) {
	t.Parallel()
	cp := controlplane.StartForTest(t, controlplane.Options{NoControllerManager: true, NoPodRunner: true, NoScheduler: true})
	objects, err := kube.NewObjects(cp.AdminConfig(), contract.FieldManager)
	if err != nil {
		t.Fatal(err)
	}
	timing := shortTiming()
	timing.List = 5 * time.Second
	err = hook.Run(t.Context(), hook.Config{Objects: objects, Namespace: "default", Deployment: "flux-plunger", Pods: pods,
		Timing: timing, Report: io.Discard, Now: time.Now})
	if err == nil || !strings.Contains(err.Error(), "listing fenced releases; no fence was touched") || !strings.Contains(err.Error(), "404") {
		t.Errorf("the hook ended with %v", err)
	}
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "charts", "flux-plunger", "README.md"))
	if err != nil || !strings.Contains(string(raw), "so that the log says `404`") {
		t.Errorf("the README does not explain the 404: %v", err)
	}
}

// B7.4: what fails for a moment, without an answer or with the API server's that it
// is too busy, is tried again.
func TestFailuresOfAMoment(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ method, part string }{
		"listing": {http.MethodGet, "/helmreleases"},
		"scale":   {http.MethodPatch, "/scale"},
		"pods":    {http.MethodGet, "/pods"},
		"patch":   {http.MethodPatch, "/helmreleases/hr"},
		"lease":   {http.MethodDelete, "/leases/"},
	} {
		for kind, failure := range map[string]error{"reset": errors.New("connection reset"), "busy": errBusy} {
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				s := newSite(t, "moment-"+name+"-"+kind, nil)
				s.deployment()
				s.release("hr")
				s.apply("hr", "flux-plunger", fenceHold)
				s.planned = failure
				s.first(c.method, c.part, func() error { return s.planned })
				s.must(s.hook())
				if s.fences("hr") != 0 || s.hasLease() {
					t.Errorf("%d fences, Lease %t", s.fences("hr"), s.hasLease())
				}
			})
		}
	}
}

// B7.2, B9.1(b): a release whose last write got no answer is named like every other that
// is let go, whether that write has ended it or only taken the fence.
func TestLostAnswerIsNamed(t *testing.T) {
	t.Parallel()
	for name, terminating := range map[string]bool{"live": false, "terminating": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "lost-"+name, nil)
			s.deployment()
			s.release("hr")
			s.apply("hr", "flux-plunger", fenceOnly)
			want := "let go of HelmRelease lost-live/hr, which is not being deleted"
			if terminating {
				s.must(s.merge("hr", `{"metadata":{"finalizers":["`+contract.Fence+`"]}}`))
				s.must(s.remove("hr"))
				want = "let go of HelmRelease lost-terminating/hr before helm-controller uninstalled it"
			}
			s.planned = errLost
			s.first(http.MethodPatch, "/helmreleases/hr", func() error { return errLost })
			s.must(s.hook())
			if said := s.said.String(); strings.Count(said, want) != 1 || !strings.Contains(said, "a request got no answer") {
				t.Errorf("it said:\n%s", said)
			}
		})
	}
}

// B7.4: a fence that cannot be removed fails the hook after the sweep, and is
// named; the Lease stays.
func TestPatchDenied(t *testing.T) {
	t.Parallel()
	s := newSite(t, "denied", without("patch", "helmreleases"))
	for _, name := range []string{"one", "two"} {
		s.release(name)
		s.apply(name, "flux-plunger", fenceHold)
	}
	s.deployment()
	err := s.hook()
	for _, name := range []string{"one", "two"} {
		if err == nil || !strings.Contains(err.Error(), "HelmRelease denied/"+name) {
			t.Errorf("the hook ended with %v, which does not name %s", err, name)
		}
		if s.fences(name) != 1 || !s.live(name).Spec.Suspend {
			t.Errorf("%s was touched", name)
		}
	}
	if strings.Contains(s.said.String(), "let go") || !s.hasLease() {
		t.Errorf("Lease %t, said:\n%s", s.hasLease(), s.said.String())
	}
}

// B7.4: one release that cannot be let go does not keep the others.
func TestOneFailureKeepsNoOther(t *testing.T) {
	t.Parallel()
	s := newSite(t, "one", nil)
	for _, name := range []string{"a", "b", "c"} {
		s.release(name)
		s.apply(name, "flux-plunger", fenceOnly)
	}
	s.before = func(request *http.Request) error {
		if request.Method == http.MethodPatch && strings.HasSuffix(request.URL.Path, "/a") {
			return errors.New("connection reset")
		}
		return nil
	}
	err := s.hook()
	if err == nil || !strings.Contains(err.Error(), "one/a") || strings.Contains(err.Error(), "one/b") {
		t.Errorf("the hook ended with %v", err)
	}
	if s.fences("a") != 1 || s.fences("b") != 0 || s.fences("c") != 0 {
		t.Errorf("fences: %d %d %d", s.fences("a"), s.fences("b"), s.fences("c"))
	}
}

// B7.4: a Pod still Terminating after its grace period is reported and keeps
// nothing; a fence that it sets meanwhile fails the hook.
func TestPodStuckTerminating(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"quiet", "busy"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "stuck-"+name, nil)
			s.deployment()
			s.release("hr")
			s.apply("hr", "flux-plunger", fenceOnly)
			s.release("late")
			s.must(shared.ControlPlane.CreateNode(t.Context(), s.ns, nil))
			s.pod("stuck", func(pod *corev1.Pod) { pod.Spec.NodeName = s.ns })
			s.must(shared.Client.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "stuck"}}))
			if name == "busy" {
				s.nth(2, http.MethodGet, "/helmreleases", func() error { return s.applied("late", "flux-plunger", fenceOnly) })
			}
			err := s.hook(func(c *hook.Config) { c.Timing.Grace = time.Second })
			s.says("Pod stuck-" + name + "/stuck (terminating)")
			if s.fences("hr") != 0 {
				t.Error("the fence was not removed")
			}
			if name == "quiet" {
				s.must(err)
			} else if err == nil || !strings.Contains(err.Error(), "stuck-busy/late carries a fence after the sweep") || !s.hasLease() {
				t.Errorf("the hook ended with %v", err)
			}
		})
	}
}

// B7.2, B7.4: while a Pod is there and its time is not over, nothing is touched.
func TestWaitsForPods(t *testing.T) {
	t.Parallel()
	s := newSite(t, "waits", nil)
	s.release("hr")
	s.apply("hr", "flux-plunger", fenceOnly)
	s.pod("left", func(*corev1.Pod) {})
	lists := 0
	s.before = func(request *http.Request) error {
		switch {
		case strings.HasSuffix(request.URL.Path, "/pods"):
			if lists++; lists == 10 {
				return shared.Client.Delete(context.Background(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "left"}})
			}
		case strings.Contains(request.URL.Path, "/helmreleases") && lists < 10:
			return errors.New("looked at releases while the Pod was there")
		}
		return nil
	}
	s.must(s.hook())
	if lists < 10 || s.fences("hr") != 0 {
		t.Errorf("%d listings, %d fences", lists, s.fences("hr"))
	}
	s.says("Deployment waits/flux-plunger is not there", "flux-plunger has stopped")
}

// B7.4: a Pod that has ended writes nothing more and is not awaited.
func TestEndedPodIsNotAwaited(t *testing.T) {
	t.Parallel()
	s := newSite(t, "ended", nil)
	pod := s.pod("evicted", func(*corev1.Pod) {})
	pod.Status.Phase, pod.Status.Reason = corev1.PodFailed, "Evicted"
	s.must(shared.Client.Status().Update(t.Context(), pod))
	s.must(s.hook())
	s.says("flux-plunger has stopped")
}

func (s *site) pod(name string, edit func(*corev1.Pod)) *corev1.Pod {
	s.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name, Labels: map[string]string{"app": "flux-plunger"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "registry.invalid/never:1"}}}}
	edit(pod)
	s.must(shared.Client.Create(s.Context(), pod))
	return pod
}

// B7.2: a Deployment that is not there counts as stopped.
func TestDeploymentGone(t *testing.T) {
	t.Parallel()
	s := newSite(t, "nodeployment", nil)
	s.release("hr")
	s.apply("hr", "flux-plunger", fenceHold)
	s.must(s.hook())
	if s.fences("hr") != 0 || s.live("hr").Spec.Suspend {
		t.Error("the release was not let go")
	}
}

// B7.2: it sweeps its own shard, and leaves another's alone.
func TestShard(t *testing.T) {
	t.Parallel()
	s := newSite(t, "shard", nil)
	for _, name := range []string{"mine", "yours"} {
		s.release(name)
		s.apply(name, "flux-plunger", fenceHold)
	}
	s.must(s.merge("yours", `{"metadata":{"labels":{"shard":"two"}}}`))
	s.must(s.hook(func(c *hook.Config) { c.WatchSelector = "shard=one" }))
	if s.fences("mine") != 0 || s.fences("yours") != 1 || !s.live("yours").Spec.Suspend {
		t.Errorf("fences: mine %d, yours %d", s.fences("mine"), s.fences("yours"))
	}
}

// B7.7: the Lease goes by its UID: one that was made again under the name in
// between is read again, and none left over is an error.
func TestLeaseMadeAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t, "lease", nil)
	s.deployment()
	refused := false
	s.first(http.MethodDelete, "/leases/", func() error {
		refused = true
		again := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: contract.LeaderElectionID}}
		return errors.Join(shared.Client.Delete(context.Background(), again.DeepCopy()), shared.Client.Create(context.Background(), again))
	})
	s.must(s.hook())
	if !refused {
		t.Error("the Lease was never deleted")
	}
	records := 0
	for _, record := range s.leaseDeletes() {
		if record == http.StatusConflict {
			records++
		}
	}
	if records == 0 && s.hasLease() {
		t.Error("the Lease is left")
	}
	if records == 0 {
		t.Error("the delete of another Lease was not refused: it named no UID")
	}
}

// The scaled Deployment is otherwise as it was.
func TestScaleChangesReplicasOnly(t *testing.T) {
	t.Parallel()
	s := newSite(t, "scaled", nil)
	s.deployment()
	key := types.NamespacedName{Namespace: s.ns, Name: "flux-plunger"}
	var before, after appsv1.Deployment
	s.must(shared.Client.Get(t.Context(), key, &before))
	s.must(s.hook())
	s.must(shared.Client.Get(t.Context(), key, &after))
	zero := int32(0)
	before.Spec.Replicas = &zero
	if diff := cmp.Diff(before.Spec, after.Spec); diff != "" {
		t.Errorf("the Deployment changed:\n%s", diff)
	}
}

// B7.6: every right of the shipped roles is needed: without any one of them the
// hook fails, or leaves the Lease.
func TestEveryRightIsNeeded(t *testing.T) {
	t.Parallel()
	for resource, verbs := range map[string][]string{"helmreleases": {"get", "list", "patch"},
		"deployments/scale": {"get", "patch"}, "pods": {"list"}, "leases": {"get", "delete"}} {
		for _, verb := range verbs {
			name := strings.ReplaceAll(resource, "/", "-") + "-" + verb
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := newSite(t, "right-"+name, without(verb, resource))
				s.deployment()
				s.release("hr")
				s.apply("hr", "flux-plunger", fenceHold)
				err := s.hook()
				if err == nil && !s.hasLease() {
					t.Error("the hook did all its work")
				}
				if err == nil {
					s.says("Lease right-" + name + "/" + contract.LeaderElectionID + " stays")
				}
			})
		}
	}
}
