// Package podrunner is a node without containers: it runs local programs for the
// Pods that the scheduler puts on it, and tells the API server what a kubelet would.
//
// It owns the Node object "local", the status of the Pods on it, their processes,
// their files and their logs. Its invariants: it is the only writer of the status of
// these Pods and writes no others'; a Pod object is removed only after its processes
// are gone; and no program outlives the runner.
//
// What it does not do: isolation of any kind (programs share the machine's network
// and file system), probes, hooks, volumes other than Secret, ConfigMap, downward
// API, projected and emptyDir, and sidecar init containers.
//
// It must not import package controlplane, nor anything of the product.
package podrunner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast-project/holdfast/test/controlplane/internal/nodeconfig"
)

// retryPause is how long a failed request or a missing precondition waits.
const retryPause = 250 * time.Millisecond

// Runner runs the Pods of one node.
type Runner struct {
	cfg    nodeconfig.Config
	client kubernetes.Interface
	starts chan startRequest

	mu   sync.Mutex
	pods map[types.UID]*pod
	all  sync.WaitGroup
}

type startRequest struct {
	cmd  *exec.Cmd
	done chan error
}

// New makes a runner from its configuration.
func New(cfg nodeconfig.Config) (*Runner, error) {
	config, err := clientcmd.BuildConfigFromFlags("", cfg.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the runner's kubeconfig: %w", err)
	}
	config.QPS, config.UserAgent = -1, "podrunner"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making the runner's client: %w", err)
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the Pods' directory: %w", err)
	}
	return &Runner{cfg: cfg, client: client, starts: make(chan startRequest), pods: map[types.UID]*pod{}}, nil
}

// Run runs Pods until ctx ends, then kills all programs and returns.
//
// It must be called on a goroutine that is locked to its thread and lives as long as
// the process, because programs are started here and nowhere else: their
// parent-death signal is sent when the thread that forked them ends.
func (r *Runner) Run(ctx context.Context) error {
	background, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var services sync.WaitGroup
	for _, serve := range []func(context.Context) error{r.serveLogs, r.keepNode, r.watch} {
		services.Go(func() {
			if err := serve(background); err != nil {
				cancel(err)
			}
		})
	}
	idle := make(chan struct{})
	go func() {
		services.Wait() // after this no Pod is added
		r.all.Wait()
		close(idle)
	}()
	for {
		select {
		case s := <-r.starts:
			s.done <- s.cmd.Start()
		case <-idle:
			if err := context.Cause(background); !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		}
	}
}

// start starts a program on the thread that Run has locked.
func (r *Runner) start(cmd *exec.Cmd) error {
	s := startRequest{cmd: cmd, done: make(chan error, 1)}
	r.starts <- s
	return <-s.done
}

// watch follows the Pods of this node.
func (r *Runner) watch(ctx context.Context) error {
	selector := fields.OneTermEqualSelector("spec.nodeName", nodeconfig.NodeName)
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(r.client.CoreV1().RESTClient(), "pods", corev1.NamespaceAll, selector),
		ObjectType:    &corev1.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: func(object any) { r.observe(ctx, object) },
			UpdateFunc: func(before, now any) {
				// Between two lists a Pod may have gone and another come by its name.
				if b, n := before.(*corev1.Pod), now.(*corev1.Pod); b.UID != n.UID {
					r.forget(b)
				}
				r.observe(ctx, now)
			},
			DeleteFunc: func(object any) {
				if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
					object = unknown.Obj
				}
				r.forget(object)
			},
		},
	})
	informer.RunWithContext(ctx)
	return nil
}

func (r *Runner) observe(ctx context.Context, object any) {
	seen, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	r.mu.Lock()
	p := r.pods[seen.UID]
	if p == nil {
		p = newPod(r, seen)
		r.pods[seen.UID] = p
		r.all.Go(func() { p.run(ctx) })
	}
	r.mu.Unlock()
	if seen.DeletionTimestamp != nil {
		p.terminate(grace(seen), "")
	}
}

// forget is called when the Pod object is gone: by our own doing, or because
// somebody deleted it by force. Then nothing waits for a grace period any more.
func (r *Runner) forget(object any) {
	seen, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	r.mu.Lock()
	p := r.pods[seen.UID]
	delete(r.pods, seen.UID)
	r.mu.Unlock()
	if p != nil {
		p.vanish()
	}
}

// find is used by the log server.
func (r *Runner) find(namespace, name string) *pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.pods {
		if p.object.Namespace == namespace && p.object.Name == name {
			return p
		}
	}
	return nil
}

func (r *Runner) podDir(uid types.UID) string { return filepath.Join(r.cfg.Dir, string(uid)) }

// program looks an image up, in the file as it is now.
func (r *Runner) program(image string) (nodeconfig.Program, bool, error) {
	var images nodeconfig.Images
	if err := nodeconfig.Read(r.cfg.Images, &images); err != nil {
		return nodeconfig.Program{}, false, err
	}
	program, ok := images.Lookup(image)
	return program, ok, nil
}

// grace is the time that a deleted Pod still has, counted from the moment we see it.
func grace(p *corev1.Pod) time.Duration {
	seconds := int64(corev1.DefaultTerminationGracePeriodSeconds)
	if p.DeletionGracePeriodSeconds != nil {
		seconds = *p.DeletionGracePeriodSeconds
	} else if p.Spec.TerminationGracePeriodSeconds != nil {
		seconds = *p.Spec.TerminationGracePeriodSeconds
	}
	return time.Duration(seconds) * time.Second
}

// pause waits a little, or less when ctx ends; it says whether to go on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func logFailure(what string, p *corev1.Pod, err error) {
	slog.Warn(what, "pod", p.Namespace+"/"+p.Name, "uid", p.UID, "error", err)
}
