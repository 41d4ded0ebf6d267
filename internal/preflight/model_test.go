package preflight

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-project/holdfast/internal/durable/durabletest"
	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/internal/redact"
)

// The model is a cluster that only injects faults: what an API server really does
// is proven in test/preflight. It notes every write together with how many
// operations the evidence's file system had seen by then.

const digest = "sha256:4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"

// write is one request that changes the cluster.
type write struct {
	verb string
	kind string
	// uid is what the request names, empty for a create.
	uid string
	// at is the length of the file system's trace when it was sent.
	at int
}

func (w write) String() string { return fmt.Sprintf("%s %s at %d", w.verb, w.kind, w.at) }

type stored struct {
	object   identity.Object
	nonce    string
	owner    string
	released bool
}

// answer is what a create gets instead of its acknowledgement.
type answer struct {
	outcome kube.Outcome
	// applied lets the object come to exist all the same.
	applied bool
	// reason is the Status's, "Injected" when empty.
	reason string
}

type model struct {
	disk *durabletest.FS

	mu       sync.Mutex
	objects  []*stored
	writes   []write
	requests int
	next     int
	// creates holds the answers that are not acknowledgements, by the create's
	// number from 0.
	creates map[int]answer
	created int
	// onRequest is called with each request's number.
	onRequest func(n int)
	// podFails makes every Pod fail.
	podFails bool
	// ran is the digest that nodes report.
	ran string
	// cutLog ends every log in the middle of a line, with an error.
	cutLog bool
	// unread is what every read of a Job and its Pods fails with.
	unread error
	// initFails names an init container that fails every Pod; logs are the
	// containers whose log was read.
	initFails string
	logs      []string
	// podHangs lets no Job end.
	podHangs bool
	// onDelete is called by each DELETE.
	onDelete func()
	// refused is what the first DELETE is answered with, once.
	refused error
	// stalled is called by a release and a log, in place of an answer.
	stalled func(ctx context.Context, verb string) error
}

func newModel(disk *durabletest.FS) *model {
	return &model{disk: disk, creates: map[int]answer{}, ran: digest}
}

// begin counts one request; the caller unlocks.
func (m *model) begin() func() {
	m.mu.Lock()
	m.requests++
	n, hook := m.requests, m.onRequest
	m.mu.Unlock()
	if hook != nil {
		hook(n)
	}
	m.mu.Lock()
	return m.mu.Unlock
}

func (m *model) note(verb string, object identity.Object) {
	m.writes = append(m.writes, write{verb: verb, kind: object.Kind, uid: object.UID, at: len(m.disk.Trace())})
}

func (m *model) uid() string {
	m.next++
	return fmt.Sprintf("00000000-0000-4000-8000-%012x", m.next)
}

func (m *model) find(place identity.Object) *stored {
	for _, s := range m.objects {
		if s.object.Place() == place.Place() {
			return s
		}
	}
	return nil
}

// left returns what exists, Pods included.
func (m *model) left() (left []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.objects {
		left = append(left, s.object.String())
	}
	return left
}

func namespaceObject(name, uid string) kube.Observation {
	return kube.Observation{Presence: kube.Present, Meta: kube.Meta{Object: identity.Object{APIVersion: "v1", Kind: "Namespace", Name: name, UID: uid}}}
}

func (m *model) ClusterIdentity(_ context.Context, namespace string) kube.ClusterReading {
	defer m.begin()()
	return kube.ClusterReading{
		Namespace:  namespaceObject(namespace, "aaaaaaaa-0000-4000-8000-000000000001"),
		KubeSystem: namespaceObject("kube-system", "aaaaaaaa-0000-4000-8000-000000000002"),
	}
}

func (m *model) Capabilities(context.Context) (kube.Capabilities, error) {
	defer m.begin()()
	return kube.Capabilities{KubeVersion: "v1.36.3", APIVersions: []string{"v1", "batch/v1", "apps/v1", "networking.k8s.io/v1"}}, nil
}

func (m *model) May(context.Context, []kube.Permission) ([]kube.Permission, error) {
	defer m.begin()()
	return nil, nil
}

