package preflight

import (
	"slices"
	"testing"

	"github.com/holdfast-project/holdfast/internal/cleanup"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/render"
)

// A1.6, A6.12: the run asks for all that cleanup will need for the kinds of its
// plan, and for no right over a kind that it does not create.
func TestRunAsksForWhatItsCleanupNeeds(t *testing.T) {
	const namespace = "ns"
	for _, kinds := range [][]string{{"Job"}, {"Secret", "Job", "Job"}, {"Secret", "NetworkPolicy", "Job"}} {
		var slots []render.Slot
		for _, kind := range kinds {
			slots = append(slots, render.Slot{Object: identity.Object{Kind: kind}})
		}
		asked := permissions(namespace, slots)
		for _, needed := range cleanup.Permissions(namespace, kinds...) {
			if !slices.Contains(asked, needed) {
				t.Errorf("%v: it does not ask for %+v", kinds, needed)
			}
		}
		for _, p := range asked {
			if p.Resource == "secrets" && !slices.Contains(kinds, "Secret") {
				t.Errorf("%v: it asks for %+v", kinds, p)
			}
			if p.Resource == "networkpolicies" && p.Verb != "list" && !slices.Contains(kinds, "NetworkPolicy") {
				t.Errorf("%v: it asks for %+v", kinds, p)
			}
		}
	}
}
