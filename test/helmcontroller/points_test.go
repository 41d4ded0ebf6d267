package helmcontroller

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// B5.10: a look is stopped at its beginning, or known to be under way until it is done.
func TestGateKnowsWhatIsUnderWay(t *testing.T) {
	var gate Gate
	object := types.NamespacedName{Namespace: "ns", Name: "app"}
	gate.At(t.Context(), PointRead, object)
	if !gate.Under(object) || gate.Under(types.NamespacedName{Namespace: "ns", Name: "other"}) {
		t.Error("a look past its beginning is not under way, or another one is")
	}
	stop := gate.Hold(PointRead, object)
	gate.At(t.Context(), PointDone, object)
	if gate.Under(object) {
		t.Error("a look that is done is under way")
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		gate.At(t.Context(), PointRead, object)
	}()
	<-stop.Arrived()
	if gate.Under(object) {
		t.Error("a look that is stopped at its beginning is under way")
	}
	stop.Release()
	<-gone
	if !gate.Under(object) {
		t.Error("a look that was let go on is not under way")
	}
}
