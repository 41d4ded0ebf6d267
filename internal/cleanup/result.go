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
		r.Resources = append(r.Resources, e.resourceResult(c, ending))
	}
	for _, ending := range c.Slots {
		r.PlannedNames = append(r.PlannedNames, e.plannedResult(c, ending))
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

func (e *engine) resourceResult(c *decide.Conclusion, ending decide.Ending) evidence.ResourceResult {
	r := evidence.ResourceResult{
		SlotRef: ending.Ref, Object: ending.Object, Outcome: evidence.Outcome(ending.Outcome),
		Finalizers: []string{}, Detail: e.detail(c, ending),
	}
	if ending.Found != nil {
		r.Finalizers, r.Deleting = list(ending.Found.Finalizers), ending.Found.Deleting
		if ending.Found.UID != ending.Object.UID {
			r.FoundUID = ending.Found.UID
		}
	}
	return r
}

func (e *engine) plannedResult(c *decide.Conclusion, ending decide.Ending) evidence.PlannedResult {
	r := evidence.PlannedResult{
		SlotRef: ending.Ref, Object: ending.Object, Outcome: evidence.Outcome(ending.Outcome),
		CarriesNonce: ending.CarriesNonce, Finalizers: []string{}, Detail: e.detail(c, ending),
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

// detail is all that stands in the way of one resource or name. Where the cluster is not
// proven to be the recorded one, that is why what was read of it does not count.
func (e *engine) detail(c *decide.Conclusion, ending decide.Ending) string {
	var about []decide.Reason
	for _, reason := range c.Reasons {
		if reason.Ref == ending.Ref || reason.Cause == decide.ClusterUnproven && ending.Outcome == decide.OutcomeUnreadable {
			about = append(about, reason)
		}
	}
	return strings.Join(e.texts(about), "; ")
}

func (e *engine) texts(reasons []decide.Reason) []string {
	texts := make([]string, 0, len(reasons))
	for _, reason := range reasons {
		texts = append(texts, e.said(reason.Text)+e.because(reason))
	}
	return texts
}

// because is what the cluster answered, where that is what explains a reason: a
// webhook, a missing right, an expired login. preflight-cleanup.err has it too, among
// everything else.
func (e *engine) because(reason decide.Reason) string {
	deletion := after("; the last answer to its deletion: ", e.refused[reason.Ref])
	read := after("; the last read of it that failed: ", e.unread[reason.Ref])
	list := after("; the last list of Pods that failed: ", e.unlisted)
	switch reason.Cause {
	case decide.ClusterUnproven:
		return after(": ", e.unproven)
	case decide.ChildConflict, decide.JobRemaining, decide.DependencyRemaining:
		return deletion
	case decide.JobUnreadable:
		return deletion + read + list
	case decide.DependencyUnreadable:
		return deletion + read
	case decide.PodsUnreadable:
		return list
	case decide.JobNameUnreadable, decide.NameUnreadable:
		return read
	default:
		// What was found explains it, or what the evidence lacks.
		return ""
	}
}

// after is an answer behind the words that lead to it, if there was one.
func after(words, answer string) string {
	if answer == "" {
		return ""
	}
	return words + answer
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
