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

// run is one run from its judged inputs to its end.
type run struct {
	Config
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
	r := &run{Config: c, nonce: newNonce()}
	defer r.close()
	err := r.prepare(ctx)
	if err == nil {
		err = r.carryOut(ctx)
		err = r.end(ctx, err)
	}
	return r.outcome, err
}

// prepare is everything that can refuse: nothing is created in the cluster. The
// evidence directory comes after every check of the cluster, so that a refused
// run leaves nothing to clean up, and before the loader's own check (A1.6).
func (r *run) prepare(ctx context.Context) error {
	for _, step := range []struct {
		text string
		do   func(context.Context) error
	}{
		{"checking the evidence directory's place", r.checkPlace},
		{"reading the cluster's identity", r.identify},
		{"rendering the chart", r.render},
		{"checking permissions", r.checkPermissions},
		{"looking for another preflight of this release", r.checkOthers},
		{"trying every object with a dry run", r.tryAll},
		{"comparing selectors", r.checkSelectors},
		{"recording the plan", r.record},
	} {
		if ctx.Err() != nil {
			return ErrInterrupted
		}
		r.Report.Step(step.text)
		if err := step.do(ctx); err != nil {
			if ctx.Err() != nil && r.journal == nil {
				return ErrInterrupted
			}
			return err
		}
	}
	return nil
}

// record makes the directory, the plan and the registry durable, and then loads
// them with the loader of cleanup: a run never creates what its cleanup would
// refuse (A1.6, A2.5).
func (r *run) record(context.Context) error {
	j, err := journal.Create(r.Files, r.Directory, journal.Setup{
		Parameters:      r.parameters(),
		Executable:      r.Executable,
		AllowFileSystem: r.AllowFileSystem,
	})
	if err != nil {
		return refuseBecause(err, "", "making the evidence directory")
	}
	r.journal = j
	r.outcome.Directory, r.outcome.HelperRetained = j.Path(), r.Executable != nil
	for _, warning := range j.Warnings() {
		r.Report.Warn(warning)
	}
	records, err := j.Register(evidence.Startup, r.plan())
	if err != nil {
		return refuseBecause(err, "", "registering the plan")
	}
	if _, err := j.Load(r.expectation()); err != nil {
		return refuseBecause(err, "", "loading the run's own evidence")
	}
	r.attempt = &attempt{Config: r.Config, records: records, nonce: r.nonce, image: r.rendered.Image}
	return nil
}

// render makes the objects from the chart, against the live cluster's
// capabilities (A4.4), and learns what must never be shown.
func (r *run) render(ctx context.Context) error {
	capabilities, err := r.Cluster.Capabilities(ctx)
	if err != nil {
		return r.unanswered(err, "reading the cluster's capabilities")
	}
	profile, err := r.profile()
	if err != nil {
		return refuseBecause(err, "", "reading the profile")
	}
	r.rendered, err = render.Render(ctx, render.Inputs{
		Profile: profile, Chart: r.Chart, Values: r.Values, Image: r.Image,
		Namespace: r.Namespace, Release: r.Release, Nonce: r.nonce, Deadline: r.Timeout,
		Capabilities: render.Capabilities{KubeVersion: capabilities.KubeVersion, APIVersions: capabilities.APIVersions},
	})
	if err != nil {
		return refuseBecause(err, "", "rendering the preflight")
	}
	for _, value := range r.rendered.SecretValues() {
		r.Redact.Add(value)
	}
	return nil
}

func (r *run) profile() (*render.Profile, error) {
	if r.Profile == nil {
		return render.Builtin()
	}
	return render.ParseProfile(r.Profile)
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
	if cause != nil {
		return cause
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
		Inventory: inventory, Cluster: r.Cluster, Record: record, Redact: r.Redact.String, Progress: r.progress,
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return ErrInterrupted
	case err != nil:
		return &Unfinished{Cause: cause, Err: err}
	}
	r.outcome.Inventory, r.outcome.Result, r.outcome.ResultPath = inventory, outcome.Result, outcome.Path
	for _, resource := range outcome.Result.Resources {
		r.Report.Slot(string(resource.Slot), string(resource.Outcome), "", mark(resource.Outcome))
	}
	if outcome.Result.Verdict != evidence.Complete {
		return &Unfinished{Cause: cause, Reasons: outcome.Result.Reasons}
	}
	return nil
}

func (r *run) progress(p cleanup.Progress) {
	if p.Ref.Slot == "" {
		return // the reads of the Namespaces belong to no slot
	}
	r.Report.Slot(string(p.Ref.Slot), "cleanup", p.Text, Busy)
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

func (r *run) parameters() evidence.Parameters {
	asset := func(name string, a render.Asset) evidence.Asset {
		if name == "" {
			name = a.Name
		}
		return evidence.Asset{Name: name, Version: a.Version, SHA256: a.SHA256}
	}
	return evidence.Parameters{
		Kubeconfig:       r.KubeconfigPath,
		KubeconfigSHA256: r.KubeconfigSHA256,
		Context:          r.Context,
		Namespace:        r.Namespace,
		Release:          r.Release,
		Profile:          asset("", r.rendered.Profile),
		Chart:            asset("", r.rendered.Chart),
		Values:           asset(r.ValuesName, r.rendered.Values),
		Images:           []evidence.Image{{Role: "controller", Reference: r.rendered.Image.String()}},
		TimeoutSeconds:   int64(r.Timeout / time.Second),
		Helper:           r.Helper,
		Cluster:          r.cluster,
		CreatedAt:        time.Now().UTC().Format(time.RFC3339),
	}
}

func (r *run) plan() evidence.Plan {
	plan := evidence.Plan{Namespace: r.Namespace, Release: r.Release, Nonce: r.nonce}
	for _, slot := range r.rendered.Slots {
		plan.Slots = append(plan.Slots, evidence.PlannedSlot{
			Slot:        slot.Name,
			APIVersion:  slot.Object.APIVersion,
			Kind:        slot.Object.Kind,
			Namespace:   slot.Object.Namespace,
			Name:        slot.Object.Name,
			Manifest:    slot.Manifest,
			SecretShape: slot.SecretShape,
		})
	}
	return plan
}

func (r *run) expectation() evidence.Expectation {
	return evidence.Expectation{
		KubeconfigPath:   r.KubeconfigPath,
		KubeconfigSHA256: r.KubeconfigSHA256,
		Context:          r.Context,
		Namespace:        r.Namespace,
		Release:          r.Release,
		Helper:           r.Helper,
	}
}

// newNonce returns 128 random bits in lower-case hex: an object that carries them
// was made by this run or by somebody who read its evidence.
func newNonce() string {
	var raw [16]byte
	_, _ = rand.Read(raw[:])
	return hex.EncodeToString(raw[:])
}
