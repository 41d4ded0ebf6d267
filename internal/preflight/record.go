package preflight

import (
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
		return refuseBecause(err, "", "registering the plan")
	}
	if _, err := r.journal.Load(r.expectation()); err != nil {
		return refuseBecause(err, "", "loading the run's own evidence")
	}
	r.attempt = &attempt{Config: r.Config, records: records, nonce: r.nonce, image: r.rendered.Image}
	return nil
}

func (r *run) makeDirectory() error {
	j, err := journal.Create(r.Files, r.Directory, journal.Setup{
		Parameters:      r.parameters(r.rendered.Sources),
		Executable:      r.Executable,
		AllowFileSystem: r.AllowFileSystem,
	})
	if err != nil {
		return refuseBecause(err, "nothing was created in the cluster: correct the cause and start again in another directory", "making the evidence directory")
	}
	r.journal = j
	r.outcome.Directory, r.outcome.HelperRetained = j.Path(), r.Executable != nil
	for _, warning := range j.Warnings() {
		r.Report.Warn(warning)
	}
	return nil
}

func (r *run) parameters(from render.Sources) evidence.Parameters {
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
		Profile:          asset("", from.Profile),
		Chart:            asset("", from.Chart),
		Values:           asset(r.ValuesName, from.Values),
		Images:           []evidence.Image{{Role: "controller", Reference: from.Image.String()}},
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