func (m *model) Jobs(context.Context, string, string) ([]batchv1.Job, error) {
	defer m.begin()()
	return nil, nil
}

func (m *model) List(context.Context, string, string, string, string) ([]kube.Meta, error) {
	defer m.begin()()
	return nil, nil
}

func (m *model) Selectors(context.Context, string) ([]unstructured.Unstructured, error) {
	defer m.begin()()
	return nil, nil
}

func (m *model) TryCreate(_ context.Context, place identity.Object, body []byte) (kube.Tried, error) {
	defer m.begin()()
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

func (m *model) Create(ctx context.Context, want kube.CreateRequest) kube.Created {
	if err := ctx.Err(); err != nil {
		return kube.Created{Outcome: kube.Unsent, Err: &kube.NotSent{Answer: kube.Answer{Verb: "create", Object: want.Place}, Cause: err}}
	}
	defer m.begin()()
	m.note("create", want.Place)
	if err := marked(m.disk, want); err != nil {
		return kube.Created{Err: err}
	}
	given, other := m.creates[m.created]
	m.created++
	object := want.Place
	object.UID = m.uid()
	if !other || given.applied {
		m.objects = append(m.objects, &stored{object: object, nonce: want.Nonce})
	}
	if other {
		return kube.Created{Outcome: given.outcome, Code: codeOf(given.outcome), Reason: cmp.Or(given.reason, "Injected"), Err: errors.New("injected: " + given.reason)}
	}
	return kube.Created{Outcome: kube.Acknowledged, Code: 201, Meta: kube.Meta{Object: object, Nonce: want.Nonce, CreationTimestamp: "2026-01-02T03:04:05Z"}}
}

func codeOf(o kube.Outcome) int {
	if o == kube.Rejected {
		return 403
	}
	return 0
}

func gone(place identity.Object) error {
	return &kube.Gone{Answer: kube.Answer{Verb: "get", Object: place, Code: 404, Reason: "NotFound"}}
}

func (m *model) Unsuspend(ctx context.Context, job identity.Object) error {
	if m.stalled != nil {
		if err := m.stalled(ctx, "release"); err != nil {
			return err
		}
	}
	defer m.begin()()
	m.note("patch", job)
	s := m.find(job)
	if s == nil || s.object.UID != job.UID {
		return gone(job)
	}
	s.released = true
	pod := identity.Object{APIVersion: "v1", Kind: "Pod", Namespace: job.Namespace, Name: job.Name + "-pod", UID: m.uid()}
	m.objects = append(m.objects, &stored{object: pod, nonce: s.nonce, owner: job.UID})
	return nil
}

func (m *model) Job(_ context.Context, namespace, name string) (*batchv1.Job, error) {
	defer m.begin()()
	place := identity.Object{APIVersion: "batch/v1", Kind: "Job", Namespace: namespace, Name: name}
	if m.unread != nil {
		return nil, m.unread
	}
	s := m.find(place)
	if s == nil {
		return nil, gone(place)
	}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, UID: types.UID(s.object.UID)}}
	ended := batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}
	if m.podFails {
		ended = batchv1.JobCondition{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded"}
	}
	if !m.podHangs {
		job.Status.Conditions = []batchv1.JobCondition{ended}
	}
	return job, nil
}

func (m *model) PodsOf(_ context.Context, job identity.Object) (pods []corev1.Pod, err error) {
	defer m.begin()()
	container := strings.Split(job.Name, "-")[2]
	for _, s := range m.objects {
		if s.owner != job.UID {
			continue
		}
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: s.object.Name, Namespace: s.object.Namespace, UID: types.UID(s.object.UID),
			OwnerReferences: []metav1.OwnerReference{{Kind: "Job", Name: job.Name, UID: types.UID(job.UID)}},
		}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: container, ImageID: "registry.example/demo@" + m.ran}}
		if m.initFails != "" {
			failed := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}
			pod.Status.Phase = corev1.PodFailed
			pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: m.initFails, State: failed}}
		}
		pods = append(pods, pod)
	}
	return pods, nil
}

