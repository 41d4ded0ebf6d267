package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// OS returns the real file system.
//
// Descriptors are plain numbers and not *os.File: those are closed when the
// garbage collector finds them unused, and with the evidence directory's
// descriptor its lock would go (A1.2).
func OS() FS { return osFS{write: unix.Write} }

// Inputs returns the real file system for what an operator gives a command: as
// OS, but a name below a directory may be a mount of its own, as a file is that a
// container is given alone. In the evidence such a mount would be somebody else's
// file in the place of ours.
func Inputs() FS { return osFS{write: unix.Write, mounts: true} }

// osFS is the Linux form. noOpenat2 makes it resolve paths as on a kernel
// before 5.6; mounts lets a name be a mount of its own; write is write(2), which
// may write less than it is given.
type osFS struct {
	noOpenat2, mounts bool
	write             func(fd int, p []byte) (int, error)
}

// withinDirectory is how a name below a directory is resolved: no link of any
// kind, not above, not into another mount.
const withinDirectory = unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS |
	unix.RESOLVE_BENEATH | unix.RESOLVE_NO_XDEV

const alwaysFlags = unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC

// Open opens the directory at path.
func (f osFS) Open(path string) (Dir, error) {
	path, err := absolute(path)
	if err != nil {
		return nil, err
	}
	fd, err := f.openPath(path)
	if err != nil {
		return nil, explainDirectory(path, err)
	}
	return &osDir{fs: f, fd: fd, path: path}, nil
}

// absolute joins a relative path to the physical working directory. The one in
// $PWD, which filepath.Abs prefers, may lead through links.
func absolute(path string) (string, error) {
	if filepath.IsAbs(path) {
		return filepath.Clean(path), nil
	}
	cwd, err := unix.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the working directory: %w", err)
	}
	return filepath.Join(cwd, path), nil
}

func (f osFS) openPath(path string) (int, error) {
	if !f.noOpenat2 {
		how := unix.OpenHow{
			Flags:   unix.O_RDONLY | unix.O_DIRECTORY | alwaysFlags,
			Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
		}
		fd, err := retry(func() (int, error) { return unix.Openat2(unix.AT_FDCWD, path, &how) })
		if !unsupported(err) {
			return fd, err
		}
	}
	fd, err := retry(func() (int, error) {
		return unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY|alwaysFlags, 0)
	})
	for _, component := range strings.Split(strings.Trim(path, "/"), "/") {
		if err != nil || component == "" {
			break
		}
		parent := fd
		fd, err = retry(func() (int, error) {
			return unix.Openat(parent, component, unix.O_RDONLY|unix.O_DIRECTORY|alwaysFlags, 0)
		})
		_ = unix.Close(parent)
	}
	return fd, err
}

// openat opens a single component below dir.
func (f osFS) openat(dir int, name string, flags int, perm uint32) (int, error) {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return -1, ErrName
	}
	flags |= alwaysFlags
	if !f.noOpenat2 {
		how := unix.OpenHow{Flags: uint64(flags), Mode: uint64(perm), Resolve: withinDirectory}
		if f.mounts {
			how.Resolve &^= unix.RESOLVE_NO_XDEV
		}
		fd, err := retry(func() (int, error) { return unix.Openat2(dir, name, &how) })
		if !unsupported(err) {
			return fd, err
		}
	}
	fd, err := retry(func() (int, error) { return unix.Openat(dir, name, flags, perm) })
	if err != nil {
		return -1, err
	}
	if err := sameDevice(dir, fd); err != nil && !f.mounts {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// sameDevice is NO_XDEV without openat2. It judges directories alone: files of
// an overlay have the device of the layer that they come from.
func sameDevice(parent, child int) error {
	var above, below unix.Stat_t
	if err := errors.Join(unix.Fstat(parent, &above), unix.Fstat(child, &below)); err != nil {
		return err
	}
	if below.Mode&unix.S_IFMT == unix.S_IFDIR && above.Dev != below.Dev {
		return unix.EXDEV
	}
	return nil
}

// unsupported reports whether openat2 does not exist, or a seccomp filter that
// does not know it says no.
func unsupported(err error) bool {
	return errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM)
}

// retry repeats a call that a signal interrupted before it did anything.
func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// explain turns what the kernel says into this package's errors.
func explain(op, name string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ELOOP):
		err = ErrSymlink
	case errors.Is(err, unix.EXDEV):
		err = ErrCrossDevice
	case errors.Is(err, unix.ENXIO):
		err = ErrNotRegular // a socket, or a FIFO opened for writing
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// explainDirectory adds what openat alone says of a link where a directory
// should be: without openat2 that is ENOTDIR.
func explainDirectory(path string, err error) error {
	if errors.Is(err, unix.ENOTDIR) {
		var stat unix.Stat_t
		if unix.Lstat(path, &stat) == nil && stat.Mode&unix.S_IFMT == unix.S_IFLNK {
			err = unix.ELOOP
		} else if real, linkErr := filepath.EvalSymlinks(path); linkErr == nil && real != path {
			err = unix.ELOOP
		} else {
			err = ErrNotDirectory
		}
	}
	if errors.Is(err, unix.ELOOP) {
		if real, linkErr := filepath.EvalSymlinks(path); linkErr == nil {
			err = fmt.Errorf("%w; its real path is %s", ErrSymlink, real)
		}
	}
	return explain("opening", path, err)
}

// names reads all entries of an opened directory, sorted.
func names(fd int) ([]string, error) {
	if _, err := unix.Seek(fd, 0, unix.SEEK_SET); err != nil {
		return nil, err
	}
	var found []string
	buffer := make([]byte, 32<<10)
	for {
		n, err := retry(func() (int, error) { return unix.ReadDirent(fd, buffer) })
		if err != nil {
			return nil, err
		}
		if n <= 0 {
			slices.Sort(found)
			return found, nil
		}
		_, _, found = unix.ParseDirent(buffer[:n], -1, found)
	}
}
