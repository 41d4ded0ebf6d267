package decide_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
)

// since moves when the latest revision was stored.
func since(after time.Duration) edit {
	return func(in *decide.Input) { in.Storage.Revisions[0].Created = youngest.Add(after) }
}

func notedAs(note string) edit { return annotated(contract.NotedRevision, note) }

// B5.6, B4.3, B9.1: that a revision of ours was never replaced is known from before
// its delete on, whoever was stopped when and however often somebody edits since; and
// a release that was stored since ends it, whatever its number.
func TestB5_6_WhatIsNotedTellsWhatWasNeverReplaced(t *testing.T) {
	left := stored("1:superseded")
	for name, c := range map[string]struct {
		in   decide.Input
		want int
	}{
		"the lift and the delete since":             {gone(left, reclaimed(2, 3)), 2},
		"and many edits":                            {gone(left, generation(40), through, reclaimed(2, 3)), 2},
		"deleted in the hold itself":                {gone(left, reclaimed(2, 5)), 2},
		"an object restored from before the hold":   {gone(left, reclaimed(2, 6)), 0},
		"stored again under the same number":        {gone(stored("2:failed"), reclaimed(9, 1), notedAs("2@2026-11-29T11:00:00Z")), 0},
		"the only one of ten, installed again as 1": {gone(stored("1:deployed"), reclaimed(10, 1), since(time.Second)), 0},
		"renumbered":                                       {gone(stored("2:uninstalling", "1:superseded"), reclaimed(10, 1), since(time.Hour)), 0},
		"stored in the second of the youngest":             {gone(left, reclaimed(2, 3), since(0)), 2},
		"a number above all numbers is none":               {gone(left, reclaimed(2, 1), notedAs(strings.Repeat("9", 30)+"@2026-11-29T11:00:00Z")), 0},
		"no number is none":                                {gone(left, reclaimed(2, 1), notedAs("@2026-11-29T11:00:00Z")), 0},
		"no time is none":                                  {gone(left, reclaimed(2, 1), notedAs("2")), 0},
		"an earlier flux-plunger's number changes nothing": {gone(left, reclaimed(2, 1), annotated(contract.ProcessedVersion, "1")), 2},
	} {
		t.Run("B5.6 "+name, func(t *testing.T) {
			if got := decide.Next(c.in); got.Verb != decide.Remind || got.Unproven != c.want {
				t.Errorf("decided %s with unproven %d, want %s with %d", got.Verb, got.Unproven, decide.Remind, c.want)
			}
		})
	}
	check(t, []row{
		{"B5.6 live, and many edits: the fence is kept", base(noHistory, fenced, generation(40), left, reclaimed(2, 3)), want{verb: decide.Wait}},
		{"B9.5 live, renumbered: contradicted", base(noHistory, fenced, stored("2:deployed", "1:superseded"), reclaimed(10, 1), since(time.Hour)), want{verb: decide.DropFence}},
		{"B9.5 live, restored: contradicted", base(noHistory, fenced, stored(), reclaimed(2, 70)), want{verb: decide.DropFence}},
	})
}

// B4.2, B5.6: what is noted is of the revision that is about to be deleted and of the
// youngest that is stored, which a restored storage may have in any order.
func TestB4_2_TheNoteIsOfTheHold(t *testing.T) {
	in := base(reclaim, forgotten, held(3), stored("3:uninstalling", "2:superseded", "1:superseded"))
	in.Storage.Revisions[1].Created = youngest.Add(time.Minute)
	got := decide.Next(in)
	if got.Verb != decide.NoteUID || got.Note != "3@2026-11-29T11:01:00Z" {
		t.Errorf("%s notes %q", got.Verb, got.Note)
	}
}

// B4.4, B5.6, B9.1: an edit between the Secret's delete and its number ends the hold
// without the number; after another edit and a delete what was deleted is marked all
// the same.
func TestB5_6_AnEditInTheHoldLosesNothing(t *testing.T) {
	in := base(reclaim, forgotten, held(2), reclaimed(2, 4), generation(1))
	c := &cluster{in: in, stored: *base(stored("1:superseded")).Storage, told: map[string]bool{}}
	c.look()
	if _, numbered := c.in.Release.Annotations[contract.ProcessedVersion]; numbered || c.in.Release.Suspended() || !c.in.Release.Fenced() {
		t.Fatalf("the number was written, or the hold stands: %v", c.verbs)
	}
	all(generation(1), deleted, through)(&c.in)
	c.look()
	if c.in.Release.Annotations[contract.Unproven] != "2" {
		t.Errorf("B5.6 asked without a word of revision 2: %v, %v", c.in.Release.Annotations, c.verbs)
	}
}
