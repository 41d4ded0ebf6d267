// Package explore proves the two rules of a preflight by exhaustion: never
// delete what the evidence does not prove to be ours, and never say complete
// while anything is left or uncertain.
//
// It takes every disk that a crash of a real run can leave (the real
// internal/preflight and internal/journal on a file system that is true to
// fsync), everything that can have become of the objects in the cluster by then,
// and plays the real cleanup on each pair: the real loader, the real engine and
// the real decision, under a virtual clock. Each change that such a cleanup
// makes, or that happens while it runs, is in turn a state in which it can
// crash, and is played again until nothing new appears. An oracle that knows
// the truth judges every DELETE as it leaves and every verdict.
//
// Its invariant: it decides nothing that the product decides. What the model of
// the cluster leaves out is listed in docs/design/assurance.md.
package explore

import (
	"runtime"
	"slices"
	"sync"

	"github.com/holdfast-project/holdfast/internal/cleanup"
	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/identity"
)

// Explorer plays cleanups and counts what it has seen. Its methods are safe for
// concurrent use.
type Explorer struct {
	Tally   *Tally
	Cluster identity.Cluster

	mu sync.Mutex
	// states are the (disk, cluster) pairs, played the (evidence, cluster)
	// pairs that a cleanup was played on, and begun those with the crashes that
	// were still to come.
	states, played, begun map[uint64]struct{}
	// choices counts the worlds in which each option was played, and struck the
	// cleanups that each kind of weather met.
	choices map[Choice]int
	struck  map[string]int
	// Cleanups, Stormy and Complete count cleanups, those in foul weather, and
	// those that ended as complete.
	Cleanups, Stormy, Complete int
}

// New returns an explorer that has seen nothing.
func New(tally *Tally, cluster identity.Cluster) *Explorer {
	return &Explorer{
		Tally: tally, Cluster: cluster, states: map[uint64]struct{}{}, played: map[uint64]struct{}{}, begun: map[uint64]struct{}{},
		choices: map[Choice]int{}, struck: map[string]int{},
	}
}

// States is how many distinct (disk, cluster) pairs were combined. Disks that the
// loader cannot tell apart are played once for all of them, and one that it refuses
// is not played at all: Played counts what was.
func (e *Explorer) States() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.states)
}

// Played is how many distinct pairs of what the loader reads and of a cluster a
// cleanup was played on, those included that a crash of a cleanup has left.
func (e *Explorer) Played() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.played)
}

// pair mixes two hashes into one.
func pair(a, b uint64) uint64 {
	const odd = 0x9e3779b97f4a7c15
	x := a*odd + b
	x ^= x >> 29
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 32
	return x + a
}

// noteAll records states.
func (e *Explorer) noteAll(images []*Image, world uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, image := range images {
		e.states[pair(image.Hash, world)] = struct{}{}
	}
}

// first reports whether no cleanup was played on this evidence and world yet.
func (e *Explorer) first(image *Image, world uint64, crashes int) bool {
	key := pair(image.Seen, world)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.played[key] = struct{}{}
	key += uint64(crashes)
	if _, known := e.begun[key]; known {
		return false
	}
	e.begun[key] = struct{}{}
	return true
}

// nowhere is a record that keeps nothing. What a cleanup writes decides nothing;
// that no crash of its writing harms the evidence is proven on a real record, by
// Interrupt.
type nowhere struct{}

func (nowhere) Report(string) error                     { return nil }
func (nowhere) Observe(string, any) error               { return nil }
func (nowhere) Publish(evidence.Result) (string, error) { return "", nil }

// ToTheEnd lets crashes follow one another until nothing new appears.
const ToTheEnd = -1

// Judge plays a cleanup on an image in a world. A crash of it at each change of
// the cluster is played in turn, and so on, for as many crashes in a row as
// given, or ToTheEnd. The cleanup after the last change is the one that is run
// again when everything was done (A6.11).
func (e *Explorer) Judge(image *Image, world *World, crashes int) {
	if !image.accepted() {
		return // nothing is sent, and Album has judged that
	}
	type task struct {
		world   *World
		crashes int
	}
	todo := []task{{world, crashes}}
	for len(todo) > 0 {
		next := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !e.first(image, next.world.Hash(), next.crashes) {
			continue
		}
		e.play(image, next.world.Clone(), Weather{}, nowhere{}, func(changed *World) {
			switch {
			case next.crashes == ToTheEnd:
				todo = append(todo, task{changed.Clone(), ToTheEnd})
			case next.crashes > 0:
				todo = append(todo, task{changed.Clone(), next.crashes - 1})
			}
		})
	}
}

// play plays one cleanup, which changes the world, judges it, and returns how
// many requests it sent.
func (e *Explorer) play(image *Image, w *World, weather Weather, record cleanup.Record, changed func(*World)) int {
	w.sort() // what is played depends on what is there, not on how it came about
	oracle := newOracle(e.Tally, image.facts, w, weather)
	p := &Play{world: w, weather: weather, oracle: oracle, record: record, changed: changed}
	result, err := p.run(image.Inventory)
	if err != nil {
		e.Tally.count(&e.Tally.Stuck, "%v\n%s", err, oracle.scene())
		return p.requests
	}
	oracle.finished(w, result)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.Cleanups++
	if weather != (Weather{}) {
		e.Stormy++
	}
	if p.struck {
		e.struck[weather.What]++
	}
	if result.Complete {
		e.Complete++
	}
	return p.requests
}

// Product judges every image of an album with every world of its moments, the
// slots' options being as wide as wide says, with that many crashes of the
// cleanup in a row.
func (e *Explorer) Product(album *Album, wide func(slot int) Width, crashes int) {
	var work []func()
	for _, m := range album.moments() {
		everyone, list := sorted(album.at[m]), album.representatives(m)
		Worlds(e.Cluster, album.slots, m.statuses(), wide, func(w *World, lent []Choice) {
			chosen := slices.Clone(lent)
			work = append(work, func() {
				e.noteAll(everyone, w.Hash())
				for _, image := range list {
					e.Judge(image, w, crashes)
				}
				if slices.ContainsFunc(list, (*Image).accepted) {
					e.count(chosen)
				}
			})
		})
		sideBySide(work)
		work = work[:0]
	}
}

// sideBySide does all of it on every processor.
func sideBySide(work []func()) {
	next := make(chan func())
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for do := range next {
				do()
			}
		})
	}
	for _, do := range work {
		next <- do
	}
	close(next)
	workers.Wait()
}
