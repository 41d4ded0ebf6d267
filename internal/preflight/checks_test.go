package preflight

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-project/holdfast/internal/durable"
)

// A1.2: a relative evidence directory is below the physical working directory, as it
// is for a cleanup. How the operator's shell got there, perhaps through a link, is
// none of its components.
func TestPlaceBelowALinkedWorkingDirectory(t *testing.T) {
	real, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(real, "link")
	if err := os.Mkdir(filepath.Join(real, "physical"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("physical", link); err != nil {
		t.Fatal(err)
	}
	parent, err := durable.OS().Open(real)
	if err != nil {
		t.Fatal(err)
	}
	kind, err := parent.FileSystem()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Close(); err != nil {
		t.Fatal(err)
	}
	t.Chdir(link)
	place := func(directory string) error {
		r := &run{Config: Config{Files: durable.OS(), Directory: directory, AllowFileSystem: kind}}
		return r.checkPlace(t.Context())
	}
	if err := place("evidence"); err != nil {
		t.Errorf("refused: %v", err)
	}
	if err := place(filepath.Join(link, "evidence")); err == nil {
		t.Error("a path through a link is accepted")
	}
}
