package explore

import (
	"github.com/holdfast-project/holdfast/internal/identity"
)

// Status is how far a slot's request came, seen from the cluster at the moment
// of a crash.
type Status byte

// The statuses.
const (
	// Idle: no create left.
	Idle Status = iota
	// Sent: a create left, and whether it was or will be carried out is open.
	Sent
	// Refused: a definite refusal; nothing was made.
	Refused
	// Answered: made, and the process was told so.
	Answered
	// Released: the patch that lets the Job run has left.
	Released
	// Seen: a Pod of it was seen.
	Seen
)

// Slot is a planned slot and the identity that the model's server gives to what
// its create makes.
type Slot struct {
	Ref    identity.SlotRef
	Object identity.Object
	Nonce  string
}

// Option is one thing that can have become of a slot: what is added to a world.
type Option func(*World)

// stranger is the UID of whatever somebody else put at a slot's name.
func stranger(s Slot) string { return "0badf00d" + s.Object.UID[8:] }

func (s Slot) with(edits ...func(*Object)) Option {
	o := Object{Object: s.Object, Nonce: s.Nonce, Ours: true}
	for _, edit := range edits {
		edit(&o)
	}
	return func(w *World) { w.Objects = append(w.Objects, o) }
}

// pod adds the Job's Pod.
func (s Slot) pod(edits ...func(*Object)) Option {
	p := podOf(&Object{Object: s.Object, Nonce: s.Nonce, Ours: true})
	for _, edit := range edits {
		edit(&p)
	}
	return func(w *World) { w.Objects = append(w.Objects, p) }
}

// latePod is a Pod whose create waits in a webhook.
func (s Slot) latePod() Option {
	p := podOf(&Object{Object: s.Object, Nonce: s.Nonce, Ours: true})
	return func(w *World) { w.Late = append(w.Late, Late{Object: p}) }
}

// late is the slot's own create, still on its way.
func (s Slot) late(afterwards bool) Option {
	o := Object{Object: s.Object, Nonce: s.Nonce, Ours: true, Suspended: s.Object.Consumer()}
	return func(w *World) { w.Late = append(w.Late, Late{Object: o, Afterwards: afterwards}) }
}

// replaced is somebody else's object under the slot's name. It carries our nonce
// when it was made from a copy of ours.
func (s Slot) replaced(copied bool) Option {
	o := Object{Object: s.Object}
	o.UID = stranger(s)
	if copied {
		o.Nonce = s.Nonce
	}
	return func(w *World) { w.Objects = append(w.Objects, o) }
}

// dependent is a stranger's object that names the slot's as its owner.
func (s Slot) dependent() Option {
	o := Object{Object: identity.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: s.Object.Namespace, Name: "strangers", UID: "0badcafe" + s.Object.UID[8:]}, Owner: s.Object.UID}
	return func(w *World) { w.Objects = append(w.Objects, o) }
}

func all(options ...Option) Option {
	return func(w *World) {
		for _, option := range options {
			option(w)
		}
	}
}

func nothing(*World) {}

// The edits of an object.
func held(o *Object)      { o.Held = true }
func suspended(o *Object) { o.Suspended = true }
func onePod(o *Object)    { o.Pods = 1 }
func ending(o *Object)    { o.Deleting, o.Foreground = true, o.Kind == "Job" }
func orphaned(o *Object)  { o.Owner = "" }
func unmarked(o *Object)  { o.Owner, o.Label = "", "" }

// Width says how many of a slot's options are combined with those of others.
type Width int

// The widths: Wide has every option; Narrow leaves out those that differ only in
// their circumstances; Thin has the three that differ most. First, Second and
// Third are one option alone.
const (
	Thin Width = iota
	Narrow
	Wide
	First
	Second
	Third
)

// Options lists what can have become of a slot by the time a cleanup looks,
// given how far its request came.
func (s Slot) Options(status Status, width Width) []Option {
	options := s.options(status, width == Wide)
	switch width {
	case Thin:
		return options[:min(3, len(options))]
	case First, Second, Third:
		return options[min(int(width-First), len(options)-1):][:1]
	default:
		return options
	}
}

func (s Slot) options(status Status, wide bool) []Option {
	job := s.Object.Consumer()
	switch {
	case status == Idle, status == Refused:
		return []Option{nothing}
	case status == Sent:
		return s.sent(job, wide)
	case !job:
		return s.dependencies(wide)
	case status == Answered:
		return s.answered(wide)
	default:
		return s.running(status, wide)
	}
}

// sent: not applied, applied with a lost reply, applied and changed, or arriving
// while cleanup runs or after it.
func (s Slot) sent(job, wide bool) []Option {
	edit := func(*Object) {}
	if job {
		edit = suspended
	}
	options := []Option{nothing, s.with(edit), s.late(false), s.late(true)}
	if wide {
		// A webhook dropped our nonce or added a finalizer; or ours is gone and
		// something else, perhaps a copy, stands there.
		options = append(options, s.with(edit, func(o *Object) { o.Nonce = "" }), s.with(edit, held), s.replaced(false), s.replaced(true))
	}
	return options
}

func (s Slot) dependencies(wide bool) []Option {
	options := []Option{s.with(), nothing, s.replaced(true)}
	if wide {
		options = append(options, s.with(held))
		if s.Object.Kind == "Secret" {
			options = append(options, all(s.with(), s.dependent()))
		}
	}
	return options
}

func (s Slot) answered(wide bool) []Option {
	options := []Option{s.with(suspended), nothing, s.replaced(true)}
	if wide {
		options = append(options, s.with(suspended, held), s.replaced(false), s.with(suspended, ending, held))
	}
	return options
}

// running lists what can have become of a Job that was let run, and of its Pod:
// deleted by a stranger in the foreground (under way), in the background
// (the Pod still to be collected) or orphaning, and made again.
func (s Slot) running(status Status, wide bool) []Option {
	options := []Option{
		all(s.with(), s.pod()), nothing, s.pod(orphaned), s.replaced(true),
		all(s.with(ending), s.pod(ending)), s.pod(),
	}
	if status == Released {
		options = append(options, s.with(onePod), all(s.with(), s.latePod()))
	}
	if !wide {
		return options
	}
	options = append(options,
		all(s.with(), s.pod(held)), all(s.with(held), s.pod()), all(s.with(ending), s.pod(ending, held)),
		all(s.replaced(true), s.pod(orphaned)), all(s.replaced(false), s.pod(unmarked)), s.pod(unmarked))
	if status == Released {
		// The patch was lost, or the Pod's create outlives its Job.
		options = append(options, s.with(suspended), s.latePod(), all(s.replaced(true), s.latePod()))
	}
	return options
}

// Worlds calls visit with every combination of the slots' options.
func Worlds(cluster identity.Cluster, slots []Slot, statuses []Status, wide func(slot int) Width, visit func(*World)) {
	var choose func(i int, w *World)
	choose = func(i int, w *World) {
		if i == len(slots) {
			visit(w)
			return
		}
		for _, option := range slots[i].Options(statuses[i], wide(i)) {
			next := w.Clone()
			option(next)
			choose(i+1, next)
		}
	}
	choose(0, &World{Cluster: cluster})
}
