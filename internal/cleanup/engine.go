package cleanup

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-project/holdfast/internal/cleanup/decide"
	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/kube"
)

// engine carries out one cleanup. Its state is touched by one goroutine only;
// requests run on their own and come back as answers.
type engine struct {
	Config
	began     time.Time
	state     decide.State
	namespace string
	proven    map[identity.SlotRef]evidence.Acknowledged
	places    map[identity.SlotRef]identity.Object
	answers   chan answer
	inFlight  int
	counts    evidence.RequestCounts
	record    recorder
	// unproven is why the cluster's identity could not be read; empty when it was.
	unproven string
	// refused is what the last DELETE of a resource was answered when it was not
	// accepted; unread why the last read of a resource, of its recorded Pods or of a
	// planned name that failed did so, and unlisted that of the Pods' list. All of them
	// as they may be told.
	refused, unread map[identity.SlotRef]string
	unlisted        string
}

// answer is one request that came back, in time since the engine began.
type answer struct {
	request        decide.Request
	sent, answered time.Duration
	observation    kube.Observation
	cluster        kube.ClusterReading
	pods           []kube.Meta
	err            error
}

func newEngine(config Config, began time.Time) *engine {
	e := &engine{
		Config: config, began: began, state: newState(config.Inventory),
		namespace: config.Inventory.Parameters.Namespace,
		proven:    map[identity.SlotRef]evidence.Acknowledged{},
		places:    map[identity.SlotRef]identity.Object{},
		refused:   map[identity.SlotRef]string{},
		unread:    map[identity.SlotRef]string{},
		answers:   make(chan answer),
		record:    newRecorder(config),
	}
	for _, a := range config.Inventory.Resources {
		e.proven[a.Ref()] = a
	}
	for _, slot := range config.Inventory.Slots {
		e.places[slot.Ref] = slot.Object.Place()
	}
	return e
}

// run decides and sends until there is a conclusion or ctx ends. It returns
// after every request it sent has come back: nothing is left on its way when
// the result is written.
func (e *engine) run(ctx context.Context) (*decide.Conclusion, error) {
	requests, stop := context.WithCancel(ctx)
	defer func() {
		stop()
		for ; e.inFlight > 0; e.inFlight-- {
			<-e.answers
		}
	}()
	for {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("cleaning up: interrupted: %w", context.Cause(ctx))
		}
		step := e.next(time.Since(e.began))
		if step.Conclusion != nil {
			return step.Conclusion, nil
		}
		for _, request := range step.Requests {
			e.send(requests, request)
		}
		if err := e.await(ctx, step.Wake); err != nil {
			return nil, err
		}
	}
}

// await returns at the next answer, at wake, or when ctx ends.
func (e *engine) await(ctx context.Context, wake time.Duration) error {
	var due <-chan time.Time
	if wake > 0 {
		timer := time.NewTimer(wake - time.Since(e.began))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
	case <-due:
	case a := <-e.answers:
		e.inFlight--
		return e.arrive(a)
	}
	return nil
}

// next decides at a moment since the engine began.
func (e *engine) next(now time.Duration) decide.Step {
	e.state.Now = now
	return decide.Decide(e.state)
}

// depart notes that a request is on its way and returns what carries it out.
func (e *engine) depart(request decide.Request) func(context.Context, *answer) {
	e.state.InFlight[request] = true
	return e.asking(request)
}

// arrive takes the answer to a request that was on its way.
func (e *engine) arrive(a answer) error {
	delete(e.state.InFlight, a.request)
	return e.take(a)
}

// send starts one request.
func (e *engine) send(ctx context.Context, request decide.Request) {
	e.inFlight++
	ask := e.depart(request)
	go func() {
		bound := readTimeout
		if request.Verb == decide.Delete {
			bound = deleteTimeout
		}
		ctx, cancel := context.WithTimeout(ctx, bound)
		defer cancel()
		a := answer{request: request, sent: time.Since(e.began)}
		ask(ctx, &a)
		a.answered = time.Since(e.began)
		e.answers <- a
	}()
}

// asking binds a request to the call that carries it out. Everything that the
// call needs is taken here, on the engine's goroutine.
func (e *engine) asking(request decide.Request) func(context.Context, *answer) {
	switch request.Verb {
	case decide.ReadCluster:
		e.counts.Reads += 2
		return func(ctx context.Context, a *answer) { a.cluster = e.Cluster.ClusterIdentity(ctx, e.namespace) }
	case decide.ListPods:
		e.counts.Lists++
		return func(ctx context.Context, a *answer) { a.pods, a.err = e.Cluster.Pods(ctx, e.namespace) }
	case decide.Delete:
		e.counts.Deletes++
		proven := e.proven[request.Ref]
		e.record.progress(e.state.Now, request.Ref, proven.Object(), "deleting")
		return func(ctx context.Context, a *answer) { a.err = e.remove(ctx, proven, request.Propagation) }
	default:
		e.counts.Reads++
		place := e.place(request)
		return func(ctx context.Context, a *answer) { a.observation = e.Cluster.Observe(ctx, place) }
	}
}

// place is the name that a read asks for.
func (e *engine) place(request decide.Request) identity.Object {
	if request.Verb == decide.ReadChild {
		for _, child := range e.proven[request.Ref].Children() {
			if child.UID == request.Child {
				return child.Place()
			}
		}
	}
	return e.places[request.Ref]
}

// remove is the only function that sends a DELETE. It takes what the evidence
// loader alone can build, so that a UID read from the live cluster, or a name,
// does not type-check here.
func (e *engine) remove(ctx context.Context, proven evidence.Acknowledged, propagation decide.Propagation) error {
	return e.Cluster.Delete(ctx, proven.Object(), kube.Propagation(propagation))
}
