package preflight

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/test/apiproxy"
	"github.com/holdfast-project/holdfast/test/controlplane"
)

// A4.1, exit 0: passed and everything confirmed absent.
func TestPassedLeavesNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.behave(map[string]string{"api": "print-secret"})
	e := s.expect(s.run(s.preflightArgs()...), 0)
	s.nothingLeft()
	result := s.result(e)
	if !result.Complete || result.Verdict != evidence.Complete || len(result.Resources) != 5 {
		t.Errorf("result %+v", result)
	}
	if s.file(evidence.UpgradeLockFile) {
		t.Error("A1.3: .upgrade-lock survived a successful run")
	}
	for _, slot := range []identity.Slot{"migration", "api", "worker"} {
		if !s.record(evidence.LogFile(slot)) || !s.record(evidence.ReleasedFile(slot)) {
			t.Errorf("slot %s has no log or no release", slot)
		}
	}
	content, err := os.ReadFile(filepath.Join(s.evidence, evidence.StartupDirectory, evidence.LogFile("api")))
	s.must(err)
	if !bytes.Contains(content, []byte("[redacted]")) {
		t.Errorf("the log of a program that prints its credentials shows no redaction: %q", content)
	}
	s.noCanaryInEvidence()
}

// A4.1, exit 1: a failed Job; everything is removed first, and the exact cleanup
// command is printed and works.
func TestFailedJobRemovesEverything(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.behave(map[string]string{"migration": "fail"})
	e := s.expect(s.run(s.preflightArgs()...), 1)
	s.says(e, "slot migration failed", "exit code 1", "--cleanup-preflight", "helper/upgrade-production-images")
	s.nothingLeft()
	if s.record(evidence.StartedFile("api")) {
		t.Error("A4.1: api started although the migration failed")
	}
	if !s.file(evidence.UpgradeLockFile) {
		t.Error("A1.3: .upgrade-lock is gone after a failed run")
	}
	s.noCanaryInEvidence()

	command := printedCommand(t, e.stderr)
	again := s.runShell(command)
	s.expect(again, 0)
	if !s.file(evidence.UpgradeLockFile) {
		t.Error("A1.3: cleanup removed .upgrade-lock")
	}
}

// A4.5: a Pod that can never start fails early with its reason, not at the
// timeout.
func TestImageThatCannotBePulledEndsEarly(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	began := time.Now()
	args := s.preflightArgs()
	for i, arg := range args {
		if arg == candidate {
			args[i] = "registry.example/nowhere/missing@" + digest
		}
		if arg == "60s" {
			args[i] = "600s"
		}
	}
	e := s.expect(s.run(args...), 1)
	s.says(e, "slot migration failed", "ImagePullBackOff")
	if took := time.Since(began); took > 5*time.Minute {
		t.Errorf("it ended after %s", took)
	}
	s.nothingLeft()
}

// A4.6: what ran is not the candidate, and no registry says that it is listed.
func TestAnotherImageFails(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	other := "registry.example/holdfast/other"
	s.must(world.cluster.RegisterImage(other, controlplane.Program{
		Path: filepath.Join(filepath.Dir(filepath.Dir(world.shipped)), "demo"), ImageID: other + "@sha256:" + strings.Repeat("1", 64),
	}))
	args := s.preflightArgs()
	for i, arg := range args {
		if arg == candidate {
			args[i] = other + "@" + digest
		}
	}
	e := s.expect(s.run(args...), 1)
	s.says(e, "slot migration failed: it ran the image "+other, "is not known")
	s.nothingLeft()
}

// A4.1, exit 1: the timeout; everything is removed first.
func TestTimeoutRemovesEverything(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.behave(map[string]string{"migration": "hang"})
	args := s.preflightArgs()
	for i, arg := range args {
		if arg == "60s" {
			args[i] = "8s"
		}
	}
	e := s.expect(s.run(args...), 1)
	s.nothingLeft()
	if !strings.Contains(e.stderr, "--timeout 8s") && !strings.Contains(e.stderr, "DeadlineExceeded") {
		t.Errorf("no word of the timeout:\n%s", e.stderr)
	}
}

