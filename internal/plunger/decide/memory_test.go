package decide_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
)

// B1.1: every verb reads, writes, or does neither.
func TestVerbs(t *testing.T) {
	reads := []decide.Verb{decide.ReadStorage, decide.ReadPayload, decide.Recheck}
	writes := []decide.Verb{decide.SetFence, decide.Acquire, decide.NoteUID, decide.DeleteRevision, decide.NoteVersion, decide.Rewrite,
		decide.Request, decide.Lift, decide.DropFence, decide.FillStatus, decide.MarkUnproven, decide.Remind}
	for _, v := range reads {
		if !v.Reads() || v.Writes() {
			t.Errorf("%s: reads %t, writes %t", v, v.Reads(), v.Writes())
		}
	}
	for _, v := range writes {
		if v.Reads() || !v.Writes() {
			t.Errorf("%s: reads %t, writes %t", v, v.Reads(), v.Writes())
		}
	}
	for _, v := range []decide.Verb{decide.None, decide.Wait} {
		if v.Reads() || v.Writes() {
			t.Errorf("%s: reads %t, writes %t", v, v.Reads(), v.Writes())
		}
	}
}

// B8.3: the verbs that are about the storage, whose refusal is told as one of it.
func TestVerbsOnTheStorage(t *testing.T) {
	for verb, want := range map[decide.Verb]bool{decide.ReadStorage: true, decide.ReadPayload: true, decide.Recheck: true, decide.DeleteRevision: true,
		decide.Rewrite: true, decide.SetFence: false, decide.Lift: false, decide.FillStatus: false, decide.Wait: false, decide.None: false} {
		if verb.OnStorage() != want {
			t.Errorf("%s: %t, want %t", verb, verb.OnStorage(), want)
		}
	}
}

// B4.3, B10.1, B5.7: what is read or written is the latest revision.
func TestActionsNameTheLatestRevision(t *testing.T) {
	noted := annotated(contract.ProcessedUID, "u2@4")
	for name, in := range map[string]decide.Input{
		"acquire":  base(reclaim, forgotten, fenced, stored("2:uninstalling", "1:superseded")),
		"note":     base(reclaim, forgotten, held(2), stored("2:uninstalling", "1:superseded")),
		"recheck":  base(reclaim, forgotten, held(2), stored("2:uninstalling", "1:superseded"), noted),
		"delete":   base(reclaim, forgotten, held(2), stored("2:uninstalling", "1:superseded"), noted, rechecked),
		"payload":  base(forgotten, fenced, stored("2:uninstalling", "1:superseded")),
		"label":    base(forgotten, failures(2), fenced, stored("2:failed", "1:superseded")),
		"rewrite":  base(forgotten, fenced, stored("2:uninstalling", "1:superseded"), payload("uninstalling")),
		"request":  base(forgotten, fenced, stored("2:failed", "1:superseded"), repaired),
		"fill":     gone(noHistory, stored("2:uninstalling", "1:superseded")),
		"fill own": base(fenced, deleted, noHistory, suspendedBy(ours()), stored("2:uninstalling", "1:superseded")),
	} {
		if got := decide.Next(in); got.Revision.UID != "u2" || got.Revision.Version != 2 {
			t.Errorf("%s: %s of %+v", name, got.Verb, got.Revision)
		}
	}
	got := decide.Next(base(reclaim, forgotten, held(2), stored("1:superseded"), noted))
	if got.Verb != decide.NoteVersion || got.Revision.Version != 2 || got.Revision.UID != "u2" {
		t.Errorf("the number noted is of %+v", got.Revision)
	}
	got = decide.Next(base(fenced, deleted, suspendedBy(ours()), stored("1:superseded"), reclaimed(2, 4)))
	if got.Verb != decide.MarkUnproven || got.Unproven != 2 {
		t.Errorf("marks %d", got.Unproven)
	}
}

// How long a wait is: every one is bounded, or a lost event would be for ever.
func TestWaitsAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		in   decide.Input
		want time.Duration
	}{
		"live and fenced":   {base(upgrading, fenced), time.Minute},
		"terminating":       {base(fenced, deleted), 15 * time.Second},
		"unproven and held": {gone(hold, noHistory, stored()), 15 * time.Second},
		"backoff":           {base(forgotten, fenced, stored("1:uninstalling"), recoveredBefore(3, 15*time.Second)), 25 * time.Second},
		"backoff, most":     {base(forgotten, fenced, stored("1:uninstalling"), recoveredBefore(60, time.Minute)), 14 * time.Minute},
	} {
		if got := decide.Next(c.in); got.Verb != decide.Wait || got.After != c.want {
			t.Errorf("%s: %s for %s, want %s", name, got.Verb, got.After, c.want)
		}
	}
}

