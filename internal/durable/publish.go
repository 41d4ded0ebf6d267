package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// private is the mode of every file but the retained executable (A1.1).
const private fs.FileMode = 0o600

// Publish writes a write-once file of mode 0600 (A2.1). An error that matches
// fs.ErrExist says that the name, or its staging name, is taken; every error is
// final for the caller, whatever has become visible of the file.
func Publish(dir Dir, name string, data []byte) error {
	return PublishFrom(dir, name, private, bytes.NewReader(data))
}

// PublishFrom is Publish for content that is too large to hold: it copies src
// to its end, and publishes nothing if src fails.
//
// The final name comes by link, since link never replaces what is there; rename
// would. It comes after the content's fsync, or a crash could leave the name of
// a fact without the fact. The staging name is kept until the directory's fsync
// has returned: taking it away is tidiness, and must not share a crash with the
// fact.
func PublishFrom(dir Dir, name string, perm fs.FileMode, src io.Reader) error {
	staging := stagingName(name)
	if err := stage(dir, staging, perm, src); err != nil {
		return fmt.Errorf("publishing %s: %w", name, err)
	}
	if err := dir.Link(staging, name); err != nil {
		return fmt.Errorf("publishing %s: %w", name, err)
	}
	if err := dir.Sync(); err != nil {
		return fmt.Errorf("publishing %s: %w", name, err)
	}
	// From here on the fact is durable. An error below is still reported: the
	// disk has begun to fail, and nothing more may rest on it.
	if err := dir.Remove(staging); err != nil {
		return fmt.Errorf("publishing %s: %w", name, err)
	}
	if err := dir.Sync(); err != nil {
		return fmt.Errorf("publishing %s: %w", name, err)
	}
	return nil
}

// Replace writes the one kind of file that changes (A2.3). A crash leaves the
// old content or the new one, and perhaps the staging file, which the next
// writer removes with RemoveStaging.
func Replace(dir Dir, name string, data []byte) error {
	staging := stagingName(name)
	if err := stage(dir, staging, private, bytes.NewReader(data)); err != nil {
		return fmt.Errorf("replacing %s: %w", name, err)
	}
	if err := dir.Rename(staging, name); err != nil {
		return fmt.Errorf("replacing %s: %w", name, err)
	}
	if err := dir.Sync(); err != nil {
		return fmt.Errorf("replacing %s: %w", name, err)
	}
	return nil
}

// RemoveStaging removes the staging file that an interrupted writer left for
// name, if there is one. The caller holds the lock and knows that name itself
// does not need it. The removal is durable on return, so that the next staging
// file cannot share a crash with the old one.
func RemoveStaging(dir Dir, name string) error {
	err := dir.Remove(stagingName(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = dir.Sync()
	}
	if err != nil {
		return fmt.Errorf("removing the left-over staging file of %s: %w", name, err)
	}
	return nil
}

// stage writes and fsyncs a new file. A close that fails after a good fsync is
// an error as well: some file systems report a lost write there alone.
func stage(dir Dir, name string, perm fs.FileMode, src io.Reader) error {
	file, err := dir.Create(name, perm)
	if err != nil {
		return err
	}
	if err := copyAndSync(file, src); err != nil {
		// The first error is what the caller needs; the file is nothing.
		_ = file.Close()
		return err
	}
	return file.Close()
}

func copyAndSync(file File, src io.Reader) error {
	if _, err := io.Copy(onlyWriter{file}, src); err != nil {
		return err
	}
	return file.Sync()
}

// onlyWriter hides every method but Write, so that io.Copy takes no short cut
// past the seam.
type onlyWriter struct{ io.Writer }
