package cleanup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-project/holdfast/internal/durable/durabletest"
	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/evidence/evidencetest"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/journal"
	"github.com/holdfast-project/holdfast/internal/kube"
)

// model is a small cluster for the timing and order of our own decisions: it
// enforces UID preconditions, deletes in the foreground, and can be slow, deaf
// or hostile. What Kubernetes really does is proven in test/cleanup.
type model struct {
	mu      sync.Mutex
	objects map[identity.Object]*stored // by place
	cluster identity.Cluster
	latency time.Duration
	grace   time.Duration
	// before is called for each request; an error is its answer, and nothing
	// is carried out.
	before func(verb string, object identity.Object) error
	// hang makes a request wait for the end of its context.
	hang func(verb string, object identity.Object) bool
	log  []sent
}

type stored struct {
	meta kube.Meta
	gone time.Time // zero: it stays
}

type sent struct {
	verb        string
	object      identity.Object
	propagation kube.Propagation
	at          time.Time
}

func newModel() *model {
	return &model{objects: map[identity.Object]*stored{}, cluster: evidencetest.Parameters().Cluster, latency: 5 * time.Millisecond, grace: 300 * time.Millisecond}
}

func (m *model) put(object identity.Object, edits ...func(*kube.Meta)) {
	meta := kube.Meta{Object: object}
	for _, edit := range edits {
		edit(&meta)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.objects[object.Place()] = &stored{meta: meta}
}

func ownedBy(job identity.Object) func(*kube.Meta) {
	return func(meta *kube.Meta) {
		meta.Owners = []kube.Owner{{Kind: "Job", Name: job.Name, UID: job.UID, Controller: true}}
		meta.Labels = map[string]string{"batch.kubernetes.io/controller-uid": job.UID}
	}
}

func heldBy(finalizer string) func(*kube.Meta) {
	return func(meta *kube.Meta) { meta.Finalizers = []string{finalizer} }
}

// furnish puts everything that the inventory acknowledges, with its children.
func (m *model) furnish(inventory *evidence.Inventory) {
	for _, a := range inventory.Resources {
		m.put(a.Object())
		for _, child := range a.Children() {
			m.put(child, ownedBy(a.Object()))
		}
	}
}

// ask is what every request goes through.
func (m *model) ask(ctx context.Context, s sent) error {
	m.mu.Lock()
	s.at = time.Now()
	m.log = append(m.log, s)
	m.mu.Unlock()
	if m.hang != nil && m.hang(s.verb, s.object) {
		<-ctx.Done()
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(m.latency):
	}
	if m.before != nil {
		return m.before(s.verb, s.object)
	}
	return nil
}

func (m *model) find(place identity.Object) *stored {
	s := m.objects[place.Place()]
	if s == nil || !s.gone.IsZero() && !time.Now().Before(s.gone) {
		return nil
	}
	return s
}

func (m *model) Observe(ctx context.Context, place identity.Object) kube.Observation {
	err := m.ask(ctx, sent{verb: "get", object: place})
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		return kube.Observation{Err: &kube.Unreadable{Answer: kube.Answer{Verb: "get", Object: place}, Cause: err}}
	}
	if s := m.find(place); s != nil {
		return kube.Observation{Presence: kube.Present, Meta: s.meta}
	}
	return kube.Observation{Presence: kube.Absent, Err: &kube.Gone{Answer: kube.Answer{Verb: "get", Object: place, Code: 404}}}
}

func (m *model) ClusterIdentity(ctx context.Context, namespace string) kube.ClusterReading {
	read := func(name, uid string) kube.Observation {
		object := identity.Object{APIVersion: "v1", Kind: "Namespace", Name: name}
		if err := m.ask(ctx, sent{verb: "get", object: object}); err != nil {
			return kube.Observation{Err: &kube.Unreadable{Answer: kube.Answer{Verb: "get", Object: object}, Cause: err}}
		}
		if uid == "" {
			return kube.Observation{Presence: kube.Absent, Err: &kube.Gone{Answer: kube.Answer{Verb: "get", Object: object, Code: 404}}}
		}
		object.UID = uid
		return kube.Observation{Presence: kube.Present, Meta: kube.Meta{Object: object}}
	}
	return kube.ClusterReading{Namespace: read(namespace, m.cluster.NamespaceUID), KubeSystem: read("kube-system", m.cluster.KubeSystemUID)}
}

