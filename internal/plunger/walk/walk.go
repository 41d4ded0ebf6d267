// Package walk takes a release from what was read to where nothing is left to
// do: it reads what the decision asks for, asks again, sends exactly one write,
// and takes the write's answer as the next input (B1.1). The reconciler and the
// drain walk the same way.
//
// Its invariants: a write rests on a live read of the HelmRelease after which
// nothing else was read (B1.2); the write runs on a detached, bounded context,
// so that a stop never leaves an outcome unknown by its own doing (B6.4a); an
// outcome that is unknown is recorded for the Lease (B6.6).
//
// It must not import a manager or a cache.
package walk

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
	"github.com/holdfast-project/holdfast/internal/plunger/gather"
	"github.com/holdfast-project/holdfast/internal/plunger/observe"
	"github.com/holdfast-project/holdfast/internal/plunger/write"
)

const (
	// WriteBound is how long one write may take, a stop notwithstanding. It is
	// less than the manager's bounded stop, so that the write that was sent last
	// is answered before the stop is over.
	WriteBound = 8 * time.Second
	// conflicts is how often a write that lost against another one is decided
	// again at once (B3.3).
	conflicts = 5
	// deferral is how long a walk that lost more often waits.
	deferral = 2 * time.Second
	// dryLook is how long a dry run leaves a release alone after it said what it
	// would write: what it would change stays as it is, and asking every moment
	// would only be load (B8.5). Each change of the object brings a look as well.
	dryLook = time.Minute
	// maxSteps ends a walk that does not come to an end by itself; the longest,
	// reclaim with every conflict, takes under thirty.
	maxSteps = 60
)

// Ledger records whether every write had a definite answer (B6.6).
type Ledger struct{ unknown atomic.Bool }

// Definite reports whether no write's outcome was ever left unknown.
func (l *Ledger) Definite() bool { return !l.unknown.Load() }

// Walker walks. It may be used by many goroutines.
type Walker struct {
	Reader  gather.Reader
	Writer  write.Writer
	Teller  *observe.Teller
	Metrics *observe.Metrics
	Ledger  *Ledger
	Options decide.Options
	// Now is the clock.
	Now func() time.Time
	// DryRun decides and tells, and writes nothing but events (B8.5).
	DryRun bool
}

// Case is one release on its way.
type Case struct {
	Namespace, Name string
	// Release is the latest view of it, nil where it is gone; each live read and each
	// write's answer replaces it. Live says that it is one of those, not a cache's, and
	// that nothing else was read since.
	Release *decide.Release
	Live    bool
	// Seen is the resourceVersion of the last live read or write's answer, empty
	// before the first.
	Seen string
	// Claimants are the others that name the same release; decide.Input's are those
	// of them that count.
	Claimants []decide.Release
	// Memory and Draining are as in decide.Input.
	Memory   decide.Memory
	Draining bool

	storage *decide.Storage
	secret  kube.Secret
	lost    int
}

func (c *Case) input(w *Walker) decide.Input {
	in := decide.Input{Release: c.Release, Storage: c.storage, Memory: c.Memory,
		Now: w.Now(), Draining: c.Draining, Options: w.Options}
	for _, other := range c.rivals(w) {
		in.Claimants = append(in.Claimants, other.Ref())
	}
	return in
}

func (c *Case) rivals(w *Walker) []decide.Release {
	if c.Release == nil {
		return nil
	}
	return w.Options.Rivals(*c.Release, c.Claimants)
}

// Walk goes on until there is nothing to do right now, and returns after which
// time to look again, zero for not before the object changes.
func (w *Walker) Walk(ctx context.Context, c *Case) (time.Duration, error) {
	c.storage, c.Memory = c.Memory.TakeListing(c.Release, w.Now())
	for range maxSteps {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		action := decide.Next(c.input(w))
		if c.Release != nil {
			action.Events = w.Teller.Wanted(*c.Release, action.Events, w.Now())
		}
		after, done, err := w.step(ctx, c, action)
		if done || err != nil {
			return after, err
		}
	}
	return 0, fmt.Errorf("walking HelmRelease %s/%s: %d steps without an end", c.Namespace, c.Name, maxSteps)
}

