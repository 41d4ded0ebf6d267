package decide

import (
	"fmt"
	"strings"

	"github.com/holdfast-project/holdfast/internal/plunger/contract"
)

// shareGivenUp: owned at true by us and by somebody else. Giving up our claim
// leaves their true standing, and from then on it is theirs (B2.2).
func shareGivenUp(in Input) (Action, bool) {
	if in.Release.Suspension() != Shared {
		return Action{}, false
	}
	return do(giveUp(in), "another manager wants the suspension too (B2.2)"), true
}

// giveUp is the verb that gives up our suspension: with the fence kept, where
// there is one, so that the claim never ends a protection.
func giveUp(in Input) Verb {
	if in.Release.Fenced() {
		return Lift
	}
	return DropFence
}

// foreignSuspension: nothing is written while another manager suspends but the
// removal of our fence (B10.6), and that when helm-controller remembers the
// release again, whoever suspends (B3.4).
func foreignSuspension(in Input) (Action, bool) {
	remoteFence := in.Release.Spec.Remote && in.Release.Fenced() // goes at once, by the next rule (B4.6)
	if in.Release.Suspension() != Foreign || remoteFence {
		return Action{}, false
	}
	action := none("suspended by another manager (B2.2)")
	if in.Release.Fenced() {
		if in.Storage == nil {
			return do(ReadStorage, "a fence under another manager's suspension may leave (B3.4)"), true
		}
		if remembered(in) {
			return do(DropFence, "helm-controller remembers the latest stored revision (B3.4)"), true
		}
		action = wait(fencedLook, "suspended by another manager; the fence waits (B2.2, B3.4)")
	}
	switch {
	case in.Release.Processed():
		return action.telling(SuspensionNotOwned, "suspended by another manager, on a release that was recovered before; "+
			"if no migration or restore holds it: flux resume helmrelease "+in.Release.Name+" --namespace "+in.Release.Namespace), true
	case in.Release.showsTrigger():
		return action.telling(SuspensionLeftAlone, "stuck, and suspended by another manager: left alone until it is resumed"), true
	default:
		return action, true
	}
}

// foundHold: whoever finds a suspension of ours that it did not set in this
// process, in this generation, never deletes under it (B4.4).
func foundHold(in Input) (Action, bool) {
	r := in.Release
	if r.Suspension() != Ours {
		return Action{}, false
	}
	if in.Memory.HoldGeneration == r.Generation && !r.Disagrees() && in.Options.Strategy == Reclaim {
		return Action{}, false
	}
	return do(lifting(in), "our suspension, not set by this process for this generation (B4.4)"), true
}

// lifting is the verb that ends a hold on a live release (B3.4).
func lifting(in Input) Verb {
	if in.Options.Strategy == Reclaim && in.Options.FenceUntil == UntilLifted {
		return DropFence
	}
	return Lift
}

// hold walks the steps of reclaim under our own suspension (B4.3). Each step
// leaves a trace in the cluster that the next look finds; the order is what
// makes a crash after any of them harmless (B4.2, B4.4).
func hold(in Input) (Action, bool) {
	r := in.Release
	if r.Suspension() != Ours {
		return Action{}, false
	}
	if !r.Fenced() {
		return do(Acquire, "a suspension of ours never stands without its fence (B3.1)"), true
	}
	if in.Storage == nil {
		return do(ReadStorage, "what is stored under our suspension (B4.3)"), true
	}
	uid, generation, noted := r.note()
	noted = noted && generation == r.Generation
	if noted && !in.Storage.holds(uid) {
		return deleted(in, uid), true
	}
	latest, found := in.Storage.Latest()
	switch {
	case !found, !blocking(latest.Status), latest.UID != in.Memory.HoldUID:
		return do(lifting(in), "the storage is no longer what the recovery was decided on (B4.3)"), true
	case !noted || uid != latest.UID:
		action := do(NoteUID, "the UID is noted before the delete (B4.2)").about(latest)
		action.Note = in.Storage.noting(latest)
		return action, true
	case !in.Storage.Rechecked:
		return do(Recheck, "the same latest revision? (B4.3)").about(latest), true
	default:
		return do(DeleteRevision, "the latest revision blocks every upgrade (B4.3)").about(latest), true
	}
}

