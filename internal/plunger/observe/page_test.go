package observe

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-project/holdfast/internal/plunger/decide"
)

// page is what a person looks an event or a metric up in.
func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "operations", "flux-plunger.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// B8.3: the page explains exactly the reasons of the list, each with its type.
func TestPageNamesEveryReason(t *testing.T) {
	written := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (Normal|Warning) \\| .+ \\| .+ \\|$").FindAllStringSubmatch(page(t), -1) {
		written[row[1]] = row[2]
	}
	want := map[string]string{}
	for _, reason := range decide.Reasons() {
		want[string(reason)] = map[bool]string{true: "Warning", false: "Normal"}[reason.Warning()]
	}
	if diff := cmp.Diff(want, written); diff != "" {
		t.Errorf("the page's events are not the list's (-list +page):\n%s", diff)
	}
}

// B8.2: the page explains exactly the metrics that are registered.
func TestPageNamesEveryMetric(t *testing.T) {
	written := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(flux_plunger_\\w+)` \\| .+ \\| .+ \\|$").FindAllStringSubmatch(page(t), -1) {
		written[row[1]] = true
	}
	registered := &names{seen: map[string]bool{}}
	if _, err := NewMetrics(registered, time.Now); err != nil {
		t.Fatal(err)
	}
	if len(registered.seen) == 0 {
		t.Fatal("nothing was registered")
	}
	if diff := cmp.Diff(sorted(registered.seen), sorted(written)); diff != "" {
		t.Errorf("the page's metrics are not the registered ones (-code +page):\n%s", diff)
	}
}

func sorted(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }

// names is a registerer that keeps the names: a vector that nothing has counted
// yet has no value to gather, and its name all the same.
type names struct {
	prometheus.Registerer
	seen map[string]bool
}

func (n *names) Register(c prometheus.Collector) error {
	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		c.Describe(descriptions)
	}()
	for desc := range descriptions {
		n.seen[regexp.MustCompile(`fqName: "([^"]+)"`).FindStringSubmatch(desc.String())[1]] = true
	}
	return nil
}
