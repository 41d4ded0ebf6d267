// Package preflight is the command line of upgrade-production-images: it judges
// the arguments, wires the parts together and picks the exit code.
//
// Its invariant: arguments are judged in one place before anything is opened,
// and exit code 2 is given only together with its one sentence, so that a crash
// or a half-done run can never be read as "refused, nothing happened" (A6.10).
// In every mode that locks the order is: arguments, the evidence directory
// without following a link, the lock, every read, and only then a client (A1.2).
//
// It must not import client-go or the Helm SDK: what talks to a cluster is
// internal/kube, what renders is internal/render.
package preflight

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-project/holdfast/internal/cleanup/advice"
	"github.com/holdfast-project/holdfast/internal/durable"
	run "github.com/holdfast-project/holdfast/internal/preflight"
	"github.com/holdfast-project/holdfast/internal/redact"
	"github.com/holdfast-project/holdfast/internal/render"
	"github.com/holdfast-project/holdfast/internal/ui"
)

// Env is what the command takes from its process.
type Env struct {
	// Args are the arguments without the program's name.
	Args []string
	// Stdout takes data, Stderr everything else.
	Stdout, Stderr *os.File
	// Getenv is os.Getenv; only NO_COLOR and TERM are asked for.
	Getenv func(string) string
	// Build is what the linker stamped.
	Build Build
	// Files is the file system that holds the evidence.
	Files durable.FS
}

// The exit codes that are chosen here (A6.10); a cleanup's come from its verdict.
const (
	exitComplete   = 0
	exitIncomplete = 1
	exitRefused    = 2
)

// command is one invocation.
type command struct {
	env     Env
	printer *ui.Printer
	// backlog is what the printer writes into; it is flushed at the end.
	backlog *ui.Backlog
	options options
	// redact knows the kubeconfig's credentials and, in a run, every Secret
	// value of the chart.
	redact *redact.Redactor
	// code is the exit code that the mode has chosen; errors choose their own.
	code int
}

// Main runs the command and returns its exit code. It never ends the process
// itself: the lock is held until the deferred calls of its caller have run.
func Main(env Env) (code int) {
	render.Quiet()
	c := newCommand(env)
	defer func() { c.finish(code) }()
	root := c.root()
	root.SetArgs(env.Args)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	err := root.Execute()
	if err == nil {
		return c.code
	}
	var refused *run.Refusal
	if errors.As(err, &refused) {
		hint := refused.Hint
		if hint == "" && c.options.cleanup {
			hint = advice.Next(exitRefused)
		}
		c.printer.Error(refused, hint)
		c.printer.End(exitRefused, refused.Sentence, hint)
		return exitRefused
	}
	hint := ""
	if c.options.cleanup {
		hint = noResult
	}
	c.printer.Error(err, hint)
	c.printer.End(exitIncomplete, err.Error(), hint)
	return exitIncomplete
}

func newCommand(env Env) *command {
	c := &command{env: env, redact: &redact.Redactor{}, backlog: ui.NewBacklog()}
	c.printer = c.printerOf(ui.Text)
	return c
}

func (c *command) printerOf(format ui.Format) *ui.Printer {
	options := ui.Detect(c.env.Stdout, c.env.Stderr, format, c.env.Getenv)
	options.Out, options.Err = c.backlog.Writer(options.Out), c.backlog.Writer(options.Err)
	return ui.New(options)
}

// patience is how long a terminal that is held up keeps the process that a signal
// ended. Any other end waits until everything is told, or for a signal: it can be a UID
// that nothing else records.
const patience = 2 * time.Second

func (c *command) finish(code int) {
	c.printer.Close()
	if code > 128 {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		c.backlog.Flush(ctx)
		return
	}
	// The code is settled by now: a signal only ends the wait.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	c.backlog.Flush(ctx)
}

const usage = `Usage:
  upgrade-production-images --preflight-only --kubeconfig FILE --context NAME --namespace NAME --release NAME \
      --evidence-dir DIR --chart CHART --values FILE --controller-image NAME@sha256:DIGEST [flags]
  upgrade-production-images --resume --preflight-only … --previous-process-settled --evidence-unrestored
  upgrade-production-images --cleanup-preflight --kubeconfig FILE --context NAME --namespace NAME --release NAME \
      --evidence-dir DIR --previous-process-settled --evidence-unrestored
  upgrade-production-images reconcile --evidence-dir DIR --slot ATTEMPT/SLOT --statement TEXT
  upgrade-production-images version

--preflight-only starts the candidate image in temporary Jobs of the release's
namespace, verifies it and removes everything again. When it is interrupted, run
--cleanup-preflight with the original values: it deletes exactly what the evidence
proves to be its own. When nothing is left, --resume, with the values of the
original run, preflights once more in the same evidence directory. reconcile
records a release owner's statement on a create whose outcome stayed unknown.

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}

Exit codes:
  0  passed or cleaned up: everything recorded is confirmed absent
  1  failed, or a create is uncertain, or a deletion is unconfirmed
  2  refused: nothing was created in the cluster, and nothing was changed or deleted
  3  everything else is confirmed gone, and what is uncertain is reconciled
  129, 130, 143  a signal ended it
`

const subUsage = `{{.Short}}

Usage:
  upgrade-production-images {{.Use}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}
`

func (c *command) root() *cobra.Command {
	root := &cobra.Command{
		Use:           ui.Program,
		Args:          noArguments,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var given []string
			cmd.Flags().Visit(func(f *pflag.Flag) { given = append(given, f.Name) })
			return c.runMode(given)
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(&cobra.Command{Hidden: true, Use: "no-help", Args: noArguments})
	root.SetUsageTemplate(usage)
	root.SetHelpTemplate(usage)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return &run.Refusal{Sentence: err.Error(), Hint: "see --help", Err: err}
	})
	c.options.register(root.Flags())
	for _, sub := range []*cobra.Command{c.reconcileCommand(), c.versionCommand()} {
		sub.SetUsageTemplate(subUsage)
		sub.SetHelpTemplate(subUsage)
		root.AddCommand(sub)
	}
	return root
}

func noArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return refuse("see --help", "%q is not an argument of this command", args[0])
	}
	return nil
}

func (c *command) runMode(given []string) error {
	// A refusal of the arguments is an end too, and a machine reads it. A cleanup
	// does not accept the flag.
	if !c.options.cleanup {
		c.printAs(c.options.output)
	}
	chosen, err := judge(c.options, given)
	if err != nil {
		return err
	}
	switch chosen {
	case modeCleanup:
		return c.cleanup()
	case modeResume:
		return c.resume()
	default:
		return c.preflight()
	}
}
