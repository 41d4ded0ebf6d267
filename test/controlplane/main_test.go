package controlplane_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/test/controlplane"
)

// shared is the control plane of all tests but those that kill theirs.
var shared *controlplane.ControlPlane

// images are the programs of these tests: this binary in its roles.
func images() map[string]controlplane.Program {
	all := map[string]controlplane.Program{}
	for name := range programs() {
		all["example.test/"+name] = program(name)
	}
	return all
}

func TestMain(m *testing.M) {
	if run, ok := programs()[os.Getenv(roleVariable)]; ok {
		os.Exit(run())
	}
	os.Exit(testMain(m))
}

// testMain is also the test that Stop leaves nothing: whatever the tests below did
// has happened by then.
func testMain(m *testing.M) int {
	before := goleak.IgnoreCurrent()
	cp, err := controlplane.Start(context.Background(), controlplane.Options{KwokNodes: 1, Images: images()})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	shared = cp
	code := m.Run()
	if len(processesOf(cp.Dir())) < 6 {
		err = fmt.Errorf("only the processes %q are found while the control plane runs", processesOf(cp.Dir()))
	}
	err = errors.Join(err, cp.Stop(), nothingLeft(cp.Dir()), goleak.Find(before))
	if _, statErr := os.Stat(cp.Dir()); !errors.Is(statErr, os.ErrNotExist) {
		err = errors.Join(err, fmt.Errorf("the state directory %s is left", cp.Dir()))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "stopping:", err)
		return 1
	}
	return code
}

func TestAnswers(t *testing.T) {
	version, err := shared.Client().Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if version.GitVersion != controlplane.KubernetesVersion || version.Minor == "" {
		t.Errorf("server says it is %s (minor %q), want %s", version.GitVersion, version.Minor, controlplane.KubernetesVersion)
	}
}

// Asked again, Ensure finds what it built. It reads all sources for that, and because
// it does so inside a test, `go test` knows that a result depends on them.
func TestEnsureFindsWhatItBuilt(t *testing.T) {
	bins, err := controlplane.Ensure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for dir, names := range map[string][]string{
		bins.Servers: {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"},
		bins.Helpers: {"keeper", "podrunner"},
	} {
		for _, name := range names {
			if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm()&0o100 == 0 {
				t.Errorf("%s is %v, %v", name, info, err)
			}
		}
	}
}

// nothingLeft waits for no process: when Stop has returned there must be none.
func nothingLeft(dir string) error {
	if left := processesOf(dir); len(left) > 0 {
		return fmt.Errorf("processes are left: %s", strings.Join(left, "; "))
	}
	return nil
}

// namespace makes a namespace for one test, with its default ServiceAccount.
func namespace(t *testing.T) string {
	t.Helper()
	ns, err := shared.Client().CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		_, err := shared.Client().CoreV1().ServiceAccounts(ns.Name).Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
	return ns.Name
}

// eventually repeats check until it succeeds.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("not so within 30 s: %v", err)
		case <-tick.C:
		}
	}
}

func createPod(t *testing.T, ns string, spec corev1.PodSpec) *corev1.Pod {
	t.Helper()
	if spec.RestartPolicy == "" {
		spec.RestartPolicy = corev1.RestartPolicyNever
	}
	if spec.TerminationGracePeriodSeconds == nil {
		zero := int64(0)
		spec.TerminationGracePeriodSeconds = &zero
	}
	for i := range spec.Containers {
		spec.Containers[i].Name = "main"
	}
	pod, err := shared.Client().CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "pod-", Labels: map[string]string{"app": "example"}}, Spec: spec,
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func getPod(t *testing.T, pod *corev1.Pod) (*corev1.Pod, error) {
	t.Helper()
	return shared.Client().CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
}

// reaches waits until the Pod has a phase, and returns it as it is then.
func reaches(t *testing.T, pod *corev1.Pod, phase corev1.PodPhase) (now *corev1.Pod) {
	t.Helper()
	eventually(t, func() (err error) {
		if now, err = getPod(t, pod); err == nil && now.Status.Phase != phase {
			err = fmt.Errorf("phase is %s, want %s: %+v", now.Status.Phase, phase, now.Status.ContainerStatuses)
		}
		return err
	})
	return now
}

func logOf(t *testing.T, pod *corev1.Pod, options corev1.PodLogOptions) string {
	t.Helper()
	text, err := shared.Client().CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &options).DoRaw(t.Context())
	if err != nil {
		t.Fatalf("reading the log of %s: %v", pod.Name, err)
	}
	return string(text)
}
