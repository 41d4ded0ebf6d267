package decide

import (
	"slices"
	"strings"
	"testing"
)

// A6.9, A6.13: what is left of a Job, and what is not known of it, is told whatever
// else is: a Pod that somebody copied hides neither the Job nor a read that failed.
// And a Job is called gone only when it was read so.
func TestA6_13_NothingOfAJobIsHidden(t *testing.T) {
	const s = second
	job, pod := api().Object.String(), object("Pod", "r-api-x", podUID).String()
	copied := orphan(func(p *Pod) { p.Object, p.ControllerUIDs = object("Pod", "copy", other), nil })
	held := ownedPod(func(p *Pod) { p.Finalizers = []string{"a/b"} })
	const runsOn, notOwned, gone, unread = "runs on without it", "is not owned by", "is gone", "could not be confirmed"
	for name, row := range map[string]struct {
		job     Resource
		list    PodList
		causes  []Cause
		outcome Outcome
		says    []string
		not     []string
	}{
		"a copy beside a Job whose deletion is refused": {api(deleted(s), reads(there(2*s, jobUID))), pods(3*s, copied),
			[]Cause{PodOrphaned, JobRemaining}, OutcomeRemaining, []string{copied.Object.String() + " " + notOwned + " " + job + ",", job + " is still there, and its deletion has not begun"}, []string{runsOn, gone, unread}},
		"a copy beside a Pod that is held": {api(deleted(s), reads(absent(2*s))), pods(3*s, copied, held),
			[]Cause{PodOrphaned, JobRemaining}, OutcomeRemaining, []string{runsOn, gone, "a/b"}, []string{notOwned, unread}},
		"a copy beside a recorded Pod": {api(deleted(s), child(there(3*s, podUID)), reads(absent(2*s))), pods(3*s, copied),
			[]Cause{PodOrphaned, JobRemaining}, OutcomeRemaining, []string{runsOn, "its " + pod}, []string{unread}},
		"a copy beside a Job that cannot be read": {api(deleted(s), reads(failed(2*s))), pods(3*s, copied),
			[]Cause{PodOrphaned, JobUnreadable}, OutcomeOrphaned, []string{notOwned, unread}, []string{runsOn, gone}},
		"a copy beside a recorded Pod that cannot be read": {api(deleted(s), child(failed(3*s)), reads(absent(4*s))), pods(3*s, copied),
			[]Cause{PodOrphaned, JobUnreadable}, OutcomeOrphaned, []string{runsOn, unread}, nil},
		"a copy beside a recorded Pod that is gone": {api(deleted(s), child(absent(3*s)), reads(absent(2*s))), pods(3*s, copied),
			[]Cause{PodOrphaned}, OutcomeOrphaned, []string{runsOn}, []string{unread}},
		"the recorded Pod is the orphan": {api(deleted(s), child(there(3*s, podUID)), reads(absent(2*s))), pods(3*s, orphan()),
			[]Cause{PodOrphaned}, OutcomeOrphaned, []string{pod + " of " + job + " " + runsOn}, []string{unread, "is still there"}},
		"the recorded Pod is an owned one": {api(deleted(s), child(there(3*s, podUID)), reads(absent(2*s))), pods(3*s, held),
			[]Cause{JobRemaining}, OutcomeRemaining, []string{job + " is gone, but its " + pod}, []string{unread, ", and its"}},
		"two Pods of a Job that is gone": {api(deleted(s), reads(absent(2*s))), pods(3*s, held, with(held, func(p *Pod) { p.Object = object("Pod", "r-api-y", other) })),
			[]Cause{JobRemaining}, OutcomeRemaining, []string{job + " is gone, but its " + pod, "a/b, and its Pod ns/r-api-y"}, []string{unread}},
		"a copy beside a Job that came back": {api(deleted(s), reads(absent(2*s), there(3*s, jobUID))), pods(3*s, copied),
			[]Cause{PodOrphaned, JobRemaining}, OutcomeRemaining, []string{notOwned}, []string{runsOn, gone}},
		"a copy beside a Job that was replaced": {api(deleted(s), reads(there(4*s, other))), pods(3*s, copied),
			[]Cause{JobConflict, PodOrphaned}, OutcomeConflict, []string{runsOn}, []string{notOwned}},
		"a copy beside a Pod that was replaced": {api(deleted(s), child(there(4*s, other)), reads(there(2*s, jobUID))), pods(3*s, copied),
			[]Cause{ChildConflict, PodOrphaned}, OutcomeConflict, []string{notOwned}, []string{runsOn}},
		"a Pod of a Job that cannot be read": {api(deleted(s), reads(failed(2*s))), pods(3*s, ownedPod()),
			[]Cause{JobRemaining, JobUnreadable}, OutcomeRemaining, []string{"of " + job + ", which could not be read, " + pod + " is still there", unread}, []string{gone}},
		"a Job that is held, and its Pod cannot be read": {api(deleted(s), child(failed(3*s)), reads(there(4*s, jobUID, "a/b"))), pods(3 * s),
			[]Cause{JobRemaining, JobUnreadable}, OutcomeRemaining, []string{"a/b", unread}, []string{gone}},
	} {
		c := concluded(t, atBarrier(replaceJob(row.job), replaceLists(row.list)))
		text := textOf(c, ref("api"))
		if got := causes(c.Reasons); !slices.Equal(got, row.causes) || outcome(t, c, "api") != row.outcome || c.Verdict != Incomplete {
			t.Errorf("%s: %v and %s, want %v and %s", name, got, outcome(t, c, "api"), row.causes, row.outcome)
		}
		for _, want := range row.says {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q does not say %q", name, text, want)
			}
		}
		for _, not := range row.not {
			if strings.Contains(text, not) {
				t.Errorf("%s: %q says %q", name, text, not)
			}
		}
	}
}
