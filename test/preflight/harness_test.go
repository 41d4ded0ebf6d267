package preflight

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/test/apiproxy"
)

// canary is a Secret value; no file, log or output may hold it.
const canary = "canary-9f2c41d7-secret-value"

// site is one test's namespace, its inputs and its evidence directory.
type site struct {
	t          *testing.T
	namespace  string
	release    string
	dir        string
	kubeconfig string
	values     string
	evidence   string
	binary     string
}

// newSite makes a namespace of the test's own, with everything private that the
// command reads. The namespace goes with the test.
func newSite(t *testing.T) *site {
	t.Helper()
	client := world.cluster.Client()
	created, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "preflight-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.CoreV1().Namespaces().Delete(t.Context(), created.Name, metav1.DeleteOptions{})
	})
	dir := t.TempDir()
	s := &site{
		t: t, namespace: created.Name, release: "shop", dir: dir, binary: world.shipped,
		kubeconfig: filepath.Join(dir, "kubeconfig"), values: filepath.Join(dir, "values.yaml"),
		evidence: filepath.Join(dir, "evidence"),
	}
	content, err := os.ReadFile(world.cluster.AdminKubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	s.write(s.kubeconfig, string(content))
	s.behave(nil)
	return s
}

func (s *site) write(path, content string) {
	s.t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// behave writes the values: a canary for each credential, and how the example's
// program behaves in each component.
func (s *site) behave(behaviour map[string]string) {
	values := map[string]any{
		"credentials": map[string]any{"databaseURL": "postgres://demo:" + canary + "@db/demo", "token": canary},
	}
	for component, how := range behaviour {
		values[component] = map[string]any{"behaviour": how}
	}
	content, err := json.Marshal(values)
	if err != nil {
		s.t.Fatal(err)
	}
	s.write(s.values, string(content))
}

// through puts a proxy between the command and the API server.
func (s *site) through(hooks apiproxy.Hooks) *apiproxy.Proxy {
	s.t.Helper()
	proxy, err := apiproxy.Start(world.cluster.AdminConfig())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(proxy.Close)
	content, err := proxy.Kubeconfig(s.kubeconfig)
	if err != nil {
		s.t.Fatal(err)
	}
	s.write(s.kubeconfig, string(content))
	proxy.Hook(hooks)
	return proxy
}

func (s *site) preflightArgs(more ...string) []string {
	return append([]string{
		"--preflight-only", "--kubeconfig", s.kubeconfig, "--context", "holdfast", "--namespace", s.namespace,
		"--release", s.release, "--evidence-dir", s.evidence, "--values", s.values,
		"--chart", filepath.Join(world.root, "examples/chart"), "--profile", filepath.Join(world.root, "examples/profile.yaml"),
		"--controller-image", candidate, "--timeout", "60s",
	}, more...)
}

func (s *site) cleanupArgs() []string {
	return []string{
		"--cleanup-preflight", "--kubeconfig", s.kubeconfig, "--context", "holdfast", "--namespace", s.namespace,
		"--release", s.release, "--evidence-dir", s.evidence, "--previous-process-settled", "--evidence-unrestored",
	}
}

// ended is a finished command.
type ended struct {
	code           int
	signal         syscall.Signal
	stdout, stderr string
}

// process is a running command.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr output
	done           chan struct{}
}

// output is what a process has printed so far.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(text)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func (s *site) command(env []string, args ...string) *exec.Cmd {
	cmd := exec.Command(s.binary, args...)
	cmd.Env = append(os.Environ(), env...)
	return cmd
}

func (s *site) start(env []string, args ...string) *process {
	s.t.Helper()
	p := &process{cmd: s.command(env, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	s.begin(p)
	return p
}

// inFlight waits until the request that was to be held has arrived. A process that
// ended before it never sends one.
func (p *process) inFlight(t *testing.T, arrived <-chan struct{}) {
	t.Helper()
	select {
	case <-arrived:
	case <-p.done:
		t.Fatalf("it ended before the create left:\n%s", p.stderr.String())
	}
}

// begin starts a process that does not outlive the test.
func (s *site) begin(p *process) {
	s.t.Helper()
	s.must(p.cmd.Start())
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait()
	}()
	s.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
	})
}

// wait returns how the command ended. What it printed is searched for the canary.
func (s *site) wait(p *process) ended {
	s.t.Helper()
	select {
	case <-p.done:
	case <-time.After(3 * time.Minute):
		s.t.Fatalf("the command does not end; it has said:\n%s", p.stderr.String())
	}
	e := ended{code: p.cmd.ProcessState.ExitCode(), stdout: p.stdout.String(), stderr: p.stderr.String()}
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		e.signal = status.Signal()
	}
	s.noCanary("stdout", []byte(e.stdout))
	s.noCanary("stderr", []byte(e.stderr))
	return e
}

