package evidence_test

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-project/holdfast/internal/durable"
	"github.com/holdfast-project/holdfast/internal/durable/durabletest"
	"github.com/holdfast-project/holdfast/internal/evidence"
)

// failing lets one call fail, counted over everything that is asked of a disk and
// what was opened on it.
type failing struct {
	durable.FS
	calls, at int
	met       string
	// err is what it fails with, EIO when nil.
	err error
	// open counts what was opened and not closed.
	open int
}

func (f *failing) call(what, path string) error {
	f.calls++
	if f.calls != f.at {
		return nil
	}
	f.met = what + " " + path
	return &fs.PathError{Op: what, Path: path, Err: cmp.Or(f.err, error(syscall.EIO))}
}

func (f *failing) Open(path string) (durable.Dir, error) {
	dir, err := f.FS.Open(path)
	if err == nil {
		err = f.call("opening", path)
	}
	if err != nil {
		return nil, err
	}
	f.open++
	return &failingDir{dir, f}, nil
}

type failingDir struct {
	durable.Dir
	of *failing
}

func (d *failingDir) OpenDir(name string) (durable.Dir, error) {
	if err := d.of.call("opening", d.Path()+"/"+name); err != nil {
		return nil, err
	}
	dir, err := d.Dir.OpenDir(name)
	if err != nil {
		return nil, err
	}
	d.of.open++
	return &failingDir{dir, d.of}, nil
}

func (d *failingDir) Close() error {
	d.of.open--
	return d.Dir.Close()
}

func (d *failingDir) Open(name string) (durable.File, error) {
	path := d.Path() + "/" + name
	if err := d.of.call("opening", path); err != nil {
		return nil, err
	}
	file, err := d.Dir.Open(name)
	if err != nil {
		return nil, err
	}
	d.of.open++
	return &failingFile{file, d.of, path}, nil
}

func (f *failingFile) Close() error {
	f.of.open--
	return f.File.Close()
}

func (d *failingDir) Names() ([]string, error) {
	if err := d.of.call("listing", d.Path()); err != nil {
		return nil, err
	}
	return d.Dir.Names()
}

func (d *failingDir) Stat() (durable.Info, error) {
	if err := d.of.call("stat", d.Path()); err != nil {
		return durable.Info{}, err
	}
	return d.Dir.Stat()
}

func (d *failingDir) Lstat(name string) (durable.Info, error) {
	if err := d.of.call("lstat", d.Path()+"/"+name); err != nil {
		return durable.Info{}, err
	}
	return d.Dir.Lstat(name)
}

func (d *failingDir) FileSystem() (string, error) {
	if err := d.of.call("statfs", d.Path()); err != nil {
		return "", err
	}
	return d.Dir.FileSystem()
}

func (d *failingDir) Sync() error {
	if err := d.of.call("fsync", d.Path()); err != nil {
		return err
	}
	return d.Dir.Sync()
}

type failingFile struct {
	durable.File
	of   *failing
	path string
}

func (f *failingFile) Read(p []byte) (int, error) {
	if err := f.of.call("read", f.path); err != nil {
		return 0, err
	}
	return f.File.Read(p)
}

func (f *failingFile) Stat() (durable.Info, error) {
	if err := f.of.call("fstat", f.path); err != nil {
		return durable.Info{}, err
	}
	return f.File.Stat()
}

func (f *failingFile) Sync() error {
	if err := f.of.call("fsync", f.path); err != nil {
		return err
	}
	return f.File.Sync()
}

// A5, A5.10, A2.4: whichever read or fsync of the loader fails, the evidence is
// refused in one sentence that names a file and what happened, and no path twice.
func TestA5_EveryFailedReadIsRefused(t *testing.T) {
	for name, prepare := range map[string]func(*durabletest.FS){
		"whole": func(disk *durabletest.FS) {
			earlierCleanup(disk)
			makeDirs(disk, "a/b")
			disk.Place(root+"/a/b/notes.txt", 0o600, "")
			disk.Place(attempt+"/preflight-worker.log", 0o600, "")
			disk.Place(attempt+"/preflight-worker-create.err", 0o600, "")
			disk.HardLink(attempt+"/preflight-api-identity.json", attempt+"/.preflight-api-identity.json.staging")
		},
		"without a journal": func(disk *durabletest.FS) { disk.Delete(root + "/preflight-journal.json") },
		"without records": func(disk *durabletest.FS) {
			disk.Delete(root + "/preflight-journal.json")
			disk.Delete(attempt)
			disk.Delete(resume(disk))
		},
	} {
		t.Run(name, func(t *testing.T) {
			disk := tree(t)
			prepare(disk)
			tried := 0
			for at := 2; ; at++ { // the first opens the evidence itself
				f := &failing{FS: disk, at: at}
				_, err := loadFailing(f)
				if f.open != 0 {
					t.Errorf("after %s %d are still open", f.met, f.open)
				}
				if f.met == "" {
					break
				}
				tried++
				judgeFailure(t, f.met, err)
			}
			if tried < 5 {
				t.Errorf("only %d calls could fail", tried)
			}
			t.Logf("failed reads: tried=%d", tried)
		})
	}
}

