package durabletest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"
)

// Killed returns what is left when only the process dies: everything that it
// did, and no lock.
func (f *FS) Killed() *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.clone(survival{all: true})
}

// PowerLost returns the disk that holds nothing but what was synced.
func (f *FS) PowerLost() *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.clone(survival{})
}

// CrashStates yields every disk that a power cut at this moment may leave, each
// once: all subsets of the unsynced changes of each directory, and for each
// file with unsynced writes the old content, the new, zeros, garbage, and one that
// is torn after its first byte, at its half and before its last byte. Everything on a
// yielded disk is synced. This disk must not be changed meanwhile.
func (f *FS) CrashStates() iter.Seq[*FS] {
	return f.CrashStatesBut(func(string) bool { return false })
}

// CrashStatesBut is CrashStates, but for the directories that coarse names by
// their base name: of these all unsynced changes survive, or none. It is for
// directories that nobody reads and that fill without an fsync, whose subsets
// would be millions of disks that no reader can tell apart.
func (f *FS) CrashStatesBut(coarse func(name string) bool) iter.Seq[*FS] {
	return func(yield func(*FS) bool) {
		seen := map[string]bool{}
		choices := f.choices(coarse)
		for {
			disk := f.survivor(choices)
			if print := disk.fingerprint(same, func(string) bool { return false }); !seen[print] {
				seen[print] = true
				if !yield(disk) {
					return
				}
			}
			if !choices.next() {
				return
			}
		}
	}
}

// survivor is unlocked again before anybody looks at what it returns: a test that
// asks this disk for its trace then, to say what failed, would wait for ever.
func (f *FS) survivor(choices choiceList) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.clone(survival{choices: choices})
}

// contents is the number of ways in which an unsynced write may survive.
const contents = 7

// choice counts through the ways in which one inode may survive: a bit mask of
// directory changes, or one of the contents.
type choice struct {
	node           *inode
	current, limit int
	whole          bool
}

type choiceList []*choice

// next moves to the next combination, like an odometer.
func (c choiceList) next() bool {
	for _, one := range c {
		if one.current++; one.current < one.limit {
			return true
		}
		one.current = 0
	}
	return false
}

// of is the way in which n survives: the contents' number, or the bit mask of
// the changes that are kept.
func (c choiceList) of(n *inode) int {
	for _, one := range c {
		switch {
		case one.node == n && one.whole:
			return -one.current
		case one.node == n:
			return one.current
		}
	}
	return 0
}

// choices lists every inode of which something is unsynced.
func (f *FS) choices(coarse func(name string) bool) choiceList {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list choiceList
	seen := map[*inode]bool{}
	var visit func(name string, n *inode)
	visit = func(name string, n *inode) {
		if n == nil || seen[n] {
			return
		}
		seen[n] = true
		switch {
		case len(n.changes) > 0 && coarse(name):
			list = append(list, &choice{node: n, limit: 2, whole: true})
		case len(n.changes) > 0:
			list = append(list, &choice{node: n, limit: 1 << len(n.changes)})
		}
		if len(n.writes) > 0 {
			list = append(list, &choice{node: n, limit: contents})
		}
		for _, name := range slices.Sorted(maps.Keys(n.syncedEntries)) {
			visit(name, n.syncedEntries[name])
		}
		for _, c := range n.changes {
			visit(c.comes, c.node)
		}
	}
	visit("/", f.root)
	return list
}

// survival says what of the unsynced is kept: all, or what the choices say;
// without either, nothing.
type survival struct {
	all     bool
	choices choiceList
}

func (s survival) entries(n *inode) map[string]*inode {
	if s.all {
		return n.entries
	}
	kept := maps.Clone(n.syncedEntries)
	mask := s.choices.of(n)
	for i, c := range n.changes {
		if mask&(1<<i) != 0 {
			c.applyTo(kept)
		}
	}
	return kept
}

func (s survival) content(n *inode) []byte {
	if s.all {
		return n.content
	}
	kept := n.synced
	way := s.choices.of(n)
	for _, w := range n.writes {
		data := slices.Clone(w.data)
		switch way {
		case 0:
			continue
		case 2:
			data = data[:len(data)/2]
		case 3:
			clear(data)
		case 4:
			for i := range data {
				data[i] ^= 0xa5
			}
		case 5:
			data = data[:min(1, len(data))]
		case 6:
			data = data[:max(0, len(data)-1)]
		}
		kept = write{offset: w.offset, data: data}.applyTo(kept)
	}
	return kept
}

// clone builds a new file system, synced throughout, keeping inode numbers and
// births and every hard link.
func (f *FS) clone(s survival) *FS {
	out := &FS{lastInode: f.lastInode, kind: f.kind, locks: map[*inode]*dir{}}
	copies := map[*inode]*inode{}
	var copyOf func(n *inode) *inode
	copyOf = func(n *inode) *inode {
		if done := copies[n]; done != nil {
			return done
		}
		c := &inode{number: n.number, mode: n.mode, uid: n.uid, birth: n.birth}
		copies[n] = c
		if !n.mode.IsDir() {
			c.content = slices.Clone(s.content(n))
			c.synced = c.content
			return c
		}
		c.entries = map[string]*inode{}
		for name, entry := range s.entries(n) {
			c.entries[name] = copyOf(entry)
		}
		c.syncedEntries = maps.Clone(c.entries)
		return c
	}
	out.root = copyOf(f.root)
	return out
}

// Fingerprint is the same for two disks that no reader can tell apart, once
// rename has been applied to every path: names that a process draws at random
// would make each disk another one.
func (f *FS) Fingerprint(rename func(path string) string) string {
	return f.Outline(rename, func(string) bool { return false })
}

// Outline is Fingerprint, but for the content and the size of the files that
// unread names by their path.
func (f *FS) Outline(rename func(path string) string, unread func(path string) bool) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fingerprint(rename, unread)
}

func same(path string) string { return path }

func (f *FS) fingerprint(rename func(string) string, unread func(string) bool) string {
	type entry struct {
		at, head string
		node     *inode
	}
	var entries []entry
	f.eachDirectory(func(at string, d *inode) {
		for name, n := range d.entries {
			at := path.Join(at, name)
			entries = append(entries, entry{at, fmt.Sprintf("%q %d %v %d", rename(at), n.number, n.mode, n.uid), n})
		}
	})
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.head, b.head) })
	sum := sha256.New()
	for _, e := range entries {
		_, _ = io.WriteString(sum, e.head)
		if !unread(e.at) {
			_, _ = fmt.Fprintf(sum, " %d ", len(e.node.content))
			sum.Write(e.node.content)
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}
