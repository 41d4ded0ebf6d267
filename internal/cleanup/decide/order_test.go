package decide

import (
	"slices"
	"testing"
	"time"
)

// A6.3, A6.6: all Jobs of all attempts are deleted side by side, in the
// foreground, and no dependency with them.
func TestA6_3_JobsFirstSideBySide(t *testing.T) {
	second1 := jobRow("api", "44444444-0000-4000-8000-000000000004")
	second1.Ref.Attempt = "upgrade-preflight-resume.AAAAAAAA"
	s := state(second, resources(secretRow(), api(), jobRow("worker", other), second1))
	want := []Request{deleteOf("api", Foreground), deleteOf("worker", Foreground), {Verb: Delete, Ref: second1.Ref, Propagation: Foreground}}
	if step := Decide(s); !slices.Equal(step.Requests, want) {
		t.Errorf("got %+v", step.Requests)
	}
}

// A6.5: a Job's DELETE is repeated as a dependency's is, in the foreground.
func TestA6_5_RepeatedDeleteOfAJob(t *testing.T) {
	s := state(4*second, resources(api(deleted(second), reads(there(3*second, jobUID)))), lists(pods(3*second)))
	if step := Decide(s); !slices.Contains(step.Requests, deleteOf("api", Foreground)) {
		t.Errorf("got %+v", step)
	}
}

// A6.3, A6.6: what was read absent is not read again.
func TestA6_3_AbsencesAreNotReadAgain(t *testing.T) {
	s := state(9*second, resources(api(deleted(second), child(absent(3*second)), reads(absent(2*second)))), lists(pods(3*second)))
	if step := Decide(s); !slices.Equal(step.Requests, []Request{{Verb: ListPods}}) {
		t.Errorf("got %+v", step)
	}
}

// A6.6: the next look is at the first thing that is due.
func TestA6_6_TheEarliestWake(t *testing.T) {
	row := api(deleted(second), child(there(3*second, podUID), there(3*second, podUID)), reads(there(3*second, jobUID, "x")))
	for name, c := range map[string]struct {
		lists []PodList
		want  time.Duration
	}{
		"the Job's read": {[]PodList{pods(second), pods(second), pods(3 * second)}, 50 * time.Millisecond},
		"the list":       {[]PodList{pods(2990 * time.Millisecond)}, 40 * time.Millisecond},
	} {
		if step := Decide(state(3*second, resources(row), lists(c.lists...))); len(step.Requests) > 0 || step.Wake != 3*second+c.want {
			t.Errorf("%s: %+v, want a wake %s later", name, step, c.want)
		}
	}
}

// A6.14: planned names are read after the end of the last Job, in whatever order
// the Jobs stand; a read that was sent at that very moment is after it.
func TestA6_14_AfterTheLastJob(t *testing.T) {
	worker := jobRow("worker", other, deleted(second), reads(absent(2*second)))
	late := api(deleted(second), reads(absent(18*second)))
	name := func(read Read) State {
		return state(22*second, resources(late, worker), slots(slot("migration", "Job", Planned, read)),
			lists(pods(3*second), pods(5*second), pods(19*second), pods(21*second)))
	}
	between := absent(10 * second)
	for read, want := range map[*Read]bool{&between: true, {Sent: 21 * second, Answered: 21500 * time.Millisecond, Found: Absent}: false} {
		if got := slices.Contains(Decide(name(*read)).Requests, nameOf("migration")); got != want {
			t.Errorf("read at %s: read again %v", read.Sent, got)
		}
	}
	s := name(Read{Sent: 21 * second, Answered: 21500 * time.Millisecond, Found: Failed})
	s.Now = 52 * second
	if step := Decide(s); slices.Contains(step.Requests, nameOf("migration")) {
		t.Errorf("a read that failed from the very moment on never ends: %+v", step)
	}
}

// A6.3: without a Job, Pods are listed until one list succeeds or thirty seconds
// are over.
func TestA6_3_ListsWithoutJobsAreRepeated(t *testing.T) {
	s := state(second, resources(secretRow()), slots(slot("api", "Job", Uncertain)))
	if step := Decide(s); !slices.Contains(step.Requests, Request{Verb: ListPods}) {
		t.Errorf("beside one slot: %+v", step)
	}
	s.Pods = []PodList{podsFailed(second)}
	for now, want := range map[time.Duration]bool{2 * second: true, 31*second - 1: true, 31 * second: false} {
		s.Now = now
		if got := slices.Contains(Decide(s).Requests, Request{Verb: ListPods}); got != want {
			t.Errorf("at %s: listed %v", now, got)
		}
	}
}