// deleted goes on after the Secret is gone: the number, then the lift.
func deleted(in Input, uid string) Action {
	mem := in.Memory
	if mem.HoldUID == uid && in.Release.processedVersion() != mem.HoldVersion {
		return do(NoteVersion, "the delete is done; its number is for people (B4.2)").
			about(Revision{UID: uid, Version: mem.HoldVersion})
	}
	return do(lifting(in), "the Secret is gone and noted (B3.4, B4.3)")
}

// remoteSkipped: a release in another cluster keeps its storage there (B4.6).
func remoteSkipped(in Input) (Action, bool) {
	r := in.Release
	switch {
	case !r.Spec.Remote:
		return Action{}, false
	case r.Fenced(), r.Suspension() == Ours:
		return do(DropFence, "a remote release is not fenced, nor suspended by us (B4.6, B5.8)"), true
	case r.Triggered():
		return none("remote (B4.6)").telling(RemoteSkipped,
			"stuck, and released into another cluster (spec.kubeConfig): not recovered; its storage is there"), true
	default:
		return none("remote (B4.6)"), true
	}
}

// refused: the storage is not ours to touch. Only told where something would
// have been done.
func refused(in Input) (Action, bool) {
	r := in.Release
	why, keep := refusal(in)
	if why == "" {
		return Action{}, false
	}
	action := none("refused: " + why)
	switch {
	case r.Fenced() && !keep:
		action = do(DropFence, "refused, so not fenced (B5.8): "+why)
	case r.Fenced():
		action = wait(fencedLook, "refused: "+why)
	}
	if r.stuckByMessage() {
		action = action.telling(StorageRefused, "stuck, but not acted on: "+why)
		action.Claimed = len(in.Claimants) > 0
	}
	return action, true
}

// refusal says why a storage may not be acted on, and whether a fence that
// stands is left standing: where the state is in motion nothing is done at all.
func refusal(in Input) (why string, keep bool) {
	r := in.Release
	switch {
	case r.Disagrees():
		return "the status names another release or storage than the specification; wait for helm-controller to move it, or set the specification back", true
	case in.Options.crossesNamespaces(*r):
		return "the storage is in namespace " + r.StorageNamespace() +
			"; start flux-plunger with --allow-cross-namespace-storage if its tenants may do that", false
	case len(in.Claimants) > 0:
		why = fmt.Sprintf("release %s in %s is claimed by %s too", r.ReleaseName(), r.StorageNamespace(), few(in.Claimants))
		if !r.Terminating() {
			why += "; give each its own release name"
		}
		return why, false
	default:
		return why, keep
	}
}

