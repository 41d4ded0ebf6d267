package decide_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
)

// The cells of the decision where two rules meet: each one differs from a cell of
// the other tables in one fact, and that fact must count.

func recovering(in *decide.Input)   { in.Memory.Recovering = true }
func contradicted(in *decide.Input) { in.Memory.Contradicted = 4 }
func untilLifted(in *decide.Input)  { in.Options.FenceUntil = decide.UntilLifted }
func disagrees(in *decide.Input)    { in.Release.Status.StorageNamespace = "old" }

func remembers(versions ...int) edit {
	return func(in *decide.Input) {
		in.Release.Status.History = nil
		for _, v := range versions {
			in.Release.Status.History = append(in.Release.Status.History, decide.Snapshot{Name: "app", Namespace: "ns", Version: v})
		}
	}
}

// handled: the last request that helm-controller says it has handled.
func handled(at string) edit {
	return func(in *decide.Input) { in.Release.Status.LastHandledReconcileAt = at }
}

// reconciling: helm-controller works, and nothing says at what.
func reconciling(in *decide.Input) {
	in.Release.Status.History = nil
	in.Release.Status.Ready = decide.Condition{Status: "Unknown", Message: "Fulfilling prerequisites", ObservedGeneration: in.Release.Generation}
}

// B3.4, B10.1: after our write helm-controller's own writes bring looks, and none
// of them needs the storage before it has stored a release or wants something.
func TestRecoveryUnderWay(t *testing.T) {
	asked := annotated(contract.RequestedUID, "u1")
	requested := annotated(contract.RequestedAt, "t")
	inUse := []edit{nameInUse, noHistory, fenced, recovering}
	stuck := []edit{forgotten, fenced, recovering}
	with := func(first []edit, more ...edit) decide.Input { return base(append(slices.Clone(first), more...)...) }
	check(t, []row{
		{"B3.4 nothing stored yet", base(reconciling, fenced, recovering), want{verb: decide.Wait}},
		{"B3.4 nothing stored yet, our request under way", base(reconciling, fenced, recovering, asked, requested), want{verb: decide.Wait}},
		{"B3.4 the fence was erased", base(reconciling, recovering), want{verb: decide.None}},
		{"B3.4 stored", base(fenced, recovering, remembers(1)), want{verb: decide.ReadStorage}},
		{"B3.4 not by this process", base(reconciling, fenced), want{verb: decide.ReadStorage}},
		{"B10.1 stuck and never asked", with(stuck), want{verb: decide.ReadStorage}},
		{"B10.1 stuck, asked and not handled", with(stuck, asked, requested), want{verb: decide.Wait}},
		{"B10.1 stuck, asked and handled", with(stuck, asked, requested, handled("t")), want{verb: decide.ReadStorage}},
		{"B10.1 stuck, and somebody else's request not handled", with(stuck, requested), want{verb: decide.ReadStorage}},
		{"B10.7 name in use and never asked", with(inUse), want{verb: decide.ReadStorage}},
		{"B10.7 name in use, asked and not handled", with(inUse, asked, requested), want{verb: decide.Wait}},
	})
}

