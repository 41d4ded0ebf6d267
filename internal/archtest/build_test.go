package archtest

import (
	"go/version"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// A3.6: evidence is bound to the bytes of the executable, so "make build" of the same
// checkout uses the same toolchain, to the patch release, whichever is installed.
func TestToolchainIsPinned(t *testing.T) {
	pinned := find(t, "Makefile", `(?m)^export GOTOOLCHAIN := (go1\.\d+\.\d+)$`)
	if needed := "go" + find(t, "go.mod", `(?m)^go (\S+)$`); version.Compare(pinned, needed) < 0 {
		t.Errorf("the Makefile pins %s, and go.mod needs %s", pinned, needed)
	}
}

// find returns what the first group of the pattern matches in a file of the root.
func find(t *testing.T, name, pattern string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(pattern).FindSubmatch(text)
	if found == nil {
		t.Fatalf("%s holds no %s", name, pattern)
	}
	return string(found[1])
}
