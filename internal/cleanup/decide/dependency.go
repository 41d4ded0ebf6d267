package decide

import "time"

// dependency is what the history of one acknowledged Secret or NetworkPolicy
// amounts to. One absence read settles it: a UID is never used again (A6.5).
type dependency struct {
	*Resource
	asked    bool
	deleted  time.Duration
	current  *Read
	gone     bool
	conflict bool
	last     *Read
	endedAt  time.Duration
}

func foldDependency(r *Resource) dependency {
	d := dependency{Resource: r}
	if len(r.Deletes) == 0 {
		return d
	}
	d.asked, d.deleted = true, r.Deletes[0].Answered
	for i := range r.Reads {
		read := &r.Reads[i]
		d.last, d.current = read, nil
		switch {
		case read.Found == Absent && read.Answered <= d.deadline():
			d.gone, d.endedAt = true, read.Answered
			return d
		case read.Found == Present && read.UID != r.Object.UID:
			d.conflict, d.endedAt = true, read.Answered
			return d
		case read.Found == Present:
			d.current = read
		}
	}
	return d
}

func (d *dependency) deadline() time.Duration { return d.deleted + Patience }

func (d *dependency) ended(now time.Duration) (time.Duration, bool) {
	if d.asked && !d.gone && !d.conflict {
		return d.deadline(), now >= d.deadline()
	}
	return d.endedAt, d.gone || d.conflict
}

// repeatDelete is when the DELETE may be sent again: a read after its last
// answer must have shown our object, not being deleted. The UID precondition
// makes the repetition safe (A6.5); an object that is already being deleted
// needs none, and a second DELETE could change what happens to its dependents.
func repeatDelete(r *Resource, current *Read) (at time.Duration, due bool) {
	if current == nil || current.Deleting {
		return at, false
	}
	// What was read was read after a first DELETE.
	n := len(r.Deletes)
	last := r.Deletes[n-1].Answered
	return last + deletePause(n), current.Sent >= last
}
