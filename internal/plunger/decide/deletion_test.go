package decide_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
)

// gone is a fenced release that was deleted and that helm-controller is through
// with.
func gone(edits ...edit) decide.Input {
	return base(append([]edit{fenced, deleted, through}, edits...)...)
}

func keepHistory(in *decide.Input) { in.Release.Spec.KeepHistory = true }

// asked: we made n requests, the last one at the time.
func asked(n int, at time.Time) edit {
	return func(in *decide.Input) {
		in.Release.Annotations[contract.Reminders] = fmt.Sprint(n)
		in.Release.Annotations[contract.RequestedAt] = at.Format(time.RFC3339Nano)
		in.Release.Status.LastHandledReconcileAt = in.Release.Annotations[contract.RequestedAt]
	}
}

func longAgo(in *decide.Input) { in.Release.DeletionTimestamp = now.Add(-10*time.Minute - time.Second) }

func TestDeletedUnderSuspension(t *testing.T) {
	processed := annotated(contract.ProcessedVersion, "2")
	check(t, []row{
		{"B2.3 another's, fenced", base(fenced, deleted, suspendedBy(foreign())), want{decide.DropFence, decide.DeletedWhileSuspended}},
		{"B2.3 another's, unfenced", base(deleted, suspendedBy(foreign())), want{decide.None, decide.DeletedWhileSuspended}},
		{"B2.3 another's, processed", base(fenced, deleted, processed, suspendedBy(foreign())), want{decide.DropFence, decide.UninstallSkipped}},
		{"B2.3 another's, in the drain", base(draining, fenced, deleted, suspendedBy(foreign())), want{decide.DropFence, decide.DeletedWhileSuspended}},
		{"B2.2 shared", base(fenced, deleted, suspendedBy(ours(), foreign())), want{decide.DropFence, decide.DeletedWhileSuspended}},
		{"B2.3 the storage is not asked", base(fenced, deleted, through, suspendedBy(foreign())), want{decide.DropFence, decide.DeletedWhileSuspended}},

		{"B5.7 ours: what is stored", base(fenced, deleted, noHistory, suspendedBy(ours())), want{verb: decide.ReadStorage}},
		{"B5.7 ours, forgotten: fill first", base(fenced, deleted, noHistory, suspendedBy(ours()), stored("1:uninstalling")), want{verb: decide.FillStatus}},
		{"B5.7 ours, no storage namespace: fill first", base(fenced, deleted, noStorageNamespace, suspendedBy(ours()), stored("1:uninstalling")), want{verb: decide.FillStatus}},
		{"B5.1 ours, remembered: lift", base(fenced, deleted, suspendedBy(ours()), stored("1:uninstalling")), want{verb: decide.Lift}},
		{"B5.2 ours, nothing stored: lift", base(fenced, deleted, noHistory, suspendedBy(ours()), stored()), want{verb: decide.Lift}},
		{"B5.6 ours, a deleted revision never replaced: marked first", base(fenced, deleted, suspendedBy(ours()), stored("1:superseded"), reclaimed(2, 4)), want{verb: decide.MarkUnproven}},
		{"B5.6 and marked: lift", base(fenced, deleted, suspendedBy(ours()), stored("1:superseded"), reclaimed(2, 4), annotated(contract.Unproven, "2")), want{verb: decide.Lift}},
		{"B5.1 ours, the fence is gone: an apply that lists it would be refused", base(deleted, suspendedBy(ours())), want{verb: decide.DropFence}},
		{"B1.3 ours, held for a recovery: never deletes", base(reclaim, held(1), func(in *decide.Input) { in.Release.DeletionTimestamp = now }, stored("1:uninstalling"), annotated(contract.ProcessedUID, "u1@4"), rechecked), want{verb: decide.Lift}},
		{"B6.2 ours, in the drain: reminded too", base(draining, fenced, deleted, noHistory, suspendedBy(ours()), stored("1:uninstalling")), want{verb: decide.FillStatus}},
	})
}

