package decide

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-project/holdfast/internal/identity"
)

func goneJob() Resource { return api(deleted(second), reads(absent(2*second))) }

// atBarrier is a state in which the api Job's wait is over and everything that
// the barrier asks for was read; edits spoil one thing.
func atBarrier(edits ...edit[State]) State {
	s := state(40*second, resources(goneJob(), secretRow()), lists(pods(3*second), pods(5*second)))
	s = with(s, edits...)
	return with(s, identified(40*second))
}

func replaceJob(r Resource) edit[State] { return func(s *State) { s.Resources[0] = r } }
func replaceLists(l ...PodList) edit[State] {
	return func(s *State) { s.Pods = l }
}

// A6.7: every rule of the barrier, alone. An empty cause means open.
func TestA6_7_Barrier(t *testing.T) {
	strayPod := orphan(func(p *Pod) { p.ControllerUIDs, p.Nonce = nil, "eeee" })
	strayAttempt := func(state SlotState) Slot {
		s := slot("api", "Job", state, absent(39*second))
		s.Ref.Attempt, s.Nonce = "upgrade-preflight-resume.AAAAAAAA", "eeee"
		return s
	}
	for _, row := range []struct {
		name  string
		state State
		want  []Cause
	}{
		{"open", atBarrier(), nil},
		{"without any Job, after one list", atBarrier(func(s *State) { s.Resources = s.Resources[1:]; s.Pods = []PodList{pods(39 * second)} }), nil},
		{"a replaced Job", atBarrier(replaceJob(api(deleted(second), reads(there(2*second, other))))), []Cause{JobConflict}},
		{"a replaced child", atBarrier(replaceJob(api(deleted(second), child(there(3*second, other))))), []Cause{ChildConflict}},
		{"an orphaned Pod", atBarrier(replaceLists(pods(3*second, orphan()))), []Cause{PodOrphaned}},
		{"a replaced Job whose Pod is still there", atBarrier(replaceJob(api(deleted(second), reads(there(4*second, other)))), replaceLists(pods(3*second, ownedPod()))), []Cause{JobConflict}},
		{"an orphaned Pod beside its Job", atBarrier(replaceJob(api(deleted(second), reads(there(2*second, jobUID, "x")))), replaceLists(pods(3*second, orphan()))), []Cause{PodOrphaned, JobRemaining}},
		{"an orphaned Pod with the nonce alone", atBarrier(replaceLists(pods(3*second, orphan(func(p *Pod) { p.ControllerUIDs = nil })))), []Cause{PodOrphaned}},
		{"a Job that remains", atBarrier(replaceJob(api(deleted(second), reads(there(2*second, jobUID, "x"))))), []Cause{JobRemaining}},
		{"an owned Pod that remains", atBarrier(replaceLists(pods(3*second, ownedPod()))), []Cause{JobRemaining}},
		{"an unreadable Job", atBarrier(replaceJob(api(deleted(second), reads(failed(2*second))))), []Cause{JobUnreadable}},
		{"unreadable Pods", atBarrier(replaceLists(podsFailed(3 * second))), []Cause{JobUnreadable, PodsUnreadable}},
		{"unreadable Pods beside as many slots as resources", atBarrier(replaceLists(podsFailed(3*second)), slots(slot("api", "Job", Planned, absent(39*second)), slot("worker", "Job", Planned, absent(39*second)))), []Cause{JobUnreadable, PodsUnreadable}},
		{"an uncertain Job", atBarrier(slots(slot("worker", "Job", Uncertain, absent(39*second)))), []Cause{JobCreateUncertain}},
		{"A6.15 a reconciled Job", atBarrier(slots(reconciled(slot("worker", "Job", Uncertain, absent(39*second))))), nil},
		{"A6.15 a reconciled Job that is found", atBarrier(slots(reconciled(slot("worker", "Job", Uncertain, there(39*second, other))))), []Cause{JobUnexplained}},
		{"A6.15 a reconciled Job that cannot be read", atBarrier(slots(reconciled(slot("worker", "Job", Uncertain, failed(9*second))))), []Cause{JobNameUnreadable}},
		{"an uncertain dependency does not keep the others", atBarrier(slots(slot("network-policy", "NetworkPolicy", Uncertain, absent(39*second)))), nil},
		{"A6.14 a Job at a name that was never started", atBarrier(slots(slot("worker", "Job", Planned, there(39*second, other)))), []Cause{JobUnexplained}},
		{"A6.14 a Job at a rejected name", atBarrier(slots(slot("worker", "Job", Rejected, there(39*second, other)))), []Cause{JobUnexplained}},
		{"A6.14 a dependency at a planned name does not keep the others", atBarrier(slots(slot("network-policy", "NetworkPolicy", Planned, there(39*second, other)))), nil},
		{"A6.14 a planned Job name that cannot be read", atBarrier(slots(slot("worker", "Job", Planned, failed(9*second)))), []Cause{JobNameUnreadable}},
		{"A6.14 a planned dependency name that cannot be read", atBarrier(slots(slot("network-policy", "NetworkPolicy", Planned, failed(9*second)))), nil},
		{"A6.3 a Pod with the nonce of an attempt without an acknowledged Job",
			atBarrier(slots(strayAttempt(Planned)), replaceLists(pods(3*second), pods(5*second, strayPod))), []Cause{PodOrphaned}},
		{"two reasons at once", atBarrier(replaceJob(api(deleted(second), reads(there(2*second, other)))), slots(slot("worker", "Job", Uncertain, absent(39*second)))), []Cause{JobConflict, JobCreateUncertain}},
	} {
		t.Run(row.name, func(t *testing.T) {
			step := Decide(row.state)
			removes := slices.Contains(step.Requests, deleteOf("secret", Orphan))
			if len(row.want) == 0 {
				if !removes {
					t.Fatalf("the Secret is kept: %+v", step)
				}
				return
			}
			if removes {
				t.Fatal("the Secret is deleted")
			}
			c := concluded(t, row.state)
			if got := causes(c.Retained); !slices.Equal(got, row.want) {
				t.Errorf("kept because of %v, want %v", got, row.want)
			}
			if c.Verdict != Incomplete || outcome(t, c, "secret") != OutcomeRetained {
				t.Errorf("verdict %s, secret %s", c.Verdict, outcome(t, c, "secret"))
			}
		})
	}
}

