package walk

import (
	"testing"
	"time"

	"github.com/holdfast-project/holdfast/internal/plunger/decide"
)

// B4.1b: what the decision is asked with are those of the claimants that count.
func TestB4_1b_TheDecisionKnowsTheRivals(t *testing.T) {
	r := decide.Release{Namespace: "ns", Name: "app"}
	foreigner := decide.Release{Namespace: "evil", Name: "x", Spec: decide.Spec{ReleaseName: "app", StorageNamespace: "ns"}}
	neighbour := decide.Release{Namespace: "ns", Name: "neighbour", Spec: decide.Spec{ReleaseName: "app"}}
	c := &Case{Release: &r, Claimants: []decide.Release{foreigner, neighbour}}
	w := &Walker{Now: time.Now}
	if got := c.input(w).Claimants; len(got) != 1 || got[0] != "ns/neighbour" {
		t.Errorf("it knows %v", got)
	}
	w.Options.AllowCrossNamespaceStorage = true
	if got := c.input(w).Claimants; len(got) != 2 {
		t.Errorf("allowed, it knows %v", got)
	}
	c.Release = nil
	if got := c.input(w).Claimants; len(got) != 0 {
		t.Errorf("of what is gone it knows %v", got)
	}
}
