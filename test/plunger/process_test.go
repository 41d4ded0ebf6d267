package plunger

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/holdfast-project/holdfast/internal/plunger/plungertest"
	"github.com/holdfast-project/holdfast/test/apiproxy"
	"github.com/holdfast-project/holdfast/test/helmcontroller/lab"
)

// process is a running flux-plunger with a proxy of its own before it.
type process struct {
	proxy *apiproxy.Proxy
	cmd   *exec.Cmd
	done  chan struct{}
	err   error
	log   lines
}

// setup is what a test asks of a flux-plunger.
type setup struct {
	strategy string
	// namespace is the only one it watches; empty for all, as it ships.
	namespace string
	latency   time.Duration
	hooks     apiproxy.Hooks
	flags     []string
}

// start runs flux-plunger until the test ends, and returns when it watches.
func (b *bench) start(t testing.TB, s setup) *process {
	t.Helper()
	p := b.launch(t, s)
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, plungertest.Settle, true, func(context.Context) (bool, error) {
		for _, x := range p.proxy.Requests() {
			if x.Streams() && strings.HasSuffix(x.Path, "/helmreleases") {
				return true, nil
			}
		}
		return false, p.ended()
	})
	if err != nil {
		t.Fatalf("flux-plunger does not watch: %v\n%s", err, p.log.String())
	}
	return p
}

// launch runs flux-plunger and does not wait for anything.
func (b *bench) launch(t testing.TB, s setup) *process {
	t.Helper()
	proxy, err := apiproxy.Start(b.ControlPlane.AdminConfig())
	must(t, err)
	t.Cleanup(proxy.Close)
	proxy.Delay(s.latency)
	proxy.Hook(s.hooks)
	direct, err := b.ControlPlane.KubeconfigFor(t.Context(), lab.System(s.strategy), lab.Account(s.strategy))
	must(t, err)
	through, err := proxy.Kubeconfig(direct)
	must(t, err)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(path, through, 0o600))

	flags := []string{"--strategy=" + s.strategy, "--metrics-addr=0", "--health-addr=0", "--concurrent=8"}
	runtime := lab.System(s.strategy)
	if s.namespace != "" {
		flags, runtime = append(flags, "--watch-all-namespaces=false"), s.namespace
	}
	p := &process{proxy: proxy, done: make(chan struct{})}
	p.cmd = exec.Command(b.binary, append(flags, s.flags...)...)
	p.cmd.Env = append(os.Environ(), "KUBECONFIG="+path, "RUNTIME_NAMESPACE="+runtime)
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	must(t, p.cmd.Start())
	go func() {
		defer close(p.done)
		p.err = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("flux-plunger said:\n%s", p.log.String())
		}
	})
	return p
}

func (p *process) ended() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// kill is SIGKILL and the wait for the end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.done
}

// terminate is SIGTERM, without the wait.
func (p *process) terminate() { _ = p.cmd.Process.Signal(syscall.SIGTERM) }

// stop is SIGTERM and the wait for the end; it returns the exit.
func (p *process) stop() error {
	p.terminate()
	<-p.done
	return p.err
}

// lines collects what the process says, from two pipes at once.
type lines struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (l *lines) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.Write(data)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.String()
}
