package evidence_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/identity"
)

// A1.4, A3.2, A6.9: the names and words of the evidence are a contract with operators,
// their scripts, and every helper that wrote some: written down here a second time.
func TestA1_4_NamesAreAContract(t *testing.T) {
	for want, got := range map[string]string{
		"upgrade-preflight-v1": evidence.Format,
		"openclaw-enterprise":  evidence.BuiltInProfile,
		"startup":              string(evidence.Startup),
		"resume":               string(evidence.Resume),
		"migration-resume":     string(evidence.MigrationResume),

		"parameters.json":                   evidence.ParametersFile,
		"preflight-journal.json":            evidence.JournalFile,
		".upgrade-lock":                     evidence.UpgradeLockFile,
		"helper":                            evidence.HelperDirectory,
		"upgrade-production-images":         evidence.HelperFile,
		"preflight-plan.json":               evidence.PlanFile,
		"upgrade-preflight":                 evidence.StartupDirectory,
		"upgrade-preflight-resume.ABCDEFGH": evidence.ResumeDirectory("ABCDEFGH"),
		"preflight-cleanup.ABCDEFGH":        evidence.CleanupDirectory("ABCDEFGH"),
		"preflight-cleanup-result.json":     evidence.ResultFile,
		"preflight-cleanup.err":             evidence.ErrorFile,
		"observations":                      evidence.ObservationsDirectory,

		"preflight-api-started.json":    evidence.StartedFile("api"),
		"preflight-api-identity.json":   evidence.ReceiptFile("api"),
		"preflight-api-released.json":   evidence.ReleasedFile("api"),
		"preflight-api-rejected.json":   evidence.RejectedFile("api"),
		"preflight-api-reconciled.json": evidence.ReconciledFile("api"),
		"preflight-api-create.err":      evidence.CreateErrorFile("api"),
		"preflight-api.log":             evidence.LogFile("api"),
		"preflight-api-child-x.json":    evidence.ChildFile("api", "x"),

		"complete":    string(evidence.Complete),
		"incomplete":  string(evidence.Incomplete),
		"reconciled":  string(evidence.ReconciledByHand),
		"absent":      string(evidence.Absent),
		"retained":    string(evidence.Retained),
		"conflict":    string(evidence.Conflict),
		"orphaned":    string(evidence.Orphaned),
		"unexplained": string(evidence.Unexplained),
		"remaining":   string(evidence.Remaining),
		"unreadable":  string(evidence.Unreadable),
	} {
		if got != want {
			t.Errorf("%q is now %q", want, got)
		}
	}
	if evidence.Version != 1 || evidence.SuffixLength != 8 || evidence.MaxReasonBytes != 1<<10 || evidence.MaxStatementBytes != 4<<10 ||
		evidence.MaxCreateErrorBytes != 64<<10 || evidence.MaxLogBytes != 4<<20 {
		t.Error("a number of the contract has changed")
	}
	for verdict, code := range map[evidence.Verdict]int{evidence.Complete: 0, evidence.Incomplete: 1, evidence.ReconciledByHand: 3, "": 1, "x": 1} {
		if verdict.ExitCode() != code {
			t.Errorf("%q exits with %d", verdict, verdict.ExitCode())
		}
	}
}

// A5.6: which files say something of a create, and which only look so.
func TestA5_6_CreateRecords(t *testing.T) {
	uid := "00000000-0000-4000-8000-000000000000"
	for name, want := range map[string]bool{
		"preflight-api-started.json":                               true,
		"preflight-network-policy-identity.json":                   true,
		"preflight-api-create.err":                                 true,
		"preflight-api-child-" + uid + ".json":                     true,
		"preflight-api.log":                                        false,
		"preflight-plan.json":                                      false,
		"api-started.json":                                         false,
		"preflight--started.json":                                  false,
		"preflight-API-started.json":                               false,
		"preflight-api-started":                                    false,
		"preflight-api-child-" + uid:                               false,
		"preflight-api-child-x.json":                               false,
		"preflight-" + uid + ".json":                               false,
		"preflight-api-kind-" + uid + ".json":                      false,
		"preflight-API-child-" + uid + ".json":                     false,
		"preflight-api-child-" + strings.Repeat("x", 36) + ".json": false,
		uid + ".json":                                              false,
		"preflight-" + "a" + uid[1:] + ".json":                     false,
		"preflight-api-child-" + uid + "-x.json":                   false,
		"preflight-child-child-" + uid + ".json":                   true,
		"preflight-api-child-" + uid + ".json.gz":                  false,
	} {
		if evidence.CreateRecord(name) != want {
			t.Errorf("%s: want %v", name, want)
		}
	}
}

// A3.3, A5: a slot's place is whole, and a refusal names its file or the directory.
func TestA3_3_ObjectOfASlot(t *testing.T) {
	slot := evidence.PlannedSlot{Slot: "api", APIVersion: "v", Kind: "k", Namespace: "n", Name: "m"}
	if got := slot.Object(); got != (identity.Object{APIVersion: "v", Kind: "k", Namespace: "n", Name: "m"}) {
		t.Errorf("%+v", got)
	}
	refusals := []string{(&evidence.Refusal{File: ".", Reason: "is x"}).Error(), (&evidence.Refusal{File: "a", Reason: "is x"}).Error()}
	if !slices.Equal(refusals, []string{"evidence refused: the evidence directory is x", "evidence refused: a is x"}) {
		t.Error(strings.Join(refusals, "; "))
	}
}
