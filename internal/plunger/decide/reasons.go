package decide

import "time"

// Reason is the reason of an Event; the constants are the whole list (B8.3).
type Reason string

// The reasons, each with what a person should do.
const (
	// SuspensionLeftAlone: somebody else suspends a release that is stuck;
	// nothing to do unless the suspension was forgotten.
	SuspensionLeftAlone Reason = "SuspensionLeftAlone"
	// SuspensionNotOwned: a release that was recovered before is suspended by
	// somebody else, most likely an earlier flux-plunger's leftover; resume it
	// after confirming that nothing else holds it.
	SuspensionNotOwned Reason = "SuspensionNotOwned"
	// RecoveryDeferred: the release changed five times between a read and the
	// write that rested on it; it is tried again, nothing to do.
	RecoveryDeferred Reason = "RecoveryDeferred"
	// SuspensionHeld: our suspension could not be lifted, or a step under it failed;
	// look at the error.
	SuspensionHeld Reason = "SuspensionHeld"
	// UninstallPending: a delete has been held for more than ten minutes; look
	// at why helm-controller does not uninstall.
	UninstallPending Reason = "UninstallPending"
	// UninstallUnproven: nothing proves that the release was uninstalled; look
	// for what is left, with the command in the message.
	UninstallUnproven Reason = "UninstallUnproven"
	// DeletedWhileSuspended: deleted under another manager's suspension, so
	// helm-controller leaves its resources; that manager's decision.
	DeletedWhileSuspended Reason = "DeletedWhileSuspended"
	// UninstallSkipped: the same for a release that was recovered before, so
	// most likely an accident; look for what is left.
	UninstallSkipped Reason = "UninstallSkipped"
	// RemoteSkipped: the release lives in another cluster and is not recovered.
	RemoteSkipped Reason = "RemoteSkipped"
	// StorageRefused: the storage may not, or cannot, be acted on; the message
	// says why and what helps.
	StorageRefused Reason = "StorageRefused"
	// RecoveryBackoff: the release stuck again after a recovery; the next one
	// waits. Look at why its releases do not come to an end.
	RecoveryBackoff Reason = "RecoveryBackoff"
	// RecoveryFailed: helm-controller tried the repaired release and failed;
	// new values, resetAt or forceAt would help.
	RecoveryFailed Reason = "RecoveryFailed"
	// Recovered: the release is Ready again.
	Recovered Reason = "Recovered"
	// StorageContradicts: the message says stuck, the storage does not.
	StorageContradicts Reason = "StorageContradicts"
	// DeletedUnfenced: the delete came before the fence could be set, so the
	// release's resources are probably left behind.
	DeletedUnfenced Reason = "DeletedUnfenced"
	// DrainAborted: the stop of flux-plunger ended a recovery in progress; the
	// next one begins it again.
	DrainAborted Reason = "DrainAborted"
	// FenceKept: flux-plunger stopped while the uninstall was not yet proven.
	FenceKept Reason = "FenceKept"
)

// Reasons returns the whole list, for documentation and tests.
func Reasons() []Reason {
	return []Reason{
		SuspensionLeftAlone, SuspensionNotOwned, RecoveryDeferred, SuspensionHeld, UninstallPending,
		UninstallUnproven, DeletedWhileSuspended, UninstallSkipped, RemoteSkipped, StorageRefused,
		RecoveryBackoff, RecoveryFailed, Recovered, StorageContradicts, DeletedUnfenced, DrainAborted, FenceKept,
	}
}

// Warning reports whether events of this reason are of type Warning; the others
// are Normal (B8.3).
func (r Reason) Warning() bool {
	switch r {
	case SuspensionLeftAlone, RecoveryDeferred, DeletedWhileSuspended, RemoteSkipped, Recovered, DrainAborted:
		return false
	default:
		return true
	}
}

// Repeat returns after which time the reason may be told again for the same
// generation of the same object; zero means not again. A standing condition is
// told once per generation, or every look would be an event (B2.4); the one
// that somebody waits for is repeated sparingly (B5.4). Recovered is the end of one
// recovery, used up by being told ([Memory.After]): under repair a release can
// stick and be recovered twice in a generation, and each has its end.
func (r Reason) Repeat() time.Duration {
	switch r {
	case UninstallPending:
		return time.Hour
	case RecoveryDeferred, SuspensionHeld, RecoveryBackoff:
		return 10 * time.Minute
	case Recovered:
		return time.Nanosecond
	default:
		return 0
	}
}

// SeveralCauses reports whether the reason has causes that follow one another in one
// generation: a role that is given, and then a payload that cannot be decoded. Each
// is told of, or whoever mended the first would see nothing of the next (B4.1b).
func (r Reason) SeveralCauses() bool { return r == StorageRefused }
