// Package controlplane runs a real Kubernetes control plane of plain processes for
// tests, for `make demo` and for the sandbox: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler, a Pod runner that starts local programs
// for Pods of registered images, and kwok when many inert Pods are wanted.
//
// It owns how these are built (Ensure), started (Start) and ended. Its invariants:
//
//   - no process outlives the program that called Start, even when that is killed
//     with SIGKILL (see internal/keeper);
//   - everything listens on the loopback address and is verified by a CA of its own:
//     no kubeconfig says insecure-skip-tls-verify;
//   - every Pod has one writer of its status: the Pod runner has the node "local"
//     and all Pods on it, kwok has only nodes that are tainted, so that a Pod gets
//     there only by asking for it.
//
// It must not import anything of the product, nor anything heavier than client-go:
// it is linked into every test.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/holdfast-project/holdfast/test/controlplane/internal/keeper"
	"github.com/holdfast-project/holdfast/test/controlplane/internal/nodeconfig"
)

// Options say what a control plane consists of. The zero value is all of it, but
// for kwok and programs.
type Options struct {
	// Dir holds the state. By default it is a temporary directory that goes with the
	// control plane, also when this process is killed.
	// What etcd stored in a Dir that is used again is kept; certificates and
	// credentials are made anew.
	Dir string

	// NoControllerManager leaves out Jobs, garbage collection, namespace deletion
	// and default ServiceAccounts, until StartControllerManager.
	NoControllerManager bool
	// NoScheduler leaves Pods without a node.
	NoScheduler bool
	// NoPodRunner leaves Pods without anything that runs them.
	NoPodRunner bool

	// KwokNodes is the number of nodes that kwok manages; without any, kwok does not
	// run. See KwokNodeLabel for how a Pod gets there.
	KwokNodes int

	// Images are the programs that stand for container images.
	Images map[string]Program

	// APIServerFlags and ControllerManagerFlags are added at the end, so they win.
	APIServerFlags         []string
	ControllerManagerFlags []string

	// AuditLevel is the level of the audit log: "Metadata" by default, or "Request",
	// "RequestResponse".
	AuditLevel string
	// AuditSecretsOf are groups whose requests about Secrets are recorded with their
	// bodies: only the answer's kind tells metadata from contents.
	AuditSecretsOf []string
}

// ControlPlane is a running control plane. Its methods may be called from any
// goroutine.
type ControlPlane struct {
	opts   Options
	dir    string
	bins   Binaries
	ca     *authority
	ports  *ports
	tokens map[string]string // user name to token
	server string            // URL of the API server
	admin  *rest.Config
	client kubernetes.Interface

	keeper *keeper.Client
	mu     sync.Mutex // held while components are started or stopped
	parts  map[string]part
	images nodeconfig.Images

	stopOnce sync.Once
	stopErr  error
	detach   func() bool // undoes the tie to the context
}

// Start starts a control plane and returns when it is ready for use. It lives until
// Stop, until ctx ends, or until this process does.
func Start(ctx context.Context, opts Options) (*ControlPlane, error) {
	bins, err := Ensure(ctx)
	if err != nil {
		return nil, err
	}
	cp := &ControlPlane{opts: opts, bins: bins, parts: map[string]part{}, tokens: map[string]string{}}
	if err := cp.prepare(); err != nil {
		return nil, errors.Join(err, cp.Stop())
	}
	if err := cp.launch(ctx); err != nil {
		return nil, errors.Join(err, cp.Stop())
	}
	cp.mu.Lock()
	defer cp.mu.Unlock()
	cp.detach = context.AfterFunc(ctx, func() { _ = cp.Stop() })
	return cp, nil
}

// Stop ends all processes and, if the state was in a temporary directory, removes
// it. It returns when nothing is left; calling it again returns the same.
func (cp *ControlPlane) Stop() error {
	cp.stopOnce.Do(func() {
		cp.untie()
		if cp.keeper != nil {
			cp.stopErr = cp.keeper.Close()
		}
		if cp.ports != nil {
			cp.ports.release()
		}
		if cp.opts.Dir == "" && cp.dir != "" {
			cp.stopErr = errors.Join(cp.stopErr, os.RemoveAll(cp.dir))
		}
	})
	return cp.stopErr
}

// untie drops the tie to the context, so that a context which lives on does not hold
// on to a control plane that has been stopped.
func (cp *ControlPlane) untie() {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if cp.detach != nil {
		cp.detach()
	}
}

// Dir is the state directory. The components' logs are in Dir()/log.
func (cp *ControlPlane) Dir() string { return cp.dir }

// prepare makes all files, and starts nothing but the keeper.
func (cp *ControlPlane) prepare() error {
	if err := cp.makeDirs(); err != nil {
		return err
	}
	var err error
	if cp.ports, err = newPorts(); err != nil {
		return err
	}
	if cp.ca, err = newAuthority(cp.path("pki")); err != nil {
		return err
	}
	err = errors.Join(
		cp.ca.server("server"),
		cp.ca.client("kubelet-client", "kube-apiserver-kubelet-client", "system:masters"),
		cp.ca.serviceAccountKeys(),
		cp.writeAuditPolicy(),
		os.WriteFile(cp.path("kwok-stages.yaml"), kwokStages, 0o600),
		cp.setImages(cp.opts.Images),
	)
	if err != nil {
		return err
	}
	if cp.parts, err = cp.plan(); err != nil {
		return err
	}
	if err := cp.writeCredentials(); err != nil {
		return err
	}
	var args []string
	if cp.opts.Dir == "" {
		args = []string{"-remove", cp.dir}
	}
	cp.keeper, err = keeper.Launch(filepath.Join(cp.bins.Helpers, "keeper"), cp.path("log", "keeper.log"), args...)
	return err
}

func (cp *ControlPlane) makeDirs() (err error) {
	if cp.dir = cp.opts.Dir; cp.dir == "" {
		if cp.dir, err = os.MkdirTemp("", "holdfast-controlplane-"); err != nil {
			return fmt.Errorf("making the state directory: %w", err)
		}
	}
	if cp.dir, err = filepath.Abs(cp.dir); err != nil {
		return fmt.Errorf("finding the state directory: %w", err)
	}
	for _, name := range []string{"", "pki", "log", "etcd", "pods"} {
		if err := os.MkdirAll(cp.path(name), 0o700); err != nil {
			return fmt.Errorf("making the state directory: %w", err)
		}
	}
	return nil
}

func (cp *ControlPlane) path(elem ...string) string {
	return filepath.Join(append([]string{cp.dir}, elem...)...)
}

// launch starts everything. The API server is started together with etcd and waits
// for it by itself; all others are started when it is ready, because they would
// meet refused connections with a back-off of seconds.
func (cp *ControlPlane) launch(ctx context.Context) error {
	// Slow machines are slow, but a control plane that is not up by then hangs.
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	if err := cp.run(etcd); err != nil {
		return err
	}
	if err := cp.StartAPIServer(ctx); err != nil {
		return err
	}
	others := cp.wanted()
	for _, name := range others {
		if err := cp.run(name); err != nil {
			return err
		}
	}
	for _, name := range others {
		if err := cp.await(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// wanted lists the components beside etcd and the API server.
func (cp *ControlPlane) wanted() []string {
	var names []string
	for name, without := range map[string]bool{
		controllerManager: cp.opts.NoControllerManager,
		scheduler:         cp.opts.NoScheduler,
		podRunner:         cp.opts.NoPodRunner,
		kwok:              cp.opts.KwokNodes == 0,
	} {
		if !without {
			names = append(names, name)
		}
	}
	return names
}
