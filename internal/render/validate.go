package render

import (
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/holdfast-project/holdfast/internal/identity"
)

// valuesPath is a dotted path of plain keys. A key that itself holds a dot
// cannot be written; no chart that takes an image has one.
var valuesPath = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)*$`)

func (p *Profile) validate() error {
	if p.Version != ProfileVersion {
		return refuse("profile", "version %d is not known, only %d is", p.Version, ProfileVersion)
	}
	if len(validation.IsDNS1123Label(p.Name)) > 0 {
		return refuse("profile", "name %q must be lower-case letters, digits and dashes, at most 63", p.Name)
	}
	if !valuesPath.MatchString(p.Image.Values) {
		return refuse("profile", "image.values %q must be a dotted path of plain keys", p.Image.Values)
	}
	if p.Image.Form != ImageReference && p.Image.Form != ImageSplit {
		return refuse("profile", "image.form %q must be %q or %q", p.Image.Form, ImageReference, ImageSplit)
	}
	if err := p.validateDependencies(); err != nil {
		return err
	}
	return p.validateJobs()
}

func (p *Profile) validateDependencies() error {
	if p.Secret != nil {
		if !label(p.Secret.Component) {
			return refuse("profile", "secret.component %q must be a label value", p.Secret.Component)
		}
		if key, twice := repeated(p.Secret.Keys); twice {
			return refuse("profile", "secret.keys names %q twice", key)
		}
		for _, key := range p.Secret.Keys {
			if len(validation.IsConfigMapKey(key)) > 0 {
				return refuse("profile", "secret.keys: %q cannot be a Secret's key", key)
			}
		}
	}
	if p.NetworkPolicy != nil && !label(p.NetworkPolicy.Component) {
		return refuse("profile", "networkPolicy.component %q must be a label value", p.NetworkPolicy.Component)
	}
	return nil
}

// validateJobs also holds "after" to slots that come earlier, so that the
// create order is an order and a cycle cannot be written.
func (p *Profile) validateJobs() error {
	if len(p.Jobs) == 0 {
		return refuse("profile", "jobs names none, and a preflight without a Job proves nothing")
	}
	var earlier []identity.Slot
	for _, job := range p.Jobs {
		switch {
		case !identity.ValidSlot(job.Slot):
			return refuse("profile", "slot %q must be lower-case letters, digits and single dashes, at most 20", job.Slot)
		case job.Slot == identity.SlotSecret || job.Slot == identity.SlotNetworkPolicy:
			return refuse("profile", "slot %q is a dependency's and cannot be a Job's", job.Slot)
		case slices.Contains(earlier, job.Slot):
			return refuse("profile", "slot %q is named twice", job.Slot)
		}
		for _, before := range job.After {
			if !slices.Contains(earlier, before) {
				return refuse("profile", "slot %q comes after %q, which no earlier job has", job.Slot, before)
			}
		}
		if err := job.validate(); err != nil {
			return err
		}
		earlier = append(earlier, job.Slot)
	}
	return nil
}

func (j *JobSource) validate() error {
	if !slices.Contains(workloadKinds(), j.From.Kind) {
		return refuse("profile", "slot %q: kind %q has no Pod template; it must be one of %v", j.Slot, j.From.Kind, workloadKinds())
	}
	if !label(j.From.Component) {
		return refuse("profile", "slot %q: component %q must be a label value", j.Slot, j.From.Component)
	}
	if len(validation.IsDNS1123Label(j.From.Container)) > 0 {
		return refuse("profile", "slot %q: container %q must be a container's name", j.Slot, j.From.Container)
	}
	if name, twice := repeated(j.InitContainers); twice {
		return refuse("profile", "slot %q: init container %q is named twice", j.Slot, name)
	}
	for _, proof := range []*Proof{&j.Startup, j.Identity} {
		if proof != nil && slices.Contains(proof.Command, "") {
			return refuse("profile", "slot %q: a command holds an empty word", j.Slot)
		}
	}
	if j.Identity != nil && len(j.Identity.Command)+len(j.Identity.Args) == 0 {
		return refuse("profile", "slot %q: identity says neither command nor args; leave it out to run startup again", j.Slot)
	}
	for _, permission := range j.Allow {
		if !slices.Contains(permissions(), permission) {
			return refuse("profile", "slot %q: %q cannot be allowed; it must be one of %v", j.Slot, permission, permissions())
		}
	}
	return nil
}

func (j *JobSource) allows(p Permission) bool { return slices.Contains(j.Allow, p) }

func permissions() []Permission {
	return []Permission{
		AllowPersistentVolumeClaim, AllowHostPath, AllowEphemeral, AllowCSI, AllowNFS,
		AllowHostNetwork, AllowHostPID, AllowHostIPC, AllowHostPorts,
	}
}

func label(s string) bool { return s != "" && len(validation.IsValidLabelValue(s)) == 0 }

func repeated(list []string) (string, bool) {
	for i, s := range list {
		if slices.Contains(list[:i], s) {
			return s, true
		}
	}
	return "", false
}
