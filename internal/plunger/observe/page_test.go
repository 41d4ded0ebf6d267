package observe

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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

// B8.3: the list that the page is compared with is whole: every reason that is
// declared is on it, and none is written down anywhere else.
func TestTheListOfReasonsIsWhole(t *testing.T) {
	declared := declaredIn(t, "reasons.go", "Reason")
	listed := map[string]bool{}
	for _, reason := range decide.Reasons() {
		listed[string(reason)] = true
	}
	if diff := cmp.Diff(sorted(declared), sorted(listed)); diff != "" {
		t.Errorf("declared and listed differ (-declared +listed):\n%s", diff)
	}
	spelled := regexp.MustCompile(`telling\("|Reason: +"[A-Z]|Reason\("|say\(ctx, c, "`)
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if found := spelled.Find(text); found != nil {
			t.Errorf("%s spells a reason out: %s", path, found)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// B8.2: the values of the labels that a person selects by are explained too.
func TestPageNamesEveryLabelValue(t *testing.T) {
	for metric, values := range map[string][]string{
		"flux_plunger_recoveries_total": {"begun", "recovered", "failed"},
		"flux_plunger_drains_total":     {"clean", "kept", "incomplete", "skipped"},
	} {
		row := regexp.MustCompile("(?m)^\\| `" + metric + "` .+$").FindString(page(t))
		for _, value := range values {
			if !strings.Contains(row, "`"+value+"`") {
				t.Errorf("%s: %q is not explained in %q", metric, value, row)
			}
		}
	}
}

// B8.2, B8.4: the page explains exactly the verbs that metrics, log and explain name.
func TestPageNamesEveryVerb(t *testing.T) {
	written := map[string]bool{}
	_, table, _ := strings.Cut(page(t), "| word | what it is |")
	table, _, _ = strings.Cut(table, "\n\n")
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+) \|`).FindAllStringSubmatch(table, -1) {
		for _, word := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(row[1], -1) {
			written[word[1]] = true
		}
	}
	if diff := cmp.Diff(sorted(declaredIn(t, "action.go", "Verb")), sorted(written)); diff != "" {
		t.Errorf("the page's verbs are not the code's (-code +page):\n%s", diff)
	}
}

// declaredIn returns the words of the constants of a type, from its source.
func declaredIn(t *testing.T, file, kind string) map[string]bool {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("..", "decide", file))
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]bool{}
	for _, constant := range regexp.MustCompile(`(?m)^\t\w+ +`+kind+` = "([\w-]+)"$`).FindAllStringSubmatch(string(source), -1) {
		declared[constant[1]] = true
	}
	return declared
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
