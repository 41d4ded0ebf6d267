package preflight

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/test/apiproxy"
)

func (s *site) resumeArgs() []string {
	return s.preflightArgs("--resume", "--previous-process-settled", "--evidence-unrestored")
}

// killedAt starts the command and lets it be killed at one operation on its
// evidence. From then on the site's command is that build: another is refused.
func (s *site) killedAt(at string, args []string) {
	s.t.Helper()
	s.binary = world.killable
	if e := s.wait(s.start([]string{"HOLDFAST_KILL=" + at}, args...)); e.signal != syscall.SIGKILL {
		s.t.Fatalf("it was not killed at %q: exit %d\n%s", at, e.code, e.stderr)
	}
}

// resumes lists the directories of the resume attempts.
func (s *site) resumes() []string {
	s.t.Helper()
	found, err := filepath.Glob(filepath.Join(s.evidence, "upgrade-preflight-resume.*"))
	s.must(err)
	return found
}

// changed returns the arguments with one of them replaced.
func changed(args []string, from, to string) []string {
	at := slices.Index(args, from)
	args = slices.Clone(args)
	args[at] = to
	return args
}

// A4.7: a killed run, its cleanup, and a resume that passes with objects of its
// own, whose api and worker say which program they are and start nothing.
func TestResumeAfterCleanup(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.killedAt("after link "+evidence.ReceiptFile("api"), s.preflightArgs())
	s.expect(s.run(s.cleanupArgs()...), 0)
	result := s.result(s.expect(s.run(s.resumeArgs()...), 0))
	if !result.Complete || len(result.Resources) != 4+5 {
		t.Errorf("A6.7: the result is not that of both attempts: %+v", result)
	}
	s.nothingLeft()
	if s.file(evidence.UpgradeLockFile) {
		t.Error("A1.3: .upgrade-lock survived exit 0")
	}
	for slot, said := range map[identity.Slot]string{"api": "demo api ", "worker": "demo worker ", "migration": "migration of shop done"} {
		log, err := os.ReadFile(filepath.Join(s.resumes()[0], evidence.LogFile(slot)))
		s.must(err)
		if !strings.HasPrefix(string(log), said) {
			t.Errorf("slot %s of the resume said %q, not %q", slot, log, said)
		}
	}
	s.noCanaryInEvidence()
	s.says(s.expect(s.run(s.resumeArgs()...), 2), "nothing to resume", evidence.UpgradeLockFile)
}

// A4.7: without a cleanup a resume refuses and creates nothing, not even as a dry
// run. The cleanup command that it prints works, and then it passes.
func TestResumeWithoutCleanupIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	proxy := s.through(apiproxy.Hooks{})
	s.killedAt("after link "+evidence.ReceiptFile("migration"), s.preflightArgs())
	before := len(proxy.Requests())
	e := s.expect(s.run(s.resumeArgs()...), 2)
	s.says(e, "is still there", "run --cleanup-preflight first")
	for _, seen := range proxy.Requests()[before:] {
		if seen.Method != http.MethodGet {
			t.Errorf("%s %s was sent", seen.Method, seen.Path)
		}
	}
	if len(s.resumes()) > 0 || len(s.ours()) != 3 {
		t.Errorf("attempts %v, objects %v", s.resumes(), s.ours())
	}
	s.expect(s.runShell(printedCommand(t, e.stderr)), 0)
	s.nothingLeft()
}