// Explain reads what a decision about the release rests on, and returns both. It
// writes nothing and tells nothing (B8.4).
func (w *Walker) Explain(ctx context.Context, c *Case) (decide.Input, decide.Action, error) {
	for range maxSteps {
		if err := w.Look(ctx, c); err != nil {
			return decide.Input{}, decide.Action{}, err
		}
		in := c.input(w)
		action := decide.Next(in)
		if !action.Verb.Reads() {
			return in, action, nil
		}
		if err := w.read(ctx, c, action); err != nil {
			return decide.Input{}, decide.Action{}, err
		}
	}
	return decide.Input{}, decide.Action{}, fmt.Errorf("explaining HelmRelease %s/%s: it changes faster than it can be read; try again", c.Namespace, c.Name)
}

// step does one thing. A decision of the cache to write, or to tell, is only a
// reason to look; a decision that nothing needs doing is taken from it.
func (w *Walker) step(ctx context.Context, c *Case, action decide.Action) (after time.Duration, done bool, err error) {
	switch {
	case action.Verb.Reads():
		if err = w.read(ctx, c, action); err != nil && ctx.Err() == nil {
			w.failed(ctx, c, action, err)
		}
		return 0, false, err
	case !c.Live && (action.Verb.Writes() || len(action.Events) > 0):
		return 0, false, w.Look(ctx, c)
	case action.Verb.Writes() && w.DryRun:
		logr.FromContextOrDiscard(ctx).Info("would write, but for --dry-run", "verb", action.Verb, "why", action.Why)
		w.report(ctx, c, action) // and nothing is remembered as done
		return dryLook, true, nil
	case action.Verb.Writes():
		return w.settle(ctx, c, action, w.write(ctx, c, action))
	default:
		w.tell(ctx, c, action)
		return action.After, true, nil
	}
}

// Look reads the release live, and remembers what that shows about a hold.
func (w *Walker) Look(ctx context.Context, c *Case) error {
	release, err := w.Reader.Release(ctx, c.Namespace, c.Name)
	if err != nil {
		return err
	}
	if release != nil && c.Release != nil && release.UID != c.Release.UID {
		// Another object under the name: nothing that was read or done before is
		// about it.
		c.Memory, c.storage, c.secret = decide.Memory{}, nil, kube.Secret{}
	}
	c.saw(release)
	if release != nil {
		c.Memory = c.Memory.Look(*release)
	}
	return nil
}

// saw takes what the API server has just shown.
func (c *Case) saw(release *decide.Release) {
	c.Release, c.Live, c.Seen = release, true, ""
	if release != nil {
		c.Seen = release.ResourceVersion
	}
}

// tell writes the events of an action that succeeded, and remembers it.
func (w *Walker) tell(ctx context.Context, c *Case, action decide.Action) {
	if c.Release == nil {
		return
	}
	c.Memory = c.Memory.After(action, c.Release, w.Options, w.Now())
	w.report(ctx, c, action)
}

// report writes the events of an action.
func (w *Walker) report(ctx context.Context, c *Case, action decide.Action) {
	w.Teller.Tell(ctx, *c.Release, action.Events, w.Now())
	if !action.Claimed {
		return
	}
	for _, other := range c.rivals(w) {
		events := []decide.Event{decide.ClaimedToo(other, *c.Release)}
		w.Teller.Tell(ctx, other, w.Teller.Wanted(other, events, w.Now()), w.Now())
	}
}

// settle judges how a write ended (B3.2, B3.3).
func (w *Walker) settle(ctx context.Context, c *Case, action decide.Action, err error) (time.Duration, bool, error) {
	var conflict *kube.Conflict
	var gone *kube.Gone
	var unwritable *write.Unwritable
	switch {
	case err == nil:
		w.Metrics.Wrote(action.Verb)
		logr.FromContextOrDiscard(ctx).Info("wrote", "verb", action.Verb, "why", action.Why)
		w.tell(ctx, c, action)
		return 0, false, nil
	case errors.As(err, &conflict), errors.Is(err, write.ErrSuspendedMeanwhile):
		return w.lose(ctx, c, action)
	case errors.As(err, &gone):
		c.storage, c.secret = nil, kube.Secret{}
		return 0, false, w.Look(ctx, c)
	case kube.AddsFinalizerToTerminating(err):
		return 0, false, w.deletedUnfenced(ctx, c)
	case errors.As(err, &unwritable):
		payload := *c.storage.Payload // that a rewrite was decided on
		payload.Undecodable = unwritable.Cause.Error()
		c.leaveAlone(payload)
		return 0, false, nil
	case errors.Is(err, write.ErrStillSuspended):
		w.tell(ctx, c, action)
		w.held(ctx, c, action, err)
		return deferral, true, nil
	default:
		var unknown *kube.UnknownOutcome
		if errors.As(err, &unknown) {
			w.Ledger.unknown.Store(true)
			c.Memory = c.Memory.Unanswered(action)
			if action.Verb == decide.DropFence && c.Release.Terminating() {
				// If it was carried out the release is gone, and nothing would ever name
				// it (B9.1); if not, the next look decides the same. A live one is still
				// there to be told of then, and twice would be a second recovery.
				w.report(ctx, c, action)
			}
		}
		w.failed(ctx, c, action, err)
		return 0, false, err
	}
}

