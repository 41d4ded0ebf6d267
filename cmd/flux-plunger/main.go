// Command flux-plunger recovers HelmReleases that are stuck with "has no
// deployed releases", and sees to it that a delete in the middle is still
// uninstalled.
package main

import (
	"os"

	"github.com/holdfast-project/holdfast/internal/cli/plunger"
)

// revision and modified are stamped by the linker:
// -X main.revision=<commit> -X main.modified=true|false.
var (
	revision = "unknown"
	modified = "false"
)

func main() {
	build := plunger.Build{Revision: revision, Modified: modified == "true"}
	os.Exit(plunger.Main(os.Args[1:], build, os.Stdout, os.Stderr))
}
