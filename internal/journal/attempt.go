package journal

import (
	"strings"
	"time"

	"github.com/holdfast-project/holdfast/internal/durable"
	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/strictjson"
)

// phase is how far a slot came.
type phase string

const (
	planned      phase = "planned"
	started      phase = "started"
	acknowledged phase = "acknowledged"
	released     phase = "released"
	rejected     phase = "rejected"
)

// slot is one planned slot and what is recorded of it.
type slot struct {
	planned evidence.PlannedSlot
	phase   phase
	auditID string
	uid     string
	// podSeen: a Pod of its Job has a receipt.
	podSeen bool
	// written names the files that exist beside the ones that phase implies.
	written map[string]bool
}

// Attempt writes the records of one registered attempt, as long as it is the
// last one.
type Attempt struct {
	journal    *Journal
	dir        durable.Dir
	plan       evidence.Plan
	planSHA256 string
	slots      []*slot
}

func newAttempt(j *Journal, dir durable.Dir, plan evidence.Plan, planSHA256 string) *Attempt {
	a := &Attempt{journal: j, dir: dir, plan: plan, planSHA256: planSHA256}
	for _, p := range plan.Slots {
		a.slots = append(a.slots, &slot{planned: p, phase: planned, written: map[string]bool{}})
	}
	return a
}

// Name is the attempt's directory name.
func (a *Attempt) Name() string { return a.plan.Attempt }

// Plan is the plan as it was published.
func (a *Attempt) Plan() evidence.Plan { return a.plan }

// PlanSHA256 is the digest of the plan's bytes, which every object carries.
func (a *Attempt) PlanSHA256() string { return a.planSHA256 }

// Start makes the slot's started marker durable; only then may its create
// request, carrying auditID, leave. Slots start in the plan's order, each after
// the receipt of the one before and, of a Job, its release, and none before Load has
// accepted the registered plan.
func (a *Attempt) Start(name identity.Slot, auditID string, now time.Time) error {
	s, err := a.find(name)
	if err != nil {
		return err
	}
	switch {
	case !a.journal.loaded:
		return misuse("%s is to start before the evidence was loaded and accepted", name)
	case s.phase != planned:
		return misuse("%s is to start, and is %s already", name, s.phase)
	case !evidence.ValidAuditID(auditID):
		return misuse("%q cannot be the Audit-ID of %s", auditID, name)
	}
	if err := a.done(s); err != nil {
		return err
	}
	if err := a.journal.once(auditID); err != nil {
		return err
	}
	marker := &evidence.Started{Record: a.record(name), Time: evidence.FormatTime(now), AuditID: auditID}
	if err := a.publish(evidence.StartedFile(name), marker); err != nil {
		return err
	}
	s.phase, s.auditID = started, auditID
	a.journal.seen[auditID] = true
	return nil
}

// done refuses the start of s while a slot before it is not at its end.
func (a *Attempt) done(s *slot) error {
	for _, before := range a.slots {
		if before == s {
			return nil
		}
		if before.phase != acknowledged && before.phase != released {
			return misuse("%s is to start while %s is %s", s.planned.Slot, before.planned.Slot, before.phase)
		}
		if before.phase == acknowledged && before.planned.Object().Consumer() {
			return misuse("%s is to start while the Job of %s is not released", s.planned.Slot, before.planned.Slot)
		}
	}
	return nil
}

// Acknowledge makes the receipt durable. created is what the API server
// returned, and must be a planned place with a UID; creationTimestamp is in RFC
// 3339. ErrMisuse writes nothing and leaves the slot uncertain, which is the
// truth about an answer that is not the planned object (A3.5).
func (a *Attempt) Acknowledge(name identity.Slot, created identity.Object, creationTimestamp string) error {
	s, err := a.in(name, started)
	if err != nil {
		return err
	}
	switch {
	case created.Place() != s.planned.Object():
		return misuse("%s was planned as %s, and the answer is of %s", name, s.planned.Object(), created)
	case !identity.ValidUID(created.UID):
		return misuse("the answer to the create of %s has no UID: %q", name, created.UID)
	case !evidence.ValidTime(creationTimestamp):
		return misuse("the answer to the create of %s has no creation time: %q", name, creationTimestamp)
	}
	if err := a.journal.once(created.UID); err != nil {
		return err
	}
	receipt := &evidence.Receipt{
		Record: a.record(name), APIVersion: created.APIVersion, Kind: created.Kind,
		Namespace: created.Namespace, Name: created.Name, UID: created.UID, CreationTimestamp: creationTimestamp,
	}
	if err := a.publish(evidence.ReceiptFile(name), receipt); err != nil {
		return err
	}
	s.phase, s.uid = acknowledged, created.UID
	a.journal.seen[created.UID] = true
	return nil
}

// Release makes the release durable; only then may the patch leave that lets
// the Job run (A4.2c).
func (a *Attempt) Release(name identity.Slot, now time.Time) error {
	s, err := a.in(name, acknowledged)
	if err != nil {
		return err
	}
	if !s.planned.Object().Consumer() {
		return misuse("%s is a %s and never suspended", name, s.planned.Kind)
	}
	release := &evidence.Released{Record: a.record(name), UID: s.uid, Time: evidence.FormatTime(now)}
	if err := a.publish(evidence.ReleasedFile(name), release); err != nil {
		return err
	}
	s.phase = released
	return nil
}

