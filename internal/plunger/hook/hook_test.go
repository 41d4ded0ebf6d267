package hook

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-project/holdfast/internal/plunger"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
	"github.com/holdfast-project/holdfast/internal/plunger/unfence"
)

// B7.4: the smaller of the grace period and what the deadline leaves; never
// negative.
func TestPodWait(t *testing.T) {
	timing := Timing{Grace: 90 * time.Second, Deadline: 250 * time.Second, Reserve: 70 * time.Second}
	for elapsed, want := range map[time.Duration]time.Duration{
		0:                 90 * time.Second,
		90 * time.Second:  90 * time.Second,
		91 * time.Second:  89 * time.Second,
		179 * time.Second: time.Second,
		180 * time.Second: 0,
		400 * time.Second: 0,
	} {
		if got := timing.podWait(elapsed); got != want {
			t.Errorf("after %s the wait is %s, want %s", elapsed, got, want)
		}
	}
}

// B7.4, B7.5: under the longest grace period too, everything fits: the scaling
// may take all its time and every Pod its grace period, and there is still the
// reserve for the sweep and both listings; and the Job ends before
// helm-controller's uninstall timeout.
func TestDurationsFit(t *testing.T) {
	const uninstallTimeout = 300 * time.Second
	if JobDeadline >= uninstallTimeout {
		t.Errorf("the Job's deadline %s is not under %s", JobDeadline, uninstallTimeout)
	}
	for _, grace := range []time.Duration{plunger.MinGrace, plunger.DefaultGrace, plunger.MaxGrace} {
		timing := NewTiming(grace)
		if timing.Deadline+startBound > JobDeadline {
			t.Errorf("the run's %s and the Pod's start %s exceed the Job's deadline %s", timing.Deadline, startBound, JobDeadline)
		}
		if got := timing.podWait(timing.Stop); got != grace {
			t.Errorf("after a slow scaling Pods with a grace period of %s are awaited for %s", grace, got)
		}
		if timing.Reserve < 2*timing.List {
			t.Errorf("the reserve %s does not hold two listings of %s", timing.Reserve, timing.List)
		}
	}
}

// B7.4: what could not be done in time is told with its cause, not with the time.
func TestRetryTellsTheCause(t *testing.T) {
	r := &run{Config: Config{Timing: Timing{Look: time.Millisecond}}}
	cause, tries := errors.New("404 NotFound"), 0
	err := r.retry(t.Context(), 50*time.Millisecond, func(ctx context.Context) error {
		if tries++; tries == 1 {
			return cause
		}
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, cause) {
		t.Errorf("it ends with %v", err)
	}
	err = r.retry(t.Context(), time.Millisecond, func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a first try that is cut off ends with %v", err)
	}
}

// B7.2: what is said about a release that is let go.
func TestToldNamesTheRelease(t *testing.T) {
	live := decide.Release{Namespace: "team", Name: "db", Spec: decide.Spec{TargetNamespace: "prod"}}
	deleted := live
	deleted.DeletionTimestamp = time.Unix(1, 0)
	held := live
	held.Spec.Suspend = new(true)
	for name, c := range map[string]struct {
		outcome unfence.Outcome
		says    []string
		not     string
	}{
		"live":           {unfence.Outcome{Release: &live, Removed: 1}, []string{"team/db", "not being deleted"}, "suspension"},
		"live, lifted":   {unfence.Outcome{Release: &live, Removed: 1, Lifted: true}, []string{"team/db", "lifted"}, "left its suspension"},
		"another's hold": {unfence.Outcome{Release: &held, Removed: 1}, []string{"left its suspension"}, "lifted"},
		"terminating": {unfence.Outcome{Release: &deleted, Removed: 1},
			[]string{"team/db", "before helm-controller uninstalled it", "--namespace team --selector owner=helm,name=prod-db"}, "suspension"},
	} {
		line := told(c.outcome)
		for _, says := range c.says {
			if !strings.Contains(line, says) {
				t.Errorf("%s: %q does not say %q", name, line, says)
			}
		}
		if strings.Contains(line, c.not) {
			t.Errorf("%s: %q says %q", name, line, c.not)
		}
	}
}
