package explore

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/holdfast-project/holdfast/internal/durable/durabletest"
	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/journal"
)

// left is a disk that a crash of a cleanup leaves, and what the cluster is by then:
// the cleanup changes both.
type left struct {
	image *Image
	world *World
}

// Interrupt plays a cleanup with its real record on an image, takes every disk
// that a crash at each of its operations can leave, and plays a cleanup on each:
// a fresh one, or, while again is positive, one that is itself interrupted so.
// It returns how many disks there were.
func (e *Explorer) Interrupt(image *Image, world *World, expect evidence.Expectation, again int) (int, error) {
	return e.interrupt(image, world, &loads{expect: expect, by: map[string]*Image{}}, again)
}

func (e *Explorer) interrupt(image *Image, world *World, loaded *loads, again int) (int, error) {
	found, err := e.crashes(image, world, loaded)
	if err != nil {
		return 0, err
	}
	deeper := 0
	for _, l := range found {
		if l.image.Seen != image.Seen {
			e.Tally.count(&e.Tally.Lost, "a crash of a cleanup changes the evidence from\n%sto\n%s", describe(image), describe(l.image))
			continue
		}
		e.noteAll([]*Image{l.image}, l.world.Hash())
		if again == 0 {
			e.Judge(l.image, l.world, 0)
			continue
		}
		n, err := e.interrupt(l.image, l.world, loaded, again-1)
		if err != nil {
			return 0, err
		}
		deeper += n
	}
	return len(found) + deeper, nil
}

// crashes plays one cleanup with its real record, and takes every disk that a crash
// of it can leave, each once in each world.
func (e *Explorer) crashes(image *Image, world *World, loaded *loads) ([]left, error) {
	disk := image.Disk.Killed()
	dir, err := evidence.Open(disk, root)
	if err != nil {
		return nil, fmt.Errorf("opening an image: %w", err)
	}
	defer func() { _ = dir.Close() }()
	if _, err := dir.Load(loaded.expect); err != nil {
		return nil, fmt.Errorf("loading an image: %w", err)
	}
	var found []left
	seen := map[uint64]bool{}
	w := world.Clone()
	look := func(durabletest.Op) {
		for state := range disk.CrashStatesBut(func(name string) bool { return name == evidence.ObservationsDirectory }) {
			hash := hashText(state.Fingerprint(plainName))
			if key := pair(hash, w.Hash()); !seen[key] {
				seen[key] = true
				found = append(found, left{loaded.develop(state, hash), w.Clone()})
			}
		}
	}
	disk.Watch(look)
	record, err := journal.NewCleanup(dir)
	if err != nil {
		return nil, fmt.Errorf("beginning the record of a cleanup: %w", err)
	}
	e.play(image, w, Weather{}, record, func(*World) { look(durabletest.Op{}) })
	look(durabletest.Op{})
	disk.Watch(nil)
	if loaded.differ != "" {
		return nil, fmt.Errorf("the loader reads what a cleanup has written: %s", loaded.differ)
	}
	return found, record.Close()
}

// loads lets the real loader read the disks of one interrupted cleanup, and of those
// that are interrupted after it, which differ in nothing but what these have written.
// What lies in the directory of a cleanup is never parsed (A5.7), so disks that differ
// in those contents alone are read once; that this is so is checked by reading every
// eighth of them all the same.
type loads struct {
	expect evidence.Expectation
	by     map[string]*Image
	spared int
	differ string
}

func (l *loads) develop(disk *durabletest.FS, hash uint64) *Image {
	written := func(path string) bool { return strings.Contains(path, "/preflight-cleanup.") }
	outline := disk.Outline(plainName, written)
	known := l.by[outline]
	if known != nil {
		l.spared++
		if l.spared%8 != 0 {
			again := *known
			again.Disk, again.Hash = disk, hash
			return &again
		}
	}
	image := develop(disk, hash, l.expect)
	if known != nil && known.Seen != image.Seen {
		l.differ = describe(known) + "and\n" + describe(image)
	}
	l.by[outline] = image
	return image
}

// Interrupts interrupts the cleanup in about so many of each album's thin worlds, and
// in the first of them and in some of the last, whose evidence says most, the cleanup
// after that as well, if again is 1. These are a hundred times the work, and are begun
// first: whatever is begun last is waited for on one processor.
func (e *Explorer) Interrupts(albums []*Album, expect evidence.Expectation, about, again int) (disks int, err error) {
	var mu sync.Mutex
	var once, twice []func()
	for _, album := range albums {
		starts, _ := e.sample(album, about)
		for i, s := range starts {
			interrupt := func(again int) {
				n, failure := e.Interrupt(s.image, s.world, expect, again)
				mu.Lock()
				defer mu.Unlock()
				disks, err = disks+n, errors.Join(err, failure)
			}
			if i == 0 || i > len(starts)*9/10 && i%4 == 0 {
				twice = append(twice, func() { interrupt(again) })
			} else {
				once = append(once, func() { interrupt(0) })
			}
		}
	}
	sideBySide(append(twice, once...))
	return disks, err
}