// few names the first of them, and how many more there are: what follows in a message
// must not be cut off, and whoever mends one finds the next.
func few(refs []string) string {
	const most = 3
	if len(refs) <= most {
		return strings.Join(refs, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(refs[:most], ", "), len(refs)-most)
}

// fenceForgotten: at the first sign, before anything is listed; a list alone can
// take longer than a delete needs to arrive (B5.8).
func fenceForgotten(in Input) (Action, bool) {
	r := in.Release
	if r.Fenced() || !r.Forgotten() || in.Memory.Contradicted == r.Generation {
		return Action{}, false
	}
	// The fence went with the lift, by flag, and stays away while no attempt is refused.
	if in.Options.FenceUntil == UntilLifted && !r.Triggered() && !r.upgrading() && !r.refusedBefore() {
		return Action{}, false
	}
	return do(SetFence, "helm-controller has forgotten the release (B5.8)"), true
}

// upgradeInProgress: the outcome of the running upgrade says whether there is
// anything to recover. Once the fence stands repair lists ahead of it; more reads
// would be for nothing.
func upgradeInProgress(in Input) (Action, bool) {
	r := in.Release
	if !r.Fenced() || !r.upgrading() || len(r.Status.History) > 0 {
		return Action{}, false
	}
	if ahead := in.Memory.Listing; ahead != nil && ahead.Storage == nil && in.Storage == nil {
		return do(ReadStorage, "listed while helm-controller upgrades, so that the error need not wait for it (B5.8)"), true
	}
	return wait(fencedLook, "helm-controller is upgrading (B5.8)"), true
}

// recoveryUnderWay: this process has done its part and helm-controller has not
// stored a release yet. Its every status write brings a look, and none of them
// needs the storage to know that the fence stays.
func recoveryUnderWay(in Input) (Action, bool) {
	r := in.Release
	if !r.Fenced() || !in.Memory.Recovering || len(r.Status.History) > 0 {
		return Action{}, false
	}
	requested := r.Annotations[contract.RequestedAt]
	asked := r.Annotations[contract.RequestedUID] != "" && requested != r.Status.LastHandledReconcileAt
	if r.stuckByMessage() && !asked {
		return Action{}, false
	}
	return wait(fencedLook, "helm-controller has not stored a release yet (B3.4)"), true
}

// passNotClosed: helm-controller has upgraded, and the patches that end its pass are
// still coming: the conditions, its finalizers, the observed generation with the
// handled request. A write of ours between them makes one of them lose, and
// helm-controller goes through the whole release again before it is Ready. The
// fence protects meanwhile, so waiting loses nothing; it is bounded all the same,
// because a helm-controller that is gone never ends its pass (B3.4).
func passNotClosed(in Input) (Action, bool) {
	r := in.Release
	since := in.Now.Sub(r.Status.Ready.LastTransition)
	if !r.Fenced() || r.Status.Ready.Status != "True" || r.closed() || since.Abs() >= closingBound {
		return Action{}, false
	}
	return wait(closingBound-max(since, 0), "helm-controller is ending its pass; the fence goes after it (B3.4)"), true
}

// quiet is where almost every look ends.
func quiet(in Input) (Action, bool) {
	r := in.Release
	if r.Fenced() || r.stuckByMessage() {
		return Action{}, false
	}
	return none("neither stuck nor fenced"), true
}

func storageOfLive(in Input) (Action, bool) {
	if in.Storage != nil {
		return Action{}, false
	}
	return do(ReadStorage, "the storage decides, not the message (B4.1a)"), true
}

// remembered reports whether the latest snapshot is the latest stored revision:
// helm-controller would uninstall a deleted release by itself (B3.4). Where nothing is
// stored, one that it uninstalled itself, as it does with an install that failed, is as
// good: nothing is left to uninstall. One of any other status is not; somebody has
// deleted the Secret then, and a delete would leave everything (F6).
func remembered(in Input) bool {
	snapshot, known := in.Release.Remembered()
	latest, stored := in.Storage.Latest()
	matches := snapshot.Version == latest.Version
	if !stored {
		matches = snapshot.Status == statusUninstalled
	}
	return known && matches && in.Release.Status.StorageNamespace != "" && !in.Release.Disagrees()
}

func fenceLeaves(in Input) (Action, bool) {
	if !in.Release.Fenced() || !remembered(in) {
		return Action{}, false
	}
	return do(DropFence, "helm-controller remembers the latest stored revision (B3.4)"), true
}

// contradictedFence: fenced at the first sign, and the storage says that there
// is nothing to recover. Where an attempt was refused, a label is believed only
// against two of them (B4.1a), also while another message covers the trigger. A
// revision that we repaired, or deleted, is no contradiction: until helm-controller
// has stored a release again the fence is all that keeps a delete from leaving
// everything behind.
func contradictedFence(in Input) (Action, bool) {
	r := in.Release
	if !r.Fenced() || r.Triggered() || len(r.Status.History) > 0 || owed(in) {
		return Action{}, false
	}
	if r.refusedBefore() && r.Status.Failures < contradictionAfter {
		return Action{}, false
	}
	latest, _ := in.Storage.Latest()
	if blocking(latest.Status) && !in.Storage.hasStatus(statusDeployed) {
		return Action{}, false
	}
	// Helm's action runs, or was cut off with helm-controller: its outcome says more.
	if strings.HasPrefix(latest.Status, statusPending) {
		return Action{}, false
	}
	action := do(DropFence, "the storage contradicts the fence (B5.8)")
	action.Contradicted = true
	return action, true
}

// owed reports whether a recovery of ours has not come to its end: the revision
// that we rewrote is still the latest, or the one that we deleted was not replaced.
// Once a release was stored above it, the one that we rewrote stays for as long as the
// history reaches, and says nothing any more.
func owed(in Input) bool {
	latest, found := in.Storage.Latest()
	if latest.RepairedByUs || in.Memory.Recovering {
		return true
	}
	if found && latest.UID == in.Release.Annotations[contract.RequestedUID] {
		return true
	}
	_, gone := reclaimedHere(in)
	return gone
}

func keepFence(in Input) (Action, bool) { return keeping(in), true }

// keeping leaves everything as it is.
func keeping(in Input) Action {
	if !in.Release.Fenced() {
		return none("the storage asks for nothing (B4.1)")
	}
	return wait(fencedLook, "fenced until helm-controller remembers the release (B3.4)")
}
