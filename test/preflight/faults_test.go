package preflight

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/test/apiproxy"
)

// The faults that the real command meets at each of its state-changing operations
// on the evidence. "once" is that operation alone, "on" every one from it on.
func everyFault() []string {
	return []string{
		"kill %d", "EIO %d once", "EIO %d on", "ENOSPC %d once", "ENOSPC %d on", "EDQUOT %d once", "EDQUOT %d on",
		"short %d once", "short %d on", "torn %d on",
	}
}

// wanted reports whether HOLDFAST_FAULTS asks for what is tried everywhere: it is
// "all" or a list, with commas, of the faults' first words ("EIO"), with "/once" or
// "/on" for a part of them, and of "requests".
func wanted(word, lasts string) bool {
	asked := strings.Split(os.Getenv("HOLDFAST_FAULTS"), ",")
	return slices.ContainsFunc(asked, func(a string) bool { return a == "all" || a == word || a == word+"/"+lasts })
}

// knownFaults refuses a HOLDFAST_FAULTS that asks for nothing known: it would try
// nothing, and pass.
func knownFaults() error {
	for _, asked := range strings.Split(os.Getenv("HOLDFAST_FAULTS"), ",") {
		known := asked == "" || asked == "all" || asked == "requests"
		for _, fault := range everyFault() {
			words := strings.Fields(fault + " .")
			known = known || asked == words[0] || asked == words[0]+"/"+words[2]
		}
		if !known {
			return fmt.Errorf("HOLDFAST_FAULTS: %q is no fault", asked)
		}
	}
	return nil
}

// bounded is true where HOLDFAST_FAULTS asks for nothing: then each operation of a
// stride meets one fault, in turn.
func bounded() bool { return os.Getenv("HOLDFAST_FAULTS") == "" }

// planned lists the faults for a process whose operations are these.
func planned(operations []string, stride int) (plan []string) {
	turn := 0
	for i, operation := range operations {
		var possible []string
		for _, fault := range everyFault() {
			words := strings.Fields(fault + " .")
			// The kernel's short writes are faults of writes alone.
			if onWrites := words[0] == "short" || words[0] == "torn"; onWrites && !strings.HasPrefix(operation, "write ") {
				continue
			}
			possible = append(possible, fmt.Sprintf(fault, i+1))
			if wanted(words[0], words[2]) {
				plan = append(plan, fmt.Sprintf(fault, i+1))
			}
		}
		if bounded() && i%stride == stride-1 {
			turn += 3 // of seven or ten
			plan = append(plan, possible[turn%len(possible)])
		}
	}
	return plan
}

// A2.4, A2.5, A4.1, A6.10: the real command is killed, or its disk fails, at its
// N-th state-changing operation for every N, on a real control plane. After the
// first failure nothing more is sent. The real cleanup of what is left then exits
// as the evidence demands, deletes what a receipt proves and nothing else, and is
// complete only when all of it is gone.
func TestFaultAtEveryOperation(t *testing.T) {
	t.Parallel()
	operations := traced(t, "", func(s *site) []string { return s.preflightArgs(withoutHelper) })
	if len(operations) < 270 { // some 260, and four for each observation
		t.Fatalf("only %d operations: the sweep has shrunk\n%s", len(operations), strings.Join(operations, "\n"))
	}
	meet(t, operations, planned(operations, 19), func(s *faulty, fault string) bool { return s.preflight(fault, withoutHelper) })
}

// A3.6, A2.5: the same while the executable is copied into the evidence; of its
// many equal writes the first, one in the middle and the last.
func TestFaultWhileTheHelperIsKept(t *testing.T) {
	t.Parallel()
	operations := traced(t, "", func(s *site) []string { return s.preflightArgs() })
	var near []int
	for i, operation := range operations {
		if strings.Contains(operation, "/"+evidence.HelperDirectory) {
			near = append(near, i)
		}
	}
	if len(near) < 100 {
		t.Fatalf("only %d operations: the helper is not copied through the seam", len(near))
	}
	first, last := near[0], near[len(near)-1]
	var plan []string
	for _, at := range []int{first, first + 1, first + 2, first + 3, (first + last) / 2, last - 7, last - 6, last - 5, last - 4, last - 3, last - 2, last - 1, last} {
		for k, fault := range everyFault()[:7] {
			words := strings.Fields(fault + " .")
			if wanted(words[0], words[2]) || bounded() && at%11 == k {
				plan = append(plan, fmt.Sprintf(fault, at+1))
			}
		}
	}
	meet(t, operations, plan, func(s *faulty, fault string) bool { return s.preflight(fault) })
}

