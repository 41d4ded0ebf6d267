package chart

import (
	"context"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/template"
	"github.com/prometheus/prometheus/util/annotations"
)

const rulesFile = "../../charts/flux-plunger/files/rules.yaml"

// situation is what Prometheus has scraped, once a minute, in the notation of
// "promtool test rules"; and which alerts fire when, with which labels.
type situation struct {
	alert  string
	series []string
	// fires are the minutes at which it is looked, and the labels that fire then,
	// "" where it is silent.
	fires map[int]string
}

const backoff, unproven = `flux_plunger_events_total{namespace="fs",pod="a",reason="RecoveryBackoff"} `, `flux_plunger_events_total{namespace="fs",pod="a",reason="UninstallUnproven"} `

func situations() map[string]situation {
	return map[string]situation{
		"a fence gets older than ten minutes, and goes": {"FluxPlungerFenceOld",
			[]string{`flux_plunger_oldest_fence_age_seconds{namespace="fs",pod="a"} 0+60x15 0x10`},
			map[int]string{0: "", 10: "", 11: `{namespace="fs", pod="a"}`, 15: `{namespace="fs", pod="a"}`, 16: ""}},
		"of two Pods the one that leads is named": {"FluxPlungerFenceOld",
			[]string{`flux_plunger_oldest_fence_age_seconds{namespace="fs",pod="a"} 0+60x15`, `flux_plunger_oldest_fence_age_seconds{namespace="fs",pod="b"} 0x15`},
			map[int]string{12: `{namespace="fs", pod="a"}`}},
		"young fences all day": {"FluxPlungerFenceOld",
			[]string{`flux_plunger_oldest_fence_age_seconds{namespace="fs",pod="a"} 0+60x9 0+60x9 0+60x9`},
			map[int]string{9: "", 19: "", 29: ""}},

		"a release sticks again": {"FluxPlungerRecoveryLoop", []string{backoff + `0x30 1x200`},
			map[int]string{29: "", 32: `{namespace="fs"}`, 80: `{namespace="fs"}`, 100: ""}},
		"the counter appears with its first event": {"FluxPlungerRecoveryLoop", []string{backoff + `_x30 1x200`},
			map[int]string{29: "", 30: `{namespace="fs"}`, 31: `{namespace="fs"}`, 80: `{namespace="fs"}`, 100: ""}},
		"it happened before the first scrape of a new Pod": {"FluxPlungerRecoveryLoop",
			[]string{backoff + `3x100 _x100`, strings.Replace(backoff, `"a"`, `"b"`, 1) + `_x100 1x200`},
			map[int]string{90: "", 101: `{namespace="fs"}`, 150: `{namespace="fs"}`, 165: ""}},
		"a restart alone is none": {"FluxPlungerRecoveryLoop", []string{backoff + `3x100 0x200`},
			map[int]string{90: "", 101: "", 130: ""}},
		"a second one, long after the first": {"FluxPlungerRecoveryLoop", []string{backoff + `1x100 2x100`},
			map[int]string{99: "", 103: `{namespace="fs"}`, 170: ""}},
		"recoveries that succeed are none": {"FluxPlungerRecoveryLoop",
			[]string{`flux_plunger_events_total{namespace="fs",pod="a",reason="Recovered"} 0+1x100`},
			map[int]string{10: "", 90: ""}},

		"an uninstall is not proven": {"FluxPlungerUninstallUnproven", []string{unproven + `_x10 1x200`},
			map[int]string{9: "", 10: `{namespace="fs", reason="UninstallUnproven"}`, 60: `{namespace="fs", reason="UninstallUnproven"}`, 80: ""}},
		"a later one": {"FluxPlungerUninstallUnproven", []string{unproven + `4x100 5x100`},
			map[int]string{90: "", 103: `{namespace="fs", reason="UninstallUnproven"}`, 170: ""}},
		"one is skipped": {"FluxPlungerUninstallUnproven",
			[]string{`flux_plunger_events_total{namespace="fs",pod="a",reason="UninstallSkipped"} 0x10 1x10`},
			map[int]string{9: "", 13: `{namespace="fs", reason="UninstallSkipped"}`}},
		"one is deleted before it is fenced, and another one is proven": {"FluxPlungerUninstallUnproven",
			[]string{`flux_plunger_events_total{namespace="fs",pod="a",reason="DeletedUnfenced"} 0x10 1x10`,
				`flux_plunger_events_total{namespace="fs",pod="a",reason="Recovered"} 0x10 1x10`},
			map[int]string{9: "", 13: `{namespace="fs", reason="DeletedUnfenced"}`}},
	}
}

