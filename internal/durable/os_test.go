package durable

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// both runs a test with openat2 and as on a kernel without it.
func both(t *testing.T, test func(t *testing.T, disk FS)) {
	t.Run("openat2", func(t *testing.T) { test(t, OS()) })
	t.Run("openat", func(t *testing.T) { test(t, osFS{noOpenat2: true, write: unix.Write}) })
}

// physical is a temporary directory's path without links.
func physical(t *testing.T) string {
	t.Helper()
	path, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t *testing.T, disk FS, path string) Dir {
	t.Helper()
	dir, err := disk.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A1.1, A5.7: whatever is not a private regular file is refused, by what it is
// and without waiting for anything.
func TestA5_7_HostileFiles(t *testing.T) {
	regular := func(path string) error { return os.WriteFile(path, []byte("x"), 0o600) }
	for _, test := range []struct {
		name string
		make func(path string) error
		want error
	}{
		{"symbolic link", func(p string) error { return errors.Join(regular(p+".to"), os.Symlink(p+".to", p)) }, ErrSymlink},
		{"dangling link", func(p string) error { return os.Symlink("/nowhere", p) }, ErrSymlink},
		{"magic link", func(p string) error { return os.Symlink("/proc/self/exe", p) }, ErrSymlink},
		{"FIFO", func(p string) error { return unix.Mkfifo(p, 0o600) }, ErrNotRegular},
		{"socket", listen, ErrNotRegular},
		{"device", func(p string) error { return unix.Mknod(p, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))) }, ErrNotRegular},
		{"directory", func(p string) error { return os.Mkdir(p, 0o700) }, ErrNotRegular},
		{"group", func(p string) error { return errors.Join(regular(p), os.Chmod(p, 0o640)) }, ErrMode},
		{"others", func(p string) error { return errors.Join(regular(p), os.Chmod(p, 0o601)) }, ErrMode},
		{"owner", func(p string) error { return errors.Join(regular(p), os.Chown(p, 12345, -1)) }, ErrOwner},
		{"hard link", func(p string) error { return errors.Join(regular(p), os.Link(p, p+".more")) }, ErrLinks},
		{"three links", func(p string) error {
			dir, name := filepath.Split(p)
			return errors.Join(regular(p), os.Link(p, p+".more"), os.Link(p, dir+stagingName(name)))
		}, ErrLinks},
		{"a link beside another staging file", func(p string) error {
			dir, name := filepath.Split(p)
			return errors.Join(regular(p), os.Link(p, p+".more"), regular(dir+stagingName(name)))
		}, ErrLinks},
		{"sparse", func(p string) error { return errors.Join(regular(p), os.Truncate(p, 1<<40)) }, ErrTooBig},
		{"absent", func(string) error { return nil }, fs.ErrNotExist},
	} {
		t.Run(test.name, func(t *testing.T) {
			both(t, func(t *testing.T, disk FS) {
				path := physical(t)
				switch err := test.make(filepath.Join(path, "record")); {
				case errors.Is(err, fs.ErrPermission):
					skipWithoutRoot(t, err)
				case err != nil:
					t.Fatal(err)
				}
				data, _, err := ReadPrivate(open(t, disk, path), "record", 1024)
				if !errors.Is(err, test.want) || data != nil {
					t.Errorf("got %q and %v, want %v", data, err, test.want)
				}
			})
		})
	}
}

// skipWithoutRoot skips what only root can make, and fails where HOLDFAST_ROOT says
// that everything can be made, so that nothing is left out unseen (.ci/nightly).
func skipWithoutRoot(t *testing.T, err error) {
	t.Helper()
	if os.Getenv("HOLDFAST_ROOT") != "" {
		t.Fatalf("HOLDFAST_ROOT is set, and it cannot be made: %v", err)
	}
	t.Skipf("only root can make it: %v", err)
}

// listen leaves a socket at path.
func listen(path string) error {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false)
	return l.Close()
}

