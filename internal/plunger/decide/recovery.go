package decide

import (
	"fmt"
	"time"

	"github.com/holdfast-project/holdfast/internal/plunger/contract"
)

// The growing delay of a release that sticks again and again (B4.2).
const (
	backoffFirst = 10 * time.Second
	backoffMost  = 15 * time.Minute
	// backoffForgets is how long a release must have been left alone for its
	// next recovery to count as the first.
	backoffForgets = time.Hour
)

// stuck reports whether message and storage agree that Helm refuses to upgrade
// (B4.1, B4.1a): the trigger for the present generation, no deployed revision,
// and a latest one that blocks.
func stuck(in Input) bool {
	latest, found := in.Storage.Latest()
	switch {
	case !found:
		return false
	case in.wantsUninstalled(latest):
		return true
	default:
		return in.Release.Triggered() && !in.Storage.hasStatus(statusDeployed) && blocksByEvidence(in, latest)
	}
}

// blocksByEvidence judges by the label, and where it contradicts the message for
// two of helm-controller's attempts, under repair, by the payload (B4.1a).
func blocksByEvidence(in Input, latest Revision) bool {
	if blocking(latest.Status) {
		return true
	}
	payload := in.Storage.Payload
	return in.Options.Strategy == Repair && payload != nil && payload.UID == latest.UID && blocking(payload.Status)
}

// wantsUninstalled reports whether a last revision that is "uninstalled" is to
// be rewritten (B10.7).
func (in Input) wantsUninstalled(latest Revision) bool {
	return in.Options.Strategy == Repair && in.Options.RecoverUninstalled &&
		latest.Status == statusUninstalled && in.Release.stuckByMessage()
}

// BackoffDelay returns how long after its last recovery a release that sticks
// again has to wait; zero for the first.
func (m Memory) BackoffDelay() time.Duration {
	if m.Recoveries == 0 {
		return 0
	}
	delay := backoffFirst
	for i := 1; i < m.Recoveries; i++ {
		delay = min(2*delay, backoffMost)
	}
	return delay
}

// backoff: never a hot loop, and visible (B4.2).
func backoff(in Input) (Action, bool) {
	since := in.Now.Sub(in.Memory.LastRecovery)
	delay := in.Memory.BackoffDelay()
	if !stuck(in) || since >= delay {
		return Action{}, false
	}
	return wait(delay-since, "stuck again (B4.2)").telling(RecoveryBackoff,
		fmt.Sprintf("stuck again after %d recoveries; the next one waits %s: look at why its releases do not come to an end",
			in.Memory.Recoveries, delay)), true
}

// beginRecovery begins one: the fence first, then the strategy.
func beginRecovery(in Input) (Action, bool) {
	if !stuck(in) {
		return Action{}, false
	}
	latest, _ := in.Storage.Latest()
	switch {
	case in.Memory.GivenUp == in.Release.Generation:
		return wait(fencedLook, "somebody resumed the release during our hold; not fought in this generation (B3.3)"), true
	case !in.Release.Fenced() && !doubted(in, latest):
		return do(SetFence, "a recovery begins with the fence (B5.8, B10.1)"), true
	case in.Options.Strategy == Reclaim:
		return beginReclaim(in, latest), true
	default:
		return beginRepair(in, latest), true
	}
}

// doubted reports whether repair has to see the payload before it fences: a
// contradiction has ended a fence in this generation already, and where the label
// still blocks and the payload does not, a fence would only be set to be dropped
// again, for ever. Only a rewrite is worth a second one (B5.8).
func doubted(in Input, latest Revision) bool {
	return in.Options.Strategy == Repair && in.Memory.Contradicted == in.Release.Generation && !rewritable(in, latest)
}

// rewritable reports whether the payload was read and blocks.
func rewritable(in Input, latest Revision) bool {
	payload := in.Storage.Payload
	return payload != nil && payload.UID == latest.UID &&
		(blocking(payload.Status) || payload.Status == statusUninstalled && in.wantsUninstalled(latest))
}

