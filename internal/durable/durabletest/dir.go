package durabletest

import (
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/holdfast-project/holdfast/internal/durable"
)

// dir is an opened directory.
type dir struct {
	fs     *FS
	node   *inode
	path   string
	closed bool
}

func (d *dir) Path() string { return d.path }

func (d *dir) Owner() uint32 { return UID }

func (d *dir) at(name string) string { return path.Join(d.path, name) }

// vacant checks that name can come into being.
func (d *dir) vacant(name string) func() error {
	return func() error {
		if err := d.usable(name); err != nil {
			return err
		}
		if d.node.entries[name] != nil {
			return &fs.PathError{Op: "creating", Path: d.at(name), Err: fs.ErrExist}
		}
		return nil
	}
}

// present checks that name exists.
func (d *dir) present(name string) func() error {
	return func() error {
		if err := d.usable(name); err != nil {
			return err
		}
		if d.node.entries[name] == nil {
			return &fs.PathError{Op: "finding", Path: d.at(name), Err: fs.ErrNotExist}
		}
		return nil
	}
}

func (d *dir) usable(name string) error {
	if d.closed {
		return &fs.PathError{Op: "using", Path: d.path, Err: fs.ErrClosed}
	}
	if name == "" || name == "." || name == ".." || strings.Contains(name, "/") {
		return &fs.PathError{Op: "using", Path: d.at(name), Err: durable.ErrName}
	}
	return nil
}

// apply changes what is visible at once, and remembers that it is not synced.
func (d *dir) apply(c change) {
	if c.goes != "" {
		delete(d.node.entries, c.goes)
	}
	if c.comes != "" {
		d.node.entries[c.comes] = c.node
	}
	d.node.changes = append(d.node.changes, c)
}

func (d *dir) MakeDir(name string) (durable.Dir, error) {
	err := d.fs.operate(Op{Kind: Mkdir, Path: d.at(name)}, d.vacant(name), func() {
		d.apply(change{comes: name, node: d.fs.newInode(fs.ModeDir | 0o700)})
	})
	if err != nil {
		return nil, err
	}
	return d.OpenDir(name)
}

func (d *dir) OpenDir(name string) (durable.Dir, error) {
	n, err := d.find(name)
	if err == nil && !n.mode.IsDir() {
		err = &fs.PathError{Op: "opening", Path: d.at(name), Err: durable.ErrNotDirectory}
	}
	if err != nil {
		return nil, err
	}
	return &dir{fs: d.fs, node: n, path: d.at(name)}, nil
}

func (d *dir) Create(name string, perm fs.FileMode) (durable.File, error) {
	var n *inode
	err := d.fs.operate(Op{Kind: Create, Path: d.at(name)}, d.vacant(name), func() {
		n = d.fs.newInode(perm.Perm())
		d.apply(change{comes: name, node: n})
	})
	if err != nil {
		return nil, err
	}
	return &file{fs: d.fs, node: n, path: d.at(name), writable: true}, nil
}

func (d *dir) Open(name string) (durable.File, error) {
	n, err := d.find(name)
	if err != nil {
		return nil, err
	}
	return &file{fs: d.fs, node: n, path: d.at(name)}, nil
}

// find looks an entry up without following a link.
func (d *dir) find(name string) (*inode, error) {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	if d.fs.stopped {
		return nil, ErrStopped
	}
	if err := d.present(name)(); err != nil {
		return nil, err
	}
	n := d.node.entries[name]
	if n.mode&fs.ModeSymlink != 0 {
		return nil, &fs.PathError{Op: "opening", Path: d.at(name), Err: durable.ErrSymlink}
	}
	return n, nil
}

func (d *dir) Link(old, new string) error {
	check := func() error {
		if err := d.present(old)(); err != nil {
			return err
		}
		return d.vacant(new)()
	}
	return d.fs.operate(Op{Kind: Link, Path: d.at(old), To: d.at(new)}, check, func() {
		d.apply(change{comes: new, node: d.node.entries[old]})
	})
}

// Rename does nothing when both names are one inode, as rename(2) does.
func (d *dir) Rename(old, new string) error {
	return d.fs.operate(Op{Kind: Rename, Path: d.at(old), To: d.at(new)}, d.present(old), func() {
		if d.node.entries[old] != d.node.entries[new] {
			d.apply(change{goes: old, comes: new, node: d.node.entries[old]})
		}
	})
}

func (d *dir) Remove(name string) error {
	return d.fs.operate(Op{Kind: Unlink, Path: d.at(name)}, d.present(name), func() {
		d.apply(change{goes: name})
	})
}

func (d *dir) Names() ([]string, error) {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	if d.fs.stopped {
		return nil, ErrStopped
	}
	return slices.Sorted(maps.Keys(d.node.entries)), nil
}

func (d *dir) Stat() (durable.Info, error) {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	if d.fs.stopped {
		return durable.Info{}, ErrStopped
	}
	return d.fs.info(d.node), nil
}

func (d *dir) Lstat(name string) (durable.Info, error) {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	if d.fs.stopped {
		return durable.Info{}, ErrStopped
	}
	if err := d.present(name)(); err != nil {
		return durable.Info{}, err
	}
	return d.fs.info(d.node.entries[name]), nil
}

func (d *dir) FileSystem() (string, error) {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	return d.fs.kind, nil
}

func (d *dir) Sync() error {
	return d.fs.operate(Op{Kind: FsyncDir, Path: d.path}, func() error { return nil }, func() {
		var doubtful []change
		for _, c := range d.node.changes {
			if c.doubtful {
				doubtful = append(doubtful, c)
				continue
			}
			c.applyTo(d.node.syncedEntries)
		}
		d.node.changes = doubtful
	})
}

// applyTo carries the change out on a set of entries that may lack what the
// change rests on, since changes of different names survive independently.
func (c change) applyTo(entries map[string]*inode) {
	if c.goes != "" {
		delete(entries, c.goes)
	}
	if c.comes != "" {
		entries[c.comes] = c.node
	}
}

func (d *dir) Lock() error {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	if d.fs.stopped {
		return ErrStopped
	}
	if holder := d.fs.locks[d.node]; holder != nil && holder != d {
		return &fs.PathError{Op: "locking", Path: d.path, Err: durable.ErrLocked}
	}
	d.fs.locks[d.node] = d
	return nil
}

func (d *dir) Close() error {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	if d.fs.locks[d.node] == d {
		delete(d.fs.locks, d.node)
	}
	d.closed = true
	return nil
}