// A1.1: no name leads out of the directory, up, through a link or into another
// mount.
func TestA1_1_NamesStayInside(t *testing.T) {
	both(t, func(t *testing.T, disk FS) {
		path := physical(t)
		must(t, os.Mkdir(filepath.Join(path, "inside"), 0o700))
		must(t, os.WriteFile(filepath.Join(path, "secret"), nil, 0o600))
		must(t, os.Symlink("..", filepath.Join(path, "inside", "up")))
		dir := open(t, disk, filepath.Join(path, "inside"))
		for _, name := range []string{"", ".", "..", "../secret", "up/secret", "/etc/passwd", "a\x00b"} {
			if _, err := dir.Open(name); !errors.Is(err, ErrName) {
				t.Errorf("opening %q: %v", name, err)
			}
			if _, err := dir.Create(name, 0o600); !errors.Is(err, ErrName) {
				t.Errorf("creating %q: %v", name, err)
			}
		}
		if _, err := dir.OpenDir("up"); !errors.Is(err, ErrSymlink) {
			t.Errorf("a link in the place of a directory: %v", err)
		}
		if _, err := open(t, disk, "/").OpenDir("proc"); !errors.Is(err, ErrCrossDevice) {
			t.Errorf("another mount was entered: %v", err)
		}
	})
}

// A4.2, A1.1: a kubeconfig that a container is given alone is a mount of its own: an
// input may be one, a file of the evidence may not. Links are refused in both.
func TestA4_2_InputsMayBeMounts(t *testing.T) {
	for _, disk := range []osFS{{mounts: true}, {mounts: true, noOpenat2: true}} {
		if proc, err := open(t, disk, "/").OpenDir("proc"); err != nil {
			t.Errorf("%+v refuses a mount: %v", disk.noOpenat2, err)
		} else {
			must(t, proc.Close())
		}
	}
	path := physical(t)
	must(t, os.WriteFile(filepath.Join(path, "given"), []byte("kubeconfig"), 0o600))
	must(t, os.WriteFile(filepath.Join(path, "place"), nil, 0o600))
	must(t, os.Symlink("given", filepath.Join(path, "link")))
	if _, _, err := ReadPrivate(open(t, Inputs(), path), "link", 64); !errors.Is(err, ErrSymlink) {
		t.Errorf("a link: %v", err)
	}
	if err := unix.Mount(filepath.Join(path, "given"), filepath.Join(path, "place"), "", unix.MS_BIND, ""); err != nil {
		skipWithoutRoot(t, err)
	}
	t.Cleanup(func() { must(t, unix.Unmount(filepath.Join(path, "place"), unix.MNT_DETACH)) })
	if data, _, err := ReadPrivate(open(t, Inputs(), path), "place", 64); err != nil || string(data) != "kubeconfig" {
		t.Errorf("a mounted input reads %q, %v", data, err)
	}
	if _, _, err := ReadPrivate(open(t, OS(), path), "place", 64); !errors.Is(err, ErrCrossDevice) {
		t.Errorf("a mount in the evidence: %v", err)
	}
}

// A5.2: a path through a link is refused, and the sentence names the real one.
func TestA5_2_OpenRefusesLinks(t *testing.T) {
	both(t, func(t *testing.T, disk FS) {
		path := physical(t)
		must(t, os.MkdirAll(filepath.Join(path, "real", "below"), 0o700))
		must(t, os.Symlink("real", filepath.Join(path, "link")))
		must(t, os.WriteFile(filepath.Join(path, "file"), nil, 0o600))
		for _, through := range []string{"link", "link/below"} {
			_, err := disk.Open(filepath.Join(path, through))
			if !errors.Is(err, ErrSymlink) || !strings.Contains(err.Error(), filepath.Join(path, "real")) {
				t.Errorf("%s: %v", through, err)
			}
		}
		if _, err := disk.Open(filepath.Join(path, "none")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a missing directory: %v", err)
		}
		if _, err := disk.Open(filepath.Join(path, "file")); !errors.Is(err, ErrNotDirectory) {
			t.Errorf("a file: %v", err)
		}
		// A relative path begins at the physical working directory, whatever
		// the shell calls it.
		t.Chdir(filepath.Join(path, "link"))
		if got := open(t, disk, "below").Path(); got != filepath.Join(path, "real", "below") {
			t.Errorf("below is %s", got)
		}
	})
}