// Child makes the receipt of a Pod of the slot's released Job durable. A Pod
// that has one already is no error and writes nothing.
func (a *Attempt) Child(name identity.Slot, pod identity.Object, ownerUID string) error {
	s, err := a.in(name, released)
	if err != nil {
		return err
	}
	file := evidence.ChildFile(name, pod.UID)
	if s.written[file] {
		return nil
	}
	child := &evidence.Child{
		Record: a.record(name), Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, OwnerUID: ownerUID,
	}
	switch {
	case pod.Kind != "Pod" || pod.APIVersion != "v1" || pod.Namespace != s.planned.Namespace:
		return misuse("%s cannot be a Pod of %s", pod, name)
	case ownerUID != s.uid:
		return misuse("%s is owned by %q, not by the Job of %s (uid %s)", pod, ownerUID, name, s.uid)
	}
	if err := evidence.CheckRequired(child); err != nil {
		return misuse("the receipt of %s %w", pod, err)
	}
	if err := a.journal.once(pod.UID); err != nil {
		return err
	}
	if err := a.publish(file, child); err != nil {
		return err
	}
	s.podSeen, s.written[file], a.journal.seen[pod.UID] = true, true, true
	return nil
}

// Rejection is a definite refusal (A3.7).
type Rejection struct {
	// Code is the HTTP status, 0 when NotSent.
	Code int
	// Reason is the server's, which a webhook words as it likes: the caller has
	// redacted it, and what is over evidence.MaxReasonBytes is cut off.
	Reason  string
	NotSent bool
}

// Reject settles the slot as refused. No further slot of this attempt starts. A
// code that leaves the outcome open is ErrMisuse.
func (a *Attempt) Reject(name identity.Slot, r Rejection, now time.Time) error {
	s, err := a.in(name, started)
	if err != nil {
		return err
	}
	rejection := &evidence.Rejected{
		Record: a.record(name), AuditID: s.auditID, Code: r.Code,
		Reason: cut(r.Reason, evidence.MaxReasonBytes), NotSent: r.NotSent, Time: evidence.FormatTime(now),
	}
	if err := evidence.CheckRequired(rejection); err != nil {
		return misuse("the rejection of %s %w", name, err)
	}
	if err := a.publish(evidence.RejectedFile(name), rejection); err != nil {
		return err
	}
	s.phase = rejected
	return nil
}

// cut bounds a text that a record holds, and takes out of it what is no UTF-8: a
// record over its size, or one that does not re-encode to its own bytes, would be
// refused by the loader, and with it everything else of the run (A1.5, A1.6).
func cut(text string, bound int) string {
	return strings.ToValidUTF8(text[:min(len(text), bound)], "")
}

// CreateError keeps a create's raw error, which the caller has redacted, up to
// evidence.MaxCreateErrorBytes of it (A3.8).
func (a *Attempt) CreateError(name identity.Slot, text string) error {
	s, err := a.find(name)
	if err != nil {
		return err
	}
	if s.phase == planned {
		return misuse("%s has an error before it was started", name)
	}
	return a.text(s, evidence.CreateErrorFile(name), []byte(text), evidence.MaxCreateErrorBytes)
}

// Log keeps what a recorded Pod of the slot's Job printed, which the caller has
// redacted, up to evidence.MaxLogBytes from its end.
func (a *Attempt) Log(name identity.Slot, data []byte) error {
	s, err := a.in(name, released)
	if err != nil {
		return err
	}
	if !s.podSeen {
		return misuse("%s has a log before the receipt of a Pod", name)
	}
	if over := len(data) - evidence.MaxLogBytes; over > 0 {
		data = data[over:]
	}
	return a.text(s, evidence.LogFile(name), data, evidence.MaxLogBytes)
}

// text publishes a file for people once.
func (a *Attempt) text(s *slot, file string, data []byte, bound int) error {
	if s.written[file] {
		return misuse("%s is written already", file)
	}
	if err := a.journal.durably(durable.Publish(a.dir, file, data[:min(len(data), bound)])); err != nil {
		return err
	}
	s.written[file] = true
	return nil
}

// find returns a slot of the attempt that may be written now.
func (a *Attempt) find(name identity.Slot) (*slot, error) {
	if err := a.journal.usable(); err != nil {
		return nil, err
	}
	if a.journal.current != a {
		return nil, misuse("%s is not the last attempt any more", a.Name())
	}
	for _, s := range a.slots {
		if s.planned.Slot == name {
			return s, nil
		}
	}
	return nil, misuse("%s plans no slot %q", a.Name(), name)
}

// in returns a slot that is in the given phase.
func (a *Attempt) in(name identity.Slot, want phase) (*slot, error) {
	s, err := a.find(name)
	if err != nil {
		return nil, err
	}
	if s.phase != want {
		return nil, misuse("%s is %s, not %s", name, s.phase, want)
	}
	return s, nil
}

// record binds a record to this plan.
func (a *Attempt) record(name identity.Slot) evidence.Record {
	return evidence.Record{
		Version: evidence.Version, Attempt: a.Name(), Slot: name, PlanSHA256: a.planSHA256,
	}
}

// publish seals and publishes a record, and poisons the journal when it cannot.
func (a *Attempt) publish(file string, r evidence.Sealed) error {
	if err := evidence.Seal(r); err != nil {
		return err
	}
	data, err := strictjson.Encode(r)
	if err != nil {
		return err
	}
	return a.journal.durably(durable.Publish(a.dir, file, data))
}