func TestRefusedStorage(t *testing.T) {
	check(t, []row{
		{"B4.1b name in use, storage elsewhere", base(nameInUse, elsewhere, recoverUninstalled), want{decide.None, decide.StorageRefused}},
		{"B4.1b name in use, claimed twice", base(nameInUse, claimed, recoverUninstalled), want{decide.None, decide.StorageRefused}},
		{"B4.1b name in use, storage elsewhere and listed", base(nameInUse, elsewhere, recoverUninstalled, stored("1:uninstalled")), want{decide.None, decide.StorageRefused}},
		{"B4.1b claimed twice, forgotten and fenced, nothing to tell", base(reconciling, fenced, claimed), want{verb: decide.DropFence}},
	})
	for name, c := range map[string]struct {
		in      decide.Input
		claimed bool
		says    []string
	}{
		"storage elsewhere":          {base(forgotten, elsewhere), false, []string{"namespace other", "--allow-cross-namespace-storage"}},
		"claimed":                    {base(forgotten, claimed), true, []string{"release app in ns", "ns/other"}},
		"deleted, storage elsewhere": {gone(elsewhere, stored("1:uninstalling")), false, []string{"namespace other", "nothing proves"}},
		"deleted, claimed":           {gone(claimed, stored("1:uninstalling")), true, []string{"release app in ns", "ns/other", "nothing proves"}},
	} {
		got := decide.Next(c.in)
		if got.Claimed != c.claimed {
			t.Errorf("B4.1b %s: the others are told: %t, want %t", name, got.Claimed, c.claimed)
		}
		for _, part := range c.says {
			if !strings.Contains(got.Events[0].Message, part) {
				t.Errorf("B4.1b %s: the message does not say %q: %s", name, part, got.Events[0].Message)
			}
		}
	}
}

// B4.1b: whether others claim a release is asked for each that something could be
// done about, or it would be refused only after it was fenced.
func TestConcerns(t *testing.T) {
	for name, c := range map[string]struct {
		in   decide.Input
		want bool
	}{
		"healthy": {base(), false}, "fenced": {base(fenced), true}, "stuck": {base(forgotten, noStorageNamespace), true},
		"name in use": {base(nameInUse), true}, "forgotten": {base(upgrading), true},
	} {
		if got := c.in.Release.Concerns(); got != c.want {
			t.Errorf("B4.1b %s: %t, want %t", name, got, c.want)
		}
	}
	if base(forgotten, deleted).Release.Forgotten() {
		t.Error("B5.8: a terminating release is forgotten, and would be fenced")
	}
}

// remediated: helm-controller uninstalled its own install, which had failed.
func remediated(in *decide.Input) {
	in.Release.Status.History[0].Status = "uninstalled"
	in.Release.Status.Ready = decide.Condition{Status: "False", Reason: "RetriesExceeded", Message: "install retries exhausted", ObservedGeneration: 4}
}

