// Package decide owns the judgement of a cleanup: from what the evidence
// records, what was read of the cluster so far and the time, it says what to
// ask next and, in the end, what may be claimed (A6.2 to A6.7, A6.14, A6.15).
//
// Its invariants: an object is deleted only as the exact identity that a row
// carries; a dependency is deleted only when every rule of the barrier is
// satisfied; and Complete is concluded only when everything recorded was read
// absent and nothing is uncertain. A reading can hold a deletion back and never
// bring one about.
//
// It is pure: no os, net, log, client, context or clock. It must not import
// internal/evidence (which reads files) or internal/kube; the engine maps.
package decide

import (
	"time"

	"github.com/holdfast-project/holdfast/internal/identity"
)

// State is everything that cleanup knows at one moment. Histories are in the
// order of their answers and only grow. All times are since the engine began,
// on a monotonic clock: no decision uses a wall clock (A8.1).
type State struct {
	Now      time.Duration
	Recorded identity.Cluster
	// Resources are the acknowledged ones, Slots all others, over all attempts
	// in the order of the registry.
	Resources []Resource
	Slots     []Slot
	Cluster   []ClusterRead
	Pods      []PodList
	// InFlight holds what was sent and not yet answered.
	InFlight map[Request]bool
}

// Resource is an acknowledged Job, Secret or NetworkPolicy.
type Resource struct {
	Ref identity.SlotRef
	// Object has the UID of the receipt, the only proof that it is ours.
	Object identity.Object
	Nonce  string
	// Released is true when the Job may ever have run a Pod (A4.2c).
	Released bool
	Children []Child
	Deletes  []Deletion
	Reads    []Read
}

// Child is a Pod with a receipt of its own.
type Child struct {
	Object identity.Object
	Reads  []Read
}

// Deletion is one answered, or failed, DELETE. Which of the two is not said: neither
// settles anything, only what is read afterwards does (A6.5).
type Deletion struct{ Answered time.Duration }

// Found says what a read of a name gave.
type Found int

// What a read can give. Absent is an absence read in the sense of A6.2a and
// nothing less; every other 404 is Failed.
const (
	Failed Found = iota
	Absent
	Present
)

// Read is one metadata read of one name.
type Read struct {
	Sent, Answered time.Duration
	Found          Found
	// The rest describes a Present object.
	UID        string
	Nonce      string
	Deleting   bool
	Finalizers []string
}

// Pod is what a list says of one Pod, metadata only.
type Pod struct {
	Object identity.Object
	// Owners are the UIDs of its ownerReferences.
	Owners []string
	// ControllerUIDs are the values of its controller-uid labels. Like Nonce
	// they may add doubt and never prove anything.
	ControllerUIDs []string
	Nonce          string
	Deleting       bool
	Finalizers     []string
}

// PodList is one list of the namespace's Pods.
type PodList struct {
	Sent, Answered time.Duration
	Failed         bool
	Pods           []Pod
}

// SlotState is how far a slot without a receipt came.
type SlotState string

// The states of a slot without a receipt.
const (
	Planned   SlotState = "planned"
	Rejected  SlotState = "rejected"
	Uncertain SlotState = "uncertain"
)

// Slot is a slot without a receipt: never deleted, only looked for (A6.14).
type Slot struct {
	Ref identity.SlotRef
	// Object is the planned place, without a UID.
	Object identity.Object
	Nonce  string
	State  SlotState
	// Reconciled is true when the release owner's statement is on record.
	Reconciled bool
	Reads      []Read
}

// Verb is what a request asks.
type Verb int

// The verbs. Delete is the only one that changes anything. An empty Request asks
// nothing.
const (
	ReadCluster Verb = iota + 1
	Delete
	ReadResource
	ReadChild
	ReadPlanned
	ListPods
)

// Propagation is a DELETE's propagationPolicy; it is always explicit.
type Propagation string

// Jobs go in the foreground, so that their Pods go first. Dependencies go with
// Orphan: a stranger's object that names our Secret as its owner must not be
// collected with it (A6.7).
const (
	Foreground Propagation = "Foreground"
	Orphan     Propagation = "Orphan"
)

// Request is one request to send. It is comparable: the same request is never
// in flight twice, so that the answers about one object never overlap.
type Request struct {
	Verb Verb
	Ref  identity.SlotRef
	// Child is the UID of the recorded Pod that ReadChild reads.
	Child string
	// Propagation is set for Delete.
	Propagation Propagation
}

// Step is what to do now. Either there is a conclusion, or the engine sends
// Requests and asks again at the next answer, and at Wake when it is not zero.
type Step struct {
	Requests   []Request
	Wake       time.Duration
	Conclusion *Conclusion
}

// The times of the specification.
const (
	// Patience is how long a resource, or a name, is given (A6.6).
	Patience = 30 * time.Second
	// QuietFor is the least time between the two lists without a Pod (A6.3).
	QuietFor = time.Second
	// LatePodWindow is how long after its Job's absence a first Pod may still
	// come out of an admission webhook (A6.3).
	LatePodWindow = 45 * time.Second

	firstPause       = 50 * time.Millisecond
	longestPause     = time.Second
	firstDeletePause = time.Second
)

// pause is the wait after the nth answer, n from 1: 50 ms doubling to 1 s
// (A6.6).
func pause(n int) time.Duration {
	return doubled(firstPause, longestPause, n)
}

// deletePause is the wait before a DELETE is repeated. It grows further than a
// read's: a webhook or a missing permission will refuse the next one too.
func deletePause(n int) time.Duration {
	return doubled(firstDeletePause, 8*time.Second, n)
}

func doubled(first, longest time.Duration, n int) time.Duration {
	d := first
	for i := 1; i < n; i++ {
		d = min(2*d, longest)
	}
	return d
}

// nextRead is when a name with these reads may be read again.
func nextRead(reads []Read) time.Duration {
	if len(reads) == 0 {
		return 0
	}
	return reads[len(reads)-1].Answered + pause(len(reads))
}
