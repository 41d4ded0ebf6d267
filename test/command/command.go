// Package command builds upgrade-production-images for tests that use it from
// outside, as an operator does: by its arguments, its exit code, what it prints
// and which files it leaves.
//
// Its invariant: what is built is the shipped command, package main included;
// only a build tag that the caller names can add to it. It is imported by tests
// only.
package command

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/holdfast-project/holdfast/internal/identity"
)

// Name is the command's file name.
const Name = "upgrade-production-images"

// Build builds the command into dir, with the flags of a release and the given
// build tags, and returns its path.
func Build(dir, tags string) (string, error) {
	path := filepath.Join(dir, Name)
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-tags", tags,
		"-o", path, "github.com/holdfast-project/holdfast/cmd/upgrade-production-images")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the command: %w\n%s", err, out)
	}
	return path, nil
}

// Helper returns the identity that the command at path gives itself, so that a
// test can write evidence that this executable accepts. assets are those of the
// renderer that is linked into it.
func Helper(path string, assets map[string]string) (identity.Helper, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return identity.Helper{}, err
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return identity.Helper{}, err
	}
	sum := sha256.Sum256(content)
	return identity.Helper{
		SHA256:        hex.EncodeToString(sum[:]),
		ModuleVersion: info.Main.Version,
		Revision:      "unknown",
		Assets:        assets,
	}, nil
}
