// Package observe tells people what flux-plunger does: events on the releases,
// and metrics.
//
// Its invariant: an event has a reason from the one list in package decide, is
// told once per generation of its object, a refusal once for each of its causes,
// or again only after the time that the list allows (B2.4, B5.4, B8.3), and is
// written straight to the API server, so that it also arrives when the manager has
// stopped (B6.3). Telling never changes what is done: an event that cannot be
// written is logged.
//
// It must not import a manager or a cache, and writes nothing but events.
package observe

import (
	"context"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
	"github.com/holdfast-project/holdfast/internal/plunger/gather"
)

// eventBound is how long one event may take. It is short: an event that does not
// arrive must not hold up a drain.
const eventBound = 5 * time.Second

// Teller writes events and remembers which were told. It may be used by many
// goroutines.
type Teller struct {
	objects  *kube.Objects
	instance string
	metrics  *Metrics

	mu sync.Mutex
	// told is by "namespace/name", so that it ends with the last object of the
	// name, whose UID nobody knows any more when it is gone.
	told map[string]tellings
}

// tellings are what was told about one object; another one under its name begins
// anew.
type tellings struct {
	uid string
	of  map[decide.Reason]telling
}

// telling is when, and about which generation, a reason was told.
type telling struct {
	generation int64
	at         time.Time
	// causes are digests of what was told, of a reason that has several.
	causes []uint64
}

// mostCauses bounds what is told of one generation: a cause can name what changes
// all the time, as the HelmReleases that claim the same release.
const mostCauses = 5

// another reports whether this is a cause that was not told yet.
func (t telling) another(event decide.Event) bool {
	return event.Reason.SeveralCauses() && len(t.causes) < mostCauses && !slices.Contains(t.causes, digest(event.Message))
}

func digest(message string) uint64 {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(message))
	return sum.Sum64()
}

// NewTeller returns a Teller that signs with the instance's name, the Pod's.
func NewTeller(objects *kube.Objects, instance string, metrics *Metrics) *Teller {
	return &Teller{objects: objects, instance: instance, metrics: metrics, told: map[string]tellings{}}
}

// Wanted returns those of the events that were not told yet about the release's
// generation, or not for long enough.
func (t *Teller) Wanted(r decide.Release, events []decide.Event, now time.Time) []decide.Event {
	t.mu.Lock()
	defer t.mu.Unlock()
	var wanted []decide.Event
	for _, event := range events {
		last, known := t.about(r)[event.Reason]
		repeat := event.Reason.Repeat()
		if !known || last.generation != r.Generation && repeat == 0 || repeat > 0 && now.Sub(last.at) >= repeat || last.another(event) {
			wanted = append(wanted, event)
		}
	}
	return wanted
}

// Tell writes the events, whatever was told before, and remembers them.
func (t *Teller) Tell(ctx context.Context, r decide.Release, events []decide.Event, now time.Time) {
	for i, event := range events {
		// Events are named by their time, and two of one name are one.
		now := now.Add(time.Duration(i))
		t.remember(r, event, now)
		t.metrics.told(event.Reason)
		object := gather.HelmReleases().At(r.Namespace, r.Name)
		object.UID = r.UID
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), eventBound)
		err := t.objects.WriteEvent(bounded, object, kube.Note{Warning: event.Reason.Warning(), Reason: string(event.Reason),
			Action: "Recover", Text: event.Message, Reporter: contract.FieldManager, Instance: t.instance, At: now})
		cancel()
		log := logr.FromContextOrDiscard(ctx).WithValues("helmrelease", r.Ref(), "reason", event.Reason)
		if err != nil {
			log.Error(err, "writing an event", "note", event.Message)
			continue
		}
		log.Info("told", "note", event.Message)
	}
}

// about returns what was told about this very object, nil for nothing.
func (t *Teller) about(r decide.Release) map[decide.Reason]telling {
	if known := t.told[r.Ref()]; known.uid == r.UID {
		return known.of
	}
	return nil
}

func (t *Teller) remember(r decide.Release, event decide.Event, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.about(r)
	if of == nil {
		of = map[decide.Reason]telling{}
		t.told[r.Ref()] = tellings{uid: r.UID, of: of}
	}
	var causes []uint64
	if last := of[event.Reason]; last.generation == r.Generation {
		causes = last.causes
	}
	if event.Reason.SeveralCauses() {
		causes = append(causes, digest(event.Message))
	}
	of[event.Reason] = telling{generation: r.Generation, at: now, causes: causes}
}

// Forget drops what was told about the object of this name ("namespace/name"),
// which is gone.
func (t *Teller) Forget(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.told, name)
}
