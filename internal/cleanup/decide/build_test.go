package decide

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-project/holdfast/internal/identity"
)

// Builders: a row reads as a story. Every answer comes 10 ms after its request
// was sent; the times in rows are those of the answers.

const (
	attempt = "upgrade-preflight"
	nonce   = "0123456789abcdef0123456789abcdef"
	jobUID  = "11111111-0000-4000-8000-000000000001"
	podUID  = "22222222-0000-4000-8000-000000000001"
	other   = "99999999-0000-4000-8000-000000000009"
	nsUID   = "aaaaaaaa-0000-4000-8000-00000000000a"
	kubeUID = "bbbbbbbb-0000-4000-8000-00000000000b"
	latency = 10 * time.Millisecond
	second  = time.Second
)

func ref(slot identity.Slot) identity.SlotRef { return identity.SlotRef{Attempt: attempt, Slot: slot} }

func object(kind, name, uid string) identity.Object {
	versions := map[string]string{"Job": "batch/v1", "NetworkPolicy": "networking.k8s.io/v1"}
	version := versions[kind]
	if version == "" {
		version = "v1"
	}
	return identity.Object{APIVersion: version, Kind: kind, Namespace: "ns", Name: name, UID: uid}
}

type edit[T any] func(*T)

func with[T any](value T, edits ...edit[T]) T {
	for _, e := range edits {
		e(&value)
	}
	return value
}

func jobRow(slot identity.Slot, uid string, edits ...edit[Resource]) Resource {
	return with(Resource{Ref: ref(slot), Object: object("Job", "r-"+string(slot), uid), Nonce: nonce}, edits...)
}

func api(edits ...edit[Resource]) Resource { return jobRow("api", jobUID, edits...) }

func secretRow(edits ...edit[Resource]) Resource {
	return with(Resource{Ref: ref("secret"), Object: object("Secret", "r-secret", "33333333-0000-4000-8000-000000000001"), Nonce: nonce}, edits...)
}

func released(r *Resource) { r.Released = true }

func child(reads ...Read) edit[Resource] {
	return func(r *Resource) {
		r.Children = append(r.Children, Child{Object: object("Pod", "r-api-x", podUID), Reads: reads})
	}
}

func deleted(at ...time.Duration) edit[Resource] {
	return func(r *Resource) {
		for _, t := range at {
			r.Deletes = append(r.Deletes, Deletion{Answered: t})
		}
	}
}

func reads(list ...Read) edit[Resource] {
	return func(r *Resource) { r.Reads = append(r.Reads, list...) }
}

func absent(at time.Duration) Read { return Read{Sent: at - latency, Answered: at, Found: Absent} }
func failed(at time.Duration) Read { return Read{Sent: at - latency, Answered: at, Found: Failed} }
func there(at time.Duration, uid string, finalizers ...string) Read {
	return Read{Sent: at - latency, Answered: at, Found: Present, UID: uid, Deleting: len(finalizers) > 0, Finalizers: finalizers}
}

func pods(at time.Duration, found ...Pod) PodList {
	return PodList{Sent: at - latency, Answered: at, Pods: found}
}
func podsFailed(at time.Duration) PodList {
	return PodList{Sent: at - latency, Answered: at, Failed: true}
}

func ownedPod(edits ...edit[Pod]) Pod {
	return with(Pod{Object: object("Pod", "r-api-x", podUID), Owners: []string{jobUID}, ControllerUIDs: []string{jobUID}, Nonce: nonce}, edits...)
}

func orphan(edits ...edit[Pod]) Pod {
	return with(ownedPod(func(p *Pod) { p.Owners = nil }), edits...)
}

func slot(name identity.Slot, kind string, state SlotState, list ...Read) Slot {
	return Slot{Ref: ref(name), Object: object(kind, "r-"+string(name), ""), Nonce: nonce, State: state, Reads: list}
}

func reconciled(s Slot) Slot {
	s.Reconciled = true
	return s
}

func recorded() identity.Cluster {
	return identity.Cluster{NamespaceUID: nsUID, KubeSystemUID: kubeUID}
}

func clusterRead(at time.Duration) ClusterRead {
	return ClusterRead{
		Sent: at - latency, Answered: at,
		Namespace:  NamespaceRead{Found: NamespacePresent, UID: nsUID},
		KubeSystem: NamespaceRead{Found: NamespacePresent, UID: kubeUID},
	}
}

// state is a cleanup that has proven its cluster at 20 ms.
func state(now time.Duration, edits ...edit[State]) State {
	return with(State{Now: now, Recorded: recorded(), Cluster: []ClusterRead{clusterRead(2 * latency)}, InFlight: map[Request]bool{}}, edits...)
}

func resources(list ...Resource) edit[State] {
	return func(s *State) { s.Resources = append(s.Resources, list...) }
}
func slots(list ...Slot) edit[State] { return func(s *State) { s.Slots = append(s.Slots, list...) } }
func lists(list ...PodList) edit[State] {
	return func(s *State) { s.Pods = append(s.Pods, list...) }
}
func identified(at ...time.Duration) edit[State] {
	return func(s *State) {
		for _, t := range at {
			s.Cluster = append(s.Cluster, clusterRead(t))
		}
	}
}

func inFlight(list ...Request) edit[State] {
	return func(s *State) {
		for _, r := range list {
			s.InFlight[r] = true
		}
	}
}

func deleteOf(slot identity.Slot, p Propagation) Request {
	return Request{Verb: Delete, Ref: ref(slot), Propagation: p}
}
func readOf(slot identity.Slot) Request { return Request{Verb: ReadResource, Ref: ref(slot)} }
func nameOf(slot identity.Slot) Request { return Request{Verb: ReadPlanned, Ref: ref(slot)} }

func causes(reasons []Reason) (list []Cause) {
	for _, r := range reasons {
		list = append(list, r.Cause)
	}
	return list
}

// textOf is what the reasons about one slot say.
func textOf(c Conclusion, about identity.SlotRef) string {
	var texts []string
	for _, r := range c.Reasons {
		if r.Ref == about {
			texts = append(texts, r.Text)
		}
	}
	return strings.Join(texts, "; ")
}

// concluded fails unless s is at its end.
func concluded(t *testing.T, s State) Conclusion {
	t.Helper()
	step := Decide(s)
	if step.Conclusion == nil {
		t.Fatalf("no conclusion yet; next: %+v", step)
	}
	return *step.Conclusion
}

func outcome(t *testing.T, c Conclusion, slot identity.Slot) Outcome {
	t.Helper()
	for _, e := range slices.Concat(c.Resources, c.Slots) {
		if e.Ref == ref(slot) {
			return e.Outcome
		}
	}
	t.Fatalf("no outcome of %s in %+v", slot, c)
	return ""
}
