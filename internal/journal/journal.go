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
	"fmt"

	"github.com/holdfast-project/holdfast/internal/durable"
	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/strictjson"
)

// ErrMisuse says that a call came out of its order, or with a value that no
// record may hold. Nothing was written, and the journal is as usable as before.
var ErrMisuse = errors.New("refusing to write the journal")

func misuse(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrMisuse, fmt.Errorf(format, args...))
}

// Journal writes one evidence directory and holds its lock. It is not safe for
// concurrent use.
type Journal struct {
	dir        *evidence.Dir
	root       durable.Dir
	parameters evidence.Parameters
	registry   evidence.Journal
	warnings   []string

	// current is the one attempt that may still write.
	current *Attempt
	// loaded is true while the last Register has been followed by a Load that
	// accepted everything.
	loaded bool
	// seen holds every UID and Audit-ID that is recorded, since the loader
	// refuses one that appears twice.
	seen map[string]bool
	// failure is the first failed durability call.
	failure error
	// over is true once Finish or Close was called.
	over bool
}

// Dir is the evidence directory, for a cleanup under the same lock.
func (j *Journal) Dir() *evidence.Dir { return j.dir }

// Path is the evidence directory's absolute path.
func (j *Journal) Path() string { return j.root.Path() }

// Parameters are the parameters as they were published.
func (j *Journal) Parameters() evidence.Parameters { return j.parameters }

// Err is the failure that poisoned the journal, or nil.
func (j *Journal) Err() error { return j.failure }

// Warnings are for the operator, such as a doubtful file system.
func (j *Journal) Warnings() []string { return j.warnings }

// Load validates the run's own directory with the very loader that cleanup
// uses, so that nothing is created that cleanup would refuse (A1.6). It must
// succeed after each Register before a slot may start; after the run it gives
// cleanup its inventory. A failure poisons the journal.
func (j *Journal) Load(expect evidence.Expectation) (*evidence.Inventory, error) {
	if err := j.usable(); err != nil {
		return nil, err
	}
	inventory, err := j.dir.Load(expect)
	if err != nil {
		return nil, j.durably(err)
	}
	j.loaded = true
	return inventory, nil
}

// Finish removes .upgrade-lock. Call it only when exit 0 is certain: from then
// on nothing says that an upgrade is under way here (A1.3). Nothing can be
// written afterwards; the lock is held until Close.
func (j *Journal) Finish() error {
	if err := j.usable(); err != nil {
		return err
	}
	if a := j.current; a != nil {
		for _, s := range a.slots {
			if s.phase == started || s.phase == rejected {
				return misuse("%s is %s, so the run is no success", s.planned.Slot, s.phase)
			}
		}
	}
	j.over = true
	if err := j.root.Remove(evidence.UpgradeLockFile); err != nil {
		return j.durably(err)
	}
	return j.durably(j.root.Sync())
}

// Close gives up the lock and every descriptor. It is no success or failure of
// the run.
func (j *Journal) Close() error {
	j.over = true
	var err error
	if j.current != nil {
		err = j.current.dir.Close()
	}
	return errors.Join(err, j.dir.Close())
}

// usable refuses every call after a failure or the end.
func (j *Journal) usable() error {
	switch {
	case j.failure != nil:
		return fmt.Errorf("nothing more is written after the first failure: %w", j.failure)
	case j.over:
		return misuse("the journal is closed")
	}
	return nil
}

// durably poisons the journal with the first failure. The descriptor, the page
// cache and the directory are in a state that nobody can ask for any more, so
// nothing is tried again (A2.4).
func (j *Journal) durably(err error) error {
	if err != nil && j.failure == nil {
		j.failure = err
	}
	return err
}

// once refuses a UID or Audit-ID that is recorded already. The caller adds it
// to seen when it writes the record.
func (j *Journal) once(value string) error {
	if j.seen[value] {
		return misuse("%s is recorded already", value)
	}
	return nil
}

// publishRegistry replaces the registry (A2.3).
func (j *Journal) publishRegistry() error {
	data, err := strictjson.Encode(j.registry)
	if err != nil {
		return err
	}
	return durable.Replace(j.root, evidence.JournalFile, data)
}
