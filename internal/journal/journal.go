// Package journal is the write side of the evidence: it makes every intention
// durable before it is carried out and every outcome before the next
// intention, in the order of A2.5.
//
// Its invariant: a call that returns nil has made its fact durable; a call that
// would write a history which the loader refuses is an error and writes
// nothing; after the first failed durability call the journal is poisoned, and
// every later call fails with that first error, so that no further create can
// leave (A2.4).
//
// It must not import internal/kube, helm.sh or any k8s.io module.
package journal

import (
	"errors"
	"io"
	"time"

	"github.com/holdfast-project/holdfast/internal/durable"
	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/identity"
)

var errNotLanded = errors.New("journal: not landed yet")

// Setup is what a new evidence directory begins with.
type Setup struct {
	// Parameters are written as they are, but for Version, FileSystem and
	// HelperRetained, which Create fills in.
	Parameters evidence.Parameters
	// Executable opens the running executable for the retained copy; nil when
	// none is to be kept (--retain-helper=false).
	Executable func() (io.ReadCloser, error)
	// AllowFileSystem is the type named by --allow-filesystem, or empty.
	AllowFileSystem string
}

// Journal writes one evidence directory and holds its lock. It is not safe for
// concurrent use.
type Journal struct{ dir *evidence.Dir }

// Create makes the evidence directory at path, which must not exist.
func Create(fs durable.FS, path string, setup Setup) (*Journal, error) { return nil, errNotLanded }

// Load validates the run's own directory with the very loader that cleanup
// uses (A1.6). It must have succeeded after the last Register before a slot may
// start. After the run it gives cleanup its inventory.
func (j *Journal) Load(expect evidence.Expectation) (*evidence.Inventory, error) {
	return nil, errNotLanded
}

// Dir is the evidence directory, for a cleanup under the same lock.
func (j *Journal) Dir() *evidence.Dir { return j.dir }

// Path is the evidence directory's absolute path.
func (j *Journal) Path() string { return "" }

// Err is the failure that poisoned the journal, or nil.
func (j *Journal) Err() error { return nil }

// Warnings are for the operator, such as a doubtful file system.
func (j *Journal) Warnings() []string { return nil }

// Register makes an attempt's directory, its plan and its registry entry
// durable. Version, Attempt and Kind of the plan are filled in.
func (j *Journal) Register(kind evidence.AttemptKind, plan evidence.Plan) (*Attempt, error) {
	return nil, errNotLanded
}

// Finish removes .upgrade-lock. Call it only when exit 0 is certain (A1.3).
func (j *Journal) Finish() error { return errNotLanded }

// Close gives up the lock.
func (j *Journal) Close() error { return errNotLanded }

// Attempt writes the records of one registered attempt.
type Attempt struct{}

// Name is the attempt's directory name.
func (a *Attempt) Name() string { return "" }

// Plan is the plan as it was published.
func (a *Attempt) Plan() evidence.Plan { return evidence.Plan{} }

// PlanSHA256 is the digest of the plan's bytes, which every object carries.
func (a *Attempt) PlanSHA256() string { return "" }

// Start makes the slot's started marker durable; only then may its create
// request, carrying auditID, leave. Slots start in the plan's order, each after
// the receipt of the one before.
func (a *Attempt) Start(slot identity.Slot, auditID string, now time.Time) error { return errNotLanded }

// Acknowledge makes the receipt durable. created is what the API server
// returned; its place must equal the plan's. A mismatch writes nothing and
// leaves the slot uncertain. creationTimestamp is in RFC 3339.
func (a *Attempt) Acknowledge(slot identity.Slot, created identity.Object, creationTimestamp string) error {
	return errNotLanded
}

// Release makes the release durable; only then may the patch leave that lets
// the Job run (A4.2c).
func (a *Attempt) Release(slot identity.Slot, now time.Time) error { return errNotLanded }

// Child makes the receipt of a Pod of the slot's Job durable. A Pod that has
// one already is no error and writes nothing.
func (a *Attempt) Child(slot identity.Slot, pod identity.Object, ownerUID string) error {
	return errNotLanded
}

// Rejection is a definite refusal (A3.7).
type Rejection struct {
	// Code is the HTTP status, 0 when NotSent.
	Code    int
	Reason  string
	NotSent bool
}

// Reject settles the slot as refused. No further slot of this attempt starts.
func (a *Attempt) Reject(slot identity.Slot, rejection Rejection, now time.Time) error {
	return errNotLanded
}

// CreateError keeps a create's raw error, which the caller has redacted, up to
// evidence.MaxCreateErrorBytes of it.
func (a *Attempt) CreateError(slot identity.Slot, text string) error { return errNotLanded }

// Log keeps what the slot's Job printed, which the caller has redacted and
// bounded to evidence.MaxLogBytes.
func (a *Attempt) Log(slot identity.Slot, data []byte) error { return errNotLanded }

// Cleanup writes one preflight-cleanup.XXXXXXXX directory.
type Cleanup struct{}

// NewCleanup makes the directory of an accepted cleanup, with its empty error
// file (A6.1, A6.9).
func NewCleanup(dir *evidence.Dir) (*Cleanup, error) { return nil, errNotLanded }

// Path is the directory's absolute path.
func (c *Cleanup) Path() string { return "" }

// Report appends one redacted line to preflight-cleanup.err.
func (c *Cleanup) Report(line string) error { return errNotLanded }

// Observe keeps an identity-only readback as observations/NAME.
func (c *Cleanup) Observe(name string, readback any) error { return errNotLanded }

// Publish makes the result durable and returns its absolute path. Nothing can
// be written afterwards.
func (c *Cleanup) Publish(result evidence.Result) (string, error) { return "", errNotLanded }

// Reconcile records the release owner's statement on an uncertain slot
// (A6.15): offline, under the lock, after A5.2 and A5.4 to A5.10. A refusal of
// the evidence is an *evidence.Refusal.
func Reconcile(fs durable.FS, path string, slot identity.SlotRef, statement string, now time.Time) error {
	return errNotLanded
}
