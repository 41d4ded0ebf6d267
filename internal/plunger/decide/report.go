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
