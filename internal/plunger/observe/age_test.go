package observe

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
)

// B8.2: a fence whose time nobody recorded, because a restore or another manager wrote
// it back, is as old as the first look at it, or its alert never comes.
func TestB8_2_AFenceAgesFromTheFirstLook(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	registry := prometheus.NewRegistry()
	m, err := NewMetrics(registry, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	age := func() time.Duration {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			if family.GetName() == "flux_plunger_oldest_fence_age_seconds" {
				return time.Duration(family.GetMetric()[0].GetGauge().GetValue() * float64(time.Second))
			}
		}
		t.Fatal("the age is not told")
		return 0
	}
	look := func(r decide.Release) {
		now = now.Add(time.Minute)
		m.Saw("ns/app", &r)
	}
	unrecorded := decide.Release{Namespace: "ns", Name: "app", UID: "u", Finalizers: []string{contract.Fence}}
	recorded := unrecorded
	recorded.Managers = []decide.ManagedField{{Manager: contract.FieldManager, Operation: decide.OperationApply, Time: now.Add(-time.Hour)}}
	open, another := unrecorded, unrecorded
	open.Finalizers, another.UID = nil, "v"
	open.Spec.Suspend, open.Annotations = new(true), map[string]string{contract.ProcessedVersion: "1"}

	for _, step := range []struct {
		what string
		seen decide.Release
		want time.Duration
	}{
		{"first look", unrecorded, 0},
		{"second look", unrecorded, time.Minute},
		{"our own apply tells the time", recorded, time.Hour + 3*time.Minute},
		{"written back by another manager", unrecorded, time.Hour + 4*time.Minute},
		{"gone, and the release still counted", open, 0},
		{"fenced anew", unrecorded, 0},
		{"and again", unrecorded, time.Minute},
		{"another release of the name", another, 0},
	} {
		if look(step.seen); age() != step.want {
			t.Errorf("%s: the age is %s, want %s", step.what, age(), step.want)
		}
	}
}
