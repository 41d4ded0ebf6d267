package explore

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-project/holdfast/internal/durable/durabletest"
	"github.com/holdfast-project/holdfast/internal/evidence"
)

// root is the evidence directory on every disk.
const root = "/evidence"

// Image is one disk that a crash can leave, and what the real loader makes of
// it: an inventory, or a refusal.
type Image struct {
	Disk      *durabletest.FS // kept of one of those that the loader cannot tell apart
	Inventory *evidence.Inventory
	Refusal   error
	// facts are what this package's own reader finds on an accepted disk, unless it
	// cannot read what the loader accepts.
	facts  facts
	unread error
	// Hash tells the disk from every other; Seen tells what the loader sees.
	Hash, Seen uint64
}

// accepted: the loader does not refuse it, so a cleanup goes on.
func (i *Image) accepted() bool { return i.Inventory != nil }

// moment is what the cluster knows of the run when a crash happens.
type moment string

func momentOf(statuses []Status) moment {
	b := make([]byte, len(statuses))
	for i, s := range statuses {
		b[i] = byte(s)
	}
	return moment(b)
}

func (m moment) statuses() []Status {
	s := make([]Status, len(m))
	for i := range m {
		s[i] = Status(m[i])
	}
	return s
}

// Album is every disk of one kind of history, each once, with the moments at
// which it can be left.
type Album struct {
	slots  []Slot
	expect evidence.Expectation
	tally  *Tally
	images map[uint64]*Image
	// readings is the first image of each that a loader can tell apart.
	readings map[uint64]*Image
	at       map[moment]map[uint64]*Image
	// Boundaries is how often a crash was looked at.
	Boundaries int
}

// NewAlbum returns an empty album of runs that plan these slots.
func NewAlbum(slots []Slot, expect evidence.Expectation, tally *Tally) *Album {
	return &Album{slots: slots, expect: expect, tally: tally, images: map[uint64]*Image{}, readings: map[uint64]*Image{}, at: map[moment]map[uint64]*Image{}}
}

// Look takes every disk that a crash at this moment can leave.
func (a *Album) Look(disk *durabletest.FS, statuses []Status) {
	a.Boundaries++
	m := momentOf(statuses)
	if a.at[m] == nil {
		a.at[m] = map[uint64]*Image{}
	}
	for state := range disk.CrashStates() {
		hash := hashText(state.Fingerprint(plainName))
		image := a.images[hash]
		if image == nil {
			image = develop(state, hash, a.expect)
			a.compare(image)
			if first := a.readings[image.Seen]; first == nil {
				a.readings[image.Seen] = image
			} else { // thousands of disks need not be kept to know that they were there
				image = &Image{Hash: hash, Seen: image.Seen, Inventory: first.Inventory, Refusal: first.Refusal, facts: image.facts}
			}
			a.images[hash] = image
		}
		if a.at[m][hash] == nil {
			a.at[m][hash] = image
			a.judge(image, statuses)
		}
	}
}

// plainName gives the directories of cleanups, which draw their names at random,
// one name.
func plainName(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		if strings.HasPrefix(part, "preflight-cleanup.") {
			parts[i] = "preflight-cleanup.XXXXXXXX"
		}
	}
	return strings.Join(parts, "/")
}

func hashText(text string) uint64 {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(text))
	return sum.Sum64()
}

// develop lets the real loader read a disk.
func develop(disk *durabletest.FS, hash uint64, expect evidence.Expectation) *Image {
	image := &Image{Disk: disk, Hash: hash}
	dir, err := evidence.Open(disk, root)
	if err == nil {
		image.Inventory, err = dir.Load(expect)
		_ = dir.Close()
	}
	image.Refusal = err
	if err == nil {
		image.facts, image.unread = read(disk)
	}
	image.Seen = hashText(describe(image))
	return image
}

// describe is all that a cleanup can learn from a disk.
func describe(image *Image) string {
	if image.Inventory == nil {
		return image.Refusal.Error()
	}
	var b strings.Builder
	for _, s := range image.Inventory.Slots {
		fmt.Fprintf(&b, "%s %s %s %s %v\n", s.Ref, s.Object, s.State, s.AuditID, s.Reconciled)
	}
	for _, r := range image.Inventory.Resources {
		fmt.Fprintf(&b, "%s %s %v %v\n", r.Ref(), r.Object(), r.Released(), r.Children())
	}
	return b.String()
}

// compare holds the loader against this package's own reader: what is not on the
// disk is invented, and what is on it is not overlooked.
func (a *Album) compare(image *Image) {
	if !image.accepted() {
		return
	}
	if image.unread != nil {
		a.tally.count(&a.tally.Lost, "the loader accepts a disk, and %v", image.unread)
	}
	if found := differ(image.facts, told(image.Inventory)); found != "" {
		a.tally.count(&a.tally.Lost, "%s", found)
	}
}

// judge holds an image against what had happened when the crash came.
func (a *Album) judge(image *Image, statuses []Status) {
	if !image.accepted() {
		for i, s := range statuses {
			if s != Idle {
				a.tally.count(&a.tally.Lost, "%s may exist, and its evidence is refused: %v", a.slots[i].Object, image.Refusal)
			}
		}
		return
	}
	for i, status := range statuses {
		if broken := brokenPromise(a.slots[i], statuses[i:], image.facts[a.slots[i].Ref]); broken != "" {
			counter := &a.tally.Lost
			if strings.HasPrefix(broken, "adopted") {
				counter = &a.tally.Adopted
			}
			a.tally.count(counter, "%s (%s) at %v: %s", a.slots[i].Ref, status, statuses, broken)
		}
	}
}

// Slots are those that its runs plan.
func (a *Album) Slots() []Slot { return slices.Clone(a.slots) }

// moments are all, in a fixed order.
func (a *Album) moments() []moment { return slices.Sorted(maps.Keys(a.at)) }

// Images are all, in the order of their hashes.
func (a *Album) Images() []*Image { return sorted(a.images) }

// Visible is how many the loader can tell apart.
func (a *Album) Visible() int { return len(a.readings) }

// representatives is one image for each thing that a loader can see at a moment.
func (a *Album) representatives(m moment) (list []*Image) {
	seen := map[uint64]bool{}
	for _, image := range sorted(a.at[m]) {
		if !seen[image.Seen] {
			seen[image.Seen] = true
			list = append(list, a.readings[image.Seen])
		}
	}
	return list
}

func sorted(images map[uint64]*Image) []*Image {
	list := make([]*Image, 0, len(images))
	for _, hash := range slices.Sorted(maps.Keys(images)) {
		list = append(list, images[hash])
	}
	return list
}
