package durable

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// statDescriptor describes what is opened as fd, with its time of birth where
// the kernel and the file system know one.
func statDescriptor(fd int) (Info, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return Info{}, err
	}
	info := infoOf(&stat)
	var extended unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &extended)
	switch {
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
		return info, nil
	case err != nil:
		return Info{}, err
	}
	if extended.Mask&unix.STATX_BTIME != 0 {
		info.BirthTime = extended.Btime.Sec*1e9 + int64(extended.Btime.Nsec)
	}
	return info, nil
}

func infoOf(stat *unix.Stat_t) Info {
	return Info{
		Mode:   modeOf(stat.Mode),
		UID:    stat.Uid,
		Links:  uint64(stat.Nlink),
		Inode:  stat.Ino,
		Device: uint64(stat.Dev),
		Size:   stat.Size,
	}
}

func modeOf(mode uint32) fs.FileMode {
	out := fs.FileMode(mode & 0o777)
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		out |= fs.ModeDir
	case unix.S_IFLNK:
		out |= fs.ModeSymlink
	case unix.S_IFIFO:
		out |= fs.ModeNamedPipe
	case unix.S_IFSOCK:
		out |= fs.ModeSocket
	case unix.S_IFCHR:
		out |= fs.ModeDevice | fs.ModeCharDevice
	case unix.S_IFBLK:
		out |= fs.ModeDevice
	default:
		out |= fs.ModeIrregular
	}
	return out
}

// fileSystemName translates the magic numbers of statfs(2). A type that is not
// listed is named by its number, and is neither refused nor warned about.
func fileSystemName(magic uint32) string {
	switch magic {
	case unix.EXT4_SUPER_MAGIC:
		return "ext4"
	case unix.XFS_SUPER_MAGIC:
		return "xfs"
	case unix.BTRFS_SUPER_MAGIC:
		return "btrfs"
	case unix.F2FS_SUPER_MAGIC:
		return "f2fs"
	case 0x2fc12fc1:
		return "zfs"
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "overlay"
	}
	return refusedName(magic)
}

// refusedName names the types that Acceptable refuses.
func refusedName(magic uint32) string {
	switch magic {
	case unix.NFS_SUPER_MAGIC:
		return "nfs"
	case unix.SMB_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC:
		return "smb"
	case unix.FUSE_SUPER_MAGIC:
		return "fuse"
	case unix.V9FS_MAGIC:
		return "9p"
	case unix.TMPFS_MAGIC:
		return "tmpfs"
	case unix.RAMFS_MAGIC:
		return "ramfs"
	case unix.AFS_SUPER_MAGIC, unix.AFS_FS_MAGIC:
		return "afs"
	case unix.CEPH_SUPER_MAGIC:
		return "ceph"
	case 0x0bd00bd0:
		return "lustre"
	case unix.CODA_SUPER_MAGIC:
		return "coda"
	case unix.NCP_SUPER_MAGIC:
		return "ncp"
	}
	return fmt.Sprintf("0x%08x", magic)
}
