package gather

import (
	"testing"
	"time"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/internal/plunger/contract"
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

// B4.2, B5.7, B10.1: no note of ours is lost on the way to the decision.
func TestB4_2_EveryNoteReachesTheDecision(t *testing.T) {
	var release helmv2.HelmRelease
	notes := []string{contract.ProcessedVersion, contract.ProcessedUID, contract.NotedRevision, contract.Reminders,
		contract.RequestedUID, contract.Unproven, contract.RequestedAt}
	release.Annotations = map[string]string{}
	for _, key := range notes {
		release.Annotations[key] = "x"
	}
	read := FromHelmRelease(&release).Annotations
	for _, key := range notes {
		if read[key] != "x" {
			t.Errorf("%s is lost", key)
		}
	}
}
