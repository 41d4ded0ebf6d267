// Package durabletest is a file system in memory for tests of what must
// survive a crash.
//
// It is true to two things that other such file systems are not: an inode with
// two names is one inode, and nothing is on the disk before an fsync says so.
// Each file holds its synced content and the writes since; each directory its
// synced entries and the ordered changes since. It records every operation that
// changes something, can fail any of them or stop at any of them, and can name
// every disk that a crash may legally leave (see FS.CrashStates).
//
// Only tests import it.
package durabletest

import (
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-project/holdfast/internal/durable"
)

// ErrStopped is what every operation returns once the file system has stopped:
// the process that would see it does not exist any more.
var ErrStopped = errors.New("durabletest: stopped")

// UID owns everything that is made through the seam.
const UID uint32 = 1000

// FS is the file system. It is safe for concurrent use.
type FS struct {
	mu        sync.Mutex
	root      *inode
	lastInode uint64
	kind      string
	locks     map[*inode]*dir
	trace     []Op
	fault     *Fault
	stopAt    int
	stopped   bool
	look      func(Op)
}

// inode is a file, a directory, or something that has only a mode.
type inode struct {
	number uint64
	mode   fs.FileMode
	uid    uint32
	birth  int64

	// content is what a reader sees, synced what the disk is sure to hold, and
	// writes what was written since.
	content, synced []byte
	writes          []write

	// The same three for a directory.
	entries, syncedEntries map[string]*inode
	changes                []change
}

// write is one unsynced write. doubtful marks one whose fsync has failed: it is
// on the disk or not, and no later fsync will say.
type write struct {
	offset   int
	data     []byte
	doubtful bool
}

// change is one unsynced change of a directory: a name goes, a name comes, or,
// for a rename, both at once.
type change struct {
	goes, comes string
	node        *inode
	doubtful    bool
}

// New returns an empty file system of type "ext4" that holds only "/".
func New() *FS {
	f := &FS{kind: "ext4", locks: map[*inode]*dir{}}
	f.root = f.newInode(fs.ModeDir | 0o700)
	return f
}

// SetType changes the name that FileSystem gives.
func (f *FS) SetType(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kind = name
}

func (f *FS) newInode(mode fs.FileMode) *inode {
	f.lastInode++
	// The time of birth is made from the number, so that a run is the same
	// whenever it is repeated.
	n := &inode{number: f.lastInode, mode: mode, uid: UID, birth: int64(f.lastInode) * 1e9}
	if mode.IsDir() {
		n.entries, n.syncedEntries = map[string]*inode{}, map[string]*inode{}
	}
	return n
}

// Open opens the directory at an absolute path.
func (f *FS) Open(name string) (durable.Dir, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		return nil, ErrStopped
	}
	n, err := f.walk(name)
	if err == nil && n.mode&fs.ModeSymlink != 0 {
		err = durable.ErrSymlink
	}
	if err == nil && !n.mode.IsDir() {
		err = durable.ErrNotDirectory
	}
	if err != nil {
		return nil, &fs.PathError{Op: "opening", Path: name, Err: err}
	}
	return &dir{fs: f, node: n, path: path.Clean(name)}, nil
}

// walk finds the inode at an absolute path.
func (f *FS) walk(name string) (*inode, error) {
	n := f.root
	for component := range strings.SplitSeq(strings.Trim(path.Clean(name), "/"), "/") {
		if component == "" {
			continue
		}
		if n.mode&fs.ModeSymlink != 0 {
			return nil, durable.ErrSymlink
		}
		next, ok := n.entries[component]
		if !ok {
			return nil, fs.ErrNotExist
		}
		n = next
	}
	return n, nil
}

// links counts the names of n, as the file system now is.
func (f *FS) links(n *inode) uint64 {
	var count uint64
	var descend func(d *inode)
	descend = func(d *inode) {
		for _, entry := range d.entries {
			if entry == n {
				count++
			}
			if entry.mode.IsDir() {
				descend(entry)
			}
		}
	}
	descend(f.root)
	return count
}

// eachDirectory calls visit for every directory that has a name, parents first,
// in the order of their paths.
func (f *FS) eachDirectory(visit func(path string, d *inode)) {
	var descend func(path string, d *inode)
	descend = func(at string, d *inode) {
		visit(at, d)
		for _, name := range slices.Sorted(maps.Keys(d.entries)) {
			if entry := d.entries[name]; entry.mode.IsDir() {
				descend(path.Join(at, name), entry)
			}
		}
	}
	descend("/", f.root)
}

func (f *FS) info(n *inode) durable.Info {
	return durable.Info{
		Mode: n.mode, UID: n.uid, Links: f.links(n), Inode: n.number, Device: 1,
		Size: int64(len(n.content)), BirthTime: n.birth,
	}
}