// A4.1, exit 1: a rejected create; everything else is removed through A6.
func TestRejectedCreateRemovesTheRest(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.through(apiproxy.Hooks{Before: func(e apiproxy.Exchange) apiproxy.Action {
		if !create(e, "networkpolicies") {
			return apiproxy.Action{}
		}
		return apiproxy.Action{
			Reply: http.StatusForbidden, ContentType: "application/json", Header: http.Header{"Audit-Id": e.Header["Audit-Id"]},
			Body: `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no","reason":"Forbidden","code":403}`,
		}
	}})
	e := s.expect(s.run(s.preflightArgs()...), 1)
	s.says(e, "slot network-policy was refused", "403", "--cleanup-preflight")
	s.nothingLeft()
	if !s.record(evidence.RejectedFile("network-policy")) || s.record(evidence.StartedFile("migration")) {
		t.Error("the rejection is not recorded, or another slot was started after it")
	}
	s.expect(s.run(s.cleanupArgs()...), 0)
}

// A4.1, exit 1: a create whose answer is lost; no further create, nothing
// deleted. Its cleanup names exactly that slot and keeps the dependencies.
func TestUncertainCreateKeepsEverything(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.through(apiproxy.Hooks{After: func(e apiproxy.Exchange) apiproxy.Action {
		return apiproxy.Action{Drop: create(e, "jobs")}
	}})
	e := s.expect(s.run(s.preflightArgs()...), 1)
	s.says(e, "slot migration has an unknown outcome", "--cleanup-preflight")
	if len(s.ours()) != 3 {
		t.Errorf("in the cluster: %v, want Secret, NetworkPolicy and Job", s.ours())
	}
	if s.record(evidence.StartedFile("api")) || s.record(evidence.ReceiptFile("migration")) {
		t.Error("a create followed the uncertain one, or a receipt was invented")
	}
	e = s.expect(s.run(s.cleanupArgs()...), 1)
	result := s.result(e)
	want := identity.SlotRef{Attempt: evidence.StartupDirectory, Slot: "migration"}
	if len(result.Unknown) != 1 || result.Unknown[0] != want || result.Complete {
		t.Errorf("unknown %v, complete %v", result.Unknown, result.Complete)
	}
	s.says(e, "it carries the plan's nonce", "kubectl", "preconditions", "does not authorise a deletion")
	if len(s.ours()) != 3 {
		t.Errorf("cleanup left %v, want all three", s.ours())
	}
}

// create recognises the one request that makes an object of a resource.
func create(e apiproxy.Exchange, resource string) bool {
	return e.Method == http.MethodPost && strings.HasSuffix(e.Path, "/"+resource) && !e.DryRun()
}

// slowly holds the answers to creates of a resource until release is called.
func slowly(resource string) (hooks apiproxy.Hooks, arrived <-chan struct{}, release func()) {
	reached, held := make(chan struct{}), make(chan struct{})
	var once, opened atomic.Bool
	hooks.After = func(e apiproxy.Exchange) apiproxy.Action {
		if create(e, resource) && once.CompareAndSwap(false, true) {
			close(reached)
			<-held
		}
		return apiproxy.Action{}
	}
	return hooks, reached, func() {
		if opened.CompareAndSwap(false, true) {
			close(held)
		}
	}
}

// A4.1, 130: ctrl-C during a slow create: its answer is awaited and recorded, and
// cleanup then exits 0.
func TestInterruptAwaitsTheCreateInFlight(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			s := newSite(t)
			hooks, arrived, release := slowly("secrets")
			t.Cleanup(release)
			s.through(hooks)
			p := s.start(nil, s.preflightArgs()...)
			p.inFlight(t, arrived)
			s.must(p.cmd.Process.Signal(signal))
			select {
			case <-p.done:
				t.Fatalf("the signal ended it while a create was in flight:\n%s", p.stderr.String())
			case <-time.After(2 * time.Second):
			}
			release()
			e := s.expect(s.wait(p), 128+int(signal))
			s.says(e, "interrupted", "--cleanup-preflight")
			if !s.record(evidence.ReceiptFile("secret")) || s.record(evidence.StartedFile("network-policy")) {
				t.Error("the receipt is missing, or a new create started after the signal")
			}
			s.expect(s.run(s.cleanupArgs()...), 0)
			s.nothingLeft()
		})
	}
}