// B4.2: the growing delay.
func TestBackoffDelay(t *testing.T) {
	for n, want := range map[int]time.Duration{0: 0, 1: 10 * time.Second, 2: 20 * time.Second, 3: 40 * time.Second,
		7: 640 * time.Second, 8: 15 * time.Minute, 1000: 15 * time.Minute} {
		if got := (decide.Memory{Recoveries: n}).BackoffDelay(); got != want {
			t.Errorf("after %d: %s, want %s", n, got, want)
		}
	}
	// After an hour alone the next one is the first again (and never waits).
	if got := decide.Next(base(forgotten, fenced, stored("1:uninstalling"), recoveredBefore(9, time.Hour))); got.Verb != decide.ReadPayload {
		t.Errorf("after an hour: %s", got.Verb)
	}
}

// B3.3, B4.4: what is remembered of a hold after a live read.
func TestLook(t *testing.T) {
	holding := decide.Memory{HoldGeneration: 4, HoldUID: "u2", HoldVersion: 2}
	for name, c := range map[string]struct {
		in   decide.Input
		want decide.Memory
	}{
		"still ours":           {base(suspendedBy(ours())), holding},
		"resumed":              {base(), decide.Memory{GivenUp: 4, HoldUID: "u2", HoldVersion: 2}},
		"taken over":           {base(suspendedBy(foreign())), decide.Memory{HoldUID: "u2", HoldVersion: 2}},
		"shared, still a hold": {base(suspendedBy(ours(), foreign())), holding},
	} {
		if diff := cmp.Diff(c.want, holding.Look(*c.in.Release)); diff != "" {
			t.Errorf("B3.3 %s: %s", name, diff)
		}
	}
	if got := (decide.Memory{}).Look(*base().Release); got != (decide.Memory{}) {
		t.Errorf("without a hold: %+v", got)
	}
}

