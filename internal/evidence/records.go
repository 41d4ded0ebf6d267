package evidence

import (
	"slices"
	"strings"

	"github.com/holdfast-project/holdfast/internal/durable"
)

// slot is one planned slot with the records that exist of it.
type slot struct {
	attempt *attempt
	planned PlannedSlot

	started       *Started
	startedSHA256 string
	receipt       *Receipt
	released      *Released
	rejected      *Rejected
	reconciled    *Reconciled
	children      []Child
	createError   bool
	log           bool
}

func (s *slot) file(kind recordKind) string { return s.attempt.file(slotFile(s.planned.Slot, kind)) }

// A5.4, A5.7: every name in an attempt's directory is accounted for, and every
// record is private, strictly decoded and of this plan.
func (l *loading) recordsAreOfTheirPlans() error {
	for _, a := range l.attempts {
		names, err := a.dir.Names()
		if err != nil {
			return refuseFile(a.entry.Name, err)
		}
		for _, name := range names {
			if err := l.attemptEntry(a, name, names); err != nil {
				return err
			}
		}
	}
	return nil
}

// attemptEntry judges one name in an attempt's directory.
func (l *loading) attemptEntry(a *attempt, name string, siblings []string) error {
	if final, ok := durable.FinalName(name); ok {
		return stagingIsHarmless(a, name, final, siblings)
	}
	if name == PlanFile {
		return nil
	}
	record, ok := parseRecordName(name)
	if !ok {
		if strings.HasPrefix(name, "preflight-") {
			return refuse(a.file(name), "is not a file of this version")
		}
		return l.entryIsPrivate(a.dir, name, 1)
	}
	s := a.slot(record.slot)
	if s == nil {
		return refuse(a.file(name), "belongs to no slot of its plan")
	}
	return l.readRecord(s, record, name)
}

// stagingIsHarmless accepts what an interrupted publication leaves (A2.2): a
// staging file alone, which is nothing, or the second name of its own final
// file. A staging file beside another file of its final name was never written
// by this protocol.
func stagingIsHarmless(a *attempt, name, final string, siblings []string) error {
	if _, ok := parseRecordName(final); !ok && final != PlanFile && strings.HasPrefix(final, "preflight-") {
		return refuse(a.file(name), "is not a staging file of this version")
	}
	if err := durable.CheckPrivateFile(a.dir, name, maxPlanBytes); err != nil {
		return refuseFile(a.file(name), err)
	}
	if !slices.Contains(siblings, final) {
		return nil
	}
	staged, err := a.dir.Lstat(name)
	if err != nil {
		return refuseFile(a.file(name), err)
	}
	published, err := a.dir.Lstat(final)
	if err != nil {
		return refuseFile(a.file(final), err)
	}
	if !staged.SameInode(published) {
		return refuse(a.file(name), "is not the staging link of %s, but another file", final)
	}
	return nil
}

// readRecord reads one file of a slot into its place.
func (l *loading) readRecord(s *slot, name recordName, file string) error {
	switch name.kind {
	case kindCreateError:
		s.createError = true
		return l.textIsPrivate(s, file, MaxCreateErrorBytes)
	case kindLog:
		s.log = true
		return l.textIsPrivate(s, file, MaxLogBytes)
	case kindStarted:
		s.started = &Started{}
		sum, err := l.readBound(s, file, s.started)
		s.startedSHA256 = sum
		return err
	case kindReceipt:
		s.receipt = &Receipt{}
		return l.readOnly(s, file, s.receipt)
	case kindReleased:
		s.released = &Released{}
		return l.readOnly(s, file, s.released)
	case kindRejected:
		s.rejected = &Rejected{}
		return l.readOnly(s, file, s.rejected)
	case kindReconciled:
		s.reconciled = &Reconciled{}
		return l.readOnly(s, file, s.reconciled)
	}
	var child Child
	if err := l.readOnly(s, file, &child); err != nil {
		return err
	}
	if child.UID != name.uid {
		return refuse(s.attempt.file(file), "holds the receipt of Pod %s", child.UID)
	}
	s.children = append(s.children, child)
	return nil
}

func (l *loading) readOnly(s *slot, file string, r slotRecord) error {
	_, err := l.readBound(s, file, r)
	return err
}

// readBound reads a record and refuses it unless it is bound to this very slot
// of this very plan, so that a record of another run, attempt or slot cannot
// take its place. It returns the SHA-256 of the file.
func (l *loading) readBound(s *slot, file string, r slotRecord) (string, error) {
	sum, err := l.read(s.attempt.dir, file, maxRecordBytes, r)
	if err != nil {
		return sum, err
	}
	want := Record{
		Version: Version, Attempt: s.attempt.entry.Name,
		Slot: s.planned.Slot, PlanSHA256: s.attempt.entry.PlanSHA256,
	}
	if *r.common() != want {
		return sum, refuse(s.attempt.file(file), "does not belong to its plan, attempt and slot")
	}
	if err := CheckRequired(r); err != nil {
		return sum, refuseBecause(s.attempt.file(file), err)
	}
	return sum, nil
}

// textIsPrivate judges a file that is for people and decides nothing.
func (l *loading) textIsPrivate(s *slot, file string, maxBytes int64) error {
	if err := durable.CheckPrivateFile(s.attempt.dir, file, maxBytes); err != nil {
		return refuseFile(s.attempt.file(file), err)
	}
	return nil
}
