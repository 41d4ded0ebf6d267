package explore_test

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"time"

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

// albums are the disks of all runs, of all resumes, and of the historical kind.
type albums struct{ first, second, historical *explore.Album }

func (a albums) each() []*explore.Album {
	return []*explore.Album{a.first, a.second, a.historical}
}

// TestExplore is the proof by exhaustion of the two rules (A5, A6): bounded, or
// whole with -full.
func TestExplore(t *testing.T) {
	// Most of what is made lives for one decision.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	space := bounded()
	if *full {
		space = whole()
	}
	began, tally := time.Now(), &explore.Tally{}
	say := func(format string, args ...any) {
		t.Logf("%6s %s", time.Since(began).Round(time.Second), fmt.Sprintf(format, args...))
	}
	all := recordAll(t, tally, space.bases, say)
	e := explore.New(tally, et.Parameters().Cluster)
	for what, album := range all.each() {
		for _, p := range [][]pass{space.first, space.second, space.historical}[what] {
			e.Product(album, p.width, p.crashes)
		}
		say("%s: %d states, %d cleanups", []string{"runs in every world", "and resumes", "and historical ones"}[what], e.States(), e.Cleanups)
	}
	for i, album := range []*explore.Album{all.first, all.second} {
		stormy, of := e.Weathers(album, []int{space.storms, space.laterStorms}[i])
		say("foul weather in %d worlds of %d: %d cleanups of %d", stormy, of, e.Stormy, e.Cleanups)
	}
	disks, err := e.Interrupts(all.each(), expectation(), space.interrupted, space.twice)
	if err != nil {
		t.Fatal(err)
	}
	say("crashed cleanups: %d disks, %d states, %d cleanups of which %d complete", disks, e.States(), e.Cleanups, e.Complete)
	got := measure(e, disks, all.each()...)
	got.Options = everyOption(t, e, all)
	judge(t, tally, got, space.want)
	conclude(t, tally, got)
}

// TestSmallSpace is the part of the space that shows most faults soonest: two
// runs, one with a statement, the worlds that differ most, all that can have become
// of the last Job, and one crash. It is what planted faults are tried on. Its runs are
// of the built-in profile, of whose evidence the loader knows most.
func TestSmallSpace(t *testing.T) {
	tally := &explore.Tally{}
	planned := slots(evidence.StartupDirectory, 0)
	expect := expectation()
	_, expect.Helper = example(t, true)
	album := explore.NewAlbum(planned, expect, tally)
	recordRun(t, album, planned, scenario{name: "passes", number: 5, answer: kube.Acknowledged, builtIn: true})
	uncertain := recordRun(t, album, planned, scenario{name: "uncertain", number: 3, answer: kube.Unknown, builtIn: true})
	reconcile(t, album, uncertain, planned[3].Ref)
	e := explore.New(tally, et.Parameters().Cluster)
	e.Product(album, widths(explore.Thin), 0)
	e.Product(album, alone(4, 5, 0)[0].width, 0)
	e.Weathers(album, 2)
	judge(t, tally, measure(e, 0, album), figures{
		Boundaries: 410, Images: 239, Visible: 22, States: 19376, Played: 2078, Cleanups: 2403, Stormy: 325, Complete: 233,
	})
}

// recordAll carries every attempt out.
func recordAll(t *testing.T, tally *explore.Tally, bases int, say func(string, ...any)) albums {
	t.Helper()
	first, ends := firstAttempts(t, tally)
	ends = ends[:min(bases, len(ends))]
	all := albums{first, secondAttempts(t, tally, first, ends), historicalAttempts(t, tally, first, ends)}
	for i, album := range all.each() {
		say("%s: %d boundaries, %d images, %d of them different to the loader", []string{"runs", "resumes", "historical ones"}[i],
			album.Boundaries, len(album.Images()), album.Visible())
	}
	return all
}

// firstAttempts are the disks of every run, and where those runs end.
func firstAttempts(t *testing.T, tally *explore.Tally) (*explore.Album, []base) {
	t.Helper()
	planned := slots(evidence.StartupDirectory, 0)
	album := explore.NewAlbum(planned, expectation(), tally)
	var bases []base
	for _, s := range scenarios() {
		end := recordRun(t, album, planned, s)
		if s.answer == kube.Unknown {
			reconcile(t, album, end, planned[s.number].Ref)
		}
		if s.answer != kube.Unsent {
			bases = append(bases, end)
		}
	}
	return album, bases
}