const withoutHelper = "--retain-helper=false"

// meet tries every fault of a plan side by side, each in a namespace of its own. How
// often a cleanup looks at the cluster differs from run to run, and with it whatever
// comes after its first observation; all faults before that must be reached.
func meet(t *testing.T, operations, plan []string, try func(*faulty, string) (reached bool)) {
	t.Helper()
	steady := slices.IndexFunc(operations, func(operation string) bool {
		return strings.Contains(operation, "/"+evidence.ObservationsDirectory+"/")
	})
	if steady < 0 {
		t.Fatalf("no observation is among the operations:\n%s", strings.Join(operations, "\n"))
	}
	var tried, reached atomic.Int32
	t.Run("at", func(t *testing.T) {
		for _, fault := range plan {
			t.Run(strings.ReplaceAll(fault, " ", "_"), func(t *testing.T) {
				t.Parallel()
				tried.Add(1) // -run may leave out a part of the plan
				s := newFaulty(t)
				if try(s, fault) {
					reached.Add(1)
				} else if _, number := parts(t, fault); number <= steady {
					t.Errorf("it was not reached, and the first observation is operation %d:\n%s", steady+1, strings.Join(s.lines(), "\n"))
				}
			})
		}
	})
	t.Logf("faults: tried=%d reached=%d", tried.Load(), reached.Load())
	if reached.Load() < tried.Load()*8/10 {
		t.Errorf("only %d of %d faults were reached", reached.Load(), tried.Load())
	}
}

// parts are a fault's first word and the operation that it befalls.
func parts(t *testing.T, fault string) (word string, number int) {
	t.Helper()
	if _, err := fmt.Sscan(fault, &word, &number); err != nil {
		t.Fatal(err)
	}
	return word, number
}

// A6.10, A6.11: the real cleanup is killed, or its disk fails, at every N; the
// next one completes.
func TestFaultAtEveryOperationOfACleanup(t *testing.T) {
	t.Parallel()
	const killed = "HOLDFAST_KILL=after link preflight-worker.log"
	operations := traced(t, killed, func(s *site) []string { return s.cleanupArgs() })
	if len(operations) < 90 {
		t.Fatalf("only %d operations: the sweep has shrunk\n%s", len(operations), strings.Join(operations, "\n"))
	}
	meet(t, operations, planned(operations, 23), func(s *faulty, fault string) bool {
		s.wait(s.start([]string{killed}, s.preflightArgs(withoutHelper)...))
		return s.cleanup(fault)
	})
}

// A3.7, A6.10: the command is killed when each request that changes something
// leaves it: before the server has seen it, and when the server has carried it out
// and the command has not heard of it.
func TestKilledAtEveryRequest(t *testing.T) {
	t.Parallel()
	for number := 1; number <= 13; number++ { // five creates, three releases, five deletes
		for _, applied := range []bool{false, true} {
			// In the bounded form, those around which no other test kills it.
			if !wanted("requests", "") && (!bounded() || number < 9 || applied != (number%2 == 0)) {
				continue
			}
			t.Run(fmt.Sprintf("%d_%v", number, applied), func(t *testing.T) {
				t.Parallel()
				s := newFaulty(t)
				s.killAt, s.applied = number, applied // no process reads them yet
				s.process = s.start(nil, s.preflightArgs(withoutHelper)...)
				close(s.started)
				e := s.wait(s.process)
				if e.signal != syscall.SIGKILL {
					t.Fatalf("it was not killed at request %d: exit %d\n%s", number, e.code, e.stderr)
				}
				s.judgeCleanup()
			})
		}
	}
}

// traced returns the operations of one undisturbed process, as "operation path".
func traced(t *testing.T, first string, args func(*site) []string) (operations []string) {
	t.Helper()
	s := newFaulty(t)
	if first != "" {
		s.wait(s.start([]string{first}, s.preflightArgs(withoutHelper)...))
	}
	s.expect(s.wait(s.start([]string{"HOLDFAST_TRACE=" + s.trace}, args(s.site)...)), 0)
	for _, line := range s.lines() {
		_, operation, _ := strings.Cut(line, " ")
		operations = append(operations, operation)
	}
	return operations
}

