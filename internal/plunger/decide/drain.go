package decide

// drainHold aborts a recovery in progress. Suspension and fence go in one apply:
// the release then is what it was before, and the next flux-plunger begins
// again (B6.2). The apply's resourceVersion is what makes it safe: a delete in
// between fails it.
func drainHold(in Input) (Action, bool) {
	owner := in.Release.Suspension()
	if owner != Ours && owner != Shared {
		return Action{}, false
	}
	action := do(DropFence, "stopping: the recovery is aborted (B6.2)")
	if owner == Shared {
		return action, true
	}
	return action.telling(DrainAborted, "flux-plunger stops: the recovery was aborted, the next one begins it again"), true
}

func drainFence(in Input) (Action, bool) {
	return do(DropFence, "stopping: the fence of a live release goes (B6.2)"), in.Release.Fenced()
}