// A4.7, A6.15: an uncertain create refuses until it is reconciled, and what that
// left behind until it is cleaned up. Then the resume passes, with exit 3.
func TestResumeAfterReconciliation(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.killedAt("after link "+evidence.StartedFile("migration"), s.preflightArgs())
	s.expect(s.run(s.cleanupArgs()...), 1)
	ref := evidence.StartupDirectory + "/migration"
	s.says(s.expect(s.run(s.resumeArgs()...), 2), ref+" is uncertain", "reconcile --slot")
	s.expect(s.run("reconcile", "--evidence-dir", s.evidence, "--slot", ref, "--statement", "the audit log holds no such request"), 0)
	s.says(s.expect(s.run(s.resumeArgs()...), 2), "is still there", "run --cleanup-preflight first")
	s.expect(s.run(s.cleanupArgs()...), 3)
	if len(s.resumes()) > 0 {
		t.Errorf("a refused resume registered %v", s.resumes())
	}
	e := s.expect(s.run(s.resumeArgs()...), 3)
	if result := s.result(e); result.Complete || result.Verdict != evidence.ReconciledByHand || len(result.Unknown) != 1 {
		t.Errorf("result %+v", result)
	}
	s.says(e, "the audit log holds no such request")
	s.nothingLeft()
	if !s.file(evidence.UpgradeLockFile) {
		t.Error("A1.3: .upgrade-lock is gone after exit 3")
	}
}

// A4.7, A5.11, A6.7: a resume that is killed in the middle is cleaned up together
// with the attempt before it, and may be resumed again.
func TestResumeKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.killedAt("after link "+evidence.ReceiptFile("migration"), s.preflightArgs())
	s.expect(s.run(s.cleanupArgs()...), 0)
	s.killedAt("after link "+evidence.ReleasedFile("api"), s.resumeArgs())
	s.says(s.expect(s.run(s.resumeArgs()...), 2), "run --cleanup-preflight first")
	result := s.result(s.expect(s.run(s.cleanupArgs()...), 0))
	if !result.Complete || len(result.Resources) != 3+4 || len(s.resumes()) != 1 {
		t.Errorf("attempts %v, result %+v", s.resumes(), result)
	}
	s.nothingLeft()
	s.expect(s.run(s.resumeArgs()...), 0)
	if len(s.resumes()) != 2 {
		t.Errorf("attempts %v", s.resumes())
	}
	s.nothingLeft()
}

// A6.7: an uncertain Job of a resume keeps the resume's dependencies, and is named
// with its attempt.
func TestResumeKilledWithAnUncertainJob(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.killedAt("after link "+evidence.ReceiptFile("network-policy"), s.preflightArgs())
	s.expect(s.run(s.cleanupArgs()...), 0)
	s.killedAt("after link "+evidence.StartedFile("worker"), s.resumeArgs())
	result := s.result(s.expect(s.run(s.cleanupArgs()...), 1))
	want := identity.SlotRef{Attempt: filepath.Base(s.resumes()[0]), Slot: "worker"}
	if !slices.Equal(result.Unknown, []identity.SlotRef{want}) || len(s.ours()) != 2 {
		t.Errorf("unknown %v, left %v", result.Unknown, s.ours())
	}
}

// A4.7: another chart, values file, image or profile is refused with exit 2, and
// the cluster is not even asked.
func TestResumeWithOtherInputsIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	proxy := s.through(apiproxy.Hooks{})
	s.killedAt("after link "+evidence.ReceiptFile("secret"), s.preflightArgs())
	s.expect(s.run(s.cleanupArgs()...), 0)
	before := len(proxy.Requests())

	chart := filepath.Join(s.dir, "chart")
	s.must(os.CopyFS(chart, os.DirFS(filepath.Join(world.root, "examples/chart"))))
	s.write(filepath.Join(chart, "extra.txt"), "one more file")
	other := filepath.Join(s.dir, "other.yaml")
	s.write(other, "{}\n")
	args := s.resumeArgs()
	for what, args := range map[string][]string{
		"chart":       changed(args, filepath.Join(world.root, "examples/chart"), chart),
		"values file": changed(args, s.values, other),
		"image":       changed(args, candidate, repository+"@sha256:"+strings.Repeat("1", 64)),
		"timeout":     changed(args, "60s", "61s"),
	} {
		s.says(s.expect(s.run(args...), 2), "the "+what+" is not that of the original run")
	}
	if sent := proxy.Requests()[before:]; len(sent) > 0 || len(s.resumes()) > 0 {
		t.Errorf("sent %v, registered %v", sent, s.resumes())
	}
}
