package preflight

import (
	"context"
	"errors"

	"github.com/holdfast-project/holdfast/internal/cleanup"
	"github.com/holdfast-project/holdfast/internal/cleanup/advice"
	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/journal"
	run "github.com/holdfast-project/holdfast/internal/preflight"
	"github.com/holdfast-project/holdfast/internal/ui"
)

// cleanup runs --cleanup-preflight. The arguments are judged; the order of the
// rest is the promise (A1.2, A5): the directory without following a link, its
// lock, every read, and only then a client.
func (c *command) cleanup() error {
	signals := watch(context.Background())
	defer signals.release()

	dir, err := evidence.Open(c.env.Files, c.options.evidenceDir)
	if err != nil {
		return refusedEvidence(err)
	}
	defer func() { _ = dir.Close() }()
	kubeconfig, inventory, err := c.accept(dir)
	if err != nil {
		return err
	}
	client, err := c.client(kubeconfig)
	if err != nil {
		return err
	}
	record, err := journal.NewCleanup(dir)
	if err != nil {
		return err
	}
	outcome, err := cleanup.Run(signals.first, cleanup.Config{
		Inventory: inventory, Cluster: client, Record: record,
		Redact:   func(text string) string { return ui.Escape(c.redact.String(text)) },
		Progress: func(p cleanup.Progress) { c.showProgress(p) },
	})
	return c.endCleanup(signals, inventory, outcome, err)
}

// accept validates the evidence in dir against the target that the command line
// names and the running executable (A5.2 to A5.10). Nothing is sent.
func (c *command) accept(dir *evidence.Dir) (protected, *evidence.Inventory, error) {
	o := c.options
	kubeconfig, err := readProtected(flagKubeconfig, o.kubeconfig, maxKubeconfigBytes)
	if err != nil {
		return protected{}, nil, err
	}
	self, err := helper(c.env.Build)
	if err != nil {
		return protected{}, nil, &run.Refusal{Sentence: err.Error(), Err: err}
	}
	inventory, err := dir.Load(evidence.Expectation{
		KubeconfigPath: kubeconfig.path, KubeconfigSHA256: kubeconfig.sha256,
		Context: o.context, Namespace: o.namespace, Release: o.release, Helper: self,
	})
	if err != nil {
		return protected{}, nil, refusedEvidence(err)
	}
	for _, warning := range inventory.Warnings {
		c.printer.Warn(warning)
	}
	return kubeconfig, inventory, nil
}

// noResult is what to do after an exit 1 without a result, in which nothing could be
// inspected.
const noResult = "next: correct what the line above names and run the same command again; without a result, cleanup has not been established"

func (c *command) showProgress(p cleanup.Progress) {
	if p.Ref.Slot != "" {
		c.printer.Slot(p.Ref.String(), "cleanup", c.redact.String(p.Text), ui.Busy)
	}
}

// endCleanup prints the result's path on stdout, and on stderr how it ended and what
// to do next (A6.10). After the result is durable a signal changes nothing.
func (c *command) endCleanup(signals *interrupts, inventory *evidence.Inventory, outcome cleanup.Outcome, err error) error {
	c.printer.Close()
	if err != nil {
		c.code = exitIncomplete
		hint := noResult
		// A result that could not be made durable is no interruption, though a
		// signal may have come while it was tried (A6.10).
		if number, ok := signals.code(); ok && errors.Is(err, context.Canceled) {
			c.code = number
			err = errors.New("interrupted by a signal; no result was written")
			hint = advice.Next(c.code)
		}
		c.printer.Error(err, hint)
		return nil
	}
	c.printer.Path(outcome.Path)
	for _, line := range advice.Summary(inventory, outcome.Result, outcome.Path) {
		c.printer.Step(line)
	}
	c.code = outcome.Result.Verdict.ExitCode()
	return nil
}
