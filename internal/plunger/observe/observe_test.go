package observe

import (
	"testing"
	"time"

	"github.com/holdfast-project/holdfast/internal/plunger/decide"
)

// B2.4, B5.4, B8.3: a reason is told once for each generation of its object, or,
// where somebody waits, again only after the time that the list allows.
func TestWanted(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	told := decide.Release{Namespace: "ns", Name: "app", UID: "one", Generation: 4}
	as := func(uid string, generation int64) decide.Release {
		r := told
		r.UID, r.Generation = uid, generation
		return r
	}
	for name, c := range map[string]struct {
		reason decide.Reason
		r      decide.Release
		after  time.Duration
		want   bool
	}{
		"at once again":                       {decide.SuspensionNotOwned, told, 0, false},
		"a day later, the same generation":    {decide.SuspensionNotOwned, told, 24 * time.Hour, false},
		"another generation":                  {decide.SuspensionNotOwned, as("one", 5), 0, true},
		"another object":                      {decide.SuspensionNotOwned, as("two", 4), 0, true},
		"repeated: too early":                 {decide.UninstallPending, told, decide.UninstallPending.Repeat() - time.Second, false},
		"repeated: too early, and new values": {decide.UninstallPending, as("one", 5), time.Second, false},
		"repeated: in time":                   {decide.UninstallPending, told, decide.UninstallPending.Repeat(), true},
		"the end of another recovery":         {decide.Recovered, told, time.Second, true},
	} {
		teller := NewTeller(nil, "test", nil)
		events := []decide.Event{{Reason: c.reason, Message: "m"}}
		if len(teller.Wanted(told, events, now)) != 1 {
			t.Errorf("%s: not told the first time", name)
		}
		teller.remember(told, events[0], now)
		if got := len(teller.Wanted(c.r, events, now.Add(c.after))) == 1; got != c.want {
			t.Errorf("%s: told %t, want %t", name, got, c.want)
		}
		teller.remember(c.r, events[0], now)
		if len(teller.told) != 1 {
			t.Errorf("%s: %d objects of one name are remembered", name, len(teller.told))
		}
		teller.Forget(told.Ref())
		if len(teller.Wanted(told, events, now)) != 1 || len(teller.told) != 0 {
			t.Errorf("%s: an object that is gone is remembered", name)
		}
	}
}

// B4.1b, B8.3: a refusal is told once for each of its causes, and no more often than
// mostCauses in a generation, whatever they say.
func TestEachCauseOfARefusal(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	r := decide.Release{Namespace: "ns", Name: "app", UID: "one", Generation: 4}
	teller, told := NewTeller(nil, "test", nil), 0
	tell := func(reason decide.Reason, message string) {
		for _, event := range teller.Wanted(r, []decide.Event{{Reason: reason, Message: message}}, now) {
			teller.remember(r, event, now)
			told++
		}
	}
	for i, want := range []int{1, 2, 2, 2, 3, 4, 5, 5, 5} {
		tell(decide.StorageRefused, []string{"role", "payload", "payload", "role", "another", "third", "fourth", "fifth", "sixth"}[i])
		if told != want {
			t.Errorf("after %d looks it was told %d times, want %d", i+1, told, want)
		}
	}
	r.Generation, told = 5, 0
	tell(decide.StorageRefused, "role")
	tell(decide.StorageRefused, "payload")
	tell(decide.SuspensionNotOwned, "one")
	tell(decide.SuspensionNotOwned, "two")
	if told != 3 {
		t.Errorf("in the next generation it was told %d times, want 3", told)
	}
}
