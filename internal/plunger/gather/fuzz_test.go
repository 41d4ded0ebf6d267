package gather

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-project/holdfast/internal/plunger/decide"
)

const stuck = `{"apiVersion":"helm.toolkit.fluxcd.io/v2","kind":"HelmRelease",
"metadata":{"name":"r","namespace":"ns","uid":"00000000-0000-4000-8000-000000000001","resourceVersion":"7","generation":3,
"finalizers":["finalizers.fluxcd.io","flux-plunger.cozystack.io/uninstall-fence"],
"annotations":{"flux-plunger.cozystack.io/last-processed-version":"2","flux-plunger.cozystack.io/last-processed-uid":"00000000-0000-4000-8000-000000000002@3","flux-plunger.cozystack.io/noted-revision":"2@2026-01-01T00:00:00Z","flux-plunger.cozystack.io/reminders":"1"},
"managedFields":[{"manager":"flux-plunger","operation":"Apply","apiVersion":"helm.toolkit.fluxcd.io/v2","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:suspend":{}}}}]},
"spec":{"suspend":true},
"status":{"observedGeneration":3,"storageNamespace":"ns","history":[null],"conditions":[{"type":"Ready","status":"False","reason":"UpgradeFailed","message":"has no deployed releases"}]}}`

// B2.1, B2.2, B4.2: whatever annotations, managedFields and status an object
// carries, it is read or refused without a panic, and nothing of it makes a
// decision lift a suspension of which our own Apply is not on record.
func FuzzRelease(f *testing.F) {
	f.Add([]byte(stuck), "failed", false)
	f.Add([]byte(`{"kind":"HelmRelease","metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["flux-plunger.cozystack.io/uninstall-fence"]},"spec":{"suspend":true}}`), "", true)
	f.Add([]byte(`{"kind":"HelmRelease","metadata":{"managedFields":[{"manager":"flux-plunger","operation":"Apply","fieldsV1":{"f:spec":1}}]},"spec":{"suspend":true}}`), "deployed", false)
	f.Fuzz(func(t *testing.T, raw []byte, status string, draining bool) {
		var object unstructured.Unstructured
		if object.UnmarshalJSON(raw) != nil {
			return
		}
		release, err := FromUnstructured(&object)
		if err != nil {
			return
		}
		revision := decide.Revision{Namespace: "ns", Name: "sh.helm.release.v1.r.v2", UID: "00000000-0000-4000-8000-000000000002", Version: 2, Status: status}
		for _, strategy := range []decide.Strategy{decide.Repair, decide.Reclaim} {
			action := decide.Next(decide.Input{
				Release: release, Storage: &decide.Storage{Revisions: []decide.Revision{revision}, Rechecked: true},
				Now: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), Draining: draining,
				Options: decide.Options{Strategy: strategy, FenceUntil: decide.UntilRemembered, UnprovenUninstall: decide.HoldUnproven},
			})
			if release.Suspension() == decide.Foreign && action.Verb == decide.Lift {
				t.Fatalf("a suspension of somebody else's is lifted: %+v", action)
			}
			if status == "deployed" && (action.Verb == decide.DeleteRevision || action.Verb == decide.Rewrite) {
				t.Fatalf("a deployed revision is touched: %+v", action)
			}
		}
	})
}
