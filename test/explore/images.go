package explore

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"path"
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
	Disk      *durabletest.FS
	Inventory *evidence.Inventory
	Refusal   error
	// Hash tells the disk from every other; Seen tells what the loader sees.
	Hash, Seen uint64
}

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
	at     map[moment]map[uint64]*Image
	// Boundaries is how often a crash was looked at.
	Boundaries int
}

// NewAlbum returns an empty album of runs that plan these slots.
func NewAlbum(slots []Slot, expect evidence.Expectation, tally *Tally) *Album {
	return &Album{slots: slots, expect: expect, tally: tally, images: map[uint64]*Image{}, at: map[moment]map[uint64]*Image{}}
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
			a.images[hash] = image
			a.compare(image)
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

// compare holds the loader against a reader of this package's own that knows
// nothing but the names of files: what is not on the disk is invented, and what
// is on it is not overlooked.
func (a *Album) compare(image *Image) {
	if image.Inventory == nil {
		return
	}
	files := image.Disk.Files()
	exists := func(s evidence.SlotState, kind string) (string, bool) {
		content, ok := files[path.Join(root, s.Ref.Attempt, "preflight-"+string(s.Ref.Slot)+"-"+kind+".json")]
		return content, ok
	}
	proven := map[string]string{}
	for _, r := range image.Inventory.Resources {
		proven[r.Ref().String()] = r.Object().UID
	}
	for _, s := range image.Inventory.Slots {
		_, started := exists(s, "started")
		receipt, acknowledged := exists(s, "identity")
		_, rejected := exists(s, "rejected")
		var content struct{ UID string }
		_ = json.Unmarshal([]byte(receipt), &content)
		want := evidence.StatePlanned
		switch {
		case acknowledged:
			want = evidence.StateAcknowledged
		case rejected:
			want = evidence.StateRejected
		case started:
			want = evidence.StateUncertain
		}
		if s.State != want || proven[s.Ref.String()] != content.UID {
			a.tally.count(&a.tally.Lost, "the disk says that %s is %s %q, the loader that it is %s %q", s.Ref, want, content.UID, s.State, proven[s.Ref.String()])
		}
	}
}

// judge holds an image against what had happened when the crash came.
func (a *Album) judge(image *Image, statuses []Status) {
	if image.Inventory == nil {
		for i, s := range statuses {
			if s != Idle {
				a.tally.count(&a.tally.Lost, "%s may exist, and its evidence is refused: %v", a.slots[i].Object, image.Refusal)
			}
		}
		return
	}
	states := map[string]evidence.SlotState{}
	for _, s := range image.Inventory.Slots {
		states[s.Ref.String()] = s
	}
	resources := map[string]evidence.Acknowledged{}
	for _, r := range image.Inventory.Resources {
		resources[r.Ref().String()] = r
	}
	for i, status := range statuses {
		if broken := brokenPromise(a.slots[i], statuses[i:], states, resources); broken != "" {
			counter := &a.tally.Lost
			if strings.HasPrefix(broken, "adopted") {
				counter = &a.tally.Adopted
			}
			a.tally.count(counter, "%s (status %d) at %x: %s", a.slots[i].Ref, status, statuses, broken)
		}
	}
}

// brokenPromise says what a disk lacks of, or adds to, the first of statuses.
func brokenPromise(slot Slot, statuses []Status, states map[string]evidence.SlotState, resources map[string]evidence.Acknowledged) string {
	status, state := statuses[0], states[slot.Ref.String()].State
	resource, acknowledged := resources[slot.Ref.String()]
	if added := invented(slot, status, state, resource, acknowledged); added != "" {
		return added
	}
	followed := slices.ContainsFunc(statuses[1:], func(s Status) bool { return s != Idle })
	switch {
	case status != Idle && (state == evidence.StatePlanned || state == ""):
		return "its create left, and its marker is not there"
	case (status >= Released || status == Answered && followed) && !acknowledged:
		return "something else was sent, and its receipt is not there"
	case status >= Released && !resource.Released():
		return "its Job was let run, and its release is not there"
	}
	return ""
}

// invented says what a disk claims that no answer gave.
func invented(slot Slot, status Status, state evidence.State, resource evidence.Acknowledged, acknowledged bool) string {
	switch {
	case acknowledged && status < Answered:
		return "adopted: a receipt that no answer gave"
	case acknowledged && resource.Object().UID != slot.Object.UID:
		return "adopted: a receipt with the UID " + resource.Object().UID
	case state == evidence.StateRejected && status != Refused:
		return "a rejection that no answer gave"
	}
	return ""
}

// Slots are those that its runs plan.
func (a *Album) Slots() []Slot { return slices.Clone(a.slots) }

// moments are all, in a fixed order.
func (a *Album) moments() []moment { return slices.Sorted(maps.Keys(a.at)) }

// Images are all, in the order of their hashes.
func (a *Album) Images() []*Image { return sorted(a.images) }

// Visible is how many the loader can tell apart.
func (a *Album) Visible() int {
	seen := map[uint64]bool{}
	for _, image := range a.images {
		seen[image.Seen] = true
	}
	return len(seen)
}

func sorted(images map[uint64]*Image) []*Image {
	list := make([]*Image, 0, len(images))
	for _, hash := range slices.Sorted(maps.Keys(images)) {
		list = append(list, images[hash])
	}
	return list
}