// secondAttempts are the disks of every resume in the directories of the first
// attempts.
func secondAttempts(t *testing.T, tally *explore.Tally, first *explore.Album, bases []base) *explore.Album {
	t.Helper()
	all := append(first.Slots(), slots(resumeDirectory(t, bases[0]), 1)...)
	planned := all[len(first.Slots()):]
	album := explore.NewAlbum(all, expectation(), tally)
	for _, b := range bases {
		recordResume(t, album, b, planned, scenario{name: "passes", number: len(planned), answer: kube.Acknowledged})
		for _, s := range endings(kube.Unknown, kube.Rejected) {
			end := recordResume(t, album, b, planned, s)
			if s.answer == kube.Unknown {
				reconcile(t, album, end, planned[s.number].Ref)
			}
		}
	}
	return album
}

// historicalAttempts are those of a migration-resume in the same directories.
func historicalAttempts(t *testing.T, tally *explore.Tally, first *explore.Album, bases []base) *explore.Album {
	t.Helper()
	album := explore.NewAlbum(append(first.Slots(), historicalSlot()), expectation(), tally)
	for _, b := range bases {
		recordHistorical(t, album, b, false)
		recordHistorical(t, album, b, true)
	}
	return album
}

func measure(e *explore.Explorer, disks int, albums ...*explore.Album) figures {
	got := figures{Disks: disks, States: e.States(), Played: e.Played(), Cleanups: e.Cleanups, Stormy: e.Stormy, Complete: e.Complete}
	for _, album := range albums {
		got.Boundaries += album.Boundaries
		got.Images += len(album.Images())
		got.Visible += album.Visible()
	}
	return got
}

// everyOption demands that what docs/design/assurance.md lists was played: each
// option of each slot that an attempt of its own kind writes, and each kind of
// weather. It returns how many those are.
func everyOption(t *testing.T, e *explore.Explorer, all albums) int {
	t.Helper()
	planned, options := len(all.first.Slots()), 0
	for what, find := range map[string]func() ([]string, int){
		"in a run":            func() ([]string, int) { return e.Unplayed(all.first, 0) },
		"in a resume":         func() ([]string, int) { return e.Unplayed(all.second, planned) },
		"in a historical one": func() ([]string, int) { return e.Unplayed(all.historical, planned) },
		"as weather":          e.Calm,
	} {
		missing, promised := find()
		options += promised
		if len(missing) > 0 {
			t.Errorf("no cleanup was played %s with\n  %s", what, strings.Join(missing, "\n  "))
		}
	}
	return options
}

// judge fails where a rule was broken or the space has another size. What the oracle
// says comes first: a planted fault is caught by that, not by the figures.
func judge(t *testing.T, tally *explore.Tally, got, want figures) {
	t.Helper()
	if !tally.Clean() {
		t.Error(strings.Join(tally.Notes, "\n"))
	}
	if tally.Stuck > 0 {
		t.Errorf("%d cleanups did not finish although nothing was in their way", tally.Stuck)
	}
	if got != want {
		t.Errorf("the space has changed: it is\n\t%#v\nwhere the test wants\n\t%#v", got, want)
	}
}

// conclude says how much was seen, in two lines of which the last has a form that
// others read.
func conclude(t *testing.T, tally *explore.Tally, got figures) {
	t.Helper()
	lines := fmt.Sprintf("explore: played=%d cleanups=%d complete=%d stormy=%d options=%d visible=%d boundaries=%d\n",
		got.Played, got.Cleanups, got.Complete, got.Stormy, got.Options, got.Visible, got.Boundaries) +
		fmt.Sprintf("explore: images=%d states=%d wrong-deletions=%d false-completes=%d adoptions=%d lost=%d\n",
			got.Images+got.Disks, got.States, tally.Wrong, tally.False, tally.Adopted, tally.Lost)
	t.Log("\n" + lines)
	if *report == "" {
		return
	}
	if err := os.WriteFile(*report, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
}
