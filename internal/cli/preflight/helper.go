package preflight

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/render"
)

// Build is what the linker stamped into package main.
type Build struct {
	// Revision is the commit; "unknown" in a build that was not stamped.
	Revision string
	// Modified is true when tracked files differed from the commit.
	Modified bool
}

// ownExecutable is the running executable's own file: the kernel keeps this link
// on the inode that was started, also when a new build has taken its name.
const ownExecutable = "/proc/self/exe"

// openHelper opens the running executable for hashing and for the retained copy
// (A3.6).
func openHelper() (*os.File, error) {
	file, err := os.Open(ownExecutable)
	if err != nil {
		return nil, fmt.Errorf("opening the running executable: %w", err)
	}
	return file, nil
}

// helper returns the identity of the running executable.
func helper(build Build) (identity.Helper, error) {
	file, err := openHelper()
	if err != nil {
		return identity.Helper{}, err
	}
	defer func() { _ = file.Close() }()
	digest := sha256.New()
	if _, err := io.Copy(digest, file); err != nil {
		return identity.Helper{}, fmt.Errorf("reading the running executable: %w", err)
	}
	assets, err := render.Assets()
	if err != nil {
		return identity.Helper{}, err
	}
	h := identity.Helper{
		SHA256:   hex.EncodeToString(digest.Sum(nil)),
		Revision: build.Revision,
		Modified: build.Modified,
		Assets:   assets,
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		h.ModuleVersion = info.Main.Version
	}
	return h, nil
}

func (c *command) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "print the build and the digest that binds evidence to it",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			h, err := helper(c.env.Build)
			if err != nil {
				return err
			}
			modified := ""
			if h.Modified {
				modified = " (tracked files were modified)"
			}
			_, err = fmt.Fprintf(c.env.Stdout, "version   %s\nrevision  %s%s\nsha256    %s\n", h.ModuleVersion, h.Revision, modified, h.SHA256)
			return err
		},
	}
}