// A6.7: the barrier is one for all attempts.
func TestA6_7_BarrierSpansAttempts(t *testing.T) {
	second1 := api(deleted(second), reads(there(2*second, jobUID, "x")))
	second1.Ref.Attempt = "upgrade-preflight-resume.AAAAAAAA"
	c := concluded(t, atBarrier(replaceJob(second1)))
	if outcome(t, c, "secret") != OutcomeRetained {
		t.Errorf("the first attempt's Secret: %s", outcome(t, c, "secret"))
	}
}

// The verdict with everything deleted but for one thing.
func TestVerdicts(t *testing.T) {
	secretGone := secretRow(deleted(50*second), reads(absent(51*second)))
	finish := func(secret Resource, names ...Slot) State {
		s := state(90*second, resources(goneJob(), secret), lists(pods(3*second), pods(5*second)), slots(names...))
		return with(s, identified(40*second, 90*second))
	}
	twice := []Read{absent(39 * second), absent(89 * second)}
	for _, row := range []struct {
		name    string
		state   State
		verdict Verdict
		causes  []Cause
		unknown []identity.SlotRef
	}{
		{"A6.5 everything gone, whatever was answered to a DELETE", finish(secretGone), Complete, nil, nil},
		{"planned and rejected slots are nothing", finish(secretGone, slot("api", "Job", Planned, twice...), slot("worker", "Job", Rejected, twice...)), Complete, nil, nil},
		{"A6.10 an uncertain dependency", finish(secretGone, slot("network-policy", "NetworkPolicy", Uncertain, absent(39*second))), Incomplete, []Cause{CreateUncertain}, []identity.SlotRef{ref("network-policy")}},
		{"A6.15 a reconciled one: exit 3, and it stays in unknown", finish(secretGone, reconciled(slot("worker", "Job", Uncertain, twice...))), Reconciled, nil, []identity.SlotRef{ref("worker")}},
		{"A6.15 one of two", finish(secretGone, reconciled(slot("worker", "Job", Uncertain, twice...)), slot("network-policy", "NetworkPolicy", Uncertain, absent(39*second))),
			Incomplete, []Cause{CreateUncertain}, []identity.SlotRef{ref("worker"), ref("network-policy")}},
		{"A6.14 something at a dependency's planned name", finish(secretGone, slot("network-policy", "NetworkPolicy", Planned, there(39*second, other))), Incomplete, []Cause{DependencyUnexplained}, nil},
		{"A6.14 something that came between the two looks", finish(secretGone, slot("network-policy", "NetworkPolicy", Planned, absent(39*second), there(89*second, other))), Incomplete, []Cause{DependencyUnexplained}, nil},
		{"A6.14 something that was there and went", finish(secretGone, slot("network-policy", "NetworkPolicy", Planned, there(39*second, other), absent(89*second))), Incomplete, []Cause{DependencyUnexplained}, nil},
		{"A6.14 a name that cannot be read the second time", finish(secretGone, slot("network-policy", "NetworkPolicy", Planned, absent(39*second), failed(52*second))), Incomplete, []Cause{NameUnreadable}, nil},
		{"A6.4 a replaced dependency", finish(secretRow(deleted(50*second), reads(there(51*second, other)))), Incomplete, []Cause{DependencyConflict}, nil},
		{"A6.6 a dependency that remains", finish(secretRow(deleted(50*second), reads(there(51*second, secretRow().Object.UID, "orphan")))), Incomplete, []Cause{DependencyRemaining}, nil},
		{"A6.5 a dependency that cannot be read", finish(secretRow(deleted(50*second), reads(failed(51*second)))), Incomplete, []Cause{DependencyUnreadable}, nil},
		{"A6.6 an absence at its 30 s", finish(secretRow(deleted(50*second), reads(absent(80*second)))), Complete, nil, nil},
		{"A6.5 an absence settles, whoever takes the name after it", finish(secretRow(deleted(50*second), reads(absent(51*second), there(52*second, other)))), Complete, nil, nil},
		{"A6.4 a conflict settles too, whoever goes after it", finish(secretRow(deleted(50*second), reads(there(51*second, other), absent(52*second)))), Incomplete, []Cause{DependencyConflict}, nil},
		{"A6.6 an absence after its 30 s", finish(secretRow(deleted(50*second), reads(absent(81*second)))), Incomplete, []Cause{DependencyUnreadable}, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := concluded(t, row.state)
			if c.Verdict != row.verdict || !slices.Equal(causes(c.Reasons), row.causes) || !slices.Equal(c.Unknown, row.unknown) {
				t.Errorf("got %s %v %v, want %s %v %v", c.Verdict, causes(c.Reasons), c.Unknown, row.verdict, row.causes, row.unknown)
			}
		})
	}
}

