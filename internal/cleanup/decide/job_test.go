package decide

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// What a Job's history amounts to, rule by rule. end is when the wait for it is
// over; "waiting" means not by now.
func TestJobHistories(t *testing.T) {
	const waiting = Outcome("waiting")
	s := second
	for _, row := range []struct {
		name  string
		job   Resource
		lists []PodList
		now   time.Duration
		want  Outcome
	}{
		{"A6.3 absent, two clean lists a second apart",
			api(deleted(s), reads(absent(2*s))), []PodList{pods(2*s + latency), pods(3*s + 2*latency)}, 4 * s, OutcomeAbsent},
		{"A6.3 a suspended Job needs no late window",
			api(deleted(s), reads(absent(2*s))), []PodList{pods(3 * s), pods(5 * s)}, 5 * s, OutcomeAbsent},
		{"A6.3 one list is not enough",
			api(deleted(s), reads(absent(2*s))), []PodList{pods(3 * s)}, 10 * s, waiting},
		{"A6.3 two lists less than a second apart",
			api(deleted(s), reads(absent(2*s))), []PodList{pods(3 * s), pods(4*s - time.Millisecond)}, 4 * s, waiting},
		{"A6.3 the second from the first's answer to the second's sending",
			api(deleted(s), reads(absent(2*s))), []PodList{pods(3 * s), pods(4 * s)}, 4 * s, waiting},
		{"A6.3 lists before the absence read do not count",
			api(deleted(s), reads(absent(5*s))), []PodList{pods(3 * s), pods(6 * s)}, 6 * s, waiting},
		{"A6.3 a list sent before the absence was answered does not count",
			api(deleted(s), reads(absent(5*s))), []PodList{pods(5*s + 5*time.Millisecond), pods(7 * s)}, 7 * s, waiting},
		{"A6.3 an owned Pod between two clean lists",
			api(deleted(s), reads(absent(2*s))), []PodList{pods(3 * s), pods(4*s, ownedPod()), pods(6 * s)}, 6 * s, waiting},
		{"A6.3 and two clean ones after it",
			api(deleted(s), reads(absent(2*s))), []PodList{pods(3 * s), pods(4*s, ownedPod()), pods(6 * s), pods(8 * s)}, 8 * s, OutcomeAbsent},
		{"A6.3 a Pod seen after two clean lists takes the absence back",
			api(deleted(s), reads(absent(2*s))), []PodList{pods(3 * s), pods(5 * s), pods(6*s, ownedPod())}, 6 * s, waiting},
		{"A6.3 a stranger's Pod is nothing",
			api(deleted(s), reads(absent(2*s))), []PodList{pods(3*s, Pod{Object: object("Pod", "x", other)}), pods(5*s, Pod{Object: object("Pod", "x", other)})}, 5 * s, OutcomeAbsent},

		{"A6.3 a recorded child must be read absent too",
			api(deleted(s), child(), reads(absent(2*s))), []PodList{pods(3 * s), pods(5 * s)}, 6 * s, waiting},
		{"A6.3 and when it is, that settles",
			api(deleted(s), child(absent(6*s)), reads(absent(2*s))), []PodList{pods(3 * s), pods(5 * s)}, 6 * s, OutcomeAbsent},
		{"A6.3 a recorded child that is there",
			api(deleted(s), child(there(6*s, podUID)), reads(absent(2*s))), []PodList{pods(3 * s), pods(5 * s)}, 31 * s, OutcomeRemaining},
		{"A6.3 a child that was there before reads of it began to fail",
			api(deleted(s), child(there(3*s, podUID), failed(20*s)), reads(absent(2*s))), []PodList{pods(3 * s), pods(5 * s)}, 31 * s, OutcomeUnreadable},
		{"A6.3 a failed child read asks for the Job's absence again",
			api(deleted(s), child(failed(4*s), absent(6*s)), reads(absent(2*s))), []PodList{pods(3 * s), pods(5 * s), pods(7 * s)}, 8 * s, waiting},
		{"A6.3 a child that is there after it was absent",
			api(deleted(s), child(absent(3*s), there(4*s, podUID)), reads(absent(2*s))), []PodList{pods(5 * s), pods(7 * s)}, 8 * s, waiting},
		{"A6.3 a child seen again takes the absence back",
			api(deleted(s), child(absent(3*s), there(6*s, podUID)), reads(absent(2*s))), []PodList{pods(3 * s), pods(5 * s)}, 6 * s, waiting},
		{"A6.3 reads sent at the moment of a failure are after it",
			api(deleted(s), child(Read{Sent: 4 * s, Answered: 5 * s, Found: Absent}), reads(Read{Sent: 4 * s, Answered: 5 * s, Found: Absent})),
			[]PodList{podsFailed(4 * s), pods(6 * s), pods(8 * s)}, 8 * s, OutcomeAbsent},
		{"A6.4 a child's name on another UID ends the wait",
			api(deleted(s), child(there(3*s, other)), reads(there(2*s, jobUID))), nil, 4 * s, OutcomeConflict},

		{"A6.3 a failed Job read after the absence: it must be read again",
			api(deleted(s), reads(absent(2*s), failed(4*s))), []PodList{pods(3 * s), pods(5 * s), pods(7 * s)}, 7 * s, waiting},
		{"A6.3 only reads after the last failure settle",
			api(deleted(s), reads(absent(2*s), absent(5*s))), []PodList{pods(3 * s), podsFailed(4 * s), pods(6 * s), pods(8 * s)}, 8 * s, OutcomeAbsent},
		{"A6.3 one list before and one after a failure",
			api(deleted(s), reads(absent(2*s), absent(5*s))), []PodList{pods(3 * s), podsFailed(4 * s), pods(6 * s)}, 7 * s, waiting},
		{"A6.3 the Job is not read again after a failed list",
			api(deleted(s), reads(absent(2*s))), []PodList{podsFailed(4 * s), pods(6 * s), pods(8 * s)}, 8 * s, waiting},
		{"A6.3 a Job read that was on its way when a list failed does not settle",
			api(deleted(s), reads(Read{Sent: 3900 * time.Millisecond, Answered: 5 * s, Found: Absent})), []PodList{podsFailed(4 * s), pods(6 * s), pods(8 * s)}, 8 * s, waiting},
		{"A6.3 nor does such a read of a child",
			api(deleted(s), child(Read{Sent: 3900 * time.Millisecond, Answered: 5 * s, Found: Absent}), reads(absent(5*s))), []PodList{podsFailed(4 * s), pods(6 * s), pods(8 * s)}, 8 * s, waiting},
		{"A6.3 the Job seen again takes its absence back",
			api(deleted(s), reads(absent(2*s), there(6*s, jobUID))), []PodList{pods(3 * s), pods(5 * s)}, 6 * s, waiting},
		{"A6.3 a child read before a failure does not settle",
			api(deleted(s), child(absent(3*s)), reads(absent(2*s), absent(5*s))), []PodList{podsFailed(4 * s), pods(6 * s), pods(8 * s)}, 8 * s, waiting},
		{"A6.3 a failure after all was settled changes nothing",
			api(deleted(s), reads(absent(2*s))), []PodList{pods(3 * s), pods(5 * s), podsFailed(6 * s)}, 7 * s, OutcomeAbsent},
		{"A6.3 a failure after all was settled counts if it comes alive again",
			api(deleted(s), reads(absent(2*s))), []PodList{pods(3 * s), pods(5 * s), podsFailed(6 * s), pods(7*s, ownedPod()), pods(9 * s), pods(11 * s)}, 12 * s, waiting},
		{"A6.3 and is settled by an absence read after it",
			api(deleted(s), reads(absent(2*s), absent(8*s))), []PodList{pods(3 * s), pods(5 * s), podsFailed(6 * s), pods(7*s, ownedPod()), pods(9 * s), pods(11 * s)}, 12 * s, OutcomeAbsent},
		{"A6.3 a failed read is no absence, however fast its answer",
			api(deleted(s), reads(Read{Sent: 2 * s, Answered: 2 * s, Found: Failed})), []PodList{pods(3 * s), pods(5 * s)}, 31 * s, OutcomeUnreadable},
		{"A6.3 reads that never succeed",
			api(deleted(s), reads(failed(2*s), failed(20*s))), []PodList{pods(3 * s), pods(5 * s)}, 31 * s, OutcomeUnreadable},
		{"A6.3 lists that never succeed",
			api(deleted(s), reads(absent(2*s))), []PodList{podsFailed(3 * s), podsFailed(20 * s)}, 31 * s, OutcomeUnreadable},
		{"A6.3 what was seen before reads began to fail is not what is",
			api(deleted(s), reads(there(2*s, jobUID, "foregroundDeletion"), failed(20*s))), []PodList{pods(3 * s)}, 31 * s, OutcomeUnreadable},

		{"A6.3 a Pod with the label and without the owner",
			api(deleted(s), reads(absent(2*s))), []PodList{pods(3*s, orphan()), pods(5*s, orphan())}, 31 * s, OutcomeOrphaned},
		{"A6.3 a Pod with the nonce alone",
			api(deleted(s), reads(absent(2*s))), []PodList{pods(3*s, orphan(func(p *Pod) { p.ControllerUIDs = nil }))}, 31 * s, OutcomeOrphaned},
		{"A6.3 a recorded child that the Job no longer owns",
			api(deleted(s), child(there(3*s, podUID)), reads(absent(2*s))), []PodList{pods(3*s, Pod{Object: object("Pod", "r-api-x", podUID)})}, 31 * s, OutcomeOrphaned},
		{"A6.3 an orphan that goes in time",
			api(deleted(s), reads(absent(2*s))), []PodList{pods(3*s, orphan()), pods(5 * s), pods(7 * s)}, 7 * s, OutcomeAbsent},
		{"A6.3 an orphan stays in doubt when lists fail",
			api(deleted(s), reads(absent(2*s))), []PodList{pods(3*s, orphan()), podsFailed(5 * s)}, 31 * s, OutcomeOrphaned},

		{"A6.3 released, no Pod ever seen: lists go on",
			api(released, deleted(s), reads(absent(2*s))), []PodList{pods(3 * s), pods(5 * s)}, 46 * s, waiting},
		{"A6.3 45 s after the 404",
			api(released, deleted(s), reads(absent(2*s))), []PodList{pods(3 * s), pods(5 * s), pods(47*s + 10*time.Millisecond)}, 48 * s, OutcomeAbsent},
		{"A6.3 a list sent before the 45 s are over",
			api(released, deleted(s), reads(absent(2*s))), []PodList{pods(3 * s), pods(5 * s), pods(47*s + 9*time.Millisecond)}, 48 * s, waiting},
		{"A6.3 the window counts from the first 404, failures or not",
			api(released, deleted(s), reads(absent(2*s), absent(41*s))), []PodList{pods(3 * s), podsFailed(40 * s), pods(42 * s), pods(48 * s)}, 48 * s, OutcomeAbsent},
		{"A6.3 the window does not count from a failed read",
			api(released, deleted(s), reads(failed(2*s), absent(20*s))), []PodList{pods(21 * s), pods(23 * s), pods(49 * s)}, 50 * s, waiting},
		{"A6.3 a Pod that came and went ends the window, whoever else has Pods",
			api(released, deleted(s), reads(absent(2*s))), []PodList{pods(3*s, ownedPod()), pods(5*s, Pod{Owners: []string{other}}), pods(7*s, Pod{Owners: []string{other}})}, 7 * s, OutcomeAbsent},
		{"A6.6 a 404 after its time opens no window",
			api(released, deleted(s), reads(absent(32*s))), nil, 33 * s, OutcomeUnreadable},
		{"A6.3 no window when a Pod was seen before",
			api(released, deleted(s), reads(there(2*s, jobUID), absent(4*s))), []PodList{pods(3*s, ownedPod()), pods(5 * s), pods(7 * s)}, 7 * s, OutcomeAbsent},
		{"A6.3 no window when a Pod was seen by its owner alone",
			api(released, deleted(s), reads(there(2*s, jobUID), absent(4*s))), []PodList{pods(3*s, ownedPod(func(p *Pod) { p.ControllerUIDs = nil })), pods(5 * s), pods(7 * s)}, 7 * s, OutcomeAbsent},
		{"A6.3 a label takes no doubt away: lists go on",
			api(released, deleted(s), reads(there(2*s, jobUID), absent(4*s))), []PodList{pods(3*s, orphan()), pods(5 * s), pods(7 * s)}, 48 * s, waiting},
		{"A6.3 until 45 s after the 404",
			api(released, deleted(s), reads(there(2*s, jobUID), absent(4*s))), []PodList{pods(3*s, orphan()), pods(5 * s), pods(7 * s), pods(49*s + 10*time.Millisecond)}, 50 * s, OutcomeAbsent},
		{"A6.3 a 404 at the very end of its time opens the window",
			api(released, deleted(s), reads(absent(31*s))), nil, 31 * s, waiting},
		{"A6.3 no window when a child is on record",
			api(released, deleted(s), child(absent(3*s)), reads(absent(2*s))), []PodList{pods(3 * s), pods(5 * s)}, 5 * s, OutcomeAbsent},
		{"A6.3 another Job's orphan does not end the window",
			api(released, deleted(s), reads(absent(2*s))), []PodList{pods(3*s, orphan(func(p *Pod) { p.ControllerUIDs = nil })), pods(5 * s), pods(7 * s)}, 40 * s, waiting},
		{"A6.3 a Pod that comes in the window gets its time",
			api(released, deleted(s), reads(absent(2*s))), []PodList{pods(3 * s), pods(44*s, ownedPod())}, 60 * s, waiting},
		{"A6.3 and settles when it has gone",
			api(released, deleted(s), reads(absent(2*s))), []PodList{pods(3 * s), pods(44*s, ownedPod()), pods(50 * s), pods(52 * s)}, 52 * s, OutcomeAbsent},
		{"A6.3 or is named when it has not",
			api(released, deleted(s), reads(absent(2*s))), []PodList{pods(3 * s), pods(44*s, ownedPod())}, 77 * s, OutcomeRemaining},

		{"A6.4 another UID ends the wait at once", api(deleted(s), reads(there(2*s, other))), nil, 2 * s, OutcomeConflict},
		{"A6.4 also after an absence", api(deleted(s), reads(absent(2*s), there(3*s, other))), nil, 3 * s, OutcomeConflict},
		{"A6.5 an accepted DELETE is not absence", api(deleted(s)), nil, 31 * s, OutcomeUnreadable},
		{"A6.5 a DELETE, accepted or failed, and the object still there",
			api(deleted(s), reads(there(2*s, jobUID))), []PodList{pods(3 * s)}, 31 * s, OutcomeRemaining},

		{"A6.6 a millisecond before its 30 s", api(deleted(s), reads(there(2*s, jobUID, "x"))), nil, 31*s - time.Millisecond, waiting},
		{"A6.6 at its 30 s", api(deleted(s), reads(there(2*s, jobUID, "x"))), nil, 31 * s, OutcomeRemaining},
		{"A6.6 repeated DELETEs do not move the deadline", api(deleted(s, 10*s, 20*s), reads(there(2*s, jobUID))), nil, 31 * s, OutcomeRemaining},
		{"A6.6 what is read at the deadline does",
			api(deleted(s), reads(absent(2*s))), []PodList{pods(29 * s), pods(31 * s)}, 31 * s, OutcomeAbsent},
		{"A6.6 what is read after the deadline does not settle",
			api(deleted(s), reads(absent(2*s))), []PodList{pods(30 * s), pods(32 * s)}, 32 * s, OutcomeUnreadable},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := waiting
			v := newView(state(row.now, resources(row.job), lists(row.lists...)))
			if _, over := v.jobs[0].ended(row.now); over {
				got = v.endJob(&v.jobs[0]).Outcome
			}
			if got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}

// A6.4: what comes after a conflict does not move its end: the reads that the
// barrier rests on are counted from there.
func TestA6_4_EndOfAConflict(t *testing.T) {
	row := api(deleted(second), reads(there(2*second, other), absent(4*second)))
	j := foldJob(&row, []PodList{pods(5 * second), pods(7 * second)}, newCensus(state(0, resources(row))))
	if at, over := j.ended(8 * second); !over || at != 2*second || j.gone() {
		t.Errorf("ended %v at %s, gone %v", over, at, j.gone())
	}
}

// A6.3, A6.4: what comes after all was settled does not move its end, unless it is
// a sign of life or another object.
func TestA6_3_EndOfASettledJob(t *testing.T) {
	row := api(deleted(second), reads(absent(2*second)))
	fold := func(row Resource, list ...PodList) job {
		return foldJob(&row, append([]PodList{pods(3 * second), pods(5 * second)}, list...), newCensus(state(0, resources(row))))
	}
	j := fold(row, pods(9*second))
	if at, over := j.ended(10 * second); !over || at != 5*second || !j.gone() {
		t.Errorf("ended %v at %s, gone %v", over, at, j.gone())
	}
	row.Reads = append(row.Reads, there(6*second, other))
	j = fold(row)
	if at, over := j.ended(10 * second); !over || at != 6*second || j.gone() {
		t.Errorf("replaced after it was settled: ended %v at %s, gone %v", over, at, j.gone())
	}
}

// A6.3: which Job a Pod casts doubt on.
func TestA6_3_WhoseOrphan(t *testing.T) {
	worker := jobRow("worker", other)
	nonceOnly := orphan(func(p *Pod) { p.ControllerUIDs = nil })
	for _, row := range []struct {
		name        string
		pod         Pod
		api, worker bool
	}{
		{"by label: that Job alone", orphan(), true, false},
		{"by nonce alone: every Job of the attempt", nonceOnly, true, true},
		{"owned by its sibling: nobody", ownedPod(func(p *Pod) { p.Owners, p.ControllerUIDs = []string{other}, []string{other} }), false, false},
		{"owned by one and labelled with the other", ownedPod(func(p *Pod) { p.Owners = []string{other} }), true, false},
		{"owned by a stranger", nonceOnly.ownedBy("77777777-0000-4000-8000-000000000007"), true, true},
		{"another run's nonce", with(nonceOnly, func(p *Pod) { p.Nonce = "ffff" }), false, false},
		{"no nonce", with(nonceOnly, func(p *Pod) { p.Nonce = "" }), false, false},
	} {
		first := api()
		c := newCensus(state(0, resources(first, worker)))
		if a, w := c.orphanOf(&row.pod, &first), c.orphanOf(&row.pod, &worker); a != row.api || w != row.worker {
			t.Errorf("%s: api %v, worker %v", row.name, a, w)
		}
	}
}

// A6.3: strays are those of the last list that succeeded, and a Pod without our
// annotation is none, whatever a row lacks.
func TestA6_3_Strays(t *testing.T) {
	uncertain := slot("api", "Job", Uncertain)
	bare := uncertain
	bare.Nonce = ""
	stray := Pod{Object: object("Pod", "x", other), Nonce: nonce}
	for name, row := range map[string]struct {
		slot  Slot
		lists []PodList
		want  int
	}{
		"there":                      {uncertain, []PodList{pods(second), pods(2*second, stray)}, 1},
		"gone by the last list":      {uncertain, []PodList{pods(second, stray), pods(2 * second)}, 0},
		"a failed list says nothing": {uncertain, []PodList{pods(second, stray), podsFailed(2 * second)}, 1},
		"counted once":               {uncertain, []PodList{pods(second, stray), pods(2*second, stray)}, 1},
		"no nonce on either side":    {bare, []PodList{pods(second, Pod{Object: stray.Object})}, 0},
	} {
		if got := len(newCensus(state(0, slots(row.slot))).strays(row.lists)); got != row.want {
			t.Errorf("%s: %d strays, want %d", name, got, row.want)
		}
	}
	if got := newCensus(state(0, resources(secretRow()), slots(uncertain))).strays([]PodList{pods(second, stray)}); len(got) != 1 {
		t.Errorf("beside an acknowledged Secret: %d strays, want 1", len(got))
	}
	uncertain.Ref.Attempt, uncertain.Nonce = "upgrade-preflight-resume.AAAAAAAA", "eeee"
	owned := ownedPod(func(p *Pod) { p.Nonce = "eeee" })
	if got := newCensus(state(0, resources(api()), slots(uncertain))).strays([]PodList{pods(second, owned)}); len(got) != 0 {
		t.Errorf("a Pod that another attempt's Job owns is a stray")
	}
}

func (p Pod) ownedBy(uid string) Pod {
	p.Owners = []string{uid}
	return p
}

// A6.3: a Pod that is owned and on record is named once, a recorded one that no
// list shows is named too, and so is what is not being deleted at all.
func TestA6_3_EachPodIsNamedOnce(t *testing.T) {
	row := func(list ...Pod) string {
		s := state(32*second, resources(api(released, deleted(second), child(there(3*second, podUID)), reads(absent(2*second)))),
			lists(pods(3*second, list...)), identified(32*second))
		c := concluded(t, s)
		if len(c.Pods) != 1 || c.Pods[0].Object.UID != podUID {
			t.Errorf("pods: %+v", c.Pods)
		}
		return c.Reasons[0].Text
	}
	for name, text := range map[string]string{"owned and recorded": row(ownedPod()), "recorded alone": row()} {
		if strings.Count(text, podUID) != 1 || !strings.Contains(text, "is gone, but its Pod") || !strings.Contains(text, "has not begun") {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// A6.3: what holds a Job up is named, the Pods' finalizers too: the Job's own
// foregroundDeletion explains nothing.
func TestA6_3_FinalizersAreNamed(t *testing.T) {
	pod := ownedPod(func(p *Pod) { p.Deleting, p.Finalizers = true, []string{"example.com/hold"} })
	s := state(32*second, resources(api(released, deleted(second), reads(there(2*second, jobUID, "foregroundDeletion"))), secretRow()),
		lists(pods(3*second, pod)), identified(32*second))
	c := concluded(t, s)
	if outcome(t, c, "api") != OutcomeRemaining || outcome(t, c, "secret") != OutcomeRetained {
		t.Fatalf("got %+v", c)
	}
	for _, text := range []string{c.Reasons[0].Text, c.Retained[0].Text} {
		if !strings.Contains(text, "example.com/hold") || !strings.Contains(text, podUID) {
			t.Errorf("the Pod's finalizer is not named: %s", text)
		}
	}
	if len(c.Pods) != 1 || c.Pods[0].Relation != Owned || !slices.Equal(c.Pods[0].Found.Finalizers, []string{"example.com/hold"}) {
		t.Errorf("pods: %+v", c.Pods)
	}
}
