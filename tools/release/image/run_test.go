package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// B7.8: flux-plunger itself, out of its image and with nothing else on the file
// system, runs as the image's user: it says what it is, and without a cluster ends
// with one clear sentence. It writes nothing.
func TestImageRuns(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "flux-plunger")
	build := exec.CommandContext(t.Context(), "go", "build", "-C", "../../..", "-buildvcs=false", "-ldflags", "-s -w -X main.revision=r1", "-o", binary, "./cmd/flux-plunger")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building flux-plunger: %v\n%s", err, out)
	}
	layoutDir := filepath.Join(t.TempDir(), "layout")
	args := []string{"--out", layoutDir, "--name", "flux-plunger", "linux/" + runtime.GOARCH + "=" + binary + "=" + filepath.Join("..", "go.mod")}
	root, config := unpacked(t, layoutDir, built(t, args))
	before := tree(t, root)

	out, code := inside(t, root, config, "version")
	if code != 0 || !strings.HasPrefix(out, "revision  r1\n") {
		t.Errorf("version ends with %d:\n%s", code, out)
	}
	for _, args := range [][]string{{"release-fences", "--pod-selector=a=b"}, {"--leader-elect"}} {
		out, code := inside(t, root, config, args...)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if last := lines[len(lines)-1]; code != 1 || !strings.HasPrefix(last, "flux-plunger: finding a cluster: run it in a Pod with a ServiceAccount, or set KUBECONFIG: ") {
			t.Errorf("%v without a cluster ends with %d:\n%s", args, code, out)
		}
	}
	if after := tree(t, root); len(after) != len(before) {
		t.Errorf("it wrote: %d files, now %d", len(before), len(after))
	}
}

func built(t *testing.T, args []string) v1.Hash {
	t.Helper()
	hash, err := v1.NewHash(build(t, args))
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

// unpacked lays the one image's files out as a container engine does.
func unpacked(t *testing.T, layoutDir string, digest v1.Hash) (string, *v1.ConfigFile) {
	t.Helper()
	path, err := layout.FromPath(layoutDir)
	if err != nil {
		t.Fatal(err)
	}
	index, err := path.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	if index, err = index.ImageIndex(digest); err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	config, configErr := image.ConfigFile()
	layers, err := image.Layers()
	if err := errors.Join(err, configErr); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for _, layer := range layers {
		extract(t, layer, root)
	}
	// t.TempDir is the caller's alone; the image's user has to get in.
	for dir := root; dir != filepath.Clean(os.TempDir()); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return root, config
}

func extract(t *testing.T, layer v1.Layer, root string) {
	t.Helper()
	packed, err := layer.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close() //nolint:errcheck // only read
	for reader := tar.NewReader(packed); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(root, header.Name)
		if header.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else {
			var data []byte
			if data, err = io.ReadAll(reader); err == nil {
				err = os.WriteFile(path, data, fs.FileMode(header.Mode))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// inside runs the image's entry point with its file system as the root and its
// user, who owns nothing there, with the environment that the chart gives.
// Where the test itself is not root, in a user namespace.
func inside(t *testing.T, root string, config *v1.ConfigFile, args ...string) (string, int) {
	t.Helper()
	if config.Config.User != nonRoot {
		t.Fatalf("the image's user is %q", config.Config.User)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, config.Config.Entrypoint[0], args...)
	cmd.Dir, cmd.Env = config.Config.WorkingDir, []string{"RUNTIME_NAMESPACE=ns"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 65532, Gid: 65532}
	} else {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 65532, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 65532, HostID: os.Getegid(), Size: 1}}
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if errors.Is(err, syscall.EPERM) && os.Geteuid() != 0 {
		t.Skip("this machine lets nobody but root change the root directory")
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("running the image: %v", err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}