// A5.7: what the disk finds of a file continues the sentence that its name begins, and
// the cause can be told.
func TestA5_7_WhatIsFoundOfAFile(t *testing.T) {
	for _, row := range []struct {
		err  error
		says string
	}{
		{fs.ErrNotExist, "does not exist"},
		{durable.ErrSymlink, "is a symbolic link"},
		{durable.ErrCrossDevice, "is on another mounted file system"},
		{durable.ErrNotRegular, "is not a regular file"},
		{durable.ErrNotDirectory, "is not a directory"},
		{durable.ErrOwner, "is owned by another user"},
		{durable.ErrMode, "is open to group or others"},
		{durable.ErrLinks, "has a hard link that is not its staging link"},
		{durable.ErrTooBig, "is larger than its bound"},
		{syscall.EACCES, "cannot be read: permission denied"},
	} {
		disk, met := tree(t), false
		for at := 1; !met; at++ {
			f := &failing{FS: disk, at: at, err: row.err}
			_, err := loadFailing(f)
			if f.met == "" {
				t.Fatalf("%v: nothing opened the plan", row.err)
			}
			if met = f.met == "opening "+attempt+"/preflight-plan.json"; !met {
				continue
			}
			var refusal *evidence.Refusal
			if !errors.As(err, &refusal) || refusal.Reason != row.says || !errors.Is(err, row.err) {
				t.Errorf("%v: got %v, want %q", row.err, err, row.says)
			}
		}
	}
}

// A1.2: what cannot be opened or locked is refused by its path, and not kept open.
func TestA1_2_WhatCannotBeOpened(t *testing.T) {
	held := &failing{FS: tree(t)}
	dir, err := evidence.Open(held, root)
	if err != nil {
		t.Fatal(err)
	}
	_, err = evidence.Open(held, root)
	mustRefuse(t, err, ".", "/evidence is in use: another process holds this evidence; wait for it, or end it and settle what it has sent")
	if !errors.Is(err, durable.ErrLocked) || held.open != 1 {
		t.Errorf("%v; %d are open", err, held.open)
	}
	if err := dir.Close(); err != nil {
		t.Fatal(err)
	}
	for err, says := range map[error]string{
		syscall.EACCES:          "/evidence cannot be opened: permission denied",
		fs.ErrNotExist:          "/evidence does not exist",
		durable.ErrSymlink:      "/evidence is reached through a symbolic link",
		durable.ErrNotDirectory: "/evidence is not a directory",
	} {
		_, refused := evidence.Open(&failing{FS: tree(t), at: 1, err: err}, root)
		var refusal *evidence.Refusal
		if !errors.As(refused, &refusal) || refusal.Reason != says || refusal.File != "." || !errors.Is(refused, err) {
			t.Errorf("%v: got %v, want %q", err, refused, says)
		}
	}
}

// A5.10: what was read is fsynced, each file as it is read, and last of all the
// directories that hold it, the innermost first.
func TestA5_10_FactsAreMadeDurable(t *testing.T) {
	disk := tree(t)
	before := len(disk.Trace())
	if _, err := loadAs(disk, root, expectation()); err != nil {
		t.Fatal(err)
	}
	var ops []string
	for _, op := range disk.Trace()[before:] {
		ops = append(ops, op.String())
	}
	for name := range disk.Files() {
		if strings.HasSuffix(name, ".json") && !slices.Contains(ops, "fsync "+name) {
			t.Errorf("%s is not fsynced", name)
		}
	}
	last := ops[max(0, len(ops)-3):]
	if want := []string{"fsync-dir " + attempt, "fsync-dir " + resume(disk), "fsync-dir " + root}; !slices.Equal(last, want) {
		t.Errorf("at the end %q, want %q", last, want)
	}
}

func loadFailing(f *failing) (*evidence.Inventory, error) {
	dir, err := evidence.Open(f, root)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	return dir.Load(expectation())
}

func judgeFailure(t *testing.T, met string, err error) {
	t.Helper()
	var refusal *evidence.Refusal
	if !errors.As(err, &refusal) {
		t.Errorf("%s fails, and the evidence is accepted: %v", met, err)
		return
	}
	said := refusal.Error()
	if strings.Contains(said, "\n") || strings.Contains(said, "%!") {
		t.Errorf("%s: %q", met, said)
	}
	if refusal.File != evidence.JournalFile && (strings.Contains(said, root) || !errors.Is(err, syscall.EIO)) {
		t.Errorf("%s: %q holds a path, or hides its cause", met, said)
	}
	at := met[strings.LastIndex(met, " ")+1:]
	want := "."
	if at != root {
		want = strings.TrimPrefix(at, root+"/")
	}
	// A staging link is looked at for its file, and a file for its staging link; the
	// search for records without a journal is refused as the journal is. Whether there
	// are parameters is of use to the sentence alone.
	told := final(refusal.File) == final(want) || refusal.File == evidence.JournalFile
	if !told || !strings.Contains(said, fmt.Sprint(syscall.EIO)) && met != "lstat "+root+"/parameters.json" {
		t.Errorf("%s fails, and it says %q", met, said)
	}
}

func final(file string) string {
	if name, ok := durable.FinalName(path.Base(file)); ok {
		return path.Join(path.Dir(file), name)
	}
	return file
}
