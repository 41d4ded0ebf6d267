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
		Links:  uint64(stat.Nlink), //nolint:unconvert // 32 bits wide on arm64
		Inode:  stat.Ino,
		Device: stat.Dev,
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
	known := map[uint32]string{
		unix.EXT4_SUPER_MAGIC:      "ext4",
		unix.XFS_SUPER_MAGIC:       "xfs",
		unix.BTRFS_SUPER_MAGIC:     "btrfs",
		unix.F2FS_SUPER_MAGIC:      "f2fs",
		0x2fc12fc1:                 "zfs",
		unix.OVERLAYFS_SUPER_MAGIC: "overlay",
		unix.NFS_SUPER_MAGIC:       "nfs",
		unix.SMB_SUPER_MAGIC:       "smb",
		unix.CIFS_SUPER_MAGIC:      "smb",
		unix.SMB2_SUPER_MAGIC:      "smb",
		unix.FUSE_SUPER_MAGIC:      "fuse",
		unix.V9FS_MAGIC:            "9p",
		unix.TMPFS_MAGIC:           "tmpfs",
		unix.RAMFS_MAGIC:           "ramfs",
		unix.AFS_SUPER_MAGIC:       "afs",
		unix.AFS_FS_MAGIC:          "afs",
		unix.CEPH_SUPER_MAGIC:      "ceph",
		0x0bd00bd0:                 "lustre",
		unix.CODA_SUPER_MAGIC:      "coda",
		unix.NCP_SUPER_MAGIC:       "ncp",
	}
	if name, ok := known[magic]; ok {
		return name
	}
	return fmt.Sprintf("0x%08x", magic)
}
