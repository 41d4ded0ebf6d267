package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// ReadPrivate reads a file of at most maxBytes bytes that nobody else can have
// written to: a regular file of ours without a permission for group or others,
// and without a hard link but its own staging link (A2.2). It opens the name
// once, without following a link and without waiting, judges what the
// descriptor is, reads it, and fsyncs it on that same descriptor: what was read
// is then also what a power cut leaves (A5.10).
//
// An error matches one of this package's sentinels, or fs.ErrNotExist.
func ReadPrivate(dir Dir, name string, maxBytes int64) ([]byte, Info, error) {
	file, err := dir.Open(name)
	if err != nil {
		return nil, Info{}, err
	}
	data, info, err := readPrivate(dir, file, name, maxBytes)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, info, err
	}
	return data, info, nil
}

func readPrivate(dir Dir, file File, name string, maxBytes int64) ([]byte, Info, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, Info{}, err
	}
	if err := checkPrivateFile(dir, name, info, maxBytes); err != nil {
		return nil, info, err
	}
	// One byte more than allowed is asked for, so that a file that grows
	// between fstat and read is refused and not cut.
	data, err := io.ReadAll(io.LimitReader(file, maxBytes+1))
	if err != nil {
		return nil, info, fmt.Errorf("cannot be read: %w", err)
	}
	if int64(len(data)) > maxBytes {
		return nil, info, tooBig(maxBytes)
	}
	if err := file.Sync(); err != nil {
		return nil, info, fmt.Errorf("cannot be made durable: %w", err)
	}
	return data, info, nil
}

// CheckPrivateFile judges an entry by lstat, for files whose content is not
// read.
func CheckPrivateFile(dir Dir, name string, maxBytes int64) error {
	info, err := dir.Lstat(name)
	if err != nil {
		return err
	}
	return checkPrivateFile(dir, name, info, maxBytes)
}

func checkPrivateFile(dir Dir, name string, info Info, maxBytes int64) error {
	switch {
	case info.Mode&fs.ModeSymlink != 0:
		return ErrSymlink
	case !info.Mode.IsRegular():
		return ErrNotRegular
	}
	if err := checkOwner(info, dir.Owner()); err != nil {
		return err
	}
	if info.Size > maxBytes {
		return tooBig(maxBytes)
	}
	return checkLinks(dir, name, info)
}

// checkLinks accepts one link, or two when one is the staging link that an
// interrupted publication left for the other (A2.2). Any other link is
// somebody's way to write to the file.
func checkLinks(dir Dir, name string, info Info) error {
	switch info.Links {
	case 1:
		return nil
	case 2:
		partner, isStaging := FinalName(name)
		if !isStaging {
			partner = stagingName(name)
		}
		other, err := dir.Lstat(partner)
		if errors.Is(err, fs.ErrNotExist) {
			return ErrLinks
		}
		if err != nil {
			return err
		}
		if other.SameInode(info) {
			return nil
		}
	}
	return ErrLinks
}

// CheckPrivateDirectory judges an opened directory by its descriptor: ours, closed
// to everybody else.
func CheckPrivateDirectory(dir Dir) (Info, error) {
	info, err := dir.Stat()
	if err != nil {
		return Info{}, err
	}
	if !info.Mode.IsDir() {
		return info, ErrNotDirectory
	}
	return info, checkOwner(info, dir.Owner())
}

func checkOwner(info Info, uid uint32) error {
	if info.UID != uid {
		return fmt.Errorf("%w (uid %d)", ErrOwner, info.UID)
	}
	if info.Mode.Perm()&0o077 != 0 {
		return fmt.Errorf("%w (mode %04o)", ErrMode, info.Mode.Perm())
	}
	return nil
}

func tooBig(maxBytes int64) error {
	return fmt.Errorf("%w of %d bytes", ErrTooBig, maxBytes)
}
