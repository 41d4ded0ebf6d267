package decide_test

import (
	"testing"
	"time"

	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
)

func remote(in *decide.Input) { in.Release.Spec.Remote = true }

func elsewhere(in *decide.Input) {
	in.Release.Spec.StorageNamespace, in.Release.Status.StorageNamespace = "other", "other"
}

func claimed(in *decide.Input) { in.Claimants = []string{"ns/other"} }

// unattempted: nothing but Ready tells of an attempt.
func unattempted(in *decide.Input) { in.Release.Status.Released = decide.Condition{} }

// covered: what helm-controller said after its attempt was refused.
func covered(in *decide.Input) {
	in.Release.Status.Ready = decide.Condition{Status: "False", Reason: "SourceNotReady", Message: "OCIRepository 'ns/app' is not ready: gone", ObservedGeneration: 4}
}

func TestLiveReleaseWithoutFence(t *testing.T) {
	check(t, []row{
		{"B1.1 gone", decide.Input{}, want{verb: decide.None}},
		{"B1.1 healthy", base(), want{verb: decide.None}},
		{"B5.8 ordinary upgrade with history", base(upgrading, func(in *decide.Input) {
			in.Release.Status.History = []decide.Snapshot{{Name: "app", Namespace: "ns", Version: 1}}
		}), want{verb: decide.None}},
		{"B5.8 ordinary install", base(noHistory, func(in *decide.Input) {
			in.Release.Status.Ready = decide.Condition{Status: "Unknown", Message: "Running 'install' action with timeout of 5m0s", ObservedGeneration: 4}
		}), want{verb: decide.None}},
		{"B5.8 upgrade without a history", base(upgrading), want{verb: decide.SetFence}},
		{"B5.8 trigger without a history", base(forgotten), want{verb: decide.SetFence}},
		{"B5.8 our repair's upgrade fails for another reason, and the fence was erased", base(unrendered, annotated(contract.RequestedUID, "u1")), want{verb: decide.SetFence}},
		{"B5.8 after our delete too", base(reclaim, unrendered, annotated(contract.ProcessedUID, "u1@3")), want{verb: decide.SetFence}},
		{"B3.4 the fence went with the lift, by flag", base(reclaim, untilLifted, unrendered, annotated(contract.ProcessedUID, "u1@3")), want{verb: decide.None}},
		{"B3.4 by flag too: refused again", base(reclaim, untilLifted, forgotten, annotated(contract.ProcessedUID, "u1@3")), want{verb: decide.SetFence}},
		{"B3.4 by flag too: refused, and only Ready says so", base(reclaim, untilLifted, forgotten, func(in *decide.Input) { in.Release.Status.Released = decide.Condition{} }), want{verb: decide.SetFence}},
		{"B3.4 by flag too: upgrading", base(reclaim, untilLifted, upgrading), want{verb: decide.SetFence}},
		{"B3.4 by flag too: refused before, and covered since", base(reclaim, untilLifted, forgotten, func(in *decide.Input) { in.Release.Status.Ready.Message = "source not ready" }), want{verb: decide.SetFence}},
		{"B5.8 repaired long ago, uninstalled since and installed under another name", base(unrendered, annotated(contract.RequestedUID, "u1"), func(in *decide.Input) { in.Release.Status.Released.Reason = "UninstallSucceeded" }), want{verb: decide.None}},
		{"B5.8 restored with our note: no attempt yet", base(unrendered, annotated(contract.RequestedUID, "u1"), func(in *decide.Input) { in.Release.Status.Released = decide.Condition{} }), want{verb: decide.None}},
		{"B5.8 nothing of ours: an install that fails", base(unrendered), want{verb: decide.None}},
		{"B5.8 under reclaim too", base(reclaim, forgotten), want{verb: decide.SetFence}},
		{"B5.8 no storage namespace: not forgotten, so the storage is asked", base(forgotten, noStorageNamespace), want{verb: decide.ReadStorage}},
		{"B5.8 no finalizer of helm-controller: its patch would erase ours", base(upgrading, func(in *decide.Input) { in.Release.Finalizers = nil }), want{verb: decide.None}},
		{"B5.8 contradicted in this generation", base(upgrading, func(in *decide.Input) { in.Memory.Contradicted = 4 }), want{verb: decide.None}},
		{"B5.8 contradicted in this generation, under reclaim, whose evidence is the label", base(reclaim, forgotten, contradicted, stored("1:uninstalling")), want{verb: decide.SetFence}},
		{"B5.8 contradicted in an older generation", base(upgrading, func(in *decide.Input) { in.Memory.Contradicted = 3 }), want{verb: decide.SetFence}},
		{"B4.1 a trigger of an older generation", base(forgotten, unattempted, generation(1)), want{verb: decide.None}},
		{"B4.1 a trigger while Ready is True", base(forgotten, unattempted, func(in *decide.Input) { in.Release.Status.Ready.Status = "True" }), want{verb: decide.None}},
		{"B4.1 a condition without a generation counts for the observed one", base(forgotten, unattempted, func(in *decide.Input) { in.Release.Status.Ready.ObservedGeneration = 0 }), want{verb: decide.SetFence}},
		{"B4.1 and not for another", base(forgotten, unattempted, generation(1), func(in *decide.Input) { in.Release.Status.Ready.ObservedGeneration = 0 }), want{verb: decide.None}},
		{"B4.1 another error", base(forgotten, unattempted, func(in *decide.Input) { in.Release.Status.Ready.Message = "chart does not render" }), want{verb: decide.None}},

		{"B5.8 refused, and covered by another message: fenced", base(forgotten, covered), want{verb: decide.SetFence}},
		{"B5.8 under reclaim too: fenced", base(reclaim, forgotten, covered), want{verb: decide.SetFence}},
		{"B5.8 refused, and new values since: fenced", base(forgotten, generation(1)), want{verb: decide.SetFence}},
		{"B5.8 refused, and remembered again: not forgotten", base(forgotten, covered, func(in *decide.Input) {
			in.Release.Status.History = []decide.Snapshot{{Name: "app", Namespace: "ns", Version: 1}}
		}), want{verb: decide.None}},
		{"B5.8 released since: not forgotten", base(forgotten, covered, func(in *decide.Input) { in.Release.Status.Released.Status = "True" }), want{verb: decide.None}},
		{"B5.8 failed for another reason: not forgotten", base(forgotten, covered, func(in *decide.Input) { in.Release.Status.Released.Message = "boom" }), want{verb: decide.None}},
		{"B5.8 refused and covered, contradicted in this generation", base(forgotten, covered, func(in *decide.Input) { in.Memory.Contradicted = 4 }), want{verb: decide.None}},
		{"B5.8 refused and covered, suspended by another", base(forgotten, covered, suspendedBy(foreign())), want{verb: decide.None}},
		{"B5.8 refused and covered, remote", base(forgotten, covered, remote), want{verb: decide.None}},
		{"B5.8 refused and covered, storage elsewhere", base(forgotten, covered, elsewhere), want{verb: decide.None}},

		{"B4.6 remote and stuck", base(forgotten, remote), want{decide.None, decide.RemoteSkipped}},
		{"B4.6 remote and upgrading", base(upgrading, remote), want{verb: decide.None}},
		{"B4.6 remote, and suspended by us from other days, the fence gone", base(forgotten, remote, suspendedBy(ours())), want{verb: decide.DropFence}},
		{"B4.6 remote, and fenced from other days", base(forgotten, fenced, remote), want{verb: decide.DropFence}},
		{"B4.6 remote, fenced from other days and suspended by another: no local Secret is asked", base(fenced, remote, suspendedBy(foreign())), want{verb: decide.DropFence}},
		{"B4.6 remote, stuck and suspended by another", base(forgotten, remote, suspendedBy(foreign())), want{decide.None, decide.SuspensionLeftAlone}},
		{"B4.1b storage elsewhere", base(forgotten, elsewhere), want{decide.None, decide.StorageRefused}},
		{"B4.1b storage elsewhere, quiet", base(elsewhere), want{verb: decide.None}},
		{"B4.1b storage elsewhere, upgrading without a history", base(upgrading, elsewhere), want{verb: decide.None}},
		{"B4.1b storage elsewhere, fenced", base(forgotten, fenced, elsewhere), want{decide.DropFence, decide.StorageRefused}},
		{"B4.1b storage elsewhere, allowed", base(forgotten, elsewhere, func(in *decide.Input) { in.Options.AllowCrossNamespaceStorage = true }), want{verb: decide.SetFence}},
		{"B4.1b claimed twice", base(forgotten, claimed), want{decide.None, decide.StorageRefused}},
		{"B4.1b claimed twice, fenced", base(forgotten, fenced, claimed), want{decide.DropFence, decide.StorageRefused}},
		{"B Names: status and specification disagree on the storage", base(forgotten, func(in *decide.Input) { in.Release.Status.StorageNamespace = "old" }), want{decide.None, decide.StorageRefused}},
		{"B Names: disagree, fenced: nothing is done", base(forgotten, fenced, func(in *decide.Input) { in.Release.Status.StorageNamespace = "old" }), want{decide.Wait, decide.StorageRefused}},
		{"B Names: disagree on the name", base(forgotten, func(in *decide.Input) {
			in.Release.Status.History = []decide.Snapshot{{Name: "before", Namespace: "ns", Version: 1}}
		}), want{decide.None, decide.StorageRefused}},

		{"B2.4 foreign suspension, quiet", base(suspendedBy(foreign())), want{verb: decide.None}},
		{"B2.4 foreign suspension, stuck", base(forgotten, suspendedBy(foreign())), want{decide.None, decide.SuspensionLeftAlone}},
		{"B2.4 foreign suspension, stuck in the generation before it", base(forgotten, generation(1), suspendedBy(foreign())), want{decide.None, decide.SuspensionLeftAlone}},
		{"B2.4 foreign suspension, another error", base(forgotten, covered, suspendedBy(foreign())), want{verb: decide.None}},
		{"B2.4 foreign suspension, Ready is not False", base(forgotten, func(in *decide.Input) { in.Release.Status.Ready.Status = "Unknown" }, suspendedBy(foreign())), want{verb: decide.None}},
		{"B2.4 foreign suspension, processed", base(suspendedBy(foreign()), annotated(contract.ProcessedVersion, "3")), want{decide.None, decide.SuspensionNotOwned}},
		{"B2.4 foreign suspension, processed and stuck", base(forgotten, suspendedBy(foreign()), annotated(contract.ProcessedVersion, "3")), want{decide.None, decide.SuspensionNotOwned}},
		{"B5.8 foreign suspension, forgotten: not fenced", base(upgrading, suspendedBy(foreign())), want{verb: decide.None}},
		{"B2.2 shared, unfenced: only our claim goes", base(suspendedBy(ours(), foreign())), want{verb: decide.DropFence}},
		{"B2.2 shared, fenced: our claim goes, the fence stays", base(suspendedBy(ours(), foreign()), fenced), want{verb: decide.Lift}},
	})
}

