package durabletest

import (
	"io/fs"
	"maps"
	"path"
	"slices"
)

// The functions of this file are the hand of somebody else: they change the
// disk at once and leave no trace. They panic on a path that a test has
// misspelt.

// Files returns the content of every regular file, by absolute path.
func (f *FS) Files() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	found := map[string]string{}
	f.eachDirectory(func(at string, d *inode) {
		for name, n := range d.entries {
			if n.mode.IsRegular() {
				found[path.Join(at, name)] = string(n.content)
			}
		}
	})
	return found
}

// Paths returns the paths of all entries below "/", sorted.
func (f *FS) Paths() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []string
	f.eachDirectory(func(at string, d *inode) {
		for _, name := range slices.Sorted(maps.Keys(d.entries)) {
			found = append(found, path.Join(at, name))
		}
	})
	slices.Sort(found)
	return found
}

// Place puts an entry of any mode at an absolute path, with an inode of its own,
// in the place of what is there. The directory above must exist.
func (f *FS) Place(name string, mode fs.FileMode, content string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.newInode(mode)
	n.content, n.synced = []byte(content), []byte(content)
	f.set(name, n)
}

// Edit changes a file's content and keeps its inode.
func (f *FS) Edit(name string, edit func(content string) string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.must(name)
	n.content = []byte(edit(string(n.content)))
	n.synced, n.writes = n.content, nil
}

// Chmod changes the permission bits of an entry.
func (f *FS) Chmod(name string, mode fs.FileMode) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.must(name)
	n.mode = n.mode.Type() | mode.Perm()
}

// Chown gives an entry to another user.
func (f *FS) Chown(name string, uid uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.must(name).uid = uid
}

// HardLink gives an entry a second name.
func (f *FS) HardLink(old, new string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.set(new, f.must(old))
}

// Move takes an entry, with all below it, from one path to another.
func (f *FS) Move(old, new string) {
	f.HardLink(old, new)
	f.Delete(old)
}

// Rebirth gives an entry another inode number and birth, as a restore from a
// backup does.
func (f *FS) Rebirth(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.must(name)
	f.lastInode++
	n.number, n.birth = f.lastInode, int64(f.lastInode)*1e9
}

// Delete takes an entry away, with all below it.
func (f *FS) Delete(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.must(name)
	d := f.must(path.Dir(name))
	delete(d.entries, path.Base(name))
	delete(d.syncedEntries, path.Base(name))
}

func (f *FS) set(name string, n *inode) {
	d := f.must(path.Dir(name))
	d.entries[path.Base(name)] = n
	d.syncedEntries[path.Base(name)] = n
}

func (f *FS) must(name string) *inode {
	n, err := f.walk(name)
	if err != nil {
		panic("durabletest: " + name + ": " + err.Error())
	}
	return n
}
