// Package plunger is flux-plunger's command line: it judges the flags, builds
// the run's configuration and turns its end into an exit code.
//
// Its invariant: everything is judged before anything is sent. It must not use
// client-go itself: requests are made where their preconditions cannot be
// forgotten.
package plunger

import (
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/fluxcd/pkg/runtime/logger"
	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/holdfast-project/holdfast/internal/plunger"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// usageError marks what is wrong with the command line itself.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func noArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("unexpected argument %q", args[0])}
	}
	return nil
}

// Build says what was built (B7.8).
type Build struct {
	// Revision is the commit; "unknown" in a build that was not stamped.
	Revision string
	// Modified is true when tracked files differed from it.
	Modified bool
}

// Main runs the command line and returns the exit code. Data goes to stdout,
// all else to stderr.
func Main(args []string, build Build, stdout, stderr io.Writer) int {
	command := newCommand()
	command.AddCommand(newVersion(build))
	command.SetArgs(args)
	command.SetOut(stdout)
	command.SetErr(stderr)
	err := command.ExecuteContext(ctrl.SetupSignalHandler())
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "flux-plunger: %v\n", err)
		return exitUsage
	default:
		fmt.Fprintf(stderr, "flux-plunger: %v\n", err)
		return exitFailed
	}
}

func newVersion(build Build) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the build", Args: noArguments, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			modified := ""
			if build.Modified {
				modified = " (tracked files were modified)"
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "revision  %s%s\ngo        %s\n", build.Revision, modified, runtime.Version())
			return err
		},
	}
}

func newCommand() *cobra.Command {
	var f flags
	command := &cobra.Command{
		Use:   "flux-plunger",
		Short: "Recover HelmReleases stuck with \"has no deployed releases\", and see that a delete in between is still uninstalled",
		Long: "flux-plunger recovers HelmReleases stuck with \"has no deployed releases\", and keeps one that is deleted\n" +
			"meanwhile until helm-controller has really uninstalled it, or says what may be left.\n\n" +
			"Without a subcommand it runs the controller in a Pod. The subcommands run from a workstation with\n" +
			"KUBECONFIG and need no running flux-plunger; only release-fence and release-fences change anything.\n\n" +
			"Exit codes: 0 done; 1 failed, or the stop stayed incomplete; 2 a flag or argument was refused.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("unexpected argument %q: the controller takes flags only", args[0])}
			}
			return nil
		},
		SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := f.config()
			if err != nil {
				return usageError{err}
			}
			log := logger.NewLogger(f.log)
			logger.SetLogger(log)
			config.Log = log
			if config.Rest, err = plunger.Connect(f.client.QPS, f.client.Burst); err != nil {
				return err
			}
			return plunger.Run(cmd.Context(), config)
		},
	}
	command.CompletionOptions.DisableDefaultCmd = true
	command.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	f.bind(command.Flags())
	command.AddCommand(newReleaseFences(), newReleaseFence(), newFences(), newCandidates(), newExplain())
	return command
}
