package plunger

import (
	"fmt"
	"time"
)

// The fixed parts of a stop (B6.5, B6.7). The chart's template and the contract
// test take them from here.
const (
	// StopBound is how long the manager and its reconciles may take to stop.
	StopBound = 10 * time.Second
	// KillMargin is what is left after the drain before the kubelet's SIGKILL.
	KillMargin = 15 * time.Second
	// MinGrace and MaxGrace bound shutdownGracePeriodSeconds.
	MinGrace = 40 * time.Second
	MaxGrace = 140 * time.Second
	// DefaultGrace is its default.
	DefaultGrace = 90 * time.Second
	// leaseMargin is by how much the default lease is longer than it must be.
	leaseMargin = 8 * time.Second
)

// Timing are the durations that a stop and a takeover depend on.
type Timing struct {
	// Grace is the Pod's termination grace period.
	Grace time.Duration
	// Lease, Renew and Retry are the leader election's lease duration, renew
	// deadline and retry period. Lease zero means the default for the others.
	Lease, Renew, Retry time.Duration
}

// DefaultTiming is the timing without any flag.
func DefaultTiming() Timing {
	return Timing{Grace: DefaultGrace, Renew: 30 * time.Second, Retry: 2 * time.Second}
}

// Drain returns how long the drain may take: what the grace period leaves after
// the manager's stop and before the kill (B6.7).
func (t Timing) Drain() time.Duration { return t.Grace - StopBound - KillMargin }

// Complete fills in the default lease.
func (t Timing) Complete() Timing {
	if t.Lease == 0 {
		t.Lease = t.busy() + leaseMargin
	}
	return t
}

// busy is how long after its last renewal a leader may still write: it notices
// no later than after the renew deadline and a retry that it leads no longer,
// then stops, then drains (B6.5).
func (t Timing) busy() time.Duration { return t.Retry + t.Renew + StopBound + t.Drain() }

// Check refuses durations under which two could write at once, or a drain would
// be killed.
func (t Timing) Check() error {
	switch {
	case t.Grace < MinGrace || t.Grace > MaxGrace:
		return fmt.Errorf("checking --shutdown-grace-period-seconds: %d is not between %d and %d", t.Grace/time.Second, MinGrace/time.Second, MaxGrace/time.Second)
	case t.Retry <= 0 || t.Renew <= t.Retry:
		return fmt.Errorf("checking the leader election: the renew deadline %s must be longer than the retry period %s, and both positive", t.Renew, t.Retry)
	case t.Lease <= t.busy():
		return fmt.Errorf("checking --leader-election-lease-duration: %s does not outlast retry period %s, renew deadline %s, the stop of %s and the drain of %s: "+
			"the next flux-plunger would act while this one still writes; give more than %s", t.Lease, t.Retry, t.Renew, StopBound, t.Drain(), t.busy())
	default:
		return nil
	}
}
