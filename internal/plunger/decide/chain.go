package decide

import "time"

// How long a standing state is left before it is looked at again; each of
// helm-controller's writes brings a look as well.
const (
	// fencedLook bounds the wait of a live fenced release.
	fencedLook = time.Minute
	// closingBound is how long after Ready the last patches of helm-controller's
	// pass are waited for; they follow each other within milliseconds.
	closingBound = 5 * time.Second
	// terminatingLook bounds the wait for helm-controller's uninstall (B5.3).
	terminatingLook = 15 * time.Second
	// pendingAfter is how long a delete is held before it is told (B5.4).
	pendingAfter = 10 * time.Minute
	// enoughReminders is how many handled requests without an uninstall are enough to
	// give way (B5.9).
	enoughReminders = 3
	// contradictionAfter is how many of helm-controller's failed attempts make a
	// contradiction between message and storage (B4.1a).
	contradictionAfter = 2
)

// rule looks at the input and either decides or leaves it to the next rule.
type rule func(Input) (Action, bool)

// Next returns the one next step for a release (B1.1).
func Next(in Input) Action {
	if in.Release == nil {
		return none("the release is gone")
	}
	action := first(in)
	if in.Storage != nil && in.Storage.Ahead && !beginsRepair(in, action) {
		in.Storage = nil
		action = first(in)
	}
	return report(in, action)
}

// first is what the first rule that decides says.
func first(in Input) Action {
	for _, decide := range chain(in) {
		if action, decided := decide(in); decided {
			return action
		}
	}
	return none("nothing to recover and nothing to hold")
}

// beginsRepair reports whether an action is one that a storage which was listed ahead
// of the error may lead to: a step towards the rewrite, on a release that is stuck by
// it. For whatever else, to say that there is nothing to do, to wait for the next
// recovery, to drop a fence or to prove an uninstall, it is listed again.
func beginsRepair(in Input, action Action) bool {
	return (action.Verb == ReadPayload || action.Verb == Rewrite) && stuck(in)
}

// chain is the specification in order. The first rule that decides wins.
func chain(in Input) []rule {
	switch {
	case in.Release.Terminating():
		return terminating()
	case in.Draining:
		return draining()
	default:
		return live()
	}
}

// terminating is the chain of a release whose delete was accepted. It never
// begins a recovery (B1.3), in the drain as little as before it.
func terminating() []rule {
	return []rule{
		deletedUnderForeignSuspension, // B2.2, B2.3: another manager's decision, no fence holds it
		remindUnderSuspension,         // B5.7: fill what is empty while our suspension keeps helm-controller off
		liftTerminating,               // B5.1, B5.2: helm-controller uninstalls the unsuspended generation
		notFenced,                     // without our fence a delete is none of our business
		remoteUnproven,                // B4.6: its storage is elsewhere, so nothing here can prove it
		disagreeing,                   // B Names: of two storages neither proves anything
		notThrough,                    // B5.3: helm-controller has not come to the end
		failingUninstall,              // B5.5: it keeps the release, as its own finalizer would
		storageOfTerminating,          // B5.6 needs the storage
		proven,                        // B5.6: empty and said so: the fence has done its work
		emptyButUnproven,              // B5.6, B5.6a: nothing is left to remind with
		refusedReminder,               // B4.1b: nor is it asked to uninstall what others claim
		givingWay,                     // B5.9: three handled requests without an uninstall
		fillHistory,                   // B5.7: without a history there is nothing to uninstall
		remind,                        // B5.7: and without a request nobody looks
	}
}

// draining is the chain of a live release after the manager's stop (B6.2).
func draining() []rule {
	return []rule{
		drainHold,  // ours goes together with the fence, for the next one to begin again
		drainFence, // a fence only goes at once, whoever suspends
	}
}

// live is the chain of a release that nobody has deleted.
func live() []rule {
	return []rule{
		shareGivenUp,         // B2.2: co-owned at true, their true stands
		foreignSuspension,    // B2.4, B10.6: hands off, but the fence may leave
		remoteSkipped,        // B4.6: no local Secret is ever taken for a remote one
		foundHold,            // B4.4: a suspension that this process did not set is lifted
		hold,                 // B4.2, B4.3: note, recheck, delete, note, lift
		refused,              // B Names, B4.1b: not ours to touch
		fenceForgotten,       // B5.8: before anything is listed
		upgradeInProgress,    // B5.8: helm-controller works; its outcome decides
		recoveryUnderWay,     // B10.1: and so does the outcome of what we asked for
		passNotClosed,        // B3.4: nor is it written into the middle of its last patches
		quiet,                // neither fence nor trigger: nothing was read, nothing is owed
		storageOfLive,        // everything below rests on the storage
		backoff,              // B4.2: a release that sticks again waits
		beginRecovery,        // B4.1, B10.1: fence first, then the strategy's own write
		requestAfterRepair,   // B10.1: once per repaired UID
		uninstalledLatest,    // B10.7: said, not done
		contradictingStorage, // B4.1a: two attempts, then the payload decides, or it is said
		fenceLeaves,          // B3.4: helm-controller remembers the latest stored revision
		contradictedFence,    // B5.8: a fence that the storage contradicts goes
		keepFence,            // and any other one stays
	}
}
