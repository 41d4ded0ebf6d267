package evidence

import (
	"github.com/holdfast-project/holdfast/internal/identity"
)

// A5.5: the records tell a history that the protocol can have written. One that
// it cannot proves that files were lost, added or taken from elsewhere, and then
// no absence proves anything any more.
func (l *loading) historiesArePossible() error {
	for _, a := range l.attempts {
		for _, s := range a.slots {
			for _, rule := range slotRules() {
				if err := rule(s); err != nil {
					return err
				}
			}
		}
		for _, rule := range attemptRules() {
			if err := rule(a); err != nil {
				return err
			}
		}
	}
	for _, rule := range []func() error{l.migrationHadAPod, l.resumesFollowSettledAttempts, l.everythingIsUnique} {
		if err := rule(); err != nil {
			return err
		}
	}
	return nil
}

// A resume refuses while a create of an earlier attempt is uncertain and nobody has
// reconciled it (A4.7). One that is registered all the same says that its outcome,
// or the statement on it, was there and is lost. A historical migration-resume was
// registered by another helper under rules of its own.
func (l *loading) resumesFollowSettledAttempts() error {
	for i, resume := range l.attempts {
		if resume.entry.Kind != Resume {
			continue
		}
		for _, earlier := range l.attempts[:i] {
			for _, s := range earlier.slots {
				if s.started != nil && s.receipt == nil && s.rejected == nil && s.reconciled == nil {
					return refuse(s.file(kindReceipt), "is missing although %s was registered after it: files were lost", resume.entry.Name)
				}
			}
		}
	}
	return nil
}

// The built-in profile has api follow a migration that succeeded, and a run takes no
// Job for that before it has recorded a Pod of it and seen the image that it ran.
// Another profile, of the same name too, may order its Jobs otherwise.
func (l *loading) migrationHadAPod() error {
	if !l.parameters.builtIn() {
		return nil
	}
	for _, a := range l.attempts {
		migration, api := a.slot(identity.SlotMigration), a.slot(identity.SlotAPI)
		if api != nil && api.started != nil && len(migration.children) == 0 {
			return refuse(api.file(kindStarted), "exists without the receipt of a Pod of migration, which succeeded before it: files were lost")
		}
	}
	return nil
}

// slotRules judge the records of one slot beside one another.
func slotRules() []func(*slot) error {
	return []func(*slot) error{
		nothingWithoutMarker,
		oneOutcome,
		receiptNamesThePlanned,
		releaseIsOfTheReceipt,
		childrenAreOfTheReleasedJob,
		logIsOfARecordedPod,
		rejectionIsOfTheMarker,
		statementIsOfTheMarker,
	}
}

// attemptRules judge the slots of one attempt beside one another.
func attemptRules() []func(*attempt) error {
	return []func(*attempt) error{slotsStartedInOrder}
}

// An outcome, or a create's error, comes after the create, and the marker
// before it.
func nothingWithoutMarker(s *slot) error {
	if s.started != nil {
		return nil
	}
	for _, record := range []struct {
		exists bool
		kind   recordKind
	}{
		{s.receipt != nil, kindReceipt},
		{s.rejected != nil, kindRejected},
		{s.reconciled != nil, kindReconciled},
		{s.released != nil, kindReleased},
		{s.createError, kindCreateError},
	} {
		if record.exists {
			return refuse(s.file(record.kind), "exists without its started marker: files were lost")
		}
	}
	return nil
}

// A create has one outcome. A statement is for one that has none. The text of a create's
// error is for people and no outcome. Beside a receipt no run writes one, but there it
// shows that a file was added and not that one was lost: what is recorded is as true as
// before, and a refusal would take its cleanup away.
func oneOutcome(s *slot) error {
	switch {
	case s.receipt != nil && s.rejected != nil:
		return refuse(s.file(kindRejected), "conflicts with the slot's receipt")
	case s.receipt != nil && s.reconciled != nil:
		return refuse(s.file(kindReconciled), "conflicts with the slot's receipt")
	case s.rejected != nil && s.reconciled != nil:
		return refuse(s.file(kindReconciled), "conflicts with the slot's rejection")
	}
	return nil
}

func receiptNamesThePlanned(s *slot) error {
	if s.receipt == nil {
		return nil
	}
	if found := s.receipt.Object().Place(); found != s.planned.Object() {
		return refuse(s.file(kindReceipt), "is of %s, but %s was planned", found, s.planned.Object())
	}
	return nil
}

