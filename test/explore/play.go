package explore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-project/holdfast/internal/cleanup"
	"github.com/holdfast-project/holdfast/internal/cleanup/decide"
	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/kube"
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

// Weather is what goes wrong while a cleanup runs. At counts requests from 1; 0
// is never.
type Weather struct {
	What string
	At   int
}

// The kinds of weather.
const (
	// Fair: nothing goes wrong.
	Fair = ""
	// Gateway: the request and the three after it are answered by a gateway,
	// with a 404 page for a read; nothing reaches the API server.
	Gateway = "gateway"
	// LostReply: the request is carried out and its answer is lost.
	LostReply = "lost-reply"
	// OtherCluster: from this request on another, empty cluster answers.
	OtherCluster = "other-cluster"
	// StrangerOrphans, StrangerForeground and StrangerBackground: somebody
	// deletes every Job there is, with that propagation.
	StrangerOrphans    = "stranger-orphans"
	StrangerForeground = "stranger-foreground"
	StrangerBackground = "stranger-background"
	// StrangerReplaces: somebody deletes every object of ours outright and
	// makes copies.
	StrangerReplaces = "stranger-replaces"
	// Arrival: every late create arrives.
	Arrival = "arrival"
	// Reborn: the namespace was finalized by force and made again.
	Reborn = "namespace-reborn"
	// NoKubeSystem: kube-system may no longer be read.
	NoKubeSystem = "kube-system-forbidden"
)

func kinds() []string {
	return []string{
		Gateway, LostReply, OtherCluster, StrangerOrphans, StrangerForeground, StrangerBackground,
		StrangerReplaces, Arrival, Reborn, NoKubeSystem,
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

// strike lets the weather do what it does, and says what becomes of the request
// that has just arrived.
func (p *Play) strike() string {
	p.requests++
	n, w := p.requests, p.weather
	switch w.What {
	case Gateway:
		if w.At > 0 && n >= w.At && n < w.At+4 {
			return w.What
		}
	case OtherCluster:
		if w.At > 0 && n >= w.At {
			return w.What
		}
	case LostReply:
		if n == w.At {
			return w.What
		}
	default:
		if n == w.At && p.world.meddle(w.What) {
			p.changed(p.world)
		}
	}
	return Fair
}

// meddle is what somebody else does at once; it reports whether it did anything.
func (w *World) meddle(what string) bool {
	before := w.Hash()
	for _, o := range slices.Clone(w.Objects) {
		if how, deletes := strangerDeletes(what); deletes && o.Kind == "Job" {
			_ = w.Delete(o.Object, how)
		}
		if what == StrangerReplaces && o.Ours && o.Kind != "Pod" {
			i := w.find(o.Object)
			w.Objects[i] = Object{Object: o.Object, Nonce: o.Nonce}
			w.Objects[i].UID = "0badf00d" + o.UID[8:]
		}
	}
	if what == Arrival {
		for len(w.Late) > 0 {
			w.arrive(w.Late[0].UID)
		}
	}
	return w.Hash() != before
}

// strangerDeletes returns the propagation with which a stranger deletes Jobs.
func strangerDeletes(what string) (kube.Propagation, bool) {
	switch what {
	case StrangerOrphans:
		return kube.Orphan, true
	case StrangerForeground:
		return kube.Foreground, true
	case StrangerBackground:
		return kube.Background, true
	default:
		return "", false
	}
}

// otherCluster is what answers when a load balancer has gone astray.
func (p *Play) otherCluster() *World {
	return &World{Cluster: identity.Cluster{NamespaceUID: "0badc0de-0000-4000-8000-000000000001", KubeSystemUID: "0badc0de-0000-4000-8000-000000000002"}}
}

// serving is the world that answers, nil when none does.
func (p *Play) serving(hit string) *World {
	switch hit {
	case Gateway:
		return nil
	case OtherCluster:
		return p.otherCluster()
	default:
		return p.world
	}
}
