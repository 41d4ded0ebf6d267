package plunger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/drain"
)

// leaseBound is how long the last request may take; it is part of the margin
// before the kill.
const leaseBound = 5 * time.Second

// stop does the rest after the manager's end, in this order (B6.1):
//
//  1. Was the stop asked for? A manager that ended by itself has failed or lost
//     its Lease; another may lead already, and reconciles of ours may still run:
//     no drain, no Lease (B6.4).
//  2. Did we lead at all? One that never did holds nothing.
//  3. Does the Lease still name us? It could have been lost during the stop.
//  4. The drain, under its own deadline; also after a stop that overran, whose
//     error is reported all the same.
//  5. The Lease, as the very last request, if nothing of ours can still be on
//     its way: the stop kept its bound, and every write had an answer (B6.6).
func (run *instance) stop(ctx context.Context, stopped error) error {
	overran := errors.Is(stopped, context.DeadlineExceeded)
	if ctx.Err() == nil || stopped != nil && !overran {
		return stopped
	}
	if !run.led() || run.DryRun {
		run.Log.Info("stopped without having led, or dry: nothing to drain")
		return stopped
	}
	detached := context.WithoutCancel(ctx)
	if err := run.stillOurs(detached); err != nil {
		run.walker.Metrics.Drained("skipped", 0)
		return errors.Join(stopped, err)
	}
	outcome := run.drain(detached)
	if overran || outcome.Err != nil || !run.walker.Ledger.Definite() {
		run.Log.Info("the Lease is left to run out", "overran", overran, "definite", run.walker.Ledger.Definite())
		return errors.Join(stopped, outcome.Err)
	}
	run.giveUpLease(detached)
	return nil
}

// led reports whether this process was elected. Without leader election it was.
func (run *instance) led() bool {
	select {
	case <-run.manager.Elected():
		return true
	default:
		return false
	}
}

func (run *instance) stillOurs(ctx context.Context) error {
	if !run.LeaderElect {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, leaseBound)
	defer cancel()
	holder, err := run.objects.LeaseHolder(ctx, run.LeaseNamespace, contract.LeaderElectionID)
	var gone *kube.Gone
	switch {
	case errors.As(err, &gone):
		return fmt.Errorf("draining: Lease %s/%s is gone, so another may lead; nothing is drained", run.LeaseNamespace, contract.LeaderElectionID)
	case err != nil:
		// The Lease cannot be read now. It was ours when the manager stopped, and
		// outlasts the drain (B6.5).
		run.Log.Error(err, "reading the Lease before the drain")
		return nil
	case holder != run.Identity:
		return fmt.Errorf("draining: the Lease names %q, not us; nothing is drained", holder)
	default:
		return nil
	}
}

func (run *instance) drain(ctx context.Context) drain.Outcome {
	ctx, cancel := context.WithTimeout(ctx, run.Timing.Drain())
	defer cancel()
	began := run.Now()
	outcome := drain.Drain{Walker: run.walker, Namespace: run.Namespace, Selector: run.Selector.String()}.Run(ctx)
	run.walker.Metrics.Drained(outcome.Word(), run.Now().Sub(began))
	run.Log.Info("drained", "outcome", outcome.Word(), "kept", outcome.Kept, "took", run.Now().Sub(began))
	return outcome
}

// giveUpLease ends our term at once. A Lease that cannot be given up runs out, which
// is no failure of the stop.
func (run *instance) giveUpLease(ctx context.Context) {
	if !run.LeaderElect {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaseBound)
	defer cancel()
	if err := run.objects.ReleaseLease(ctx, run.LeaseNamespace, contract.LeaderElectionID, run.Identity); err != nil {
		run.Log.Error(err, "giving up the Lease, which is left to run out")
	}
}
