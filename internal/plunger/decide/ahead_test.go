package decide_test

import (
	"testing"
	"time"

	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
)

// B3.4: the fence of a release that is Ready goes after helm-controller's last
// patches and not between them, and not much later should they never come.
func TestFenceLeavesAfterThePass(t *testing.T) {
	readySince := func(ago time.Duration) edit {
		return func(in *decide.Input) { in.Release.Status.Ready.LastTransition = now.Add(-ago) }
	}
	unobserved := func(in *decide.Input) { in.Release.Status.ObservedGeneration = 3 }
	asked := annotated(contract.RequestedAt, "t")
	last := stored("1:deployed")
	check(t, []row{
		{"B3.4 the request is not handled", base(fenced, readySince(time.Second), asked), want{verb: decide.Wait}},
		{"B3.4 the generation is not observed", base(fenced, readySince(time.Second), unobserved), want{verb: decide.Wait}},
		{"B3.4 nor is it read before", base(fenced, readySince(time.Second), asked, last), want{verb: decide.Wait}},
		{"B3.4 the clock of helm-controller is ahead", base(fenced, readySince(-time.Second), asked, last), want{verb: decide.Wait}},
		{"B3.4 the pass has ended", base(fenced, readySince(time.Second), asked, handled("t"), last), want{verb: decide.DropFence}},
		{"B3.4 not Ready: there may never be an end", base(fenced, readySince(time.Second), asked, last, func(in *decide.Input) {
			in.Release.Status.Ready.Status = "False"
		}), want{verb: decide.DropFence}},
		{"B3.4 almost too long", base(fenced, readySince(5*time.Second-1), asked, last), want{verb: decide.Wait}},
		{"B3.4 for too long", base(fenced, readySince(5*time.Second), asked, last), want{verb: decide.DropFence}},
		{"B3.4 the clock of helm-controller is far ahead", base(fenced, readySince(-5*time.Second), asked, last), want{verb: decide.DropFence}},
		{"B3.4 without our fence nothing is waited for", base(readySince(time.Second), asked), want{verb: decide.None}},
		{"B2.4 a suspension is not waited for", base(fenced, readySince(time.Second), asked, last, suspendedBy(foreign())), want{verb: decide.DropFence}},
	})
}

// listed: the storage is one from before the error.
func listed(in *decide.Input) { in.Storage.Ahead = true }

// B5.8, B10.1: repair lists once while helm-controller is on its way to the error,
// and believes that list only where it leads to a rewrite.
func TestListedAhead(t *testing.T) {
	wanted := func(in *decide.Input) { in.Memory.Listing = &decide.Listing{Generation: 4} }
	had := func(in *decide.Input) {
		in.Memory.Listing = &decide.Listing{Generation: 4, Storage: &decide.Storage{}}
	}
	check(t, []row{
		{"B5.8 the fence was just set", base(upgrading, fenced, wanted), want{verb: decide.ReadStorage}},
		{"B5.8 the fence was set again in a recovery", base(upgrading, fenced, recovering, wanted), want{verb: decide.ReadStorage}},
		{"B5.8 just listed", base(upgrading, fenced, wanted, stored("1:uninstalling")), want{verb: decide.Wait}},
		{"B5.8 listed before", base(upgrading, fenced, had), want{verb: decide.Wait}},
		{"B5.8 not fenced yet", base(upgrading, wanted), want{verb: decide.SetFence}},

		{"B10.1 blocked, listed ahead: the payload is read", base(forgotten, fenced, stored("1:uninstalling"), listed), want{verb: decide.ReadPayload}},
		{"B10.1 and rewritten", base(forgotten, fenced, stored("1:uninstalling"), payload("uninstalling"), listed), want{verb: decide.Rewrite}},
		{"B4 reclaim lists again", base(reclaim, forgotten, fenced, stored("1:uninstalling"), listed), want{verb: decide.ReadStorage}},
		{"B4.1 a deployed one: listed again", base(forgotten, fenced, stored("2:uninstalling", "1:deployed"), listed), want{verb: decide.ReadStorage}},
		{"B4.1a nothing stored: listed again", base(forgotten, failures(2), fenced, stored(), listed), want{verb: decide.ReadStorage}},
		{"B4.1a the payload does not block: listed again", base(forgotten, failures(2), fenced, stored("1:uninstalling"), payload("failed"), listed), want{verb: decide.ReadStorage}},
		{"B4.1a nor at the first attempt", base(forgotten, fenced, stored("1:uninstalling"), payload("failed"), listed), want{verb: decide.ReadStorage}},
		{"B4.1a the label does not block: listed again", base(forgotten, failures(2), fenced, stored("1:failed"), listed), want{verb: decide.ReadStorage}},
		{"B10.3 the payload cannot be decoded: listed again", base(forgotten, fenced, stored("1:uninstalling"), payload(""), func(in *decide.Input) { in.Storage.Payload.Undecodable = "no gzip" }, listed), want{verb: decide.ReadStorage}},
		{"B4.2 stuck again: listed again before it waits", base(forgotten, fenced, stored("1:uninstalling"), recoveredBefore(1, 5*time.Second), listed), want{verb: decide.ReadStorage}},
		{"B3.4 remembered: listed again", base(fenced, stored("1:deployed"), listed), want{verb: decide.ReadStorage}},
		{"B3.4 suspended by another: listed again", base(forgotten, fenced, suspendedBy(foreign()), stored("1:uninstalling"), listed), want{verb: decide.ReadStorage}},
		{"B6.2 a drain lists again", base(fenced, deleted, forgotten, through, draining, stored("1:uninstalling"), listed), want{verb: decide.ReadStorage}},
		{"B5.6 no proof of an uninstall", base(fenced, deleted, forgotten, through, stored("1:uninstalling"), listed), want{verb: decide.ReadStorage}},
	})
}

