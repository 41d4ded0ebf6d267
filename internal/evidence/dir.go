package evidence

import (
	"errors"

	"github.com/holdfast-project/holdfast/internal/durable"
)

// Dir is an opened evidence directory whose lock this process holds. It must
// stay referenced for as long as the lock is needed.
type Dir struct {
	root durable.Dir
}

// Open opens the evidence directory at path without following a link, and
// takes its lock before anything in it is read (A1.2). Every error is a
// *Refusal; a lock held elsewhere also matches durable.ErrLocked.
func Open(fs durable.FS, path string) (*Dir, error) {
	root, err := fs.Open(path)
	if err != nil {
		return nil, refuseBecause(".", err)
	}
	if err := root.Lock(); err != nil {
		_ = root.Close()
		if errors.Is(err, durable.ErrLocked) {
			return nil, &Refusal{File: ".", Reason: "is in use: another process holds this evidence", Err: err}
		}
		return nil, refuseBecause(".", err)
	}
	return &Dir{root: root}, nil
}

// Hold wraps a directory whose lock the caller has already taken: the run's
// own, which it made itself.
func Hold(root durable.Dir) *Dir { return &Dir{root: root} }

// Root is the directory itself, for the packages that write beside the
// evidence.
func (d *Dir) Root() durable.Dir { return d.root }

// Close gives up the lock.
func (d *Dir) Close() error { return d.root.Close() }
