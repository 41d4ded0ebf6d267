package observe

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-project/holdfast/internal/plunger/decide"
)

// Metrics are flux-plunger's own (B8.2); none is named gotk_, those are
// helm-controller's (B8.1).
type Metrics struct {
	recoveries *prometheus.CounterVec
	events     *prometheus.CounterVec
	writes     *prometheus.CounterVec
	conflicts  prometheus.Counter
	drains     *prometheus.CounterVec
	drainTime  prometheus.Gauge
	states     *states
}

// NewMetrics registers the metrics. The clock ages fences.
func NewMetrics(registry prometheus.Registerer, now func() time.Time) (*Metrics, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "flux_plunger", Name: name, Help: help}, labels)
	}
	m := &Metrics{
		recoveries: counter("recoveries_total", "Recoveries of stuck releases, begun, and ended as recovered or failed.", "result"),
		events:     counter("events_total", "Events told, by reason, whether or not the API server took them; refusals are those of StorageRefused, RemoteSkipped and StorageContradicts.", "reason"),
		writes:     counter("writes_total", "Writes that succeeded, by verb of the decision.", "verb"),
		conflicts: prometheus.NewCounter(prometheus.CounterOpts{Namespace: "flux_plunger", Name: "conflicts_total",
			Help: "Writes that lost against another writer and were decided again."}),
		drains: counter("drains_total", "Ends of the drain at shutdown, by outcome.", "outcome"),
		drainTime: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "flux_plunger", Name: "drain_duration_seconds",
			Help: "How long the last drain took."}),
		states: newStates(now),
	}
	for _, c := range []prometheus.Collector{m.recoveries, m.events, m.writes, m.conflicts, m.drains, m.drainTime, m.states} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	m.begin()
	return m, nil
}

// begin has the counters of what happens rarely stand at 0 from the start: a graph
// of increases shows nothing of a counter that appears with its first event.
func (m *Metrics) begin() {
	for _, reason := range decide.Reasons() {
		m.events.WithLabelValues(string(reason))
	}
	for _, result := range []string{"begun", "recovered", "failed"} {
		m.recoveries.WithLabelValues(result)
	}
}

func (m *Metrics) told(reason decide.Reason) {
	m.events.WithLabelValues(string(reason)).Inc()
	switch reason {
	case decide.Recovered:
		m.recoveries.WithLabelValues("recovered").Inc()
	case decide.RecoveryFailed:
		m.recoveries.WithLabelValues("failed").Inc()
	}
}

// Wrote counts a write that succeeded.
func (m *Metrics) Wrote(verb decide.Verb) {
	m.writes.WithLabelValues(string(verb)).Inc()
	if verb == decide.Rewrite || verb == decide.DeleteRevision {
		m.recoveries.WithLabelValues("begun").Inc()
	}
}

// Conflicted counts a write that lost against another one.
func (m *Metrics) Conflicted() { m.conflicts.Inc() }

// Drained records how a drain ended: "clean", "kept" where fences had to stay,
// "incomplete" where it could not look at everything, "skipped" where it must
// not run.
func (m *Metrics) Drained(outcome string, took time.Duration) {
	m.drains.WithLabelValues(outcome).Inc()
	m.drainTime.Set(took.Seconds())
}

// Saw records the state of a release after a look, nil for one that is gone.
func (m *Metrics) Saw(key string, r *decide.Release) { m.states.saw(key, r) }

// states counts what stands right now, from the last look at each release.
type states struct {
	now                            func() time.Time
	fences, oldest, held, external *prometheus.Desc

	mu    sync.Mutex
	known map[string]state
}

type state struct {
	uid               string
	fenced            bool
	since             time.Time
	deleting, foreign bool
}

func newStates(now func() time.Time) *states {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("flux_plunger_"+name, help, nil, nil)
	}
	return &states{now: now, known: map[string]state{},
		fences:   desc("fences", "Releases that carry the fence."),
		oldest:   desc("oldest_fence_age_seconds", "Age of the oldest fence, 0 without any."),
		held:     desc("deletes_held", "Terminating releases that carry the fence."),
		external: desc("suspensions_not_owned", "Releases recovered before that somebody else suspends."),
	}
}

func (s *states) saw(key string, r *decide.Release) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r == nil {
		delete(s.known, key)
		return
	}
	next := state{uid: r.UID, fenced: r.Fenced(), since: r.FencedSince(), deleting: r.Terminating(),
		foreign: r.Processed() && r.Suspension() == decide.Foreign}
	if !next.fenced && !next.foreign {
		delete(s.known, key)
		return
	}
	if next.fenced && next.since.IsZero() {
		next.since = s.now()
		// A restore, or another manager that wrote it back, leaves no time of ours.
		if before := s.known[key]; before.fenced && before.uid == r.UID {
			next.since = before.since
		}
	}
	s.known[key] = next
}

// Describe is prometheus.Collector.
func (s *states) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{s.fences, s.oldest, s.held, s.external} {
		ch <- desc
	}
}

// Collect is prometheus.Collector.
func (s *states) Collect(ch chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var fences, held, external, oldest float64
	for _, state := range s.known {
		if state.foreign {
			external++
		}
		if !state.fenced {
			continue
		}
		fences++
		oldest = max(oldest, s.now().Sub(state.since).Seconds())
		if state.deleting {
			held++
		}
	}
	for desc, value := range map[*prometheus.Desc]float64{s.fences: fences, s.oldest: oldest, s.held: held, s.external: external} {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value)
	}
}
