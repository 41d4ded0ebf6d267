package decide

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-project/holdfast/internal/plunger/contract"
)

// Input is everything that a decision rests on. Nil parts were not read; a
// decision that needs one returns the step that reads it.
type Input struct {
	// Release is the HelmRelease, nil when the object is gone.
	Release *Release
	// Storage holds the release's stored revisions.
	Storage *Storage
	// Claimants are the other HelmReleases ("namespace/name") whose effective
	// release name and storage namespace are the same (B4.1b), by [Options.Rivals].
	Claimants []string
	// Memory is what this process did to this object (by UID).
	Memory Memory
	// Now is the reading of the clock.
	Now time.Time
	// Draining is true after the manager's stop (B6.2).
	Draining bool
	// Options are the controller's settings.
	Options Options
}

// Strategy is how a stuck release is recovered.
type Strategy string

// The two strategies.
const (
	// Repair rewrites the blocking status in place (B10), the default.
	Repair Strategy = "repair"
	// Reclaim suspends and deletes the latest revision's Secret (B4).
	Reclaim Strategy = "reclaim"
)

// FenceUntil says when the fence of a live release goes (B3.4).
type FenceUntil string

// The values of --fence-until.
const (
	// UntilRemembered keeps it until helm-controller has a history again.
	UntilRemembered FenceUntil = "remembered"
	// UntilLifted drops it together with the suspension, as the first flux-plunger
	// did; under reclaim only.
	UntilLifted FenceUntil = "lifted"
)

// UnprovenPolicy says what becomes of a fence whose uninstall cannot be proven
// (B5.9).
type UnprovenPolicy string

// The values of --unproven-uninstall.
const (
	ReleaseUnproven UnprovenPolicy = "release"
	HoldUnproven    UnprovenPolicy = "hold"
)

// Options are the settings that change a decision.
type Options struct {
	Strategy          Strategy
	FenceUntil        FenceUntil
	UnprovenUninstall UnprovenPolicy
	// AllowCrossNamespaceStorage acts on releases whose storage is in another
	// namespace than the HelmRelease (B4.1b).
	AllowCrossNamespaceStorage bool
	// RecoverUninstalled lets repair rewrite a last revision that is
	// "uninstalled" (B10.7).
	RecoverUninstalled bool
}

// Release is what a decision needs of a HelmRelease.
type Release struct {
	Namespace, Name, UID, ResourceVersion string
	Generation                            int64
	// DeletionTimestamp is zero while the object is live.
	DeletionTimestamp time.Time
	Finalizers        []string
	Annotations       map[string]string
	Managers          []ManagedField
	Spec              Spec
	Status            Status
}

// Spec is what a decision needs of a HelmRelease's specification.
type Spec struct {
	// Suspend is nil where the field is absent or false, which no decision needs to
	// tell apart.
	Suspend                                        *bool
	ReleaseName, TargetNamespace, StorageNamespace string
	// Remote is true where spec.kubeConfig is set (B4.6).
	Remote bool
	// KeepHistory is spec.uninstall.keepHistory.
	KeepHistory bool
}

// Status is what a decision needs of a HelmRelease's status.
type Status struct {
	ObservedGeneration     int64
	StorageNamespace       string
	History                []Snapshot
	Ready, Released        Condition
	LastHandledReconcileAt string
	// Failures counts helm-controller's failed attempts at the present state.
	Failures int64
}

// Snapshot is one entry of status.history.
type Snapshot struct {
	Name, Namespace, Status string
	Version                 int
}

// Condition is one condition; the zero value stands for an absent one.
type Condition struct {
	// Status is "True", "False", "Unknown" or empty.
	Status, Reason, Message string
	ObservedGeneration      int64
	LastTransition          time.Time
}

// Storage holds the stored revisions of one release.
type Storage struct {
	// Revisions are sorted, the latest first.
	Revisions []Revision
	// Payload is the latest revision's content, where repair has read it.
	Payload *Payload
	// Rechecked is true when the latest revision was read again by its name
	// after the UID was noted (B4.3).
	Rechecked bool
	// Ahead is true where it was listed before the error (see [Listing]).
	Ahead bool
}

// Revision is the metadata of one storage Secret.
type Revision struct {
	Namespace, Name, UID, ResourceVersion string
	Version                               int
	// Status is the label, not the payload.
	Status string
	// Created is when the API server stored it first.
	Created time.Time
	// RepairedByUs is the answer of [RepairedByUs].
	RepairedByUs bool
}

// Payload is what repair has read inside the latest revision's Secret.
type Payload struct {
	// UID is the Secret's; a payload of another one is no evidence.
	UID string
	// Status is info.status, empty where the payload cannot be decoded.
	Status string
	// Undecodable says why it cannot be decoded, or not be rewritten, empty
	// otherwise.
	Undecodable string
}

// Memory is what this process remembers of its own deeds to one object. A new
// process begins with the zero value; nothing wrong may follow from that.
type Memory struct {
	// HoldGeneration is the generation that our acquire made; zero when this
	// process holds no suspension.
	HoldGeneration int64
	// HoldVersion and HoldUID name the revision that the hold is about.
	HoldVersion int
	HoldUID     string
	// GivenUp is the generation in which a recovery was given up because
	// somebody resumed the release during our hold (B3.3).
	GivenUp int64
	// Contradicted is the generation in which our fence was dropped because the
	// storage contradicted it; it is not tried again in that one (B5.8).
	Contradicted int64
	// Recoveries counts the rewrites and deletes of this object, LastRecovery
	// is the time of the last (B4.2).
	Recoveries   int
	LastRecovery time.Time
	// Recovering is true from a rewrite or delete until its end was reported.
	Recovering bool
	// Listing is the storage listed ahead of the error, nil where none is.
	Listing *Listing
	// LeftAlone is the content that cannot be rewritten, zero where none is.
	LeftAlone LeftAlone
}