func TestLiveFence(t *testing.T) {
	remembered := func(in *decide.Input) {
		in.Release.Status.History = []decide.Snapshot{{Name: "app", Namespace: "ns", Version: 2}}
	}
	check(t, []row{
		{"B5.8 helm-controller upgrades: wait for it", base(upgrading, fenced), want{verb: decide.Wait}},
		{"B3.4 needs the storage", base(fenced), want{verb: decide.ReadStorage}},
		{"B3.4 remembered, Ready", base(fenced, remembered, stored("2:deployed", "1:superseded")), want{verb: decide.DropFence}},
		{"B3.4 remembered, not Ready", base(fenced, remembered, stored("2:failed", "1:superseded"), func(in *decide.Input) {
			in.Release.Status.Ready = decide.Condition{Status: "False", Message: "boom", ObservedGeneration: 4}
		}), want{verb: decide.DropFence}},
		{"B3.4 an older one remembered", base(fenced, stored("2:deployed", "1:superseded")), want{verb: decide.Wait}},
		{"B3.4 no storage namespace", base(fenced, remembered, noStorageNamespace, stored("2:deployed")), want{verb: decide.Wait}},
		{"B3.4 whoever suspends: read", base(fenced, remembered, suspendedBy(foreign())), want{verb: decide.ReadStorage}},
		{"B3.4 whoever suspends", base(fenced, remembered, suspendedBy(foreign()), stored("2:deployed")), want{verb: decide.DropFence}},
		{"B3.4 suspended by another and not remembered", base(fenced, noHistory, suspendedBy(foreign()), stored("2:deployed")), want{verb: decide.Wait}},
		{"B10.6 nothing else under another's suspension", base(forgotten, fenced, suspendedBy(foreign()), stored("1:uninstalling")), want{decide.Wait, decide.SuspensionLeftAlone}},
		{"B5.8 contradicted: adopted and deployed", base(noHistory, fenced, stored("2:deployed")), want{verb: decide.DropFence}},
		{"B5.8 an upgrade runs, or was cut off with helm-controller: kept", base(noHistory, fenced, stored("2:pending-upgrade", "1:superseded")), want{verb: decide.Wait}},
		{"B5.8 contradicted: nothing stored", base(noHistory, fenced, stored()), want{verb: decide.DropFence}},
		{"B5.8 blocked without a trigger yet: kept", base(noHistory, fenced, stored("1:uninstalling")), want{verb: decide.Wait}},
		{"B10.2 repaired and not stored again: kept", base(noHistory, fenced, stored("1:failed"), repaired), want{verb: decide.Wait}},
		{"B10.2 the repaired one is the latest, of another status by now: kept", base(noHistory, fenced, stored("1:deployed"), annotated(contract.RequestedUID, "u1")), want{verb: decide.Wait}},
		{"B5.8 the repaired one is stored below: contradicted", base(noHistory, fenced, stored("2:deployed", "1:superseded"), annotated(contract.RequestedUID, "u1")), want{verb: decide.DropFence}},
		{"B5.8 asked for it, and nothing stored: contradicted", base(noHistory, fenced, stored(), annotated(contract.RequestedUID, "")), want{verb: decide.DropFence}},
		{"B4.1a a label that lies, above one repaired before: the payload is looked at", base(forgotten, failures(7), fenced, stored("2:failed", "1:superseded"), annotated(contract.RequestedUID, "u1")), want{verb: decide.ReadPayload}},
		{"B4.1a a chart's message, above one repaired before", base(forgotten, failures(5), fenced, stored("3:deployed", "1:superseded"), annotated(contract.RequestedUID, "u1")), want{decide.DropFence, decide.StorageContradicts}},
		{"B10.2 a recovery of this process: kept", base(noHistory, fenced, stored("2:failed"), func(in *decide.Input) { in.Memory.Recovering = true }), want{verb: decide.Wait}},
		{"B5.6 reclaimed and nothing stored since: kept", base(noHistory, fenced, stored("1:superseded"), reclaimed(2, 3)), want{verb: decide.Wait}},
		{"B5.8 refused and covered, blocked: fenced, and no recovery begins", base(forgotten, covered, fenced, stored("1:uninstalling")), want{verb: decide.Wait}},
		{"B5.8 under reclaim neither", base(reclaim, forgotten, covered, fenced, stored("1:uninstalling")), want{verb: decide.Wait}},
		{"B4.1a refused once and covered, a label says failed: kept", base(forgotten, covered, fenced, stored("1:failed")), want{verb: decide.Wait}},
		{"B4.1a refused twice and covered, a label says failed", base(forgotten, covered, failures(2), fenced, stored("1:failed")), want{verb: decide.DropFence}},
		{"B5.8 trigger, none stored, one attempt: kept", base(forgotten, fenced, stored()), want{verb: decide.Wait}},
		{"B5.8 trigger, none stored, two attempts", base(forgotten, failures(2), fenced, stored()), want{decide.DropFence, decide.StorageContradicts}},
		{"B4.1 trigger, a deployed one, one attempt", base(forgotten, fenced, stored("2:uninstalling", "1:deployed")), want{verb: decide.Wait}},
		{"B4.1 trigger, a deployed one, two attempts", base(forgotten, failures(2), fenced, stored("2:uninstalling", "1:deployed")), want{decide.DropFence, decide.StorageContradicts}},
	})
}