// Only a Job is created suspended, so only a Job is released, and only after
// its receipt (A4.2c).
func releaseIsOfTheReceipt(s *slot) error {
	switch {
	case s.released == nil:
	case s.planned.Kind != "Job":
		return refuse(s.file(kindReleased), "releases a %s, which is never suspended", s.planned.Kind)
	case s.receipt == nil:
		return refuse(s.file(kindReleased), "exists without the slot's receipt: files were lost")
	case s.released.UID != s.receipt.UID:
		return refuse(s.file(kindReleased), "is of another Job (uid %s) than the receipt", s.released.UID)
	}
	return nil
}

// A suspended Job has no Pod, so a Pod comes after the release.
func childrenAreOfTheReleasedJob(s *slot) error {
	for _, child := range s.children {
		file := s.attempt.file(ChildFile(s.planned.Slot, child.UID))
		switch {
		case s.receipt == nil:
			return refuse(file, "exists without its Job's receipt: files were lost")
		case s.released == nil:
			return refuse(file, "exists without its Job's release: files were lost")
		case child.OwnerUID != s.receipt.UID:
			return refuse(file, "is of a Pod of another owner (uid %s) than the slot's Job", child.OwnerUID)
		case child.Namespace != s.planned.Namespace:
			return refuse(file, "is of a Pod in another namespace")
		}
	}
	return nil
}

// A log is a Pod's, and every Pod is recorded before anything is made of it.
func logIsOfARecordedPod(s *slot) error {
	switch {
	case s.log && s.released == nil:
		return refuse(s.file(kindLog), "exists without its Job's release: files were lost")
	case s.log && len(s.children) == 0:
		return refuse(s.file(kindLog), "exists without the receipt of a Pod of its Job: files were lost")
	}
	return nil
}

func rejectionIsOfTheMarker(s *slot) error {
	if s.rejected != nil && s.rejected.AuditID != s.started.AuditID {
		return refuse(s.file(kindRejected), "is of another request than the started marker")
	}
	return nil
}

func statementIsOfTheMarker(s *slot) error {
	if s.reconciled != nil && s.reconciled.MarkerSHA256 != s.startedSHA256 {
		return refuse(s.file(kindReconciled), "is on another started marker than the slot's")
	}
	return nil
}

// The receipt of one slot, and the release of a Job, is durable before the marker
// of the next: a started slot follows none that was not started, was rejected, has
// no receipt, or is a Job that was not let run. Without its release a Job would pass
// for one that never had a Pod, and its first Pod would not be waited for (A6.3).
func slotsStartedInOrder(a *attempt) error {
	for i, s := range a.slots[1:] {
		before := a.slots[i]
		switch {
		case s.started == nil:
		case before.started == nil:
			return refuse(before.file(kindStarted), "is missing although %s was started after it: files were lost", s.planned.Slot)
		case before.rejected != nil:
			return refuse(s.file(kindStarted), "exists although %s was rejected before it", before.planned.Slot)
		case before.receipt == nil:
			return refuse(before.file(kindReceipt), "is missing although %s was started after it: files were lost", s.planned.Slot)
		case before.released == nil && before.planned.Object().Consumer():
			return refuse(before.file(kindReleased), "is missing although %s was started after it: files were lost", s.planned.Slot)
		}
	}
	return nil
}

// everythingIsUnique refuses evidence in which one object, request or attempt
// appears twice: one of the two was copied.
func (l *loading) everythingIsUnique() error {
	seen := map[string]string{}
	// once reports where a value was seen before. The kinds of value share one
	// map but not their keys.
	once := func(kind, value, file string) error {
		key := kind + " " + value
		if first, twice := seen[key]; twice {
			return refuse(file, "has the same %s as %s", kind, first)
		}
		seen[key] = file
		return nil
	}
	for _, a := range l.attempts {
		if err := once("nonce", a.plan.Nonce, a.file(PlanFile)); err != nil {
			return err
		}
		for _, s := range a.slots {
			if err := slotIsUnique(s, once); err != nil {
				return err
			}
		}
	}
	return nil
}

func slotIsUnique(s *slot, once func(kind, value, file string) error) error {
	if err := once("planned object", s.planned.Object().String(), s.attempt.file(PlanFile)); err != nil {
		return err
	}
	if s.started != nil {
		if err := once("Audit-ID", s.started.AuditID, s.file(kindStarted)); err != nil {
			return err
		}
	}
	if s.receipt != nil {
		if err := once("UID", s.receipt.UID, s.file(kindReceipt)); err != nil {
			return err
		}
	}
	for _, child := range s.children {
		if err := once("UID", child.UID, s.attempt.file(ChildFile(s.planned.Slot, child.UID))); err != nil {
			return err
		}
	}
	return nil
}

// Object is the acknowledged object with its UID.
func (r *Receipt) Object() identity.Object {
	return identity.Object{APIVersion: r.APIVersion, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name, UID: r.UID}
}
