package explore_test

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-project/holdfast/internal/durable/durabletest"
	"github.com/holdfast-project/holdfast/internal/evidence"
	et "github.com/holdfast-project/holdfast/internal/evidence/evidencetest"
	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/test/explore"
)

// Command-line flags are read once, before any test.
var (
	full   = flag.Bool("full", false, "explore the whole space, not the bounded one")
	report = flag.String("report", "", "file that gets the closing line")
)

// space is how much is combined, and what must come of it: the numbers of images
// exactly, the others at least. A shrunk space must not pass for a proof.
type space struct {
	width                     func(slot int) explore.Width
	bases, interrupted, twice int
	// befores are what has become of a first attempt when a second is looked at.
	befores          []explore.Width
	stride           int
	boundaries       int
	images, visible  int
	states, cleanups int
}

func bounded() space {
	return space{
		width: func(slot int) explore.Width {
			if slot < 4 {
				return explore.Thin
			}
			return explore.Narrow
		},
		befores: []explore.Width{explore.First},
		bases:   1, interrupted: 3, twice: 0, stride: 400,
		boundaries: 2904, images: 734, visible: 54, states: 55_970, cleanups: 15_289,
	}
}

func whole() space {
	return space{
		width: func(slot int) explore.Width {
			if slot < 2 {
				return explore.Narrow
			}
			return explore.Wide
		},
		befores: []explore.Width{explore.First, explore.Second, explore.Third},
		bases:   13, interrupted: 60, twice: 1, stride: 20,
		boundaries: 6481, images: 3680, visible: 330, states: 1_385_405, cleanups: 194_163,
	}
}

// base is the end of a first attempt.
type base struct {
	disk     *durabletest.FS
	statuses []explore.Status
}

// TestExplore is the proof by exhaustion of the two rules (A5, A6): bounded, or
// whole with -full.
func TestExplore(t *testing.T) {
	// Most of what is made lives for one decision.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	want := bounded()
	if *full {
		want = whole()
	}
	began := time.Now()
	say := func(format string, args ...any) {
		t.Logf("%6s %s", time.Since(began).Round(time.Second), fmt.Sprintf(format, args...))
	}
	tally := &explore.Tally{}
	first, bases := firstAttempts(t, tally)
	say("one attempt: %d boundaries, %d images, %d of them different to the loader", first.Boundaries, len(first.Images()), first.Visible())
	second := secondAttempts(t, tally, first, bases[:min(want.bases, len(bases))])
	say("two attempts: %d boundaries, %d images, %d of them different to the loader", second.Boundaries, len(second.Images()), second.Visible())

	e := explore.New(tally, et.Parameters().Cluster)
	e.Product(first, want.width, explore.ToTheEnd)
	say("one attempt in every world: %d states, %d cleanups", e.States(), e.Cleanups)
	for _, width := range want.befores {
		e.Product(second, func(slot int) explore.Width {
			if slot < 5 {
				return width
			}
			return explore.Thin
		}, 0)
	}
	say("two attempts: %d states, %d cleanups", e.States(), e.Cleanups)
	e.Weathers(first, want.stride)
	say("foul weather: %d cleanups of %d", e.Stormy, e.Cleanups)
	disks := 0
	for _, album := range []*explore.Album{first, second} {
		n, err := e.Interrupts(album, expectation(), want.interrupted, want.twice)
		if err != nil {
			t.Fatal(err)
		}
		disks += n
	}
	say("crashed cleanups: %d disks, %d states, %d cleanups of which %d complete, %d requests", disks, e.States(), e.Cleanups, e.Complete, e.Requests)
	judge(t, want, e, tally, first, second, disks)
}

// TestSmallSpace is the part of the space that shows most faults soonest: two
// runs, the worlds that differ most, a Job that is held, and one crash. It is what
// planted faults are tried on. Its runs are of the built-in profile, of whose evidence
// the loader knows most.
func TestSmallSpace(t *testing.T) {
	tally := &explore.Tally{}
	planned := slots(evidence.StartupDirectory, 0)
	expect := expectation()
	_, expect.Helper = example(t, true)
	album := explore.NewAlbum(planned, expect, tally)
	for _, s := range []scenario{{name: "passes", number: 5, answer: kube.Acknowledged, builtIn: true}, {name: "uncertain", number: 3, answer: kube.Unknown, builtIn: true}} {
		recordRun(t, album, planned, s)
	}
	e := explore.New(tally, et.Parameters().Cluster)
	e.Product(album, func(int) explore.Width { return explore.Thin }, 0)
	e.Product(album, func(slot int) explore.Width { // and all that can have become of the last Job alone
		if slot < 4 {
			return explore.First
		}
		return explore.Wide
	}, 0)
	e.Weathers(album, 1000)
	t.Logf("%d boundaries, %d images, %d states, %d cleanups", album.Boundaries, len(album.Images()), e.States(), e.Cleanups)
	if !tally.Clean() {
		t.Error(strings.Join(tally.Notes, "\n"))
	}
	if len(album.Images()) < 150 || e.States() < 5000 {
		t.Errorf("%d images and %d states: the space has shrunk", len(album.Images()), e.States())
	}
}

// firstAttempts are the disks of every run, and where those runs end.
func firstAttempts(t *testing.T, tally *explore.Tally) (*explore.Album, []base) {
	planned := slots(evidence.StartupDirectory, 0)
	album := explore.NewAlbum(planned, expectation(), tally)
	var bases []base
	for _, s := range scenarios() {
		disk, statuses := recordRun(t, album, planned, s)
		if s.answer == kube.Unknown {
			reconcile(t, album, disk, planned[s.number].Ref, statuses)
		}
		if s.answer != kube.Unsent {
			bases = append(bases, base{disk, statuses})
		}
	}
	return album, bases
}

// secondAttempts are the disks of a second attempt in the directories of the
// first ones.
func secondAttempts(t *testing.T, tally *explore.Tally, first *explore.Album, bases []base) *explore.Album {
	planned := append(first.Slots(), slots(resumeDirectory(t, bases[0]), 1)...)
	album := explore.NewAlbum(planned, expectation(), tally)
	for _, b := range bases {
		for refused := range 6 {
			resume(t, album, b.disk, b.statuses, refused)
		}
	}
	return album
}

func judge(t *testing.T, want space, e *explore.Explorer, tally *explore.Tally, first, second *explore.Album, disks int) {
	images, visible := len(first.Images())+len(second.Images()), first.Visible()+second.Visible()
	if len(tally.Notes) > 0 {
		t.Error(strings.Join(tally.Notes, "\n"))
	}
	if tally.Stuck > 0 {
		t.Errorf("%d cleanups did not finish although nothing was in their way", tally.Stuck)
	}
	for _, n := range []struct {
		what      string
		got, want int
		exact     bool
	}{
		{"boundaries", first.Boundaries + second.Boundaries, want.boundaries, true},
		{"images", images, want.images, true},
		{"images that the loader can tell apart", visible, want.visible, true},
		{"states", e.States(), want.states, false},
		{"cleanups", e.Cleanups, want.cleanups, false},
	} {
		if n.exact && n.got != n.want || n.got < n.want {
			t.Errorf("%d %s, want %d: the space has changed", n.got, n.what, n.want)
		}
	}
	line := fmt.Sprintf("explore: images=%d states=%d wrong-deletions=%d false-completes=%d adoptions=%d lost=%d",
		images+disks, e.States(), tally.Wrong, tally.False, tally.Adopted, tally.Lost)
	t.Log(line)
	if *report == "" {
		return
	}
	if err := os.WriteFile(*report, []byte(line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}
