// Package durable publishes small files so that a crash at any instruction
// leaves either the whole fact or none, and reads them back without trusting
// a name.
//
// Its invariant: when [Publish] or [Replace] has returned nil, the content and
// the directory entry are on the disk; when it has returned an error, nothing
// is known, nothing is tried again, and the caller must not carry out the
// action that the fact was to precede (A2.4).
//
// It knows no file name, no record and no rule of the evidence, and imports
// nothing of this repository and nothing of Kubernetes. The file system stands
// behind [FS], [Dir] and [File], so that the tests can record the order of
// operations, fail any of them and stop at any of them.
package durable

import (
	"errors"
	"io"
	"io/fs"
	"strings"
)

// Errors that a caller must tell apart. Each is wrapped with the name it is
// about.
var (
	// ErrLocked says that another open file description holds the lock.
	ErrLocked = errors.New("locked by another process")
	// ErrSymlink says that a component of the path is a symbolic link.
	ErrSymlink = errors.New("is reached through a symbolic link")
	// ErrCrossDevice says that a name below the directory is another mount.
	ErrCrossDevice = errors.New("is on another mounted file system")
	// ErrNotRegular says that the name is a directory, FIFO, socket or device.
	ErrNotRegular = errors.New("is not a regular file")
	// ErrNotDirectory says that the name is something else than a directory.
	ErrNotDirectory = errors.New("is not a directory")
	// ErrOwner says that another user owns it.
	ErrOwner = errors.New("is owned by another user")
	// ErrMode says that group or others have a permission on it.
	ErrMode = errors.New("is open to group or others")
	// ErrLinks says that it has a hard link that publication does not explain.
	ErrLinks = errors.New("has a hard link that is not its staging link")
	// ErrTooBig says that it is larger than its kind of file may be.
	ErrTooBig = errors.New("is larger than its bound")
	// ErrName says that a name is not a single path component.
	ErrName = errors.New("is not a single file name")
)

// FS opens directories by path. Everything below one goes through its [Dir].
type FS interface {
	// Open opens the existing directory at path. No component may be a
	// symbolic link (ErrSymlink); a relative path begins at the physical
	// working directory. Nothing is judged but that it is a directory.
	Open(path string) (Dir, error)
}

// Dir is an opened directory. Its names are single components, resolved
// relative to the descriptor, never through a link and never into another
// mount: what a path means may change, what a descriptor means does not.
type Dir interface {
	// Path is the absolute path without links under which it was opened.
	Path() string
	// Owner is the effective user of this process, who must own whatever is
	// private.
	Owner() uint32
	// MakeDir makes a directory with mode 0700, which must not exist, and
	// opens it. Its entry is durable only after Sync of this directory.
	MakeDir(name string) (Dir, error)
	// OpenDir opens a directory below this one.
	OpenDir(name string) (Dir, error)
	// Create makes a file that must not exist and opens it for writing.
	Create(name string, perm fs.FileMode) (File, error)
	// Open opens an existing name for reading. It does not wait for a FIFO's
	// writer; the caller judges by Stat what was opened.
	Open(name string) (File, error)
	// Link gives the file old the further name new, which must not exist.
	Link(old, new string) error
	// Rename moves old over new, whether or not new exists.
	Rename(old, new string) error
	// Remove unlinks a file.
	Remove(name string) error
	// Names lists all entries but "." and "..", sorted.
	Names() ([]string, error)
	// Stat describes the directory itself, by its descriptor.
	Stat() (Info, error)
	// Lstat describes an entry, not what it links to.
	Lstat(name string) (Info, error)
	// FileSystem names the type that the directory lies on, as [Acceptable]
	// takes it.
	FileSystem() (string, error)
	// Sync makes all changed entries of this directory durable.
	Sync() error
	// Lock takes an exclusive lock without waiting (ErrLocked). It is held by
	// this very descriptor until Close or the end of the process, and no child
	// inherits it (A1.2).
	Lock() error
	// Close gives up the descriptor, and with it the lock.
	Close() error
}

// File is an opened file, for reading or for writing, never both.
type File interface {
	io.Reader
	io.Writer
	// Sync makes the content durable, not the entry that names it.
	Sync() error
	// Stat describes the file by its descriptor.
	Stat() (Info, error)
	// Close gives up the descriptor; its error counts like that of a write.
	Close() error
}

// Info is what fstat and statx tell about an inode.
type Info struct {
	// Mode holds type and permission bits as io/fs does.
	Mode fs.FileMode
	// UID is the owner.
	UID uint32
	// Links counts the hard links.
	Links uint64
	// Inode and Device name the inode while the machine runs; the device may
	// be another number after a reboot.
	Inode, Device uint64
	// Size is the content's length in bytes.
	Size int64
	// BirthTime is when the inode was made, in nanoseconds since the epoch;
	// zero where the file system does not keep it.
	BirthTime int64
}

// SameInode reports whether both describe one inode.
func (i Info) SameInode(other Info) bool {
	return i.Inode == other.Inode && i.Device == other.Device
}

// stagingName is the name under which a file is written before it gets its
// final one (A2.1).
func stagingName(name string) string { return stagingPrefix + name + stagingSuffix }

// FinalName is the name for which staging is the staging name; false when it is
// no staging name.
func FinalName(staging string) (string, bool) {
	name, prefixed := strings.CutPrefix(staging, stagingPrefix)
	name, suffixed := strings.CutSuffix(name, stagingSuffix)
	return name, prefixed && suffixed && name != ""
}

const (
	stagingPrefix = "."
	stagingSuffix = ".staging"
)