func TestRepair(t *testing.T) {
	check(t, []row{
		{"B4.1 the storage decides", base(forgotten, fenced), want{verb: decide.ReadStorage}},
		{"B10.1 blocked: read the payload", base(forgotten, fenced, stored("1:uninstalling")), want{verb: decide.ReadPayload}},
		{"B4.1a unknown blocks too", base(forgotten, fenced, stored("1:unknown")), want{verb: decide.ReadPayload}},
		{"B10.1 blocked, unfenced: the fence first", base(forgotten, stored("1:uninstalling")), want{verb: decide.SetFence}},
		{"B10.1 rewrite", base(forgotten, fenced, stored("1:uninstalling"), payload("uninstalling")), want{verb: decide.Rewrite}},
		{"B10.1 rewrite unknown", base(forgotten, fenced, stored("2:unknown", "1:superseded"), payload("unknown")), want{verb: decide.Rewrite}},
		{"B10.1 a payload of another Secret is no evidence", base(forgotten, fenced, stored("1:uninstalling"), payload("uninstalling"), func(in *decide.Input) { in.Storage.Payload.UID = "other" }), want{verb: decide.ReadStorage}},
		{"B10.3 undecodable", base(forgotten, fenced, stored("1:uninstalling"), payload(""), func(in *decide.Input) { in.Storage.Payload.Undecodable = "no gzip" }), want{decide.Wait, decide.StorageRefused}},
		{"B4.1a the payload does not block, one attempt: the fence stays", base(forgotten, fenced, stored("1:uninstalling"), payload("failed")), want{verb: decide.Wait}},
		{"B4.1a the payload does not block, two attempts", base(forgotten, failures(2), fenced, stored("1:uninstalling"), payload("failed")), want{decide.DropFence, decide.StorageContradicts}},
		{"B5.8 contradicted by the payload: not fenced again on the label", base(forgotten, failures(2), contradicted, stored("1:uninstalling"), payload("failed")), want{decide.None, decide.StorageContradicts}},
		{"B5.8 contradicted: before another fence the payload is read", base(forgotten, contradicted, stored("1:uninstalling")), want{verb: decide.ReadPayload}},
		{"B5.8 contradicted, but for a rewrite", base(forgotten, contradicted, stored("1:uninstalling"), payload("uninstalling")), want{verb: decide.SetFence}},
		{"B5.8 contradicted, and the payload is another Secret's", base(forgotten, contradicted, stored("1:uninstalling"), payload("uninstalling"), func(in *decide.Input) { in.Storage.Payload.UID = "other" }), want{verb: decide.ReadStorage}},
		{"B10.4 pending-upgrade, one attempt", base(forgotten, fenced, stored("2:pending-upgrade", "1:superseded")), want{verb: decide.Wait}},
		{"B10.4 pending-upgrade, two attempts: the payload is looked at", base(forgotten, failures(2), fenced, stored("2:pending-upgrade", "1:superseded")), want{verb: decide.ReadPayload}},
		{"B10.4 pending-upgrade is never rewritten", base(forgotten, failures(2), fenced, stored("2:pending-upgrade", "1:superseded"), payload("pending-upgrade")), want{decide.DropFence, decide.StorageContradicts}},
		{"B10.4 deployed is never rewritten", base(forgotten, failures(2), fenced, stored("2:failed"), payload("deployed")), want{decide.DropFence, decide.StorageContradicts}},
		{"B4.1a label failed, one attempt", base(forgotten, fenced, stored("1:failed")), want{verb: decide.Wait}},
		{"B4.1a label failed, two attempts", base(forgotten, failures(2), fenced, stored("1:failed")), want{verb: decide.ReadPayload}},
		{"B4.1a label failed, payload blocks: both are written", base(forgotten, failures(2), fenced, stored("1:failed"), payload("uninstalling")), want{verb: decide.Rewrite}},
		{"B4.1a and with the fence first", base(forgotten, failures(2), noStorageNamespace, stored("1:failed"), payload("uninstalling")), want{verb: decide.SetFence}},
		{"B4.1a contradicted in this generation already", base(forgotten, failures(3), stored("1:failed"), func(in *decide.Input) { in.Memory.Contradicted = 4 }), want{verb: decide.None}},
		{"B10.1 repaired: ask", base(forgotten, fenced, stored("1:failed"), repaired), want{verb: decide.Request}},
		{"B10.1 repaired and asked: not again", base(forgotten, fenced, stored("1:failed"), repaired, annotated(contract.RequestedUID, "u1")), want{verb: decide.Wait}},
		{"B10.1 asked for another revision: ask", base(forgotten, fenced, stored("2:failed"), repaired, annotated(contract.RequestedUID, "u1")), want{verb: decide.Request}},
		{"B10.7 uninstalled is said", base(forgotten, fenced, stored("1:uninstalled")), want{decide.Wait, decide.StorageRefused}},
		{"B10.7 name in use: looked at", base(nameInUse), want{verb: decide.ReadStorage}},
		{"B10.7 name in use: said", base(nameInUse, stored("1:uninstalled")), want{decide.None, decide.StorageRefused}},
		{"B10.7 recovered by flag", base(nameInUse, fenced, recoverUninstalled, stored("1:uninstalled"), payload("uninstalled")), want{verb: decide.Rewrite}},
		{"B10.7 by flag, fence first", base(nameInUse, recoverUninstalled, stored("1:uninstalled")), want{verb: decide.SetFence}},
		{"B4.2 stuck again: waits", base(forgotten, fenced, stored("1:uninstalling"), recoveredBefore(1, 5*time.Second)), want{decide.Wait, decide.RecoveryBackoff}},
		{"B4.2 the delay is over", base(forgotten, fenced, stored("1:uninstalling"), recoveredBefore(1, 10*time.Second)), want{verb: decide.ReadPayload}},
		{"B4.2 and grows", base(forgotten, fenced, stored("1:uninstalling"), recoveredBefore(2, 19*time.Second)), want{decide.Wait, decide.RecoveryBackoff}},
		{"B4.2 doubled is over", base(forgotten, fenced, stored("1:uninstalling"), recoveredBefore(2, 20*time.Second)), want{verb: decide.ReadPayload}},
		{"B4.2 bounded", base(forgotten, fenced, stored("1:uninstalling"), recoveredBefore(50, 15*time.Minute)), want{verb: decide.ReadPayload}},
		{"B4.4 a suspension of ours under repair is lifted", base(forgotten, held(1)), want{verb: decide.Lift}},
		{"B3.3 given up in this generation", base(forgotten, fenced, stored("1:uninstalling"), func(in *decide.Input) { in.Memory.GivenUp = 4 }), want{verb: decide.Wait}},
	})
}

