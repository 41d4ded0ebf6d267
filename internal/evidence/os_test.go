package evidence_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-project/holdfast/internal/durable"
	"github.com/holdfast-project/holdfast/internal/evidence"
	et "github.com/holdfast-project/holdfast/internal/evidence/evidencetest"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/journal"
)

// onDisk builds evidence on the real file system.
func onDisk(t *testing.T) string {
	t.Helper()
	parent, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(parent, "evidence")
	et.Build(t, durable.OS(), path, all(), et.Attempt{Steps: []et.Step{et.Acknowledged, et.Uncertain}})
	return path
}

func loadDisk(path string) (*evidence.Inventory, error) {
	dir, err := evidence.Open(durable.OS(), path)
	if err != nil {
		return nil, err
	}
	inventory, err := dir.Load(expectation())
	return inventory, errors.Join(err, dir.Close())
}

// A5: what the memory file system shows holds on the real one, and nothing that
// lies in a record's place makes the loader wait.
func TestA5_OnTheRealFileSystem(t *testing.T) {
	slow(t)
	if inventory, err := loadDisk(onDisk(t)); err != nil || len(inventory.Resources) != 6 {
		t.Fatalf("valid evidence: %v", err)
	}
	const receipt = "upgrade-preflight/preflight-api-identity.json"
	replace := func(with func(at string) error) func(t *testing.T, path string) string {
		return func(t *testing.T, path string) string {
			at := filepath.Join(path, receipt)
			if err := errors.Join(os.Remove(at), with(at)); err != nil {
				t.Fatal(err)
			}
			return path
		}
	}
	for _, test := range []struct {
		name, file, reason string
		damage             func(t *testing.T, path string) string
	}{
		{"a FIFO for a receipt", receipt, "not a regular file", replace(func(at string) error { return syscall.Mkfifo(at, 0o600) })},
		{"a link for a receipt", receipt, "symbolic link", replace(func(at string) error { return os.Symlink("/dev/zero", at) })},
		{"a sparse receipt", receipt, "larger than its bound", replace(func(at string) error {
			return errors.Join(os.WriteFile(at, nil, 0o600), os.Truncate(at, 1<<40))
		})},
		{"a moved directory", ".", "it was moved or copied", func(t *testing.T, path string) string {
			if err := os.Rename(path, path+"-moved"); err != nil {
				t.Fatal(err)
			}
			return path + "-moved"
		}},
		{"a copied directory", ".", "it was moved or copied", func(t *testing.T, path string) string {
			copyTree(t, path, path+"-copy")
			return path + "-copy"
		}},
		{"a restored directory", ".", "as after a copy or a restore", func(t *testing.T, path string) string {
			copyTree(t, path, path+"-backup")
			if err := errors.Join(os.RemoveAll(path), os.Rename(path+"-backup", path)); err != nil {
				t.Fatal(err)
			}
			return path
		}},
		{"a link to the directory", ".", "its real path is", func(t *testing.T, path string) string {
			if err := os.Symlink(path, path+"-link"); err != nil {
				t.Fatal(err)
			}
			return path + "-link"
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := test.damage(t, onDisk(t))
			_, err := loadDisk(path)
			mustRefuse(t, err, test.file, test.reason)
		})
	}
}

// copyTree copies with the modes, as cp -a does.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := to + strings.TrimPrefix(path, from)
		if entry.IsDir() {
			return os.Mkdir(target, 0o700)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, content, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A1.1: everything that a whole run and a cleanup make is private.
func TestA1_1_EverythingMadeIsPrivate(t *testing.T) {
	slow(t)
	path := onDisk(t)
	slot := identity.SlotRef{Attempt: resumeOnDisk(t, path), Slot: identity.SlotNetworkPolicy}
	if err := journal.Reconcile(durable.OS(), path, slot, "seen", time.Unix(1777636800, 0)); err != nil {
		t.Fatal(err)
	}
	dir, _ := et.Open(t, durable.OS(), path)
	c, err := journal.NewCleanup(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Observe("0001.json", 1); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Publish(evidence.Result{Version: 1}); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(path, func(at string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		want := os.FileMode(0o600)
		if entry.IsDir() || filepath.Base(filepath.Dir(at)) == "helper" {
			want = 0o700
		}
		if info.Mode().Perm() != want || strings.HasSuffix(at, ".staging") {
			t.Errorf("%s has mode %v", at, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func resumeOnDisk(t *testing.T, path string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(path, "upgrade-preflight-resume.*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("resumes: %q, %v", found, err)
	}
	return filepath.Base(found[0])
}
