package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast-project/holdfast/test/helmcontroller"
)

// EnvHelmController names a real helm-controller binary to use in the stand-in's
// place.
const EnvHelmController = "HELM_CONTROLLER"

// UserHelmController is who the helm-controller is to the API server, so that
// the audit log tells its requests from those of everybody else.
const UserHelmController = "helm-controller"

// helmController is a running helm-controller, real or not.
type helmController interface {
	// Stop ends it as SIGTERM does.
	Stop() error
	// Kill ends it as SIGKILL does.
	Kill()
}

// Real reports whether a real helm-controller is used; it cannot be stopped at
// points in the middle of a look.
func Real() bool { return os.Getenv(EnvHelmController) != "" }

// StartHelmController starts the stand-in with opts, whose Config is filled
// here, or the real binary, which knows opts.Concurrent only. Close ends it.
func (l *Lab) StartHelmController(ctx context.Context, opts helmcontroller.Options) error {
	started, err := l.start(ctx, opts)
	if err != nil {
		return err
	}
	l.controller, l.opts = started, opts
	return nil
}

func (l *Lab) start(ctx context.Context, opts helmcontroller.Options) (helmController, error) {
	kubeconfig, err := l.ControlPlane.UserKubeconfig(UserHelmController, "system:masters")
	if err != nil {
		return nil, err
	}
	if Real() {
		return startBinary(ctx, os.Getenv(EnvHelmController), kubeconfig, opts.Concurrent)
	}
	opts.Config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the helm-controller's kubeconfig: %w", err)
	}
	return helmcontroller.Start(ctx, opts)
}

// KillHelmController ends it as SIGKILL does, until StartHelmControllerAgain.
func (l *Lab) KillHelmController() { l.controller.Kill() }

// StartHelmControllerAgain starts it as it was started before. It outlives the test
// that asks: the others need it too.
func (l *Lab) StartHelmControllerAgain(ctx context.Context) error {
	return l.StartHelmController(context.WithoutCancel(ctx), l.opts)
}

type binary struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

func startBinary(ctx context.Context, path, kubeconfig string, concurrent int) (*binary, error) {
	metrics, err := freeAddress()
	if err != nil {
		return nil, err
	}
	health, err := freeAddress()
	if err != nil {
		return nil, err
	}
	args := []string{"--metrics-addr=" + metrics, "--health-addr=" + health, "--enable-leader-election=false", "--watch-all-namespaces=true"}
	if concurrent > 0 {
		args = append(args, "--concurrent="+strconv.Itoa(concurrent))
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "RUNTIME_NAMESPACE=default")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", path, err)
	}
	b := &binary{cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(b.done)
		b.err = cmd.Wait()
	}()
	err = wait.PollUntilContextTimeout(ctx, poll, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+health+"/readyz", nil)
		if err != nil {
			return false, err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, nil //nolint:nilerr // not listening yet: asked again
		}
		return answer.StatusCode == http.StatusOK, answer.Body.Close()
	})
	if err != nil {
		b.Kill()
		return nil, fmt.Errorf("waiting for %s to be ready: %w", path, err)
	}
	return b, nil
}

// Stop sends SIGTERM and waits.
func (b *binary) Stop() error {
	if err := b.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping the helm-controller: %w", err)
	}
	<-b.done
	return b.err
}

// Kill sends SIGKILL and waits.
func (b *binary) Kill() {
	_ = b.cmd.Process.Kill() // it may have ended by itself
	<-b.done
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("finding a free port: %w", err)
	}
	return l.Addr().String(), l.Close()
}
