package durable

import (
	"errors"
	"fmt"
)

// ErrFileSystem says that a file system does not promise what publication
// needs: that fsync reaches a disk, that link never lies, that a lock excludes
// every other process.
var ErrFileSystem = errors.New("is not on a local, persistent file system")

// Acceptable judges a file system by the name that Dir.FileSystem gave, and
// allowed, the name that the operator accepts, or "" (A1.2). The warning is for
// the operator; the error matches ErrFileSystem.
func Acceptable(name, allowed string) (warning string, err error) {
	switch {
	case refusedFileSystem(name) && name == alias(allowed):
		return fmt.Sprintf("the evidence lies on %s by --allow-filesystem: its fsync, link and lock are not trusted otherwise", name), nil
	case refusedFileSystem(name):
		return "", fmt.Errorf("%w but on %s; choose another directory, or accept the risk with --allow-filesystem=%s", ErrFileSystem, name, name)
	case name == "overlay":
		return "the evidence lies on an overlay file system: it is lost with its container", nil
	}
	return "", nil
}

// refusedFileSystem reports whether name is remote, in memory, or served by a
// program that may promise anything.
func refusedFileSystem(name string) bool {
	switch name {
	case "nfs", "smb", "fuse", "9p", "tmpfs", "ramfs", "afs", "ceph", "lustre", "coda", "ncp":
		return true
	}
	return false
}

// alias translates what mount(8) calls a type into what statfs can tell.
func alias(name string) string {
	switch name {
	case "virtiofs":
		return "fuse"
	case "nfs4":
		return "nfs"
	case "cifs", "smb3":
		return "smb"
	}
	return name
}
