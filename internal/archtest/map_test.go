package archtest

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The map of CONTRIBUTING.md names every package, by its path or, in a row about the
// folder that it is in, by its last word. Around the product a folder stands for what
// is in it, and so it does for the helpers of tests.
func TestContributingNamesEveryPackage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "| `") {
			rows = append(rows, line)
		}
	}
	for importPath := range load(t) {
		name := strings.TrimPrefix(importPath, module)
		if strings.HasSuffix(name, "test") && strings.HasPrefix(name, "internal/") && name != "internal/archtest" {
			name = path.Dir(name)
		}
		if !onTheMap(rows, name) {
			t.Errorf("CONTRIBUTING.md does not say what %s owns", name)
		}
	}
	// It must be able to fail.
	for _, planted := range []string{"internal/planted", "internal/plunger/planted", "planted"} {
		if onTheMap(rows, planted) {
			t.Errorf("the map is said to name %s", planted)
		}
	}
}

func onTheMap(rows []string, name string) bool {
	folder, last := path.Dir(name), path.Base(name)
	if slices.ContainsFunc(rows, func(row string) bool {
		return strings.Contains(row, "`"+name+"`") || strings.Contains(row, "`"+name+"/`") ||
			strings.Contains(row, "`"+folder) && strings.Contains(row, "`"+last+"`")
	}) {
		return true
	}
	return folder != "." && !strings.HasPrefix(name, "internal/") && onTheMap(rows, folder)
}
