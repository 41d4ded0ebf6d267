package evidence_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-project/holdfast/internal/durable"
	"github.com/holdfast-project/holdfast/internal/evidence"
	et "github.com/holdfast-project/holdfast/internal/evidence/evidencetest"
	"github.com/holdfast-project/holdfast/internal/journal"
)

// exchange swaps two names again and again, as fast as the kernel lets it, until
// stop is called, which puts them back.
func exchange(t *testing.T, a, b string) (stop func() (times int)) {
	t.Helper()
	ask, done := make(chan struct{}), make(chan int)
	swap := func() {
		if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE); err != nil {
			t.Error(err)
		}
	}
	go func() {
		for times := 0; ; times++ {
			select {
			case <-ask:
				if times%2 == 1 {
					swap()
				}
				done <- times
				return
			default:
				swap()
			}
		}
	}()
	return func() int { close(ask); return <-done }
}

// A1.1, A5.2, A5.4: somebody exchanges the attempt's directory, or the evidence
// itself, with that of another run, or with a link to it. A load gives the
// identities of this run or refuses; nothing of the other run's can be deleted.
func TestA1_1_SwappedDirectories(t *testing.T) {
	slow(t)
	own, foreign := onDisk(t), filepath.Join(filepath.Dir(onDisk(t)), "foreign")
	et.Build(t, durable.OS(), foreign, et.Attempt{Steps: all().Steps, Offset: 10})
	link := filepath.Join(filepath.Dir(foreign), "link")
	if err := os.Symlink(filepath.Join(foreign, evidence.StartupDirectory), link); err != nil {
		t.Fatal(err)
	}
	intact, err := loadDisk(own)
	if err != nil {
		t.Fatal(err)
	}
	given := map[string]bool{}
	for _, resource := range intact.Resources {
		given[resource.Object().UID] = true
	}
	attempt := filepath.Join(own, evidence.StartupDirectory)
	for name, pair := range map[string][2]string{
		"attempt":  {attempt, filepath.Join(foreign, evidence.StartupDirectory)},
		"evidence": {own, foreign},
		"link":     {attempt, link},
	} {
		t.Run(name, func(t *testing.T) {
			stop := exchange(t, pair[0], pair[1])
			accepted, refused := 0, 0
			for deadline := time.Now().Add(time.Minute); (accepted+refused < 60 || accepted == 0 || refused == 0) && time.Now().Before(deadline); {
				inventory, err := loadDisk(own)
				var refusal *evidence.Refusal
				switch {
				case err == nil:
					accepted++
					for _, resource := range inventory.Resources {
						if uid := resource.Object().UID; !given[uid] {
							t.Fatalf("%s of another run is accepted", resource.Object())
						}
					}
				case errors.As(err, &refusal):
					refused++
				default:
					t.Fatal(err)
				}
			}
			times := stop()
			t.Logf("%d exchanges, %d loads accepted, %d refused", times, accepted, refused)
			if times < 60 || refused == 0 {
				t.Error("no load met an exchange: the test shows nothing")
			}
			if accepted+refused < 60 || accepted == 0 {
				t.Error("too few loads, or none that was accepted: the test shows nothing")
			}
			if _, err := loadDisk(own); err != nil {
				t.Errorf("put back: %v", err)
			}
		})
	}
}

// A1.1: what is written goes where the descriptor is, whatever the name has come to
// mean: nothing is written outside, and the loader refuses what was moved.
func TestA1_1_NothingIsWrittenThroughASwappedParent(t *testing.T) {
	slow(t)
	path := filepath.Join(filepath.Dir(onDisk(t)), "written")
	parent, err := durable.OS().Open(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	kind, err := parent.FileSystem()
	if err := errors.Join(err, parent.Close()); err != nil {
		t.Fatal(err)
	}
	j, err := journal.Create(durable.OS(), path, journal.Setup{Parameters: et.Parameters(), AllowFileSystem: kind})
	if err != nil {
		t.Fatal(err)
	}
	a, err := j.Register(evidence.Startup, et.Plan(0))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.Load(et.Expectation(j.Parameters())); err != nil {
		t.Fatal(err)
	}
	outside, attempt := t.TempDir(), filepath.Join(path, evidence.StartupDirectory)
	if err := errors.Join(os.Rename(attempt, attempt+"-moved"), os.Symlink(outside, attempt)); err != nil {
		t.Fatal(err)
	}
	slot := a.Plan().Slots[0]
	et.Walk(t, a, 0, slot, et.Acknowledged)
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("written outside: %v, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(attempt+"-moved", evidence.ReceiptFile(slot.Slot))); err != nil {
		t.Errorf("not written where the descriptor is: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = loadDisk(path)
	mustRefuse(t, err, evidence.StartupDirectory, "symbolic link")
}
