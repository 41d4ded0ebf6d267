package hook

import "time"

// The durations of the hook (B7.4, B7.5). The chart's template takes the first
// from here, held together by the chart's test.
const (
	// JobDeadline is the Job's activeDeadlineSeconds. It is under
	// helm-controller's default uninstall timeout of 300 s, so that the Job ends
	// with a reason of its own before helm-controller stops waiting for it.
	JobDeadline = 280 * time.Second
	// startBound is how much of the deadline may pass before this process runs:
	// scheduling and pulling an image that a node of the Deployment has already.
	// The Pod is not told when its Job began.
	startBound = 30 * time.Second
	// stopBound is how long the scaling, and the first listing of Pods, are tried.
	stopBound = 20 * time.Second
	// sweepReserve is kept for the sweep and the listing after it.
	sweepReserve = 70 * time.Second
	// listBound is how long a listing of releases is tried.
	listBound = 20 * time.Second
	// look is how often something that is waited for is looked at.
	look = 500 * time.Millisecond
)

// Timing are the durations of one run. [NewTiming] makes the shipped ones.
type Timing struct {
	// Grace is the grace period of flux-plunger's Pods.
	Grace time.Duration
	// Deadline is when this process must have ended, counted from its start.
	Deadline time.Duration
	// Stop bounds the scaling, List a listing of releases.
	Stop, List time.Duration
	// Reserve is kept for the sweep and the listing after it.
	Reserve time.Duration
	// Look is the pause between two looks.
	Look time.Duration
}

// NewTiming returns the shipped durations, for Pods with this grace period.
func NewTiming(grace time.Duration) Timing {
	return Timing{Grace: grace, Deadline: JobDeadline - startBound, Stop: stopBound, List: listBound, Reserve: sweepReserve, Look: look}
}

// podWait returns how long to wait for the Pods to end: their grace period, or
// less where the deadline leaves less beside what is reserved for the sweep
// (B7.4). It is never negative, which some waits would take for "for ever".
func (t Timing) podWait(elapsed time.Duration) time.Duration {
	return max(0, min(t.Grace, t.Deadline-t.Reserve-elapsed))
}
