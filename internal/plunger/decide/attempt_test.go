package decide_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-project/holdfast/internal/plunger/decide"
)

// beforeHelm: helm-controller failed before Helm ran, so that only Ready tells of it;
// Released still is of the attempt that was refused.
func beforeHelm(change func(*decide.Condition)) edit {
	return func(in *decide.Input) {
		status := &in.Release.Status
		status.Released = decide.Condition{Status: "False", Reason: "UpgradeFailed", Message: trigger, ObservedGeneration: in.Release.Generation - 1}
		status.Ready = decide.Condition{Status: "False", Reason: "UninstallFailed", ObservedGeneration: in.Release.Generation,
			Message: "failed to confirm ServiceAccount 'app' can be used to uninstall release: etcdserver: request timed out"}
		change(&status.Ready)
	}
}

// B5.5, B5.9, B9.1: an uninstall that fails before Helm runs is one that fails: it is
// retried by helm-controller, asked for by nobody, and no policy gives way to it. A
// skip, which leaves the conditions of the generation before, keeps counting.
func TestB5_9_AFailureBeforeHelmRunsNeverGivesWay(t *testing.T) {
	failing := beforeHelm(func(*decide.Condition) {})
	older := beforeHelm(func(c *decide.Condition) { c.ObservedGeneration-- })
	three := asked(3, now.Add(-time.Second))
	check(t, []row{
		{"B5.5 once", gone(asked(1, now.Add(-time.Second)), failing, stored("1:uninstalling")), want{verb: decide.Wait}},
		{"B5.9 three handled", gone(three, failing, stored("1:uninstalling")), want{verb: decide.Wait}},
		{"B5.9 three handled, hold", gone(hold, three, failing, stored("1:uninstalling")), want{verb: decide.Wait}},
		{"B5.9 three handled, its history forgotten: filled again", gone(three, noHistory, failing, stored("1:uninstalling")), want{verb: decide.FillStatus}},
		{"B5.5 the storage emptied meanwhile", gone(noHistory, failing, stored()), want{verb: decide.Wait}},
		{"B5.4 for ten minutes", gone(longAgo, three, failing, stored("1:uninstalling")), want{decide.Wait, decide.UninstallPending}},
		{"B5.9 three skipped", gone(three, older, stored("1:uninstalling")), want{decide.DropFence, decide.UninstallUnproven}},
		{"B5.9 Ready is not False", gone(three, beforeHelm(func(c *decide.Condition) { c.Status = "Unknown" }), stored("1:uninstalling")), want{decide.DropFence, decide.UninstallUnproven}},
		{"B5.9 Ready for another reason", gone(three, beforeHelm(func(c *decide.Condition) { c.Reason = "UpgradeFailed" }), stored("1:uninstalling")), want{decide.DropFence, decide.UninstallUnproven}},
		{"B5.9 the uninstall of a remote one", gone(remote, failing), want{verb: decide.Wait}},
		{"B5.9 the uninstall of a remote one, its history forgotten: no local storage is asked", gone(remote, noHistory, failing), want{verb: decide.Wait}},
		{"B5.9 the uninstall of a remote one, by Helm", gone(remote, released("UninstallFailed")), want{verb: decide.Wait}},
		{"B5.6 failed before, and proven since", gone(noHistory, failing, stored(), released("UninstallSucceeded")), want{verb: decide.DropFence}},
	})
	if got := base(fenced, deleted, failing).Release.WaitsFor(); got != "helm-controller, whose uninstall fails and is retried: see its conditions Ready and Released" {
		t.Errorf("B8.4 it waits for %q", got)
	}
}