// faulty is a site whose command fails, with every request that changes the
// cluster watched.
type faulty struct {
	*site
	trace string
	decoy string

	killAt  int
	applied bool
	process *process
	started chan struct{}

	mu      sync.Mutex
	writes  []apiproxy.Exchange
	created map[string]string // each UID that the server gave to a create, and of what
	after   []string          // requests that left after the first failure
}

func newFaulty(t *testing.T) *faulty {
	t.Helper()
	s := &faulty{site: newSite(t), started: make(chan struct{}), created: map[string]string{}}
	s.binary, s.trace, s.decoy = world.killable, filepath.Join(s.dir, "trace"), "shop-preflight-secret-00000000"
	// A stranger's Secret with our labels, and a name like ours.
	decoy := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: s.decoy, Labels: map[string]string{
		identity.InstanceLabel: s.release, identity.ComponentLabel: "upgrade-preflight",
	}}}
	_, err := world.cluster.Client().CoreV1().Secrets(s.namespace).Create(t.Context(), decoy, metav1.CreateOptions{})
	s.must(err)
	s.through(apiproxy.Hooks{Before: s.before, After: s.answered})
	return s
}

// changes reports whether a request can change what the namespace holds.
func changes(x apiproxy.Exchange) bool {
	return x.Method != http.MethodGet && !x.DryRun() && !strings.HasSuffix(x.Path, "/selfsubjectaccessreviews")
}

func (s *faulty) before(x apiproxy.Exchange) apiproxy.Action {
	if !changes(x) {
		return apiproxy.Action{}
	}
	if x.Method == http.MethodPost {
		s.judgeMarker(x)
	}
	failed := s.failed()
	s.mu.Lock()
	s.writes = append(s.writes, x)
	number := len(s.writes)
	if failed != "" {
		s.after = append(s.after, x.Method+" "+x.Path+" after "+failed)
	}
	kill := number == s.killAt && !s.applied
	s.mu.Unlock()
	if kill {
		return s.kill()
	}
	return apiproxy.Action{}
}

// judgeMarker sees to it that a create which leaves carries the Audit-ID of the one
// started marker that its slot has (A3.4): an administrator searches the audit log
// for what the marker says.
func (s *faulty) judgeMarker(x apiproxy.Exchange) {
	var sent metav1.PartialObjectMetadata
	if err := json.Unmarshal(x.Body, &sent); err != nil {
		s.t.Errorf("POST %s holds no object: %v", x.Path, err)
		return
	}
	var plan evidence.Plan
	s.readRecord(evidence.PlanFile, &plan)
	for _, slot := range plan.Slots {
		if slot.Name != sent.Name || slot.Kind != sent.Kind {
			continue
		}
		var marker evidence.Started
		s.readRecord(evidence.StartedFile(slot.Slot), &marker)
		if id := x.Header.Get("Audit-Id"); id == "" || marker.AuditID != id {
			s.t.Errorf("the create of %s carries Audit-ID %q, its marker %q", slot.Slot, id, marker.AuditID)
		}
		return
	}
	s.t.Errorf("POST %s of %s is not planned", x.Path, sent.Name)
}

// readRecord reads a file of the first attempt, as it is while the command runs.
func (s *faulty) readRecord(name string, into any) {
	content, err := os.ReadFile(filepath.Join(s.evidence, evidence.StartupDirectory, name))
	if err == nil {
		err = json.Unmarshal(content, into)
	}
	if err != nil {
		s.t.Error(err)
	}
}

func (s *faulty) answered(x apiproxy.Exchange) apiproxy.Action {
	if !changes(x) {
		return apiproxy.Action{}
	}
	s.mu.Lock()
	kill := s.killAt > 0 && len(s.writes) >= s.killAt && s.applied
	if x.Method == http.MethodPost && x.Code == http.StatusCreated {
		var made metav1.PartialObjectMetadata
		if json.Unmarshal(x.Answer, &made) == nil {
			s.created[string(made.UID)] = made.Kind + " " + made.Name
		}
	}
	s.mu.Unlock()
	if kill {
		return s.kill()
	}
	return apiproxy.Action{}
}

func (s *faulty) kill() apiproxy.Action {
	<-s.started
	_ = s.process.cmd.Process.Kill()
	<-s.process.done
	return apiproxy.Action{Drop: true}
}

