package cleanup

import (
	"context"
	"time"

	"github.com/holdfast-project/holdfast/internal/cleanup/decide"
	"github.com/holdfast-project/holdfast/internal/evidence"
)

// Course is one cleanup without a clock and without concurrency of its own: its
// caller says what time it is and in which order answers come. Run is the same
// engine under the real clock; a caller that tries every order and every crash
// takes a Course, so that what it proves holds for what Run does.
type Course struct{ engine *engine }

// Answer is a request that came back. Only Take looks into it.
type Answer struct{ answer answer }

// NewCourse begins a cleanup at time 0. Every field of config is used as by Run.
func NewCourse(config Config) *Course {
	return &Course{engine: newEngine(config, time.Unix(0, 0))}
}

// Next says what to do at now, counted from the beginning.
func (c *Course) Next(now time.Duration) decide.Step { return c.engine.next(now) }

// Ask sends one request of the last Step. The returned function carries it out
// on config.Cluster, once, at whatever moment the caller lets it arrive there.
func (c *Course) Ask(request decide.Request) func(context.Context) Answer {
	ask, sent := c.engine.depart(request), c.engine.state.Now
	return func(ctx context.Context) Answer {
		a := answer{request: request, sent: sent}
		ask(ctx, &a)
		return Answer{a}
	}
}

// Take is the moment at which an answer comes back. An error is a file of the
// record that could not be made durable.
func (c *Course) Take(a Answer, now time.Duration) error {
	a.answer.answered = now
	return c.engine.arrive(a.answer)
}

// Result is the conclusion as it is published.
func (c *Course) Result(conclusion *decide.Conclusion) evidence.Result {
	return c.engine.result(conclusion, c.engine.state.Now)
}
