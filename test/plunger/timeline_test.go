package plunger

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-project/holdfast/internal/plunger/plungertest"
	"github.com/holdfast-project/holdfast/test/helmcontroller/lab"
)

// timeline is one watch on a namespace's releases: every state that anybody saw,
// with the time at which it arrived here.
type timeline struct {
	mu   sync.Mutex
	seen map[string][]moment
	// more is closed and made anew with every event.
	more chan struct{}
}

type moment struct {
	at                       time.Time
	stuck, ready             bool
	fenced, suspended, ended bool
	// remembered is whether status.history holds anything.
	remembered bool
	// says is the reason of the Ready condition.
	says string
}

func (b *bench) watch(t testing.TB, namespace string) *timeline {
	t.Helper()
	w, err := b.Client.Watch(t.Context(), &helmv2.HelmReleaseList{}, client.InNamespace(namespace))
	must(t, err)
	t.Cleanup(w.Stop)
	line := &timeline{seen: map[string][]moment{}, more: make(chan struct{})}
	go func() {
		for event := range w.ResultChan() {
			hr, ok := event.Object.(*helmv2.HelmRelease)
			if !ok {
				continue
			}
			line.add(hr.Name, moment{at: time.Now(), stuck: lab.Stuck(hr), ready: lab.Ready(hr), fenced: plungertest.Fenced(hr),
				suspended: hr.Spec.Suspend, remembered: len(hr.Status.History) > 0, ended: event.Type == watch.Deleted, says: lab.Says(hr)})
		}
	}()
	return line
}

func (l *timeline) add(name string, m moment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen[name] = append(l.seen[name], m)
	close(l.more)
	l.more = make(chan struct{})
}

// wait returns when a state was seen of a release, also long ago.
func (l *timeline) wait(name string, what func(moment) bool) error {
	deadline := time.After(plungertest.Settle)
	for {
		l.mu.Lock()
		seen, more := slices.ContainsFunc(l.seen[name], what), l.more
		l.mu.Unlock()
		if seen {
			return nil
		}
		select {
		case <-more:
		case <-deadline:
			return fmt.Errorf("waiting for %s: the state was never seen", name)
		}
	}
}

// within reports whether a state was seen after from, and no later than bound
// after the call.
func (l *timeline) within(name string, from time.Time, bound time.Duration, what func(moment) bool) bool {
	deadline := time.After(bound)
	for {
		l.mu.Lock()
		seen, more := l.seen[name], l.more
		l.mu.Unlock()
		if !first(seen, from, what).IsZero() {
			return true
		}
		select {
		case <-more:
		case <-deadline:
			return false
		}
	}
}

// of returns what was seen of a release.
func (l *timeline) of(name string) []moment {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.seen[name])
}

// story tells what was seen of a release, with the times from the first error on.
func (l *timeline) story(name string) string {
	seen := l.of(name)
	from := first(seen, time.Time{}, func(m moment) bool { return m.stuck })
	var told []string
	for _, m := range seen {
		if state := fmt.Sprintf("%s fenced=%t suspended=%t remembered=%t", m.says, m.fenced, m.suspended, m.remembered); !m.at.Before(from) {
			told = append(told, fmt.Sprintf("%v %s", m.at.Sub(from).Round(time.Millisecond), state))
		}
	}
	return name + ": " + strings.Join(told, "; ")
}

// first returns when a state was first seen at or after a time, zero if never.
func first(seen []moment, from time.Time, what func(moment) bool) time.Time {
	for _, m := range seen {
		if !m.at.Before(from) && what(m) {
			return m.at
		}
	}
	return time.Time{}
}

// spread is min, median and max.
type spread []time.Duration

func (s spread) String() string {
	if len(s) == 0 {
		return "none"
	}
	sorted := slices.Sorted(slices.Values(s))
	round := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	return fmt.Sprintf("%v / %v / %v of %d", round(sorted[0]), round(sorted[len(sorted)/2]), round(sorted[len(sorted)-1]), len(sorted))
}

func (s spread) median() time.Duration {
	if len(s) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(s))[len(s)/2]
}
