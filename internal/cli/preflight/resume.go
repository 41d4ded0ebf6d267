package preflight

import (
	"context"
	"errors"

	"github.com/holdfast-project/holdfast/internal/evidence"
	run "github.com/holdfast-project/holdfast/internal/preflight"
)

// resume runs --resume --preflight-only (A4.7). The arguments are judged; until
// the client is built the order is that of a cleanup: the directory without
// following a link, its lock, and every read (A1.2).
func (c *command) resume() error {
	signals := watch(context.Background())
	defer signals.release()

	dir, err := evidence.Open(c.env.Files, c.options.evidenceDir)
	if err != nil {
		return refusedEvidence(err)
	}
	config, inventory, err := c.resumeConfig(signals, dir)
	if err != nil {
		_ = dir.Close()
		return c.refuseResume(signals, inventory, err)
	}
	outcome, err := run.Resume(signals.first, config, dir, inventory)
	c.printer.Close()
	return c.endRun(signals, outcome, err)
}

// refuseResume ends a resume whose inputs are refused. Once the evidence is accepted
// the cleanup command goes with it (A4.1); where it is not, that would be refused too.
func (c *command) refuseResume(signals *interrupts, accepted *evidence.Inventory, err error) error {
	var refused *run.Refusal
	if accepted == nil || !errors.As(err, &refused) {
		return err
	}
	outcome := run.Outcome{Directory: accepted.Journal.Directory.Path, HelperRetained: accepted.Parameters.HelperRetained}
	return c.endRun(signals, outcome, refused)
}

// resumeConfig accepts the evidence before it reads anything else. The recorded
// helper is the running one, or the evidence would not have been accepted.
func (c *command) resumeConfig(signals *interrupts, dir *evidence.Dir) (run.Config, *evidence.Inventory, error) {
	kubeconfig, inventory, err := c.accept(dir)
	if err != nil {
		return run.Config{}, nil, err
	}
	config, err := c.attemptConfig(signals, kubeconfig, inventory.Parameters.Helper)
	return config, inventory, err
}
