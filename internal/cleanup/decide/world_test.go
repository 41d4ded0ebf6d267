package decide

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/holdfast-project/holdfast/internal/identity"
)

// The order of our own decisions against a small world with slow answers, failed
// requests, held, orphaned, late and replaced objects. What Kubernetes does is
// proven elsewhere, on a real control plane; here it is whether any history that
// a cluster can give brings Decide to delete a dependency too early, or to say
// complete too much.

type thing struct {
	uid      string
	born     time.Duration // becomes visible
	gone     time.Duration // stops being visible; 0 is never
	deleting time.Duration
	held     bool // a finalizer that nobody removes
}

func (x *thing) visible(t time.Duration) bool {
	return x != nil && t >= x.born && (x.gone == 0 || t < x.gone)
}

type worldPod struct {
	thing
	pod Pod
}

type world struct {
	t       *testing.T
	rng     *rand.Rand
	flaky   float64
	objects map[identity.SlotRef]*thing
	grace   map[identity.SlotRef]time.Duration
	pods    []*worldPod
	late    map[identity.SlotRef]bool
	state   State
	pending []pendingAnswer
	log     []pendingAnswer
	slow    bool // an answer took so long that a deadline may have passed
}

type pendingAnswer struct {
	at    time.Duration
	apply func(sent, at time.Duration)
	sent  time.Duration
	r     Request
}

func (w *world) chance(p float64) bool { return w.rng.Float64() < p }

func (w *world) within(d time.Duration) time.Duration {
	return time.Duration(w.rng.Int64N(int64(d))) + 1
}

func uid(n int) string { return fmt.Sprintf("%08x-0000-4000-8000-000000000000", n) }

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 7)), objects: map[identity.SlotRef]*thing{}, grace: map[identity.SlotRef]time.Duration{}, late: map[identity.SlotRef]bool{}}
	if w.chance(0.4) {
		w.flaky = w.rng.Float64() * 0.5
	}
	w.state = State{Recorded: recorded(), InFlight: map[Request]bool{}}
	names := []identity.Slot{"secret", "network-policy", "migration", "api", "worker"}
	kinds := map[identity.Slot]string{"secret": "Secret", "network-policy": "NetworkPolicy"}
	reached := w.rng.IntN(len(names) + 1) // how far the run came
	for i, name := range names {
		kind := kinds[name]
		if kind == "" {
			kind = "Job"
		}
		switch {
		case i < reached:
			w.acknowledge(name, kind, uid(i+1))
		case i == reached && w.chance(0.4):
			w.leave(slot(name, kind, Uncertain), 0.5)
		default:
			w.leave(slot(name, kind, Planned), 0.03)
		}
	}
	return w
}

// leave adds a slot without a receipt; with some chance something stands, or
// will stand, at its name.
func (w *world) leave(s Slot, found float64) {
	if s.State == Uncertain && w.chance(0.5) {
		s.Reconciled = true
	}
	if w.chance(found) {
		w.objects[s.Ref] = &thing{uid: other, born: w.within(10*time.Second) - 5*time.Second}
	}
	w.state.Slots = append(w.state.Slots, s)
}

func (w *world) acknowledge(name identity.Slot, kind, id string) {
	r := Resource{Ref: ref(name), Object: object(kind, "r-"+string(name), id), Nonce: nonce}
	x := &thing{uid: id, held: w.chance(0.05)}
	switch {
	case w.chance(0.1): // somebody deleted it, and perhaps put another there
		x = nil
		if w.chance(0.5) {
			x = &thing{uid: other}
		}
	}
	w.objects[r.Ref] = x
	w.grace[r.Ref] = w.within(3 * time.Second)
	if kind == "Job" {
		w.furnish(&r)
	}
	w.state.Resources = append(w.state.Resources, r)
}

// furnish gives a Job its Pod, in one of the ways that go wrong.
func (w *world) furnish(r *Resource) {
	r.Released = w.chance(0.8)
	if !r.Released {
		return
	}
	p := &worldPod{pod: Pod{
		Object: object("Pod", r.Object.Name+"-x", r.Object.UID[:7]+"f-1111-4000-8000-000000000000"),
		Owners: []string{r.Object.UID}, ControllerUIDs: []string{r.Object.UID}, Nonce: nonce,
	}}
	p.uid = p.pod.Object.UID
	p.held = w.chance(0.05)
	x := w.objects[r.Ref]
	switch {
	case x == nil || x.uid != r.Object.UID: // deleted earlier, its Pods orphaned or collected
		if !w.chance(0.3) {
			return
		}
		p.pod.Owners = nil
	case w.chance(0.25): // its Pod's create waits in a webhook
		w.late[r.Ref] = true
	}
	p.born = -1
	if w.late[r.Ref] {
		p.born, p.gone = time.Hour, time.Hour
	} else if w.chance(0.5) {
		r.Children = append(r.Children, Child{Object: p.pod.Object})
	}
	w.pods = append(w.pods, p)
}

