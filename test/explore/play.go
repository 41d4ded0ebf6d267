package explore

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-project/holdfast/internal/cleanup"
	"github.com/holdfast-project/holdfast/internal/cleanup/decide"
	"github.com/holdfast-project/holdfast/internal/evidence"
)

// travel is how long a request takes to the server, and its answer back. A slow
// server is as legal as a fast one, and makes a wait of thirty seconds few polls:
// that is what lets a million states be played in minutes.
const travel = 1500 * time.Millisecond

// delay is how long a step takes that happens by itself. The late create of a Pod is
// inside the window of A6.3, which is a stated limit.
func delay(what string) time.Duration {
	switch what {
	case arrive:
		return 12 * time.Second
	case endPod:
		return 3 * time.Second
	default:
		return time.Second
	}
}

// event is one thing that will happen at a moment.
type event struct {
	at    time.Duration
	apply func()
	// answer is set when the engine is told something.
	answer *cleanup.Answer
}

// Play is one cleanup in one world, under a clock of its own.
type Play struct {
	world    *World
	weather  Weather
	oracle   *oracle
	record   cleanup.Record
	changed  func(*World)
	now      time.Duration
	events   []event
	due      map[step]time.Duration
	requests int
	// struck: the weather has made a difference.
	struck bool
}

var errLost = errors.New("no usable answer")

// run plays the cleanup of an inventory to its end. changed is called after each
// change of the world.
func (p *Play) run(inventory *evidence.Inventory) (evidence.Result, error) {
	p.due = map[step]time.Duration{}
	course := cleanup.NewCourse(cleanup.Config{Inventory: inventory, Cluster: p, Record: p.record, Redact: func(s string) string { return s }})
	for {
		next := course.Next(p.now)
		if next.Conclusion != nil {
			result := course.Result(next.Conclusion)
			for _, reason := range next.Conclusion.Reasons {
				if err := p.record.Report(reason.Text); err != nil {
					return result, err
				}
			}
			_, err := p.record.Publish(result)
			return result, err
		}
		for _, request := range next.Requests {
			p.send(course, request)
		}
		if err := p.advance(course, next.Wake); err != nil {
			return evidence.Result{}, err
		}
	}
}

func (p *Play) send(course *cleanup.Course, request decide.Request) {
	ask := course.Ask(request)
	p.events = append(p.events, event{at: p.now + travel, apply: func() {
		answer := ask(context.Background())
		p.events = append(p.events, event{at: p.now + travel, answer: &answer})
	}})
}

// advance lets things happen until the engine has an answer or wants to be woken.
func (p *Play) advance(course *cleanup.Course, wake time.Duration) error {
	for {
		first, at := -1, wake
		for i, e := range p.events {
			if at == 0 || e.at < at {
				first, at = i, e.at
			}
		}
		if s, ok := p.dueStep(at); ok {
			p.now = max(p.now, p.due[s])
			delete(p.due, s)
			p.world.Take(s)
			p.changed(p.world)
			continue
		}
		if at == 0 {
			return errors.New("the engine waits for nothing")
		}
		p.now = max(p.now, at)
		if first < 0 {
			return nil
		}
		e := p.events[first]
		p.events = append(p.events[:first], p.events[first+1:]...)
		if e.answer != nil {
			return course.Take(*e.answer, p.now)
		}
		e.apply()
	}
}

// dueStep is the world's next own step that comes before at.
func (p *Play) dueStep(at time.Duration) (found step, ok bool) {
	steps := p.world.Steps()
	for _, s := range steps {
		when, known := p.due[s]
		if !known {
			when = p.now + delay(s.what)
			p.due[s] = when
		}
		if (at == 0 || when < at) && (!ok || when < p.due[found]) {
			found, ok = s, true
		}
	}
	return found, ok
}
