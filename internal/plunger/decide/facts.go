package decide

import (
	"strings"
	"time"

	"github.com/holdfast-project/holdfast/internal/plunger/contract"
)

// The storage statuses that a decision tells apart (B4.1a).
const (
	statusUninstalling = "uninstalling"
	statusUnknown      = "unknown"
	statusUninstalled  = "uninstalled"
	statusDeployed     = "deployed"
	// statusPending begins that of an action which runs, or was cut off.
	statusPending = "pending-"
	// StatusFailed is what repair writes: Helm upgrades from it.
	StatusFailed = "failed"
)

// blocking reports whether Helm refuses to upgrade from a latest revision of
// this status, measured on the controllers' own Helm (B4.1a). Everything else is
// never touched: from failed and superseded Helm upgrades, pending-* may be an
// action that runs and is unlocked by helm-controller itself (B10.4).
func blocking(status string) bool {
	return status == statusUninstalling || status == statusUnknown
}

// The texts of helm-controller and Helm that are matched, because nothing else tells
// them. The first two only say where to look (B4.1a); the third takes a proof away: Helm
// found nothing to uninstall, and helm-controller calls that a success (F6).
const (
	triggerPhrase  = "has no deployed releases"
	upgradeRunning = "Running 'upgrade' action"
	assumedPhrase  = "assuming it is uninstalled"
)

// The reasons of helm-controller's conditions Released and, where Helm did not run,
// Ready.
const (
	uninstallSucceeded = "UninstallSucceeded"
	uninstallFailed    = "UninstallFailed"
	// waitCanceled is what helm-controller 1.5 and later say in that place where its
	// feature CancelHealthCheckOnNewRevision ended the wait of an uninstall for a newer
	// pass. Helm may have emptied the storage by then.
	waitCanceled = "HealthCheckCanceled"
)

// current reports whether the condition was written for the release's present
// generation. A condition without observedGeneration stands for the one that
// helm-controller observed as a whole.
func (r Release) current(c Condition) bool {
	if c.ObservedGeneration != 0 {
		return c.ObservedGeneration == r.Generation
	}
	return r.Status.ObservedGeneration == r.Generation
}

// Triggered reports whether the release says, for its present generation, that
// it is stuck (B, "Names": the trigger; B4.1).
func (r Release) Triggered() bool { return r.showsTrigger() && r.current(r.Status.Ready) }

// showsTrigger reports whether Ready shows the trigger, of whatever generation: a
// suspension makes a generation, and helm-controller writes nothing while it stands,
// so a suspended release never shows one of its present generation (B2.4).
func (r Release) showsTrigger() bool {
	return r.Status.Ready.Status == "False" && strings.Contains(r.Status.Ready.Message, triggerPhrase)
}

// upgrading reports whether helm-controller says that it upgrades right now.
func (r Release) upgrading() bool {
	return strings.Contains(r.Status.Ready.Message, upgradeRunning)
}

// refusedBefore reports whether helm-controller's last attempt, whenever that
// was, ended with the trigger. Ready is overwritten by whatever comes next, a
// source that is not ready or new values; Released only by another attempt.
func (r Release) refusedBefore() bool {
	released := r.Status.Released
	return released.Status == "False" && strings.Contains(released.Message, triggerPhrase)
}

// Forgotten reports the first sign that helm-controller has forgotten a release
// that it is going to upgrade: no history, a storage namespace, its finalizer,
// and Ready shows the trigger or says that an upgrade runs, or the last attempt
// was refused. It upgrades without a history only what it does not manage, so
// ordinary installs and upgrades never look like this (B5.8).
//
// A recovery of ours is such a sign too, while helm-controller stores nothing: its
// attempts may fail for another reason by then, a chart that does not render, and the
// patch of its finalizers can erase a fence that it has not read. Without this the
// release would stand unfenced until the next attempt, which may be a quarter of an
// hour away.
//
// An attempt of long ago is enough for the fence and for nothing else: a delete
// of what is forgotten orphans, however old the news. A recovery wants the
// trigger for the present generation (B4.1), and loses nothing by it: while
// helm-controller does not attempt anything, nothing can be recovered.
func (r Release) Forgotten() bool {
	return len(r.Status.History) == 0 && r.Status.StorageNamespace != "" && r.helmFinalizer() &&
		!r.Terminating() && (r.Triggered() || r.upgrading() || r.refusedBefore() || r.recoveryBegun())
}

// recoveryBegun reports whether a note of ours says that a recovery has begun, by
// whatever process, repair asked for a reconcile or reclaim was about to delete, and no
// attempt has succeeded since. A note stays for ever: a release that is uninstalled and
// installed again under another name is no recovery, and a restored one neither.
func (r Release) recoveryBegun() bool {
	released := r.Status.Released
	return (r.Annotations[contract.RequestedUID] != "" || r.Annotations[contract.ProcessedUID] != "") &&
		released.Status == "False" && released.Reason != uninstallSucceeded
}