// B5.4, B5.9: what is held without a proof is told again after ten minutes, with what a
// person has to do, since nobody asks helm-controller any more.
func TestB5_4_WhatIsHeldUnprovenIsTold(t *testing.T) {
	gaveWay := []edit{hold, asked(3, now.Add(-time.Hour)), stored("1:uninstalling")}
	for name, c := range map[string]struct {
		in          decide.Input
		says, never string
	}{
		"for a minute":                {gone(gaveWay...), "", "flux reconcile"},
		"for longer":                  {gone(append(gaveWay, longAgo)...), "flux reconcile helmrelease app --namespace ns; to let it go without an uninstall: flux-plunger release-fence ns/app", "helm uninstall"},
		"asked in vain by nobody yet": {gone(hold, noHistory, stored(), longAgo), "asks helm-controller again; to let it go without an uninstall: flux-plunger release-fence ns/app", "flux reconcile"},
		"refused before the third":    {gone(hold, noHistory, elsewhere, stored("1:uninstalling"), asked(2, now.Add(-time.Hour)), longAgo), "asks helm-controller again; to let it go", "flux reconcile"},
		"nothing is stored any more":  {gone(hold, noHistory, stored(), asked(3, now.Add(-time.Hour)), longAgo), "asks helm-controller again; to let it go", "flux reconcile"},
		"claimed by others":           {gone(append(gaveWay, longAgo, claimed)...), "asks helm-controller again; to let it go without an uninstall: flux-plunger release-fence ns/app", "flux reconcile"},
	} {
		got := decide.Next(c.in)
		if got.Verb != decide.Wait || got.Events[0].Reason != decide.UninstallUnproven {
			t.Errorf("B5.9 %s: %s, %v", name, got.Verb, got.Events)
		}
		said := ""
		for _, event := range got.Events[1:] {
			if event.Reason != decide.UninstallPending {
				t.Errorf("B5.4 %s: told %s", name, event.Reason)
			}
			said = event.Message
		}
		if (c.says == "") != (said == "") || !strings.Contains(said, c.says) || strings.Contains(said, c.never) {
			t.Errorf("B5.4 %s: said %q", name, said)
		}
	}
}

// B5.4: it is our fence that holds, and it holds a delete.
func TestB5_4_OnlyWhatTheFenceHoldsIsLate(t *testing.T) {
	for name, c := range map[string]struct {
		in   decide.Input
		want int
	}{
		"deleted, fenced and late": {gone(longAgo), 1},
		"not late":                 {gone(), 0},
		"not fenced":               {base(deleted, longAgo), 0},
		"live":                     {base(fenced), 0},
	} {
		if got := c.in.Release.Late(now, "why"); len(got) != c.want || c.want == 1 && !strings.Contains(got[0].Message, "ten minutes: why; to let it go") {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// B5.6, B5.6a: a success that helm-controller only assumes, because it found nothing
// stored (F6), proves nothing; the same words on another release of it are none of this.
func TestB5_6a_AnAssumedUninstallIsUnproven(t *testing.T) {
	says := func(message string) edit {
		return func(in *decide.Input) { in.Release.Status.Released.Message = message }
	}
	assumed := says("Release ns/app.v1 was not found, assuming it is uninstalled")
	done := says("Helm uninstall succeeded for release ns/app.v1 with chart app@1")
	success := released("UninstallSucceeded")
	check(t, []row{
		{"B5.6 uninstalled", gone(asked(1, now.Add(-10*time.Second)), stored(), success, done), want{verb: decide.DropFence}},
		{"B5.6a assumed", gone(asked(1, now.Add(-10*time.Second)), stored(), success, assumed), want{decide.DropFence, decide.UninstallUnproven}},
		{"B5.6a assumed, nobody asked", gone(stored(), success, assumed), want{decide.DropFence, decide.UninstallUnproven}},
		{"B5.6a assumed, hold", gone(hold, stored(), success, assumed), want{decide.Wait, decide.UninstallUnproven}},
		{"B5.6 found uninstalled, its history kept", gone(keepHistory, stored("1:uninstalled"), success, says("Release ns/app.v1 was already uninstalled")), want{verb: decide.DropFence}},
		{"B4.6 assumed of a remote one", gone(remote, success, assumed), want{decide.DropFence, decide.UninstallUnproven}},
		{"B5.7 assumed, and revisions are stored: asked", gone(stored("1:uninstalling"), success, assumed), want{verb: decide.Remind}},
	})
	const want = "nothing proves that it was uninstalled: helm-controller found nothing stored and only assumed that it was uninstalled: " +
		"either an earlier attempt of its own was cut off, or failed, after it had emptied the storage, or somebody else did that; " +
		"look for what is left; finish by hand: helm uninstall app --namespace ns"
	if got := decide.Next(gone(stored(), success, assumed)); len(got.Events) != 1 || got.Events[0].Message != want {
		t.Errorf("said %v", got.Events)
	}
}
