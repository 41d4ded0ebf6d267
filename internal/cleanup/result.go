package cleanup

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-project/holdfast/internal/cleanup/decide"
	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/identity"
)

// result is the conclusion in the format of A6.9. Its texts are redacted: they
// hold names and finalizers, which others chose.
func (e *engine) result(c *decide.Conclusion, took time.Duration) evidence.Result {
	r := evidence.Result{
		Version: evidence.Version, Verdict: verdict(c.Verdict), Complete: c.Verdict == decide.Complete,
		Unknown: append([]identity.SlotRef{}, c.Unknown...),
		Reasons: e.texts(c.Reasons), RetainedBecause: e.texts(c.Retained),
		Resources: []evidence.ResourceResult{}, PlannedNames: []evidence.PlannedResult{}, Pods: []evidence.PodResult{},
		Cluster: []identity.Cluster{}, Requests: e.counts,
		StartedAt:            e.began.UTC().Format(time.RFC3339Nano),
		FinishedAt:           e.began.Add(took).UTC().Format(time.RFC3339Nano),
		DurationMilliseconds: took.Milliseconds(),
	}
	for _, read := range e.state.Cluster {
		r.Cluster = append(r.Cluster, identity.Cluster{NamespaceUID: read.Namespace.UID, KubeSystemUID: read.KubeSystem.UID})
	}
	for _, ending := range c.Resources {
		r.Resources = append(r.Resources, e.resourceResult(ending))
	}
	for _, ending := range c.Slots {
		r.PlannedNames = append(r.PlannedNames, e.plannedResult(ending))
	}
	for _, pod := range c.Pods {
		r.Pods = append(r.Pods, evidence.PodResult{
			SlotRef: pod.Ref, Object: pod.Object, Relation: string(pod.Relation),
			Finalizers: list(pod.Found.Finalizers), Deleting: pod.Found.Deleting,
		})
	}
	return r
}

func verdict(v decide.Verdict) evidence.Verdict {
	switch v {
	case decide.Complete:
		return evidence.Complete
	case decide.Reconciled:
		return evidence.ReconciledByHand
	default:
		return evidence.Incomplete
	}
}

func (e *engine) resourceResult(ending decide.Ending) evidence.ResourceResult {
	r := evidence.ResourceResult{
		SlotRef: ending.Ref, Object: ending.Object, Outcome: evidence.Outcome(ending.Outcome),
		Finalizers: []string{}, Detail: ending.Detail,
	}
	if ending.Outcome == decide.OutcomeRemaining || ending.Outcome == decide.OutcomeUnreadable && ending.Detail != "" {
		r.Detail += e.answered(ending.Ref)
	}
	r.Detail = e.Redact(r.Detail)
	if ending.Found != nil {
		r.Finalizers, r.Deleting = list(ending.Found.Finalizers), ending.Found.Deleting
		if ending.Found.UID != ending.Object.UID {
			r.FoundUID = ending.Found.UID
		}
	}
	return r
}

func (e *engine) plannedResult(ending decide.Ending) evidence.PlannedResult {
	r := evidence.PlannedResult{
		SlotRef: ending.Ref, Object: ending.Object, Outcome: evidence.Outcome(ending.Outcome),
		CarriesNonce: ending.CarriesNonce, Finalizers: []string{}, Detail: e.Redact(ending.Detail),
	}
	if ending.Found != nil {
		r.FoundUID, r.Finalizers = ending.Found.UID, list(ending.Found.Finalizers)
	}
	for _, slot := range e.Inventory.Slots {
		if slot.Ref == ending.Ref {
			r.State, r.AuditID = string(slot.State), slot.AuditID
			r.Reconciled, r.Statement = slot.Reconciled, slot.Statement
		}
	}
	return r
}

func (e *engine) texts(reasons []decide.Reason) []string {
	texts := make([]string, 0, len(reasons))
	for _, reason := range reasons {
		texts = append(texts, e.Redact(e.told(reason)))
	}
	return texts
}

// told is a reason with what the cluster answered, where that is what explains it: a
// webhook, a missing right, an expired login. preflight-cleanup.err has it too, among
// everything else.
func (e *engine) told(reason decide.Reason) string {
	switch reason.Cause {
	case decide.ClusterUnproven:
		if e.unproven != "" {
			return reason.Text + ": " + e.unproven
		}
	case decide.JobRemaining, decide.DependencyRemaining, decide.JobUnreadable, decide.DependencyUnreadable:
		return reason.Text + e.answered(reason.Ref)
	}
	return reason.Text
}

// answered is the last answer to the deletion of a resource, if that was not accepted.
func (e *engine) answered(ref identity.SlotRef) string {
	if e.refused[ref] == "" {
		return ""
	}
	return "; the last answer to its deletion: " + e.refused[ref]
}

// unconfirmed has a line for each reason why the verdict is not complete, and for
// each resource and planned name that is not confirmed absent and that no reason is
// about, such as a Secret that the barrier kept (A6.9).
func unconfirmed(c *decide.Conclusion) (lines []string) {
	named := map[identity.SlotRef]bool{}
	for _, reason := range c.Reasons {
		named[reason.Ref] = true
		lines = append(lines, reason.Text)
	}
	for _, ending := range slices.Concat(c.Resources, c.Slots) {
		if ending.Outcome != decide.OutcomeAbsent && !named[ending.Ref] {
			lines = append(lines, fmt.Sprintf("%s: %s (%s)", ending.Outcome, ending.Object, ending.Ref))
		}
	}
	return lines
}

// list is never null in JSON.
func list(values []string) []string { return append([]string{}, values...) }

// kindWord is a kind as it may be part of a file name.
func kindWord(o identity.Object) string { return strings.ToLower(o.Kind) }