// A1.2: the lock excludes at once, is held by the validated descriptor through
// collections, is not inherited by a child, and ends with the descriptor.
func TestA1_2_Lock(t *testing.T) {
	path := physical(t)
	holder := open(t, OS(), path)
	must(t, holder.Lock())
	for range 3 {
		runtime.GC()
	}
	second := open(t, OS(), path)
	if err := second.Lock(); !errors.Is(err, ErrLocked) {
		t.Fatalf("a second lock: %v", err)
	}
	child := exec.Command("sleep", "60")
	must(t, child.Start())
	defer func() { _, _ = child.Process.Wait() }()
	defer func() { _ = child.Process.Kill() }()
	must(t, holder.Close())
	if err := second.Lock(); err != nil {
		t.Errorf("the lock outlived its descriptor: %v", err)
	}
}

// A1.2: a file system in memory is told apart from a disk.
func TestA1_2_FileSystemTypes(t *testing.T) {
	var stat unix.Statfs_t
	if unix.Statfs("/dev/shm", &stat) == nil && stat.Type == unix.TMPFS_MAGIC {
		kind, err := open(t, OS(), "/dev/shm").FileSystem()
		if err != nil || kind != "tmpfs" {
			t.Errorf("/dev/shm is %q, %v", kind, err)
		}
	}
	for magic, want := range map[uint32]string{
		unix.NFS_SUPER_MAGIC: "nfs", unix.SMB2_SUPER_MAGIC: "smb", unix.CIFS_SUPER_MAGIC: "smb",
		unix.FUSE_SUPER_MAGIC: "fuse", unix.V9FS_MAGIC: "9p", unix.TMPFS_MAGIC: "tmpfs",
	} {
		name := fileSystemName(magic)
		if name != want {
			t.Errorf("0x%x is %q, not %q", magic, name, want)
		}
		if _, err := Acceptable(name, ""); !errors.Is(err, ErrFileSystem) {
			t.Errorf("%s is accepted: %v", name, err)
		}
		if warning, err := Acceptable(name, name); err != nil || warning == "" {
			t.Errorf("%s, allowed by name: %q, %v", name, warning, err)
		}
		if _, err := Acceptable(name, "xfs"); err == nil {
			t.Errorf("%s is accepted because xfs is", name)
		}
	}
	if _, err := Acceptable("fuse", "virtiofs"); err != nil {
		t.Errorf("virtiofs cannot be allowed: %v", err)
	}
	if warning, err := Acceptable("overlay", ""); err != nil || warning == "" {
		t.Errorf("overlay: %q, %v", warning, err)
	}
	for _, name := range []string{"ext4", "xfs", "btrfs", "0x12345678"} {
		if warning, err := Acceptable(name, ""); err != nil || warning != "" {
			t.Errorf("%s: %q, %v", name, warning, err)
		}
	}
}

// A1.1, A2.1, A2.3: what is published is there once, private, and alone.
func TestA2_1_PublishOnTheRealFileSystem(t *testing.T) {
	both(t, func(t *testing.T, disk FS) {
		path := physical(t)
		dir := open(t, disk, path)
		must(t, Publish(dir, "fact", []byte("one")))
		if err := Publish(dir, "fact", []byte("two")); !errors.Is(err, fs.ErrExist) {
			t.Errorf("a fact was published twice: %v", err)
		}
		must(t, RemoveStaging(dir, "fact"))
		must(t, RemoveStaging(dir, "fact"))
		must(t, Replace(dir, "registry", []byte("one")))
		must(t, Replace(dir, "registry", []byte("two")))
		must(t, PublishFrom(dir, "helper", 0o700, strings.NewReader("bin")))
		sub, err := dir.MakeDir("sub")
		must(t, err)
		must(t, sub.Close())
		if _, err := dir.MakeDir("sub"); !errors.Is(err, fs.ErrExist) {
			t.Errorf("a directory was made twice: %v", err)
		}
		for name, want := range map[string]string{"fact": "one", "registry": "two", "helper": "bin"} {
			data, info, err := ReadPrivate(dir, name, 16)
			if err != nil || string(data) != want || info.Links != 1 {
				t.Errorf("%s reads %q, %+v, %v", name, data, info, err)
			}
		}
		for name, mode := range map[string]fs.FileMode{"fact": 0o600, "helper": 0o700, "sub": fs.ModeDir | 0o700} {
			if info, err := dir.Lstat(name); err != nil || info.Mode != mode {
				t.Errorf("%s has mode %v, %v", name, info.Mode, err)
			}
		}
		if names, err := dir.Names(); err != nil || !slices.Equal(names, []string{"fact", "helper", "registry", "sub"}) {
			t.Errorf("left %q, %v", names, err)
		}
		if names, err := dir.Names(); err != nil || len(names) != 4 {
			t.Errorf("listed a second time: %q, %v", names, err)
		}
	})
}

