package evidence

import "github.com/holdfast-project/holdfast/internal/identity"

// Verdict is what a cleanup may claim at its end.
type Verdict string

// The verdicts. Only Complete says that nothing of the preflight is left;
// Reconciled rests on the release owner's word for what is uncertain (A6.15).
const (
	Complete         Verdict = "complete"
	Incomplete       Verdict = "incomplete"
	ReconciledByHand Verdict = "reconciled"
)

// ExitCode is the process's exit code for a verdict (A6.10). An unknown verdict
// is never a success.
func (v Verdict) ExitCode() int {
	switch v {
	case Complete:
		return 0
	case ReconciledByHand:
		return 3
	default:
		return 1
	}
}

// Outcome is what cleanup found of one resource or planned name at its end.
type Outcome string

// The outcomes (A6.9).
const (
	// Absent: the API server itself said that it does not exist (A6.2a), and,
	// for a Job, that none of its Pods does.
	Absent Outcome = "absent"
	// Retained: a dependency that the barrier kept; no request was sent for it.
	Retained Outcome = "retained"
	// Conflict: another object has the name; it was not touched (A6.4).
	Conflict Outcome = "conflict"
	// Orphaned: a Pod points at the Job, which does not own it and is gone, or could
	// not be read (A6.3).
	Orphaned Outcome = "orphaned"
	// Unexplained: something stands at a name for which there is no receipt
	// (A6.14).
	Unexplained Outcome = "unexplained"
	// Remaining: it was still there when its time was over.
	Remaining Outcome = "remaining"
	// Unreadable: its absence could not be read, or the cluster is not proven
	// to be the recorded one (A6.2).
	Unreadable Outcome = "unreadable"
)

// Result is preflight-cleanup-result.json (A6.9). Its lists are never null.
type Result struct {
	Version  int     `json:"version"`
	Complete bool    `json:"complete"`
	Verdict  Verdict `json:"verdict"`
	// Unknown are the slots whose create was started and has neither receipt
	// nor rejection; a reconciled one stays in it.
	Unknown []identity.SlotRef `json:"unknown"`
	// Reasons say why the verdict is not complete, each a clause for people.
	Reasons []string `json:"reasons"`
	// RetainedBecause says what kept the dependencies; empty when nothing did.
	RetainedBecause []string `json:"retainedBecause"`
	// Resources are the acknowledged ones, over all attempts.
	Resources []ResourceResult `json:"resources"`
	// PlannedNames are the slots without a receipt.
	PlannedNames []PlannedResult `json:"plannedNames"`
	// Pods are those that hold the cleanup up: owned, recorded or orphaned.
	Pods []PodResult `json:"pods"`
	// Cluster is what the identity reads found, in order.
	Cluster    []identity.Cluster `json:"cluster"`
	Requests   RequestCounts      `json:"requests"`
	StartedAt  string             `json:"startedAt"`
	FinishedAt string             `json:"finishedAt"`
	// DurationMilliseconds is measured on the monotonic clock; the two times
	// above are for people and decide nothing.
	DurationMilliseconds int64 `json:"durationMilliseconds"`
}

// ResourceResult is the end of one acknowledged resource.
type ResourceResult struct {
	identity.SlotRef
	Object  identity.Object `json:"object"`
	Outcome Outcome         `json:"outcome"`
	// FoundUID is the UID of the object that has the name in a conflict. It is
	// an observation and authorises nothing.
	FoundUID string `json:"foundUID,omitempty"`
	// Finalizers are those that hold a remaining object.
	Finalizers []string `json:"finalizers"`
	// Deleting is true when the API server has accepted its deletion.
	Deleting bool   `json:"deleting"`
	Detail   string `json:"detail,omitempty"`
}

// PlannedResult is what was found at the planned name of a slot without a
// receipt.
type PlannedResult struct {
	identity.SlotRef
	Object identity.Object `json:"object"`
	// State is "planned", "rejected" or "uncertain".
	State      string  `json:"state"`
	Reconciled bool    `json:"reconciled"`
	Statement  string  `json:"statement,omitempty"`
	AuditID    string  `json:"auditID,omitempty"`
	Outcome    Outcome `json:"outcome"`
	// FoundUID and CarriesNonce describe a candidate. Neither authorises a
	// deletion.
	FoundUID     string   `json:"foundUID,omitempty"`
	CarriesNonce bool     `json:"carriesNonce"`
	Finalizers   []string `json:"finalizers"`
	Detail       string   `json:"detail,omitempty"`
}

// PodResult is one Pod that was still there when cleanup ended.
type PodResult struct {
	// SlotRef names the Job's slot; its Slot is empty when only the attempt is
	// known, from the Pod's nonce.
	identity.SlotRef
	Object identity.Object `json:"object"`
	// Relation is "owned", "recorded", "orphaned" or "conflict".
	Relation   string   `json:"relation"`
	Finalizers []string `json:"finalizers"`
	Deleting   bool     `json:"deleting"`
}

// RequestCounts are the requests of one cleanup by what they asked.
type RequestCounts struct {
	Reads   int `json:"reads"`
	Lists   int `json:"lists"`
	Deletes int `json:"deletes"`
	Failed  int `json:"failed"`
}