func (s *site) run(args ...string) ended {
	s.t.Helper()
	return s.wait(s.start(nil, args...))
}

// expect demands an exit code and shows what was said if it is another.
func (s *site) expect(e ended, code int) ended {
	s.t.Helper()
	if e.code != code {
		s.t.Fatalf("exit code %d, want %d\nstdout:\n%s\nstderr:\n%s", e.code, code, e.stdout, e.stderr)
	}
	return e
}

func (s *site) says(e ended, parts ...string) {
	s.t.Helper()
	for _, part := range parts {
		if !strings.Contains(e.stderr, part) {
			s.t.Errorf("stderr does not say %q:\n%s", part, e.stderr)
		}
	}
}

// ours lists what carries a preflight's nonce in the namespace, as "Kind name".
func (s *site) ours() []string {
	s.t.Helper()
	ctx, client := s.t.Context(), world.cluster.Client()
	var found []string
	note := func(kind string, meta metav1.ObjectMeta) {
		if meta.Annotations[identity.NonceAnnotation] != "" {
			found = append(found, kind+" "+meta.Name)
		}
	}
	jobs, err := client.BatchV1().Jobs(s.namespace).List(ctx, metav1.ListOptions{})
	s.must(err)
	for _, o := range jobs.Items {
		note("Job", o.ObjectMeta)
	}
	pods, err := client.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
	s.must(err)
	for _, o := range pods.Items {
		note("Pod", o.ObjectMeta)
	}
	secrets, err := client.CoreV1().Secrets(s.namespace).List(ctx, metav1.ListOptions{})
	s.must(err)
	for _, o := range secrets.Items {
		note("Secret", o.ObjectMeta)
	}
	policies, err := client.NetworkingV1().NetworkPolicies(s.namespace).List(ctx, metav1.ListOptions{})
	s.must(err)
	for _, o := range policies.Items {
		note("NetworkPolicy", o.ObjectMeta)
	}
	return found
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) nothingLeft() {
	s.t.Helper()
	if left := s.ours(); len(left) > 0 {
		s.t.Errorf("still in the cluster: %v", left)
	}
}

// file reports whether the evidence holds a file.
func (s *site) file(name string) bool {
	_, err := os.Lstat(filepath.Join(s.evidence, name))
	return err == nil
}

// record names a file of the startup attempt.
func (s *site) record(name string) bool {
	return s.file(filepath.Join(evidence.StartupDirectory, name))
}

// result reads the result that a command named on stdout.
func (s *site) result(e ended) evidence.Result {
	s.t.Helper()
	content, err := os.ReadFile(strings.TrimSpace(e.stdout))
	s.must(err)
	var result evidence.Result
	s.must(json.Unmarshal(content, &result))
	return result
}

// noCanary searches raw, base64 at each alignment, and hex.
func (s *site) noCanary(where string, content []byte) {
	s.t.Helper()
	needles := map[string]string{"raw": canary, "hex": hex.EncodeToString([]byte(canary))}
	for offset := range 3 {
		text := base64.StdEncoding.EncodeToString(append(make([]byte, offset), canary...))
		needles["base64 at "+string(rune('0'+offset))] = text[4 : len(text)-4]
	}
	lower := bytes.ToLower(content)
	for how, needle := range needles {
		if bytes.Contains(content, []byte(needle)) || how == "hex" && bytes.Contains(lower, []byte(needle)) {
			s.t.Errorf("%s holds a Secret value (%s)", where, how)
		}
	}
}

// noCanaryInEvidence searches every file of the evidence directory but the kept
// executable, which was built before the value existed.
func (s *site) noCanaryInEvidence() {
	s.t.Helper()
	err := filepath.WalkDir(s.evidence, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || entry.IsDir() || filepath.Base(filepath.Dir(path)) == evidence.HelperDirectory {
			return err
		}
		content, err := os.ReadFile(path)
		if err == nil {
			s.noCanary(path, content)
		}
		return err
	})
	s.must(err)
}

// until polls a condition of the cluster or the evidence.
func (s *site) until(what string, condition func() bool) {
	s.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !condition() {
		if time.Now().After(deadline) {
			s.t.Fatalf("waited a minute for %s", what)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// printedCommand returns the cleanup command that a run printed: the line after
// the one that announces it.
func printedCommand(t *testing.T, stderr string) string {
	t.Helper()
	for line := range strings.Lines(stderr) {
		if text, indented := strings.CutPrefix(line, "  "); indented && strings.Contains(text, "--cleanup-preflight") {
			return strings.TrimSpace(text)
		}
	}
	t.Fatalf("no cleanup command in:\n%s", stderr)
	return ""
}

// runShell runs a printed command as an operator would paste it.
func (s *site) runShell(line string) ended {
	s.t.Helper()
	binary := s.binary
	defer func() { s.binary = binary }()
	s.binary = "sh"
	return s.run("-c", line)
}
