// Package advice owns the words in which a person is told how a cleanup ended
// and what to do next (A6.10, A6.13).
//
// Its invariants: it authorises nothing, and says so beside every command; a
// command carries a UID precondition; what a cluster or a file said reaches the
// text with its control characters escaped.
//
// It must not import net, internal/kube or any k8s.io module: evidence is read
// and reported offline too.
package advice

import (
	"fmt"
	"path"
	"strings"

	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/manual"
	"github.com/holdfast-project/holdfast/internal/ui"
)

// caution stands beside every command that deletes something which the evidence
// does not prove to be ours.
const caution = "a name, a label or a nonce does not authorise a deletion; the release owner decides"

// reachIt is what to do where a read kept failing or is not of the recorded cluster.
const reachIt = "correct access or connectivity, or point at the original cluster, and run cleanup again"

// Next returns what to do after this exit code (A6.10), the last line of every
// cleanup. The codes above 128 are those of signals.
func Next(exitCode int) string {
	switch {
	case exitCode == 0:
		return "next: return to your own procedure for recovering the upgrade"
	case exitCode == 1:
		return "next: inspect unknown and preflight-cleanup.err, reconcile before proceeding"
	case exitCode == 2:
		return "next: correct the inputs or reconcile by hand; never alter identity evidence"
	case exitCode == 3:
		return "next: the upgrade's recovery may go on; what the release owner has reconciled is named above"
	case exitCode > 128:
		return "next: settle the processes and remote operations before any new attempt; no result was written"
	default:
		return "next: cleanup has not been established; run it again"
	}
}

// Summary returns the lines that tell a person how a cleanup ended whose result was
// published at this path, the closing one included.
func Summary(inventory *evidence.Inventory, result evidence.Result, published string) []string {
	s := summary{inventory: inventory, failures: path.Join(path.Dir(published), evidence.ErrorFile)}
	s.headline(result)
	for _, r := range result.Resources {
		s.resource(r)
	}
	for _, pod := range result.Pods {
		s.pod(pod)
	}
	for _, planned := range result.PlannedNames {
		s.planned(planned)
	}
	s.lines = append(s.lines, Next(result.Verdict.ExitCode()))
	return s.lines
}

type summary struct {
	inventory *evidence.Inventory
	// failures is the path of preflight-cleanup.err.
	failures string
	lines    []string
}

// line adds one line; what it says is not trusted.
func (s *summary) line(indent int, format string, args ...any) {
	s.lines = append(s.lines, strings.Repeat("  ", indent)+ui.Escape(fmt.Sprintf(format, args...)))
}

func (s *summary) headline(result evidence.Result) {
	switch result.Verdict {
	case evidence.Complete:
		s.line(0, "cleanup complete: %d recorded resources are confirmed absent, and no create is uncertain", len(result.Resources))
	case evidence.ReconciledByHand:
		s.line(0, "cleanup reconciled: everything recorded is confirmed absent, but for what the release owner has reconciled")
	default:
		s.line(0, "cleanup incomplete:")
		for _, reason := range result.Reasons {
			s.line(1, "- %s", reason)
		}
		s.line(0, "correct or reconcile what these name and run cleanup again, which is always safe; each request that failed has a line in %s", s.failures)
		if len(result.RetainedBecause) > 0 {
			s.line(0, "Secrets and NetworkPolicies are kept: something may still use them")
		}
	}
}

// resource says how to go on with an acknowledged resource that is not gone.
func (s *summary) resource(r evidence.ResourceResult) {
	if r.Outcome == evidence.Absent {
		return
	}
	s.line(0, "%s: %s (%s)", r.Outcome, r.Object, r.SlotRef)
	switch r.Outcome {
	case evidence.Conflict:
		s.conflict(r)
	case evidence.Remaining:
		s.line(1, "%s", r.Detail)
		s.line(1, "ask the owner of a finalizer why it is held, do not strip it; correct what refused its deletion; then run cleanup again")
	case evidence.Orphaned:
		s.line(1, "%s", r.Detail)
		s.line(1, "when its Pods below are gone, and what could not be read can be, run cleanup again")
	case evidence.Retained:
		s.line(1, "settle what keeps it, named above, and run cleanup again; by hand only after every Job and its Pods are seen gone:")
		s.command(r.Object)
	default:
		s.line(1, "%s", r.Detail)
		s.line(1, "%s", reachIt)
	}
}

