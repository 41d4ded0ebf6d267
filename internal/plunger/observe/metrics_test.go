package observe

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-project/holdfast/internal/plunger/decide"
)

// B8.2: every reason and every result is counted from 0 before anything happened,
// so that its first time is an increase.
func TestCountersBeginAtZero(t *testing.T) {
	registry := prometheus.NewRegistry()
	if _, err := NewMetrics(registry, time.Now); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]int{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if counter := metric.GetCounter(); counter != nil {
				counted[family.GetName()]++
				if counter.GetValue() != 0 {
					t.Errorf("%s begins at %v", family.GetName(), counter.GetValue())
				}
			}
		}
	}
	if got := counted["flux_plunger_events_total"]; got != len(decide.Reasons()) {
		t.Errorf("%d reasons are counted, want %d", got, len(decide.Reasons()))
	}
	if got := counted["flux_plunger_recoveries_total"]; got != 3 {
		t.Errorf("%d results are counted, want 3", got)
	}
}
