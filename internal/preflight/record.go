package preflight

import (
	"cmp"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/journal"
	"github.com/holdfast-project/holdfast/internal/render"
)

// record makes the plan and the registry durable, in a directory that a run
// makes first, and then loads everything with the loader of cleanup: a run never
// creates what its cleanup would refuse (A1.6, A2.5).
func (r *run) record() error {
	if r.kind == evidence.Startup {
		if err := r.makeDirectory(); err != nil {
			return err
		}
	}
	records, err := r.journal.Register(r.kind, r.plan())
	if err != nil {
		return refuseBecause(err, r.withoutAttempt(), "registering the plan")
	}
	if _, err := r.journal.Load(r.expectation()); err != nil {
		return refuseBecause(err, r.withoutAttempt(), "loading the run's own evidence")
	}
	r.attempt = &attempt{Config: r.Config, records: records, nonce: r.nonce, image: r.rendered.Image}
	return nil
}

func (r *run) makeDirectory() error {
	parameters := r.parameters(r.rendered.Sources)
	iterations := cmp.Or(r.StretchIterations, evidence.StretchIterations)
	var err error
	if parameters.Values, err = evidence.Stretch(r.ValuesName, r.Values, newNonce(), iterations); err != nil {
		return refuseBecause(err, "", "making the evidence directory")
	}
	j, err := journal.Create(r.Files, r.Directory, journal.Setup{
		Parameters:      parameters,
		Executable:      r.Executable,
		AllowFileSystem: r.AllowFileSystem,
	})
	if err != nil {
		return refuseBecause(err, r.withoutDirectory(), "making the evidence directory")
	}
	r.journal = j
	r.outcome.Directory, r.outcome.HelperRetained = j.Path(), r.Executable != nil
	for _, warning := range j.Warnings() {
		r.Report.Warn(warning)
	}
	return nil
}

// withoutDirectory says what a failure to make the directory leaves, and whether the
// same command can be run again. A directory that was begun has no registry to clean
// up by, and its name is taken: a cleanup would refuse it, and so would the next run.
func (r *run) withoutDirectory() string {
	const nothing = "nothing was created in the cluster, and there is nothing to clean up: correct the cause"
	place := filepath.Clean(r.Directory)
	parent, err := r.Files.Open(filepath.Dir(place))
	if err == nil {
		_, err = parent.Lstat(filepath.Base(place))
		place = filepath.Join(parent.Path(), filepath.Base(place))
		_ = parent.Close()
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nothing + " and run the same command again; nothing of the directory is left"
	case err != nil:
		return nothing + ", remove " + place + " if it is there, and run the same command again"
	default:
		return nothing + ", remove " + place + ", which holds no record of a create, and run the same command again"
	}
}

// withoutAttempt says what to do when the directory is there and nothing was started
// in it: a resume may try again, and a run's directory is taken.
func (r *run) withoutAttempt() string {
	if r.kind == evidence.Resume {
		return "this resume has created nothing in the cluster: correct the cause and run the same command again"
	}
	return "nothing was created in the cluster: correct the cause and " + startAnew
}

// parameters are all but the values' digest, whose salt is chosen once.
func (r *run) parameters(from render.Sources) evidence.Parameters {
	return evidence.Parameters{
		Kubeconfig:       r.KubeconfigPath,
		KubeconfigSHA256: r.KubeconfigSHA256,
		Context:          r.Context,
		Namespace:        r.Namespace,
		Release:          r.Release,
		Profile:          evidence.Asset(from.Profile),
		Chart:            evidence.Asset(from.Chart),
		Images:           []evidence.Image{{Role: "controller", Reference: from.Image.String()}},
		TimeoutSeconds:   int64(r.Timeout / time.Second),
		Helper:           r.Helper,
		Cluster:          r.cluster,
		CreatedAt:        evidence.FormatTime(time.Now()),
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
