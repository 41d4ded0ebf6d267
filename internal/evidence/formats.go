// Package evidence reads what an interrupted run left on the disk, and says
// what of it is proven.
//
// Its invariant: an [Inventory] exists only if every file is private, strictly
// decoded, bound to its plan, and fsynced, and if the history that they tell is
// one that the protocol can have written (A5). Anything else is a [Refusal].
// An [Acknowledged], the one value that a deletion accepts, is built here and
// nowhere else.
//
// It must not import net, any k8s.io module or internal/kube: that nothing is
// sent before the evidence is accepted is proven by the linker.
package evidence

import (
	"encoding/json"

	"github.com/holdfast-project/holdfast/internal/identity"
)

// Format is the only journal format that this version writes and reads.
const Format = "upgrade-preflight-v1"

// Version is the version of every record but the registry, which carries
// Format.
const Version = 1

// AttemptKind says why an attempt was registered.
type AttemptKind string

// The kinds of attempt. MigrationResume is historical: it is read and cleaned
// up, and no command writes it any more.
const (
	Startup         AttemptKind = "startup"
	Resume          AttemptKind = "resume"
	MigrationResume AttemptKind = "migration-resume"
)

// Parameters is parameters.json: the stable original inputs of the run. It is
// written once, before the registry.
type Parameters struct {
	Version          int              `json:"version"`
	Kubeconfig       string           `json:"kubeconfig"`
	KubeconfigSHA256 string           `json:"kubeconfigSHA256"`
	Context          string           `json:"context"`
	Namespace        string           `json:"namespace"`
	Release          string           `json:"release"`
	Profile          Asset            `json:"profile"`
	Chart            Asset            `json:"chart"`
	Values           Stretched        `json:"values"`
	Images           []Image          `json:"images"`
	TimeoutSeconds   int64            `json:"timeoutSeconds"`
	FileSystem       FileSystem       `json:"fileSystem"`
	HelperRetained   bool             `json:"helperRetained"`
	Helper           identity.Helper  `json:"helper"`
	Cluster          identity.Cluster `json:"cluster"`
	CreatedAt        string           `json:"createdAt"`
}

// Asset is an input file or tree, named for people and bound by digest.
type Asset struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	SHA256  string `json:"sha256"`
}

// Image is one immutable image reference and the role that it plays, for
// example "controller".
type Image struct {
	Role      string `json:"role"`
	Reference string `json:"reference"`
}

// FileSystem is what the evidence lies on. Allowed is true only when the run
// was told to accept this type by name (A1.2).
type FileSystem struct {
	Type    string `json:"type"`
	Allowed bool   `json:"allowed"`
}

// Journal is preflight-journal.json, the root registry, the one file that is
// replaced.
type Journal struct {
	Format           string             `json:"format"`
	ParametersSHA256 string             `json:"parametersSHA256"`
	Directory        identity.Directory `json:"directory"`
	Helper           identity.Helper    `json:"helper"`
	Attempts         []Attempt          `json:"attempts"`
}

// Attempt is one registry entry: a directory bound to a plan.
type Attempt struct {
	Kind       AttemptKind        `json:"kind"`
	Name       string             `json:"name"`
	Directory  identity.Directory `json:"directory"`
	PlanSHA256 string             `json:"planSHA256"`
}

// Plan is preflight-plan.json: everything that an attempt may create, in the
// order in which it is created.
type Plan struct {
	Version   int           `json:"version"`
	Attempt   string        `json:"attempt"`
	Kind      AttemptKind   `json:"kind"`
	Namespace string        `json:"namespace"`
	Release   string        `json:"release"`
	Nonce     string        `json:"nonce"`
	Slots     []PlannedSlot `json:"slots"`
}

// PlannedSlot is one object that may be created. A Secret carries no manifest,
// only a digest of its shape: no value is ever written (A3.3).
type PlannedSlot struct {
	Slot       identity.Slot `json:"slot"`
	APIVersion string        `json:"apiVersion"`
	Kind       string        `json:"kind"`
	Namespace  string        `json:"namespace"`
	Name       string        `json:"name"`
	// Manifest is the full object of a Job or NetworkPolicy in canonical JSON,
	// without the plan hash annotation, which is set on sending.
	Manifest json.RawMessage `json:"manifest,omitempty"`
	// SecretShape is the SHA-256 over the Secret's keys and value lengths.
	SecretShape string `json:"secretShape,omitempty"`
}

// Object returns where the slot's object will be, without a UID.
func (s PlannedSlot) Object() identity.Object {
	return identity.Object{APIVersion: s.APIVersion, Kind: s.Kind, Namespace: s.Namespace, Name: s.Name}
}

// Record is what every sealed record begins with. PlanSHA256 binds it to its
// plan, so that a record of another run or attempt is refused.
type Record struct {
	Version    int           `json:"version"`
	Attempt    string        `json:"attempt"`
	Slot       identity.Slot `json:"slot"`
	PlanSHA256 string        `json:"planSHA256"`
}

// Started is preflight-<slot>-started.json, durable before the create leaves.
// Its absence proves that this protocol did not send that create (A3.4).
type Started struct {
	Record
	Time    string `json:"time"`
	AuditID string `json:"auditID"`
	SHA256  string `json:"sha256,omitempty"`
}

// Receipt is preflight-<slot>-identity.json: what our own create returned.
type Receipt struct {
	Record
	APIVersion        string `json:"apiVersion"`
	Kind              string `json:"kind"`
	Namespace         string `json:"namespace"`
	Name              string `json:"name"`
	UID               string `json:"uid"`
	CreationTimestamp string `json:"creationTimestamp"`
	SHA256            string `json:"sha256,omitempty"`
}

// Child is preflight-<slot>-child-<pod uid>.json: a Pod of our Job that was
// seen while waiting.
type Child struct {
	Record
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	OwnerUID  string `json:"ownerUID"`
	SHA256    string `json:"sha256,omitempty"`
}

// Released is preflight-<slot>-released.json, durable before the patch that
// lets a suspended Job run (A4.2c).
type Released struct {
	Record
	UID    string `json:"uid"`
	Time   string `json:"time"`
	SHA256 string `json:"sha256,omitempty"`
}

// Rejected is preflight-<slot>-rejected.json: a definite refusal (A3.7).
type Rejected struct {
	Record
	AuditID string `json:"auditID"`
	// Code is the HTTP status, 0 when NotSent.
	Code   int    `json:"code"`
	Reason string `json:"reason"`
	// NotSent is true when no connection was ever obtained.
	NotSent bool   `json:"notSent"`
	Time    string `json:"time"`
	SHA256  string `json:"sha256,omitempty"`
}

// Reconciled is preflight-<slot>-reconciled.json: the release owner's statement
// on an uncertain create (A6.15).
type Reconciled struct {
	Record
	MarkerSHA256 string `json:"markerSHA256"`
	Statement    string `json:"statement"`
	Time         string `json:"time"`
	SHA256       string `json:"sha256,omitempty"`
}