// beginRepair reads the payload, because the status that Helm goes by is in it,
// and rewrites it where it blocks (B10.1, B10.3). A payload that contradicts a
// trigger is believed after two attempts, like a label (B4.1a): until the second
// one helm-controller may just not have seen what somebody mended, and the fence
// is all that keeps a delete from orphaning.
func beginRepair(in Input, latest Revision) Action {
	if reading, needed := readPayload(in, latest, "the payload carries the status that Helm goes by (B10.1)"); needed {
		return reading
	}
	payload := in.Storage.Payload
	switch {
	case payload.Undecodable != "":
		return wait(fencedLook, "the payload cannot be rewritten (B10.3)").telling(StorageRefused,
			"Secret "+latest.Namespace+"/"+latest.Name+" cannot be rewritten and is left alone: "+payload.Undecodable+
				"; restore it from a backup, or delete it after saving it")
	case rewritable(in, latest):
		return do(Rewrite, "Helm upgrades from failed (B10.1)").about(latest)
	case in.Release.Triggered() && in.Release.Status.Failures < contradictionAfter:
		return keeping(in)
	default:
		return contradicts(in, "its label says "+latest.Status+", its content "+payload.Status)
	}
}

// readPayload is the step that brings the latest revision's payload, where it is not
// there yet. A payload of another Secret says that one was made again under the name
// since the list: reading it once more would bring the same one, so the storage is
// listed again.
func readPayload(in Input, latest Revision, why string) (Action, bool) {
	switch payload := in.Storage.Payload; {
	case payload == nil:
		return do(ReadPayload, why).about(latest), true
	case payload.UID != latest.UID:
		return do(ReadStorage, "another Secret has the name of the latest revision by now (B10.1)"), true
	default:
		return Action{}, false
	}
}

// beginReclaim acquires the suspension, unless nothing can be won (B4.1c) or an
// earlier flux-plunger's number says that it is done (B4.2).
func beginReclaim(in Input, latest Revision) Action {
	if len(in.Storage.Revisions) > 1 && in.Storage.Revisions[1].Status == statusUninstalled {
		return wait(fencedLook, "the next lower revision is uninstalled (B4.1c)").telling(StorageRefused,
			"the revision below is uninstalled, so deleting this one only leads to \"cannot reuse a name that is still in use\"; use --strategy=repair")
	}
	if _, _, noted := in.Release.note(); !noted && in.Release.processedVersion() == latest.Version+1 {
		return wait(fencedLook, "the revision above was deleted by an earlier flux-plunger (B4.2)").telling(StorageRefused,
			"the revision above was deleted by an earlier flux-plunger, so this one, which blocks too, is not deleted; use --strategy=repair")
	}
	return do(Acquire, "the latest revision blocks every upgrade (B4.1)").about(latest)
}

// requestAfterRepair asks once for each repaired UID. Asking again while the
// message stays would be a hot loop (B10.1).
func requestAfterRepair(in Input) (Action, bool) {
	latest, found := in.Storage.Latest()
	if !found || !latest.RepairedByUs || !in.Release.stuckByMessage() {
		return Action{}, false
	}
	if in.Release.Annotations[contract.RequestedUID] == latest.UID {
		return wait(fencedLook, "asked for this repaired revision already (B10.1)"), true
	}
	return do(Request, "helm-controller waits for its own retry otherwise (B10.1)").about(latest), true
}

func uninstalledLatest(in Input) (Action, bool) {
	latest, found := in.Storage.Latest()
	if !found || latest.Status != statusUninstalled || !in.Release.stuckByMessage() {
		return Action{}, false
	}
	return keeping(in).telling(StorageRefused, "the last revision is uninstalled and blocks a new one; "+
		"--recover-uninstalled lets repair rewrite it, or remove it with: "+uninstallCommand(*in.Release)), true
}

// contradictingStorage: the trigger stands and the storage does not say so. The
// message is partly written by charts, so it costs no Secret (B4.1a).
func contradictingStorage(in Input) (Action, bool) {
	r := in.Release
	if !r.Triggered() || owed(in) || in.Memory.Contradicted == r.Generation {
		return Action{}, false
	}
	latest, found := in.Storage.Latest()
	label := "nothing"
	switch {
	case r.Status.Failures < contradictionAfter:
		return keeping(in), true
	case found:
		label = latest.Status
	}
	if found && in.Options.Strategy == Repair && !in.Storage.hasStatus(statusDeployed) {
		if reading, needed := readPayload(in, latest, "a label that contradicts the message for two attempts (B4.1a)"); needed {
			return reading, true
		}
	}
	return contradicts(in, "the storage's last status is "+label), true
}

// contradicts ends a look at a storage that asks for nothing: said once, and a
// fence goes (B5.8).
func contradicts(in Input, how string) Action {
	action := none("the storage contradicts the message (B4.1a)")
	if in.Release.Fenced() {
		action = do(DropFence, "the storage contradicts the fence (B5.8)")
	}
	action.Contradicted = true
	return action.telling(StorageContradicts, "says that it has no deployed releases, but "+how+
		": nothing is deleted or rewritten; look at the message, a chart may have written it")
}
