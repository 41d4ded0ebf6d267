package explore

import (
	"fmt"
	"slices"
	"sync"

	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/kube"
)

// Tally counts what must never happen. It is safe for concurrent use.
type Tally struct {
	mu sync.Mutex
	// Wrong are DELETEs that no durable receipt proves, or that come while a
	// consumer of ours could still run; False are verdicts that claim too much;
	// Adopted are objects taken for ours by their name; Lost are records that
	// were durable, or had to be, and are not read; Stuck are cleanups that had
	// nothing in their way and did not finish.
	Wrong, False, Adopted, Lost, Stuck int
	// Notes describe the first of each.
	Notes []string
	noted map[*int]int
}

// kept bounds the notes of one kind: a broken rule is broken ten thousand times.
const kept = 5

func (t *Tally) count(counter *int, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*counter++
	if t.noted[counter] >= kept {
		return
	}
	if note := fmt.Sprintf(format, args...); !slices.Contains(t.Notes, note) {
		if t.noted == nil {
			t.noted = map[*int]int{}
		}
		t.noted[counter]++
		t.Notes = append(t.Notes, note)
	}
}

// Clean reports whether nothing of it happened.
func (t *Tally) Clean() bool { return t.Wrong+t.False+t.Adopted+t.Lost+t.Stuck == 0 }

// oracle judges one cleanup. It knows the world's truth and the two rules, and
// nothing of how the decision is made.
type oracle struct {
	tally   *Tally
	facts   facts
	weather Weather
	start   *World
	// proven are the UIDs in the receipts on the disk, each with its place; names
	// are all planned places, and open those whose create is uncertain, each with
	// whether it was reconciled.
	proven map[string]identity.Object
	names  map[identity.Object]bool
	open   map[identity.Object]bool
}

// newOracle takes its facts from the disk, not from the loader that is judged.
func newOracle(tally *Tally, disk facts, world *World, weather Weather) *oracle {
	o := &oracle{tally: tally, facts: disk, weather: weather, start: world.Clone(), proven: map[string]identity.Object{}, names: map[identity.Object]bool{}, open: map[identity.Object]bool{}}
	for _, f := range disk {
		o.names[f.place] = true
		if f.acknowledged {
			o.proven[f.uid] = f.place
		}
		if f.uncertain() {
			o.open[f.place] = f.reconciled
		}
	}
	return o
}

// deletes judges a DELETE as it leaves.
func (o *oracle) deletes(w *World, object identity.Object, propagation kube.Propagation) {
	if o.proven[object.UID] != object.Place() {
		counter, why := &o.tally.Wrong, "no receipt proves it"
		if w.lives(object.UID) {
			counter, why = &o.tally.Adopted, "it was found in the cluster"
		}
		o.tally.count(counter, "%s is deleted, and %s\n%s", object, why, o.scene())
		return
	}
	want := kube.Orphan
	if isJob(object) {
		want = kube.Foreground
	}
	if propagation != want {
		o.tally.count(&o.tally.Wrong, "%s is deleted with %q\n%s", object, propagation, o.scene())
	}
	if isJob(object) {
		return
	}
	if consumer := o.consumer(w); consumer != "" {
		o.tally.count(&o.tally.Wrong, "%s is deleted while %s\n%s", object, consumer, o.scene())
	}
}

// consumer names something of ours that could still run, or that nobody can
// exclude.
func (o *oracle) consumer(w *World) string {
	for place, reconciled := range o.open {
		if isJob(place) && !reconciled {
			return "the create of " + place.String() + " is uncertain"
		}
	}
	for i := range w.Objects {
		if x := &w.Objects[i]; x.Ours && (x.Kind == "Pod" || x.Kind == "Job") && !o.vouched(&x.Object) {
			return x.Object.String() + " exists"
		}
	}
	if pod := w.comes(isPod); pod != "" {
		return pod
	}
	return o.stands(w, func(x *Object) bool { return isJob(x.Object) })
}

// stands names something of interest that is at a planned name since the
// beginning, or returns "".
func (o *oracle) stands(w *World, interesting func(*Object) bool) string {
	for i := range o.start.Objects {
		if x := &o.start.Objects[i]; interesting(x) && o.names[x.Place()] && w.lives(x.UID) {
			return x.Object.String() + " stands at a planned name"
		}
	}
	return ""
}