// A6.8, A6.13: each reason says of which object it speaks, and what was found.
func TestReasonsNameWhatTheyAreAbout(t *testing.T) {
	job, pod, secret := api().Object.String(), object("Pod", "r-api-x", podUID).String(), secretRow().Object.String()
	worker, policy := "Job ns/r-worker", "NetworkPolicy ns/r-network-policy"
	resumed := func(s *State) {
		stray := slot("api", "Job", Planned, absent(39*second))
		stray.Ref.Attempt, stray.Nonce = "upgrade-preflight-resume.AAAAAAAA", "eeee"
		s.Slots = append(s.Slots, stray)
		s.Pods = []PodList{pods(3 * second), pods(5*second, orphan(func(p *Pod) { p.ControllerUIDs, p.Nonce = nil, "eeee" }))}
	}
	dependency := func(read Read) State {
		return state(90*second, resources(goneJob(), secretRow(deleted(41*second), reads(read))), lists(pods(3*second), pods(5*second)), identified(40*second, 90*second))
	}
	for name, row := range map[string]struct {
		state State
		cause Cause
		says  []string
	}{
		"a replaced Job":      {atBarrier(replaceJob(api(deleted(second), reads(there(2*second, other))))), JobConflict, []string{job, other}},
		"a replaced child":    {atBarrier(replaceJob(api(deleted(second), child(there(3*second, other))))), ChildConflict, []string{pod, job, other}},
		"an orphaned Pod":     {atBarrier(replaceLists(pods(3*second, orphan()))), PodOrphaned, []string{pod + " of " + job + " runs on"}},
		"a stray Pod":         {atBarrier(resumed), PodOrphaned, []string{pod, "attempt upgrade-preflight-resume.AAAAAAAA,"}},
		"a Job being deleted": {atBarrier(replaceJob(api(deleted(second), reads(there(2*second, jobUID, "x"))))), JobRemaining, []string{job + " is still there, held by the finalizers x"}},
		"a Pod being deleted": {atBarrier(replaceLists(pods(3*second, ownedPod(func(p *Pod) { p.Deleting = true })))), JobRemaining, []string{job + " is gone, but its " + pod + " is still there, being deleted"}},
		"an unread Job":       {atBarrier(replaceJob(api(deleted(second), reads(failed(2*second))))), JobUnreadable, []string{job}},
		"unread Pods":         {atBarrier(replaceLists(podsFailed(3 * second))), PodsUnreadable, []string{"the Pods"}},
		"an uncertain Job":    {atBarrier(slots(slot("worker", "Job", Uncertain, absent(39*second)))), JobCreateUncertain, []string{worker, ref("worker").String()}},
		"an unexplained Job":  {atBarrier(slots(slot("worker", "Job", Rejected, there(39*second, other)))), JobUnexplained, []string{worker, other, ref("worker").String(), "rejected"}},
		"an unread name":      {atBarrier(slots(slot("network-policy", "NetworkPolicy", Planned, failed(9*second)), slot("worker", "Job", Uncertain, absent(39*second)))), NameUnreadable, []string{policy, ref("network-policy").String()}},
		"a replaced Secret":   {dependency(there(42*second, other)), DependencyConflict, []string{secret, other}},
		"a Secret there":      {dependency(there(42*second, secretRow().Object.UID, "orphan")), DependencyRemaining, []string{secret, "orphan"}},
		"an unread Secret":    {dependency(failed(42 * second)), DependencyUnreadable, []string{secret}},
	} {
		var text string
		for _, reason := range concluded(t, row.state).Reasons {
			if reason.Cause == row.cause {
				text = reason.Text
				if strings.Contains(text, "%!") {
					t.Errorf("%s: %q", name, text)
				}
				if want := row.says[0]; strings.HasPrefix(want, job) && strings.Contains(text, "is gone, but") != strings.Contains(want, "is gone, but") {
					t.Errorf("%s: %q", name, text)
				}
			}
		}
		for _, part := range row.says {
			if !strings.Contains(text, part) {
				t.Errorf("%s: %q does not say %q", name, text, part)
			}
		}
	}
	for _, reason := range concluded(t, atBarrier(resumed)).Reasons {
		if reason.Ref.Attempt != "upgrade-preflight-resume.AAAAAAAA" {
			t.Errorf("a stray Pod is told of %s", reason.Ref)
		}
	}
}

