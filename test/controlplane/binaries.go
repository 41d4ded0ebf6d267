package controlplane

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// KubernetesVersion is the version of the API server, the controller-manager and
// the scheduler, as they report it.
const KubernetesVersion = "v1.37.2"

// packagePath is where this package is found when the sources are not where they
// were compiled (-trimpath).
const packagePath = "github.com/holdfast-project/holdfast/test/controlplane"

// unusedFor is how long a cached build may be unused before it is removed.
const unusedFor = 14 * 24 * time.Hour

// Binaries says where the programs of a control plane are.
type Binaries struct {
	// Servers holds etcd, kube-apiserver, kube-controller-manager, kube-scheduler
	// and kwok.
	Servers string
	// Helpers holds keeper and podrunner.
	Helpers string
}

// Ensure returns the programs of a control plane and builds them with the go tool
// when this machine has none for the present sources. The first time takes minutes
// and is announced on stderr.
//
// The cache is outside the repository, in $HOLDFAST_CACHE or else in the user's
// cache directory. Its entries are named by a hash of what they were built from
// and appear by rename, complete; concurrent callers, also of other processes,
// build once.
func Ensure(ctx context.Context) (Binaries, error) {
	here, err := sourceDir(ctx)
	if err != nil {
		return Binaries{}, err
	}
	cache, err := cacheDir()
	if err != nil {
		return Binaries{}, err
	}
	servers, err := serverBuild(here).ensure(ctx, cache)
	if err != nil {
		return Binaries{}, err
	}
	helpers, err := helperBuild(here).ensure(ctx, cache)
	if err != nil {
		return Binaries{}, err
	}
	return Binaries{Servers: servers, Helpers: helpers}, nil
}

// build is one call of go build with what decides its result.
type build struct {
	name     string   // first part of the cache entry's name
	dir      string   // where go build runs
	sources  []string // files and directories that decide the result
	packages []string
	flags    []string
	env      []string
	notice   string
}

func serverBuild(here string) build {
	const version = "k8s.io/component-base/version."
	numbers := strings.Split(strings.TrimPrefix(KubernetesVersion, "v"), ".")
	return build{
		name:    KubernetesVersion,
		dir:     filepath.Join(here, "binaries"),
		sources: []string{filepath.Join(here, "binaries")},
		packages: []string{
			"./etcd",
			"k8s.io/kubernetes/cmd/kube-apiserver",
			"k8s.io/kubernetes/cmd/kube-controller-manager",
			"k8s.io/kubernetes/cmd/kube-scheduler",
			"sigs.k8s.io/kwok/cmd/kwok",
		},
		// An unstamped server calls itself v0.0.0-master, and Helm refuses charts
		// that ask for a kubeVersion.
		flags: []string{"-trimpath", "-ldflags", "-s -w" +
			" -X " + version + "gitVersion=" + KubernetesVersion +
			" -X " + version + "gitMajor=" + numbers[0] +
			" -X " + version + "gitMinor=" + numbers[1]},
		env:    []string{"CGO_ENABLED=0"},
		notice: "etcd, Kubernetes " + KubernetesVersion + " and kwok; once, this takes some minutes",
	}
}

// helperBuild uses the plain settings of the go command, so that the packages are
// shared with the tests' own builds and only linking is left.
func helperBuild(here string) build {
	root := filepath.Join(here, "..", "..")
	return build{
		name: "helpers",
		dir:  root,
		sources: []string{
			filepath.Join(root, "go.mod"), filepath.Join(root, "go.sum"),
			filepath.Join(here, "internal"),
			filepath.Join(here, "cmd", "keeper"), filepath.Join(here, "cmd", "podrunner"),
		},
		packages: []string{packagePath + "/cmd/keeper", packagePath + "/cmd/podrunner"},
		flags:    []string{"-ldflags", "-s -w"},
		notice:   "the control plane's helpers",
	}
}

