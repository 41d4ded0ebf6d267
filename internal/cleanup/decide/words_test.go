package decide

import "testing"

// A6.9, A6.10: the words of the result file, and A6.3, A6.7: those of a DELETE's
// body, do not change: people, scripts and the API server read them.
func TestA6_9_Words(t *testing.T) {
	for got, want := range map[string]string{
		string(Complete): "complete", string(Incomplete): "incomplete", string(Reconciled): "reconciled",
		string(OutcomeAbsent): "absent", string(OutcomeRetained): "retained", string(OutcomeConflict): "conflict",
		string(OutcomeOrphaned): "orphaned", string(OutcomeUnexplained): "unexplained", string(OutcomeRemaining): "remaining",
		string(OutcomeUnreadable): "unreadable",
		string(Foreground):        "Foreground", string(Orphan): "Orphan",
		string(Planned): "planned", string(Rejected): "rejected", string(Uncertain): "uncertain",
		string(ClusterUnproven): "cluster-unproven", string(JobConflict): "job-conflict", string(ChildConflict): "child-conflict",
		string(PodOrphaned): "pod-orphaned", string(JobRemaining): "job-remaining", string(JobUnreadable): "job-unreadable",
		string(PodsUnreadable): "pods-unreadable", string(JobCreateUncertain): "job-create-uncertain",
		string(JobUnexplained): "job-unexplained", string(JobNameUnreadable): "job-name-unreadable",
		string(CreateUncertain): "create-uncertain", string(DependencyConflict): "dependency-conflict",
		string(DependencyRemaining): "dependency-remaining", string(DependencyUnreadable): "dependency-unreadable",
		string(DependencyUnexplained): "dependency-unexplained", string(NameUnreadable): "name-unreadable",
	} {
		if got != want {
			t.Errorf("the word is %q, want %q", got, want)
		}
	}
	// The relations repeat two words of the outcomes.
	for got, want := range map[Relation]string{Owned: "owned", Recorded: "recorded", Orphaned: "orphaned", Replaced: "conflict"} {
		if string(got) != want {
			t.Errorf("the relation is %q, want %q", got, want)
		}
	}
}