func (s *faulty) lines() []string {
	content, err := os.ReadFile(s.trace)
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSpace(string(content)), "\n")
}

// failed returns the operation that failed first, empty before any has.
func (s *faulty) failed() string {
	for _, line := range s.lines() {
		if strings.HasPrefix(line, "fault ") {
			return line
		}
	}
	return ""
}

// preflight carries out a run that meets the fault, and cleans up. It returns
// false when the run ended before the fault's turn.
func (s *faulty) preflight(fault string, more ...string) bool {
	s.t.Helper()
	e := s.wait(s.start([]string{"HOLDFAST_FAULT=" + fault, "HOLDFAST_TRACE=" + s.trace}, s.preflightArgs(more...)...))
	if !s.judgeEnd(fault, e) {
		return false
	}
	if strings.HasPrefix(fault, "short ") {
		s.expect(e, 0)
		s.nothingLeft()
		return true
	}
	s.judgeRunsEnd(e)
	s.judgeCleanup()
	return true
}

// judgeEnd is what holds for a run and for a cleanup.
func (s *faulty) judgeEnd(fault string, e ended) (reached bool) {
	s.t.Helper()
	word, number := parts(s.t, fault)
	failed := s.failed()
	switch {
	case word == "kill" && e.signal == syscall.SIGKILL, word == "short" && len(s.lines()) >= number:
		return true
	case word == "kill" || failed == "":
		s.expect(e, 0)
		return false
	case e.code != 1 && e.code != 2:
		s.t.Fatalf("exit code %d (%v) after %s\n%s", e.code, e.signal, failed, e.stderr)
	}
	for _, request := range s.after {
		// Cleanup sends deletes side by side: one may leave while the readback of
		// another fails to be kept, which no decision rests on.
		if !strings.HasPrefix(request, "DELETE") || !strings.Contains(failed, "/observations/") {
			s.t.Errorf("sent after the first failed durability call: %s\n%s", request, e.stderr)
		}
	}
	return true
}

// judgeRunsEnd: 2 says that nothing was created; a UID that the server gave and
// no receipt holds is told, since this is its only record.
func (s *faulty) judgeRunsEnd(e ended) {
	s.t.Helper()
	if e.signal == 0 && e.code == 2 && len(s.writes) > 0 {
		s.t.Errorf("exit 2, and %s %s was sent", s.writes[0].Method, s.writes[0].Path)
	}
	proven := s.proven()
	for uid, object := range s.created {
		if e.signal == 0 && !proven[uid] && !strings.Contains(e.stderr, uid) {
			s.t.Errorf("the UID %s of %s is neither recorded nor told:\n%s", uid, object, e.stderr)
		}
	}
}

// judgeCleanup runs the real cleanup on what a run has left.
func (s *faulty) judgeCleanup() {
	s.t.Helper()
	uncertain, accepted := s.uncertain(), s.file(evidence.JournalFile)
	code := 0
	switch {
	case !accepted:
		code = 2
	case len(uncertain) > 0:
		code = 1
	}
	s.mu.Lock()
	s.killAt = 0
	s.mu.Unlock()
	sent := len(s.writes)
	e := s.expect(s.clean(), code)
	left := s.ours()
	switch code {
	case 2:
		if len(s.writes) > 0 {
			s.t.Errorf("refused evidence, and %d requests were sent", len(s.writes))
		}
	case 0:
		if result := s.result(e); !result.Complete || len(result.Unknown) > 0 {
			s.t.Errorf("exit 0, complete %v, unknown %v", result.Complete, result.Unknown)
		}
		s.nothingLeft()
	case 1:
		result := s.result(e)
		if result.Complete || len(result.Unknown) != len(uncertain) || string(result.Unknown[0].Slot) != uncertain[0] {
			s.t.Errorf("complete %v, unknown %v; uncertain is %v", result.Complete, result.Unknown, uncertain)
		}
		s.judgeLeft(uncertain[0], left)
	}
	for _, x := range s.writes[sent:] {
		if x.Method != http.MethodDelete {
			s.t.Errorf("cleanup sent %s %s", x.Method, x.Path)
		}
	}
	s.judgeDeletes()
}

