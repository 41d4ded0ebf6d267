package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A number that a test or a comment names means nothing to somebody who cannot look
// it up. The page is where it can be.
func TestEveryNumberIsExplained(t *testing.T) {
	root := filepath.Join("..", "..")
	page := filepath.Join(root, "docs", "reference", "requirements.md")
	explained := numbers(read(t, page))
	named := 0
	for _, name := range texts(t, root) {
		if name == page {
			continue
		}
		for _, number := range numbers(read(t, name)) {
			if named++; !slices.Contains(explained, number) {
				t.Errorf("%s names %s, which %s does not explain", name, number, page)
			}
		}
	}
	if named < 1000 {
		t.Errorf("only %d numbers were found in the tree: the pattern sees nothing", named)
	}
}

// numbers finds A5.9, A4.2c and B10.1, in the name of a test with an underscore.
func numbers(text string) (found []string) {
	for _, m := range regexp.MustCompile(`(?:\b|[a-z_])([AB][1-9][0-9]?)[._]([1-9][0-9]?[a-d]?)(?:\b|_)`).FindAllStringSubmatch(text, -1) {
		found = append(found, m[1]+"."+m[2])
	}
	return found
}

func TestNumbersAreFound(t *testing.T) {
	for text, want := range map[string]string{
		"as A5.9 says": "A5.9", "func TestA4_2c_Order(": "A4.2c", "(B10.1)": "B10.1", "TestFaultA2_4_Once": "A2.4",
		"sha256:4A5.9f": "", "v1.2.3": "", "A5": "",
	} {
		if got := strings.Join(numbers(text), " "); got != want {
			t.Errorf("in %q %q is found, not %q", text, got, want)
		}
	}
}

// texts lists the files in which people name requirements.
func texts(t *testing.T, root string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "dist" || d.Name() == "bin"):
			return fs.SkipDir
		case slices.Contains([]string{".go", ".md", ".yaml", ".tmpl"}, filepath.Ext(name)) || d.Name() == "Makefile":
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