func TestDeletedAndFenced(t *testing.T) {
	check(t, []row{
		{"B1.3 unfenced and stuck", base(forgotten, deleted), want{verb: decide.None}},
		{"B5.3 helm-controller has its finalizer", base(fenced, deleted), want{verb: decide.Wait}},
		{"B5.3 an older generation observed", gone(func(in *decide.Input) { in.Release.Status.ObservedGeneration-- }), want{verb: decide.Wait}},
		{"B5.3 a request not handled", gone(annotated(contract.RequestedAt, "x")), want{verb: decide.Wait}},
		{"B5.3 another request handled", gone(annotated(contract.RequestedAt, "x"), func(in *decide.Input) { in.Release.Status.LastHandledReconcileAt = "y" }), want{verb: decide.Wait}},
		{"B5.6 through: the storage is asked", gone(), want{verb: decide.ReadStorage}},
		{"B5.3 not through, storage empty and success told: wait", base(fenced, deleted, stored(), released("UninstallSucceeded")), want{verb: decide.Wait}},

		{"B5.6 proven", gone(stored(), released("UninstallSucceeded")), want{verb: decide.DropFence}},
		{"B5.6 proven, in the drain", gone(draining, stored(), released("UninstallSucceeded")), want{verb: decide.DropFence}},
		{"B5.6 success of the present generation, by a clock that is behind", gone(stored(), released("UninstallSucceeded"), func(in *decide.Input) { in.Release.Status.Released.LastTransition = now.Add(-time.Hour) }), want{verb: decide.DropFence}},
		{"B5.6 success of before the delete is none", gone(stored(), released("UninstallSucceeded"), older(61*time.Second)), want{decide.DropFence, decide.UninstallUnproven}},
		{"B5.6 success since the delete, edited meanwhile", gone(stored(), released("UninstallSucceeded"), older(60*time.Second)), want{verb: decide.DropFence}},
		{"B5.6 success since the delete and before our request is none", gone(stored(), asked(1, now), released("UninstallSucceeded"), older(31*time.Second)), want{decide.DropFence, decide.UninstallUnproven}},
		{"B5.6 success from before our request is none", gone(stored(), asked(1, now), released("UninstallSucceeded"), func(in *decide.Input) { in.Release.Status.Released.LastTransition = now.Add(-31 * time.Second) }), want{decide.DropFence, decide.UninstallUnproven}},
		{"B5.6 clocks may differ by half a minute", gone(stored(), asked(1, now), released("UninstallSucceeded"), func(in *decide.Input) { in.Release.Status.Released.LastTransition = now.Add(-30 * time.Second) }), want{verb: decide.DropFence}},
		{"B5.6 success told with status True is none", gone(stored(), released("UninstallSucceeded"), func(in *decide.Input) { in.Release.Status.Released.Status = "True" }), want{decide.DropFence, decide.UninstallUnproven}},
		{"B5.6 revisions remain, success told: remind", gone(stored("1:uninstalled"), released("UninstallSucceeded")), want{verb: decide.Remind}},
		{"B5.6 keepHistory", gone(keepHistory, stored("2:uninstalled", "1:superseded"), released("UninstallSucceeded")), want{verb: decide.DropFence}},
		{"B5.6 keepHistory, the latest is not uninstalled", gone(keepHistory, stored("2:failed", "1:uninstalled"), released("UninstallSucceeded")), want{verb: decide.Remind}},
		{"B5.6 a revision that we deleted was never replaced", gone(stored(), released("UninstallSucceeded"), annotated(contract.Unproven, "2")), want{decide.DropFence, decide.UninstallUnproven}},
		{"B5.6 the same, hold", gone(hold, stored(), released("UninstallSucceeded"), annotated(contract.Unproven, "2")), want{decide.Wait, decide.UninstallUnproven}},
		{"B5.6a empty and nothing told", gone(noHistory, stored()), want{decide.DropFence, decide.UninstallUnproven}},
		{"B5.6a hold", gone(hold, noHistory, stored()), want{decide.Wait, decide.UninstallUnproven}},

		{"B5.5 failing, with history: retried by itself", gone(stored("1:uninstalling"), released("UninstallFailed")), want{verb: decide.Wait}},
		{"B5.5 failing, storage emptied", gone(stored(), released("UninstallFailed")), want{verb: decide.Wait}},
		{"B5.5 its wait cut off by a newer pass, storage emptied", gone(stored(), released("HealthCheckCanceled")), want{verb: decide.Wait}},
		{"B5.9 nor does a wait that was cut off give way", gone(asked(3, now), stored("1:uninstalling"), released("HealthCheckCanceled")), want{verb: decide.Wait}},
		{"B5.5 failing, storage emptied, no history", gone(noHistory, stored(), released("UninstallFailed")), want{verb: decide.Wait}},
		{"B5.5 failed in an older generation is not failing", gone(noHistory, stored("1:failed"), released("UninstallFailed"), func(in *decide.Input) { in.Release.Status.Released.ObservedGeneration-- }), want{verb: decide.FillStatus}},

		{"B5.7 no history: fill", gone(noHistory, stored("1:uninstalling")), want{verb: decide.FillStatus}},
		{"B5.7 no storage namespace: fill", gone(noStorageNamespace, stored("1:uninstalling")), want{verb: decide.FillStatus}},
		{"B5.7 both there: ask", gone(stored("1:uninstalling")), want{verb: decide.Remind}},
		{"B5.7 asked twice and handled: again", gone(asked(2, now), stored("1:uninstalling")), want{verb: decide.Remind}},
		{"B5.9 three handled: release", gone(asked(3, now), stored("1:uninstalling")), want{decide.DropFence, decide.UninstallUnproven}},
		{"B5.9 three handled: hold", gone(hold, asked(3, now), stored("1:uninstalling")), want{decide.Wait, decide.UninstallUnproven}},
		{"B5.9 three, the last not handled", gone(asked(3, now), stored("1:uninstalling"), func(in *decide.Input) { in.Release.Status.LastHandledReconcileAt = "older" }), want{verb: decide.Wait}},
		{"B5.9 UninstallFailed never gives way", gone(asked(7, now), stored("1:uninstalling"), released("UninstallFailed")), want{verb: decide.Wait}},
		{"B5.9 nor without a history", gone(asked(7, now), noHistory, stored("1:uninstalling"), released("UninstallFailed")), want{verb: decide.FillStatus}},

		{"B5.4 ten minutes, not through", base(fenced, deleted, longAgo), want{decide.Wait, decide.UninstallPending}},
		{"B5.4 ten minutes, failing", gone(longAgo, stored("1:uninstalling"), released("UninstallFailed")), want{decide.Wait, decide.UninstallPending}},
		{"B5.4 not a moment earlier", base(fenced, deleted, func(in *decide.Input) { in.Release.DeletionTimestamp = now.Add(-10 * time.Minute) }), want{verb: decide.Wait}},
		{"B4.6 remote, through, told", gone(remote, released("UninstallSucceeded")), want{verb: decide.DropFence}},
		{"B4.6 remote, through, not told: a local Secret proves nothing", gone(remote), want{decide.DropFence, decide.UninstallUnproven}},
		{"B4.6 remote, ours: lifted, its storage not asked", base(fenced, deleted, noHistory, remote, suspendedBy(ours())), want{verb: decide.Lift}},
		{"B Names: ours and disagreeing: lifted, no storage asked", base(fenced, deleted, suspendedBy(ours()), func(in *decide.Input) { in.Release.Status.StorageNamespace = "old" }), want{verb: decide.Lift}},
		{"B4.6 remote, not through", base(fenced, deleted, remote), want{verb: decide.Wait}},
		{"B4.1b claimed by another: not reminded", gone(claimed, noHistory, stored("1:uninstalling")), want{decide.DropFence, decide.UninstallUnproven}},
		{"B4.1b claimed by another: held", gone(hold, claimed, noHistory, stored("1:uninstalling")), want{decide.Wait, decide.UninstallUnproven}},
		{"B4.1b claimed by another: not asked either", gone(claimed, stored("1:uninstalling")), want{decide.DropFence, decide.UninstallUnproven}},
		{"B4.1b claimed by another, and failing: helm-controller's own uninstall", gone(claimed, stored("1:uninstalling"), released("UninstallFailed")), want{verb: decide.Wait}},
		{"B5.6 claimed by another, and proven", gone(claimed, stored(), released("UninstallSucceeded")), want{verb: decide.DropFence}},
		{"B4.1b storage elsewhere: not reminded", gone(elsewhere, noHistory, stored("1:uninstalling")), want{decide.DropFence, decide.UninstallUnproven}},
		{"B4.1b storage elsewhere, allowed", gone(elsewhere, func(in *decide.Input) { in.Options.AllowCrossNamespaceStorage = true }, noHistory, stored("1:uninstalling")), want{verb: decide.FillStatus}},
		{"B4.1b claimed by another, ours: nothing filled before the lift", base(fenced, deleted, noHistory, claimed, suspendedBy(ours()), stored("1:uninstalling")), want{verb: decide.Lift}},
		{"B Names: disagrees", gone(func(in *decide.Input) { in.Release.Status.StorageNamespace = "old" }), want{decide.Wait, decide.StorageRefused}},
	})
}

