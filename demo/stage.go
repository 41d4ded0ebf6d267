package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/test/apiproxy"
	"github.com/holdfast-project/holdfast/test/controlplane"
)

const (
	namespace = "openclaw-system"
	release   = "demo"
	// contextName is how the control plane's kubeconfigs call their context.
	contextName = "holdfast"
	repository  = "registry.example/holdfast/demo"
	candidate   = repository + "@sha256:5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef"
)

// stage is what every act plays on.
type stage struct {
	cp     *controlplane.ControlPlane
	proxy  *apiproxy.Proxy
	dir    string
	binary string
	// kubeconfig leads through the proxy, which is how an act kills the command
	// at an exact instant.
	kubeconfig string
	values     string
	out        io.Writer
}

func newStage(ctx context.Context, cp *controlplane.ControlPlane, dir string, out io.Writer) (*stage, error) {
	if _, err := cp.Client().CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("creating the namespace: %w", err)
	}
	proxy, err := apiproxy.Start(cp.AdminConfig())
	if err != nil {
		return nil, err
	}
	binary, err := filepath.Abs(filepath.Join("bin", "upgrade-production-images"))
	if err != nil {
		return nil, fmt.Errorf("finding the command: %w", err)
	}
	s := &stage{cp: cp, proxy: proxy, dir: dir, binary: binary, out: out,
		kubeconfig: filepath.Join(dir, "kubeconfig"), values: filepath.Join(dir, "values.yaml")}
	kubeconfig, err := proxy.Kubeconfig(cp.AdminKubeconfig())
	if err != nil {
		return nil, err
	}
	values, err := os.ReadFile(filepath.Join("examples", "values.yaml"))
	if err != nil {
		return nil, fmt.Errorf("reading the example's values: %w", err)
	}
	return s, errors.Join(os.WriteFile(s.kubeconfig, kubeconfig, 0o600), os.WriteFile(s.values, values, 0o600))
}

func (s *stage) say(title string) { fmt.Fprintf(s.out, "\n== %s\n", title) }

func (s *stage) note(format string, args ...any) { fmt.Fprintf(s.out, "   "+format+"\n", args...) }

// preflight runs the command to its end and returns its exit code, or -1 when it
// was killed.
func (s *stage) preflight(ctx context.Context, evidence string, started func(*exec.Cmd)) (int, error) {
	return s.runCommand(ctx, started, "--preflight-only", "--kubeconfig", s.kubeconfig, "--context", contextName, "--namespace", namespace,
		"--release", release, "--chart", filepath.Join("examples", "chart"), "--values", s.values, "--profile", filepath.Join("examples", "profile.yaml"),
		"--controller-image", candidate, "--evidence-dir", evidence)
}

func (s *stage) cleanup(ctx context.Context, evidence string) (int, error) {
	return s.runCommand(ctx, func(*exec.Cmd) {}, "--cleanup-preflight", "--kubeconfig", s.kubeconfig, "--context", contextName, "--namespace", namespace,
		"--release", release, "--evidence-dir", evidence, "--previous-process-settled", "--evidence-unrestored")
}

func (s *stage) runCommand(ctx context.Context, started func(*exec.Cmd), args ...string) (int, error) {
	cmd := command(ctx, s.binary, args...)
	reader, writer := io.Pipe()
	cmd.Stdout, cmd.Stderr = writer, writer
	var printing sync.WaitGroup
	printing.Go(func() { s.indent(reader) })
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("starting %s: %w", s.binary, err)
	}
	started(cmd)
	err := cmd.Wait()
	_ = writer.Close()
	printing.Wait()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		return 0, fmt.Errorf("running %s: %w", s.binary, err)
	}
	return cmd.ProcessState.ExitCode(), nil
}

func (s *stage) indent(r io.Reader) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fmt.Fprintf(s.out, "   | %s\n", lines.Text())
	}
}

// left lists what is in the namespace of the kinds that a preflight makes.
func (s *stage) left(ctx context.Context) ([]string, error) {
	client, all := s.cp.Client(), metav1.ListOptions{}
	jobs, err := client.BatchV1().Jobs(namespace).List(ctx, all)
	if err != nil {
		return nil, fmt.Errorf("listing Jobs: %w", err)
	}
	pods, err := client.CoreV1().Pods(namespace).List(ctx, all)
	if err != nil {
		return nil, fmt.Errorf("listing Pods: %w", err)
	}
	secrets, err := client.CoreV1().Secrets(namespace).List(ctx, all)
	if err != nil {
		return nil, fmt.Errorf("listing Secrets: %w", err)
	}
	policies, err := client.NetworkingV1().NetworkPolicies(namespace).List(ctx, all)
	if err != nil {
		return nil, fmt.Errorf("listing NetworkPolicies: %w", err)
	}
	var lines []string
	add := func(kind string, o metav1.Object) {
		lines = append(lines, fmt.Sprintf("%-14s %-36s %s", kind, o.GetName(), o.GetUID()))
	}
	for i := range jobs.Items {
		add("Job", &jobs.Items[i])
	}
	for i := range pods.Items {
		add("Pod", &pods.Items[i])
	}
	for i := range secrets.Items {
		add("Secret", &secrets.Items[i])
	}
	for i := range policies.Items {
		add("NetworkPolicy", &policies.Items[i])
	}
	return lines, nil
}

// show prints what is left and checks how many objects of each kind that is.
func (s *stage) show(ctx context.Context, want map[string]int) error {
	lines, err := s.left(ctx)
	if err != nil {
		return err
	}
	got := map[string]int{}
	for _, line := range lines {
		got[strings.Fields(line)[0]]++
	}
	if len(lines) == 0 {
		s.note("in the cluster: nothing")
	} else {
		s.note("in the cluster:")
	}
	for _, line := range lines {
		s.note("  %s", line)
	}
	for _, kind := range []string{"Job", "Pod", "Secret", "NetworkPolicy"} {
		if got[kind] != want[kind] {
			return fmt.Errorf("%d objects of kind %s are left, and the story has %d", got[kind], kind, want[kind])
		}
	}
	return nil
}

// disk prints the names of the evidence.
func (s *stage) disk(evidence string) error {
	s.note("on disk:")
	return filepath.WalkDir(evidence, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(evidence, path)
		s.note("  %s", name)
		return err
	})
}
