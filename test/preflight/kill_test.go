package preflight

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/identity"
)

// killing is one operation on the evidence at which the process is killed.
type killing struct {
	at string
	// code is what cleanup then ends with.
	code int
	// unknown is the slot that it names, empty when none is uncertain.
	unknown identity.Slot
	// left is how many of our objects it may not delete.
	left int
	// sent is true when the uncertain create reached the server.
	sent bool
}

// killings lists every step of the journal (A2.5, A3.4 to A4.2c): the process is
// killed when a marker is durable and nothing was sent, when the object exists
// and its receipt does not, when the receipt is durable, and around each
// release. dependencies counts what an uncertain consumer keeps.
func killings() []killing {
	all := []killing{
		{at: "before rename preflight-journal.json", code: 2},
		{at: "after rename preflight-journal.json", code: 0},
		{at: "after link preflight-plan.json", code: 0},
		{at: "before link preflight-cleanup-result.json", code: 0},
		{at: "before remove .upgrade-lock", code: 0},
	}
	dependencies := 0
	for _, slot := range []identity.Slot{"secret", "network-policy", "migration", "api", "worker"} {
		job := slot != identity.SlotSecret && slot != identity.SlotNetworkPolicy
		kept := 0
		if job {
			kept = dependencies
		}
		all = append(all,
			killing{at: "after link " + evidence.StartedFile(slot), code: 1, unknown: slot, left: kept},
			killing{at: "before link " + evidence.ReceiptFile(slot), code: 1, unknown: slot, left: kept + 1, sent: true},
			killing{at: "after link " + evidence.ReceiptFile(slot), code: 0},
		)
		if job {
			all = append(all,
				killing{at: "before link " + evidence.ReleasedFile(slot), code: 0},
				killing{at: "after link " + evidence.ReleasedFile(slot), code: 0},
			)
		} else {
			dependencies++
		}
	}
	return all
}

// A real process is killed with SIGKILL at each step of its journal; then either
// cleanup exits 0 and nothing of ours is left, or it exits 1 and names exactly
// the uncertain slot (A2.5, A5.8, A5.9, A6.7, A6.10).
func TestKilledAtEachStep(t *testing.T) {
	t.Parallel()
	for _, k := range killings() {
		t.Run(strings.ReplaceAll(k.at, " ", "_"), func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.binary = world.killable
			killed := s.wait(s.start([]string{"HOLDFAST_KILL=" + k.at}, s.preflightArgs()...))
			if killed.signal != syscall.SIGKILL {
				t.Fatalf("it was not killed at %q: exit %d\n%s", k.at, killed.code, killed.stderr)
			}
			s.noCanaryInEvidence()
			e := s.expect(s.run(s.cleanupArgs()...), k.code)
			s.checkCleanup(k, e)
			s.noCanaryInEvidence()
		})
	}
}

func (s *site) checkCleanup(k killing, e ended) {
	s.t.Helper()
	left := s.ours()
	if len(left) != k.left {
		s.t.Errorf("left in the cluster: %v, want %d objects", left, k.left)
	}
	if k.code == 2 {
		s.says(e, "killed before anything could be created")
		return
	}
	result := s.result(e)
	var unknown []identity.SlotRef
	if k.unknown != "" {
		unknown = append(unknown, identity.SlotRef{Attempt: evidence.StartupDirectory, Slot: k.unknown})
	}
	if fmt.Sprint(result.Unknown) != fmt.Sprint(unknown) || result.Complete != (k.code == 0) {
		s.t.Errorf("unknown %v, complete %v; want unknown %v", result.Unknown, result.Complete, unknown)
	}
	if k.sent {
		s.says(e, "it carries the plan's nonce", "kubectl")
	}
	if !s.file(evidence.UpgradeLockFile) {
		s.t.Error("A1.3: .upgrade-lock is gone")
	}
}

// A6.15: an uncertain create whose release owner has reconciled it: exit 3, and
// what it held is removed.
func TestReconciledExitsThree(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.binary = world.killable
	s.wait(s.start([]string{"HOLDFAST_KILL=after link " + evidence.StartedFile("migration")}, s.preflightArgs()...))
	s.expect(s.run(s.cleanupArgs()...), 1)
	ref := evidence.StartupDirectory + "/migration"
	s.expect(s.run("reconcile", "--evidence-dir", s.evidence, "--slot", ref, "--statement", "the audit log holds no such request"), 0)
	e := s.expect(s.run(s.cleanupArgs()...), 3)
	if result := s.result(e); result.Complete || result.Verdict != evidence.ReconciledByHand || len(result.Unknown) != 1 {
		t.Errorf("result %+v", result)
	}
	s.says(e, "the audit log holds no such request")
	s.nothingLeft()
}