func (w *world) podsOf(job string) (found []*worldPod) {
	for _, p := range w.pods {
		if p.pod.ControllerUIDs[0] == job {
			found = append(found, p)
		}
	}
	return found
}

// remove is what a DELETE with a UID precondition does at time t.
func (w *world) remove(r Resource, t time.Duration) {
	w.judgeDelete(r, t)
	x := w.objects[r.Ref]
	if !x.visible(t) || x.uid != r.Object.UID || x.deleting != 0 {
		return
	}
	x.deleting = t
	end := t + w.grace[r.Ref]
	for _, p := range w.podsOf(r.Object.UID) {
		switch {
		case len(p.pod.Owners) == 0:
		case w.late[r.Ref]:
			// It appears up to 12 s after its Job's end, and is collected.
			p.born = end + w.within(12*time.Second)
			p.gone = p.born + w.within(5*time.Second)
		case p.held:
			x.held = true
		default:
			p.deleting, p.gone = t, t+w.within(2*time.Second)
			end = max(end, p.gone+w.within(100*time.Millisecond))
		}
	}
	if !x.held {
		x.gone = end
	}
}

// judgeDelete is the oracle of A6.7, from the world's truth.
func (w *world) judgeDelete(r Resource, t time.Duration) {
	if r.Object.Consumer() {
		return
	}
	for _, job := range w.state.Resources {
		if !job.Object.Consumer() {
			continue
		}
		if x := w.objects[job.Ref]; x.visible(t) {
			w.fail("%s is deleted while %s exists", r.Object, job.Object)
		}
		for _, p := range w.podsOf(job.Object.UID) {
			if p.visible(t) || w.late[job.Ref] && t < p.born {
				w.fail("%s is deleted while %s exists or is to come", r.Object, p.pod.Object)
			}
		}
	}
	for _, s := range w.state.Slots {
		if s.Object.Consumer() && s.State == Uncertain && !s.Reconciled {
			w.fail("%s is deleted while the create of %s is uncertain", r.Object, s.Ref)
		}
		if x := w.objects[s.Ref]; s.Object.Consumer() && x != nil && x.born <= 0 {
			w.fail("%s is deleted while an unexplained Job stands at %s", r.Object, s.Ref)
		}
	}
}

func (w *world) fail(format string, args ...any) {
	for _, p := range w.log {
		w.t.Logf("sent %12s answered %12s %+v", p.sent, p.at, p.r)
	}
	w.t.Fatalf(format, args...)
}

// look is a read of a name at time t.
func (w *world) look(x *thing, t time.Duration, mark string) Read {
	if !x.visible(t) {
		return Read{Found: Absent}
	}
	return Read{Found: Present, UID: x.uid, Nonce: mark, Deleting: x.deleting != 0 && t >= x.deleting}
}

// serve carries out a request at time t and returns what its answer does.
func (w *world) serve(r Request, t time.Duration) func(sent, at time.Duration) {
	lost := w.chance(w.flaky)
	s := &w.state
	switch r.Verb {
	case ReadCluster:
		return func(sent, at time.Duration) {
			read := clusterRead(at)
			read.Sent = sent
			s.Cluster = append(s.Cluster, read)
		}
	case ListPods:
		list := PodList{Failed: lost}
		for _, p := range w.pods {
			if p.visible(t) && !lost {
				list.Pods = append(list.Pods, p.pod)
			}
		}
		return func(sent, at time.Duration) {
			list.Sent, list.Answered = sent, at
			s.Pods = append(s.Pods, list)
		}
	case ReadPlanned:
		read := w.look(w.objects[r.Ref], t, nonce)
		return func(sent, at time.Duration) {
			for i := range s.Slots {
				if s.Slots[i].Ref == r.Ref {
					s.Slots[i].Reads = append(s.Slots[i].Reads, stamp(read, sent, at, lost))
				}
			}
		}
	}
	i := 0
	for s.Resources[i].Ref != r.Ref {
		i++
	}
	row := &s.Resources[i]
	switch r.Verb {
	case Delete:
		if !lost || w.chance(0.5) { // a lost answer may have been carried out
			w.remove(*row, t)
		}
		return func(sent, at time.Duration) {
			row.Deletes = append(row.Deletes, Deletion{Answered: at})
		}
	case ReadChild:
		read := w.look(&w.podsOf(row.Object.UID)[0].thing, t, nonce)
		return func(sent, at time.Duration) {
			row.Children[0].Reads = append(row.Children[0].Reads, stamp(read, sent, at, lost))
		}
	default:
		read := w.look(w.objects[r.Ref], t, nonce)
		return func(sent, at time.Duration) { row.Reads = append(row.Reads, stamp(read, sent, at, lost)) }
	}
}

