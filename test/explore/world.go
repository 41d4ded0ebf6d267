package explore

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/kube"
)

// World is a namespace of a cluster, as far as it decides anything here: what
// exists, and what is still on its way. It is exact to UID preconditions, the
// three propagation policies, finalizers, suspended Jobs and the two controllers
// that act on them, and it knows the truth about every object: whether a create
// of ours made it.
type World struct {
	Cluster identity.Cluster
	Objects []Object
	// Late are objects whose create is still on its way.
	Late []Late
}

// Object is one object.
type Object struct {
	identity.Object
	Nonce string
	// Owner is the UID in its one ownerReference, Label that of its
	// controller-uid label.
	Owner, Label string
	// Ours is the truth: our own create, or a Job of ours, made it.
	Ours bool
	// Held: a finalizer of somebody else, who never comes.
	Held bool
	// Foreground and Orphan are the finalizers of the garbage collector.
	Foreground, Orphan bool
	// Orphans: the collector has seen an orphaning deletion, and strips the
	// dependents even if a later DELETE takes its finalizer away.
	Orphans   bool
	Deleting  bool
	Suspended bool
	// Pods is how many Pods the Job's controller is still to make.
	Pods int
}

// Late is an object that will appear by itself.
type Late struct {
	Object
	// Afterwards: only after the cleanup that is looked at.
	Afterwards bool
}

// Clone returns a world of its own.
func (w *World) Clone() *World {
	return &World{Cluster: w.Cluster, Objects: slices.Clone(w.Objects), Late: slices.Clone(w.Late)}
}

// sort puts everything in the order of its UIDs.
func (w *World) sort() {
	slices.SortFunc(w.Objects, func(a, b Object) int { return cmp.Compare(a.UID, b.UID) })
	slices.SortFunc(w.Late, func(a, b Late) int { return cmp.Compare(a.UID, b.UID) })
}

// Hash is equal for two worlds that nobody can tell apart.
func (w *World) Hash() uint64 {
	sorted := w.Clone()
	sorted.sort()
	objects, late := sorted.Objects, sorted.Late
	sum := fnv.New64a()
	write := func(texts ...string) {
		for _, text := range texts {
			_, _ = sum.Write([]byte(text))
			_, _ = sum.Write([]byte{0})
		}
	}
	object := func(o *Object) {
		write(o.Kind, o.Name, o.UID, o.Nonce, o.Owner, o.Label)
		_, _ = sum.Write([]byte{bits(o.Held, o.Foreground, o.Orphan, o.Orphans, o.Deleting, o.Suspended, o.Ours), byte(o.Pods)})
	}
	write(w.Cluster.NamespaceUID, w.Cluster.KubeSystemUID)
	for i := range objects {
		object(&objects[i])
	}
	write("late")
	for i := range late {
		object(&late[i].Object)
		_, _ = sum.Write([]byte{bits(late[i].Afterwards)})
	}
	return sum.Sum64()
}

func bits(flags ...bool) (b byte) {
	for i, flag := range flags {
		if flag {
			b |= 1 << i
		}
	}
	return b
}

// find returns the index of what has this name, -1 for nothing.
func (w *World) find(place identity.Object) int {
	return slices.IndexFunc(w.Objects, func(o Object) bool {
		return o.Kind == place.Kind && o.Name == place.Name && o.APIVersion == place.APIVersion
	})
}

// lives reports whether an object with this UID exists.
func (w *World) lives(uid string) bool {
	return slices.ContainsFunc(w.Objects, func(o Object) bool { return o.UID == uid })
}

// Meta is what a metadata read of the object gives.
func (o *Object) Meta() kube.Meta {
	m := kube.Meta{Object: o.Object, Nonce: o.Nonce}
	if o.Deleting {
		m.DeletionTimestamp = "2026-05-01T12:00:00Z"
	}
	for _, f := range []struct {
		on   bool
		name string
	}{{o.Held, "example.com/held"}, {o.Foreground, "foregroundDeletion"}, {o.Orphan, "orphan"}} {
		if f.on {
			m.Finalizers = append(m.Finalizers, f.name)
		}
	}
	if o.Owner != "" {
		m.Owners = []kube.Owner{{APIVersion: "batch/v1", Kind: "Job", UID: o.Owner, Controller: true}}
	}
	if o.Label != "" {
		m.Labels = map[string]string{"batch.kubernetes.io/controller-uid": o.Label}
	}
	return m
}

// Delete is a DELETE. Without a UID it has no precondition, as in the API, and
// an absent propagation does what the server does by default: a Job orphans its
// Pods. The error is what internal/kube would make of the answer.
func (w *World) Delete(object identity.Object, propagation kube.Propagation) error {
	answer := kube.Answer{Verb: "delete", Object: object}
	i := w.find(object)
	switch {
	case i < 0:
		answer.Code, answer.Reason = 404, "NotFound"
		return &kube.Gone{Answer: answer}
	case object.UID != "" && w.Objects[i].UID != object.UID:
		answer.Code, answer.Reason = 409, "Conflict"
		return &kube.Conflict{Answer: answer}
	}
	w.Objects[i].delete(propagation)
	w.reap()
	return nil
}

