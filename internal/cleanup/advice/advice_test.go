package advice

import (
	"strings"
	"testing"

	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/identity"
)

const (
	uidOurs  = "11111111-0000-4000-8000-000000000001"
	uidOther = "99999999-0000-4000-8000-000000000009"
	auditID  = "77777777-0000-4000-8000-000000000007"
)

func inventory() *evidence.Inventory {
	return &evidence.Inventory{
		Parameters: evidence.Parameters{Kubeconfig: "/secure/it's/kubeconfig", Context: "prod", Namespace: "ns", HelperRetained: true},
		Journal:    evidence.Journal{Directory: identity.Directory{Path: "/secure/evi dence"}},
	}
}

func place(kind, name, uid string) identity.Object {
	version := map[string]string{"Job": "batch/v1", "Secret": "v1", "Pod": "v1"}[kind]
	return identity.Object{APIVersion: version, Kind: kind, Namespace: "ns", Name: name, UID: uid}
}

func ref(slot identity.Slot) identity.SlotRef {
	return identity.SlotRef{Attempt: "upgrade-preflight", Slot: slot}
}

// A6.10: each exit code ends with its own next action.
func TestA6_10_Next(t *testing.T) {
	for code, want := range map[int]string{
		0: "return to your own procedure for recovering the upgrade", 1: "inspect unknown and preflight-cleanup.err",
		2: "never alter identity evidence", 3: "recovery may go on",
		129: "before any new attempt", 130: "before any new attempt", 143: "before any new attempt",
	} {
		if got := Next(code); !strings.Contains(got, want) {
			t.Errorf("%d: %q does not say %q", code, got, want)
		}
	}
}

