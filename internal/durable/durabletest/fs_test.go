package durabletest_test

import (
	"errors"
	"io"
	"slices"
	"syscall"
	"testing"

	"github.com/holdfast-project/holdfast/internal/durable"
	"github.com/holdfast-project/holdfast/internal/durable/durabletest"
)

func root(t *testing.T, disk *durabletest.FS) durable.Dir {
	t.Helper()
	dir, err := disk.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// write makes a file and leaves it unsynced.
func write(t *testing.T, dir durable.Dir, name, content string) durable.File {
	t.Helper()
	file, err := dir.Create(name, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	return file
}

// contents collects what a name may hold after a crash; "-" is absence.
func contents(disk *durabletest.FS, name string) []string {
	var found []string
	for state := range disk.CrashStates() {
		content, exists := state.Files()[name]
		if !exists {
			content = "-"
		}
		if !slices.Contains(found, content) {
			found = append(found, content)
		}
	}
	slices.Sort(found)
	return found
}

func TestCrashStatesOfAnUnsyncedFile(t *testing.T) {
	disk := durabletest.New()
	dir := root(t, disk)
	file := write(t, dir, "f", "ab")
	want := []string{"", "\x00\x00", "-", "a", "ab", "\xc4\xc7"}
	slices.Sort(want)
	if got := contents(disk, "/f"); !slices.Equal(got, want) {
		t.Errorf("unsynced: %q", got)
	}
	if err := file.Sync(); err != nil {
		t.Fatal(err)
	}
	if got := contents(disk, "/f"); !slices.Equal(got, []string{"-", "ab"}) {
		t.Errorf("after fsync of the file: %q", got)
	}
	if err := dir.Sync(); err != nil {
		t.Fatal(err)
	}
	if got := contents(disk, "/f"); !slices.Equal(got, []string{"ab"}) {
		t.Errorf("after fsync of the directory: %q", got)
	}
}

// Entries of different names survive in any subset, and two names are one
// inode.
func TestCrashStatesOfALink(t *testing.T) {
	disk := durabletest.New()
	dir := root(t, disk)
	if err := write(t, dir, "a", "x").Sync(); err != nil {
		t.Fatal(err)
	}
	if err := dir.Link("a", "b"); err != nil {
		t.Fatal(err)
	}
	var sets [][]string
	for state := range disk.CrashStates() {
		sets = append(sets, state.Paths())
		if len(state.Paths()) == 2 {
			a, err := root(t, state).Lstat("a")
			if err != nil {
				t.Fatal(err)
			}
			b, err := root(t, state).Lstat("b")
			if err != nil {
				t.Fatal(err)
			}
			if !a.SameInode(b) || a.Links != 2 {
				t.Errorf("a is %+v, b is %+v", a, b)
			}
		}
	}
	if len(sets) != 4 {
		t.Errorf("a link leaves %q", sets)
	}
}

// An fsync that failed has not saved anything, and a later one does not either.
func TestFailedFsyncStaysDoubtful(t *testing.T) {
	disk := durabletest.New()
	dir := root(t, disk)
	file := write(t, dir, "f", "ab")
	if err := dir.Sync(); err != nil {
		t.Fatal(err)
	}
	disk.Inject(durabletest.Fault{At: len(disk.Trace()) + 1, Err: syscall.EIO})
	if err := file.Sync(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("fsync returned %v", err)
	}
	if err := file.Sync(); err != nil {
		t.Fatal(err)
	}
	if got := contents(disk, "/f"); !slices.Contains(got, "") || !slices.Contains(got, "ab") {
		t.Errorf("after a failed and a good fsync: %q", got)
	}
}

func TestRenameSurvivesWholeOrNotAtAll(t *testing.T) {
	disk := durabletest.New()
	dir := root(t, disk)
	for name, content := range map[string]string{"f": "old", "s": "new"} {
		if err := write(t, dir, name, content).Sync(); err != nil {
			t.Fatal(err)
		}
	}
	if err := dir.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := dir.Rename("s", "f"); err != nil {
		t.Fatal(err)
	}
	if got := contents(disk, "/f"); !slices.Equal(got, []string{"new", "old"}) {
		t.Errorf("a rename leaves %q", got)
	}
}

func TestStopAndLocks(t *testing.T) {
	disk := durabletest.New()
	dir := root(t, disk)
	if err := dir.Lock(); err != nil {
		t.Fatal(err)
	}
	if err := root(t, disk).Lock(); !errors.Is(err, durable.ErrLocked) {
		t.Errorf("a second lock: %v", err)
	}
	write(t, dir, "f", "ab")
	disk.StopAt(len(disk.Trace()) + 1)
	if err := dir.Sync(); !errors.Is(err, durabletest.ErrStopped) {
		t.Errorf("the stopped operation returned %v", err)
	}
	if _, err := dir.Names(); !errors.Is(err, durabletest.ErrStopped) {
		t.Errorf("a read after the stop returned %v", err)
	}
	killed := disk.Killed()
	if err := root(t, killed).Lock(); err != nil {
		t.Errorf("the lock outlived its process: %v", err)
	}
	if got := killed.Files()["/f"]; got != "ab" {
		t.Errorf("a killed process leaves %q", got)
	}
	if got := disk.PowerLost().Paths(); len(got) != 0 {
		t.Errorf("a lost power leaves %q", got)
	}
}

func TestReadBack(t *testing.T) {
	disk := durabletest.New()
	write(t, root(t, disk), "f", "ab")
	file, err := root(t, disk).Open("f")
	if err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(file); err != nil || string(data) != "ab" {
		t.Errorf("read %q, %v", data, err)
	}
}

// Whoever finds a bad state says after which operation, and must be able to ask.
func TestTraceWhileCrashStatesAreListed(t *testing.T) {
	disk := durabletest.New()
	write(t, root(t, disk), "f", "ab")
	for range disk.CrashStates() {
		if len(disk.Trace()) != 2 {
			t.Errorf("the trace has %v", disk.Trace())
		}
	}
}
