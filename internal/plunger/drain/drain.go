// Package drain ends what flux-plunger holds when it stops (B6).
//
// It runs after the manager, reads and writes straight to the API server, and
// decides as the reconciler does, with Draining set. Its invariants: it ends at
// its deadline; a fence of a terminating release is dropped for the same reasons
// as ever and for no other (B6.2); a release that could not be looked at keeps
// everything and is named.
//
// It must not import a manager or a cache.
package drain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"

	"github.com/holdfast-project/holdfast/internal/plunger/decide"
	"github.com/holdfast-project/holdfast/internal/plunger/walk"
)

const (
	// look is how often a terminating release is looked at while
	// helm-controller uninstalls it. Each is one GET.
	look = time.Second
	// retry is the wait after a listing that failed.
	retry = 500 * time.Millisecond
)

// Drain is one drain.
type Drain struct {
	Walker *walk.Walker
	// Namespace and Selector are what the manager watched.
	Namespace, Selector string
}

// Outcome says how a drain ended.
type Outcome struct {
	// Kept are the releases whose fence had to stay.
	Kept []string
	// Err is nil where every release was looked at and every write answered.
	Err error
}

// Word is the outcome's name in the metric.
func (o Outcome) Word() string {
	switch {
	case o.Err != nil:
		return "incomplete"
	case len(o.Kept) > 0:
		return "kept"
	default:
		return "clean"
	}
}

// Run drains until nothing is held or ctx ends, which its caller bounds. It asks
// once more at the end: a reconcile that overran its stop may have fenced a
// release after the first listing.
func (d Drain) Run(ctx context.Context) Outcome {
	for {
		held, err := d.list(ctx)
		if err != nil {
			return Outcome{Err: err}
		}
		if len(held) == 0 {
			return Outcome{}
		}
		left, err := d.work(ctx, held)
		if err == nil && len(left) == 0 {
			continue
		}
		outcome := Outcome{Err: err}
		for _, c := range left {
			outcome.Kept = append(outcome.Kept, c.Namespace+"/"+c.Name)
			d.tellKept(ctx, c)
		}
		return outcome
	}
}

// work passes over what is held until it is empty or the time is over. Only what
// failed in the last pass is a failure: earlier ones were tried again.
func (d Drain) work(ctx context.Context, held []*walk.Case) (left []*walk.Case, failures error) {
	for left = held; len(left) > 0 && ctx.Err() == nil; {
		left, failures = d.pass(ctx, left)
		if len(left) > 0 {
			sleep(ctx, look)
		}
	}
	return left, failures
}

// list finds what is held; a listing that fails is retried, since without it
// nothing can be given up (B6.2).
func (d Drain) list(ctx context.Context) ([]*walk.Case, error) {
	for {
		releases, err := d.Walker.Reader.Releases(ctx, d.Namespace, d.Selector)
		if err == nil {
			return heldOf(releases), nil
		}
		logr.FromContextOrDiscard(ctx).Error(err, "listing what is held, which is tried again")
		if sleep(ctx, retry); ctx.Err() != nil {
			return nil, fmt.Errorf("draining: %w", errors.Join(err, ctx.Err()))
		}
	}
}

// heldOf picks the releases that carry something of ours, each with the others of
// the same claim (B4.1b).
func heldOf(releases []decide.Release) []*walk.Case {
	claims := map[string][]decide.Release{}
	for _, r := range releases {
		claims[r.Claim()] = append(claims[r.Claim()], r)
	}
	var held []*walk.Case
	for i := range releases {
		r := releases[i]
		if carries(r) {
			others := slices.DeleteFunc(slices.Clone(claims[r.Claim()]), func(other decide.Release) bool { return other.Ref() == r.Ref() })
			held = append(held, &walk.Case{Namespace: r.Namespace, Name: r.Name, Release: &r, Claimants: others, Draining: true})
		}
	}
	return held
}

// pass walks each of them once and returns those that still hold something.
// Live ones come first: for them everything is done in one write, and a
// terminating one may take all the time there is.
func (d Drain) pass(ctx context.Context, held []*walk.Case) ([]*walk.Case, error) {
	slices.SortStableFunc(held, func(a, b *walk.Case) int {
		return terminating(a) - terminating(b)
	})
	var left []*walk.Case
	var failures error
	for _, c := range held {
		again := &walk.Case{Namespace: c.Namespace, Name: c.Name, Release: c.Release, Claimants: c.Claimants, Draining: true}
		err := d.Walker.Look(ctx, again)
		if err == nil {
			_, err = d.Walker.Walk(ctx, again)
		}
		switch {
		case err != nil && ctx.Err() == nil:
			failures = errors.Join(failures, fmt.Errorf("draining HelmRelease %s/%s: %w", c.Namespace, c.Name, err))
			left = append(left, again)
		case err != nil, again.Release != nil && carries(*again.Release):
			left = append(left, again)
		}
	}
	return left, failures
}

// carries reports whether the release carries something of ours.
func carries(r decide.Release) bool {
	owner := r.Suspension()
	return r.Fenced() || owner == decide.Ours || owner == decide.Shared
}

func terminating(c *walk.Case) int {
	if c.Release != nil && c.Release.Terminating() {
		return 1
	}
	return 0
}

// tellKept says that a fence outlives this process (B6.2).
func (d Drain) tellKept(ctx context.Context, c *walk.Case) {
	if c.Release == nil {
		return
	}
	d.Walker.Teller.Tell(ctx, *c.Release, []decide.Event{decide.Kept(*c.Release)}, d.Walker.Now())
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