// B5.6: the reminder records that a revision of ours was never replaced.
func TestReminderMarksWhatCannotBeProven(t *testing.T) {
	for name, c := range map[string]struct {
		in   decide.Input
		want int
	}{
		"nothing deleted":                    {gone(stored("1:superseded")), 0},
		"deleted, the lower one is left":     {gone(stored("1:superseded"), reclaimed(2, 1), annotated(contract.ProcessedVersion, "2")), 2},
		"deleted, its number not written":    {gone(stored("1:superseded"), reclaimed(2, 4)), 2},
		"deleted and replaced":               {gone(stored("3:deployed", "1:superseded"), reclaimed(2, 1), annotated(contract.ProcessedVersion, "2")), 0},
		"noted, but still stored":            {gone(stored("2:uninstalling"), reclaimed(2, 4)), 0},
		"an earlier flux-plunger's number":   {gone(stored("1:superseded"), annotated(contract.ProcessedVersion, "2")), 0},
		"a note that somebody has corrupted": {gone(stored("1:superseded"), reclaimed(2, 4), annotated(contract.ProcessedUID, "u2")), 0},
	} {
		t.Run("B5.6 "+name, func(t *testing.T) {
			got := decide.Next(c.in)
			if got.Verb != decide.Remind || got.Unproven != c.want {
				t.Errorf("decided %s with unproven %d, want %s with %d", got.Verb, got.Unproven, decide.Remind, c.want)
			}
		})
	}
}

