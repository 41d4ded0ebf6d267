// Package cleanup owns the removal of what the evidence proves to be ours: it
// asks internal/cleanup/decide what to do, sends that, and tells it what was
// answered, until there is a result (A6).
//
// Its invariant: a DELETE leaves for an evidence.Acknowledged and for nothing
// else, with the UID of the receipt and an explicit propagation. The run ends
// through this very package (A4.1), so that there is one way to delete.
//
// It must not import internal/preflight, internal/render, helm.sh or
// internal/ui, and it never creates an object in a cluster.
package cleanup

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-project/holdfast/internal/cleanup/decide"
	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/kube"
)

// Cluster is what cleanup asks of a cluster; *kube.Client is one. Its methods
// are called side by side.
type Cluster interface {
	// ClusterIdentity reads the target Namespace and kube-system (A6.2).
	ClusterIdentity(ctx context.Context, namespace string) kube.ClusterReading
	// Observe reads one name, metadata only.
	Observe(ctx context.Context, place identity.Object) kube.Observation
	// Pods lists a namespace's Pods, metadata only.
	Pods(ctx context.Context, namespace string) ([]kube.Meta, error)
	// Delete sends one DELETE with the object's UID as its precondition.
	Delete(ctx context.Context, object identity.Object, propagation kube.Propagation) error
}

// Record is the directory of this cleanup; *journal.Cleanup is one.
type Record interface {
	// Report appends one line to preflight-cleanup.err.
	Report(line string) error
	// Observe keeps one readback.
	Observe(name string, readback any) error
	// Publish makes the result durable and returns its path.
	Publish(result evidence.Result) (string, error)
}

// Config is what one cleanup needs. Every field but Progress must be set.
type Config struct {
	Inventory *evidence.Inventory
	Cluster   Cluster
	Record    Record
	// Redact takes credentials and Secret values out of a text and escapes its
	// control characters, for preflight-cleanup.err.
	Redact func(string) string
	// Progress is told, on one goroutine, what changed; it may be nil.
	Progress func(Progress)
}

// Progress is one thing that changed, for whoever watches.
type Progress struct {
	Elapsed time.Duration
	Ref     identity.SlotRef
	Object  identity.Object
	// Text is a clause such as "deletion accepted"; it holds words of a server
	// and must be escaped before a terminal gets it.
	Text string
}

// Outcome is a finished cleanup.
type Outcome struct {
	Result evidence.Result
	// Path is where the result was published.
	Path string
}

// Bounds of one request. A DELETE is given more than the 34 s after which the
// API server answers a write with 504, so that its answer is not thrown away.
const (
	readTimeout   = 10 * time.Second
	deleteTimeout = 40 * time.Second
)

// Run removes what the inventory proves, and publishes the result. The exit
// code is Outcome.Result.Verdict.ExitCode().
//
// When ctx ends before the result is published, nothing more is sent, no result
// is written and the error is context.Cause(ctx) (A6.10); afterwards ctx has no
// effect. Any other error is a file of the record that could not be made
// durable: exit 1.
func Run(ctx context.Context, config Config) (Outcome, error) {
	began := time.Now()
	e := newEngine(config, began)
	conclusion, err := e.run(ctx)
	if err != nil {
		return Outcome{}, err
	}
	for _, line := range unconfirmed(conclusion) {
		if err := e.report(line); err != nil {
			return Outcome{}, err
		}
	}
	result := e.result(conclusion, time.Since(began))
	// The last moment at which a signal counts: what is published stays.
	if ctx.Err() != nil {
		return Outcome{}, fmt.Errorf("cleaning up: interrupted before the result was written: %w", context.Cause(ctx))
	}
	path, err := config.Record.Publish(result)
	if err != nil {
		return Outcome{}, err
	}
	return Outcome{Result: result, Path: path}, nil
}

// newState is the inventory in the words of the decision.
func newState(inventory *evidence.Inventory) decide.State {
	s := decide.State{Recorded: inventory.Parameters.Cluster, InFlight: map[decide.Request]bool{}}
	for _, a := range inventory.Resources {
		r := decide.Resource{Ref: a.Ref(), Object: a.Object(), Nonce: a.Nonce(), Released: a.Released()}
		for _, child := range a.Children() {
			r.Children = append(r.Children, decide.Child{Object: child})
		}
		s.Resources = append(s.Resources, r)
	}
	for _, slot := range inventory.Slots {
		if slot.State == evidence.StateAcknowledged {
			continue
		}
		s.Slots = append(s.Slots, decide.Slot{
			Ref: slot.Ref, Object: slot.Object, Nonce: slot.Nonce,
			// A state that this version does not know must hold the barrier.
			State: slotState(slot.State), Reconciled: slot.Reconciled,
		})
	}
	return s
}

func slotState(state evidence.State) decide.SlotState {
	switch state {
	case evidence.StatePlanned:
		return decide.Planned
	case evidence.StateRejected:
		return decide.Rejected
	default:
		return decide.Uncertain
	}
}