func stamp(read Read, sent, at time.Duration, lost bool) Read {
	if lost {
		read = Read{Found: Failed}
	}
	read.Sent, read.Answered = sent, at
	return read
}

// play runs until there is a conclusion.
func (w *world) play() Conclusion {
	for range 10000 {
		step := Decide(w.state)
		if step.Conclusion != nil {
			return *step.Conclusion
		}
		for _, r := range step.Requests {
			w.state.InFlight[r] = true
			served := w.state.Now + w.within(80*time.Millisecond)
			answered := served + w.within(80*time.Millisecond)
			if w.chance(0.005) {
				answered += w.within(20 * time.Second)
				w.slow = true
			}
			w.log = append(w.log, pendingAnswer{at: answered, sent: w.state.Now, r: r})
			w.pending = append(w.pending, pendingAnswer{answered, w.serve(r, served), w.state.Now, r})
		}
		next, at := -1, step.Wake
		for i, p := range w.pending {
			if at == 0 || p.at < at {
				next, at = i, p.at
			}
		}
		if at == 0 {
			w.fail("nothing to wait for: %+v", w.state)
		}
		w.state.Now = max(at, w.state.Now)
		if next >= 0 {
			p := w.pending[next]
			w.pending = append(w.pending[:next], w.pending[next+1:]...)
			delete(w.state.InFlight, p.r)
			p.apply(p.sent, p.at)
		}
	}
	w.fail("it never ends")
	panic("unreachable")
}

// clean reports whether nothing at all stands in the way of complete.
func (w *world) clean() bool {
	if w.flaky > 0 || w.slow {
		return false
	}
	for _, x := range w.objects {
		if x != nil && (x.held || x.uid == other) {
			return false
		}
	}
	for _, p := range w.pods {
		if p.held || len(p.pod.Owners) == 0 {
			return false
		}
	}
	for _, s := range w.state.Slots {
		if s.State == Uncertain {
			return false
		}
	}
	return true
}

func (w *world) judgeEnd(c Conclusion) {
	now := w.state.Now
	if c.Verdict == Incomplete {
		return
	}
	for _, r := range w.state.Resources {
		if x := w.objects[r.Ref]; x.visible(now) {
			w.fail("%s, and %s exists", c.Verdict, r.Object)
		}
	}
	for _, p := range w.pods {
		if p.visible(now) {
			w.fail("%s, and %s exists", c.Verdict, p.pod.Object)
		}
	}
	for _, s := range w.state.Slots {
		if s.State == Uncertain && (c.Verdict == Complete || !s.Reconciled) {
			w.fail("%s, and %s is uncertain", c.Verdict, s.Ref)
		}
		if x := w.objects[s.Ref]; x != nil && x.born <= 0 {
			w.fail("%s, and something stands at %s", c.Verdict, s.Ref)
		}
	}
}

// A6.3 to A6.7, A6.14, A6.15 over many worlds: no dependency too early, no
// verdict too good; and where nothing is in the way, complete.
func TestWorlds(t *testing.T) {
	worlds := 2000
	if testing.Short() {
		worlds = 500
	}
	verdicts, clean := map[Verdict]int{}, 0
	for seed := range worlds {
		w := newWorld(t, uint64(seed))
		c := w.play()
		w.judgeEnd(c)
		verdicts[c.Verdict]++
		if w.clean() {
			clean++
			if c.Verdict != Complete {
				w.fail("seed %d: nothing in the way, and %s because of %+v", seed, c.Verdict, c.Reasons)
			}
		}
	}
	t.Logf("%d worlds, %d of them clean: %v", worlds, clean, verdicts)
	for _, v := range []Verdict{Complete, Incomplete, Reconciled} {
		if verdicts[v] < worlds/100 {
			t.Errorf("only %d worlds end as %s: the space has shrunk", verdicts[v], v)
		}
	}
}