func TestWhereRulesMeet(t *testing.T) {
	note := func(note string) edit { return annotated(contract.ProcessedUID, note) }
	blocked := func(in *decide.Input) { // stuck, and remembered all the same
		forgotten(in)
		remembers(1)(in)
	}
	check(t, []row{
		{"B3.4 another's suspension while an upgrade runs: the storage is asked", base(upgrading, fenced, suspendedBy(foreign())), want{verb: decide.ReadStorage}},
		{"B3.4 another's suspension, stuck and remembered: the fence leaves", base(blocked, fenced, suspendedBy(foreign()), stored("1:uninstalling")), want{verb: decide.DropFence}},
		{"B Names: another's suspension, remembered elsewhere: the fence waits", base(fenced, remembers(2), disagrees, suspendedBy(foreign()), stored("2:deployed")), want{verb: decide.Wait}},
		{"B Names: a hold of ours on a release that moves is lifted", base(reclaim, forgotten, held(2), disagrees), want{verb: decide.Lift}},
		{"B3.4 a fence that goes with the suspension belongs to reclaim", base(untilLifted, forgotten, held(2)), want{verb: decide.Lift}},
		{"B4.3 a hold asks for the storage also while an upgrade runs", base(reclaim, upgrading, held(2)), want{verb: decide.ReadStorage}},
		{"B4.2 a note of another revision is no note", base(reclaim, forgotten, held(2), stored("2:uninstalling", "1:uninstalling"), note("u1@4"), rechecked), want{verb: decide.NoteUID}},
		{"B4.2 a note without a UID is no note", base(reclaim, forgotten, held(2), stored("2:uninstalling"), note("@4"), rechecked), want{verb: decide.NoteUID}},
		{"B4.2 a note without a generation is no note", base(reclaim, forgotten, held(2), stored("2:uninstalling"), note("u2@x"), rechecked), want{verb: decide.NoteUID}},
		{"B4.2 a generation has more than one digit", base(reclaim, forgotten, generation(6), held(2), stored("2:uninstalling"), note("u2@10"), rechecked), want{verb: decide.DeleteRevision}},
		{"B4.2 another's deleted revision gets no number", base(reclaim, forgotten, held(2), stored("2:uninstalling"), note("u9@4")), want{verb: decide.Lift}},
		{"B5.8 fenced, upgrading and remembered: the storage is asked", base(fenced, upgrading, remembers(1)), want{verb: decide.ReadStorage}},
		{"B3.4 an unfenced release has no fence to leave", base(blocked, contradicted, stored("1:failed")), want{verb: decide.None}},
		{"B10.7 unfenced, name in use, not uninstalled", base(nameInUse, noHistory, stored("1:failed")), want{verb: decide.None}},
		{"B4.1a stuck and contradicted before: a fence stays while it is stuck", base(forgotten, unattempted, fenced, contradicted, stored("1:failed")), want{verb: decide.Wait}},
		{"B10.1 asked for what we repaired, unfenced: not again", base(forgotten, noStorageNamespace, stored("1:failed"), repaired, annotated(contract.RequestedUID, "u1")), want{verb: decide.Wait}},
		{"B10.7 uninstalled, and nobody is stuck: contradicted", base(noHistory, fenced, stored("1:uninstalled")), want{verb: decide.DropFence}},
		{"B10.7 name in use, of an older generation", base(nameInUse, generation(1)), want{verb: decide.None}},
		{"B10.7 name in use, told with status Unknown", base(nameInUse, func(in *decide.Input) { in.Release.Status.Ready.Status = "Unknown" }), want{verb: decide.None}},
		{"B4.1a stuck and remembered, one attempt: the fence stays", base(blocked, fenced, stored("1:failed")), want{verb: decide.Wait}},
		{"B4.1a stuck while a recovery is under way: not contradicted", base(forgotten, failures(2), fenced, recovering, stored("1:failed")), want{verb: decide.Wait}},
		{"B10.2 what we asked for is not stored any more: contradicted", base(noHistory, fenced, stored("2:deployed"), annotated(contract.RequestedUID, "u1")), want{verb: decide.DropFence}},
		{"B4.1a the payload of a failed label does not block, unfenced", base(forgotten, failures(2), noStorageNamespace, stored("1:failed"), payload("deployed")), want{decide.None, decide.StorageContradicts}},
		{"B4.1a another Secret's payload is no evidence, unfenced", base(forgotten, failures(2), noStorageNamespace, stored("1:failed"), payload("uninstalling"), func(in *decide.Input) { in.Storage.Payload.UID = "other" }), want{verb: decide.ReadStorage}},
		{"B4.1a reclaim goes by the label alone", base(reclaim, forgotten, failures(2), fenced, stored("1:failed"), payload("uninstalling")), want{decide.DropFence, decide.StorageContradicts}},
		{"B10.7 uninstalled, the flag given, and not stuck", base(noHistory, fenced, recoverUninstalled, stored("1:uninstalled")), want{verb: decide.DropFence}},
		{"B10.7 name in use, the flag given, and not uninstalled", base(nameInUse, recoverUninstalled, stored("1:failed")), want{verb: decide.None}},
		{"B10.7 the flag is repair's", base(reclaim, nameInUse, recoverUninstalled, stored("1:uninstalled")), want{decide.None, decide.StorageRefused}},
		{"B10.7 the payload is uninstalled, and the flag not given", base(forgotten, failures(2), fenced, stored("1:uninstalling"), payload("uninstalled")), want{decide.DropFence, decide.StorageContradicts}},
		{"B10.7 the flag given, and the payload deployed", base(nameInUse, fenced, recoverUninstalled, stored("1:uninstalled"), payload("deployed")), want{decide.DropFence, decide.StorageContradicts}},
		{"B4.2 only what is stuck waits", base(noHistory, fenced, stored("2:deployed"), recoveredBefore(1, 5*time.Second)), want{verb: decide.DropFence}},
		{"B3.3 given up, and two attempts since: still left alone", base(forgotten, failures(2), fenced, stored("1:uninstalling"), func(in *decide.Input) { in.Memory.GivenUp = 4 }), want{verb: decide.Wait}},
		{"B5.8 contradicted: blocked, with a deployed one below", base(noHistory, fenced, stored("2:uninstalling", "1:deployed")), want{verb: decide.DropFence}},
		{"B5.6 reclaimed and nothing stored at all since: kept", base(noHistory, fenced, stored(), reclaimed(2, 1)), want{verb: decide.Wait}},
		{"B5.6 reclaimed and replaced: contradicted", base(noHistory, fenced, stored("3:deployed"), reclaimed(2, 1)), want{verb: decide.DropFence}},
		{"B9.5 an install remediated, its retries exhausted: the fence leaves", base(fenced, remediated, stored()), want{verb: decide.DropFence}},
		{"B9.5 and after a reclaim", base(reclaim, fenced, remediated, stored(), reclaimed(2, 1)), want{verb: decide.DropFence}},
		{"B9.5 and whoever suspends", base(fenced, remediated, stored(), suspendedBy(foreign())), want{verb: decide.DropFence}},
		{"B9.1 remediated, its history kept and no release since: the fence leaves", base(fenced, remediated, stored("1:uninstalled")), want{verb: decide.DropFence}},
		{"B9.1 remediated, and another one stored since: the fence stays", base(fenced, remediated, stored("2:failed")), want{verb: decide.Wait}},
		{"B9.1 no storage namespace: an uninstall would be skipped", base(fenced, remediated, noStorageNamespace, stored()), want{verb: decide.Wait}},
		{"B9.1 its Secret deleted by somebody: the fence stays", base(fenced, stored()), want{verb: decide.Wait}},
		{"B9.1 nothing stored and nothing remembered, after a reclaim: the fence stays", base(reclaim, fenced, noHistory, stored(), reclaimed(2, 1)), want{verb: decide.Wait}},
		{"B6.2 shared and unfenced: our claim goes", base(draining, suspendedBy(ours(), foreign())), want{verb: decide.DropFence}},

		{"B5.3 through but for helm-controller's finalizer", base(fenced, deleted, func(in *decide.Input) { in.Release.Status.ObservedGeneration = in.Release.Generation }), want{verb: decide.Wait}},
		{"B5.3 a request that was removed again has not to be handled", gone(handled("y")), want{verb: decide.ReadStorage}},
		{"B5.5 failed in an older generation, with a history: asked", gone(stored("1:failed"), released("UninstallFailed"), func(in *decide.Input) { in.Release.Status.Released.ObservedGeneration-- }), want{verb: decide.Remind}},
		{"B5.5 failed, told with status Unknown, is not failing", gone(stored("1:failed"), released("UninstallFailed"), func(in *decide.Input) { in.Release.Status.Released.Status = "Unknown" }), want{verb: decide.Remind}},
		{"B5.6 somebody's later request does not take the proof away", gone(stored(), released("UninstallSucceeded"), annotated(contract.RequestedAt, now.Add(time.Hour).Format(time.RFC3339Nano)), handled(now.Add(time.Hour).Format(time.RFC3339Nano))), want{verb: decide.DropFence}},
		{"B5.6 somebody's request in another form, after ours", gone(stored(), asked(1, now), released("UninstallSucceeded"), annotated(contract.RequestedAt, "tomorrow"), handled("tomorrow")), want{verb: decide.DropFence}},
	})
}

