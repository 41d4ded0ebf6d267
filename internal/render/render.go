package render

import (
	"context"
	"slices"
	"time"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Inputs are everything that the objects of one attempt depend on.
type Inputs struct {
	Profile *Profile
	// Chart is the path of a chart's directory or .tgz file.
	Chart string
	// Values are the bytes of the values file, read once by the caller.
	Values []byte
	// Image is the candidate, NAME@sha256:<digest>.
	Image     string
	Namespace string
	Release   string
	// Nonce is the plan's, 32 lower-case hex digits.
	Nonce string
	// IdentityOnly asks for a resume attempt's objects: a Job whose profile
	// has an identity command runs that one (A4.7).
	IdentityOnly bool
	// Deadline bounds each Job from its release on, at least one second; a
	// part of a second counts as a whole one.
	Deadline time.Duration
	// Capabilities are the live cluster's.
	Capabilities Capabilities
}

// input is Inputs after they were judged.
type input struct {
	Inputs
	image Image
}

// Sources identify what an attempt's objects are made from; they go into the
// parameters (A3.1). The values are the caller's: a plain digest of a private file
// gives too much of it away.
type Sources struct {
	Profile Asset
	Chart   Asset
	Image   Image
}

// Rendered is one attempt's objects and what they were made from.
type Rendered struct {
	Sources
	// Slots are in create order: secret, network-policy, then the Jobs as the
	// profile lists them.
	Slots []Slot
	// Objects is the whole rendered chart but for its Secrets, for the
	// selectors that A4.3 compares.
	Objects []unstructured.Unstructured

	secrets func() [][]byte
}

// SecretValues returns the value of every Secret that the chart renders, for
// redaction: none of them may appear in a file, a log or on a terminal.
func (r *Rendered) SecretValues() [][]byte { return r.secrets() }

// Render makes one attempt's objects. Every error is an *InputError, but for a
// cancelled context's: nothing was sent and nothing was written (A4.2).
func Render(ctx context.Context, inputs Inputs) (*Rendered, error) {
	in, loaded, sources, err := load(inputs)
	if err != nil {
		return nil, err
	}
	files, err := renderChart(ctx, loaded, in)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	objects, err := parseObjects(files, in.Namespace)
	if err != nil {
		return nil, err
	}
	secrets, err := secretValues(objects)
	if err != nil {
		return nil, err
	}
	slots, err := buildSlots(in, objects, secrets)
	if err != nil {
		return nil, err
	}
	return &Rendered{
		Sources: sources,
		Slots:   slots,
		Objects: withoutSecrets(objects),
		secrets: func() [][]byte { return secrets },
	}, nil
}

// Identify returns the sources of what Render would make of these inputs, without
// a cluster's capabilities: a resume compares them with the record before it
// asks the cluster anything (A4.7). Every error is an *InputError.
func Identify(inputs Inputs) (Sources, error) {
	_, _, sources, err := load(inputs)
	return sources, err
}

// load judges the inputs and loads the chart. The digests come before rendering,
// which drops disabled dependencies from the loaded chart.
func load(inputs Inputs) (input, *chart.Chart, Sources, error) {
	in, err := judge(inputs)
	if err != nil {
		return input{}, nil, Sources{}, err
	}
	loaded, err := loadChart(in.Chart)
	if err != nil {
		return input{}, nil, Sources{}, err
	}
	return in, loaded, Sources{
		Profile: Asset{Name: in.Profile.Name, SHA256: in.Profile.digest},
		Chart:   chartAsset(loaded),
		Image:   in.image,
	}, nil
}

func judge(in Inputs) (input, error) {
	image, err := ParseImage(in.Image)
	switch {
	case err != nil:
		return input{}, err
	case in.Profile == nil:
		return input{}, refuse("profile", "there is none")
	case !ValidReleaseName(in.Release):
		return input{}, refuse("release", "%q is not a Helm release name of at most %d characters", in.Release, maxReleaseName)
	case len(validation.IsDNS1123Label(in.Namespace)) > 0:
		return input{}, refuse("namespace", "%q is not a namespace's name", in.Namespace)
	case !noncePattern.MatchString(in.Nonce):
		return input{}, refuse("nonce", "it must be 32 lower-case hex digits")
	case in.Deadline < time.Second:
		return input{}, refuse("timeout", "%s is less than one second", in.Deadline)
	}
	return input{Inputs: in, image: image}, nil
}

func withoutSecrets(objects []object) []unstructured.Unstructured {
	var kept []unstructured.Unstructured
	for _, o := range objects {
		if o.GetKind() != "Secret" {
			kept = append(kept, o.Unstructured)
		}
	}
	return kept
}

// buildSlots makes the dependencies before the Jobs that name them.
func buildSlots(in input, objects []object, secrets [][]byte) ([]Slot, error) {
	var slots []Slot
	secret, err := findSecret(objects, in.Profile.Secret)
	if err != nil {
		return nil, err
	}
	if secret != nil {
		slot, err := secretSlot(in, secret)
		if err != nil {
			return nil, err
		}
		slots = append(slots, slot)
	}
	var jobNames []string
	for _, job := range in.Profile.Jobs {
		jobNames = append(jobNames, objectName(in.Release, job.Slot, in.Nonce))
	}
	slices.Sort(jobNames)
	policy, err := networkPolicy(objects, in.Profile.NetworkPolicy, in.Release, jobNames)
	if err != nil {
		return nil, err
	}
	if policy != nil {
		slot, err := policySlot(in, policy)
		if err != nil {
			return nil, err
		}
		slots = append(slots, slot)
	}
	for _, job := range in.Profile.Jobs {
		slot, err := jobSlot(in, objects, job, secret, secrets)
		if err != nil {
			return nil, err
		}
		slots = append(slots, slot)
	}
	return slots, nil
}
