// Package write changes the cluster for flux-plunger: each function is one request that changes one thing
// about one HelmRelease, or about the latest Secret of its storage.
//
// Its invariants: every write names the UID of the read that decided it, and
// its resourceVersion (SetFence, by B5.8, the UID only); a suspension is only
// ever written together with the fence (B3.1); no apply says anything but these
// two fields (B3.5); the answer of a write to a HelmRelease is returned, because
// it is the live read for the next step.
//
// It must not import a manager or a cache, and it decides nothing but what B3.3
// leaves to the moment of the conflict.
package write

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
	"github.com/holdfast-project/holdfast/internal/plunger/gather"
	"github.com/holdfast-project/holdfast/internal/plunger/payload"
)

// ErrStillSuspended says that our suspension was given up and the release is
// suspended all the same, because managedFields no longer record who wants it.
var ErrStillSuspended = errors.New("spec.suspend stays true although flux-plunger gave it up")

// ErrSuspendedMeanwhile says that somebody suspended the release between the
// decision to acquire and the apply: nothing was forced (B3.3).
var ErrSuspendedMeanwhile = errors.New("suspended by another manager meanwhile")

// Unwritable says that the content of a Secret can be decoded and cannot be rewritten,
// so that nothing was sent (B10.3).
type Unwritable struct {
	Secret kube.Secret
	Cause  error
}

func (e *Unwritable) Error() string { return fmt.Sprintf("rewriting %s: %v", e.Secret, e.Cause) }

// Unwrap returns why.
func (e *Unwritable) Unwrap() error { return e.Cause }

// Writer sends the writes. It may be used by many goroutines.
type Writer struct{ objects *kube.Objects }

// NewWriter returns a Writer over the client, whose field manager must be
// contract.FieldManager.
func NewWriter(objects *kube.Objects) Writer { return Writer{objects} }

func revisionVersion(r decide.Revision) kube.Version {
	object := kube.Secrets().At(r.Namespace, r.Name)
	object.UID = r.UID
	return kube.Version{Resource: kube.Secrets(), Object: object, ResourceVersion: r.ResourceVersion}
}

func answer(object *unstructured.Unstructured, err error) (*decide.Release, error) {
	if err != nil {
		return nil, err
	}
	return gather.FromUnstructured(object)
}

// SetFence applies the fence alone, on the UID only (B5.8). On a terminating
// release the API server refuses it ([kube.AddsFinalizerToTerminating]).
func (w Writer) SetFence(ctx context.Context, r decide.Release) (*decide.Release, error) {
	return answer(w.objects.ApplyFinalizers(ctx, gather.Version(r), contract.Fence))
}

// Acquire suspends and fences in one apply (B3.1). Without force first; where
// another manager owns the field, the release is read again and forced only if
// the field still says false (B3.3): a writer by Update owns it at false, and an
// apply without force could never take it. It returns ErrSuspendedMeanwhile
// where the field says true by then.
func (w Writer) Acquire(ctx context.Context, r decide.Release) (*decide.Release, error) {
	fields := kube.Fields{Finalizers: []string{contract.Fence}, Suspend: new(true)}
	acquired, err := answer(w.objects.Apply(ctx, gather.Version(r), fields, false))
	var conflict *kube.Conflict
	if !errors.As(err, &conflict) || len(conflict.Fields()) == 0 {
		return acquired, err
	}
	fresh, err := w.objects.Get(ctx, gather.HelmReleases(), r.Namespace, r.Name)
	if err != nil {
		return nil, err
	}
	again, err := gather.FromUnstructured(fresh)
	if err != nil {
		return nil, err
	}
	if again.UID != r.UID || again.Terminating() {
		return nil, conflict
	}
	value, said, _ := unstructured.NestedBool(fresh.Object, "spec", "suspend")
	if said && value {
		return nil, fmt.Errorf("acquiring HelmRelease %s: %w", r.Ref(), ErrSuspendedMeanwhile)
	}
	// Absent again: whoever said false has let go of the field, so there is
	// nothing to force (B3.3).
	return answer(w.objects.Apply(ctx, gather.Version(*again), fields, said))
}

// Lift gives up the suspension and keeps the fence (B3.4).
func (w Writer) Lift(ctx context.Context, r decide.Release) (*decide.Release, error) {
	lifted, err := answer(w.objects.Apply(ctx, gather.Version(r), kube.Fields{Finalizers: []string{contract.Fence}}, false))
	return stillSuspended(r, lifted, err)
}

// Drop gives up all that we apply. A fence that another manager owns as well, or
// that somebody wrote back, is not ours to give up by an apply; it goes by a
// guarded JSON patch (B7.3).
func (w Writer) Drop(ctx context.Context, r decide.Release) (*decide.Release, error) {
	object, err := w.objects.Apply(ctx, gather.Version(r), kube.Fields{}, false)
	for err == nil {
		index := slices.Index(object.GetFinalizers(), contract.Fence)
		if index < 0 {
			break
		}
		object, err = w.objects.RemoveFinalizerAt(ctx, gather.HelmReleases().Named(object), index, contract.Fence)
	}
	dropped, err := answer(object, err)
	return stillSuspended(r, dropped, err)
}

