package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const root = "../../.."

// B7.1, B7.9: what is checked in is what "make chart" writes.
func TestDerivedFilesAreCurrent(t *testing.T) {
	files, err := derive(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 3 {
		t.Errorf("%d files are derived, want README.md, flux-plunger.yaml and kustomization.yaml", len(files))
	}
	for path, want := range files {
		have, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Error(err)
			continue
		}
		if diff := cmp.Diff(string(want), string(have)); diff != "" {
			t.Errorf("%s is not current; run make chart:\n%s", path, diff)
		}
	}
}

// The check above can fail: a changed default, a changed comment and an added
// value each change the README, and a value without a comment is refused.
func TestReadmeFollowsTheValues(t *testing.T) {
	const before = "# About the file.\n\n# How many.\nreplicas: 1\n\nlog:\n  # How much.\n  level: info\n"
	base, err := tabulate([]byte(before))
	if err != nil {
		t.Fatal(err)
	}
	want := []value{{"replicas", "1", "How many."}, {"log.level", `"info"`, "How much."}}
	if diff := cmp.Diff(want, base); diff != "" {
		t.Errorf("the table is:\n%s", diff)
	}
	for _, change := range []string{
		strings.Replace(before, "replicas: 1", "replicas: 2", 1),
		strings.Replace(before, "How much", "How", 1),
		before + "  # Which.\n  encoding: json\n",
	} {
		changed, err := tabulate([]byte(change))
		if err != nil || cmp.Equal(base, changed) {
			t.Errorf("%q gives the same table, or %v", change, err)
		}
	}
	if _, err := tabulate([]byte(before + "  encoding: json\n")); err == nil || !strings.Contains(err.Error(), "log.encoding") {
		t.Errorf("a value without a comment: %v", err)
	}
}
