package evidence

import (
	"errors"
	"fmt"
	"io/fs"

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
func Open(disk durable.FS, path string) (*Dir, error) {
	root, err := disk.Open(path)
	if err != nil {
		return nil, refuseOpening(path, err)
	}
	if err := root.Lock(); err != nil {
		_ = root.Close()
		return nil, refuseOpening(path, err)
	}
	return &Dir{root: root}, nil
}

// refuseOpening names the path, since nothing else on the screen does yet.
func refuseOpening(path string, err error) error {
	reason := withoutPath(err)
	switch {
	case errors.Is(reason, durable.ErrLocked):
		reason = errors.New("is in use: another process holds this evidence; wait for it, or end it and settle what it has sent")
	case errors.Is(reason, fs.ErrNotExist):
		reason = errors.New("does not exist")
	case !known(reason) && !errors.Is(reason, durable.ErrSymlink):
		reason = fmt.Errorf("cannot be opened: %w", reason)
	}
	return &Refusal{File: ".", Reason: path + " " + reason.Error(), Err: err}
}

// Hold wraps a directory whose lock the caller has already taken: the run's
// own, which it made itself.
func Hold(root durable.Dir) *Dir { return &Dir{root: root} }

// Root is the directory itself, for the packages that write beside the
// evidence.
func (d *Dir) Root() durable.Dir { return d.root }

// Close gives up the lock.
func (d *Dir) Close() error { return d.root.Close() }
