// Package unfence lets one HelmRelease go: it lifts a suspension that
// flux-plunger alone holds and removes every copy of the fence, without waiting
// for helm-controller. It is what the pre-delete hook and an operator's command
// do; the controller itself never imports it (B5.3).
//
// Its invariants: every write is bound to the UID and the version, or the value, that
// was read (B7.3), so a list that changed makes it fail instead of removing another
// finalizer; a suspension that anybody else holds, alone or with us, stays (B9.2);
// ours goes before the fence, so that it never stands without it (B9.3).
//
// It must not import a manager, a cache or package write, and it reads no Secret.
package unfence

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
	"github.com/holdfast-project/holdfast/internal/plunger/gather"
)

const (
	// attempts is how often a release is read again after a write that lost
	// against another one. helm-controller writes a release a few times in a row
	// and then rests, so five with growing pauses outlast it.
	attempts = 5
	// pause is the wait before the second attempt; it doubles.
	pause = 200 * time.Millisecond
)

// Releaser lets releases go.
type Releaser struct {
	objects *kube.Objects
	reader  gather.Reader
}

// New returns a Releaser over the client, whose field manager must be
// contract.FieldManager.
func New(objects *kube.Objects) Releaser {
	return Releaser{objects: objects, reader: gather.NewReader(objects)}
}

// Outcome says what was done to one release; it is true also beside an error.
type Outcome struct {
	// Release is the release as it was when the last write to it was decided;
	// nil when it was gone before any.
	Release *decide.Release
	// Lifted is true when our suspension was removed, Yielded when it was left to
	// another manager who wants it too.
	Lifted, Yielded bool
	// Removed is the number of copies of the fence that were removed.
	Removed int
	// Unanswered is true when a write got no answer, and so was carried out or not:
	// beside a nil error nothing of ours is left all the same.
	Unanswered bool
}

// LetGo lets the HelmRelease of this UID go. One that is gone, or that has
// another UID by now, needs nothing. A write that lost against another one, or
// whose outcome is not known, is tried again from a fresh read; a definite
// refusal is not, because the answer would be the same.
func (u Releaser) LetGo(ctx context.Context, namespace, name, uid string) (Outcome, error) {
	var outcome Outcome
	wait := pause
	for attempt := 1; ; attempt++ {
		err := u.attempt(ctx, namespace, name, uid, &outcome)
		if err == nil {
			return outcome, nil
		}
		err = fmt.Errorf("letting HelmRelease %s/%s go: %w", namespace, name, err)
		var refused *kube.Refused
		if attempt == attempts || errors.As(err, &refused) && refused.Final() || !Sleep(ctx, wait) {
			return outcome, err
		}
		wait *= 2
	}
}

// attempt reads the release once and writes until nothing of ours is left, each
// write on the answer to the one before.
func (u Releaser) attempt(ctx context.Context, namespace, name, uid string, outcome *Outcome) error {
	release, err := u.reader.Release(ctx, namespace, name)
	if err != nil {
		return err
	}
	for release != nil && release.UID == uid {
		next := stepOf(*release)
		if next == done {
			return nil
		}
		outcome.Release = release
		object, err := u.write(ctx, *release, next)
		var gone *kube.Gone
		if errors.As(err, &gone) {
			return nil
		}
		if err != nil {
			var unknown *kube.UnknownOutcome
			outcome.Unanswered = outcome.Unanswered || errors.As(err, &unknown)
			return err
		}
		outcome.count(next)
		if release, err = gather.FromUnstructured(object); err != nil {
			return err
		}
	}
	return nil
}

func (o *Outcome) count(s step) {
	switch s {
	case lift:
		o.Lifted = true
	case yield:
		o.Yielded = true
	default:
		o.Removed++
	}
}

func (u Releaser) write(ctx context.Context, r decide.Release, s step) (*unstructured.Unstructured, error) {
	switch s {
	case lift:
		return u.objects.RemoveSuspend(ctx, gather.Version(r))
	case yield:
		kept := kube.Fields{}
		if r.Fenced() { // it goes by a step of its own
			kept.Finalizers = []string{contract.Fence}
		}
		return u.objects.Apply(ctx, gather.Version(r), kept, false)
	default:
		return u.objects.RemoveFinalizerAt(ctx, gather.Version(r), int(s), contract.Fence)
	}
}

// step is the next write: a non-negative one is the index of a fence to remove.
type step int

const (
	done step = -1
	lift step = -2
	// yield is an apply without the suspension, which leaves one that another manager
	// wants too to that one alone. Our claim would outlive us: what that manager gave
	// up later would stay suspended, and nobody be left to lift it (B2.2).
	yield step = -3
)

// stepOf decides the next write (B7.3): our own suspension first; then the fence
// at the highest index, because removing an entry moves all that follow it.
func stepOf(r decide.Release) step {
	if r.Suspension() == decide.Ours {
		return lift
	}
	if r.Suspension() == decide.Shared {
		return yield
	}
	for i := len(r.Finalizers) - 1; i >= 0; i-- {
		if r.Finalizers[i] == contract.Fence {
			return step(i)
		}
	}
	return done
}

// Carries reports whether LetGo would write anything: a fence, or a claim of ours on
// the suspension. The latter without the former is what somebody left who took the
// fence away; nobody but us would ever give it up.
func Carries(r decide.Release) bool { return stepOf(r) != done }

// Sleep waits, and reports false when ctx ended first; the hook waits with it too.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
