package decide

import (
	"slices"
	"time"
)

// Decide says what to do next. The stages are the specification's order; each
// one either has something to wait for or lets the next one begin.
func Decide(s State) Step {
	v := newView(s)
	for _, stage := range []func(*view, *plan) bool{
		// A6.2: prove the cluster before anything else is asked of it.
		(*view).identifyCluster,
		// A6.3: Jobs first, of all attempts, with their Pods.
		(*view).removeJobs,
		// A6.3: a Pod with a registered nonce and no Job to answer for it.
		(*view).lookForStrays,
		// A6.14: what stands at the names of slots without a receipt.
		(*view).readPlannedNames,
		// A6.2, A6.7: the barrier's reads must be of the recorded cluster.
		(*view).identifyAgainBeforeBarrier,
		// A6.7: dependencies, if the barrier is open.
		(*view).removeDependencies,
		// A6.14: the planned names again, before a verdict that claims much.
		(*view).readPlannedNamesAgain,
		// A6.2: identity again, after the last absence read.
		(*view).identifyAgain,
		// A result must not be written while a deletion is on its way.
		(*view).awaitDeletes,
	} {
		p := &plan{state: &v.State}
		if stage(&v, p) {
			return p.step
		}
	}
	conclusion := v.conclude()
	return Step{Conclusion: &conclusion}
}

// plan collects the requests of one stage.
type plan struct {
	state *State
	step  Step
}

// at sends r from t on, once, unless it is on its way already.
func (p *plan) at(t time.Duration, r Request) {
	switch {
	case p.state.InFlight[r] || slices.Contains(p.step.Requests, r):
	case t <= p.state.Now:
		p.step.Requests = append(p.step.Requests, r)
	default:
		p.wake(t)
	}
}

// now sends r, once, unless it is on its way already.
func (p *plan) now(r Request) { p.at(p.state.Now, r) }

// wake asks for another decision at t, which is still to come.
func (p *plan) wake(t time.Duration) {
	if p.step.Wake == 0 {
		p.step.Wake = t
	}
	p.step.Wake = min(p.step.Wake, t)
}

// view is a State with its histories read.
type view struct {
	State
	census       census
	jobs         []job
	dependencies []dependency
}

func newView(s State) view {
	c := newCensus(s)
	jobs, dependencies := slices.Grow([]job(nil), len(s.Resources)), slices.Grow([]dependency(nil), len(s.Resources))
	for i := range s.Resources {
		r := &s.Resources[i]
		if r.Object.Consumer() {
			jobs = append(jobs, foldJob(r, s.Pods, c))
		} else {
			dependencies = append(dependencies, foldDependency(r))
		}
	}
	return view{State: s, census: c, jobs: jobs, dependencies: dependencies}
}

// stopped: the first reading did not prove the cluster, so nothing was and
// nothing will be sent. It is asked only after that reading, which is the first
// stage.
func (v *view) stopped() bool { return doubtCluster(v.Recorded, v.Cluster[0]) != "" }

func (v *view) identifyCluster(p *plan) bool {
	if len(v.Cluster) > 0 {
		return false
	}
	p.now(Request{Verb: ReadCluster})
	return true
}

func (v *view) removeJobs(p *plan) (waiting bool) {
	if v.stopped() {
		return false
	}
	for i := range v.jobs {
		j := &v.jobs[i]
		if _, over := j.ended(v.Now); over {
			continue
		}
		waiting = true
		v.removeJob(p, j)
	}
	return waiting
}

func (v *view) removeJob(p *plan, j *job) {
	remove := Request{Verb: Delete, Ref: j.Ref, Propagation: Foreground}
	if !j.asked {
		p.now(remove)
		return
	}
	p.wake(j.deadline())
	if at, due := repeatDelete(j.Resource, j.current); due {
		p.at(at, remove)
	}
	if !j.confirmed {
		p.at(nextRead(j.Reads), Request{Verb: ReadResource, Ref: j.Ref})
	}
	for _, child := range j.Children {
		if !j.childGone[child.Object.UID] {
			p.at(nextRead(child.Reads), Request{Verb: ReadChild, Ref: j.Ref, Child: child.Object.UID})
		}
	}
	p.at(nextList(v.Pods), Request{Verb: ListPods})
}

// consumersEnded is when the last Job's wait ended; 0 without Jobs.
func (v *view) consumersEnded() (last time.Duration) {
	for i := range v.jobs {
		at, _ := v.jobs[i].ended(v.Now)
		last = max(last, at)
	}
	return last
}

