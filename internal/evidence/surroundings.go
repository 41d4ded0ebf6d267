package evidence

import (
	"errors"
	"math"
	"path"
	"strings"

	"github.com/holdfast-project/holdfast/internal/durable"
)

// maxDepth bounds how deep directories may be nested; ours are two deep.
const maxDepth = 8

// A5.6, A5.7: whatever else lies in the directory is private, and says nothing
// of a create: a record outside the registered attempts means that the registry
// is not the one that belongs to it.
func (l *loading) nothingLiesOutside() error {
	names, err := l.root.Names()
	if err != nil {
		return refuseFile(".", err)
	}
	registered := map[string]bool{JournalFile: true}
	for _, a := range l.attempts {
		registered[a.entry.Name] = true
	}
	for _, name := range names {
		if registered[name] {
			continue
		}
		if strings.HasPrefix(name, "preflight-") && !isCleanupDirectory(name) && !CreateRecord(name) {
			return refuse(name, "is not a file of this version")
		}
		if err := l.entryIsPrivate(l.root, name, 0); err != nil {
			return err
		}
	}
	return nil
}

// entryIsPrivate judges an entry that no fact rests on, and all below it. It is
// not opened unless it is a directory, and never parsed: a cut-off cleanup must
// not block the next.
func (l *loading) entryIsPrivate(dir durable.Dir, name string, depth int) error {
	file := l.relative(dir, name)
	if CreateRecord(name) {
		return refuse(file, "is a create record outside a registered attempt")
	}
	info, err := dir.Lstat(name)
	if err != nil {
		return refuseFile(file, err)
	}
	if info.Mode.IsDir() {
		return l.directoryIsPrivate(dir, name, depth+1)
	}
	if isCleanupDirectory(name) {
		return refuse(file, "is not a directory")
	}
	if err := durable.CheckPrivateFile(dir, name, math.MaxInt64); err != nil {
		return refuseFile(file, err)
	}
	return nil
}

func (l *loading) directoryIsPrivate(parent durable.Dir, name string, depth int) error {
	file := l.relative(parent, name)
	if depth > maxDepth {
		return refuse(file, "is nested deeper than %d directories", maxDepth)
	}
	dir, err := parent.OpenDir(name)
	if err != nil {
		return refuseFile(file, err)
	}
	// Only read through: a failing close loses nothing.
	defer func() { _ = dir.Close() }()
	if _, err := durable.CheckPrivateDirectory(dir); err != nil {
		return refuseFile(file, err)
	}
	names, err := dir.Names()
	if err != nil {
		return refuseFile(file, err)
	}
	for _, entry := range names {
		if err := l.entryIsPrivate(dir, entry, depth); err != nil {
			return err
		}
	}
	return nil
}

// findCreateRecord returns the absolute path of a create record anywhere below
// dir, or "". Where it cannot look it is an error, since nothing can be said of
// what it did not see.
func findCreateRecord(dir durable.Dir, depth int) (found string, err error) {
	if depth > maxDepth {
		return found, errors.New("directories are nested too deep")
	}
	names, err := dir.Names()
	if err != nil {
		return found, err
	}
	for _, name := range names {
		if CreateRecord(name) {
			return path.Join(dir.Path(), name), nil
		}
		info, err := dir.Lstat(name)
		if err != nil {
			return found, err
		}
		if !info.Mode.IsDir() {
			continue
		}
		if found, err = findBelow(dir, name, depth); found != "" || err != nil {
			return found, err
		}
	}
	return found, nil
}

func findBelow(parent durable.Dir, name string, depth int) (found string, err error) {
	dir, err := parent.OpenDir(name)
	if err != nil {
		return found, err
	}
	defer func() { _ = dir.Close() }()
	return findCreateRecord(dir, depth+1)
}
