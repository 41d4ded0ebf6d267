package evidence_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holdfast-project/holdfast/internal/durable"
	"github.com/holdfast-project/holdfast/internal/durable/durabletest"
	"github.com/holdfast-project/holdfast/internal/evidence"
	et "github.com/holdfast-project/holdfast/internal/evidence/evidencetest"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/journal"
	"github.com/holdfast-project/holdfast/test/command"
)

// A5, A6.1, A6.10: every row of the matrix on a real directory, through the real
// command: exit 2, the sentence of the rule, nothing on standard output, no
// connection, and the directory is as it was. Untouched evidence does connect.
func TestA5_EveryRowByTheRealCommand(t *testing.T) {
	slow(t)
	o := newOperator(t)
	if code, said, _ := o.cleanup(o.realise(t, o.tree(t))); code != 1 || o.connections.Load() == 0 {
		t.Fatalf("untouched evidence: exit %d after %d connections\n%s", code, o.connections.Load(), said)
	}
	o.connections.Store(0)
	rows := everyRow()
	if len(rows) < 301 {
		t.Errorf("only %d rows: the matrix has shrunk", len(rows))
	}
	var refused, unmade atomic.Int64
	t.Run("row", func(t *testing.T) {
		for _, row := range rows {
			t.Run(row.name, func(t *testing.T) {
				t.Parallel()
				disk := o.tree(t)
				row.damage(disk)
				if o.refuse(t, disk, row) {
					refused.Add(1)
				} else {
					unmade.Add(1)
				}
			})
		}
	})
	t.Logf("refusals: rows=%d refused=%d only-root-can-make=%d connections=%d", len(rows), refused.Load(), unmade.Load(), o.connections.Load())
	if n := o.connections.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
	if n := unmade.Load(); n > 0 && os.Getenv("HOLDFAST_ROOT") != "" || n > 27 {
		t.Errorf("%d rows could not be made", n)
	}
}

// refuse makes the damaged disk real and lets the command judge it. It reports
// false where only root can make it.
func (o *operator) refuse(t *testing.T, disk *durabletest.FS, row row) (made bool) {
	t.Helper()
	path := o.realise(t, disk)
	if path == "" {
		return false
	}
	before := fingerprint(t, path)
	code, stderr, stdout := o.cleanup(path)
	file := row.file
	if file == "." {
		file = "the evidence directory"
	}
	sentence, _, _ := strings.Cut(stderr, "\n")
	begin := command.Name + ": evidence refused: " + file + " "
	if rule, begun := strings.CutPrefix(sentence, begin); !begun || !says(rule, row.reason) {
		t.Errorf("said %q, want %q and %q", sentence, begin, row.reason)
	}
	if code != 2 || stdout != "" {
		t.Errorf("exit %d, standard output %q", code, stdout)
	}
	if after := fingerprint(t, path); after != before {
		t.Errorf("the directory has changed:\n%s\nwas\n%s", after, before)
	}
	return true
}

// operator is somebody with the built command, a kubeconfig whose server counts
// connections, and the parameters of a run that was made with both.
type operator struct {
	binary, kubeconfig, kind string
	parameters               evidence.Parameters
	connections              *atomic.Int64
}

func newOperator(t *testing.T) *operator {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	o := &operator{kubeconfig: filepath.Join(dir, "kubeconfig"), connections: &atomic.Int64{}, parameters: et.Parameters()}
	if o.binary, err = command.Build(dir, ""); err != nil {
		t.Fatal(err)
	}
	builtin, err := os.ReadFile("../render/builtin/openclaw-enterprise.yaml")
	if err != nil {
		t.Fatal(err)
	}
	o.parameters.Profile.SHA256 = digest(builtin)
	if o.parameters.Helper, err = command.Helper(o.binary, map[string]string{"render/builtin/openclaw-enterprise.yaml": digest(builtin)}); err != nil {
		t.Fatal(err)
	}
	content := fmt.Appendf(nil, "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: \"http://%s\"}}]\n"+
		"users: [{name: u, user: {token: t}}]\ncontexts: [{name: production, context: {cluster: c, user: u}}]\n", counting(t, o.connections))
	if err := os.WriteFile(o.kubeconfig, content, 0o600); err != nil {
		t.Fatal(err)
	}
	o.parameters.Kubeconfig, o.parameters.KubeconfigSHA256 = o.kubeconfig, digest(content)
	o.kind = fileSystemOf(t, dir)
	return o
}

func fileSystemOf(t *testing.T, path string) string {
	t.Helper()
	dir, err := durable.OS().Open(path)
	if err != nil {
		t.Fatal(err)
	}
	kind, err := dir.FileSystem()
	if err := errors.Join(err, dir.Close()); err != nil {
		t.Fatal(err)
	}
	return kind
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// counting is the address of a server that counts connections and ends them.
func counting(t *testing.T, connections *atomic.Int64) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

// tree is the evidence of the tables, as this operator's command would write it on
// this file system.
func (o *operator) tree(t *testing.T) *durabletest.FS {
	t.Helper()
	disk := durabletest.New()
	disk.SetType(o.kind)
	et.BuildWith(t, disk, root, journal.Setup{Parameters: o.parameters, AllowFileSystem: o.kind}, treeAttempts()...)
	disk.Place(root+"/helper", fs.ModeDir|0o700, "")
	disk.Place(root+"/helper/upgrade-production-images", 0o700, et.Executable)
	return disk
}

func (o *operator) cleanup(path string) (code int, stderr, stdout string) {
	cmd := exec.Command(o.binary, "--cleanup-preflight", "--kubeconfig", o.kubeconfig, "--context", o.parameters.Context,
		"--namespace", o.parameters.Namespace, "--release", o.parameters.Release, "--evidence-dir", path,
		"--previous-process-settled", "--evidence-unrestored")
	var out, said strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		return -1, err.Error(), ""
	}
	return cmd.ProcessState.ExitCode(), said.String(), out.String()
}

