package decide

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-project/holdfast/internal/plunger/contract"
)

// deletedUnderForeignSuspension: whoever suspends a release and deletes it has
// decided that it is not uninstalled; a claim of ours beside theirs goes in the
// same write (B2.2, B2.3).
func deletedUnderForeignSuspension(in Input) (Action, bool) {
	r := in.Release
	owner := r.Suspension()
	if owner != Foreign && owner != Shared {
		return Action{}, false
	}
	action := none("deleted under another manager's suspension (B2.3)")
	if r.Fenced() || owner == Shared {
		action = do(DropFence, "deleted under another manager's suspension (B2.3)")
	}
	if r.Processed() {
		return action.telling(UninstallSkipped, "deleted while suspended, and it was recovered before: "+
			"helm-controller leaves its resources; if that was not wanted: "+uninstallCommand(*r)), true
	}
	return action.telling(DeletedWhileSuspended,
		"deleted while another manager suspends it: helm-controller leaves its resources, flux-plunger does not hold it"), true
}

// remindUnderSuspension fills what helm-controller has forgotten before the lift
// lets it look: written now it is there for its very first pass, written after
// the lift that pass could wipe it (B5.7).
func remindUnderSuspension(in Input) (Action, bool) {
	r := in.Release
	if r.Suspension() != Ours || !r.Fenced() || r.Spec.Remote || r.Disagrees() {
		return Action{}, false
	}
	if in.Storage == nil {
		return do(ReadStorage, "what helm-controller has to uninstall (B5.7)"), true
	}
	latest, found := in.Storage.Latest()
	switch {
	case !found:
		return Action{}, false
	case incomplete(*r) && !refusedBy(in):
		return do(FillStatus, "helm-controller has forgotten what to uninstall (B5.7)").about(latest), true
	default:
		version, missing := reclaimedHere(in)
		if !missing || r.Annotations[contract.Unproven] != "" {
			return Action{}, false
		}
		action := do(MarkUnproven, "a revision that we deleted was never replaced (B5.6)")
		action.Unproven = version
		return action, true
	}
}

// incomplete reports whether helm-controller lacks what its uninstall starts
// from (F2, F5).
func incomplete(r Release) bool {
	return len(r.Status.History) == 0 || r.Status.StorageNamespace == ""
}

// liftTerminating makes the generation in which helm-controller uninstalls
// (B5.1, B5.2). A finalizer cannot be added to a terminating object, so an apply
// that lists a fence which somebody has removed would be refused as a whole.
func liftTerminating(in Input) (Action, bool) {
	if in.Release.Suspension() != Ours {
		return Action{}, false
	}
	return do(giveUp(in), "a delete is not held off by our suspension (B5.1, B5.2)"), true
}

func notFenced(in Input) (Action, bool) {
	return none("deleted, and not fenced by us"), !in.Release.Fenced()
}

// remoteUnproven: a fence on a remote release stems from another configuration;
// helm-controller's own word is all there is.
func remoteUnproven(in Input) (Action, bool) {
	r := in.Release
	if !r.Spec.Remote || !r.through() {
		return Action{}, false
	}
	switch {
	case r.uninstalled():
		return do(DropFence, "helm-controller uninstalled the remote release (B4.6)"), true
	case r.failing():
		return pending(in, "helm-controller's uninstall of the remote release fails and is retried"), true
	default:
		return unproven(in, "its storage is in another cluster"), true
	}
}

func disagreeing(in Input) (Action, bool) {
	if !in.Release.Disagrees() {
		return Action{}, false
	}
	why, _ := refusal(in)
	return pending(in, "status and specification disagree").telling(StorageRefused, "deleted, and not acted on: "+why), true
}

func notThrough(in Input) (Action, bool) {
	return pending(in, "helm-controller has not handled the delete"), !in.Release.through()
}

// failingUninstall: an error leaves the conditions of B5.3 as an earlier pass
// wrote them, so the reason has to be looked at: helm-controller retries by
// itself, and neither policy gives way (B5.5, B5.9). An uninstall can empty the
// storage and fail after that.
func failingUninstall(in Input) (Action, bool) {
	return pending(in, "helm-controller's uninstall fails and is retried"),
		in.Release.failing() && len(in.Release.Status.History) > 0
}

func storageOfTerminating(in Input) (Action, bool) {
	return do(ReadStorage, "being through is no proof (B5.6)"), in.Storage == nil
}

// proven is the only way out that needs no policy.
func proven(in Input) (Action, bool) {
	r := in.Release
	if !emptied(in) || !r.uninstalled() || r.Annotations[contract.Unproven] != "" {
		return Action{}, false
	}
	return do(DropFence, "uninstalled: the storage is empty and helm-controller says so (B5.6)"), true
}

