package installed

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-project/holdfast/internal/plunger/plungertest"
	"github.com/holdfast-project/holdfast/test/chart/rendered"
)

// B7.9: what config/flux-plunger holds is taken by the API server as it stands; it
// recovers a release under its own ServiceAccount; and the command that its head
// names instead of a hook stops it and lets its fences go.
func TestKustomizeForm(t *testing.T) {
	t.Parallel()
	s := newSite(t, "kustomize")
	s.must(shared.Namespace(t.Context(), "flux-system"))
	dir := filepath.Join("..", "..", "..", "config", "flux-plunger")
	raw, err := os.ReadFile(filepath.Join(dir, "flux-plunger.yaml"))
	s.must(err)
	objects, err := rendered.Decode(raw)
	s.must(err)
	s.accepted(objects)

	// The image, the ports of this machine and the releases are the test's.
	own := regexp.MustCompile(`image: ghcr\.io\S+`).ReplaceAllString(string(raw), "image: "+image)
	for _, change := range [][2]string{{"--metrics-addr=:8080", "--metrics-addr=0"}, {"--health-addr=:9440", "--health-addr=0"},
		{"--watch-all-namespaces=true", "--watch-label-selector=site=kustomize"}} {
		if strings.Count(own, change[0]) != 1 {
			t.Fatalf("the Deployment does not say %s once", change[0])
		}
		own = strings.Replace(own, change[0], change[1], 1)
	}
	s.must(shared.ControlPlane.ApplyYAML(t.Context(), []byte(own)))
	s.releases("one", "two")
	s.recovers("one")

	s.patch("two", types.ApplyPatchType, "flux-plunger", fenceHold)
	out := s.byHand(filepath.Join(dir, "kustomization.yaml"), nil)
	s.says(out, "scaled Deployment flux-system/flux-plunger to zero", "no release carries a fence: done")
	if two := s.live("two"); plungertest.Fenced(two) || two.Spec.Suspend {
		t.Errorf("the release is not let go: %v, suspended %t", two.Finalizers, two.Spec.Suspend)
	}
	var deployment appsv1.Deployment
	s.must(shared.Client.Get(t.Context(), types.NamespacedName{Namespace: "flux-system", Name: "flux-plunger"}, &deployment))
	if deployment.Status.Replicas != 0 {
		t.Errorf("%d replicas are left", deployment.Status.Replicas)
	}
	for _, object := range objects {
		if err := shared.Client.Delete(t.Context(), object); err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("deleting %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
}

// accepted has the API server judge the objects as it would an apply, strictly.
func (s *site) accepted(objects []*unstructured.Unstructured) {
	s.Helper()
	for _, object := range objects {
		err := shared.Client.Apply(s.Context(), client.ApplyConfigurationFromUnstructured(object.DeepCopy()),
			client.DryRunAll, client.FieldOwner("kubectl"), client.ForceOwnership)
		if err != nil {
			s.Errorf("%s %s is refused: %v", object.GetKind(), object.GetName(), err)
		}
	}
}

// B7.1: with everything on, the API server takes every object, but for those of the
// Prometheus operator, whose definitions are not here; and in a namespace that
// enforces restricted Pod security it takes the Pods of both workloads.
func TestEverythingIsAccepted(t *testing.T) {
	t.Parallel()
	s := newSite(t, "accepted")
	s.must(shared.Client.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.ns}},
		client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`))))
	s.must(shared.Client.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: s.fullname()}}))
	s.must(shared.Client.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: s.fullname() + "-hook"}}))
	made, err := rendered.Render(t.Context(), chartDir, rendered.Options{Name: s.name, Namespace: s.ns, Values: values{
		"replicas": 2, "image": values{"digest": "sha256:" + strings.Repeat("ab", 32)}, "imagePullSecrets": []any{values{"name": "registry"}},
		"priorityClassName": "system-cluster-critical", "commonLabels": values{"team": "platform"}, "commonAnnotations": values{"note": "n"},
		"nodeSelector": values{"disk": "ssd"}, "tolerations": []any{values{"operator": "Exists"}}, "affinity": values{"podAntiAffinity": values{}},
		"topologySpreadConstraints": []any{values{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}},
		"extraEnv":                  []any{values{"name": "HTTPS_PROXY", "value": "http://proxy"}},
		"metrics":                   values{"podMonitor": values{"enabled": true}, "prometheusRule": values{"enabled": true}, "dashboard": values{"enabled": true}},
		"networkPolicy":             values{"enabled": true},
	}})
	s.must(err)
	objects := append(made.Objects, made.Hooks...)
	for _, workload := range []string{"Deployment", "Job"} {
		at := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == workload })
		template, _, _ := unstructured.NestedMap(objects[at].Object, "spec", "template")
		pod := &unstructured.Unstructured{Object: template}
		pod.SetAPIVersion("v1")
		pod.SetKind("Pod")
		pod.SetNamespace(s.ns)
		pod.SetName("of-the-" + strings.ToLower(workload))
		objects = append(objects, pod)
	}
	s.accepted(slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool {
		return strings.HasPrefix(o.GetAPIVersion(), "monitoring.coreos.com/")
	}))
}

// byHand runs the release-fences that the file tells people to run, for this
// site's releases, as an administrator.
func (s *site) byHand(file string, names *strings.Replacer) string {
	s.Helper()
	raw, err := os.ReadFile(file)
	s.must(err)
	text := strings.NewReplacer("\n# ", " ", "\\\n", " ").Replace(string(raw))
	found := regexp.MustCompile(`flux-plunger (release-fences --[^"\n]+)`).FindStringSubmatch(text)
	if found == nil {
		s.Fatalf("%s names no command:\n%s", file, raw)
	}
	command := found[1]
	if names != nil {
		command = names.Replace(command)
	}
	self, err := os.Executable()
	s.must(err)
	cmd := exec.CommandContext(s.Context(), self, append(strings.Fields(command), "--watch-label-selector=site="+s.name)...)
	cmd.Env = append(os.Environ(), roleVariable+"=1", "KUBECONFIG="+shared.ControlPlane.AdminKubeconfig())
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}
