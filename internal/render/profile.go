package render

import (
	"bytes"
	"embed"
	"errors"
	"io"

	yamlnode "go.yaml.in/yaml/v3"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/strictjson"
)

// ProfileVersion is the only profile version that is read.
const ProfileVersion = 1

// MaxProfileBytes bounds a profile file. The built-in one has little more than one
// thousand bytes; fifty times more is not a profile.
const MaxProfileBytes = 64 << 10

const builtinPath = "builtin/openclaw-enterprise.yaml"

//go:embed builtin/openclaw-enterprise.yaml
var builtin embed.FS

// Profile says where each slot of an attempt comes from in a rendered chart
// (A4.4). It is made by ParseProfile or Builtin and not changed afterwards.
type Profile struct {
	Version int    `json:"version"`
	Name    string `json:"name"`
	// Image says where the chart's values hold the image under test.
	Image ImageSource `json:"image"`
	// Secret and NetworkPolicy are the dependencies; either may be missing.
	Secret        *SecretSource `json:"secret,omitempty"`
	NetworkPolicy *PolicySource `json:"networkPolicy,omitempty"`
	// Jobs are the consumers in the order in which they are created.
	Jobs []JobSource `json:"jobs"`

	digest string
}

// ImageForm says how a values file writes an image.
type ImageForm string

const (
	// ImageReference is one string, NAME@sha256:….
	ImageReference ImageForm = "reference"
	// ImageSplit is a map with the keys repository, tag and digest.
	ImageSplit ImageForm = "split"
)

// ImageSource is the dotted path in the values, for example
// "controller.image", and the form that the chart expects there.
type ImageSource struct {
	Values string    `json:"values"`
	Form   ImageForm `json:"form"`
}

// SecretSource is the chart's Secret that the slot "secret" is a copy of, found
// by its component label. Keys restricts the copy; none means all.
type SecretSource struct {
	Component string   `json:"component"`
	Keys      []string `json:"keys,omitempty"`
}

// PolicySource is the chart's NetworkPolicy that the slot "network-policy" is
// made from, found by its component label. With Optional a chart that renders
// none gives an attempt without that slot.
type PolicySource struct {
	Component string `json:"component"`
	Optional  bool   `json:"optional,omitempty"`
}

// JobSource is one consumer.
type JobSource struct {
	Slot identity.Slot `json:"slot"`
	From Workload      `json:"from"`
	// InitContainers are kept by name, in the template's order; all others are
	// left out, as are all containers but the named one.
	InitContainers []string `json:"initContainers,omitempty"`
	// After names the slots whose Jobs must have succeeded before this one
	// starts.
	After []identity.Slot `json:"after,omitempty"`
	// Startup proves that the candidate starts. Without it the template's own
	// command does.
	Startup Proof `json:"startup,omitempty"`
	// Identity proves only which image it is, for resume attempts (A4.7).
	// Without it a resume runs Startup again.
	Identity *Proof `json:"identity,omitempty"`
	// ServiceAccountToken mounts the token of the template's account.
	ServiceAccountToken bool `json:"serviceAccountToken,omitempty"`
	// Allow lifts single refusals of A4.3.
	Allow []Permission `json:"allow,omitempty"`
}

// Workload names a Pod template of the rendered chart: the only object of Kind
// with this component label, and its container that runs the candidate.
type Workload struct {
	Kind      string `json:"kind"`
	Component string `json:"component"`
	Container string `json:"container"`
}

// Proof is a command with the meaning that it has in a Pod: a command replaces
// the template's command and arguments, arguments alone replace the arguments.
type Proof struct {
	Command []string `json:"command,omitempty"`
	Args    []string `json:"args,omitempty"`
}

// Permission names one thing in a Pod template that is refused unless the
// profile allows it.
type Permission string

// What can be allowed. The volumes among them outlive the Pod, reach the node
// or belong to somebody else; the others leave the Pod's own network or
// process namespace.
const (
	AllowPersistentVolumeClaim Permission = "persistentVolumeClaim"
	AllowHostPath              Permission = "hostPath"
	AllowEphemeral             Permission = "ephemeral"
	AllowCSI                   Permission = "csi"
	AllowNFS                   Permission = "nfs"
	AllowHostNetwork           Permission = "hostNetwork"
	AllowHostPID               Permission = "hostPID"
	AllowHostIPC               Permission = "hostIPC"
	AllowHostPorts             Permission = "hostPorts"
)

// Builtin returns the profile for OpenClaw Enterprise.
func Builtin() (*Profile, error) {
	data, err := builtin.ReadFile(builtinPath)
	if err != nil {
		return nil, refuse("profile", "reading the built-in profile: %v", err)
	}
	return ParseProfile(data)
}

// Assets maps each embedded file that shapes a manifest to its SHA-256, for the
// helper's identity (A3.6).
func Assets() (map[string]string, error) {
	data, err := builtin.ReadFile(builtinPath)
	if err != nil {
		return nil, refuse("profile", "reading the built-in profile: %v", err)
	}
	return map[string]string{"render/" + builtinPath: strictjson.Sum(data)}, nil
}

// ParseProfile decodes and validates a profile: one YAML document of at most
// 64 KiB; an unknown or repeated key, a wrong type or letter case, a second
// document and an impossible combination are each refused (A4.4).
func ParseProfile(data []byte) (*Profile, error) {
	if len(data) > MaxProfileBytes {
		return nil, refuse("profile", "it has %d bytes, more than %d", len(data), MaxProfileBytes)
	}
	if err := oneDocument(data); err != nil {
		return nil, err
	}
	asJSON, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, refuse("profile", "%v", err)
	}
	p := &Profile{digest: strictjson.Sum(data)}
	// sigs.k8s.io/json, unlike encoding/json, takes "Slot" for an unknown
	// field and not for another way to write "slot".
	strict, err := json.UnmarshalStrict(asJSON, p)
	if err = errors.Join(append(strict, err)...); err != nil {
		return nil, refuse("profile", "%v", err)
	}
	if err := p.validate(); err != nil {
		return nil, err
	}
	return p, nil
}

// oneDocument refuses a second YAML document, which the decoder would not even
// look at: whoever wrote it meant something by it.
func oneDocument(data []byte) error {
	decoder := yamlnode.NewDecoder(bytes.NewReader(data))
	var node yamlnode.Node
	if err := decoder.Decode(&node); errors.Is(err, io.EOF) {
		return refuse("profile", "it is empty")
	} else if err != nil {
		return refuse("profile", "%v", err)
	}
	if err := decoder.Decode(&node); !errors.Is(err, io.EOF) {
		return refuse("profile", "it holds more than one YAML document")
	}
	return nil
}