// realise makes a disk in memory real and returns the evidence's path, or "" where
// only root can make what is on it. What the registry records of a directory that
// is the recorded one becomes what the real one has.
func (o *operator) realise(t *testing.T, disk *durabletest.FS) string {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	made := map[uint64]string{}
	for _, path := range disk.Paths() {
		info := lstat(t, disk, path)
		at := filepath.Join(base, path)
		if first, again := made[info.Inode]; again && !info.Mode.IsDir() {
			err = os.Link(first, at)
		} else {
			err = make1(at, info, disk.Files()[path])
		}
		if errors.Is(err, fs.ErrPermission) {
			return ""
		}
		if err != nil {
			t.Fatal(err)
		}
		made[info.Inode] = at
	}
	registry := filepath.Join(base, root, "preflight-journal.json")
	if info, err := os.Lstat(registry); err == nil && info.Mode().IsRegular() {
		rebind(t, disk, base, registry)
	}
	return filepath.Join(base, root)
}

// make1 makes one entry; the kinds that a record is replaced by among them.
func make1(at string, info durable.Info, content string) (err error) {
	perm := uint32(info.Mode.Perm())
	switch info.Mode.Type() {
	case fs.ModeDir:
		err = os.Mkdir(at, 0o700)
	case fs.ModeSymlink:
		return os.Symlink("x", at)
	case fs.ModeNamedPipe:
		err = unix.Mkfifo(at, perm)
	case fs.ModeSocket:
		err = unix.Mknod(at, unix.S_IFSOCK|perm, 0)
	case fs.ModeDevice:
		err = unix.Mknod(at, unix.S_IFBLK|perm, int(unix.Mkdev(7, 250)))
	default:
		err = os.WriteFile(at, []byte(content), 0o600)
	}
	if err != nil {
		return err
	}
	if info.UID != durabletest.UID {
		err = os.Chown(at, 12345, -1)
	}
	return errors.Join(err, os.Chmod(at, info.Mode.Perm()))
}

func lstat(t *testing.T, disk *durabletest.FS, path string) durable.Info {
	t.Helper()
	dir, err := disk.Open(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	info, err := dir.Lstat(filepath.Base(path))
	if err := errors.Join(err, dir.Close()); err != nil {
		t.Fatal(err)
	}
	return info
}

var recordedDirectory = regexp.MustCompile(`"path": "(/evidence[^"]*)",(\s*)"inode": (\d+),\s*"birthTime": (\d+)`)

// rebind lets the registry record the real directories in the place of those of
// the disk in memory, where it records these.
func rebind(t *testing.T, disk *durabletest.FS, base, registry string) {
	t.Helper()
	content, err := os.ReadFile(registry)
	if err != nil {
		t.Fatal(err)
	}
	text := recordedDirectory.ReplaceAllStringFunc(string(content), func(recorded string) string {
		part := recordedDirectory.FindStringSubmatch(recorded)
		path, real := part[1], identity.Directory{Path: base + part[1]}
		now, err := disk.Open(path)
		if err != nil {
			return recorded
		}
		info, err := now.Stat()
		if err := errors.Join(err, now.Close()); err != nil {
			t.Fatal(err)
		}
		real.Inode, real.BirthTime = info.Inode, info.BirthTime
		if part[3] == strconv.FormatUint(info.Inode, 10) && part[4] == strconv.FormatInt(info.BirthTime, 10) {
			real = identityOf(t, real.Path)
		} else {
			real.Inode, real.BirthTime = 1, 1
		}
		birth := ""
		if real.BirthTime != 0 {
			birth = fmt.Sprintf(",%s\"birthTime\": %d", part[2], real.BirthTime)
		}
		return fmt.Sprintf("\"path\": %q,%s\"inode\": %d%s", real.Path, part[2], real.Inode, birth)
	})
	if err := os.WriteFile(registry, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func identityOf(t *testing.T, path string) identity.Directory {
	t.Helper()
	dir, err := durable.OS().Open(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := dir.Stat()
	if err := errors.Join(err, dir.Close()); err != nil {
		t.Fatal(err)
	}
	return identity.Directory{Path: path, Inode: info.Inode, BirthTime: info.BirthTime}
}

// fingerprint tells all that can be told of a directory, but when it was read.
func fingerprint(t *testing.T, path string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(path, func(at string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var stat unix.Stat_t
		if err := unix.Lstat(at, &stat); err != nil {
			return err
		}
		content := ""
		if stat.Mode&unix.S_IFMT == unix.S_IFREG {
			data, err := os.ReadFile(at)
			if err != nil && os.Geteuid() == 0 {
				return err
			}
			content = digest(data)
		}
		fmt.Fprintln(&out, at, stat.Ino, stat.Mode, stat.Uid, stat.Nlink, stat.Size, stat.Mtim, stat.Ctim, content)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}
