package preflight

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-project/holdfast/internal/evidence"
)

// A4.1: a create in flight at --timeout is awaited and recorded too, and then
// everything is removed.
func TestTimeoutAwaitsTheCreateInFlight(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	hooks, arrived, release := slowly("secrets")
	t.Cleanup(release)
	s.through(hooks)
	args := s.preflightArgs()
	for i, arg := range args {
		if arg == "60s" {
			args[i] = "10s" // the run's first steps have to fit in, on slow cores too
		}
	}
	p := s.start(nil, args...)
	p.inFlight(t, arrived)
	select {
	case <-p.done:
		t.Fatalf("the timeout cut a create off:\n%s", p.stderr.String())
	case <-time.After(12 * time.Second):
	}
	release()
	s.says(s.expect(s.wait(p), 1), "--timeout 10s")
	if !s.record(evidence.ReceiptFile("secret")) || s.record(evidence.StartedFile("network-policy")) {
		t.Error("the receipt is missing, or a new create started after the timeout")
	}
	s.nothingLeft()
}

// A6.10: a crash must never look like exit 2, and leaves no core with Secret
// values in it. SIGQUIT makes the Go runtime crash as a panic does.
func TestCrashIsNoRefusal(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	hooks, arrived, release := slowly("secrets")
	t.Cleanup(release)
	s.through(hooks)
	p := s.start(nil, s.preflightArgs()...)
	p.inFlight(t, arrived)
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", p.cmd.Process.Pid))
	s.must(err)
	for line := range strings.Lines(string(limits)) {
		if words := strings.Fields(line); strings.HasPrefix(line, "Max core file size") && words[4] != "0" {
			t.Errorf("a crash may leave a core: %s", line)
		}
	}
	s.must(p.cmd.Process.Signal(syscall.SIGQUIT))
	e := s.wait(p)
	if e.signal != syscall.SIGABRT {
		t.Errorf("it ended with code %d, signal %v; want SIGABRT", e.code, e.signal)
	}
}

// A6.10: SIGPIPE is ignored: who closes a pager does not end a run.
func TestClosedPipesDoNotEndARun(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	reader, writer, err := os.Pipe()
	s.must(err)
	s.must(reader.Close())
	p := &process{cmd: s.command(nil, s.preflightArgs()...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = writer, writer
	s.begin(p)
	s.must(writer.Close())
	s.expect(s.wait(p), 0)
	s.nothingLeft()
}

// A3.6: the kept copy is the executable itself, and runs the cleanup when the
// original is gone; without it the refusal of another build has nothing to name.
func TestKeptHelper(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.behave(map[string]string{"migration": "fail"})
	s.expect(s.run(s.preflightArgs()...), 1)
	kept := filepath.Join(s.evidence, evidence.HelperDirectory, evidence.HelperFile)
	info, err := os.Stat(kept)
	s.must(err)
	if info.Mode().Perm() != 0o700 {
		t.Errorf("A1.1: its mode is %v", info.Mode())
	}
	s.binary = world.killable
	s.says(s.expect(s.run(s.cleanupArgs()...), 2), kept)
	s.binary = kept
	s.expect(s.run(s.cleanupArgs()...), 0)

	other := newSite(t)
	other.behave(map[string]string{"migration": "fail"})
	e := other.expect(other.run(other.preflightArgs("--retain-helper=false")...), 1)
	other.says(e, "no copy of the executable was kept")
	if other.file(evidence.HelperDirectory) {
		t.Error("--retain-helper=false kept a copy")
	}
}