// judgeLeft: beside the uncertain object only dependencies may stay, and only
// when it is a Job that may still need them.
func (s *faulty) judgeLeft(uncertain string, left []string) {
	s.t.Helper()
	consumer := uncertain != string(identity.SlotSecret) && uncertain != string(identity.SlotNetworkPolicy)
	for _, object := range left {
		kind, _, _ := strings.Cut(object, " ")
		dependency := kind == "Secret" || kind == "NetworkPolicy"
		if !strings.Contains(object, "-preflight-"+uncertain+"-") && (!dependency || !consumer) {
			s.t.Errorf("%s is left, and only %s is uncertain", object, uncertain)
		}
	}
}

// judgeDeletes: every DELETE, of the run's own cleanup and of the command's, is
// bound to the UID of a receipt; a slot is created at most once; what is not ours
// stays.
func (s *faulty) judgeDeletes() {
	s.t.Helper()
	proven, creates := s.proven(), map[string]int{}
	for _, x := range s.writes {
		switch x.Method {
		case http.MethodPost:
			var made metav1.PartialObjectMetadata
			s.must(json.Unmarshal(x.Body, &made))
			creates[made.Kind+" "+made.Name]++
		case http.MethodDelete:
			var options metav1.DeleteOptions
			s.must(json.Unmarshal(x.Body, &options))
			if options.Preconditions == nil || options.Preconditions.UID == nil || !proven[string(*options.Preconditions.UID)] {
				s.t.Errorf("DELETE %s carries %s, which no receipt proves", x.Path, x.Body)
			}
		}
	}
	for object, n := range creates {
		if n > 1 {
			s.t.Errorf("%s was created %d times", object, n)
		}
	}
	if _, err := world.cluster.Client().CoreV1().Secrets(s.namespace).Get(s.t.Context(), s.decoy, metav1.GetOptions{}); err != nil {
		s.t.Errorf("a stranger's Secret: %v", err)
	}
}

// clean is a cleanup without a fault.
func (s *faulty) clean() ended { return s.run(s.cleanupArgs()...) }

// cleanup carries out a cleanup that meets the fault, and then one that does not.
func (s *faulty) cleanup(fault string) bool {
	s.t.Helper()
	sent := len(s.writes)
	e := s.wait(s.start([]string{"HOLDFAST_FAULT=" + fault, "HOLDFAST_TRACE=" + s.trace}, s.cleanupArgs()...))
	reached := s.judgeEnd(fault, e)
	// A5: until it has a directory of its own, whatever fails is a refusal.
	begun := slices.ContainsFunc(s.lines(), func(line string) bool { return strings.Contains(line, " mkdir ") })
	if e.signal == 0 && e.code != 0 && (e.code == 2) == begun {
		s.t.Errorf("exit code %d after %s\n%s", e.code, s.failed(), e.stderr)
	}
	if e.code == 2 && len(s.writes) > sent {
		s.t.Errorf("refused, and %s %s was sent", s.writes[sent].Method, s.writes[sent].Path)
	}
	if strings.HasPrefix(fault, "short ") {
		s.expect(e, 0)
	}
	again := s.expect(s.clean(), 0)
	if result := s.result(again); !result.Complete {
		s.t.Errorf("result %+v", result)
	}
	s.nothingLeft()
	s.judgeDeletes()
	return reached
}

// proven are the UIDs that receipts hold, read by file name alone.
func (s *faulty) proven() map[string]bool {
	s.t.Helper()
	uids := map[string]bool{}
	files, err := filepath.Glob(filepath.Join(s.evidence, evidence.StartupDirectory, "preflight-*.json"))
	s.must(err)
	for _, file := range files {
		if !strings.HasSuffix(file, "-identity.json") {
			continue
		}
		content, err := os.ReadFile(file)
		s.must(err)
		var receipt struct{ UID string }
		s.must(json.Unmarshal(content, &receipt))
		uids[receipt.UID] = true
	}
	return uids
}

// uncertain are the slots with a started marker and no outcome, by file name alone.
func (s *faulty) uncertain() (slots []string) {
	s.t.Helper()
	for _, slot := range []identity.Slot{"secret", "network-policy", "migration", "api", "worker"} {
		if s.record(evidence.StartedFile(slot)) && !s.record(evidence.ReceiptFile(slot)) && !s.record(evidence.RejectedFile(slot)) {
			slots = append(slots, string(slot))
		}
	}
	return slots
}
