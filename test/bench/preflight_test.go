// Package bench measures a preflight beside what a careful user can write with a
// shell and kubectl, on the same control plane through the same proxy. Nothing
// here asserts a time: run it with "make bench" and compare the two rows.
//
// The two do not do the same work. The preflight renders a chart, tries every
// object first, runs real Pods and waits for them, and looks twice, a second
// apart, before it believes that a Job is gone. The shell script creates five
// inert objects and deletes them. It must not import the product's packages.
package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/test/apiproxy"
	"github.com/holdfast-project/holdfast/test/command"
	"github.com/holdfast-project/holdfast/test/controlplane"
)

const (
	namespace  = "preflight"
	repository = "registry.example/holdfast/demo"
	candidate  = repository + "@sha256:5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef"
)

// bench is what both rows share.
type bench struct {
	dir, binary, kubeconfig string
	cp                      *controlplane.ControlPlane
	proxy                   *apiproxy.Proxy
}

// shared is nil unless benchmarks were asked for.
var shared *bench

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		return m.Run() // "go test ./..." must not pay for a control plane here
	}
	var err error
	if shared, err = prepare(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	shared.proxy.Close()
	if err := errors.Join(shared.cp.Stop(), os.RemoveAll(shared.dir)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func prepare(ctx context.Context) (*bench, error) {
	cache, err := os.UserCacheDir() // the temporary directory may be a memory file system
	if err != nil {
		return nil, err
	}
	b := &bench{}
	if b.dir, err = os.MkdirTemp(cache, "holdfast-bench-"); err != nil {
		return nil, err
	}
	if b.binary, err = command.Build(b.dir, ""); err != nil {
		return nil, err
	}
	program := filepath.Join(b.dir, "example-image")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", program, "../../examples/demo").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the example image's program: %w\n%s", err, out)
	}
	if b.cp, err = controlplane.Start(ctx, controlplane.Options{Images: map[string]controlplane.Program{repository: {Path: program}}}); err != nil {
		return nil, err
	}
	if b.proxy, err = apiproxy.Start(b.cp.AdminConfig()); err != nil {
		return nil, err
	}
	if _, err := b.cp.Client().CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	through, err := b.proxy.Kubeconfig(b.cp.AdminKubeconfig())
	if err != nil {
		return nil, err
	}
	values, err := os.ReadFile(filepath.Join("..", "..", "examples", "values.yaml"))
	if err != nil {
		return nil, err
	}
	b.kubeconfig = filepath.Join(b.dir, "kubeconfig")
	return b, errors.Join(os.WriteFile(b.kubeconfig, through, 0o600), os.WriteFile(filepath.Join(b.dir, "values.yaml"), values, 0o600))
}

// measure runs the command once per iteration and reports what it cost.
func measure(b *testing.B, command func(iteration int) *exec.Cmd) {
	shared.proxy.Forget()
	cpu, n := 0.0, 0
	for b.Loop() {
		n++
		cmd := command(n)
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		cpu += (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(n), "wall-s/op")
	b.ReportMetric(cpu/float64(n), "cpu-s/op")
	b.ReportMetric(float64(len(shared.proxy.Requests()))/float64(n), "requests/op")
	b.ReportMetric(0, "ns/op") // the unit above is the readable one
}

func BenchmarkPreflight(b *testing.B) {
	measure(b, func(n int) *exec.Cmd {
		return exec.Command(shared.binary, "--preflight-only", "--kubeconfig", shared.kubeconfig, "--context", "holdfast",
			"--namespace", namespace, "--release", "demo", "--chart", "../../examples/chart", "--profile", "../../examples/profile.yaml",
			"--values", filepath.Join(shared.dir, "values.yaml"), "--controller-image", candidate,
			"--evidence-dir", filepath.Join(shared.dir, fmt.Sprintf("evidence-%d-%d", b.N, n)))
	})
}

func BenchmarkShellWithKubectl(b *testing.B) {
	if _, err := exec.LookPath("kubectl"); err != nil {
		b.Skip("there is no kubectl to compare with")
	}
	measure(b, func(n int) *exec.Cmd {
		cmd := exec.Command("./kubectl-preflight.sh")
		cmd.Env = append(os.Environ(), "KUBECONFIG="+shared.kubeconfig, "NS="+namespace, "SYNC=sync",
			"JOURNAL_DIR="+filepath.Join(shared.dir, fmt.Sprintf("journal-%d-%d", b.N, n)))
		return cmd
	})
}