// B4.2, B4.4, B5.8: what is remembered after each action.
func TestAfter(t *testing.T) {
	release := base(generation(1)).Release
	revision := decide.Revision{UID: "u2", Version: 2}
	options := base(reclaim).Options
	lifted := options
	lifted.FenceUntil = decide.UntilLifted
	holding := decide.Memory{HoldGeneration: 4, HoldUID: "u2", HoldVersion: 2}
	earlier := now.Add(-time.Minute)
	for name, c := range map[string]struct {
		before  decide.Memory
		action  decide.Action
		options decide.Options
		want    decide.Memory
	}{
		"acquire":              {action: decide.Action{Verb: decide.Acquire, Revision: revision}, options: options, want: decide.Memory{HoldGeneration: 5, HoldUID: "u2", HoldVersion: 2}},
		"acquire again":        {before: holding, action: decide.Action{Verb: decide.Acquire}, options: options, want: decide.Memory{HoldGeneration: 5, HoldUID: "u2", HoldVersion: 2}},
		"lift":                 {before: holding, action: decide.Action{Verb: decide.Lift}, options: options, want: decide.Memory{HoldUID: "u2", HoldVersion: 2}},
		"lift, with the fence": {before: holding, action: decide.Action{Verb: decide.DropFence}, options: lifted, want: decide.Memory{HoldUID: "u2", HoldVersion: 2, Contradicted: 5}},
		"drop, no hold":        {action: decide.Action{Verb: decide.DropFence}, options: lifted},
		"contradicted":         {action: decide.Action{Verb: decide.DropFence, Contradicted: true}, options: options, want: decide.Memory{Contradicted: 5}},
		"first recovery":       {action: decide.Action{Verb: decide.Rewrite}, options: options, want: decide.Memory{Recoveries: 1, LastRecovery: now, Recovering: true}},
		"next recovery":        {before: decide.Memory{Recoveries: 2, LastRecovery: earlier}, action: decide.Action{Verb: decide.DeleteRevision}, options: options, want: decide.Memory{Recoveries: 3, LastRecovery: now, Recovering: true}},
		"long after":           {before: decide.Memory{Recoveries: 2, LastRecovery: now.Add(-time.Hour)}, action: decide.Action{Verb: decide.Rewrite}, options: options, want: decide.Memory{Recoveries: 1, LastRecovery: now, Recovering: true}},
		"recovered":            {before: decide.Memory{Recovering: true}, action: decide.Action{Events: []decide.Event{{Reason: decide.Recovered}}}, options: options},
		"failed":               {before: decide.Memory{Recovering: true}, action: decide.Action{Events: []decide.Event{{Reason: decide.RecoveryFailed}}}, options: options, want: decide.Memory{Recovering: true}},
	} {
		if diff := cmp.Diff(c.want, c.before.After(c.action, release, c.options, now)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if got := holding.After(decide.Action{Verb: decide.Lift}, nil, options, now); got != (decide.Memory{}) {
		t.Errorf("of a release that is gone: %+v", got)
	}
}

// B3.3, B4.4: a hold whose end was not answered is no hold, and its absence nobody's
// resume; what else was not answered changes nothing.
func TestUnanswered(t *testing.T) {
	holding := decide.Memory{HoldGeneration: 4, HoldUID: "u2", HoldVersion: 2, Recovering: true}
	ended := holding
	ended.HoldGeneration = 0
	for verb, want := range map[decide.Verb]decide.Memory{
		decide.Lift: ended, decide.DropFence: ended, decide.NoteUID: holding, decide.NoteVersion: holding, decide.DeleteRevision: holding, decide.Acquire: holding,
	} {
		got := holding.Unanswered(decide.Action{Verb: verb})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", verb, diff)
		}
		if verb == decide.Lift && got.Look(*base().Release).GivenUp != 0 {
			t.Error("B3.3: our own lift is taken for somebody's resume")
		}
	}
}

// What a write leaves of the storage that was read.
func TestStorageAfterAWrite(t *testing.T) {
	before := base(stored("2:uninstalling", "1:superseded"), payload("uninstalling"), rechecked).Storage
	without := before.Without("u2")
	if len(without.Revisions) != 1 || without.Revisions[0].UID != "u1" || without.Payload != nil || without.Rechecked {
		t.Errorf("without: %+v", without)
	}
	rewritten := before.Repaired("u2")
	if r := rewritten.Revisions[0]; r.Status != "failed" || !r.RepairedByUs || rewritten.Payload != nil || rewritten.Rechecked {
		t.Errorf("repaired: %+v", rewritten)
	}
	if r := rewritten.Revisions[1]; r.Status != "superseded" || r.RepairedByUs {
		t.Errorf("repaired another: %+v", r)
	}
	if before.Revisions[0].Status != "uninstalling" || len(before.Revisions) != 2 {
		t.Errorf("the input changed: %+v", before)
	}
}

// B8.3: the list of reasons, its types, and how often each is told.
func TestReasons(t *testing.T) {
	normal := map[decide.Reason]bool{decide.SuspensionLeftAlone: true, decide.RecoveryDeferred: true, decide.DeletedWhileSuspended: true,
		decide.RemoteSkipped: true, decide.Recovered: true, decide.DrainAborted: true}
	again := map[decide.Reason]time.Duration{decide.UninstallPending: time.Hour, decide.RecoveryDeferred: 10 * time.Minute,
		decide.SuspensionHeld: 10 * time.Minute, decide.RecoveryBackoff: 10 * time.Minute, decide.Recovered: time.Nanosecond}
	seen := map[decide.Reason]bool{}
	for _, r := range decide.Reasons() {
		if r.SeveralCauses() != (r == decide.StorageRefused) {
			t.Errorf("%s has several causes: %t", r, r.SeveralCauses())
		}
		if seen[r] {
			t.Errorf("%s is listed twice", r)
		}
		seen[r] = true
		if r.Warning() == normal[r] {
			t.Errorf("%s: warning %t", r, r.Warning())
		}
		if r.Repeat() != again[r] {
			t.Errorf("%s: told again after %s, want %s", r, r.Repeat(), again[r])
		}
	}
	if len(seen) != 17 {
		t.Errorf("%d reasons, the documented list has 17", len(seen))
	}
}

// B8.2: the age of a fence is the API server's own record.
func TestFencedSince(t *testing.T) {
	at := now.Add(-time.Hour)
	mine := ours()
	mine.Time = at
	status := entry(contract.FieldManager, "Apply", "status")
	status.Time = now
	in := base(fenced, func(in *decide.Input) {
		in.Release.Managers = []decide.ManagedField{status, foreign(), entry("helm", "Apply", ""), entry(contract.FieldManager, "Update", ""), mine}
	})
	if got := in.Release.FencedSince(); !got.Equal(at) {
		t.Errorf("since %s, want %s", got, at)
	}
	in.Release.Finalizers = nil
	if got := in.Release.FencedSince(); !got.IsZero() {
		t.Errorf("unfenced since %s", got)
	}
}