func (m *model) Events(context.Context, identity.Object) ([]corev1.Event, error) {
	defer m.begin()()
	return nil, nil
}

func (m *model) PodLog(ctx context.Context, _, _, container string, _ kube.PodLogLimits) ([]byte, error) {
	if m.stalled != nil {
		if err := m.stalled(ctx, "log"); err != nil {
			return nil, err
		}
	}
	defer m.begin()()
	m.logs = append(m.logs, container)
	if m.cutLog {
		return []byte("it began\nand said example-token-5c1"), errors.New("the connection was cut")
	}
	return []byte("it said example-token-5c1e0f\n"), nil
}

func (m *model) Observe(_ context.Context, place identity.Object) kube.Observation {
	defer m.begin()()
	s := m.find(place)
	if s == nil {
		return kube.Observation{Presence: kube.Absent, Err: gone(place)}
	}
	return kube.Observation{Presence: kube.Present, Meta: kube.Meta{Object: s.object, Nonce: s.nonce}}
}

func (m *model) Pods(context.Context, string) (pods []kube.Meta, err error) {
	defer m.begin()()
	for _, s := range m.objects {
		if s.object.Kind == "Pod" {
			pods = append(pods, kube.Meta{Object: s.object, Nonce: s.nonce, Owners: []kube.Owner{{Kind: "Job", UID: s.owner, Controller: true}}})
		}
	}
	return pods, nil
}

func (m *model) Delete(ctx context.Context, object identity.Object, _ kube.Propagation) error {
	defer m.begin()()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	m.note("delete", object)
	if m.onDelete != nil {
		m.onDelete()
	}
	if err := m.refused; err != nil {
		m.refused = nil
		return err
	}
	var kept []*stored
	for _, s := range m.objects {
		if s.object.UID != object.UID && s.owner != object.UID {
			kept = append(kept, s)
		}
	}
	m.objects = kept
	return nil
}

// silent is a reporter that keeps what it was told.
type silent struct {
	mu    sync.Mutex
	lines []string
}

func (s *silent) say(parts ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, strings.Join(parts, " "))
}

func (s *silent) Step(text string)                        { s.say(text) }
func (s *silent) Warn(text string)                        { s.say("warning", text) }
func (s *silent) Slot(slot, phase, detail string, _ Mark) { s.say(slot, phase, detail) }
func (s *silent) Log(slot, tail string)                   { s.say(slot, tail) }

const values = `{"credentials":{"databaseURL":"postgres://demo:example-password@db/demo","token":"example-token-5c1e0f"}}`

func sum(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:])
}

// config is a run of the example chart on a disk and a cluster in memory.
func config(t *testing.T, m *model, profile []byte) Config {
	t.Helper()
	return Config{
		Files: m.disk, Directory: "/evidence",
		Helper:         identity.Helper{SHA256: sum("helper"), ModuleVersion: "v1", Revision: "r", Assets: map[string]string{"a": sum("a")}},
		Executable:     func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("helper")), nil },
		KubeconfigPath: "/kubeconfig", KubeconfigSHA256: sum("kubeconfig"),
		Context: "prod", Namespace: "shop", Release: "shop",
		Chart: "../../examples/chart", Values: []byte(values), ValuesName: "values.yaml", StretchIterations: 1, Profile: profile,
		Image: "registry.example/demo@" + digest, Timeout: time.Minute,
		Cluster: m, Index: noIndex, Report: &silent{}, Redact: &redact.Redactor{}, Escape: visible, GiveUp: make(chan struct{}),
	}
}

// visible stands for what the command escapes with.
func visible(text string) string { return strings.ReplaceAll(text, "\u009b", `\x9b`) }

// expectation is what a cleanup of that run says of itself.
func expectation(c Config) evidence.Expectation {
	return evidence.Expectation{
		KubeconfigPath: c.KubeconfigPath, KubeconfigSHA256: c.KubeconfigSHA256,
		Context: c.Context, Namespace: c.Namespace, Release: c.Release, Helper: c.Helper,
	}
}

func noIndex(context.Context, string, string) ([]string, error) { return nil, nil }
