package preflight

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-project/holdfast/internal/cleanup"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/kube"
)

// Cluster is what a run and its cleanup ask of a cluster. *kube.Client is the
// one that sends; tests wrap it to inject faults.
type Cluster interface {
	cleanup.Cluster

	Capabilities(ctx context.Context) (kube.Capabilities, error)
	May(ctx context.Context, permissions []kube.Permission) (denied []kube.Permission, err error)
	Jobs(ctx context.Context, namespace, labelSelector string) ([]batchv1.Job, error)
	List(ctx context.Context, apiVersion, kind, namespace, labelSelector string) ([]kube.Meta, error)
	Selectors(ctx context.Context, namespace string) ([]unstructured.Unstructured, error)
	TryCreate(ctx context.Context, place identity.Object, body []byte) (kube.Tried, error)

	Create(ctx context.Context, want kube.CreateRequest) kube.Created
	Unsuspend(ctx context.Context, job identity.Object) error

	Job(ctx context.Context, namespace, name string) (*batchv1.Job, error)
	PodsOf(ctx context.Context, job identity.Object) ([]corev1.Pod, error)
	Events(ctx context.Context, object identity.Object) ([]corev1.Event, error)
	PodLog(ctx context.Context, namespace, pod, container string, limits kube.PodLogLimits) ([]byte, error)
}