// B5.7: what stands in an annotation that anybody can write.
func TestReminderCount(t *testing.T) {
	for text, want := range map[string]int{"": 0, "0": 0, "1": 1, "3": 3, "-1": 0, "x": 0, strings.Repeat("9", 30): 0} {
		if got := base(annotated(contract.Reminders, text)).Release.ReminderCount(); got != want {
			t.Errorf("%q counts as %d, want %d", text, got, want)
		}
	}
}

// B3.4, F5: helm-controller uninstalls the latest snapshot, wherever it stands.
func TestRemembered(t *testing.T) {
	for _, versions := range [][]int{{1, 3, 2}, {3, 2, 1}, {2, 1, 3}} {
		if got, ok := base(remembers(versions...)).Release.Remembered(); !ok || got.Version != 3 {
			t.Errorf("of %v: %d, %t", versions, got.Version, ok)
		}
	}
}

// B5.8: a fence that the storage contradicts is not tried again in the generation.
func TestContradictionsAreRemembered(t *testing.T) {
	for name, in := range map[string]decide.Input{
		"without a trigger": base(noHistory, fenced, stored("2:deployed")),
		"with the trigger":  base(forgotten, failures(2), fenced, stored()),
	} {
		if got := decide.Next(in); got.Verb != decide.DropFence || !got.Contradicted {
			t.Errorf("B5.8 %s: %s, contradicted %t", name, got.Verb, got.Contradicted)
		}
	}
}

