// Command chart packs a Helm chart with its image pinned by digest, as "helm
// package" does.
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
	name := filepath.Base(filepath.Clean(dir))
	// WalkDir goes in lexical order.
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		below, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if below == "values.yaml" {
			if data, err = pinned(data, digest); err != nil {
				return err
			}
		}
		header := tar.Header{Typeflag: tar.TypeReg, Name: path.Join(name, filepath.ToSlash(below)), Mode: 0o644, Size: int64(len(data)), Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(&header); err != nil {
			return err
		}
		_, err = archive.Write(data)
		return err
	})
	if err := errors.Join(err, archive.Close(), zipped.Close()); err != nil {
		return nil, fmt.Errorf("packing the chart %s: %w", dir, err)
	}
	return buffer.Bytes(), nil
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
