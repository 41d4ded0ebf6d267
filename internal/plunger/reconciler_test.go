package plunger

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-project/holdfast/internal/plunger/decide"
	"github.com/holdfast-project/holdfast/internal/plunger/walk"
)

// B1.2: a view from before what was last seen live is left alone, once; whatever
// else the cache shows is looked at.
func TestStaleViews(t *testing.T) {
	key := types.NamespacedName{Namespace: "ns", Name: "app"}
	at := func(uid, version string) decide.Release { return decide.Release{UID: uid, ResourceVersion: version} }
	live := func(r decide.Release) *walk.Case { return &walk.Case{Release: &r, Seen: r.ResourceVersion} }
	for name, c := range map[string]struct {
		seen *walk.Case
		view decide.Release
		want bool
	}{
		"nothing seen":                {nil, at("one", "8"), false},
		"from before":                 {live(at("one", "10")), at("one", "9"), true},
		"the same":                    {live(at("one", "10")), at("one", "10"), false},
		"from after":                  {live(at("one", "10")), at("one", "11"), false},
		"another object of the name":  {live(at("one", "10")), at("two", "9"), false},
		"versions that are no number": {live(at("one", "b")), at("one", "a"), false},
		"what was seen was a view too": {&walk.Case{Release: &decide.Release{UID: "one", ResourceVersion: "10"},
			Memory: decide.Memory{Recovering: true}}, at("one", "9"), false},
	} {
		r := &Reconciler{}
		if c.seen != nil {
			r.remember(key, c.seen)
		}
		if got := r.stale(key, c.view); got != c.want {
			t.Errorf("%s: stale %t, want %t", name, got, c.want)
		}
		if r.stale(key, c.view) {
			t.Errorf("%s: left alone for a second time", name)
		}
	}
}