func (b build) ensure(ctx context.Context, cache string) (string, error) {
	hash, err := b.hash()
	if err != nil {
		return "", err
	}
	entry := filepath.Join(cache, b.name+"-"+hash)
	if used(entry) {
		return entry, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("making the cache: %w", err)
	}
	unlock, err := lockFile(ctx, filepath.Join(cache, b.name+".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if used(entry) { // somebody else built it while we waited
		return entry, nil
	}
	return entry, b.into(ctx, cache, entry)
}

// into must be called with the lock held.
func (b build) into(ctx context.Context, cache, entry string) error {
	b.prune(cache, entry)
	fmt.Fprintf(os.Stderr, "controlplane: building %s (%s)\n", b.notice, entry)
	tmp, err := os.MkdirTemp(cache, b.name+".tmp-")
	if err != nil {
		return fmt.Errorf("making a place to build in: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }() // if it is still there; the next build tries again
	args := append([]string{"build", "-mod=readonly", "-buildvcs=false", "-o", tmp + string(filepath.Separator)}, b.flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, b.packages...)...)
	cmd.Dir = b.dir
	cmd.Env = append(append(os.Environ(), "GOFLAGS=", "GOWORK=off"), b.env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("building %s: %w\n%s", b.notice, err, out)
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return fmt.Errorf("publishing %s: %w", entry, err)
	}
	if err := os.Rename(tmp, entry); err != nil {
		return fmt.Errorf("publishing %s: %w", entry, err)
	}
	return nil
}

// prune removes what a killed build left and what nobody has used for long. A
// program that still runs from a removed file is not disturbed.
func (b build) prune(cache, entry string) {
	leftovers, _ := filepath.Glob(filepath.Join(cache, b.name+".tmp-*"))
	entries, _ := filepath.Glob(filepath.Join(cache, b.name+"-*"))
	for _, old := range entries {
		info, err := os.Stat(old)
		if err == nil && old != entry && time.Since(info.ModTime()) > unusedFor {
			leftovers = append(leftovers, old)
		}
	}
	for _, old := range leftovers {
		_ = os.RemoveAll(old)
	}
}

// hash covers names and contents of all sources but tests.
func (b build) hash() (string, error) {
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%s %s %s %q %q %q\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, b.packages, b.flags, b.env)
	for _, source := range b.sources {
		err := filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || strings.HasSuffix(path, "_test.go") {
				return err
			}
			name, err := filepath.Rel(b.dir, path)
			if err != nil {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			_, _ = fmt.Fprintf(sum, "%s %d\n", filepath.ToSlash(name), len(content))
			_, err = sum.Write(content)
			return err
		})
		if err != nil {
			return "", fmt.Errorf("hashing the sources in %s: %w", source, err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}

// used says whether the cache entry is there, and keeps it from being pruned.
func used(entry string) bool {
	now := time.Now()
	return os.Chtimes(entry, now, now) == nil
}

// lockFile takes an exclusive lock that ends with this process at the latest. It
// polls, because a blocking flock could not be given up when ctx ends.
func lockFile(ctx context.Context, path string) (func(), error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	err = poll(ctx, 100*time.Millisecond, func() (bool, error) {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), file.Close())
	}
	return func() { _ = file.Close() }, nil
}

func cacheDir() (string, error) {
	if dir := os.Getenv("HOLDFAST_CACHE"); dir != "" {
		return filepath.Join(dir, "controlplane"), nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the user's cache directory (set HOLDFAST_CACHE): %w", err)
	}
	return filepath.Join(dir, "holdfast", "controlplane"), nil
}

// sourceDir is the directory of this package's sources.
func sourceDir(ctx context.Context) (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if ok && filepath.IsAbs(file) {
		if _, err := os.Stat(filepath.Join(filepath.Dir(file), "binaries", "go.mod")); err == nil {
			return filepath.Dir(file), nil
		}
	}
	cmd := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", packagePath)
	cmd.Stderr = io.Discard
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("finding the sources of %s (run inside the repository): %w", packagePath, err)
	}
	return strings.TrimSpace(string(out)), nil
}