// A6.13: for each way in which a resource or slot can be unsettled, what the
// human is told; and what must not be there.
func TestA6_13_Summary(t *testing.T) {
	uncertain := evidence.PlannedResult{SlotRef: ref("api"), Object: place("Job", "r-api", ""), State: "uncertain", AuditID: auditID, Outcome: evidence.Absent}
	candidate := uncertain
	candidate.Outcome, candidate.FoundUID, candidate.CarriesNonce = evidence.Unexplained, uidOther, true
	foreign := candidate
	foreign.CarriesNonce = false
	dependency := candidate
	dependency.SlotRef, dependency.Object = ref("secret"), place("Secret", "r-secret", "")
	reconciled := uncertain
	reconciled.Reconciled, reconciled.Statement = true, "checked\x1b[2J by me"
	hostile := candidate
	hostile.FoundUID = "x'; rm -rf /; '"

	jobCommand := `printf '%s' '{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"` + uidOther + `"},"propagationPolicy":"Foreground"}' | kubectl --kubeconfig '/secure/it'\''s/kubeconfig' --context 'prod' delete --raw /apis/batch/v1/namespaces/ns/jobs/r-api -f -`
	for name, row := range map[string]struct {
		result evidence.Result
		want   []string
		not    []string
	}{
		"complete": {evidence.Result{Verdict: evidence.Complete, Resources: []evidence.ResourceResult{{Outcome: evidence.Absent}}},
			[]string{"cleanup complete: 1 recorded"}, []string{"kubectl", "incomplete", "preflight-cleanup.err"}},
		"uncertain, nothing found": {evidence.Result{PlannedNames: []evidence.PlannedResult{uncertain}},
			[]string{"settles nothing", auditID, `select(.auditID == "` + auditID, "'/secure/evi dence/helper/upgrade-production-images' reconcile --evidence-dir '/secure/evi dence' --slot upgrade-preflight/api"}, []string{"kubectl"}},
		"uncertain, found with the nonce": {evidence.Result{PlannedNames: []evidence.PlannedResult{candidate}},
			[]string{uidOther, "it carries the plan's nonce", caution, jobCommand}, []string{"settles nothing"}},
		"uncertain, found without it": {evidence.Result{PlannedNames: []evidence.PlannedResult{foreign}},
			[]string{"does not carry the plan's nonce", caution}, nil},
		"a dependency waits for its consumers": {evidence.Result{PlannedNames: []evidence.PlannedResult{dependency}},
			[]string{"after every Job and its Pods are seen gone", `"propagationPolicy":"Orphan"`}, nil},
		"reconciled": {evidence.Result{Verdict: evidence.ReconciledByHand, PlannedNames: []evidence.PlannedResult{reconciled}},
			[]string{`checked\x1b[2J by me`, "recovery may go on"}, []string{"\x1b", "reconcile --evidence-dir"}},
		"a UID that is none enters no command": {evidence.Result{PlannedNames: []evidence.PlannedResult{hostile}},
			[]string{"no command"}, []string{"kubectl"}},
		"planned and absent is nothing to tell": {evidence.Result{PlannedNames: []evidence.PlannedResult{{State: "planned", Outcome: evidence.Absent, Object: place("Job", "r-worker", "")}}},
			nil, []string{"r-worker"}},
		"planned and found": {evidence.Result{PlannedNames: []evidence.PlannedResult{{State: "planned", Outcome: evidence.Unexplained, FoundUID: uidOther, Object: place("Job", "r-api", "")}}},
			[]string{jobCommand, caution}, []string{"audit.log"}},
		"retained": {evidence.Result{RetainedBecause: []string{"x"}, Resources: []evidence.ResourceResult{{SlotRef: ref("secret"), Outcome: evidence.Retained, Object: place("Secret", "r-secret", uidOurs)}}},
			[]string{"are kept", "only after every Job and its Pods are seen gone", uidOurs, "Orphan"}, nil},
		"remaining": {evidence.Result{Reasons: []string{"it is held"}, Resources: []evidence.ResourceResult{{Outcome: evidence.Remaining, Detail: "held by the finalizers a/b", Object: place("Job", "r-api", uidOurs)}}},
			[]string{"- it is held", "a/b", "do not strip it"}, []string{"kubectl"}},
		"another cluster was not asked": {evidence.Result{Reasons: []string{"this is another cluster: x"},
			Resources:    []evidence.ResourceResult{{Outcome: evidence.Unreadable, Detail: "this is another cluster: x", Object: place("Job", "r-api", uidOurs)}},
			PlannedNames: []evidence.PlannedResult{{State: "planned", Outcome: evidence.Unreadable, Detail: "this is another cluster: x", Object: place("Job", "r-worker", "")}}},
			[]string{"(uid " + uidOurs + ")", "  this is another cluster: x", "its name could not be read in the recorded cluster\n  this is another cluster: x", "point at the original cluster"}, []string{"kubectl", "it could not be read"}},
		"a name that could not be read": {evidence.Result{PlannedNames: []evidence.PlannedResult{{State: "planned", Outcome: evidence.Unreadable, Detail: "403 Forbidden", Object: place("Job", "r-worker", "")}}},
			[]string{"could not be read in the recorded cluster\n  403 Forbidden", "correct access or connectivity, or point at the original cluster, and run cleanup again"}, []string{"kubectl"}},
		"an orphaned Pod beside what was not read": {evidence.Result{Resources: []evidence.ResourceResult{{Outcome: evidence.Orphaned, Detail: "it is not owned; 403 Forbidden", Object: place("Job", "r-api", uidOurs)}}},
			[]string{"it is not owned; 403 Forbidden", "run cleanup again"}, []string{"run on without it"}},
		"where the failures are": {evidence.Result{Reasons: []string{"x"}}, []string{"each request that failed has a line in /e/preflight-cleanup.XXXXXXXX/preflight-cleanup.err"}, nil},
		"its deletion was refused": {evidence.Result{Resources: []evidence.ResourceResult{{Outcome: evidence.Remaining, Detail: "its deletion has not begun", Object: place("Job", "r-api", uidOurs)}}},
			[]string{"its deletion has not begun", "correct what refused its deletion"}, []string{"kubectl"}},
		"a replaced Pod says nothing of its Job": {evidence.Result{
			Resources: []evidence.ResourceResult{{Outcome: evidence.Conflict, Detail: "Pod ns/r-api-x was replaced by another object with the UID " + uidOther, Object: place("Job", "r-api", uidOurs)}},
			Pods:      []evidence.PodResult{{SlotRef: ref("api"), Relation: "conflict", Object: place("Pod", "r-api-x", uidOurs)}}},
			[]string{"Pod ns/r-api-x was replaced", uidOther, "not touched"}, []string{"ours is gone", "kubectl", "UID ;"}},
		"a replacement gets no command": {evidence.Result{Resources: []evidence.ResourceResult{{Outcome: evidence.Conflict, FoundUID: uidOther, Object: place("Job", "r-api", uidOurs)}}},
			[]string{uidOther, "not touched"}, []string{"kubectl"}},
		"an orphaned Pod": {evidence.Result{Pods: []evidence.PodResult{{SlotRef: ref("api"), Relation: "orphaned", Object: place("Pod", "r-api-x", uidOther)}}},
			[]string{"/api/v1/namespaces/ns/pods/r-api-x", caution, uidOther}, nil},
		"an owned Pod gets no command": {evidence.Result{Pods: []evidence.PodResult{{SlotRef: ref("api"), Relation: "owned", Object: place("Pod", "r-api-x", uidOther), Finalizers: []string{"a/b"}}}},
			[]string{"a/b"}, []string{"kubectl"}},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Join(Summary(inventory(), row.result, "/e/preflight-cleanup.XXXXXXXX/preflight-cleanup-result.json"), "\n")
			for _, want := range row.want {
				if !strings.Contains(text, want) {
					t.Errorf("it does not say %q:\n%s", want, text)
				}
			}
			for _, not := range row.not {
				if strings.Contains(text, not) {
					t.Errorf("it says %q:\n%s", not, text)
				}
			}
			if !strings.HasPrefix(text[strings.LastIndex(text, "\n")+1:], "next: ") {
				t.Errorf("the last line is not what to do next:\n%s", text)
			}
		})
	}
}