// A4.1: a second signal gives up at once; the slot is then uncertain.
func TestSecondInterruptGivesUp(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	hooks, arrived, release := slowly("secrets")
	t.Cleanup(release)
	s.through(hooks)
	p := s.start(nil, s.preflightArgs()...)
	p.inFlight(t, arrived)
	s.must(p.cmd.Process.Signal(syscall.SIGINT))
	// Two pending signals of one kind would be delivered as one.
	s.until("the first signal to be told", func() bool { return strings.Contains(p.stderr.String(), "interrupted") })
	s.must(p.cmd.Process.Signal(syscall.SIGINT))
	e := s.expect(s.wait(p), 130)
	s.says(e, "--cleanup-preflight")
	if s.record(evidence.ReceiptFile("secret")) {
		t.Error("a receipt without an answer")
	}
	release()
	e = s.expect(s.run(s.cleanupArgs()...), 1)
	if result := s.result(e); len(result.Unknown) != 1 || result.Unknown[0].Slot != "secret" {
		t.Errorf("unknown %v", result.Unknown)
	}
}

// A4.1, 130 while a Job is awaited: nothing is removed by the run, everything by
// its cleanup.
func TestInterruptWhileWaiting(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.behave(map[string]string{"migration": "hang"})
	p := s.start(nil, s.preflightArgs()...)
	s.until("the migration's Pod", func() bool {
		matches, _ := filepath.Glob(filepath.Join(s.evidence, evidence.StartupDirectory, "preflight-migration-child-*"))
		return len(matches) > 0
	})
	s.must(p.cmd.Process.Signal(syscall.SIGINT))
	s.says(s.expect(s.wait(p), 130), "--cleanup-preflight")
	if len(s.ours()) == 0 {
		t.Error("an interrupted run removed something")
	}
	s.expect(s.run(s.cleanupArgs()...), 0)
	s.nothingLeft()
	s.noCanaryInEvidence()
}

// A4.5: --output json is JSON lines and nothing else on stdout.
func TestJSONOutput(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	e := s.expect(s.run(s.preflightArgs("--output", "json")...), 0)
	last := map[string]any{}
	for line := range strings.Lines(e.stdout) {
		last = map[string]any{}
		if err := json.Unmarshal([]byte(line), &last); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
	}
	if last["event"] != "end" || last["exitCode"] != float64(0) {
		t.Errorf("last line %v", last)
	}
}

// A4.6: the node reports a manifest that the candidate's index lists; a registry
// on loopback serves that index.
func TestManifestOfTheIndexIsTheCandidate(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	manifest := "sha256:" + strings.Repeat("2", 64)
	index := []byte(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","size":2,"digest":"` + manifest + `"}]}`)
	sum := sha256.Sum256(index)
	indexDigest := "sha256:" + hex.EncodeToString(sum[:])
	registry := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v2/shop/demo/manifests/"+indexDigest {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/vnd.oci.image.index.v1+json")
		_, _ = w.Write(index)
	}))
	t.Cleanup(registry.Close)
	ca := filepath.Join(s.dir, "ca.pem")
	s.write(ca, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: registry.Certificate().Raw})))
	name := strings.TrimPrefix(registry.URL, "https://") + "/shop/demo"
	s.must(world.cluster.RegisterImage(name, controlplane.Program{
		Path: filepath.Join(filepath.Dir(filepath.Dir(world.shipped)), "demo"), ImageID: name + "@" + manifest,
	}))
	args := s.preflightArgs()
	for i, arg := range args {
		if arg == candidate {
			args[i] = name + "@" + indexDigest
		}
	}
	e := s.expect(s.wait(s.start([]string{"SSL_CERT_FILE=" + ca, "DOCKER_CONFIG=" + s.dir}, args...)), 0)
	s.says(e, manifest)
	s.nothingLeft()
}
