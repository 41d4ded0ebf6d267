package podrunner

import (
	"context"
	"os"
	"reflect"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const deadlineExceeded = "DeadlineExceeded"

// pod is one Pod on this node, from the first sight of it until its object is gone.
type pod struct {
	runner *Runner
	object *corev1.Pod // as first seen; its spec does not change in what is used here
	dir    string

	// stopping ends when the Pod shall stop (SIGTERM), killing when its grace period
	// is over (SIGKILL), deleted when the object waits for us to let it go, gone when
	// the object is no more. Gone implies all the others.
	stopping, killing, deleted, gone context.Context
	stop, kill, doom, vanish         context.CancelFunc

	mu         sync.Mutex
	killTimer  *time.Timer
	killAt     time.Time
	reason     string // why it was stopped, if not by deletion
	startTime  metav1.Time
	init, main []*container

	writing sync.Mutex
	written *corev1.PodStatus
}

func newPod(r *Runner, object *corev1.Pod) *pod {
	p := &pod{runner: r, object: object, dir: r.podDir(object.UID), startTime: metav1.Now()}
	p.gone, p.vanish = context.WithCancel(context.Background())
	p.deleted, p.doom = context.WithCancel(p.gone)
	p.killing, p.kill = context.WithCancel(p.gone)
	p.stopping, p.stop = context.WithCancel(p.killing)
	for i := range object.Spec.InitContainers {
		p.init = append(p.init, newContainer(p, &object.Spec.InitContainers[i], true))
	}
	for i := range object.Spec.Containers {
		p.main = append(p.main, newContainer(p, &object.Spec.Containers[i], false))
	}
	return p
}

// terminate asks the Pod to stop within grace: without a reason because it is being
// deleted. Asked again, the earlier deadline
// holds, so that a second, more impatient delete is obeyed.
func (p *pod) terminate(grace time.Duration, reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopping.Err() == nil {
		p.reason = reason
	}
	if reason == "" {
		p.doom()
	}
	p.stop()
	at := time.Now().Add(grace)
	if p.killTimer == nil {
		p.killAt, p.killTimer = at, time.AfterFunc(grace, p.kill)
	} else if at.Before(p.killAt) {
		p.killAt = at
		p.killTimer.Reset(grace)
	}
}

// run is the life of the Pod. When ctx ends, the runner ends: everything is killed
// and nothing is said about it.
func (p *pod) run(ctx context.Context) {
	defer context.AfterFunc(ctx, p.vanish)()
	if !finished(p.object.Status.Phase) {
		p.live()
	}
	// A finished Pod stays, with its logs, until somebody deletes it.
	<-p.deleted.Done()
	p.remove()
	<-p.gone.Done()
	p.mu.Lock()
	if p.killTimer != nil {
		p.killTimer.Stop()
	}
	p.mu.Unlock()
	if err := os.RemoveAll(p.dir); err != nil {
		logFailure("removing the Pod's directory", p.object, err)
	}
}

func (p *pod) live() {
	if seconds := p.object.Spec.ActiveDeadlineSeconds; seconds != nil {
		timer := time.AfterFunc(time.Duration(*seconds)*time.Second, func() { p.terminate(specGrace(p.object), deadlineExceeded) })
		defer timer.Stop()
	}
	if p.runInit() {
		var running sync.WaitGroup
		for _, c := range p.main {
			running.Go(c.loop)
		}
		running.Wait()
	}
	p.publish(true)
}

// runInit runs the init containers one after the other and says whether all of them
// succeeded.
func (p *pod) runInit() bool {
	for _, c := range p.init {
		c.loop()
		if !c.succeeded() {
			return false
		}
	}
	return p.stopping.Err() == nil
}

func finished(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

func specGrace(p *corev1.Pod) time.Duration {
	if s := p.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return corev1.DefaultTerminationGracePeriodSeconds * time.Second
}

// remove lets the object go, now that no process is left. A finalizer may still hold
// it; that is not ours to wait for.
func (p *pod) remove() {
	zero := int64(0)
	options := metav1.DeleteOptions{GracePeriodSeconds: &zero, Preconditions: metav1.NewUIDPreconditions(string(p.object.UID))}
	p.persist("removing the Pod", func() error {
		return p.runner.client.CoreV1().Pods(p.object.Namespace).Delete(p.gone, p.object.Name, options)
	})
}

// persist repeats a request until it has an answer that more repeating cannot
// change: success, or that there is no such Pod (or another by its name).
func (p *pod) persist(what string, request func() error) {
	for p.gone.Err() == nil {
		err := request()
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return
		}
		logFailure(what, p.object, err)
		if apierrors.IsInvalid(err) || !pause(p.gone, retryPause) {
			return
		}
	}
}

// publish writes the status as it is now. It does so one at a time and computes the
// status inside, so an older one is never written after a newer one. final is the
// last word: from then on the phase does not change any more.
func (p *pod) publish(final bool) {
	p.writing.Lock()
	defer p.writing.Unlock()
	p.persist("writing the Pod's status", func() error {
		status := p.status(final)
		if p.written != nil && reflect.DeepEqual(*p.written, status) {
			return nil
		}
		patch, err := statusPatch(p.object.UID, status)
		if err != nil {
			return err
		}
		_, err = p.runner.client.CoreV1().Pods(p.object.Namespace).
			Patch(p.gone, p.object.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		if err == nil {
			p.written = &status
		}
		return err
	})
}
