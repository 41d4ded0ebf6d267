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
	// pairs that a cleanup was played on.
	states, played map[uint64]struct{}
	// Cleanups, Stormy and Complete count cleanups, those in foul weather, and
	// those that ended as complete.
	Cleanups, Stormy, Complete int
	// Requests is how many requests all cleanups have sent.
	Requests int
}

// New returns an explorer that has seen nothing.
func New(tally *Tally, cluster identity.Cluster) *Explorer {
	return &Explorer{Tally: tally, Cluster: cluster, states: map[uint64]struct{}{}, played: map[uint64]struct{}{}}
}

// States is how many distinct (disk, cluster) pairs were judged.
func (e *Explorer) States() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.states)
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
	key := pair(image.Seen, world) + uint64(crashes)
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, known := e.played[key]; known {
		return false
	}
	e.played[key] = struct{}{}
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
	if image.Inventory == nil {
		return // refused: nothing is sent, and Album has judged that
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

// Storm plays one cleanup in each kind of weather, from each of its requests on,
// and a second one in fair weather on what the first leaves.
func (e *Explorer) Storm(image *Image, world *World) {
	if image.Inventory == nil {
		return
	}
	for _, kind := range kinds() {
		at := 1
		if kind == Reborn || kind == NoKubeSystem {
			at = 0
		}
		for ; ; at++ {
			w := world.Clone()
			sent := e.play(image, w, Weather{What: kind, At: at}, nowhere{}, func(*World) {})
			for i := range w.Late {
				w.Late[i].Afterwards = false
			}
			e.Judge(image, w, 0)
			if at == 0 || at >= sent {
				break
			}
		}
	}
}

// play plays one cleanup, which changes the world, judges it, and returns how
// many requests it sent.
func (e *Explorer) play(image *Image, w *World, weather Weather, record cleanup.Record, changed func(*World)) int {
	oracle := newOracle(e.Tally, image.Inventory, w, weather)
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
	e.Requests += p.requests
	if weather != (Weather{}) {
		e.Stormy++
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
		everyone, list := sorted(album.at[m]), representatives(album.at[m])
		Worlds(e.Cluster, album.slots, m.statuses(), wide, func(w *World) {
			work = append(work, func() {
				e.noteAll(everyone, w.Hash())
				for _, image := range list {
					e.Judge(image, w, crashes)
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

// Weathers plays every kind of weather on each image that a loader can tell
// apart, in every stride-th of its thin worlds.
func (e *Explorer) Weathers(album *Album, stride int) {
	var work []func()
	n := 0
	for _, m := range album.moments() {
		for _, image := range representatives(album.at[m]) {
			Worlds(e.Cluster, album.slots, m.statuses(), func(int) Width { return Thin }, func(w *World) {
				if n++; n%stride == 0 {
					work = append(work, func() { e.Storm(image, w) })
				}
			})
		}
	}
	sideBySide(work)
}

// representatives is one image for each thing that a loader can see.
func representatives(images map[uint64]*Image) (list []*Image) {
	seen := map[uint64]bool{}
	for _, image := range sorted(images) {
		if !seen[image.Seen] {
			seen[image.Seen] = true
			list = append(list, image)
		}
	}
	return list
}