// B Names: what helm-controller recorded is compared with both names.
func TestDisagrees(t *testing.T) {
	for name, c := range map[string]struct {
		snapshot decide.Snapshot
		want     bool
	}{
		"agrees":    {decide.Snapshot{Name: "app", Namespace: "ns", Version: 1}, false},
		"name":      {decide.Snapshot{Name: "other", Namespace: "ns", Version: 1}, true},
		"namespace": {decide.Snapshot{Name: "app", Namespace: "other", Version: 1}, true},
	} {
		in := base(func(in *decide.Input) { in.Release.Status.History = []decide.Snapshot{c.snapshot} })
		if got := in.Release.Disagrees(); got != c.want {
			t.Errorf("B Names %s: %t, want %t", name, got, c.want)
		}
	}
}

// B8.3: what a person is told names the release, the Secret and the numbers.
func TestMessagesNameThings(t *testing.T) {
	for name, c := range map[string]struct {
		in   decide.Input
		says []string
	}{
		"B4.2 backoff":     {base(forgotten, fenced, stored("1:uninstalling"), recoveredBefore(2, time.Second)), []string{"after 2 recoveries", "waits 20s"}},
		"B10.3 undecoded":  {base(forgotten, fenced, stored("1:uninstalling"), payload(""), func(in *decide.Input) { in.Storage.Payload.Undecodable = "no gzip" }), []string{"ns/sh.helm.release.v1.app.v1", "no gzip"}},
		"B4.2 earlier":     {base(reclaim, forgotten, fenced, stored("1:uninstalling"), annotated(contract.ProcessedVersion, "2")), []string{"earlier flux-plunger", "use --strategy=repair"}},
		"B4.1a attempts":   {base(forgotten, failures(2), fenced, stored()), []string{"last status is nothing:"}},
		"B4.1a the label":  {base(reclaim, forgotten, failures(2), fenced, stored("1:failed")), []string{"last status is failed"}},
		"B10.7 by hand":    {base(nameInUse, stored("1:uninstalled")), []string{"helm uninstall app --namespace ns"}},
		"B2.4 not ours":    {base(annotated(contract.ProcessedVersion, "1"), suspendedBy(foreign())), []string{"flux resume helmrelease app --namespace ns"}},
		"B5.4 pending":     {base(fenced, deleted, longAgo), []string{"flux-plunger release-fence ns/app"}},
		"B10.1 failed":     {base(recovering, refusedAgain), []string{"flux reconcile helmrelease app --namespace ns"}},
		"B5.6 unproven":    {gone(stored(), released("UninstallSucceeded"), annotated(contract.Unproven, "2")), []string{"revision 2 was deleted"}},
		"B2.3 left behind": {base(fenced, deleted, annotated(contract.ProcessedVersion, "2"), suspendedBy(foreign())), []string{"helm uninstall app --namespace ns"}},
	} {
		got := decide.Next(c.in)
		if len(got.Events) != 1 {
			t.Errorf("%s: tells %v", name, got.Events)
			continue
		}
		for _, part := range c.says {
			if !strings.Contains(got.Events[0].Message, part) {
				t.Errorf("%s: the message does not say %q: %s", name, part, got.Events[0].Message)
			}
		}
	}
}

