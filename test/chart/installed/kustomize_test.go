package installed

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	for _, object := range objects {
		err := shared.Client.Patch(t.Context(), object.DeepCopy(), client.Apply, client.DryRunAll, client.FieldOwner("kubectl"), client.ForceOwnership) //nolint:staticcheck // an unstructured object has no apply configuration
		if err != nil {
			t.Errorf("%s %s is refused: %v", object.GetKind(), object.GetName(), err)
		}
	}

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
	out := s.byHand(filepath.Join(dir, "kustomization.yaml"))
	s.says(out, "scaled Deployment flux-system/flux-plunger to zero", "no release carries a fence: done")
	if two := s.live("two"); fenced(two) || two.Spec.Suspend {
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

// byHand runs the command that the head of the file names, for this site's
// releases, as an administrator.
func (s *site) byHand(file string) string {
	s.Helper()
	raw, err := os.ReadFile(file)
	s.must(err)
	text := strings.ReplaceAll(string(raw), "\n# ", " ")
	found := regexp.MustCompile(`"flux-plunger (release-fences [^"]+)"`).FindStringSubmatch(text)
	if found == nil {
		s.Fatalf("%s names no command:\n%s", file, raw)
	}
	self, err := os.Executable()
	s.must(err)
	cmd := exec.CommandContext(s.Context(), self, append(strings.Fields(found[1]), "--watch-label-selector=site="+s.name)...)
	cmd.Env = append(os.Environ(), roleVariable+"=1", "KUBECONFIG="+shared.ControlPlane.AdminKubeconfig())
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}