// emptyButUnproven: with an empty storage nothing can be reminded, so the policy
// decides at once (B5.6, B5.6a).
func emptyButUnproven(in Input) (Action, bool) {
	r := in.Release
	switch {
	case !emptied(in):
		return Action{}, false
	case r.Annotations[contract.Unproven] != "":
		return unproven(in, "revision "+r.Annotations[contract.Unproven]+
			" was deleted by the recovery and never replaced, so what only it owned may be left"), true
	case r.failing():
		return pending(in, "helm-controller's uninstall failed"), true
	case len(in.Storage.Revisions) > 0:
		return unproven(in, "its latest revision is uninstalled, and helm-controller did not report that of this delete"), true
	case r.assumed():
		return unproven(in, "helm-controller found nothing stored and only assumed that it was uninstalled: either an earlier attempt "+
			"of its own was cut off, or failed, after it had emptied the storage, or somebody else did that; look for what is left"), true
	default:
		return unproven(in, "its storage is empty and helm-controller reported no uninstall"), true
	}
}

// givingWay: three requests were handled and the revisions are still there. A
// reported failure never gives way (B5.9).
func givingWay(in Input) (Action, bool) {
	if in.Release.ReminderCount() < enoughReminders || in.Release.failing() {
		return Action{}, false
	}
	return unproven(in, fmt.Sprintf("helm-controller handled %d requests and uninstalled nothing; "+
		"is the release's service account gone?", in.Release.ReminderCount())), true
}

func refusedBy(in Input) bool {
	why, _ := refusal(in)
	return why != ""
}

// refusedReminder: a reminder makes helm-controller uninstall what this release only
// names. Where a recovery would be refused that is refused as well: the storage may
// be another tenant's, or what the HelmRelease that took over the name runs (B4.1b).
// An uninstall that helm-controller does by itself is proven above as ever.
func refusedReminder(in Input) (Action, bool) {
	why, _ := refusal(in)
	if why == "" {
		return Action{}, false
	}
	action := unproven(in, "helm-controller is not asked to uninstall it: "+why)
	action.Claimed = len(in.Claimants) > 0
	return action, true
}

func fillHistory(in Input) (Action, bool) {
	if !incomplete(*in.Release) {
		return Action{}, false
	}
	latest, _ := in.Storage.Latest()
	return do(FillStatus, "helm-controller has forgotten what to uninstall (B5.7)").about(latest), true
}

func remind(in Input) (Action, bool) {
	action := do(Remind, "helm-controller is through and revisions remain (B5.7)")
	action.Unproven, _ = reclaimedHere(in)
	return action, true
}

// unproven is the end without proof, as the policy says (B5.9). The list of what is
// stored comes last: an event's note is cut at its end, and the commands must stay.
func unproven(in Input, why string) Action {
	message := "nothing proves that it was uninstalled: " + why
	next := "; to let it go: "
	if len(in.Claimants) == 0 { // what another one runs is not to be uninstalled
		message += "; finish by hand: " + uninstallCommand(*in.Release)
		next = "; then: "
	}
	held := in.Options.UnprovenUninstall == HoldUnproven
	if held {
		message += next + "flux-plunger release-fence " + in.Release.Ref()
	}
	if in.Storage != nil && len(in.Storage.Revisions) > 0 {
		message += "; stored still: " + strings.Join(in.Storage.Names(), ", ")
	}
	if held {
		return heldUnproven(in, message)
	}
	return do(DropFence, "unproven, and let go by policy (B5.9)").telling(UninstallUnproven, message)
}

// heldUnproven waits for a person, and says so when it takes long: nobody asks
// helm-controller any more, so that mending the cause alone changes nothing (B5.4, B5.9).
func heldUnproven(in Input, message string) Action {
	action := wait(terminatingLook, "unproven, and held (B5.9)").telling(UninstallUnproven, message)
	return action.tellingLate(in, "nothing proves that it was uninstalled, and nobody asks helm-controller again"+onceMended(in))
}

// onceMended is how helm-controller is asked again by a person, where that can help: it
// was asked in vain and revisions remain, which are nobody else's.
func onceMended(in Input) string {
	if len(in.Claimants) > 0 || in.Release.ReminderCount() < enoughReminders || emptied(in) {
		return ""
	}
	return "; once the cause is mended: flux reconcile helmrelease " + in.Release.Name + " --namespace " + in.Release.Namespace
}

// pending waits, and says so when it takes long (B5.4).
func pending(in Input, why string) Action {
	return wait(terminatingLook, why+" (B5.3, B5.5)").tellingLate(in, why+"; look at helm-controller's conditions and log")
}

func (a Action) tellingLate(in Input, why string) Action {
	a.Events = append(a.Events, in.Release.Late(in.Now, why)...)
	return a
}

// Late is what is told of a delete that our fence has held for long, nothing before
// that (B5.4).
func (r Release) Late(now time.Time, why string) []Event {
	if !r.Terminating() || !r.Fenced() || now.Sub(r.DeletionTimestamp) <= pendingAfter {
		return nil
	}
	return []Event{{UninstallPending, "its delete is held for more than ten minutes: " + why +
		"; to let it go without an uninstall: flux-plunger release-fence " + r.Ref()}}
}
