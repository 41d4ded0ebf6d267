package decide

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-project/holdfast/internal/identity"
)

// A6.8, A6.9, A6.13: what the result file says of each resource, each planned name
// and each Pod, in full. A wrong word here sends a person after the wrong object.
func TestA6_9_Endings(t *testing.T) {
	const s = second
	job, secret, pod := api(), secretRow(), object("Pod", "r-api-x", podUID)
	secretIs := func(edits ...edit[Resource]) State {
		return state(90*s, resources(goneJob(), secretRow(edits...)), lists(pods(3*s), pods(5*s)), identified(40*s, 90*s))
	}
	jobIs := func(list []PodList, edits ...edit[Resource]) State {
		return state(90*s, resources(api(edits...)), lists(list...), identified(90*s))
	}
	nameIs := func(slot Slot) State { return state(90*s, slots(slot), lists(pods(3*s)), identified(41*s, 90*s)) }
	ending := func(r Resource, outcome Outcome, found *Read) Ending {
		return Ending{Ref: r.Ref, Object: r.Object, Outcome: outcome, Found: found}
	}
	name := func(outcome Outcome, found *Read) Ending {
		return Ending{Ref: ref("worker"), Object: object("Job", "r-worker", ""), Outcome: outcome, Found: found}
	}
	read := func(r Read) *Read { return &r }
	held := ownedPod(func(p *Pod) { p.Deleting, p.Finalizers = true, []string{"x"} })
	seen := Read{Found: Present, UID: podUID, Nonce: nonce, Deleting: true, Finalizers: []string{"x"}}
	quiet := []PodList{pods(3 * s), pods(5 * s)}
	for title, row := range map[string]struct {
		state  State
		want   []Ending
		pods   []PodEnding
		detail string // of the reasons that are about the last ending
	}{
		"a Job gone":               {jobIs(quiet, deleted(s), reads(absent(2*s))), []Ending{ending(job, OutcomeAbsent, nil)}, nil, ""},
		"a Job replaced":           {jobIs(quiet, deleted(s), reads(there(2*s, other))), []Ending{ending(job, OutcomeConflict, read(there(2*s, other)))}, nil, "replaced by another object"},
		"a Job there":              {jobIs(quiet, deleted(s), reads(there(2*s, jobUID, "x"))), []Ending{ending(job, OutcomeRemaining, read(there(2*s, jobUID, "x")))}, nil, "still there"},
		"a Job there, its Pod not": {jobIs(quiet, deleted(s), child(absent(3*s)), reads(there(2*s, jobUID, "x"))), []Ending{ending(job, OutcomeRemaining, read(there(2*s, jobUID, "x")))}, nil, "still there"},
		"a Job unread":             {jobIs(quiet, deleted(s), reads(failed(2*s))), []Ending{ending(job, OutcomeUnreadable, nil)}, nil, "could not be confirmed"},
		"a Pod owned": {jobIs([]PodList{pods(3*s, held)}, deleted(s), reads(absent(2*s))), []Ending{ending(job, OutcomeRemaining, nil)},
			[]PodEnding{{ref("api"), pod, Owned, seen}}, "its " + pod.String()},
		"a Pod orphaned": {jobIs([]PodList{pods(3*s, with(held, func(p *Pod) { p.Owners = nil }))}, deleted(s), reads(absent(2*s))), []Ending{ending(job, OutcomeOrphaned, nil)},
			[]PodEnding{{ref("api"), pod, Orphaned, seen}}, "runs on without it"},
		"a Pod on record": {jobIs(quiet, deleted(s), child(there(3*s, podUID, "x")), reads(absent(2*s))), []Ending{ending(job, OutcomeRemaining, nil)},
			[]PodEnding{{ref("api"), pod, Recorded, there(3*s, podUID, "x")}}, "its " + pod.String()},
		"a Pod replaced": {jobIs(quiet, deleted(s), child(there(3*s, other)), reads(there(2*s, jobUID))), []Ending{ending(job, OutcomeConflict, read(there(2*s, jobUID)))},
			[]PodEnding{{ref("api"), pod, Replaced, there(3*s, other)}}, "a Pod of " + job.Object.String()},
		"a stray Pod": {with(nameIs(slot("worker", "Job", Planned, absent(40*s), absent(89*s))), func(s *State) {
			s.Pods = []PodList{pods(3*second, with(held, func(p *Pod) { p.Owners, p.ControllerUIDs = nil, nil }))}
		}),
			[]Ending{name(OutcomeAbsent, nil)}, []PodEnding{{identity.SlotRef{Attempt: attempt}, pod, Orphaned, seen}}, ""},

		"a Secret gone":                 {secretIs(deleted(50*s), reads(absent(51*s))), []Ending{ending(job, OutcomeAbsent, nil), ending(secret, OutcomeAbsent, nil)}, nil, ""},
		"a Secret gone, its name taken": {secretIs(deleted(50*s), reads(absent(51*s), there(52*s, other))), []Ending{ending(job, OutcomeAbsent, nil), ending(secret, OutcomeAbsent, nil)}, nil, ""},
		"a Secret replaced":             {secretIs(deleted(50*s), reads(there(51*s, other))), []Ending{ending(job, OutcomeAbsent, nil), ending(secret, OutcomeConflict, read(there(51*s, other)))}, nil, "replaced by another object"},
		"a Secret there":                {secretIs(deleted(50*s), reads(there(51*s, secret.Object.UID, "x"))), []Ending{ending(job, OutcomeAbsent, nil), ending(secret, OutcomeRemaining, read(there(51*s, secret.Object.UID, "x")))}, nil, "still there"},
		"a Secret unread":               {secretIs(deleted(50*s), reads(failed(51*s))), []Ending{ending(job, OutcomeAbsent, nil), ending(secret, OutcomeUnreadable, nil)}, nil, "could not be confirmed"},
		"a Secret retained": {atBarrier(replaceJob(api(deleted(s), reads(there(2*s, jobUID, "x"))))),
			[]Ending{ending(job, OutcomeRemaining, read(there(2*s, jobUID, "x"))), ending(secret, OutcomeRetained, nil)}, nil, ""},

		"a name free":      {nameIs(slot("worker", "Job", Planned, absent(40*s), absent(89*s))), []Ending{name(OutcomeAbsent, nil)}, nil, ""},
		"a name taken":     {nameIs(slot("worker", "Job", Planned, there(89*s, other))), []Ending{name(OutcomeUnexplained, read(there(89*s, other)))}, nil, "there is no receipt for it"},
		"a name unread":    {nameIs(slot("worker", "Job", Planned, failed(40*s))), []Ending{name(OutcomeUnreadable, nil)}, nil, "could not be read"},
		"a name uncertain": {nameIs(slot("worker", "Job", Uncertain, absent(40*s))), []Ending{name(OutcomeAbsent, nil)}, nil, "its outcome is not on record"},
	} {
		c := concluded(t, row.state)
		got := append(c.Resources, c.Slots...)
		detail := textOf(c, got[len(got)-1].Ref)
		if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("%s: %s", title, diff)
		}
		if diff := cmp.Diff(row.pods, c.Pods); diff != "" {
			t.Errorf("%s: %s", title, diff)
		}
		if row.detail == "" && detail != "" || !strings.Contains(detail, row.detail) {
			t.Errorf("%s: the reason is %q, want %q in it", title, detail, row.detail)
		}
		if retained := title == "a Secret retained"; retained != (len(c.Retained) > 0) {
			t.Errorf("%s: retained because of %v", title, c.Retained)
		}
	}
}