// A5.11: an empty registry is complete, and still only on the recorded cluster.
func TestA5_11_EmptyRegistry(t *testing.T) {
	if c := concluded(t, state(second, identified(second))); c.Verdict != Complete || len(c.Reasons) > 0 {
		t.Errorf("got %+v", c)
	}
}

// A6.13: a candidate is described, whether it carries the nonce and its UID.
func TestA6_13_Candidate(t *testing.T) {
	for _, found := range []string{nonce, "ffff", ""} {
		read := there(39*second, other)
		read.Nonce = found
		c := concluded(t, atBarrier(slots(slot("worker", "Job", Uncertain, read))))
		e := c.Slots[0]
		if e.Outcome != OutcomeUnexplained || e.Found == nil || e.Found.UID != other || e.CarriesNonce != (found == nonce) {
			t.Errorf("nonce %q: %+v", found, e)
		}
		if text := textOf(c, e.Ref); !strings.Contains(text, other) {
			t.Errorf("the UID is not named: %s", text)
		}
	}
	// A slot without a nonce shares none with an object without one.
	bare := slot("worker", "Job", Uncertain, there(39*second, other))
	bare.Nonce = ""
	if c := concluded(t, atBarrier(slots(bare))); c.Slots[0].CarriesNonce {
		t.Error("nothing is carried")
	}
}

