package evidence

import (
	"regexp"
	"strings"

	"github.com/holdfast-project/holdfast/internal/identity"
)

// The layout of A1.4. The names are a contract: operators and their scripts
// know them.
const (
	ParametersFile  = "parameters.json"
	JournalFile     = "preflight-journal.json"
	UpgradeLockFile = ".upgrade-lock"
	HelperDirectory = "helper"
	HelperFile      = "upgrade-production-images"
	PlanFile        = "preflight-plan.json"

	StartupDirectory      = "upgrade-preflight"
	resumePrefix          = "upgrade-preflight-resume."
	migrationResumePrefix = "migration-preflight-resume."
	cleanupPrefix         = "preflight-cleanup."

	ResultFile            = "preflight-cleanup-result.json"
	ErrorFile             = "preflight-cleanup.err"
	ObservationsDirectory = "observations"
)

// recordKind is the kind of a file that belongs to one slot.
type recordKind string

const (
	kindStarted     recordKind = "-started.json"
	kindReceipt     recordKind = "-identity.json"
	kindReleased    recordKind = "-released.json"
	kindRejected    recordKind = "-rejected.json"
	kindReconciled  recordKind = "-reconciled.json"
	kindCreateError recordKind = "-create.err"
	kindLog         recordKind = ".log"
	kindChild       recordKind = "-child-"
)

func recordKinds() []recordKind {
	return []recordKind{kindStarted, kindReceipt, kindReleased, kindRejected, kindReconciled, kindCreateError, kindLog}
}

func slotFile(slot identity.Slot, kind recordKind) string {
	return "preflight-" + string(slot) + string(kind)
}

// StartedFile names a slot's started marker.
func StartedFile(slot identity.Slot) string { return slotFile(slot, kindStarted) }

// ReceiptFile names a slot's receipt.
func ReceiptFile(slot identity.Slot) string { return slotFile(slot, kindReceipt) }

// ReleasedFile names a Job's release.
func ReleasedFile(slot identity.Slot) string { return slotFile(slot, kindReleased) }

// RejectedFile names a slot's rejection.
func RejectedFile(slot identity.Slot) string { return slotFile(slot, kindRejected) }

// ReconciledFile names the release owner's statement on a slot.
func ReconciledFile(slot identity.Slot) string { return slotFile(slot, kindReconciled) }

// CreateErrorFile names the raw error of a slot's create.
func CreateErrorFile(slot identity.Slot) string { return slotFile(slot, kindCreateError) }

// LogFile names what a slot's Job printed.
func LogFile(slot identity.Slot) string { return slotFile(slot, kindLog) }

// ChildFile names the receipt of a Pod of a slot's Job.
func ChildFile(slot identity.Slot, podUID string) string {
	return slotFile(slot, kindChild) + podUID + ".json"
}

// recordName is a parsed file name of a slot.
type recordName struct {
	kind recordKind
	slot identity.Slot
	// uid is the Pod's, of a child receipt.
	uid string
}

// parseRecordName reads a slot's file name. Each name has one reading: the
// kinds are told apart by their ends, a child's UID has a fixed length, and a
// slot's name cannot be long enough to hold one.
func parseRecordName(name string) (recordName, bool) {
	body, ok := strings.CutPrefix(name, "preflight-")
	if !ok {
		return recordName{}, false
	}
	if rest, isJSON := strings.CutSuffix(body, ".json"); isJSON {
		if at := len(rest) - uidLength; at > 0 && identity.ValidUID(rest[at:]) {
			slot, isChild := strings.CutSuffix(rest[:at], string(kindChild))
			return recordName{kind: kindChild, slot: identity.Slot(slot), uid: rest[at:]}, isChild && identity.ValidSlot(identity.Slot(slot))
		}
	}
	for _, kind := range recordKinds() {
		if slot, found := strings.CutSuffix(body, string(kind)); found {
			return recordName{kind: kind, slot: identity.Slot(slot)}, identity.ValidSlot(identity.Slot(slot))
		}
	}
	return recordName{}, false
}

const uidLength = len("00000000-0000-0000-0000-000000000000")

// CreateRecord reports whether a file of this name says something of a create
// (A5.6). A log does not.
func CreateRecord(name string) bool {
	record, ok := parseRecordName(name)
	return ok && record.kind != kindLog
}

// SuffixLength is how many random letters and digits end a directory's name,
// as mktemp makes them.
const SuffixLength = 8

var suffixPattern = regexp.MustCompile(`^[A-Za-z0-9]{8}$`)

// ResumeDirectory names a resume's attempt directory.
func ResumeDirectory(suffix string) string { return resumePrefix + suffix }

// CleanupDirectory names one cleanup's directory.
func CleanupDirectory(suffix string) string { return cleanupPrefix + suffix }

// attemptNameFits reports whether a directory of this name may hold an attempt
// of this kind.
func attemptNameFits(kind AttemptKind, name string) bool {
	var prefix string
	switch kind {
	case Startup:
		return name == StartupDirectory
	case Resume:
		prefix = resumePrefix
	case MigrationResume:
		prefix = migrationResumePrefix
	default:
		return false
	}
	suffix, ok := strings.CutPrefix(name, prefix)
	return ok && suffixPattern.MatchString(suffix)
}

// isCleanupDirectory reports whether name is that of an earlier cleanup.
func isCleanupDirectory(name string) bool {
	suffix, ok := strings.CutPrefix(name, cleanupPrefix)
	return ok && suffixPattern.MatchString(suffix)
}

// The bounds of each kind of file in bytes. A manifest of Kubernetes is at most
// 1.5 MiB, as etcd takes it.
const (
	maxParametersBytes = 1 << 20
	maxJournalBytes    = 4 << 20
	maxPlanBytes       = 16 << 20
	maxRecordBytes     = 64 << 10
	// MaxCreateErrorBytes bounds preflight-<slot>-create.err.
	MaxCreateErrorBytes = 64 << 10
	// MaxLogBytes bounds preflight-<slot>.log.
	MaxLogBytes = 4 << 20
	// MaxReasonBytes bounds the reason of a rejection, which is one word unless
	// a webhook made it up.
	MaxReasonBytes = 1 << 10
	// MaxStatementBytes bounds the text of a release owner's statement.
	MaxStatementBytes = 4 << 10
)
