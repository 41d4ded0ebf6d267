package plunger_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-project/holdfast/internal/plunger"
	"github.com/holdfast-project/holdfast/internal/plunger/walk"
)

// B6.5, B6.7: the relations of the durations, at every grace period that the
// chart can render.
func TestTimingRelations(t *testing.T) {
	for grace := plunger.MinGrace; grace <= plunger.MaxGrace; grace += time.Second {
		timing := plunger.DefaultTiming()
		timing.Grace = grace
		timing = timing.Complete()
		if err := timing.Check(); err != nil {
			t.Errorf("B6.5 grace %s: %v", grace, err)
		}
		if timing.Lease <= timing.Retry+timing.Renew+10*time.Second+timing.Grace-25*time.Second {
			t.Errorf("B6.5 grace %s: a lease of %s does not outlast the stop and the drain", grace, timing.Lease)
		}
		if timing.Drain() != grace-25*time.Second || timing.Drain() <= 0 {
			t.Errorf("B6.7 grace %s: a drain of %s", grace, timing.Drain())
		}
	}
	if lease := plunger.DefaultTiming().Complete().Lease; lease >= 120*time.Second {
		t.Errorf("B6.5 the default lease is %s, want under two minutes", lease)
	}
	if plunger.StopBound <= walk.WriteBound {
		t.Errorf("B6.4a a write may take %s, longer than the stop's %s", walk.WriteBound, plunger.StopBound)
	}
}

// B6.5, B6.7: what does not hold together is refused at the start.
func TestTimingRefusals(t *testing.T) {
	for name, edit := range map[string]func(*plunger.Timing){
		"B6.7 grace too short":       func(c *plunger.Timing) { c.Grace = 39 * time.Second },
		"B6.7 grace too long":        func(c *plunger.Timing) { c.Grace, c.Lease = 141*time.Second, time.Hour },
		"B6.5 lease too short":       func(c *plunger.Timing) { c.Lease = c.Retry + c.Renew + 75*time.Second },
		"B6.5 retry not positive":    func(c *plunger.Timing) { c.Retry = 0 },
		"B6.5 renew not above retry": func(c *plunger.Timing) { c.Renew = c.Retry },
	} {
		timing := plunger.DefaultTiming().Complete()
		edit(&timing)
		if timing.Check() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// B6.7: a refused grace period is told in the flag's own unit.
func TestGraceIsToldInSeconds(t *testing.T) {
	timing := plunger.DefaultTiming().Complete()
	timing.Grace = 5 * time.Second
	if err := timing.Check(); err == nil || !strings.Contains(err.Error(), "5 is not between 40 and 140") {
		t.Errorf("got %v", err)
	}
}
