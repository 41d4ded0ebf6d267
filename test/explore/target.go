package explore

import (
	"context"
	"errors"
	"strings"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/kube"
)

// Target is the cluster that a real preflight runs against. It answers as it is
// told and reports the status of each slot whenever a request has changed it.
type Target struct {
	cluster identity.Cluster
	digest  string
	slots   []Slot
	// number is the slot whose create ends with answer; all before it are
	// acknowledged.
	number int
	answer kube.Outcome
	// barren Jobs never make a Pod, and podFails lets every Pod fail.
	barren, podFails bool
	changed          func(statuses []Status)

	mu       sync.Mutex
	statuses []Status
}

// NewTarget returns a cluster in which the create with this number, from 0, ends
// with answer. Jobs that are barren never make a Pod; podFails lets Pods fail. It
// writes the names that the run gives into slots.
func NewTarget(cluster identity.Cluster, digest string, slots []Slot, number int, answer kube.Outcome, barren, podFails bool) *Target {
	return &Target{cluster: cluster, digest: digest, slots: slots, number: number, answer: answer, barren: barren, podFails: podFails, statuses: make([]Status, len(slots))}
}

// OnChange has changed called at each moment at which a request is on its way.
func (t *Target) OnChange(changed func(statuses []Status)) { t.changed = changed }

// Statuses is how far each slot came.
func (t *Target) Statuses() []Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]Status(nil), t.statuses...)
}

// become sets a slot's status. Where open is true, the moment itself is one at
// which a crash is looked at: the request is on its way.
func (t *Target) become(i int, status Status, open bool) {
	t.mu.Lock()
	t.statuses[i] = max(status, t.statuses[i])
	t.mu.Unlock()
	if open {
		t.changed(t.Statuses())
	}
}

// asked notes that something leaves for the cluster: a Pod that was seen before
// must have its receipt by now.
func (t *Target) asked() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, s := range t.statuses {
		if s == Seen {
			t.statuses[i] = Recorded
		}
	}
}

func (t *Target) index(place identity.Object) int {
	for i, s := range t.slots {
		if s.Object.Kind == place.Kind && strings.Contains(place.Name, "-preflight-"+string(s.Ref.Slot)+"-") {
			return i
		}
	}
	return -1
}

// Create is a create's one request: sent, then answered.
func (t *Target) Create(_ context.Context, want kube.CreateRequest) kube.Created {
	t.asked()
	i := t.index(want.Place)
	t.slots[i].Object.Name, t.slots[i].Object.Namespace, t.slots[i].Nonce = want.Place.Name, want.Place.Namespace, want.Nonce
	t.become(i, Sent, true)
	if i == t.number && t.answer != kube.Acknowledged {
		created := kube.Created{Outcome: t.answer, Reason: "Injected", Err: errors.New("injected")}
		if t.answer != kube.Unknown {
			t.become(i, Refused, false)
		}
		if t.answer == kube.Rejected {
			created.Code = 403
		}
		return created
	}
	t.become(i, Answered, false)
	return kube.Created{Outcome: kube.Acknowledged, Code: 201, Meta: kube.Meta{Object: t.slots[i].Object, Nonce: want.Nonce, CreationTimestamp: "2026-01-02T03:04:05Z"}}
}

// Unsuspend lets a Job run.
func (t *Target) Unsuspend(_ context.Context, job identity.Object) error {
	t.asked()
	t.become(t.index(job), Released, true)
	return nil
}

// Job is complete or failed, once it was released.
func (t *Target) Job(_ context.Context, namespace, name string) (*batchv1.Job, error) {
	t.asked()
	i := t.index(identity.Object{Kind: "Job", Name: name})
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, UID: types.UID(t.slots[i].Object.UID)}}
	ended := batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}
	if t.podFails {
		ended = batchv1.JobCondition{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded"}
	}
	job.Status.Conditions = []batchv1.JobCondition{ended}
	return job, nil
}

// PodsOf is the Job's one Pod.
func (t *Target) PodsOf(_ context.Context, job identity.Object) ([]corev1.Pod, error) {
	if t.barren {
		return nil, nil
	}
	i := t.index(job)
	t.become(i, Seen, false)
	made := podOf(&Object{Object: t.slots[i].Object, Nonce: t.slots[i].Nonce, Ours: true})
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: made.Name, Namespace: made.Namespace, UID: types.UID(made.UID),
		OwnerReferences: []metav1.OwnerReference{{Kind: "Job", Name: job.Name, UID: types.UID(job.UID)}},
	}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: string(t.slots[i].Ref.Slot), ImageID: "registry.example/demo@" + t.digest}}
	return []corev1.Pod{pod}, nil
}

// The rest is what a run asks before it creates anything, and what it never gets
// to here: nothing is in its way.

// ClusterIdentity names the recorded cluster.
func (t *Target) ClusterIdentity(_ context.Context, namespace string) kube.ClusterReading {
	read := func(name, uid string) kube.Observation {
		object := identity.Object{APIVersion: "v1", Kind: "Namespace", Name: name, UID: uid}
		return kube.Observation{Presence: kube.Present, Meta: kube.Meta{Object: object}}
	}
	return kube.ClusterReading{Namespace: read(namespace, t.cluster.NamespaceUID), KubeSystem: read("kube-system", t.cluster.KubeSystemUID)}
}

// Capabilities are those of a current cluster.
func (t *Target) Capabilities(context.Context) (kube.Capabilities, error) {
	return kube.Capabilities{KubeVersion: "v1.36.3", APIVersions: []string{"v1", "batch/v1", "apps/v1", "networking.k8s.io/v1"}}, nil
}

// May allows everything.
func (t *Target) May(context.Context, []kube.Permission) ([]kube.Permission, error) { return nil, nil }

// Jobs finds no other preflight.
func (t *Target) Jobs(context.Context, string, string) ([]batchv1.Job, error) { return nil, nil }

// List finds nothing.
func (t *Target) List(context.Context, string, string, string, string) ([]kube.Meta, error) {
	return nil, nil
}

// Selectors finds none.
func (t *Target) Selectors(context.Context, string) ([]unstructured.Unstructured, error) {
	return nil, nil
}

// TryCreate changes nothing.
func (t *Target) TryCreate(_ context.Context, place identity.Object, body []byte) (kube.Tried, error) {
	var object unstructured.Unstructured
	if err := object.UnmarshalJSON(body); err != nil {
		return kube.Tried{}, err
	}
	tried := kube.Tried{Meta: kube.Meta{Object: place, Nonce: object.GetAnnotations()[identity.NonceAnnotation]}}
	if place.Kind != "Secret" {
		tried.Object = &object
	}
	return tried, nil
}

// Events finds none.
func (t *Target) Events(context.Context, identity.Object) ([]corev1.Event, error) { return nil, nil }

// PodLog is one line.
func (t *Target) PodLog(context.Context, string, string, string, kube.PodLogLimits) ([]byte, error) {
	t.asked()
	return []byte("ready\n"), nil
}

// A resume looks whether anything of the attempts before it is left.

// Observe finds nothing.
func (t *Target) Observe(_ context.Context, place identity.Object) kube.Observation {
	return kube.Observation{Presence: kube.Absent, Err: &kube.Gone{Answer: kube.Answer{Verb: "get", Object: place, Code: 404}}}
}

// Pods finds none.
func (t *Target) Pods(context.Context, string) ([]kube.Meta, error) { return nil, nil }

// Delete is never sent: the run is stopped before its own cleanup.
func (t *Target) Delete(context.Context, identity.Object, kube.Propagation) error {
	return errors.New("the run is stopped before its cleanup")
}
