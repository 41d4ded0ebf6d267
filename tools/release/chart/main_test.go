package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func chartAt(t *testing.T, when time.Time, values string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "example")
	err := os.MkdirAll(filepath.Join(dir, "templates"), 0o755)
	for name, text := range map[string]string{"Chart.yaml": "name: example\n", "values.yaml": values, "templates/a.yaml": "a: b\n"} {
		path := filepath.Join(dir, name)
		err = errors.Join(err, os.WriteFile(path, []byte(text), 0o600), os.Chtimes(path, when, when))
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

const values = "image:\n  tag: \"\"\n  digest: \"\"\n"

// B7.8: the same bytes from two folders at two times, with the image pinned.
func TestPackedAlikeAndPinned(t *testing.T) {
	digest := "sha256:" + strings.Repeat("ab", 32)
	one, err := pack(chartAt(t, time.Unix(1, 0), values), digest)
	if err != nil {
		t.Fatal(err)
	}
	two, err := pack(chartAt(t, time.Unix(1e9, 0), values), digest)
	if err != nil || !bytes.Equal(one, two) {
		t.Errorf("the packages differ, or %v", err)
	}
	text, err := pinned([]byte(values), digest)
	if want := "image:\n  tag: \"\"\n  digest: " + digest + "\n"; err != nil || string(text) != want {
		t.Errorf("pinned: %q, %v", text, err)
	}
}

// B7.8: what .helmignore names is in no package; the same bytes as without it.
func TestIgnoredStaysOut(t *testing.T) {
	digest := "sha256:" + strings.Repeat("ab", 32)
	dir := chartAt(t, time.Now(), values)
	if err := os.WriteFile(filepath.Join(dir, ".helmignore"), []byte("tests/\n*.tmp\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	without, err := pack(dir, digest)
	if err != nil {
		t.Fatal(err)
	}
	err = os.MkdirAll(filepath.Join(dir, "tests", "deep"), 0o755)
	for _, name := range []string{"tests/a_test.yaml", "tests/deep/b.yaml", "templates/a.tmp"} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	if with, err := pack(dir, digest); err != nil || !bytes.Equal(with, without) {
		t.Errorf("what is to be ignored is packed, or %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "templates", "b.yaml"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if more, err := pack(dir, digest); err != nil || bytes.Equal(more, without) {
		t.Errorf("a new template is not packed, or %v", err)
	}
}

// A chart that would be published without its image pinned is refused.
func TestRefusals(t *testing.T) {
	digest := "sha256:" + strings.Repeat("ab", 32)
	for _, values := range []string{"image: {}\n", values + "other:\n  digest: \"\"\n", "image:\n  digest: sha256:old\n"} {
		if _, err := pack(chartAt(t, time.Now(), values), digest); err == nil {
			t.Errorf("%q is packed", values)
		}
	}
	dir := chartAt(t, time.Now(), values)
	out := filepath.Join(t.TempDir(), "c.tgz")
	for _, bad := range [][]string{{"--chart", dir, "--out", out}, {"--chart", dir, "--digest", "sha256:ab", "--out", out},
		{"--digest", digest, "--out", out}, {"--chart", dir, "--digest", digest}} {
		if err := run(bad); err == nil {
			t.Errorf("%v is accepted", bad)
		}
	}
	if err := run([]string{"--chart", dir, "--digest", digest, "--out", out}); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"--chart", dir, "--digest", digest, "--out", out}); err == nil {
		t.Error("a package that is there is written over")
	}
}