// stillSuspended tells a suspension that was ours alone and did not go with our
// claim: somebody wiped managedFields, so that the API server has no way to know
// that nobody wants it any more.
func stillSuspended(before decide.Release, after *decide.Release, err error) (*decide.Release, error) {
	if err == nil && before.Suspension() == decide.Ours && after.Suspended() {
		return after, ErrStillSuspended
	}
	return after, err
}

// NoteUID writes the UID that is about to be deleted, with the generation of the
// hold, and what is noted of its revision, before the delete (B4.2, B4.2a).
func (w Writer) NoteUID(ctx context.Context, r decide.Release, uid, revision string) (*decide.Release, error) {
	return answer(w.objects.Annotate(ctx, gather.Version(r), map[string]string{
		contract.ProcessedUID: uid + "@" + strconv.FormatInt(r.Generation, 10), contract.NotedRevision: revision}))
}

// NoteVersion writes the number of the deleted revision, after the delete.
func (w Writer) NoteVersion(ctx context.Context, r decide.Release, number int) (*decide.Release, error) {
	return answer(w.objects.Annotate(ctx, gather.Version(r), map[string]string{contract.ProcessedVersion: strconv.Itoa(number)}))
}

// MarkUnproven writes the number of a revision that we deleted and that nothing
// has replaced (B5.6).
func (w Writer) MarkUnproven(ctx context.Context, r decide.Release, number int) (*decide.Release, error) {
	return answer(w.objects.Annotate(ctx, gather.Version(r), map[string]string{contract.Unproven: strconv.Itoa(number)}))
}

// Request asks helm-controller for a reconcile and records for which repaired
// UID, in one patch (B10.1).
func (w Writer) Request(ctx context.Context, r decide.Release, uid string, now time.Time) (*decide.Release, error) {
	return answer(w.objects.Annotate(ctx, gather.Version(r), map[string]string{
		contract.RequestedAt: now.UTC().Format(time.RFC3339Nano), contract.RequestedUID: uid}))
}

// Remind asks helm-controller to reconcile a terminating release and counts it
// (B5.7).
func (w Writer) Remind(ctx context.Context, r decide.Release, unproven int, now time.Time) (*decide.Release, error) {
	annotations := map[string]string{
		contract.RequestedAt: now.UTC().Format(time.RFC3339Nano),
		contract.Reminders:   strconv.Itoa(r.ReminderCount() + 1),
	}
	if unproven > 0 {
		annotations[contract.Unproven] = strconv.Itoa(unproven)
	}
	return answer(w.objects.Annotate(ctx, gather.Version(r), annotations))
}

// FillStatus writes what is empty of history and storageNamespace, and only
// that (B5.7). The snapshot needs no payload: helm-controller uninstalls by
// name, namespace and version; chart, digests and times are required by the
// CRD and not used.
func (w Writer) FillStatus(ctx context.Context, r decide.Release, latest decide.Revision, now time.Time) (*decide.Release, error) {
	const unused = "unknown"
	status := map[string]any{}
	if r.Status.StorageNamespace == "" {
		status["storageNamespace"] = r.StorageNamespace()
	}
	if len(r.Status.History) == 0 {
		at := now.UTC().Format(time.RFC3339)
		status["history"] = []any{map[string]any{
			"name": r.ReleaseName(), "namespace": r.ReleaseNamespace(), "version": latest.Version, "status": latest.Status,
			"chartName": unused, "chartVersion": unused, "digest": unused, "configDigest": unused,
			"firstDeployed": at, "lastDeployed": at,
		}}
	}
	return answer(w.objects.PatchStatus(ctx, gather.Version(r), status))
}

// DeleteRevision deletes the Secret of a revision under the UID and the
// resourceVersion that were read last (B4.3).
func (w Writer) DeleteRevision(ctx context.Context, revision decide.Revision) error {
	return w.objects.DeleteExactly(ctx, revisionVersion(revision))
}

// Rewrite sets the status of the Secret that was read to failed, in its payload
// and its label, in one update (B10.1).
func (w Writer) Rewrite(ctx context.Context, read kube.Secret) error {
	if read.Type() != gather.SecretType {
		return fmt.Errorf("rewriting %s: its type is %q, not Helm's", read, read.Type())
	}
	content, err := read.Data(payload.Key)
	if err != nil {
		return fmt.Errorf("rewriting %s: %w", read, err)
	}
	content, err = payload.WithStatus(content, decide.StatusFailed)
	if err != nil {
		return &Unwritable{read, err}
	}
	_, err = w.objects.UpdateSecret(ctx, read, kube.SecretChange{
		Data: map[string][]byte{payload.Key: content}, Labels: map[string]string{"status": decide.StatusFailed}})
	return err
}
