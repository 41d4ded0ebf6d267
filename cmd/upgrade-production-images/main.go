// Command upgrade-production-images preflights a candidate image in temporary
// objects of the target cluster, with a crash-safe journal, and cleans up
// exactly what that journal proves.
package main

import (
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/holdfast-project/holdfast/internal/cli/preflight"
)

// revision and modified are stamped by the linker:
// -X main.revision=<commit> -X main.modified=true|false.
var (
	revision = "unknown"
	modified = "false"
)

func main() { os.Exit(run()) }

// run exists so that deferred calls are over before the process ends.
func run() int {
	harden()
	return preflight.Main(preflight.Env{
		Args:   os.Args[1:],
		Stdout: os.Stdout,
		Stderr: os.Stderr,
		Getenv: os.Getenv,
		Build:  preflight.Build{Revision: revision, Modified: modified == "true"},
		Files:  files(),
	})
}

// harden makes a crash look like a crash. A Go panic ends with code 2, which
// here means "refused, nothing happened": traceback mode crash turns it into
// SIGABRT. A core would hold Secret values, so there is none. SIGPIPE must not
// end a run because somebody closed a pager (A6.10).
func harden() {
	debug.SetTraceback("crash")
	_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
	signal.Ignore(syscall.SIGPIPE)
}
