// Command image writes a container image, from scratch and without a container
// engine, as an OCI layout on disk.
//
// Its invariant: the same binaries give the same bytes. Every time stamp is zero,
// every owner and mode is written here, and nothing of the machine that builds
// finds its way in; so two people who build one revision in two folders can
// compare one digest. It needs no network.
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// nonRoot is the user that the image runs as. A number, because a scratch image
// has no user database that a kubelet could look a name up in, and runAsNonRoot
// refuses what it cannot prove.
const nonRoot = "65532:65532"

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	out := flags.String("out", "", "directory of the OCI layout; must not exist")
	name := flags.String("name", "", "name of the executable inside the image")
	revision := flags.String("revision", "", "source revision, for the image's labels")
	version := flags.String("version", "", "version, for the image's labels")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *out == "" || *name == "" || flags.NArg() == 0 {
		return errors.New("usage: image --out DIR --name NAME [--revision R] [--version V] OS/ARCH=BINARY=SBOM …")
	}
	if _, err := os.Lstat(*out); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("writing the layout: %s exists already: remove it first", *out)
	}
	labels := map[string]string{
		"org.opencontainers.image.title":    *name,
		"org.opencontainers.image.source":   "https://github.com/holdfast-project/holdfast",
		"org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.revision": *revision,
		"org.opencontainers.image.version":  *version,
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, spec := range flags.Args() {
		addendum, err := platformImage(*name, spec, labels)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, addendum)
	}
	digest, err := index.Digest()
	if err != nil {
		return fmt.Errorf("hashing the index: %w", err)
	}
	target, err := layout.Write(*out, empty.Index)
	if err != nil {
		return fmt.Errorf("writing the layout %s: %w", *out, err)
	}
	if err := target.AppendIndex(index); err != nil {
		return fmt.Errorf("writing the index to %s: %w", *out, err)
	}
	_, err = fmt.Fprintln(stdout, digest)
	return err
}

// platformImage builds the image of one "os/arch=binary=sbom".
func platformImage(name, spec string, labels map[string]string) (mutate.IndexAddendum, error) {
	parts := strings.Split(spec, "=")
	osName, arch, ok := strings.Cut(parts[0], "/")
	if len(parts) != 3 || !ok {
		return mutate.IndexAddendum{}, fmt.Errorf("reading %q: want OS/ARCH=BINARY=SBOM", spec)
	}
	layer, err := filesLayer(map[string]string{name: parts[1], path.Join("usr/share/sbom", name+".cdx.json"): parts[2]}, name)
	if err != nil {
		return mutate.IndexAddendum{}, err
	}
	image, err := mutate.Append(mutate.MediaType(empty.Image, types.OCIManifestSchema1), mutate.Addendum{Layer: layer, MediaType: types.OCILayer,
		History: v1.History{CreatedBy: "holdfast image"}})
	if err != nil {
		return mutate.IndexAddendum{}, fmt.Errorf("adding the layer for %s: %w", parts[0], err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return mutate.IndexAddendum{}, fmt.Errorf("configuring the image for %s: %w", parts[0], err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = osName, arch
	config.Config = v1.Config{Entrypoint: []string{"/" + name}, User: nonRoot, WorkingDir: "/", Labels: labels}
	image, err = mutate.ConfigFile(mutate.ConfigMediaType(image, types.OCIConfigJSON), config)
	if err != nil {
		return mutate.IndexAddendum{}, fmt.Errorf("configuring the image for %s: %w", parts[0], err)
	}
	return mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{MediaType: types.OCIManifestSchema1, Platform: &v1.Platform{OS: osName, Architecture: arch}}}, nil
}

// filesLayer packs files (name in the image to path on disk) as one layer, in a
// fixed order and with nothing of the disk but the bytes.
func filesLayer(files map[string]string, executable string) (v1.Layer, error) {
	var buffer bytes.Buffer
	archive := tar.NewWriter(&buffer)
	for _, dir := range []string{"usr/", "usr/share/", "usr/share/sbom/"} {
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o555, Format: tar.FormatUSTAR}); err != nil {
			return nil, fmt.Errorf("packing %s: %w", dir, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		data, err := os.ReadFile(files[name])
		if err != nil {
			return nil, fmt.Errorf("packing %s: %w", name, err)
		}
		mode := int64(0o444)
		if name == executable {
			mode = 0o555
		}
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(data)), Format: tar.FormatUSTAR}); err != nil {
			return nil, fmt.Errorf("packing %s: %w", name, err)
		}
		if _, err := archive.Write(data); err != nil {
			return nil, fmt.Errorf("packing %s: %w", name, err)
		}
	}
	if err := archive.Close(); err != nil {
		return nil, fmt.Errorf("packing the layer: %w", err)
	}
	packed := buffer.Bytes()
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed)), nil },
		tarball.WithMediaType(types.OCILayer))
}