// lose decides again from a fresh read, up to five times; helm-controller writes
// status all the time, so this is ordinary (B3.3).
func (w *Walker) lose(ctx context.Context, c *Case, action decide.Action) (time.Duration, bool, error) {
	w.Metrics.Conflicted()
	c.lost++
	if action.Verb == decide.DeleteRevision || action.Verb == decide.Rewrite {
		c.storage, c.secret = nil, kube.Secret{}
	}
	if err := w.Look(ctx, c); err != nil || c.lost <= conflicts {
		return 0, false, err
	}
	w.say(ctx, c, decide.RecoveryDeferred, "it changed between every read and the write that rested on it; tried again soon, nothing to do")
	return deferral, true, nil
}

// failed says what a step that failed leaves behind: a suspension of ours, or a
// release about which nothing can be done because the API server refuses it. What
// fails for another reason is tried again, and only logged, unless a delete is held by
// it for long (B5.4).
func (w *Walker) failed(ctx context.Context, c *Case, action decide.Action, cause error) {
	for _, event := range c.Release.Late(w.Now(), fmt.Sprintf("the step %s fails, which is tried again; see flux-plunger's log", action.Verb)) {
		w.say(ctx, c, event.Reason, event.Message)
	}
	var refused *kube.Refused
	switch {
	case c.Release.Suspension() == decide.Ours:
		w.held(ctx, c, action, cause)
	case errors.As(cause, &refused) && refused.Final():
		// Not the refusal's own words: they can be long, and the log has them.
		w.say(ctx, c, decide.StorageRefused, fmt.Sprintf("the API server refuses the step %s (%d %s), which is tried again%s: "+
			"give flux-plunger the role of its strategy, or see in its log what else refuses it", stepOf(action.Verb), refused.Code, refused.Reason, meanwhile(action.Verb)))
	}
}

func stepOf(verb decide.Verb) string {
	if verb.OnStorage() {
		return string(verb) + " on its storage"
	}
	return string(verb)
}

// meanwhile says what the refused step leaves open, where nothing else tells.
func meanwhile(verb decide.Verb) string {
	if verb == decide.SetFence {
		return ", and until then it is not recovered, and a delete leaves its resources behind"
	}
	return ""
}

// held says that a suspension of ours stands, and what keeps it (B4.5).
func (w *Walker) held(ctx context.Context, c *Case, action decide.Action, cause error) {
	what := "and its recovery does not go on"
	if action.Verb == decide.Lift || action.Verb == decide.DropFence {
		what = "and the suspension could not be lifted"
	}
	w.say(ctx, c, decide.SuspensionHeld, "suspended by flux-plunger, "+what+", which is tried again: "+cause.Error())
}

// deletedUnfenced says that the delete was accepted before the fence (B5.8).
func (w *Walker) deletedUnfenced(ctx context.Context, c *Case) error {
	stored := "its storage could not be listed"
	if storage, err := w.Reader.Storage(ctx, *c.Release); err == nil {
		stored = "stored: " + strings.Join(storage.Names(), ", ") // last: a note is cut at its end
	}
	w.say(ctx, c, decide.DeletedUnfenced, "deleted after helm-controller had forgotten it and before the fence could be set, so its resources are probably left behind; "+
		"finish by hand: helm uninstall "+c.Release.ReleaseName()+" --namespace "+c.Release.StorageNamespace()+"; "+stored)
	return w.Look(ctx, c)
}

func (w *Walker) say(ctx context.Context, c *Case, reason decide.Reason, message string) {
	if c.Release == nil {
		return
	}
	events := w.Teller.Wanted(*c.Release, []decide.Event{{Reason: reason, Message: message}}, w.Now())
	w.Teller.Tell(ctx, *c.Release, events, w.Now())
}