func (m *model) Pods(ctx context.Context, namespace string) ([]kube.Meta, error) {
	object := identity.Object{APIVersion: "v1", Kind: "Pod", Namespace: namespace}
	if err := m.ask(ctx, sent{verb: "list", object: object}); err != nil {
		return nil, &kube.Unreadable{Answer: kube.Answer{Verb: "list", Object: object}, Cause: err}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var pods []kube.Meta
	for place := range m.objects {
		if s := m.find(place); s != nil && place.Kind == "Pod" {
			pods = append(pods, s.meta)
		}
	}
	return pods, nil
}

func (m *model) Delete(ctx context.Context, object identity.Object, propagation kube.Propagation) error {
	answer := kube.Answer{Verb: "delete", Object: object}
	if object.UID == "" {
		return errors.New("a DELETE without a UID")
	}
	if err := m.ask(ctx, sent{verb: "delete", object: object, propagation: propagation}); err != nil {
		return &kube.UnknownOutcome{Answer: answer, Cause: err}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.find(object)
	switch {
	case s == nil:
		return &kube.Gone{Answer: answer}
	case s.meta.Object.UID != object.UID:
		return &kube.Conflict{Answer: answer}
	}
	m.remove(s)
	return nil
}

// remove deletes in the foreground: Pods first, the Job after them.
func (m *model) remove(s *stored) {
	if s.meta.DeletionTimestamp != "" {
		return
	}
	s.meta.DeletionTimestamp = time.Now().UTC().Format(time.RFC3339)
	end, held := time.Now().Add(10*time.Millisecond), len(s.meta.Finalizers) > 0
	for _, pod := range m.objects {
		if pod.meta.Object.Kind != "Pod" || !pod.meta.OwnedBy(s.meta.Object.UID) {
			continue
		}
		pod.meta.DeletionTimestamp = s.meta.DeletionTimestamp
		if len(pod.meta.Finalizers) > 0 {
			held = true
			s.meta.Finalizers = append(s.meta.Finalizers, "foregroundDeletion")
			continue
		}
		pod.gone = time.Now().Add(m.grace)
		end = pod.gone.Add(10 * time.Millisecond)
	}
	if !held {
		s.gone = end
	}
}

// sent counts the requests so far.
func (m *model) sent() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.log)
}

// deletes are the DELETEs that were sent, in order.
func (m *model) deletes() (list []sent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.log {
		if s.verb == "delete" {
			list = append(list, s)
		}
	}
	return list
}

// left are the objects that exist now.
func (m *model) left() (list []identity.Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for place := range m.objects {
		if s := m.find(place); s != nil {
			list = append(list, s.meta.Object)
		}
	}
	slices.SortFunc(list, func(a, b identity.Object) int {
		return slices.Compare([]string{a.Kind, a.Name}, []string{b.Kind, b.Name})
	})
	return list
}

// bench is evidence in memory and the cluster that it speaks of.
type bench struct {
	t         *testing.T
	disk      *durabletest.FS
	dir       *evidence.Dir
	inventory *evidence.Inventory
	cluster   *model
}

const evidencePath = "/evidence"

func newBench(t *testing.T, steps ...evidencetest.Step) *bench {
	disk := durabletest.New()
	evidencetest.Build(t, disk, evidencePath, evidencetest.Attempt{Steps: steps})
	b := &bench{t: t, disk: disk, cluster: newModel()}
	b.dir, b.inventory = evidencetest.Open(t, disk, evidencePath)
	b.cluster.furnish(b.inventory)
	return b
}

// object is what the slot's create returned.
func (b *bench) object(slot identity.Slot) identity.Object {
	for _, a := range b.inventory.Resources {
		if a.Ref().Slot == slot {
			return a.Object()
		}
	}
	for _, s := range b.inventory.Slots {
		if s.Ref.Slot == slot {
			return s.Object
		}
	}
	b.t.Fatalf("no slot %s", slot)
	return identity.Object{}
}

func (b *bench) record() *journal.Cleanup {
	b.t.Helper()
	record, err := journal.NewCleanup(b.dir)
	if err != nil {
		b.t.Fatal(err)
	}
	return record
}

func (b *bench) config(record Record) Config {
	return Config{Inventory: b.inventory, Cluster: b.cluster, Record: record, Redact: func(s string) string { return s }}
}

// run is a cleanup that must reach a result.
func (b *bench) run() Outcome {
	b.t.Helper()
	outcome, err := Run(context.Background(), b.config(b.record()))
	if err != nil {
		b.t.Fatal(err)
	}
	return outcome
}

func (b *bench) outcomes(r evidence.Result) string {
	text := ""
	for _, resource := range r.Resources {
		text += fmt.Sprintf("%s=%s ", resource.Slot, resource.Outcome)
	}
	for _, planned := range r.PlannedNames {
		text += fmt.Sprintf("%s:%s=%s ", planned.Slot, planned.State, planned.Outcome)
	}
	return text + string(r.Verdict)
}
