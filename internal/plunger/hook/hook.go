// Package hook is what runs before flux-plunger's chart is uninstalled: it stops
// flux-plunger, then lets every release go that still carries the fence (B7.2).
//
// Its invariants: no fence is touched before flux-plunger was asked to stop and
// the releases could be listed; a run that returns nil has seen, after its sweep,
// that no fence is left; every release that is let go, and every one that could
// not be, is named (B7.4). It may be run again at any time.
//
// It must not import a manager, a cache, fence or drain. Its writes to releases are
// those of package unfence.
package hook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
	"github.com/holdfast-project/holdfast/internal/plunger/gather"
	"github.com/holdfast-project/holdfast/internal/plunger/unfence"
)

// Config is what one run needs.
type Config struct {
	// Objects is the client, whose field manager is contract.FieldManager.
	Objects *kube.Objects
	// Namespace is flux-plunger's own, with its Deployment, Pods and Lease.
	Namespace string
	// Deployment is the name of its Deployment.
	Deployment string
	// Pods selects its Pods, in the usual text form. It must not select the
	// hook's own.
	Pods string
	// WatchNamespace, empty for all, and WatchSelector are what the Deployment
	// watches: another shard's fences are another hook's.
	WatchNamespace, WatchSelector string
	Timing                        Timing
	// Report takes the lines that a person reads in the Job's log.
	Report io.Writer
	// Now is the clock.
	Now func() time.Time
}

// run is one run in progress.
type run struct {
	Config
	began    time.Time
	reader   gather.Reader
	releaser unfence.Releaser
}

// Run stops flux-plunger, sweeps, and lists again. Its error is the Job's
// failure: helm-controller then leaves the release of the chart as it is, and
// tries the uninstall again with the hook included, whereas an end without error
// would let the chart go and strand the fence.
func Run(ctx context.Context, config Config) error {
	ctx, cancel := context.WithTimeout(ctx, config.Timing.Deadline)
	defer cancel()
	r := &run{Config: config, began: config.Now(), reader: gather.NewReader(config.Objects), releaser: unfence.New(config.Objects)}
	if err := r.stop(ctx); err != nil {
		return fmt.Errorf("stopping flux-plunger; no fence was touched: %w", err)
	}
	carrying, err := r.list(ctx)
	if err != nil {
		return fmt.Errorf("listing fenced releases; no fence was touched: %w", err)
	}
	failed := r.sweep(ctx, carrying)
	again, err := r.list(ctx)
	if err != nil {
		return errors.Join(failed, fmt.Errorf("listing fenced releases after the sweep: %w", err))
	}
	for _, release := range again {
		failed = errors.Join(failed, fmt.Errorf("HelmRelease %s carries a fence after the sweep", release.Ref()))
	}
	if failed != nil {
		return failed
	}
	r.deleteLease(ctx)
	r.say("no release carries a fence: done")
	return nil
}

func (r *run) say(format string, args ...any) {
	// A report that cannot be written must not keep fences in place.
	_, _ = fmt.Fprintf(r.Report, format+"\n", args...)
}

// list lists what carries something of ours, and tries again for a while: without
// a listing nothing is known, and nothing may be touched.
func (r *run) list(ctx context.Context) ([]decide.Release, error) {
	var releases []decide.Release
	err := r.retry(ctx, r.Timing.List, func(ctx context.Context) (err error) {
		releases, err = r.reader.Releases(ctx, r.WatchNamespace, r.WatchSelector)
		return err
	})
	if err != nil {
		return nil, err
	}
	var carrying []decide.Release
	for _, release := range releases {
		if unfence.Carries(release) {
			carrying = append(carrying, release)
		}
	}
	return carrying, nil
}

// sweep lets each of them go. One that fails does not keep the others.
func (r *run) sweep(ctx context.Context, carrying []decide.Release) error {
	var failed error
	for _, release := range carrying {
		outcome, err := r.releaser.LetGo(ctx, release.Namespace, release.Name, release.UID)
		if outcome.Lifted || outcome.Yielded || outcome.Removed > 0 || outcome.Unanswered && err == nil {
			r.say("%s", told(outcome))
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// told is the line about one release that was let go.
func told(outcome unfence.Outcome) string {
	release := outcome.Release
	var line strings.Builder
	if release.Terminating() {
		fmt.Fprintf(&line, "let go of HelmRelease %s before helm-controller uninstalled it: see whether anything of it is left with"+
			" kubectl get secrets --namespace %s --selector owner=helm,name=%s", release.Ref(), release.StorageNamespace(), release.ReleaseName())
	} else {
		fmt.Fprintf(&line, "let go of HelmRelease %s, which is not being deleted: its recovery is left unfinished", release.Ref())
	}
	switch {
	case outcome.Lifted:
		line.WriteString("; lifted flux-plunger's suspension")
	case release.Suspended() && release.Suspension() != decide.Ours:
		line.WriteString("; left its suspension, which another manager wants")
	}
	if outcome.Unanswered {
		line.WriteString("; a request got no answer, and may have been carried out")
	}
	return line.String()
}

// deleteLease removes the leader's Lease, which would otherwise be the one thing
// that an uninstalled chart leaves behind (B7.7). Every fence is gone by then, and
// a Lease that nobody holds does no harm: a failure is only told.
func (r *run) deleteLease(ctx context.Context) {
	err := r.retry(ctx, r.Timing.Stop, func(ctx context.Context) error {
		lease, err := r.Config.Objects.GetMetadata(ctx, kube.Leases(), r.Namespace, contract.LeaderElectionID)
		if err == nil {
			err = r.Config.Objects.DeleteExactly(ctx, kube.Leases().Named(lease))
		}
		return err
	})
	var gone *kube.Gone
	switch {
	case err == nil:
		r.say("deleted Lease %s/%s", r.Namespace, contract.LeaderElectionID)
	case !errors.As(err, &gone):
		r.say("Lease %s/%s stays, which does no harm: %v", r.Namespace, contract.LeaderElectionID, err)
	}
}
