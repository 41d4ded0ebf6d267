package e2e

import (
	"strings"
	"testing"

	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
	"github.com/holdfast-project/holdfast/internal/plunger/plungertest"
	"github.com/holdfast-project/holdfast/test/controlplane"
	"github.com/holdfast-project/holdfast/test/helmcontroller/lab"
)

// B10.1, B3.4: a stuck release is repaired in place: nothing suspended, nothing
// deleted, upgraded, unfenced.
func TestRepairRecoversAStuckRelease(t *testing.T) {
	t.Parallel()
	b := shared
	key := b.Releases(t, "repair-one", 1)[0]
	before := b.Live(t, key)
	var requests tap
	hold := b.untilAsked(t, key, requestLook)
	requests.before, requests.after = hold, hold
	b.start(t, key.Namespace, decide.Repair, requests.wrap)
	must(t, b.Stick(t.Context(), key, lab.Damage{}))
	hr := b.Await(t, key, plungertest.Recovered)
	b.Told(t, key, decide.Recovered)
	if hr.UID != before.UID || hr.Generation != before.Generation+1 {
		t.Errorf("generation %d after %d and one change of values: something else wrote the specification", hr.Generation, before.Generation)
	}
	stored, err := b.Revisions(t.Context(), hr)
	must(t, err)
	if len(stored) != 2 {
		t.Errorf("%d revisions stored, want the repaired one and its successor", len(stored))
	}
	if hr.Annotations[contract.RequestedUID] != string(stored[0].UID) {
		t.Errorf("asked for %q, want %q", hr.Annotations[contract.RequestedUID], stored[0].UID)
	}
	cheapEnough(t, &requests, key.Name, 4, 8)
}

// B4.3: a stuck release is reclaimed: its only revision deleted, installed again,
// unsuspended, unfenced, with the annotations in place.
func TestReclaimRecoversAStuckRelease(t *testing.T) {
	t.Parallel()
	b := shared
	key := b.Releases(t, "reclaim-one", 1)[0]
	var requests tap
	b.start(t, key.Namespace, decide.Reclaim, requests.wrap)
	must(t, b.Stick(t.Context(), key, lab.Damage{}))
	hr := b.Await(t, key, plungertest.Recovered)
	b.Told(t, key, decide.Recovered)
	if hr.Annotations[contract.ProcessedVersion] != "1" || hr.Annotations[contract.ProcessedUID] == "" || !strings.HasPrefix(hr.Annotations[contract.NotedRevision], "1@") {
		t.Errorf("the processed annotations are %v", hr.Annotations)
	}
	cheapEnough(t, &requests, key.Name, 7, 10)
}

// cheapEnough holds a recovery to its bars: writes that counted, and reads, plus
// what a conflict costs, which helm-controller's own writes cause.
func cheapEnough(t *testing.T, requests *tap, release string, writes, reads int) {
	t.Helper()
	written, lost := requests.of(release)
	read := requests.readsOf(release)
	t.Logf("%d writes, %d conflicts, %d reads", len(written), lost, len(read))
	if len(written) > writes || len(read) > reads+lost {
		t.Errorf("%d writes and %d reads with %d conflicts, want at most %d and %d: %v %v", len(written), len(read), lost, writes, reads, written, read)
	}
}

// B1.2: no Secret is ever watched, and the storage is listed as metadata only:
// asked of the API server's audit log, after a recovery by each strategy.
func TestSecretsAreNeitherWatchedNorListedWhole(t *testing.T) {
	t.Parallel()
	b := shared
	for _, strategy := range []decide.Strategy{decide.Repair, decide.Reclaim} {
		key := b.Releases(t, "audit-"+string(strategy), 1)[0]
		requests := &tap{}
		b.start(t, key.Namespace, strategy, requests.wrap)
		must(t, b.Stick(t.Context(), key, lab.Damage{}))
		b.Await(t, key, plungertest.Recovered)
		user := "system:serviceaccount:" + lab.System(string(strategy)) + ":" + lab.Account(string(strategy))
		records, err := b.ControlPlane.AuditOf(controlplane.AuditFilter{User: user, Resource: "secrets"})
		must(t, err)
		if len(records) == 0 {
			t.Errorf("%s: no request in the audit log", strategy)
		}
		for _, r := range records {
			if r.Verb == "watch" {
				t.Errorf("%s watches Secrets: %s", strategy, r.RequestURI)
			}
		}
		whole := 0
		for _, r := range requests.readsOf(key.Name) {
			if strings.Contains(r.Path, "/secrets") && !r.MetadataOnly {
				whole++
			}
		}
		if want := map[decide.Strategy]int{decide.Repair: 1, decide.Reclaim: 0}[strategy]; whole != want {
			t.Errorf("B1.2 %s read %d payloads, want %d", strategy, whole, want)
		}
	}
}