// Concerns reports whether there is anything to decide about the live release:
// it is fenced, stuck, or forgotten. Who else claims its storage must be known
// for each of them, or a refusal would come after the fence (B4.1b).
func (r Release) Concerns() bool { return r.Fenced() || r.stuckByMessage() || r.Forgotten() }

// through reports whether helm-controller has come to the end of what it was
// asked for a terminating release (B5.3). It is necessary for dropping the
// fence and never sufficient.
func (r Release) through() bool { return !r.helmFinalizer() && r.closed() }

// closed reports whether the last patch of helm-controller's last pass is in: it
// carries the observed generation and the handled request. A request that nobody
// made, or that somebody removed again, has not to be handled.
func (r Release) closed() bool {
	requested := r.Annotations[contract.RequestedAt]
	return r.Status.ObservedGeneration == r.Generation && (requested == "" || requested == r.Status.LastHandledReconcileAt)
}

// failing reports whether helm-controller has tried to uninstall this
// generation and failed; it retries by itself (B5.5). What fails before Helm runs,
// the look for the service account for example, it says in Ready alone.
//
// Where it skips the uninstall it writes neither, so both stay at an older generation;
// or at this one, when an attempt failed before what it needs went away. That cannot be
// told from an attempt that is retried, and counts as one: an uninstall must not be
// given up while somebody tries it. UninstallPending tells a person (B5.4).
func (r Release) failing() bool {
	return r.uninstallFailed(r.Status.Released) || r.uninstallFailed(r.Status.Ready)
}

func (r Release) uninstallFailed(c Condition) bool {
	return c.Status == "False" && (c.Reason == uninstallFailed || c.Reason == waitCanceled) && r.current(c)
}

// clockTolerance is by how much the clocks of two Pods may differ when the time
// of a condition is compared with that of our request; conditions have whole
// seconds.
//
// It is generous because little hangs on it: helm-controller is known to have
// handled the request, by its token. All that the time excludes is a success which
// it told of in this very generation, while revisions remained, before we asked. A
// node whose clock is off would make every reminded uninstall unproven, and under
// the policy hold keep it for ever.
const clockTolerance = 30 * time.Second

// uninstalled reports whether helm-controller says that it uninstalled the
// release, in the present generation or since the delete, and not before our last
// request: the lift and the delete make a generation, a request only has its time (B5.6).
//
// Somebody may edit the release while its uninstall runs, to disable a hook that
// hangs for example. The success is told for the generation that the pass began with,
// and the pass of the next one finds nothing to do and tells nothing.
func (r Release) uninstalled() bool {
	released := r.Status.Released
	if released.Status != "False" || released.Reason != uninstallSucceeded || r.assumed() ||
		!r.current(released) && released.LastTransition.Before(r.DeletionTimestamp) {
		return false
	}
	if r.ReminderCount() == 0 {
		return true
	}
	// A request in another form is somebody else's, and read as the zero time:
	// that it was handled is known, and the generation is the present one.
	asked, _ := time.Parse(time.RFC3339Nano, r.Annotations[contract.RequestedAt])
	return !released.LastTransition.Before(asked.Truncate(time.Second).Add(-clockTolerance))
}

// assumed reports whether helm-controller found nothing stored of what it was to
// uninstall, and took that for done (F6).
func (r Release) assumed() bool { return strings.Contains(r.Status.Released.Message, assumedPhrase) }

// emptied reports whether the storage proves an uninstall: no revision at all,
// or, where the history is kept, a latest one that says so (B5.6).
func emptied(in Input) bool {
	latest, found := in.Storage.Latest()
	return !found || in.Release.Spec.KeepHistory && latest.Status == statusUninstalled
}

// reclaimedHere returns the number of the revision that we deleted and since
// which no release was stored, and whether there is one (B5.6). The note tells it,
// which was written before the delete: what is left has a lower number, and was there
// then. A number alone would not do: a release that is installed
// into an empty storage begins at 1. Nor would generations: somebody edits. A release
// of an earlier generation than the hold's was restored, and the note with it.
func reclaimedHere(in Input) (int, bool) {
	_, hold, noted := in.Release.note()
	version, youngest, told := in.Release.notedRevision()
	latest, _ := in.Storage.Latest()
	if !noted || !told || in.Release.Generation < hold ||
		latest.Version >= version || latest.Created.After(youngest) {
		return 0, false
	}
	return version, true
}

// uninstallCommand is how a person finishes by hand what could not be proven.
func uninstallCommand(r Release) string {
	return "helm uninstall " + r.ReleaseName() + " --namespace " + r.StorageNamespace()
}