// B8.3, B10.1: the end of a recovery is told of the present generation, of a live
// release, with a release stored, and not while helm-controller still works.
func TestNoEndIsTold(t *testing.T) {
	ready := func(change func(*decide.Condition)) edit {
		return func(in *decide.Input) { change(&in.Release.Status.Ready) }
	}
	attempt := func(change func(*decide.Condition)) edit {
		return func(in *decide.Input) { change(&in.Release.Status.Released) }
	}
	older := func(c *decide.Condition) { c.ObservedGeneration = 3 }
	unknown := func(c *decide.Condition) { c.Status = "Unknown" }
	check(t, []row{
		{"B8.3 it failed", base(recovering, refusedAgain), want{decide.None, decide.RecoveryFailed}},
		{"B8.3 Ready of an older generation", base(recovering, ready(older)), want{verb: decide.None}},
		{"B8.3 being deleted", base(recovering, deleted, ready(func(c *decide.Condition) { c.ObservedGeneration = 5 })), want{verb: decide.None}},
		{"B8.3 in the drain", base(recovering, draining), want{verb: decide.None}},
		{"B8.3 failed before", base(refusedAgain), want{verb: decide.None}},
		{"B8.3 not attempted", base(recovering, refusedAgain, unattempted), want{verb: decide.None}},
		{"B8.3 attempted in an older generation", base(recovering, refusedAgain, attempt(older)), want{verb: decide.None}},
		{"B8.3 trying again", base(recovering, refusedAgain, ready(unknown)), want{verb: decide.None}},
		{"B8.3 failed, and Ready of an older generation", base(recovering, refusedAgain, ready(older)), want{verb: decide.None}},
		{"B8.3 failed with nothing stored", base(recovering, refusedAgain, noHistory), want{verb: decide.None}},
		{"B8.3 stuck again", base(recovering, forgotten, remembers(1), stored("1:failed")), want{verb: decide.None}},
	})
}

// refusedAgain: helm-controller's next release failed for another reason.
func refusedAgain(in *decide.Input) {
	in.Release.Status.Ready = decide.Condition{Status: "False", Message: "hook failed", ObservedGeneration: 4}
	in.Release.Status.Released = in.Release.Status.Ready
}

// B5.9, B8.3: what a person is told about a release that cannot be proven.
func TestUnprovenMessages(t *testing.T) {
	for name, c := range map[string]struct {
		in    decide.Input
		says  []string
		never string
	}{
		"handled and not uninstalled": {gone(asked(3, now), stored("1:uninstalling")), []string{"handled 3 requests", "; stored still: ns/sh.helm.release.v1.app.v1"}, "release-fence"},
		"nothing is stored":           {gone(noHistory, stored()), []string{"helm uninstall app --namespace ns"}, "stored still"},
		"claimed":                     {gone(claimed, stored("1:uninstalling")), []string{"claimed by ns/other too", "stored still: ns/sh.helm.release.v1.app.v1"}, "own release name"},
		"claimed and held":            {gone(hold, claimed, stored("1:uninstalling")), []string{"; to let it go: flux-plunger release-fence ns/app"}, "helm uninstall"},
		"kept as uninstalled":         {gone(keepHistory, noHistory, stored("1:uninstalled")), []string{"its latest revision is uninstalled", "stored still: ns/sh.helm.release.v1.app.v1"}, "storage is empty"},
		"held":                        {gone(hold, noHistory, stored()), []string{"flux-plunger release-fence ns/app"}, "stored still"},
	} {
		message := decide.Next(c.in).Events[0].Message
		for _, part := range c.says {
			if !strings.Contains(message, part) {
				t.Errorf("B5.9 %s: the message does not say %q: %s", name, part, message)
			}
		}
		if strings.Contains(message, c.never) {
			t.Errorf("B5.9 %s: the message says %q: %s", name, c.never, message)
		}
	}
	names := base(stored("2:failed", "1:superseded")).Storage.Names()
	if want := []string{"ns/sh.helm.release.v1.app.v2", "ns/sh.helm.release.v1.app.v1"}; !slices.Equal(names, want) {
		t.Errorf("the stored ones are %v, want %v", names, want)
	}
}

