package decide

import "time"

// Look returns what is remembered after a live read. A hold of ours that is not
// in the object any more was ended by somebody else: written false or removed is
// a resume, which is not fought in that generation (B3.3); another manager's
// true is theirs.
func (m Memory) Look(r Release) Memory {
	if m.HoldGeneration == 0 {
		return m
	}
	switch r.Suspension() {
	case Running:
		m.GivenUp = r.Generation
		m.HoldGeneration = 0
	case Foreign:
		m.HoldGeneration = 0
	}
	return m
}

// Unanswered returns what is remembered where it is not known whether an action was
// carried out. A hold that we gave up, as far as we know, is not ours any more: read
// as not given up it would look resumed by somebody else, and nothing would be
// recovered in that generation. Should it stand all the same, it is found as one
// that this process did not set, and lifted (B4.4).
func (m Memory) Unanswered(action Action) Memory {
	if action.Verb == Lift || action.Verb == DropFence {
		m.HoldGeneration = 0
	}
	return m
}

// aheadFor bounds how old a listing may be when the error comes.
const aheadFor = 2 * time.Second

// Listed returns what is remembered after the storage of r was listed. A list from
// after the error serves the look that asked for it and is not kept: what that look
// writes is not in it.
func (m Memory) Listed(r Release, storage *Storage, now time.Time) Memory {
	if m.Listing == nil || storage == nil {
		return m
	}
	if !r.upgrading() {
		m.Listing = nil
		return m
	}
	ahead := *storage
	ahead.Ahead = true
	m.Listing = &Listing{Generation: m.Listing.Generation, Storage: &ahead, At: now}
	return m
}

// TakeListing returns the storage that was listed ahead, where r now shows the
// error that it was listed for, and what is remembered then. It serves once.
func (m Memory) TakeListing(r *Release, now time.Time) (*Storage, Memory) {
	ahead := m.Listing
	if ahead == nil {
		return nil, m
	}
	current := r != nil && !r.Terminating() && r.Generation == ahead.Generation
	if current && r.upgrading() {
		return nil, m
	}
	m.Listing = nil
	if !current || !r.Triggered() || now.Sub(ahead.At) >= aheadFor {
		return nil, m
	}
	return ahead.Storage, m
}

// After returns what is remembered once an action has succeeded; answer is the
// release as the write left it, nil where it is gone.
func (m Memory) After(action Action, answer *Release, options Options, now time.Time) Memory {
	if answer == nil {
		return Memory{}
	}
	switch action.Verb {
	case Acquire:
		m.HoldGeneration = answer.Generation
		if action.Revision.UID != "" {
			m.HoldUID, m.HoldVersion = action.Revision.UID, action.Revision.Version
		}
	case SetFence:
		m = m.wanting(*answer, options)
	case Lift, DropFence:
		if m.HoldGeneration != 0 && options.FenceUntil == UntilLifted {
			// Here the fence goes together with the suspension; fencing the release
			// again for the upgrade that follows would undo that.
			m.Contradicted = answer.Generation
		}
		m.HoldGeneration = 0
	case DeleteRevision, Rewrite:
		m = m.recovering(now)
	}
	if action.Contradicted {
		m.Contradicted = answer.Generation
	}
	for _, event := range action.Events {
		if event.Reason == Recovered {
			m.Recovering = false
		}
	}
	return m
}

// wanting returns what is remembered once the fence of r is set: under repair a list
// ahead of the error is wanted.
func (m Memory) wanting(r Release, options Options) Memory {
	m.Listing = nil
	if options.Strategy == Repair {
		m.Listing = &Listing{Generation: r.Generation}
	}
	return m
}

// recovering returns what is remembered once a revision was rewritten or deleted
// (B4.2).
func (m Memory) recovering(now time.Time) Memory {
	if now.Sub(m.LastRecovery) >= backoffForgets {
		m.Recoveries = 0
	}
	m.Recoveries++
	m.LastRecovery, m.Recovering = now, true
	return m
}