func nameInUse(in *decide.Input) {
	in.Release.Status.Ready = decide.Condition{Status: "False", ObservedGeneration: 4,
		Message: "Helm install failed for release ns/app: cannot reuse a name that is still in use"}
}

func recoverUninstalled(in *decide.Input) { in.Options.RecoverUninstalled = true }

func recoveredBefore(times int, ago time.Duration) edit {
	return func(in *decide.Input) {
		in.Memory.Recoveries, in.Memory.LastRecovery = times, now.Add(-ago)
	}
}

func TestReclaim(t *testing.T) {
	noted := annotated(contract.ProcessedUID, "u2@4")
	check(t, []row{
		{"B4.3 acquire", base(reclaim, forgotten, fenced, stored("2:uninstalling", "1:superseded")), want{verb: decide.Acquire}},
		{"B5.8 fence first", base(reclaim, forgotten, stored("2:uninstalling")), want{verb: decide.SetFence}},
		{"B4.1 a deployed one", base(reclaim, forgotten, fenced, stored("2:uninstalling", "1:deployed")), want{verb: decide.Wait}},
		{"B4.1a failed does not block", base(reclaim, forgotten, fenced, stored("1:failed")), want{verb: decide.Wait}},
		{"B4.1a and is said once after two attempts, no payload read", base(reclaim, forgotten, failures(2), fenced, stored("1:failed")), want{decide.DropFence, decide.StorageContradicts}},
		{"B4.1c the next lower is uninstalled", base(reclaim, forgotten, fenced, stored("2:uninstalling", "1:uninstalled")), want{decide.Wait, decide.StorageRefused}},
		{"B4.2 an earlier version's number", base(reclaim, forgotten, fenced, stored("1:uninstalling"), annotated(contract.ProcessedVersion, "2")), want{decide.Wait, decide.StorageRefused}},
		{"B4.2 the number of an older one", base(reclaim, forgotten, fenced, stored("2:uninstalling"), annotated(contract.ProcessedVersion, "2")), want{verb: decide.Acquire}},
		{"B4.2 a UID beside it: the lower one is treated on its own evidence", base(reclaim, forgotten, fenced, stored("1:uninstalling"), annotated(contract.ProcessedVersion, "2"), annotated(contract.ProcessedUID, "u2@2")), want{verb: decide.Acquire}},
		{"B4.2 the same UID noted by an older hold", base(reclaim, forgotten, fenced, stored("2:uninstalling"), annotated(contract.ProcessedUID, "u2@2")), want{verb: decide.Acquire}},

		{"B4.3 hold: list", base(reclaim, forgotten, held(2)), want{verb: decide.ReadStorage}},
		{"B4.3 hold: note first", base(reclaim, forgotten, held(2), stored("2:uninstalling")), want{verb: decide.NoteUID}},
		{"B4.2 hold: an older hold's note does not count", base(reclaim, forgotten, held(2), stored("2:uninstalling"), annotated(contract.ProcessedUID, "u2@3")), want{verb: decide.NoteUID}},
		{"B4.3 hold: noted, look again", base(reclaim, forgotten, held(2), stored("2:uninstalling"), noted), want{verb: decide.Recheck}},
		{"B4.3 hold: delete", base(reclaim, forgotten, held(2), stored("2:uninstalling"), noted, rechecked), want{verb: decide.DeleteRevision}},
		{"B4.2 hold: deleted, note the number", base(reclaim, forgotten, held(2), stored("1:superseded"), noted), want{verb: decide.NoteVersion}},
		{"B4.3 hold: all noted, lift", base(reclaim, forgotten, held(2), stored("1:superseded"), noted, annotated(contract.ProcessedVersion, "2")), want{verb: decide.Lift}},
		{"B4.4 hold: the next one blocks too, and is not deleted in this hold", base(reclaim, forgotten, held(2), stored("1:uninstalling"), noted, annotated(contract.ProcessedVersion, "2")), want{verb: decide.Lift}},
		{"B3.4 hold: the fence goes with the suspension", base(reclaim, func(in *decide.Input) { in.Options.FenceUntil = decide.UntilLifted }, forgotten, held(2), stored("1:superseded"), noted, annotated(contract.ProcessedVersion, "2")), want{verb: decide.DropFence}},
		{"B4.3 hold: no longer blocked", base(reclaim, forgotten, held(2), stored("2:failed"), noted), want{verb: decide.Lift}},
		{"B4.3 hold: another revision became the latest", base(reclaim, forgotten, held(2), stored("3:uninstalling", "2:uninstalling")), want{verb: decide.Lift}},
		{"B4.3 hold: emptied by somebody", base(reclaim, forgotten, held(2), stored()), want{verb: decide.Lift}},
		{"B3.1 hold: the fence was erased", base(reclaim, forgotten, held(2), func(in *decide.Input) { in.Release.Finalizers = remove(in.Release.Finalizers, contract.Fence) }), want{verb: decide.Acquire}},
		{"B4.4 hold of another process", base(reclaim, forgotten, suspendedBy(ours()), fenced, stored("2:uninstalling"), noted, rechecked), want{verb: decide.Lift}},
		{"B4.4 hold of another generation", base(reclaim, forgotten, held(2), generation(1), stored("2:uninstalling"), noted, rechecked), want{verb: decide.Lift}},
		{"B4.4 hold without a fence of another process", base(reclaim, forgotten, suspendedBy(ours())), want{verb: decide.Lift}},
		{"B3.3 resumed in this generation", base(reclaim, forgotten, fenced, stored("2:uninstalling"), func(in *decide.Input) { in.Memory.GivenUp = 4 }), want{verb: decide.Wait}},
		{"B3.3 resumed in an older one", base(reclaim, forgotten, fenced, stored("2:uninstalling"), func(in *decide.Input) { in.Memory.GivenUp = 3 }), want{verb: decide.Acquire}},
	})
}

