package gather

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// B5.6: when a revision was stored is the API server's word, of one whose labels are
// not Helm's too.
func TestB5_6_ARevisionSaysWhenItWasStored(t *testing.T) {
	at := time.Date(2026, 11, 29, 11, 0, 0, 0, time.UTC)
	for version, want := range map[string]int{"2": 2, "none": 0} {
		meta := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(at), Labels: map[string]string{"version": version}}}
		if got := revisionOf(&meta); got.Version != want || !got.Created.Equal(at) {
			t.Errorf("version %q: %+v", version, got)
		}
	}
}
