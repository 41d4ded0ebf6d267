package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// inputs writes binaries and SBOMs into a folder of their own, with its own times
// and modes, and returns the arguments.
func inputs(t *testing.T, folder string, when time.Time, mode fs.FileMode) []string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), folder)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	args := []string{"--out", filepath.Join(dir, "layout"), "--name", "tool", "--revision", "r1", "--version", "v1"}
	for _, arch := range []string{"amd64", "arm64"} {
		binary, sbom := filepath.Join(dir, "tool-"+arch), filepath.Join(dir, arch+".json")
		for path, text := range map[string]string{binary: "binary for " + arch, sbom: "sbom for " + arch} {
			if err := errors.Join(os.WriteFile(path, []byte(text), mode), os.Chtimes(path, when, when)); err != nil {
				t.Fatal(err)
			}
		}
		args = append(args, "linux/"+arch+"="+binary+"="+sbom)
	}
	return args
}

func build(t *testing.T, args []string) (digest string) {
	t.Helper()
	var out bytes.Buffer
	if err := run(args, &out); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out.String())
}

// tree reads every file below a folder.
func tree(t *testing.T, root string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, relErr := filepath.Rel(root, path)
		files[name] = string(data)
		return errors.Join(err, relErr)
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// B7.8: bit-identical from two folders at two times; and another binary is another
// image.
func TestBitIdentical(t *testing.T) {
	one := inputs(t, "one", time.Unix(1, 0), 0o600)
	two := inputs(t, "another/folder", time.Unix(1_000_000_000, 0), 0o755)
	first, second := build(t, one), build(t, two)
	if first != second || !strings.HasPrefix(first, "sha256:") {
		t.Errorf("the digests are %s and %s", first, second)
	}
	a, b := tree(t, one[1]), tree(t, two[1])
	if len(a) < 8 || len(a) != len(b) {
		t.Errorf("%d and %d files", len(a), len(b))
	}
	for name, data := range a {
		if b[name] != data {
			t.Errorf("%s differs", name)
		}
	}
	three := inputs(t, "three", time.Unix(1, 0), 0o600)
	path := strings.Split(three[len(three)-1], "=")[1]
	if err := os.WriteFile(path, []byte("another binary"), 0o600); err != nil {
		t.Fatal(err)
	}
	if build(t, three) == first {
		t.Error("another binary gives the same image")
	}
}

// B7.8: what is in it, for both platforms: the executable and its SBOM, run as
// non-root, and nothing that anybody could write.
func TestContents(t *testing.T) {
	args := inputs(t, "one", time.Now(), 0o644)
	digest := build(t, args)
	path, err := layout.FromPath(args[1])
	if err != nil {
		t.Fatal(err)
	}
	outer, err := path.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	hash, err := v1.NewHash(digest)
	if err != nil {
		t.Fatal(err)
	}
	index, err := outer.ImageIndex(hash)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Errorf("the index is not valid: %v", err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if manifest.MediaType != types.OCIImageIndex || len(manifest.Manifests) != 2 {
		t.Fatalf("the index is %s with %d images", manifest.MediaType, len(manifest.Manifests))
	}
	for i, arch := range []string{"amd64", "arm64"} {
		if got := manifest.Manifests[i].Platform.String(); got != "linux/"+arch {
			t.Errorf("image %d is for %s", i, got)
		}
		image, err := index.Image(manifest.Manifests[i].Digest)
		if err != nil {
			t.Fatal(err)
		}
		checkImage(t, image, arch)
	}
}

func checkImage(t *testing.T, image v1.Image, arch string) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Architecture != arch || config.OS != "linux" || config.Config.User != nonRoot || strings.HasPrefix(nonRoot, "0") ||
		len(config.Config.Entrypoint) != 1 || config.Config.Entrypoint[0] != "/tool" || config.Config.Labels["org.opencontainers.image.revision"] != "r1" {
		t.Errorf("the configuration is %+v", config)
	}
	if !config.Created.IsZero() {
		t.Errorf("it says that it was made at %s", config.Created)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	packed, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"tool": "binary for " + arch, "usr/share/sbom/tool.cdx.json": "sbom for " + arch}
	for reader := tar.NewReader(packed); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Mode&0o222 != 0 || header.Uid != 0 || header.ModTime.Unix() != 0 {
			t.Errorf("%s has mode %o, owner %d, time %s", header.Name, header.Mode, header.Uid, header.ModTime)
		}
		if header.Typeflag == tar.TypeDir {
			continue
		}
		data, err := io.ReadAll(reader)
		if err != nil || string(data) != want[header.Name] {
			t.Errorf("%s holds %q, %v", header.Name, data, err)
		}
		delete(want, header.Name)
	}
	if len(want) != 0 {
		t.Errorf("missing: %v", want)
	}
}

// What cannot be built is refused, and a layout that is there is kept.
func TestRefusals(t *testing.T) {
	args := inputs(t, "one", time.Now(), 0o644)
	build(t, args)
	before := tree(t, args[1])
	if err := run(args, io.Discard); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("over an existing layout: %v", err)
	}
	if after := tree(t, args[1]); len(after) != len(before) {
		t.Error("the existing layout was changed")
	}
	fresh := filepath.Join(t.TempDir(), "fresh")
	for _, bad := range [][]string{
		{"--name", "tool", "linux/amd64=a=b"},
		{"--out", fresh, "linux/amd64=a=b"},
		{"--out", fresh, "--name", "tool"},
		{"--out", fresh, "--name", "tool", "linux=a=b"},
		{"--out", fresh, "--name", "tool", "linux/amd64=a"},
		{"--out", fresh, "--name", "tool", "linux/amd64=/does/not/exist=b"},
	} {
		if err := run(bad, io.Discard); err == nil {
			t.Errorf("%v is accepted", bad)
		}
		if _, err := os.Lstat(fresh); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v left a layout", bad)
		}
	}
}
