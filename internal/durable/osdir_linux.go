package durable

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// osDir is an opened directory.
type osDir struct {
	fs   osFS
	fd   int
	path string
}

func (d *osDir) Path() string { return d.path }

func (d *osDir) Owner() uint32 { return uint32(unix.Geteuid()) }

func (d *osDir) MakeDir(name string) (Dir, error) {
	if err := unix.Mkdirat(d.fd, name, 0o700); err != nil {
		return nil, explain("making directory", filepath.Join(d.path, name), err)
	}
	return d.OpenDir(name)
}

func (d *osDir) OpenDir(name string) (Dir, error) {
	path := filepath.Join(d.path, name)
	fd, err := d.fs.openat(d.fd, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if errors.Is(err, unix.ENOTDIR) {
		err = ErrNotDirectory
		// The kernel says the same of a link, and a reader deserves to know.
		if info, lstatErr := d.Lstat(name); lstatErr == nil && info.Mode&fs.ModeSymlink != 0 {
			err = ErrSymlink
		}
	}
	if err != nil {
		return nil, explain("opening", path, err)
	}
	return &osDir{fs: d.fs, fd: fd, path: path}, nil
}

func (d *osDir) Create(name string, perm fs.FileMode) (File, error) {
	return d.open("creating", name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, uint32(perm.Perm()))
}

func (d *osDir) Open(name string) (File, error) {
	return d.open("opening", name, unix.O_RDONLY, 0)
}

func (d *osDir) open(op, name string, flags int, perm uint32) (File, error) {
	path := filepath.Join(d.path, name)
	fd, err := d.fs.openat(d.fd, name, flags, perm)
	if err != nil {
		return nil, explain(op, path, err)
	}
	return &osFile{fd: fd, path: path, write: d.fs.write}, nil
}

func (d *osDir) Link(old, new string) error {
	return explain("linking", filepath.Join(d.path, new), unix.Linkat(d.fd, old, d.fd, new, 0))
}

func (d *osDir) Rename(old, new string) error {
	return explain("renaming to", filepath.Join(d.path, new), unix.Renameat(d.fd, old, d.fd, new))
}

func (d *osDir) Remove(name string) error {
	return explain("removing", filepath.Join(d.path, name), unix.Unlinkat(d.fd, name, 0))
}

func (d *osDir) Names() ([]string, error) {
	found, err := names(d.fd)
	return found, explain("listing", d.path, err)
}

func (d *osDir) Stat() (Info, error) {
	info, err := statDescriptor(d.fd)
	return info, explain("examining", d.path, err)
}

func (d *osDir) Lstat(name string) (Info, error) {
	var stat unix.Stat_t
	err := unix.Fstatat(d.fd, name, &stat, unix.AT_SYMLINK_NOFOLLOW)
	return infoOf(&stat), explain("examining", filepath.Join(d.path, name), err)
}

// Sync is called once and believed: an fsync that fails has already lost what
// it was to save, and the next one may say nothing of it (A2.4).
func (d *osDir) Sync() error { return explain("syncing", d.path, unix.Fsync(d.fd)) }

func (d *osDir) Lock() error {
	err := unix.Flock(d.fd, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrLocked
	}
	return explain("locking", d.path, err)
}

func (d *osDir) Close() error { return explain("closing", d.path, unix.Close(d.fd)) }

// FileSystem names the type by its magic number. virtiofs has that of FUSE.
func (d *osDir) FileSystem() (string, error) {
	var stat unix.Statfs_t
	if err := unix.Fstatfs(d.fd, &stat); err != nil {
		return "", explain("examining the file system of", d.path, err)
	}
	return fileSystemName(uint32(stat.Type)), nil
}

// osFile is an opened file.
type osFile struct {
	fd    int
	path  string
	write func(fd int, p []byte) (int, error)
}

func (f *osFile) Read(p []byte) (int, error) {
	n, err := retry(func() (int, error) { return unix.Read(f.fd, p) })
	switch {
	case err != nil:
		return 0, explain("reading", f.path, err)
	case n == 0 && len(p) > 0:
		return 0, io.EOF
	}
	return n, nil
}

// Write writes all of p: a short write is continued, and the error that stopped
// it is what the next call says.
func (f *osFile) Write(p []byte) (int, error) {
	written := 0
	for written < len(p) {
		n, err := retry(func() (int, error) { return f.write(f.fd, p[written:]) })
		if err == nil && n == 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return written, explain("writing", f.path, err)
		}
		written += n
	}
	return written, nil
}

func (f *osFile) Sync() error { return explain("syncing", f.path, unix.Fsync(f.fd)) }

func (f *osFile) Stat() (Info, error) {
	info, err := statDescriptor(f.fd)
	return info, explain("examining", f.path, err)
}

func (f *osFile) Close() error { return explain("closing", f.path, unix.Close(f.fd)) }