// A2.2: the staging link of an interrupted publication is no other link.
func TestA2_2_StagingLinkIsAccepted(t *testing.T) {
	path := physical(t)
	dir := open(t, OS(), path)
	must(t, Publish(dir, "fact", []byte("one")))
	must(t, dir.Link("fact", stagingName("fact")))
	if data, info, err := ReadPrivate(dir, "fact", 16); err != nil || string(data) != "one" || info.Links != 2 {
		t.Errorf("read %q, %+v, %v", data, info, err)
	}
	must(t, CheckPrivateFile(dir, stagingName("fact"), 16))
}

// A3.2: the physical identity is that of the inode, with its birth.
func TestA3_2_InfoIsOfTheInode(t *testing.T) {
	path := physical(t)
	dir := open(t, OS(), path)
	before, err := dir.Stat()
	must(t, err)
	must(t, os.Rename(path, path+".moved"))
	must(t, os.Mkdir(path, 0o700))
	t.Cleanup(func() { _ = os.RemoveAll(path + ".moved") })
	after, err := dir.Stat()
	must(t, err)
	if !before.SameInode(after) || before.BirthTime != after.BirthTime {
		t.Errorf("the opened directory became another: %+v, %+v", before, after)
	}
	other, err := open(t, OS(), path).Stat()
	must(t, err)
	if before.SameInode(other) {
		t.Error("the new directory has the old inode")
	}
	if kind, _ := dir.FileSystem(); kind == "ext4" && before.BirthTime == 0 {
		t.Error("ext4 gave no time of birth")
	}
}

// A2.1: a kernel that writes less than it is given, or is interrupted before it
// wrote anything, is asked again; one that writes nothing, or fails after a part,
// is an error and publishes nothing.
func TestA2_1_ShortWrites(t *testing.T) {
	content := strings.Repeat("evidence ", 100)
	for _, test := range []struct {
		name  string
		write func(call int, fd int, p []byte) (int, error)
		want  error
	}{
		{"one byte at a time", func(_, fd int, p []byte) (int, error) { return unix.Write(fd, p[:1]) }, nil},
		{"half, once", func(call, fd int, p []byte) (int, error) {
			if call == 0 {
				p = p[:len(p)/2]
			}
			return unix.Write(fd, p)
		}, nil},
		{"interrupted every second time", func(call, fd int, p []byte) (int, error) {
			if call%2 == 0 {
				return -1, unix.EINTR
			}
			return unix.Write(fd, p[:min(7, len(p))])
		}, nil},
		{"nothing", func(int, int, []byte) (int, error) { return 0, nil }, io.ErrUnexpectedEOF},
		{"half, then full", func(call, fd int, p []byte) (int, error) {
			if call > 0 {
				return -1, unix.ENOSPC
			}
			return unix.Write(fd, p[:len(p)/2])
		}, unix.ENOSPC},
	} {
		t.Run(test.name, func(t *testing.T) {
			path, calls := physical(t), 0
			disk := osFS{write: func(fd int, p []byte) (int, error) {
				calls++
				return test.write(calls-1, fd, p)
			}}
			err := Publish(open(t, disk, path), "fact", []byte(content))
			got, readErr := os.ReadFile(filepath.Join(path, "fact"))
			if !errors.Is(err, test.want) {
				t.Fatalf("got %v, want %v", err, test.want)
			}
			if test.want == nil && string(got) != content || test.want != nil && !errors.Is(readErr, fs.ErrNotExist) {
				t.Errorf("published %d of %d bytes, %v", len(got), len(content), readErr)
			}
		})
	}
}
