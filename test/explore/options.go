package explore

import (
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/kube"
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
	// Recorded: something else was asked since, so that the Pod's receipt has to be
	// on the disk.
	Recorded
)

// String names a status.
func (s Status) String() string {
	return [...]string{"idle", "sent", "refused", "answered", "released", "seen", "recorded"}[s]
}

// Slot is a planned slot and the identity that the model's server gives to what
// its create makes.
type Slot struct {
	Ref    identity.SlotRef
	Object identity.Object
	Nonce  string
}

// statuses are all that a slot of this kind goes through.
func (s Slot) statuses() []Status {
	all := []Status{Idle, Sent, Refused, Answered, Released, Seen, Recorded}
	if !isJob(s.Object) {
		return all[:4]
	}
	return all
}

// effect adds something to a world.
type effect func(*World)

// Option is one thing that can have become of a slot.
type Option struct {
	// Name is unique among the options of one status of a kind.
	Name string
	add  effect
}

// stranger is the UID of whatever somebody else put at a slot's name.
func stranger(s Slot) string { return "0badf00d" + s.Object.UID[8:] }

func (s Slot) with(edits ...func(*Object)) effect {
	o := Object{Object: s.Object, Nonce: s.Nonce, Ours: true}
	for _, edit := range edits {
		edit(&o)
	}
	return func(w *World) { w.Objects = append(w.Objects, o) }
}

// pod adds the Job's Pod.
func (s Slot) pod(edits ...func(*Object)) effect {
	p := podOf(&Object{Object: s.Object, Nonce: s.Nonce, Ours: true})
	for _, edit := range edits {
		edit(&p)
	}
	return func(w *World) { w.Objects = append(w.Objects, p) }
}

// latePod is a Pod whose create waits in a webhook.
func (s Slot) latePod() effect {
	p := podOf(&Object{Object: s.Object, Nonce: s.Nonce, Ours: true})
	return func(w *World) { w.Late = append(w.Late, Late{Object: p}) }
}

// late is the slot's own create, still on its way.
func (s Slot) late(afterwards bool) effect {
	o := Object{Object: s.Object, Nonce: s.Nonce, Ours: true, Suspended: isJob(s.Object)}
	return func(w *World) { w.Late = append(w.Late, Late{Object: o, Afterwards: afterwards}) }
}

// replaced is somebody else's object under the slot's name. It carries our nonce
// when it was made from a copy of ours.
func (s Slot) replaced(copied bool) effect {
	o := Object{Object: s.Object}
	o.UID = stranger(s)
	if copied {
		o.Nonce = s.Nonce
	}
	return func(w *World) { w.Objects = append(w.Objects, o) }
}

// dependent is a stranger's object that names the slot's as its owner.
func (s Slot) dependent() effect {
	o := Object{Object: identity.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: s.Object.Namespace, Name: "strangers", UID: "0badcafe" + s.Object.UID[8:]}, Owner: s.Object.UID}
	return func(w *World) { w.Objects = append(w.Objects, o) }
}

func all(effects ...effect) effect {
	return func(w *World) {
		for _, add := range effects {
			add(w)
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
func orphaning(o *Object) { o.delete(kube.Orphan) }
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
	job := isJob(s.Object)
	switch {
	case status == Idle, status == Refused:
		return []Option{{"not made", nothing}}
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

func (s Slot) sent(job, wide bool) []Option {
	edit := func(*Object) {}
	if job {
		edit = suspended
	}
	options := []Option{
		{"not applied", nothing}, {"applied, its reply lost", s.with(edit)},
		{"arrives during the cleanup", s.late(false)}, {"arrives after it", s.late(true)},
	}
	if wide {
		options = append(options,
			Option{"a webhook dropped our nonce", s.with(edit, func(o *Object) { o.Nonce = "" })},
			Option{"a webhook added a finalizer", s.with(edit, held)},
			Option{"replaced by a stranger's", s.replaced(false)}, Option{"replaced by a copy", s.replaced(true)})
	}
	return options
}

func (s Slot) dependencies(wide bool) []Option {
	options := []Option{{"there", s.with()}, {"gone", nothing}, {"replaced by a copy", s.replaced(true)}}
	if wide {
		options = append(options,
			Option{"held by a finalizer", s.with(held)}, Option{"being deleted", s.with(ending, held)},
			Option{"replaced by a stranger's", s.replaced(false)})
		if s.Object.Kind == "Secret" {
			options = append(options, Option{"owner of a stranger's object", all(s.with(), s.dependent())})
		}
	}
	return options
}

func (s Slot) answered(wide bool) []Option {
	options := []Option{{"there", s.with(suspended)}, {"gone", nothing}, {"replaced by a copy", s.replaced(true)}}
	if wide {
		options = append(options,
			Option{"held by a finalizer", s.with(suspended, held)}, Option{"being deleted", s.with(suspended, ending, held)},
			Option{"replaced by a stranger's", s.replaced(false)})
	}
	return options
}

// running lists what can have become of a Job that was let run, and of its Pod:
// deleted by a stranger in the foreground (under way), in the background
// (the Pod still to be collected) or orphaning, and made again.
func (s Slot) running(status Status, wide bool) []Option {
	options := []Option{
		{"with its Pod", all(s.with(), s.pod())}, {"gone", nothing},
		{"gone, its Pod orphaned", s.pod(orphaned)}, {"replaced by a copy", s.replaced(true)},
		{"being deleted in the foreground", all(s.with(ending), s.pod(ending))}, {"gone, its Pod to be collected", s.pod()},
	}
	if status == Released {
		options = append(options, Option{"before its Pod", s.with(onePod)}, Option{"its Pod in a webhook", all(s.with(), s.latePod())})
	}
	if !wide {
		return options
	}
	options = append(options,
		Option{"its Pod held", all(s.with(), s.pod(held))}, Option{"held by a finalizer", all(s.with(held), s.pod())},
		Option{"being deleted in the foreground, its Pod held", all(s.with(ending), s.pod(ending, held))},
		Option{"being deleted, its Pod to be orphaned", all(s.with(orphaning), s.pod())},
		Option{"replaced by a copy, its Pod orphaned", all(s.replaced(true), s.pod(orphaned))},
		Option{"replaced by a stranger's, its Pod unmarked", all(s.replaced(false), s.pod(unmarked))},
		Option{"gone, its Pod unmarked", s.pod(unmarked)})
	if status == Released {
		options = append(options,
			Option{"its patch lost", s.with(suspended)}, Option{"gone, its Pod in a webhook", s.latePod()},
			Option{"replaced by a copy, its Pod in a webhook", all(s.replaced(true), s.latePod())})
	}
	return options
}

// Choice is an option of a slot, by name.
type Choice struct {
	Ref    identity.SlotRef
	Status Status
	Option string
}

// Worlds calls visit with every combination of the slots' options, and with what
// was chosen, which is only lent.
func Worlds(cluster identity.Cluster, slots []Slot, statuses []Status, wide func(slot int) Width, visit func(*World, []Choice)) {
	chosen := make([]Choice, len(slots))
	var choose func(i int, w *World)
	choose = func(i int, w *World) {
		if i == len(slots) {
			visit(w, chosen)
			return
		}
		for _, option := range slots[i].Options(statuses[i], wide(i)) {
			next := w.Clone()
			option.add(next)
			chosen[i] = Choice{slots[i].Ref, statuses[i], option.Name}
			choose(i+1, next)
		}
	}
	choose(0, &World{Cluster: cluster})
}