// delete marks the object. On one that is being deleted already, a later DELETE
// exchanges the collector's finalizer for that of its own propagation, and leaves
// it without one; but what was to be orphaned stays so: a Foreground accepted over
// a pending Orphan was seen to orphan the Pods. A Pod's own deletion is graceful,
// and no later one changes it.
func (o *Object) delete(propagation kube.Propagation) {
	again := o.Deleting
	o.Deleting = true
	switch {
	case again && (propagation == "" || o.Kind == "Pod"):
	case propagation == kube.Foreground:
		o.Foreground, o.Orphan = true, false
	case propagation == kube.Orphan, propagation == "" && o.Kind == "Job":
		o.Foreground, o.Orphan, o.Orphans = false, true, true
	default:
		o.Foreground, o.Orphan = false, false
	}
}

// reap takes away what is deleted and held by nothing. Pods wait for their
// kubelet.
func (w *World) reap() {
	w.Objects = slices.DeleteFunc(w.Objects, func(o Object) bool {
		return o.Deleting && !o.Held && !o.Foreground && !o.Orphan && o.Kind != "Pod"
	})
}

// step is one thing that a controller, a kubelet or the network does next.
type step struct {
	what string
	uid  string
}

// The steps.
const (
	makePod    = "the Job controller makes a Pod"
	endPod     = "the kubelet ends a Pod"
	foreground = "the collector goes on with a foreground deletion"
	orphan     = "the collector orphans"
	collect    = "the collector deletes what has no owner"
	arrive     = "a create arrives"
)

// Steps are those that are possible now, in a fixed order.
func (w *World) Steps() (steps []step) {
	for i := range w.Objects {
		if what := w.next(&w.Objects[i]); what != "" {
			steps = append(steps, step{what, w.Objects[i].UID})
		}
	}
	for i := range w.Late {
		if !w.Late[i].Afterwards {
			steps = append(steps, step{arrive, w.Late[i].UID})
		}
	}
	return steps
}

// next is what the cluster's controllers would do with an object now, or "".
func (w *World) next(o *Object) string {
	switch {
	case o.Kind == "Pod" && o.Deleting && !o.Held:
		return endPod
	case o.Kind == "Job" && o.Pods > 0 && !o.Suspended && !o.Deleting:
		return makePod
	case o.Orphan, o.Orphans:
		return orphan
	case o.Foreground && w.foregroundMoves(o):
		return foreground
	case w.garbage(o):
		return collect
	default:
		return ""
	}
}

func (w *World) garbage(o *Object) bool { return o.Owner != "" && !o.Deleting && !w.lives(o.Owner) }

// foregroundMoves: there is a dependent to delete, or none left to wait for.
func (w *World) foregroundMoves(owner *Object) bool {
	waits := false
	for i := range w.Objects {
		if o := &w.Objects[i]; o.Owner == owner.UID {
			if !o.Deleting {
				return true
			}
			waits = true
		}
	}
	return !waits
}

// Take carries a step out.
func (w *World) Take(s step) {
	if s.what == arrive {
		w.arrive(s.uid)
		return
	}
	i := slices.IndexFunc(w.Objects, func(o Object) bool { return o.UID == s.uid })
	o := &w.Objects[i]
	switch s.what {
	case makePod:
		o.Pods--
		w.Objects = append(w.Objects, podOf(o))
	case endPod:
		w.Objects = slices.Delete(w.Objects, i, i+1)
	case foreground:
		o.Foreground = w.deleteDependents(o.UID)
	case orphan:
		for k := range w.Objects {
			if w.Objects[k].Owner == o.UID {
				w.Objects[k].Owner = ""
			}
		}
		o.Orphan, o.Orphans = false, false
	case collect:
		o.Deleting = true
	}
	w.reap()
}

func (w *World) deleteDependents(owner string) (any bool) {
	for k := range w.Objects {
		if w.Objects[k].Owner == owner {
			w.Objects[k].Deleting, any = true, true
		}
	}
	return any
}

// arrive lets a late create come through, if its name is free.
func (w *World) arrive(uid string) {
	i := slices.IndexFunc(w.Late, func(l Late) bool { return l.UID == uid })
	late := w.Late[i]
	w.Late = slices.Delete(w.Late, i, i+1)
	if w.find(late.Object.Object) < 0 {
		w.Objects = append(w.Objects, late.Object)
	}
}

// podOf is the Pod that a Job's controller makes.
func podOf(job *Object) Object {
	return Object{
		Object: identity.Object{APIVersion: "v1", Kind: "Pod", Namespace: job.Namespace, Name: job.Name + "-pod", UID: podUID(job.UID)},
		Nonce:  job.Nonce, Owner: job.UID, Label: job.UID, Ours: job.Ours,
	}
}

// Pod is the identity of the Pod of one of our Jobs.
func Pod(job identity.Object) identity.Object { return podOf(&Object{Object: job}).Object }

// podUID makes the UID of a Job's Pod out of the Job's.
func podUID(job string) string { return fmt.Sprintf("%s-b%s", job[:8], job[10:]) }