// A6.14: reads before the Jobs' end do not open the barrier, and a name is read
// again before a verdict that claims much, but not before one that does not.
func TestA6_14_WhenNamesAreRead(t *testing.T) {
	planned := slot("worker", "Job", Planned, absent(4*second))
	s := state(6*second, resources(goneJob(), secretRow()), slots(planned), lists(pods(3*second), pods(5*second)))
	if step := Decide(s); !slices.Equal(step.Requests, []Request{nameOf("worker")}) {
		t.Fatalf("a read from before the Job's end opens the barrier: %+v", step)
	}
	s.Slots[0].Reads = append(s.Slots[0].Reads, absent(6*second))
	s.Cluster = append(s.Cluster, clusterRead(7*second))
	s.Now = 7 * second
	if step := Decide(s); !slices.Equal(step.Requests, []Request{deleteOf("secret", Orphan)}) {
		t.Fatalf("the barrier does not open: %+v", step)
	}
	s.Resources[1] = secretRow(deleted(8*second), reads(absent(9*second)))
	s.Now = 10 * second
	if step := Decide(s); !slices.Equal(step.Requests, []Request{nameOf("worker")}) {
		t.Fatalf("the name is not read again before the verdict: %+v", step)
	}
	s.Resources[1] = secretRow(deleted(8*second), reads(there(9*second, other)))
	if step := Decide(s); !slices.Equal(step.Requests, []Request{{Verb: ReadCluster}}) {
		t.Fatalf("a verdict of exit 1 needs no second look: %+v", step)
	}
}

// A6.14: the names are read again before a verdict that claims much also where no
// dependency was deleted, so that the look before the barrier does not serve as both.
func TestA6_14_SecondLookWithoutDependencies(t *testing.T) {
	s := state(8*second, resources(goneJob()), slots(slot("worker", "Job", Planned, absent(6*second))),
		lists(pods(3*second), pods(5*second)), identified(7*second))
	if step := Decide(s); !slices.Equal(step.Requests, []Request{nameOf("worker")}) {
		t.Fatalf("the one look before the barrier serves as both: %+v", step)
	}
	s.Cluster[1] = clusterRead(6*second + latency) // sent when that look was answered
	if step := Decide(s); !slices.Equal(step.Requests, []Request{nameOf("worker")}) {
		t.Fatalf("the one look serves as both: %+v", step)
	}
	s.Now = 10 * second
	s.Slots[0].Reads = append(s.Slots[0].Reads, there(9*second, other))
	if c := concluded(t, with(s, identified(10*second))); c.Verdict != Incomplete || !slices.Equal(causes(c.Reasons), []Cause{JobUnexplained}) {
		t.Errorf("got %s %v", c.Verdict, causes(c.Reasons))
	}
	s.Slots[0].Reads[1] = absent(9 * second)
	if c := concluded(t, with(s, identified(10*second))); c.Verdict != Complete {
		t.Errorf("got %s %v", c.Verdict, causes(c.Reasons))
	}
}

// A6.14: a failed look is repeated for as long as a resource would be given.
func TestA6_14_FailedLooksAreRepeated(t *testing.T) {
	s := state(6*second, resources(goneJob(), secretRow()), lists(pods(3*second), pods(5*second)),
		slots(slot("worker", "Job", Planned, failed(6*second))))
	if step := Decide(s); len(step.Requests) > 0 || step.Wake != 6*second+50*time.Millisecond {
		t.Errorf("got %+v", step)
	}
	s.Now = 7 * second
	if step := Decide(s); !slices.Equal(step.Requests, []Request{nameOf("worker")}) {
		t.Errorf("got %+v", step)
	}
	s.Now = 36 * second
	if step := Decide(s); slices.Contains(step.Requests, nameOf("worker")) {
		t.Errorf("it never ends: %+v", step)
	}
}