// A6.3: a Job's time begins with its own DELETE, however late that is.
func TestA6_3_LateBegin(t *testing.T) {
	s := state(40*second, resources(api(), secretRow()))
	if step := Decide(s); !slices.Equal(step.Requests, []Request{deleteOf("api", Foreground)}) {
		t.Errorf("got %+v", step)
	}
}

// A6.3: after a Job's DELETE, the Job, its recorded children and the Pods are
// read; one list serves all Jobs; a slow DELETE does not hold up the others.
func TestA6_3_ReadsBesideASlowDelete(t *testing.T) {
	s := state(second, resources(api(deleted(second), child()), jobRow("migration", podUID, deleted(second)), jobRow("worker", other)), inFlight(deleteOf("worker", Foreground)))
	want := []Request{readOf("api"), {Verb: ReadChild, Ref: ref("api"), Child: podUID}, {Verb: ListPods}, readOf("migration")}
	if step := Decide(s); !slices.Equal(step.Requests, want) {
		t.Errorf("got %+v", step.Requests)
	}
}

// A6.4: nothing is sent for a resource in conflict, ever again.
func TestA6_4_ConflictIsLeftAlone(t *testing.T) {
	s := state(3*second, resources(api(deleted(second), child(), reads(there(2*second, other))), secretRow()))
	for range 20 {
		step := Decide(s)
		for _, r := range step.Requests {
			if r.Ref == ref("api") || r.Verb == Delete {
				t.Fatalf("sent %+v", r)
			}
			answerHere(&s, r)
		}
		if step.Conclusion != nil {
			return
		}
		s.Now += second
	}
	t.Fatal("no conclusion")
}

// answerHere answers the requests that a conclusion still needs.
func answerHere(s *State, r Request) {
	switch r.Verb {
	case ReadCluster:
		s.Cluster = append(s.Cluster, clusterRead(s.Now+latency))
	case ListPods:
		s.Pods = append(s.Pods, pods(s.Now+latency))
	}
	s.Now += latency
}

// A6.5: when a DELETE is repeated.
func TestA6_5_RepeatedDeletes(t *testing.T) {
	own := secretRow().Object.UID
	deleting := there(3*second, own)
	deleting.Deleting = true
	for _, row := range []struct {
		name   string
		secret Resource
		now    time.Duration
		want   bool
	}{
		{"still there and not deleting after a DELETE, accepted or failed", secretRow(deleted(second), reads(there(3*second, own))), 4 * second, true},
		{"not within a second", secretRow(deleted(second), reads(there(1500*time.Millisecond, own))), 1900 * time.Millisecond, false},
		{"not while it is being deleted", secretRow(deleted(second), reads(deleting)), 9 * second, false},
		{"not before it was read again", secretRow(deleted(second)), 9 * second, false},
		{"not on a read sent before the DELETE's answer", secretRow(deleted(3*second), reads(there(3*second+5*time.Millisecond, own))), 9 * second, false},
		{"on a read sent at the moment of the DELETE's answer", secretRow(deleted(3*second), reads(there(3*second+latency, own))), 9 * second, true},
		{"not after a failed read", secretRow(deleted(second), reads(there(3*second, own), failed(4*second))), 9 * second, false},
		{"not of a replacement", secretRow(deleted(second), reads(there(3*second, other))), 9 * second, false},
		{"each time later: not 2 s after the third", secretRow(deleted(second), deleted(2*second), deleted(4*second), reads(there(5*second, own))), 7 * second, false},
		{"but 4 s after it", secretRow(deleted(second), deleted(2*second), deleted(4*second), reads(there(5*second, own))), 8 * second, true},
		{"not after its time", secretRow(deleted(second), reads(there(3*second, own))), 31 * second, false},
	} {
		s := state(row.now, resources(row.secret), lists(pods(500*time.Millisecond)), identified(600*time.Millisecond))
		if got := slices.Contains(Decide(s).Requests, deleteOf("secret", Orphan)); got != row.want {
			t.Errorf("%s: repeated %v", row.name, got)
		}
	}
}