// B5.8: what was listed ahead serves for the error that it was listed for, soon,
// and once.
func TestTakeListing(t *testing.T) {
	storage := &decide.Storage{Revisions: []decide.Revision{{UID: "u1", Version: 1, Status: "uninstalling"}}}
	set := decide.Memory{}.After(decide.Action{Verb: decide.SetFence}, base(upgrading, fenced).Release, decide.Options{Strategy: decide.Repair}, now)
	if set.Listing == nil || set.Listing.Storage != nil || set.Listing.Generation != 4 {
		t.Fatalf("after the fence: %+v", set.Listing)
	}
	again := set.After(decide.Action{Verb: decide.SetFence}, base(upgrading, fenced).Release, decide.Options{Strategy: decide.Reclaim}, now)
	if again.Listing != nil {
		t.Errorf("reclaim lists ahead: %+v", again.Listing)
	}
	running, failed := *base(upgrading, fenced).Release, *base(forgotten, fenced).Release
	ahead := set.Listed(running, storage, now)
	if ahead.Listing.Storage == nil || !ahead.Listing.Storage.Ahead || storage.Ahead || !ahead.Listing.At.Equal(now) || ahead.Listing.Generation != 4 {
		t.Fatalf("after the list: %+v of %+v", ahead.Listing, storage)
	}
	if other := (decide.Memory{}).Listed(running, storage, now); other.Listing != nil {
		t.Errorf("a list that nobody wanted ahead is kept: %+v", other.Listing)
	}
	if broken := set.Listed(running, nil, now); broken.Listing == nil || broken.Listing.Storage != nil {
		t.Errorf("after a list that failed: %+v", broken.Listing)
	}
	if after := set.Listed(failed, storage, now); after.Listing != nil {
		t.Errorf("a list from after the error is kept: %+v", after.Listing)
	}
	for name, c := range map[string]struct {
		memory        decide.Memory
		view          *decide.Release
		after         time.Duration
		serves, stays bool
	}{
		"the error":                     {ahead, base(forgotten, fenced).Release, time.Second, true, false},
		"the upgrade still runs":        {ahead, base(upgrading, fenced).Release, time.Second, false, true},
		"another generation":            {ahead, base(forgotten, fenced, generation(1)).Release, time.Second, false, false},
		"another generation's upgrade":  {ahead, base(upgrading, fenced, generation(1)).Release, time.Second, false, false},
		"deleted":                       {ahead, base(forgotten, fenced, func(in *decide.Input) { in.Release.DeletionTimestamp = now }).Release, time.Second, false, false},
		"deleted while it upgrades":     {ahead, base(upgrading, fenced, func(in *decide.Input) { in.Release.DeletionTimestamp = now }).Release, time.Second, false, false},
		"gone":                          {ahead, nil, time.Second, false, false},
		"another outcome":               {ahead, base(fenced).Release, time.Second, false, false},
		"almost too late":               {ahead, base(forgotten, fenced).Release, 2*time.Second - 1, true, false},
		"too late":                      {ahead, base(forgotten, fenced).Release, 2 * time.Second, false, false},
		"never listed":                  {set, base(forgotten, fenced).Release, time.Second, false, false},
		"never listed, upgrade running": {set, base(upgrading, fenced).Release, time.Second, false, true},
		"nothing wanted":                {decide.Memory{}, base(forgotten, fenced).Release, time.Second, false, false},
	} {
		got, left := c.memory.TakeListing(c.view, now.Add(c.after))
		if (got != nil) != c.serves || (left.Listing != nil) != c.stays {
			t.Errorf("%s: serves %t, stays %t", name, got != nil, left.Listing != nil)
		}
	}
	if storage := (decide.Storage{Ahead: true}).Repaired("u1"); storage.Ahead {
		t.Error("what was written to is not from before the error any more")
	}
	if storage := (decide.Storage{Ahead: true}).Without("u1"); storage.Ahead {
		t.Error("what was deleted from is not from before the error any more")
	}
}
