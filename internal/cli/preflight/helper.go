package preflight

import (
	"fmt"

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

// helper returns the identity of the running executable (A3.6).
func helper(build Build) (identity.Helper, error) {
	assets, err := render.Assets()
	if err != nil {
		return identity.Helper{}, err
	}
	return identity.RunningHelper(build.Revision, build.Modified, assets)
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