// B8.3, B8.4: words that flags, events, alerts and logs are made of do not change.
func TestWords(t *testing.T) {
	reasons := []string{"SuspensionLeftAlone", "SuspensionNotOwned", "RecoveryDeferred", "SuspensionHeld", "UninstallPending",
		"UninstallUnproven", "DeletedWhileSuspended", "UninstallSkipped", "RemoteSkipped", "StorageRefused", "RecoveryBackoff",
		"RecoveryFailed", "Recovered", "StorageContradicts", "DeletedUnfenced", "DrainAborted", "FenceKept"}
	for i, reason := range decide.Reasons() {
		if string(reason) != reasons[i] {
			t.Errorf("reason %d is %q, want %q", i, reason, reasons[i])
		}
	}
	for got, want := range map[string]string{
		string(decide.Repair): "repair", string(decide.Reclaim): "reclaim",
		string(decide.UntilRemembered): "remembered", string(decide.UntilLifted): "lifted",
		string(decide.ReleaseUnproven): "release", string(decide.HoldUnproven): "hold",
		decide.Running.String(): "running", decide.Ours.String(): "ours", decide.Shared.String(): "shared", decide.Foreign.String(): "foreign",
		string(decide.None): "none", string(decide.Wait): "wait",
		string(decide.ReadStorage): "read-storage", string(decide.ReadPayload): "read-payload", string(decide.Recheck): "recheck-revision",
		string(decide.SetFence): "set-fence", string(decide.Acquire): "acquire", string(decide.NoteUID): "note-uid",
		string(decide.DeleteRevision): "delete-revision", string(decide.NoteVersion): "note-version", string(decide.Rewrite): "rewrite-status",
		string(decide.Request): "request-reconcile", string(decide.Lift): "lift", string(decide.DropFence): "drop-fence",
		string(decide.FillStatus): "fill-status", string(decide.MarkUnproven): "mark-unproven", string(decide.Remind): "remind",
	} {
		if got != want {
			t.Errorf("the word is %q, want %q", got, want)
		}
	}
}

// B5.8: a fence that is set is not dropped again on the same facts, or the two
// writes would chase each other. Only a contradiction ends it, and is remembered.
func TestAFenceIsNotSetToBeDropped(t *testing.T) {
	cases := 0
	dimensions := [][]edit{
		{nil, forgotten, upgrading, nameInUse, covered}, {nil, remembers(1), noHistory}, {nil, reclaim}, {nil, recoverUninstalled},
		{nil, elsewhere, claimed, disagrees}, {nil, remote}, {nil, suspendedBy(foreign())}, {nil, failures(2)}, {nil, recovering},
		{nil, stored(), stored("1:uninstalling"), stored("2:uninstalled"), stored("2:unknown", "1:deployed")},
	}
	var walk func(i int, chosen []edit)
	walk = func(i int, chosen []edit) {
		if i < len(dimensions) {
			for _, e := range dimensions[i] {
				walk(i+1, append(chosen[:len(chosen):len(chosen)], e))
			}
			return
		}
		chosen = slices.DeleteFunc(slices.Clone(chosen), func(e edit) bool { return e == nil })
		cases++
		if decide.Next(base(chosen...)).Verb != decide.SetFence {
			return
		}
		if got := decide.Next(base(append(chosen, fenced)...)); got.Verb == decide.DropFence && !got.Contradicted {
			t.Errorf("set and dropped again: %s", got.Why)
		}
	}
	walk(0, nil)
	if cases != 5*3*2*2*4*2*2*2*2*5 {
		t.Errorf("%d cases, the space has changed", cases)
	}
}