// finished judges a result against what is there at its end.
func (o *oracle) finished(w *World, r evidence.Result) {
	if claim := o.tooMuch(w, r); claim != "" {
		o.tally.count(&o.tally.False, "%q, and %s\n%s", r.Verdict, claim, o.scene())
	}
	if o.weather == (Weather{}) && !r.Complete && o.free() {
		o.tally.count(&o.tally.Stuck, "%q because of %q, and nothing was in the way\n%s", r.Verdict, r.Reasons, o.scene())
	}
	for i := range o.start.Objects {
		x := &o.start.Objects[i]
		k := w.find(x.Object)
		if o.weather == (Weather{}) && !x.Ours && (k < 0 || w.Objects[k].UID != x.UID || w.Objects[k].Deleting) {
			o.tally.count(&o.tally.Wrong, "the stranger's %s is gone\n%s", x.Object, o.scene())
		}
	}
}

// tooMuch says what contradicts a verdict, or returns "".
func (o *oracle) tooMuch(w *World, r evidence.Result) string {
	unreconciled, uncertain := false, len(o.open) > 0
	for _, reconciled := range o.open {
		unreconciled = unreconciled || !reconciled
	}
	switch {
	case r.Complete != (r.Verdict == evidence.Complete):
		return "complete is " + fmt.Sprint(r.Complete)
	case len(r.Unknown) != len(o.open):
		return fmt.Sprintf("%d creates are uncertain, %d are named", len(o.open), len(r.Unknown))
	case r.Verdict == evidence.Incomplete:
		return ""
	case unreconciled, uncertain && r.Complete:
		return "a create is uncertain"
	}
	return o.left(w, r)
}

// left says what is still there, or may come, although a cleanup calls itself
// complete or settled.
func (o *oracle) left(w *World, r evidence.Result) string {
	for i := range w.Objects {
		if x := &w.Objects[i]; x.Ours && !o.vouched(&x.Object) {
			return x.Object.String() + " exists"
		}
	}
	if late := w.comes(func(x *Late) bool { return r.Complete || isPod(x) }); late != "" {
		return late
	}
	return o.stands(w, func(x *Object) bool { return !x.Ours })
}

// comes names something of ours that is of interest and whose create is still on
// its way, or returns "".
func (w *World) comes(interesting func(*Late) bool) string {
	for i := range w.Late {
		if x := &w.Late[i]; x.Ours && interesting(x) {
			return x.Object.Object.String() + " is to come"
		}
	}
	return ""
}

func isPod(late *Late) bool { return late.Kind == "Pod" }

// isJob: what uses the others, and must be gone before they are. The product has a
// word of its own for it, identity.Object.Consumer, which is judged here too.
func isJob(object identity.Object) bool { return object.Kind == "Job" }

// vouched: the release owner has stated that this create was settled, and it came
// through all the same, after the cleanup had begun. Its Job is inert, and the
// owner's word is not ours to judge; what stood there from the beginning is.
func (o *oracle) vouched(object *identity.Object) bool {
	if !o.open[object.Place()] {
		return false
	}
	for i := range o.start.Late {
		if o.start.Late[i].UID == object.UID {
			return true
		}
	}
	return false
}

// free: nothing that a cleanup must respect is in its way.
func (o *oracle) free() bool {
	if len(o.open) > 0 {
		return false
	}
	for i := range o.start.Objects {
		if o.blocks(&o.start.Objects[i]) {
			return false
		}
	}
	for i := range o.start.Late {
		if o.start.Late[i].Kind != "Pod" {
			return false
		}
	}
	return true
}

// blocks: an object that a cleanup may not touch, or that somebody else holds.
func (o *oracle) blocks(x *Object) bool {
	switch planned := o.names[x.Place()]; {
	case x.Held, x.Orphans:
		return true
	case !x.Ours:
		return planned
	case x.Kind == "Pod" && x.Owner == "":
		return true
	default:
		return planned && o.proven[x.UID] != x.Place()
	}
}

// scene describes what was judged.
func (o *oracle) scene() string {
	text := fmt.Sprintf("  weather %+v\n", o.weather)
	for ref, f := range o.facts { // in any order: only people read it
		text += fmt.Sprintf("  disk: %s %+v\n", ref, f)
	}
	for _, x := range o.start.Objects {
		text += fmt.Sprintf("  cluster: %+v\n", x)
	}
	for _, x := range o.start.Late {
		text += fmt.Sprintf("  to come: %+v\n", x)
	}
	return text
}
