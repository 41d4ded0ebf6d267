package decide

import "strings"

// nameInUsePhrase is Helm's error for a last revision that is uninstalled.
const nameInUsePhrase = "cannot reuse a name that is still in use"

func (r Release) nameInUse() bool {
	ready := r.Status.Ready
	return ready.Status == "False" && strings.Contains(ready.Message, nameInUsePhrase) && r.current(ready)
}

// stuckByMessage reports whether helm-controller's message is one of the two
// that something can be done about (B4.1, B10.7).
func (r Release) stuckByMessage() bool { return r.Triggered() || r.nameInUse() }

// report adds how a recovery of this process ended (B8.3, B10.1). It never
// changes what is done.
func report(in Input, action Action) Action {
	r := in.Release
	if !in.Memory.Recovering || r.Terminating() || in.Draining || action.Verb.Reads() {
		return action
	}
	ready, released := r.Status.Ready, r.Status.Released
	if len(r.Status.History) == 0 || !r.current(ready) {
		return action
	}
	switch {
	case ready.Status == "True":
		return action.telling(Recovered, "recovered: helm-controller released it again")
	case ready.Status == "False" && released.Status == "False" && r.current(released) && !r.Triggered():
		return action.telling(RecoveryFailed, "no longer stuck, but helm-controller's next release failed and is not asked for again: "+
			"it wants new values, or flux reconcile helmrelease "+r.Name+" --namespace "+r.Namespace+" --reset (or --force)")
	default:
		return action
	}
}

// ClaimedToo is what the release is told that another one, which was refused, claims
// its storage too (B4.1b). Where that one is being deleted, as after a rename, there
// is no name to give: this one has the release to itself as soon as it is gone.
func ClaimedToo(r, other Release) Event {
	message := "release " + r.ReleaseName() + " in " + r.StorageNamespace() + " is claimed by " + other.Ref() + " too, "
	if other.Terminating() {
		return Event{StorageRefused, message + "which is being deleted and is not uninstalled, since this one runs the release; " +
			"nothing to do, but where it is held: flux-plunger release-fence " + other.Ref()}
	}
	return Event{StorageRefused, message + "so neither is acted on; give each its own release name"}
}

// WaitsFor says in a clause what ends the fence, and so whom to look at (B3.4, B5.3,
// B5.6, B2.3, B8.4). It goes by the release alone: where that does not tell, it names
// the command that asks the storage too.
func (r Release) WaitsFor() string {
	owner := r.Suspension()
	switch {
	case r.Terminating() && owner != Running && owner != Ours:
		return "flux-plunger, to let it go: somebody else suspends it"
	case owner == Ours:
		return "flux-plunger, to lift its own suspension"
	case r.Terminating() && r.failing():
		return "helm-controller, whose uninstall fails and is retried: see its conditions Ready and Released"
	case r.Terminating() && !r.through():
		return "helm-controller, to uninstall it"
	case r.Terminating():
		return "a proof that it was uninstalled: flux-plunger explain " + r.Ref()
	case owner != Running:
		return "whoever suspends it, to resume it: helm-controller does not look meanwhile"
	case r.Triggered():
		return "flux-plunger, to recover it: flux-plunger explain " + r.Ref()
	default:
		return "helm-controller, to remember the release again"
	}
}

// Kept is what a release is told that a drain could not let go of in time (B6.2). A
// live one only stays so where the drain's own write did not come through.
func Kept(r Release) Event {
	if r.Terminating() {
		return Event{FenceKept, "flux-plunger stopped before the uninstall was proven; the fence stays and the next flux-plunger takes it up, or: " +
			"flux-plunger release-fence " + r.Ref()}
	}
	message := "flux-plunger stopped and could not let it go in time; the fence stays"
	if r.Suspension() == Ours {
		message += ", and with it flux-plunger's suspension"
	}
	return Event{FenceKept, message + ", until the next flux-plunger takes it up; see the log of the one that stopped"}
}
