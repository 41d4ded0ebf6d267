// Package preflight is the run: it starts a candidate image in temporary Jobs of
// the target cluster, with every intention on disk before it is carried out and
// every outcome after, and removes everything again through the very engine that
// a later cleanup uses (A4).
//
// Its invariants: nothing is created before every check has passed; a create
// that was started is awaited and its outcome recorded, whatever else happens;
// and after an outcome that is unknown, or a fact that could not be recorded,
// nothing more is sent.
//
// It must not import the Helm SDK (it renders through internal/render) or
// internal/ui (it reports through an interface).
package preflight

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-project/holdfast/internal/cleanup"
	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/journal"
	"github.com/holdfast-project/holdfast/internal/preflight/decide"
	"github.com/holdfast-project/holdfast/internal/render"
)

// Outcome is what a run leaves for its operator, whatever its end.
type Outcome struct {
	// Directory is the evidence directory, empty when none was made.
	Directory string
	// HelperRetained is true when a copy of the executable is in it.
	HelperRetained bool
	// Inventory, Result and ResultPath are those of the run's own cleanup;
	// ResultPath is empty when there was none.
	Inventory  *evidence.Inventory
	Result     evidence.Result
	ResultPath string
	// Passed tells of each Job that succeeded, in the order of creation.
	Passed []PassedJob
}

// PassedJob is a Job that succeeded with the candidate's image.
type PassedJob struct {
	Slot identity.Slot
	// Took is the time from its release to the look that found it complete.
	Took time.Duration
	// ImageID is what its node says it ran.
	ImageID string
}

// run is one run, or one resume, from its judged inputs to its end.
type run struct {
	Config
	kind evidence.AttemptKind
	// earlier is what a resume's accepted evidence says of the attempts before
	// it; nil in a run.
	earlier  *evidence.Inventory
	nonce    string
	cluster  identity.Cluster
	rendered *render.Rendered
	pods     []decide.PreflightPod
	journal  *journal.Journal
	attempt  *attempt
	outcome  Outcome
}

// Run carries out a whole preflight. ctx is done at the first signal. The error
// is nil only when the candidate passed and everything is confirmed absent;
// otherwise it is one of this package's ends, or ErrInterrupted.
func Run(ctx context.Context, c Config) (Outcome, error) {
	r := &run{Config: c, kind: evidence.Startup, nonce: newNonce()}
	return r.toItsEnd(ctx, append([]step{
		{"checking the evidence directory's place", r.checkPlace},
		{"reading the cluster's identity", r.identify},
	}, r.checks()...))
}

// step is one thing that may refuse before anything is created.
type step struct {
	text string
	do   func(context.Context) error
}

// stepBound ends a step that a cluster draws out, with pages of a list that have no
// end or with answers that come just before each request's own bound.
const stepBound = 5 * time.Minute

// within carries out the step, and refuses when its time was over.
func (s step) within(ctx context.Context, bound time.Duration) error {
	bounded, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	err := s.do(bounded)
	if err == nil || ctx.Err() != nil || bounded.Err() == nil {
		return err
	}
	return &Refusal{
		Sentence: fmt.Sprintf("%s took longer than %s: %v", s.text, bound, err),
		Hint:     "see why the API server is slow, and run the same command again", Err: err,
	}
}

// checks are the steps that a run and a resume have in common.
func (r *run) checks() []step {
	return []step{
		{"rendering the chart", r.render},
		{"checking permissions", r.checkPermissions},
		{"looking for another preflight of this release", r.checkOthers},
		{"trying every object with a dry run", r.tryAll},
		{"comparing selectors", r.checkSelectors},
	}
}

func (r *run) toItsEnd(ctx context.Context, steps []step) (Outcome, error) {
	defer r.close()
	err := r.prepare(ctx, steps)
	if err == nil {
		err = r.carryOut(ctx)
		err = r.end(ctx, err)
	}
	return r.outcome, err
}

// prepare is everything that can refuse: nothing is created in the cluster. The
// plan, and a run's directory with it, comes after every check of the cluster,
// so that a refusal leaves nothing to clean up, and before the loader's own
// check (A1.6). A signal is no reason for what record refuses: it asks nobody.
func (r *run) prepare(ctx context.Context, steps []step) error {
	for _, step := range steps {
		if ctx.Err() != nil {
			return ErrInterrupted
		}
		r.Report.Step(step.text)
		if err := step.within(ctx, stepBound); err != nil {
			if ctx.Err() != nil {
				return ErrInterrupted
			}
			return err
		}
	}
	if ctx.Err() != nil {
		return ErrInterrupted
	}
	r.Report.Step("recording the plan")
	return r.record()
}