// B8.2: the chart's alerts fire when they should, and only then, by Prometheus's
// own engine; and each is tried both ways.
func TestAlerts(t *testing.T) {
	rules := load(t)
	fired, silent := map[string]bool{}, map[string]bool{}
	for name, s := range situations() {
		t.Run(name, func(t *testing.T) {
			rule, ok := rules[s.alert]
			if !ok {
				t.Fatalf("there is no alert %s", s.alert)
			}
			data := scraped(t, s.series)
			for minute, want := range s.fires {
				var got []string
				for _, sample := range evaluate(t, data, rule.Expr, minute) {
					got = append(got, sample.Metric.String())
					explained(t, rule, sample)
				}
				if text := strings.Join(got, " "); text != want {
					t.Errorf("minute %d: %q fires, want %q", minute, text, want)
				}
				fired[s.alert], silent[s.alert] = fired[s.alert] || want != "", silent[s.alert] || want == ""
			}
		})
	}
	for name := range rules {
		if !fired[name] || !silent[name] {
			t.Errorf("%s is not tried: fired %t, silent %t", name, fired[name], silent[name])
		}
	}
}

func load(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	raw, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	groups, errs := rulefmt.Parse(raw, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		t.Fatalf("Prometheus refuses the rules: %v", errs)
	}
	rules := map[string]rulefmt.Rule{}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			if rule.For != 0 {
				t.Errorf("%s waits %s, which this test does not count on", rule.Alert, rule.For)
			}
			rules[rule.Alert] = rule
		}
	}
	return rules
}

// explained expands the annotations of a firing alert, as Prometheus does.
func explained(t *testing.T, rule rulefmt.Rule, sample promql.Sample) {
	t.Helper()
	data := template.AlertTemplateData(sample.Metric.Map(), nil, "", sample)
	for _, name := range []string{"summary", "description"} {
		text := "{{$labels := .Labels}}" + rule.Annotations[name]
		said, err := template.NewTemplateExpander(t.Context(), text, rule.Alert, data, 0, nil, &url.URL{}, []string{"missingkey=error"}).Expand()
		if err != nil || len(said) < 20 || strings.Contains(said, "no value") {
			t.Errorf("%s: its %s says %q, %v", rule.Alert, name, said, err)
		}
	}
}

// memory is what was scraped.
type memory []storage.Series

func scraped(t *testing.T, notations []string) memory {
	t.Helper()
	var all memory
	for _, notation := range notations {
		name, values, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(notation)
		if err != nil {
			t.Fatalf("%s: %v", notation, err)
		}
		series := promql.Series{Metric: name}
		for minute, value := range values {
			if !value.Omitted {
				series.Floats = append(series.Floats, promql.FPoint{T: at(minute).UnixMilli(), F: value.Value})
			}
		}
		all = append(all, promql.NewStorageSeries(series))
	}
	return all
}

func at(minute int) time.Time {
	return time.Unix(1_700_000_000, 0).Add(time.Duration(minute) * time.Minute)
}

func evaluate(t *testing.T, data memory, expression string, minute int) promql.Vector {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{})})
	defer engine.Close() //nolint:errcheck // nothing is kept
	query, err := engine.NewInstantQuery(t.Context(), data, nil, expression, at(minute))
	if err != nil {
		t.Fatal(err)
	}
	defer query.Close()
	vector, err := query.Exec(t.Context()).Vector()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(vector)
}

// Querier makes memory a storage.Queryable.
func (m memory) Querier(int64, int64) (storage.Querier, error) { return querier{m}, nil }

type querier struct{ memory }

func (q querier) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	var found []storage.Series
	for _, series := range q.memory {
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(series.Labels().Get(m.Name)) }) {
			found = append(found, series)
		}
	}
	return &set{series: found}
}

func (querier) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (querier) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (querier) Close() error { return nil }

type set struct {
	series []storage.Series
	next   int
}

func (s *set) Next() bool                        { s.next++; return s.next <= len(s.series) }
func (s *set) At() storage.Series                { return s.series[s.next-1] }
func (s *set) Err() error                        { return nil }
func (s *set) Warnings() annotations.Annotations { return nil }