// A6.6: reads back off from 50 ms to 1 s.
func TestA6_6_Backoff(t *testing.T) {
	want := []time.Duration{50, 100, 200, 400, 800, 1000, 1000}
	for n, ms := range want {
		if got := pause(n + 1); got != ms*time.Millisecond {
			t.Errorf("after %d reads: %s, want %d ms", n+1, got, ms)
		}
	}
	if got := pause(1000); got != second {
		t.Errorf("after a thousand reads: %s", got)
	}
	for n, s := range []time.Duration{1, 2, 4, 8, 8} {
		if got := deletePause(n + 1); got != s*second {
			t.Errorf("after %d DELETEs: %s, want %d s", n+1, got, s)
		}
	}
	if nextRead(nil) != 0 || nextList(nil) != 0 {
		t.Error("a first read waits for something")
	}
	s := state(second, resources(api(deleted(second), reads(there(second+latency, jobUID)))), lists(pods(second+latency)))
	s.Now = second + latency
	step := Decide(s)
	if len(step.Requests) > 0 || step.Wake != second+latency+50*time.Millisecond {
		t.Errorf("got %+v", step)
	}
	s.Now = step.Wake
	if step := Decide(s); !slices.Equal(step.Requests, []Request{readOf("api"), {Verb: ListPods}}) {
		t.Errorf("at the wake: %+v", step)
	}
}

// The same request is never on its way twice.
func TestNothingIsSentTwiceAtOnce(t *testing.T) {
	s := state(2*second, resources(api(deleted(second), child())),
		inFlight(readOf("api"), Request{Verb: ListPods}, Request{Verb: ReadChild, Ref: ref("api"), Child: podUID}))
	if step := Decide(s); len(step.Requests) > 0 || step.Wake != 31*second {
		t.Errorf("got %+v", step)
	}
}

// A6.6: a dependency's time ends also while a read of it hangs.
func TestA6_6_ADependencysTimeEnds(t *testing.T) {
	s := state(2*second, resources(secretRow(deleted(second))), lists(pods(500*time.Millisecond)), identified(600*time.Millisecond), inFlight(readOf("secret")))
	if step := Decide(s); len(step.Requests) > 0 || step.Wake != 31*second {
		t.Errorf("got %+v", step)
	}
}

// A6.14: the names are read again after the last dependency has ended, in whatever
// order the dependencies stand.
func TestA6_14_AfterTheLastDependency(t *testing.T) {
	policy := Resource{Ref: ref("network-policy"), Object: object("NetworkPolicy", "r-network-policy", other), Nonce: nonce}
	policy.Deletes, policy.Reads = []Deletion{{Answered: 8 * second}}, []Read{absent(10 * second)}
	s := state(25*second, resources(goneJob(), secretRow(deleted(8*second), reads(absent(20*second))), policy),
		slots(slot("worker", "Job", Planned, absent(6*second), absent(15*second))), lists(pods(3*second), pods(5*second)), identified(7*second))
	if step := Decide(s); !slices.Equal(step.Requests, []Request{nameOf("worker")}) {
		t.Errorf("got %+v", step)
	}
}

// A result is not concluded while a DELETE is on its way.
func TestNoConclusionBesideADelete(t *testing.T) {
	s := state(40*second, resources(api(deleted(second), reads(there(20*second, jobUID)))), lists(pods(3*second)), identified(40*second),
		inFlight(deleteOf("api", Foreground)))
	if step := Decide(s); step.Conclusion != nil || len(step.Requests) > 0 {
		t.Errorf("got %+v", step)
	}
	delete(s.InFlight, deleteOf("api", Foreground))
	concluded(t, s)
	s.InFlight[readOf("api")] = true
	concluded(t, s) // a read that is still out there changes nothing
}

// A6.3: a list is asked for although no Job is acknowledged: a Pod with the
// nonce may run, and its Job's receipt be lost.
func TestA6_3_ListWithoutJobs(t *testing.T) {
	s := state(second, resources(secretRow()))
	if step := Decide(s); !slices.Equal(step.Requests, []Request{{Verb: ListPods}}) {
		t.Errorf("got %+v", step)
	}
	s.Pods = []PodList{podsFailed(second)}
	s.Now = 31 * second
	if step := Decide(s); slices.Contains(step.Requests, Request{Verb: ListPods}) || slices.Contains(step.Requests, deleteOf("secret", Orphan)) {
		t.Errorf("after thirty seconds of failures: %+v", step)
	}
}

// Concerns keeps nothing of strangers.
func TestConcerns(t *testing.T) {
	concerns := state(0, resources(api(child())), slots(slot("worker", "Job", Uncertain))).Concerns()
	for name, row := range map[string]struct {
		pod  Pod
		want bool
	}{
		"owned":    {Pod{Owners: []string{jobUID}}, true},
		"labelled": {Pod{ControllerUIDs: []string{jobUID}}, true},
		"nonce":    {Pod{Nonce: nonce}, true},
		"recorded": {Pod{Object: object("Pod", "x", podUID)}, true},
		"stranger": {Pod{Object: object("Pod", "r-api-x", other), Owners: []string{other}, Nonce: "ffff"}, false},
		"bare":     {Pod{}, false},
	} {
		if got := concerns(row.pod); got != row.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