// render makes the objects from the chart, against the live cluster's
// capabilities (A4.4), and learns what must never be shown.
func (r *run) render(ctx context.Context) error {
	capabilities, err := r.Cluster.Capabilities(ctx)
	if err != nil {
		return r.unanswered(err, "reading the cluster's capabilities")
	}
	inputs, err := r.inputs()
	if err != nil {
		return err
	}
	inputs.Capabilities = render.Capabilities{KubeVersion: capabilities.KubeVersion, APIVersions: capabilities.APIVersions}
	if r.rendered, err = render.Render(ctx, inputs); err != nil {
		return refuseBecause(err, "", "rendering the preflight")
	}
	if r.earlier != nil {
		if err := r.sameAttempt(); err != nil {
			return err
		}
	}
	for _, value := range r.rendered.SecretValues() {
		r.Redact.Add(value)
	}
	return nil
}

// inputs are what the objects depend on, but for the cluster's capabilities.
func (r *run) inputs() (render.Inputs, error) {
	profile, err := render.Builtin()
	if r.Profile != nil {
		profile, err = render.ParseProfile(r.Profile)
	}
	if err != nil {
		return render.Inputs{}, refuseBecause(err, "", "reading the profile")
	}
	return render.Inputs{
		Profile: profile, Chart: r.Chart, Values: r.Values, Image: r.Image,
		Namespace: r.Namespace, Release: r.Release, Nonce: r.nonce, Deadline: r.Timeout,
		IdentityOnly: r.kind == evidence.Resume,
	}, nil
}

// carryOut creates, waits and verifies within --timeout.
func (r *run) carryOut(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Timeout, errTimeout)
	defer cancel()
	err := r.attempt.carryOut(ctx, r.rendered.Slots)
	for _, j := range r.attempt.jobs {
		if j.done {
			r.outcome.Passed = append(r.outcome.Passed, PassedJob{Slot: j.slot.Name, Took: j.took, ImageID: j.imageID})
		}
	}
	return err
}

// end finishes as A4.1 says for this end: through cleanup where every create is
// settled and every fact is on the disk, and by leaving everything alone
// otherwise. .upgrade-lock goes only when exit 0 is certain (A1.3).
func (r *run) end(ctx context.Context, cause error) error {
	if poison := r.journal.Err(); poison != nil {
		var lost *NotDurable
		if errors.As(cause, &lost) {
			return cause
		}
		return &NotDurable{Err: poison}
	}
	if !removes(cause) {
		return cause
	}
	if err := r.cleanUp(ctx, cause); err != nil {
		return err
	}
	switch {
	case cause != nil:
		return cause
	case r.outcome.Result.Verdict == evidence.ReconciledByHand:
		return ErrReconciled
	}
	if err := r.journal.Finish(); err != nil {
		return &NotDurable{Err: err}
	}
	return nil
}

// cleanUp removes everything through the engine of cleanup, on this run's own
// evidence and under its own lock.
func (r *run) cleanUp(ctx context.Context, cause error) error {
	r.Report.Step("removing everything that was created")
	inventory, err := r.journal.Load(r.expectation())
	if err != nil {
		return &Unfinished{Cause: cause, Err: err}
	}
	record, err := journal.NewCleanup(r.journal.Dir())
	if err != nil {
		return &Unfinished{Cause: cause, Err: err}
	}
	outcome, err := cleanup.Run(ctx, cleanup.Config{
		Inventory: inventory, Cluster: r.Cluster, Record: record, Redact: r.safe, Progress: r.progress,
	})
	switch {
	case errors.Is(err, context.Canceled) && cause != nil:
		return fmt.Errorf("%w; and its cleanup was %w", cause, ErrInterrupted)
	case errors.Is(err, context.Canceled):
		return ErrInterrupted
	case err != nil:
		return &Unfinished{Cause: cause, Err: err}
	}
	r.outcome.Inventory, r.outcome.Result, r.outcome.ResultPath = inventory, outcome.Result, outcome.Path
	for _, resource := range outcome.Result.Resources {
		r.Report.Slot(r.label(resource.SlotRef), string(resource.Outcome), "", mark(resource.Outcome))
	}
	switch outcome.Result.Verdict {
	case evidence.Complete, evidence.ReconciledByHand:
		return nil
	default:
		return &Unfinished{Cause: cause, Reasons: outcome.Result.Reasons}
	}
}

func (r *run) progress(p cleanup.Progress) {
	if p.Ref.Slot == "" {
		return // the reads of the Namespaces belong to no slot
	}
	r.Report.Slot(r.label(p.Ref), "cleanup", r.Redact.String(p.Text), Busy)
}

// label is how a slot is called: by its name alone in the attempt of this very
// run, and with its attempt in an earlier one.
func (r *run) label(ref identity.SlotRef) string {
	if ref.Attempt == r.attempt.records.Name() {
		return string(ref.Slot)
	}
	return ref.String()
}

func mark(outcome evidence.Outcome) Mark {
	if outcome == evidence.Absent {
		return Good
	}
	return Bad
}

func (r *run) close() {
	if r.journal != nil {
		_ = r.journal.Close()
	}
}

// newNonce returns 128 random bits in lower-case hex: an object that carries them
// was made by this run or by somebody who read its evidence.
func newNonce() string {
	var raw [16]byte
	_, _ = rand.Read(raw[:])
	return hex.EncodeToString(raw[:])
}
