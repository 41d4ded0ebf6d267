// Package contract holds the names that flux-plunger shares with its users, with
// its earlier versions and with helm-controller.
//
// Its invariant: a name here never changes, because objects in clusters carry
// it. It imports nothing.
package contract

// The contract of names that flux-plunger keeps with its users and with its
// earlier versions (B, "Names").
const (
	// Fence is the finalizer that keeps a release until its uninstall is proven.
	Fence = "flux-plunger.cozystack.io/uninstall-fence"
	// FieldManager is the manager of every write of ours. Ownership of a
	// suspension is decided by it (B2.1), so no other program may use it.
	FieldManager = "flux-plunger"
	// LeaderElectionID names the Lease.
	LeaderElectionID = "flux-plunger.cozystack.io"

	// ProcessedVersion is the annotation with the number of the revision whose
	// Secret was deleted last (B4.2); earlier flux-plungers write it too.
	ProcessedVersion = "flux-plunger.cozystack.io/last-processed-version"
	// ProcessedUID is the annotation "<uid>@<generation of the hold>", written
	// before the Secret is deleted (B4.2).
	ProcessedUID = "flux-plunger.cozystack.io/last-processed-uid"
	// NotedRevision is the annotation "<number>@<time>", written in one patch with
	// ProcessedUID: the number of the revision that is about to be deleted, and when
	// the youngest one was stored. With it the storage tells, also after a crash,
	// whether a release was stored since (B5.6); ProcessedVersion may never follow.
	NotedRevision = "flux-plunger.cozystack.io/noted-revision"
	// Reminders is the annotation that counts the requests made for a
	// terminating release (B5.7).
	Reminders = "flux-plunger.cozystack.io/reminders"
	// RequestedUID is the annotation with the UID of the repaired Secret for
	// which a reconcile was requested. It is written by the request itself, so
	// that "once per repaired UID" (B10.1) survives a restart.
	RequestedUID = "flux-plunger.cozystack.io/requested-uid"
	// Unproven is the annotation with the number of a revision that we deleted
	// and after which helm-controller stored no release. It is set with the
	// reminder, while the storage still shows it: once the storage is empty, an
	// uninstall that skipped what only that revision owned looks complete (B5.6).
	Unproven = "flux-plunger.cozystack.io/unproven-revision"

	// RequestedAt is Flux's annotation that asks for a reconcile.
	RequestedAt = "reconcile.fluxcd.io/requestedAt"
	// HelmFinalizer is helm-controller's own finalizer.
	HelmFinalizer = "finalizers.fluxcd.io"
)
