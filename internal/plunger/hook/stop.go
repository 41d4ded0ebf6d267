package hook

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/internal/plunger/unfence"
)

// running selects Pods whose containers may still run. A Pod that has ended but
// lingers, an evicted one for example, writes nothing any more.
const running = "status.phase!=Succeeded,status.phase!=Failed"

// stop asks the Deployment for no Pods and waits for those there are. A Pod that
// outlasts its grace period, typically on a node that does not answer, is only
// reported: it could keep the uninstall for ever. What it may still fence is
// found by the listing after the sweep (B7.4).
func (r *run) stop(ctx context.Context) error {
	err := r.retry(ctx, r.Timing.Stop, func(ctx context.Context) error {
		return r.Config.Objects.ScaleToZero(ctx, r.Namespace, r.Deployment)
	})
	var gone *kube.Gone
	switch {
	case errors.As(err, &gone):
		r.say("Deployment %s/%s is not there: it counts as stopped", r.Namespace, r.Deployment)
	case err != nil:
		return err
	default:
		r.say("scaled Deployment %s/%s to zero", r.Namespace, r.Deployment)
	}
	return r.awaitPods(ctx)
}

// awaitPods returns when no Pod is left, or after the wait. That Pods could never
// be listed is an error: then it is not known that anything stopped.
func (r *run) awaitPods(ctx context.Context) error {
	until := r.Now().Add(r.Timing.podWait(r.Now().Sub(r.began)))
	var left []metav1.PartialObjectMetadata
	for {
		err := r.retry(ctx, r.Timing.Stop, func(ctx context.Context) (err error) {
			left, err = r.Config.Objects.ListMetadata(ctx, kube.Pods(), kube.Selection{Namespace: r.Namespace, Labels: r.Pods, Fields: running})
			return err
		})
		if err != nil {
			return fmt.Errorf("listing Pods: %w", err)
		}
		if len(left) == 0 {
			r.say("flux-plunger has stopped")
			return nil
		}
		if !r.Now().Before(until) {
			r.say("still there after the wait, and left alone: %s", names(left))
			return nil
		}
		if !unfence.Sleep(ctx, r.Timing.Look) {
			return ctx.Err()
		}
	}
}

func names(pods []metav1.PartialObjectMetadata) string {
	var names []string
	for _, pod := range pods {
		state := "running"
		if pod.DeletionTimestamp != nil {
			state = "terminating"
		}
		names = append(names, fmt.Sprintf("Pod %s/%s (%s)", pod.Namespace, pod.Name, state))
	}
	return strings.Join(names, ", ")
}

// retry tries until it succeeds, the bound is over, or the answer is definite:
// absent or refused. A try that the bound cut off says nothing but that: what is
// returned then is the error of the one before it, the cause for who reads the log.
func (r *run) retry(ctx context.Context, bound time.Duration, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	var last error
	for {
		err := try(ctx)
		if last == nil || err == nil || ctx.Err() == nil {
			last = err
		}
		var gone *kube.Gone
		var refused *kube.Refused
		if err == nil || errors.As(err, &gone) || errors.As(err, &refused) && refused.Final() || !unfence.Sleep(ctx, r.Timing.Look) {
			return last
		}
	}
}
