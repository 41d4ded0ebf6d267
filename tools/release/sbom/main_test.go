package main

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// B7.8: an SBOM that lacks a module, lists one more or another version of one, or
// none at all, is refused with the module named; the true one is accepted.
func TestSBOMTellsTheTruth(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "image")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "../image").CombinedOutput(); err != nil {
		t.Fatalf("building a binary with dependencies: %v\n%s", err, out)
	}
	linked, err := modules(binary)
	if err != nil || len(linked) < 2 {
		t.Fatalf("the binary has the modules %v, %v", linked, err)
	}
	name, _, _ := strings.Cut(linked[0], "@")
	for says, list := range map[string][]string{
		"":                            append(linked[:len(linked):len(linked)], "std@go1.26"),
		"lacks [" + linked[0] + "]":   linked[1:],
		"lists [example.com/m@v1]":    append(linked[:len(linked):len(linked)], "example.com/m@v1"),
		"lists [" + name + "@v0.0.1]": append([]string{name + "@v0.0.1"}, linked[1:]...),
	} {
		err := run([]string{binary + "=" + written(t, list)}, io.Discard)
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%v: %v, want %q", list, err, says)
		}
	}
	for _, bad := range [][]string{nil, {binary}, {binary + "=" + binary}, {"/does/not/exist=" + written(t, linked)}, {binary + "=/does/not/exist"}, {binary + "=" + written(t, nil)}} {
		if err := run(bad, io.Discard); err == nil {
			t.Errorf("%v is accepted", bad)
		}
	}
}

func written(t *testing.T, modules []string) string {
	t.Helper()
	components := []map[string]string{}
	for _, module := range modules {
		name, version, _ := strings.Cut(module, "@")
		components = append(components, map[string]string{"type": "library", "name": name, "version": version})
	}
	raw, err := json.Marshal(map[string]any{"bomFormat": "CycloneDX", "components": components})
	path := filepath.Join(t.TempDir(), "sbom.json")
	if err == nil {
		err = os.WriteFile(path, raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}
