package preflight

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-project/holdfast/internal/cleanup/advice"
	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/journal"
	run "github.com/holdfast-project/holdfast/internal/preflight"
)

// reconcileCommand records what a release owner found out about a create whose
// outcome stayed unknown (A6.15). It sends nothing.
func (c *command) reconcileCommand() *cobra.Command {
	var directory, slot, statement string
	cmd := &cobra.Command{
		Use:   "reconcile --evidence-dir DIR --slot ATTEMPT/SLOT --statement TEXT",
		Short: "state how an uncertain create was reconciled by hand",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			ref, err := judgeReconcile(directory, slot, statement)
			if err != nil {
				return err
			}
			if err := journal.Reconcile(c.env.Files, directory, ref, statement, time.Now()); err != nil {
				return refusedEvidence(err)
			}
			c.printer.Note("recorded for " + ref.String() + "; run --cleanup-preflight again: the slot stays unknown, but while its planned name reads absent it no longer holds the others")
			return nil
		},
	}
	cmd.Flags().SortFlags = false
	text(cmd.Flags(), &directory, flagEvidenceDir, "", "the original evidence `DIR`")
	text(cmd.Flags(), &slot, flagSlot, "", "the uncertain slot as `ATTEMPT/SLOT`, as the result's \"unknown\" lists it")
	text(cmd.Flags(), &statement, flagStatement, "", "the release owner's `TEXT`: what was found and done")
	return cmd
}

func judgeReconcile(directory, slot, statement string) (identity.SlotRef, error) {
	var missing []string
	for _, need := range []struct{ name, value string }{{flagEvidenceDir, directory}, {flagSlot, slot}, {flagStatement, statement}} {
		if strings.TrimSpace(need.value) == "" {
			missing = append(missing, "--"+need.name)
		}
	}
	if len(missing) > 0 {
		return identity.SlotRef{}, refuse("see reconcile --help", "reconcile needs %s", strings.Join(missing, ", "))
	}
	attempt, name, found := strings.Cut(slot, "/")
	ref := identity.SlotRef{Attempt: attempt, Slot: identity.Slot(name)}
	if !found || attempt == "" || !identity.ValidSlot(ref.Slot) {
		return identity.SlotRef{}, refuse("the cleanup's result lists uncertain slots under \"unknown\"", "--%s %q is not of the form ATTEMPT/SLOT", flagSlot, slot)
	}
	return ref, nil
}

// refusedEvidence turns a refusal of the evidence, or of a statement on it, into
// exit 2; any other error stays what it is.
func refusedEvidence(err error) error {
	var refused *evidence.Refusal
	switch {
	case errors.As(err, &refused):
		return &run.Refusal{Sentence: refused.Error(), Hint: advice.Next(exitRefused), Err: err}
	case errors.Is(err, journal.ErrMisuse):
		return &run.Refusal{Sentence: err.Error(), Hint: "the cleanup's result lists uncertain slots under \"unknown\"", Err: err}
	default:
		return fmt.Errorf("%w; correct that and run the same command again", err)
	}
}