// lookForStrays needs one successful list where no Job has asked for one.
func (v *view) lookForStrays(p *plan) bool {
	if v.stopped() || len(v.Resources)+len(v.Slots) == 0 {
		return false
	}
	if _, ok := listed(v.Pods); ok {
		return false
	}
	if len(v.Pods) > 0 && v.Now >= v.Pods[0].Answered+Patience {
		return false
	}
	p.at(nextList(v.Pods), Request{Verb: ListPods})
	return true
}

func (v *view) readPlannedNames(p *plan) bool {
	return v.readNames(p, v.consumersEnded())
}

// readNames reads every planned name once after since, and repeats a read that
// failed for as long as a resource would be given.
func (v *view) readNames(p *plan, since time.Duration) (waiting bool) {
	if v.stopped() {
		return false
	}
	for _, slot := range v.Slots {
		if _, read := readSince(slot, since); read || v.gaveUp(slot, since) {
			continue
		}
		waiting = true
		p.at(nextRead(slot.Reads), Request{Verb: ReadPlanned, Ref: slot.Ref})
	}
	return waiting
}

// readSince finds the first successful read that was sent after since.
func readSince(slot Slot, since time.Duration) (Read, bool) {
	for _, read := range slot.Reads {
		if read.Found != Failed && read.Sent >= since {
			return read, true
		}
	}
	return Read{}, false
}

// gaveUp: reads of this name have failed for the whole of its time.
func (v *view) gaveUp(slot Slot, since time.Duration) bool {
	for _, read := range slot.Reads {
		if read.Sent >= since {
			return v.Now >= read.Answered+Patience
		}
	}
	return false
}

// evidenceEnded is when the last read that the barrier rests on was answered.
func (v *view) evidenceEnded() time.Duration {
	since := v.consumersEnded()
	last, _ := listed(v.Pods)
	last = max(last, since)
	for _, slot := range v.Slots {
		read, _ := readSince(slot, since)
		last = max(last, read.Answered)
	}
	return last
}

// identifyAgainBeforeBarrier: if a load balancer changed clusters under the
// absence reads, their 404s must not cost the Secret that a running Job uses.
func (v *view) identifyAgainBeforeBarrier(p *plan) bool {
	if _, read := clusterReadSince(v.State, v.evidenceEnded()); read {
		return false
	}
	p.now(Request{Verb: ReadCluster})
	return true
}

func (v *view) removeDependencies(p *plan) (waiting bool) {
	if len(v.barrier()) > 0 {
		return false
	}
	for i := range v.dependencies {
		d := &v.dependencies[i]
		if _, over := d.ended(v.Now); over {
			continue
		}
		waiting = true
		remove := Request{Verb: Delete, Ref: d.Ref, Propagation: Orphan}
		if !d.asked {
			p.now(remove)
			continue
		}
		p.wake(d.deadline())
		if at, due := repeatDelete(d.Resource, d.current); due {
			p.at(at, remove)
		}
		p.at(nextRead(d.Reads), Request{Verb: ReadResource, Ref: d.Ref})
	}
	return waiting
}

// settledAt is when the last resource's wait ended.
func (v *view) settledAt() time.Duration {
	last := v.consumersEnded()
	for i := range v.dependencies {
		at, _ := v.dependencies[i].ended(v.Now)
		last = max(last, at)
	}
	return last
}

func (v *view) readPlannedNamesAgain(p *plan) bool {
	if len(v.shortcomings()) > 0 {
		return false
	}
	return v.readNames(p, v.secondLook())
}

// secondLook is from when on a read of a planned name counts for the verdict: after
// the last resource, and after the identity read that the barrier rests on, which
// follows the first look. Without that a cleanup that deletes no dependency would
// take its one look for both, and what arrived meanwhile for settled.
func (v *view) secondLook() time.Duration {
	before, _ := clusterReadSince(v.State, v.evidenceEnded())
	return max(v.settledAt(), before.Answered)
}

// lastAbsence is when the last read that the verdict rests on, beyond those of the
// barrier, was answered.
func (v *view) lastAbsence() time.Duration {
	last := v.settledAt()
	for _, slot := range v.Slots {
		for _, read := range slot.Reads {
			last = max(last, read.Answered)
		}
	}
	return last
}

func (v *view) identifyAgain(p *plan) bool {
	if _, read := clusterReadSince(v.State, v.lastAbsence()); read {
		return false
	}
	p.now(Request{Verb: ReadCluster})
	return true
}

func (v *view) awaitDeletes(p *plan) bool {
	for request := range v.InFlight {
		if request.Verb == Delete {
			return true
		}
	}
	return false
}
