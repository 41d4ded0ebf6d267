package helmcontroller

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Point names a place in a look at which a test can stop the stand-in. The
// places are those between which a delete, a fence or a suspension makes a
// difference.
type Point string

// The points, in the order in which one look can pass them.
const (
	// PointRead: the object has been read, nothing was decided.
	PointRead Point = "read"
	// PointSawDelete: the object read is terminating; nothing was done about it.
	PointSawDelete Point = "saw delete"
	// PointBeforeAction: the status says which Helm action runs, Helm was not
	// called yet.
	PointBeforeAction Point = "before action"
	// PointAfterAction: Helm has answered, the status does not say so yet.
	PointAfterAction Point = "after action"
	// PointPatchedConditions: the first of the three closing patches is in.
	PointPatchedConditions Point = "patched conditions"
	// PointDroppedFinalizer: the patch of the finalizers is in, the one of the
	// status is not.
	PointDroppedFinalizer Point = "dropped finalizer"
	// PointBeforeStatusPatch: the status is about to be patched.
	PointBeforeStatusPatch Point = "before status patch"
	// PointDone: the look is over, all patches are in.
	PointDone Point = "done"
)

// Gate stops the stand-in at chosen points. Give its At to Options. The zero
// value is open everywhere.
type Gate struct {
	mu    sync.Mutex
	stops []*Stop
	// under are the objects of looks that are past PointRead and not at PointDone.
	under map[types.NamespacedName]bool
}

// Stop is one arrangement to halt the stand-in at a point.
type Stop struct {
	point    Point
	object   types.NamespacedName
	once     sync.Once
	arrived  chan struct{}
	released chan struct{}
}

// Hold arranges that the next look at object which reaches point waits there
// until Release.
func (g *Gate) Hold(point Point, object types.NamespacedName) *Stop {
	s := &Stop{point: point, object: object, arrived: make(chan struct{}), released: make(chan struct{})}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stops = append(g.stops, s)
	return s
}

// Under reports whether a look at object is under way that has passed PointRead: a
// stop there comes too late for it.
func (g *Gate) Under(object types.NamespacedName) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.under[object]
}

// Arrived is closed when the stand-in waits at the point.
func (s *Stop) Arrived() <-chan struct{} { return s.arrived }

// Release lets the stand-in go on; more than once does nothing.
func (s *Stop) Release() { s.once.Do(func() { close(s.released) }) }

// At waits while somebody holds the point. It returns early when ctx ends, as a
// process that is killed does not finish its thought.
func (g *Gate) At(ctx context.Context, point Point, object types.NamespacedName) {
	s := g.take(point, object)
	if s == nil {
		return
	}
	close(s.arrived)
	select {
	case <-s.released:
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.passed(point, object)
}

// passed notes where the look at object is.
func (g *Gate) passed(point Point, object types.NamespacedName) {
	switch point {
	case PointRead:
		if g.under == nil {
			g.under = map[types.NamespacedName]bool{}
		}
		g.under[object] = true
	case PointDone:
		delete(g.under, object)
	}
}

// take removes the first matching stop: each holds one look only, or a retry
// would wait for a test that has long gone on.
func (g *Gate) take(point Point, object types.NamespacedName) *Stop {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, s := range g.stops {
		if s.point == point && s.object == object {
			g.stops = append(g.stops[:i], g.stops[i+1:]...)
			return s
		}
	}
	g.passed(point, object) // with the same lock as Hold: a look is stopped or known to be under way
	return nil
}
