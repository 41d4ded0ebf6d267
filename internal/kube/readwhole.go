package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/internal/identity"
)

// These reads return whole objects, which waiting on Jobs and Pods needs
// (A4.5). None of them reads a Secret.

// Job reads one whole Job. *Gone is an absence read.
func (c *Client) Job(ctx context.Context, namespace, name string) (*batchv1.Job, error) {
	place := identity.Object{APIVersion: "batch/v1", Kind: "Job", Namespace: namespace, Name: name}
	if name == "" {
		return nil, errors.New("reading a Job: it has no name")
	}
	got := c.send(ctx, call{verb: "get", object: place, name: name, accept: acceptObject})
	if err := readVerdict(got); err != nil {
		return nil, err
	}
	_, err := got.meta(place)
	var job batchv1.Job
	if err == nil {
		err = got.decode(&job)
	}
	if err != nil {
		return nil, &Unreadable{got.about(metav1.Status{}), err}
	}
	return &job, nil
}

// Jobs lists whole Jobs, those of a label selector only unless it is empty:
// whether a Job has finished is in its status (A4.2d).
func (c *Client) Jobs(ctx context.Context, namespace, labelSelector string) ([]batchv1.Job, error) {
	return list[batchv1.Job](ctx, c, listing{of: identity.Object{APIVersion: "batch/v1", Kind: "Job", Namespace: namespace}, labels: labelSelector})
}

// PodsOf lists the whole Pods that a Job owns. Its controller's label narrows
// the request; the owner's UID decides.
func (c *Client) PodsOf(ctx context.Context, job identity.Object) ([]corev1.Pod, error) {
	if err := exact(job); err != nil {
		return nil, fmt.Errorf("listing the Pods of %s: %w", job, err)
	}
	pods, err := list[corev1.Pod](ctx, c, listing{
		of:     identity.Object{APIVersion: "v1", Kind: "Pod", Namespace: job.Namespace},
		labels: batchv1.ControllerUidLabel + "=" + job.UID,
	})
	if err != nil {
		return nil, err
	}
	var owned []corev1.Pod
	for i := range pods {
		if metaOf(identity.Object{}, &pods[i].ObjectMeta).OwnedBy(job.UID) {
			owned = append(owned, pods[i])
		}
	}
	return owned, nil
}

// Events lists the events about exactly this object. Their messages are other
// people's words.
func (c *Client) Events(ctx context.Context, object identity.Object) ([]corev1.Event, error) {
	if err := exact(object); err != nil {
		return nil, fmt.Errorf("listing the events of %s: %w", object, err)
	}
	return list[corev1.Event](ctx, c, listing{
		of:     identity.Object{APIVersion: "v1", Kind: "Event", Namespace: object.Namespace},
		fields: "involvedObject.uid=" + object.UID,
	})
}

// PodLogLimits bounds a log: the last Lines lines of it, and of these at most
// the first Bytes bytes. Both must be positive.
type PodLogLimits struct {
	Bytes int64
	Lines int64
}

// PodLog reads what a container printed. Redact it before it is written
// anywhere (A6.8). What came before an error is returned with it.
func (c *Client) PodLog(ctx context.Context, namespace, pod, container string, limits PodLogLimits) ([]byte, error) {
	place := identity.Object{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: pod}
	if pod == "" || limits.Bytes <= 0 || limits.Lines <= 0 {
		return nil, fmt.Errorf("reading the log of %s: it needs a Pod and positive limits", place)
	}
	got := c.send(ctx, call{
		verb: "get", object: place, name: pod, subresource: "log", accept: acceptText, limit: max(limits.Bytes, objectLimit),
		query: query("container", container, "limitBytes", strconv.FormatInt(limits.Bytes, 10), "tailLines", strconv.FormatInt(limits.Lines, 10)),
	})
	if got.code != http.StatusOK {
		return nil, fmt.Errorf("reading the log: %w", readVerdict(got))
	}
	// The server was asked for no more; it need not have listened.
	got.body = got.body[:min(int64(len(got.body)), limits.Bytes)]
	if got.err != nil {
		return got.body, fmt.Errorf("reading the log: %w", &Unreadable{got.about(metav1.Status{}), got.err})
	}
	return got.body, nil
}
