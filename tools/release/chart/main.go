// Command chart packs a Helm chart with its image pinned by digest, as "helm
// package" does; what .helmignore names, the chart's tests, stays out of it.
//
// Its invariant: the same chart and digest give the same bytes. Every time stamp
// is zero, and owners, modes and the order are written here.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"

	"helm.sh/helm/v4/pkg/ignore"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("chart", flag.ContinueOnError)
	dir := flags.String("chart", "", "directory of the chart")
	digest := flags.String("digest", "", "digest of the image's index, sha256:…")
	out := flags.String("out", "", "the package to write; must not exist")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *dir == "" || *out == "" || flags.NArg() > 0 {
		return errors.New("usage: chart --chart DIR --digest SHA256 --out FILE")
	}
	if !regexp.MustCompile(`^sha256:[0-9a-f]{64}$`).MatchString(*digest) {
		return fmt.Errorf("reading --digest: %q is no sha256:… of 64 digits", *digest)
	}
	packed, err := pack(*dir, *digest)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(*out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("writing the package: %w", err)
	}
	_, err = file.Write(packed)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("writing the package: %w", err)
	}
	return nil
}

func pack(dir, digest string) ([]byte, error) {
	var buffer bytes.Buffer
	zipped := gzip.NewWriter(&buffer)
	archive := tar.NewWriter(zipped)
	files, err := packaged(dir)
	for _, below := range files {
		err = errors.Join(err, add(archive, dir, below, digest))
	}
	if err := errors.Join(err, archive.Close(), zipped.Close()); err != nil {
		return nil, fmt.Errorf("packing the chart %s: %w", dir, err)
	}
	return buffer.Bytes(), nil
}

// packaged lists the chart's files below dir in lexical order, without what
// .helmignore names.
func packaged(dir string) ([]string, error) {
	rules, err := ignore.ParseFile(filepath.Join(dir, ignore.HelmIgnore))
	if errors.Is(err, fs.ErrNotExist) {
		rules, err = ignore.Empty(), nil
	}
	if err != nil {
		return nil, err
	}
	rules.AddDefaults()
	var files []string
	err = filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || file == dir {
			return err
		}
		below, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		switch {
		case err != nil:
			return err
		case rules.Ignore(filepath.ToSlash(below), info) && entry.IsDir():
			return filepath.SkipDir
		case !entry.IsDir() && !rules.Ignore(filepath.ToSlash(below), info):
			files = append(files, below)
		}
		return nil
	})
	return files, err
}

// add writes one file to the archive, the values with the image pinned.
func add(archive *tar.Writer, dir, below, digest string) error {
	data, err := os.ReadFile(filepath.Join(dir, below))
	if err != nil {
		return err
	}
	if below == "values.yaml" {
		if data, err = pinned(data, digest); err != nil {
			return err
		}
	}
	name := path.Join(filepath.Base(filepath.Clean(dir)), filepath.ToSlash(below))
	header := tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(data)), Format: tar.FormatUSTAR}
	if err := archive.WriteHeader(&header); err != nil {
		return err
	}
	_, err = archive.Write(data)
	return err
}

// pinned fills in the one empty digest of the values. A chart without it, or with
// more than one, would be published without its image pinned.
func pinned(values []byte, digest string) ([]byte, error) {
	empty := []byte("\n  digest: \"\"\n")
	if n := bytes.Count(values, empty); n != 1 {
		return nil, fmt.Errorf("pinning the image: values.yaml has %d empty image digests, want one", n)
	}
	return bytes.Replace(values, empty, []byte("\n  digest: "+digest+"\n"), 1), nil
}
