package preflight

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-project/holdfast/internal/identity"
)

// The ends of a run (A4.1), as Run and Resume return them. A nil error is the
// only success: passed, and everything confirmed absent.

// Refusal says that the run was refused before anything was created in the
// cluster: exit 2.
type Refusal struct {
	// Sentence says what was refused and why.
	Sentence string
	// Hint says what to do, and may be empty.
	Hint string
	// Err is the cause, and may be nil.
	Err error
}

// Error returns the sentence.
func (r *Refusal) Error() string { return r.Sentence }

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Err }

func refuse(hint, format string, args ...any) error {
	return &Refusal{Sentence: fmt.Sprintf(format, args...), Hint: hint}
}

func refuseBecause(err error, hint, doing string) error {
	return &Refusal{Sentence: doing + ": " + err.Error(), Hint: hint, Err: err}
}

// Failed says that a Job failed, vanished, could never start or did not finish in
// time, or that the candidate is not what ran. Everything is removed through
// cleanup before the run ends: exit 1.
type Failed struct {
	// Slot is the consumer that failed; empty when none is to blame.
	Slot   identity.Slot
	Reason string
}

// Error returns "slot: reason".
func (f *Failed) Error() string {
	if f.Slot == "" {
		return f.Reason
	}
	return fmt.Sprintf("preflight of slot %s failed: %s", f.Slot, f.Reason)
}

// Rejected says that the API server definitely refused a create, or that it was
// never sent. Everything else is removed through cleanup: exit 1.
type Rejected struct {
	Slot   identity.Slot
	Object identity.Object
	Reason string
}

// Error names the slot and the server's reason.
func (r *Rejected) Error() string {
	return fmt.Sprintf("creating %s for slot %s was refused: %s", r.Object, r.Slot, r.Reason)
}

// Uncertain says that a create was sent and nobody knows what came of it. No
// further create leaves and nothing is deleted: exit 1.
type Uncertain struct {
	Slot    identity.Slot
	Object  identity.Object
	AuditID string
	Reason  string
}

// Error names the slot and why its outcome is unknown.
func (u *Uncertain) Error() string {
	return fmt.Sprintf("creating %s for slot %s has an unknown outcome: %s", u.Object, u.Slot, u.Reason)
}

// NotDurable says that a fact could not be made durable. Nothing more is sent or
// deleted, and what only memory knows is told: exit 1.
type NotDurable struct {
	Err error
	// Unrecorded is the object whose UID is in memory and not on the disk;
	// empty when there is none.
	Unrecorded identity.Object
	// Beside is what would have ended the run if its record had succeeded; nil when
	// nothing would. It is told and not unwrapped: this end is not that one.
	Beside error
}

// Error names the lost record and the object that it would have proven.
func (n *NotDurable) Error() string {
	text := "recording the evidence failed, so nothing more is sent or deleted"
	if n.Unrecorded.UID != "" {
		text = fmt.Sprintf("recording %s failed, so nothing more is sent or deleted, and this line is the only record of its UID", n.Unrecorded)
	}
	if n.Beside != nil {
		text = n.Beside.Error() + "; and " + text
	}
	return text + ": " + n.Err.Error()
}

// Unwrap returns the failed call's error.
func (n *NotDurable) Unwrap() error { return n.Err }

// Unfinished says that the run came to its end but its cleanup did not confirm
// that everything is gone: exit 1.
type Unfinished struct {
	// Cause is why the run ended; nil when it had passed.
	Cause error
	// Reasons are the cleanup's own.
	Reasons []string
	// Err is set when the cleanup itself could not write its result.
	Err error
}

// Error says both why the run ended and what cleanup could not confirm.
func (u *Unfinished) Error() string {
	text := "the preflight passed"
	if u.Cause != nil {
		text = u.Cause.Error()
	}
	switch {
	case u.Err != nil:
		return text + "; and its cleanup failed: " + u.Err.Error()
	case len(u.Reasons) > 0:
		return text + "; and its cleanup is incomplete: " + u.Reasons[0]
	default:
		return text + "; and its cleanup is incomplete"
	}
}

// Unwrap returns why the run ended.
func (u *Unfinished) Unwrap() []error { return []error{u.Cause, u.Err} }

// ErrInterrupted says that a signal ended the run: exit 128 plus its number.
var ErrInterrupted = errors.New("interrupted")

// ErrReconciled says that a resume passed and that everything is confirmed absent
// but what the release owner has reconciled in an earlier attempt (A6.15): exit
// 3. It is no full success, so .upgrade-lock stays (A1.3).
var ErrReconciled = errors.New("the candidate passed its preflight, and everything is confirmed absent but what the release owner has reconciled")

// errTimeout is the cause of the run's context when --timeout is over.
var errTimeout = errors.New("the timeout is over")

func timedOut(timeout time.Duration) string {
	return fmt.Sprintf("the Jobs did not finish within --timeout %s", timeout)
}

// removes reports whether an end is one that first removes everything through
// cleanup: only when every create is settled and every fact is on the disk.
func removes(end error) bool {
	var failed *Failed
	var rejected *Rejected
	return end == nil || errors.As(end, &failed) || errors.As(end, &rejected)
}