func TestDrainOfLiveReleases(t *testing.T) {
	check(t, []row{
		{"B6.2 ours: suspension and fence in one", base(draining, forgotten, held(1)), want{decide.DropFence, decide.DrainAborted}},
		{"B6.2 ours, of another process", base(draining, reclaim, suspendedBy(ours()), fenced), want{decide.DropFence, decide.DrainAborted}},
		{"B6.2 shared: our claim and the fence", base(draining, suspendedBy(ours(), foreign()), fenced), want{verb: decide.DropFence}},
		{"B6.2 a fence only", base(draining, forgotten, fenced), want{verb: decide.DropFence}},
		{"B6.2 a fence under another's suspension", base(draining, fenced, suspendedBy(foreign())), want{verb: decide.DropFence}},
		{"B6.2 nothing of ours", base(draining, forgotten), want{verb: decide.None}},
		{"B6.2 another's suspension", base(draining, suspendedBy(foreign())), want{verb: decide.None}},
	})
}

// B8.3, B10.1: how a recovery of this process ended.
func TestReports(t *testing.T) {
	recovering := func(in *decide.Input) { in.Memory.Recovering = true }
	failedReleased := func(in *decide.Input) {
		in.Release.Status.Ready = decide.Condition{Status: "False", Reason: "UpgradeFailed", Message: "hook failed", ObservedGeneration: 4}
		in.Release.Status.Released = in.Release.Status.Ready
	}
	check(t, []row{
		{"B8.3 recovered", base(recovering), want{decide.None, decide.Recovered}},
		{"B8.3 recovered, and the fence leaves", base(recovering, fenced, stored("1:deployed")), want{decide.DropFence, decide.Recovered}},
		{"B8.3 nothing to report", base(), want{verb: decide.None}},
		{"B10.1 failed", base(recovering, failedReleased), want{decide.None, decide.RecoveryFailed}},
		{"B10.1 still stuck is no end", base(recovering, forgotten, fenced, stored("1:failed"), repaired, annotated(contract.RequestedUID, "u1")), want{verb: decide.Wait}},
		{"B8.3 not while reading", base(recovering, fenced), want{verb: decide.ReadStorage}},
	})
}