// LeftAlone is a content that cannot be rewritten, and the resourceVersion of the
// Secret that it was read from: until that changes it is not read again (B10.3).
type LeftAlone struct {
	ResourceVersion string
	Payload         Payload
}

// Listing is a storage that repair lists as soon as it has set the fence, while
// helm-controller is still on its way to the error. A list waits for the API
// server's watch cache; listed now, it has waited by the time that the error is
// there.
//
// It is evidence to begin a repair on and for nothing else. helm-controller stores
// no revision between the two, the payload is read after the error, and the rewrite
// is preconditioned on that read: had somebody else stored a revision meanwhile, a
// lower one is called failed that Helm calls uninstalling, and nothing is lost.
// reclaim deletes what it lists, so it lists after the error.
type Listing struct {
	// Generation is the release's when the fence was set.
	Generation int64
	// Storage is nil until it was listed.
	Storage *Storage
	At      time.Time
}

// Terminating reports whether the delete of the release was accepted.
func (r Release) Terminating() bool { return !r.DeletionTimestamp.IsZero() }

// Fenced reports whether the release carries the fence.
func (r Release) Fenced() bool { return slices.Contains(r.Finalizers, contract.Fence) }

// Suspended reports whether spec.suspend is true, whoever set it.
func (r Release) Suspended() bool { return r.Spec.Suspend != nil && *r.Spec.Suspend }

// Ref returns "namespace/name".
func (r Release) Ref() string { return r.Namespace + "/" + r.Name }

func (r Release) helmFinalizer() bool { return slices.Contains(r.Finalizers, contract.HelmFinalizer) }

// Remembered returns the latest snapshot of status.history. helm-controller
// uninstalls that one, and nothing at all when there is none (F5).
func (r Release) Remembered() (Snapshot, bool) {
	if len(r.Status.History) == 0 {
		return Snapshot{}, false
	}
	return slices.MaxFunc(r.Status.History, func(a, b Snapshot) int { return a.Version - b.Version }), true
}

// processedVersion returns the number in the annotation, zero where there is
// none or it is no number.
func (r Release) processedVersion() int { return count(r.Annotations[contract.ProcessedVersion]) }

// count reads what anybody may have written.
func count(annotation string) int {
	n, err := strconv.Atoi(annotation)
	if err != nil {
		return 0
	}
	return max(n, 0)
}

// Processed reports whether an earlier or the present flux-plunger has deleted
// a revision of this release.
func (r Release) Processed() bool {
	_, version := r.Annotations[contract.ProcessedVersion]
	return version
}

// note returns the UID and the hold's generation of the note; ok is false where
// it is absent or damaged.
func (r Release) note() (uid string, generation int64, ok bool) {
	uid, rest, _ := strings.Cut(r.Annotations[contract.ProcessedUID], "@")
	generation, err := strconv.ParseInt(rest, 10, 64)
	return uid, generation, uid != "" && err == nil
}

// notedRevision returns what was noted beside the UID: the number of the revision, and
// when the youngest one was stored; ok is false where it is absent or damaged. A number
// that is none is zero, below which nothing is.
func (r Release) notedRevision() (version int, youngest time.Time, ok bool) {
	number, at, _ := strings.Cut(r.Annotations[contract.NotedRevision], "@")
	youngest, err := time.Parse(time.RFC3339, at)
	return count(number), youngest, err == nil
}

// noting returns the note that [Release.notedRevision] reads.
func (s Storage) noting(r Revision) string {
	youngest := slices.MaxFunc(s.Revisions, func(a, b Revision) int { return a.Created.Compare(b.Created) })
	return strconv.Itoa(r.Version) + "@" + youngest.Created.UTC().Format(time.RFC3339)
}

// ReminderCount returns how many requests were made for a terminating release
// (B5.7), zero where the annotation is absent or no number.
func (r Release) ReminderCount() int { return count(r.Annotations[contract.Reminders]) }

// Latest returns the latest stored revision.
func (s Storage) Latest() (Revision, bool) {
	if len(s.Revisions) == 0 {
		return Revision{}, false
	}
	return s.Revisions[0], true
}

func (s Storage) holds(uid string) bool {
	return slices.ContainsFunc(s.Revisions, func(r Revision) bool { return r.UID == uid })
}

func (s Storage) hasStatus(status string) bool {
	return slices.ContainsFunc(s.Revisions, func(r Revision) bool { return r.Status == status })
}

// Names returns the Secrets' names as "namespace/name", the latest first.
func (s Storage) Names() []string {
	names := make([]string, len(s.Revisions))
	for i, r := range s.Revisions {
		names[i] = r.Namespace + "/" + r.Name
	}
	return names
}

// Without returns the storage as it is after one Secret of it was deleted.
func (s Storage) Without(uid string) Storage {
	s.Revisions = slices.DeleteFunc(slices.Clone(s.Revisions), func(r Revision) bool { return r.UID == uid })
	s.Payload, s.Rechecked, s.Ahead = nil, false, false
	return s
}

// Repaired returns the storage as it is after the status of one Secret of it was
// rewritten.
func (s Storage) Repaired(uid string) Storage {
	s.Revisions = slices.Clone(s.Revisions)
	for i := range s.Revisions {
		if s.Revisions[i].UID == uid {
			s.Revisions[i].Status, s.Revisions[i].RepairedByUs = StatusFailed, true
		}
	}
	s.Payload, s.Rechecked, s.Ahead = nil, false, false
	return s
}