const findOut = "the replacement was not touched: find out who made it, and run cleanup again when it is gone"

// conflict tells a Job whose own name belongs to another object, and is gone, from
// one whose Pod was replaced: that Job may be there still.
func (s *summary) conflict(r evidence.ResourceResult) {
	if r.FoundUID == "" {
		s.line(1, "%s", r.Detail)
		s.line(1, "%s", findOut)
		return
	}
	s.line(1, "another object has the name now, UID %s, and ours is gone", r.FoundUID)
	s.line(1, "%s", findOut)
}

func (s *summary) pod(p evidence.PodResult) {
	owner := p.String()
	if p.Slot == "" {
		owner = "attempt " + p.Attempt
	}
	s.line(0, "%s: %s (%s)", p.Relation, p.Object, owner)
	if len(p.Finalizers) > 0 {
		s.line(1, "held by the finalizers %s", strings.Join(p.Finalizers, ", "))
	}
	if p.Relation != "orphaned" {
		return
	}
	s.line(1, "%s; the command that deletes exactly this Pod; run cleanup again after it:", caution)
	s.command(p.Object)
}

// planned says how to go on with a slot without a receipt.
func (s *summary) planned(p evidence.PlannedResult) {
	uncertain := p.State == string(evidence.StateUncertain)
	if !uncertain && p.Outcome == evidence.Absent {
		return
	}
	s.line(0, "%s: %s (%s)", p.State, p.Object, p.SlotRef)
	if p.Reconciled {
		s.line(1, "reconciled by the release owner: %s", p.Statement)
	}
	s.candidate(p)
	if uncertain {
		s.audit(p.AuditID)
		if !p.Reconciled {
			s.reconcile(p.SlotRef)
		}
	}
}

func (s *summary) candidate(p evidence.PlannedResult) {
	switch p.Outcome {
	case evidence.Absent:
		s.line(1, "nothing has this name now, which settles nothing: a request may still be on its way")
	case evidence.Unexplained:
		carries := "does not carry"
		if p.CarriesNonce {
			carries = "carries"
		}
		s.line(1, "an object has this name, UID %s; it %s the plan's nonce, and there is no receipt for it", p.FoundUID, carries)
		after := ""
		if !p.Object.Consumer() {
			after = ", after every Job and its Pods are seen gone"
		}
		s.line(1, "%s; the command that deletes exactly this object%s; run cleanup again after it:", caution, after)
		found := p.Object
		found.UID = p.FoundUID
		s.command(found)
	default:
		s.line(1, "its name could not be read in the recorded cluster")
		s.line(1, "%s", p.Detail)
		s.line(1, "%s", reachIt)
	}
}

// audit prints the query that settles an uncertain create for whoever may read
// the API server's audit log.
func (s *summary) audit(id string) {
	if !identity.ValidUID(id) {
		return
	}
	s.line(1, "its create carried the Audit-ID %s; an administrator can look for it in the API server's audit log:", id)
	s.line(2, `jq -c 'select(.auditID == "%s")' audit.log`, id)
}

func (s *summary) reconcile(ref identity.SlotRef) {
	program := ui.Program
	if s.inventory.Parameters.HelperRetained {
		program = path.Join(s.inventory.Journal.Directory.Path, evidence.HelperDirectory, evidence.HelperFile)
	}
	s.line(1, "when the release owner has settled what became of it:")
	s.lines = append(s.lines, "    "+ui.Quote([]string{
		program, "reconcile", "--evidence-dir", s.inventory.Journal.Directory.Path, "--slot", ref.String(), "--statement", "what was found, and by whom",
	}))
}

// command prints the guarded deletion of one object. What cannot be written
// safely is not written.
func (s *summary) command(object identity.Object) {
	p := s.inventory.Parameters
	command, err := manual.DeleteCommand(p.Kubeconfig, p.Context, object)
	if err != nil {
		s.line(2, "(no command: %s)", err)
		return
	}
	s.lines = append(s.lines, "    "+command)
}