// B5.9, B8.3: the message names what is left and how to finish by hand.
func TestUnprovenNamesWhatIsLeft(t *testing.T) {
	got := decide.Next(gone(asked(3, now), stored("2:uninstalling", "1:superseded")))
	message := got.Events[0].Message
	for _, part := range []string{"ns/sh.helm.release.v1.app.v2", "ns/sh.helm.release.v1.app.v1", "helm uninstall app --namespace ns"} {
		if !strings.Contains(message, part) {
			t.Errorf("the message does not say %q: %s", part, message)
		}
	}
}

// B1.3: whatever else is true, a terminating release is never recovered, and
// its fence goes by one of the named ways only.
func TestTerminatingNeverBeginsARecovery(t *testing.T) {
	forbidden := map[decide.Verb]bool{decide.SetFence: true, decide.Acquire: true, decide.NoteUID: true, decide.DeleteRevision: true,
		decide.Rewrite: true, decide.Request: true, decide.ReadPayload: true, decide.Recheck: true, decide.NoteVersion: true}
	cases := 0
	edits := [][]edit{
		{nil, reclaim}, {nil, forgotten, upgrading}, {nil, fenced}, {nil, suspendedBy(ours()), suspendedBy(foreign()), suspendedBy(ours(), foreign())},
		{nil, stored(), stored("1:uninstalling"), stored("2:unknown", "1:failed")}, {nil, through}, {nil, draining},
		{nil, released("UninstallSucceeded"), released("UninstallFailed")}, {nil, held(1)},
	}
	var walk func(i int, chosen []edit)
	walk = func(i int, chosen []edit) {
		if i < len(edits) {
			for _, e := range edits[i] {
				walk(i+1, append(chosen[:len(chosen):len(chosen)], e))
			}
			return
		}
		in := base()
		for _, e := range append(chosen, deleted) {
			if e != nil {
				e(&in)
			}
		}
		cases++
		if got := decide.Next(in); forbidden[got.Verb] {
			t.Errorf("a terminating release: %s (%s)", got.Verb, got.Why)
		}
	}
	walk(0, nil)
	if cases != 4608 {
		t.Errorf("%d cases, the space has changed", cases)
	}
}

// B5.9, B8.3: what is let go without a proof names the Secrets that remain and
// the command that finishes by hand, and under hold how to let it go.
func TestUnprovenSaysWhatRemains(t *testing.T) {
	gaveWay := []edit{stored("2:failed", "1:superseded"), asked(3, now)}
	for name, c := range map[string]struct {
		in   decide.Input
		says []string
	}{
		"release": {gone(gaveWay...), []string{"ns/sh.helm.release.v1.app.v2", "ns/sh.helm.release.v1.app.v1", "helm uninstall app --namespace ns"}},
		"hold":    {gone(append(gaveWay, hold)...), []string{"ns/sh.helm.release.v1.app.v2", "helm uninstall app --namespace ns", "flux-plunger release-fence ns/app"}},
		"marked":  {gone(stored(), released("UninstallSucceeded"), annotated(contract.Unproven, "2")), []string{"revision 2", "helm uninstall app --namespace ns"}},
	} {
		got := decide.Next(c.in)
		if len(got.Events) != 1 || got.Events[0].Reason != decide.UninstallUnproven {
			t.Errorf("%s: tells %v", name, got.Events)
			continue
		}
		for _, say := range c.says {
			if !strings.Contains(got.Events[0].Message, say) {
				t.Errorf("%s: %q is not in %q", name, say, got.Events[0].Message)
			}
		}
	}
}

// older makes what was told of Released that of an earlier generation, so long ago.
func older(ago time.Duration) edit {
	return func(in *decide.Input) {
		in.Release.Status.Released.ObservedGeneration--
		in.Release.Status.Released.LastTransition = now.Add(-ago)
	}
}
