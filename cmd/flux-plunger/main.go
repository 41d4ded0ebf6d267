// Command flux-plunger recovers HelmReleases that are stuck with "has no
// deployed releases", and sees to it that a delete in the middle is still
// uninstalled.
package main

import (
	"os"

	"github.com/holdfast-project/holdfast/internal/cli/plunger"
)

func main() { os.Exit(plunger.Main(os.Args[1:], os.Stdout, os.Stderr)) }
