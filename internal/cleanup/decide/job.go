package decide

import (
	"cmp"
	"slices"
	"time"
)

// job is what the history of one acknowledged Job amounts to.
//
// Gone means (A6.3): an absence read for the Job, then no owned and no orphaned
// Pod in two successive lists at least a second apart, and each recorded child
// read absent, all of it after the last failed read. One list is not enough: a
// Job controller with a stale cache can still be creating a Pod when its Job
// disappears.
type job struct {
	*Resource
	census census
	// deleted is when the first DELETE was answered; the deadline counts from
	// it, however often the DELETE is repeated.
	deleted time.Duration
	asked   bool

	everAbsent bool
	absentAt   time.Duration // the first absence read's answer
	lateWindow bool          // released, and no Pod known at absentAt
	podSeen    bool

	failedAt  time.Duration // the last failed read's answer
	confirmed bool          // an absence read since the last failure
	since     time.Duration // that read's answer
	quiet     bool          // a first clean list since then
	quietAt   time.Duration
	twice     bool // a second clean list

	current   *Read            // the Job itself when last seen there
	owned     []Pod            // by the last list, if it succeeded
	orphans   []Pod            // by the last successful list: doubt stays
	childGone map[string]bool  // by UID
	childHere map[string]*Read // by UID

	conflict   bool
	replacedBy *Read
	replaced   *Child // set when a child Pod was replaced, not the Job

	settled bool
	endedAt time.Duration
}

// event is one answer in a Job's history.
type event struct {
	answered time.Duration
	read     *Read
	child    *Child // read is of this child
	list     *PodList
}

// foldJob reads a Job's history in the order of its answers.
func foldJob(r *Resource, lists []PodList, c census) job {
	j := job{Resource: r, census: c, podSeen: len(r.Children) > 0, childGone: map[string]bool{}, childHere: map[string]*Read{}}
	if len(r.Deletes) == 0 {
		return j
	}
	j.asked, j.deleted = true, r.Deletes[0].Answered
	for _, e := range eventsOf(r, lists) {
		j.take(e)
		if j.conflict {
			break
		}
		j.settle(e.answered)
	}
	return j
}

func eventsOf(r *Resource, lists []PodList) []event {
	events := slices.Grow([]event(nil), len(lists))
	for i := range r.Reads {
		read := &r.Reads[i]
		events = append(events, event{read.Answered, read, nil, nil})
	}
	for i := range r.Children {
		child := &r.Children[i]
		for k := range child.Reads {
			read := &child.Reads[k]
			events = append(events, event{read.Answered, read, child, nil})
		}
	}
	for i := range lists {
		list := &lists[i]
		events = append(events, event{list.Answered, nil, nil, list})
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.answered, b.answered) })
	return events
}

func (j *job) take(e event) {
	switch {
	case e.list != nil:
		j.takeList(e.list)
	case e.child != nil:
		j.takeChild(e.child, e.read)
	default:
		j.takeRead(e.read)
	}
}

// fail discards every sign of absence so far: only successful reads after the
// last failure settle. What is settled stays so, since a failure is no sign of
// life; but if the Job comes alive again, its absence must be read anew.
func (j *job) fail(at time.Duration) {
	j.failedAt = at
	j.confirmed, j.quiet, j.twice = false, false, false
	clear(j.childGone)
}

// alive takes back every sign of absence: something of the Job was seen.
func (j *job) alive() {
	j.settled, j.quiet, j.twice = false, false, false
}

func (j *job) takeRead(read *Read) {
	j.current = nil
	switch {
	case read.Found == Failed:
		j.fail(read.Answered)
	case read.Found == Absent:
		j.takeAbsence(read)
	case read.UID != j.Object.UID:
		j.replace(read, nil)
	default:
		j.current, j.confirmed = read, false
		j.alive()
	}
}

func (j *job) takeAbsence(read *Read) {
	if !j.everAbsent {
		j.everAbsent, j.absentAt = true, read.Answered
		j.lateWindow = j.Released && !j.podSeen
	}
	if read.Sent >= j.failedAt {
		j.confirmed, j.since = true, read.Answered
	}
}

func (j *job) takeChild(child *Child, read *Read) {
	uid := child.Object.UID
	delete(j.childHere, uid)
	switch read.Found {
	case Failed:
		j.fail(read.Answered)
	case Absent:
		j.childGone[uid] = read.Sent >= j.failedAt
	case Present:
		if read.UID != uid {
			j.replace(read, child)
			return
		}
		j.childHere[uid] = read
		delete(j.childGone, uid)
		j.alive()
	}
}

func (j *job) takeList(list *PodList) {
	j.owned = nil
	if list.Failed {
		j.fail(list.Answered)
		return
	}
	j.orphans = nil
	for i := range list.Pods {
		p := &list.Pods[i]
		j.podSeen = j.podSeen || ownedBy(p, j.Resource)
		switch {
		case ownedBy(p, j.Resource):
			j.owned = append(j.owned, *p)
		case j.census.orphanOf(p, j.Resource):
			j.orphans = append(j.orphans, *p)
		}
	}
	if len(j.owned)+len(j.orphans) > 0 {
		j.alive()
		return
	}
	j.takeQuiet(list)
}

// takeQuiet counts a list without a Pod of this Job, if it was sent after the
// Job was read absent.
func (j *job) takeQuiet(list *PodList) {
	switch {
	case !j.confirmed || list.Sent < j.since:
	case !j.quiet:
		j.quiet, j.quietAt = true, list.Answered
	case list.Sent-j.quietAt >= QuietFor && list.Sent >= j.windowEnd():
		j.twice = true
	}
}

// windowEnd is until when lists go on although nothing is seen: a Pod create of
// a released Job may still be waiting in a webhook. Once a Pod that it owns was seen,
// or is on record, there is nothing left to wait for but that Pod. A label is not
// enough: it adds doubt and takes none away, and a stranger can set it (A6.3).
func (j *job) windowEnd() time.Duration {
	if !j.lateWindow || j.podSeen {
		return j.absentAt
	}
	return j.absentAt + LatePodWindow
}

// deadline is when waiting for this Job ends (A6.6). The window for a first Pod
// lies outside it, and what appears in the window gets the same time again.
func (j *job) deadline() time.Duration {
	d := j.deleted + Patience
	if j.lateWindow && j.absentAt <= d {
		return j.absentAt + LatePodWindow + Patience
	}
	return d
}

func (j *job) settle(at time.Duration) {
	if j.settled || !j.twice || at > j.deadline() {
		return
	}
	for _, child := range j.Children {
		if !j.childGone[child.Object.UID] {
			return
		}
	}
	j.settled, j.endedAt = true, at
}

func (j *job) replace(read *Read, child *Child) {
	j.conflict, j.replacedBy, j.replaced, j.endedAt = true, read, child, read.Answered
}

// ended reports whether the wait for this Job is over, and when that was.
func (j *job) ended(now time.Duration) (time.Duration, bool) {
	if j.asked && !j.conflict && !j.settled {
		return j.deadline(), now >= j.deadline()
	}
	return j.endedAt, j.conflict || j.settled
}

// away: the Job itself is gone, whatever is left of it: it was read absent, or its
// name is another object's.
func (j *job) away() bool { return j.confirmed || j.conflict && j.replaced == nil }

// gone is the only answer that opens the barrier.
func (j *job) gone() bool { return j.settled && !j.conflict }
