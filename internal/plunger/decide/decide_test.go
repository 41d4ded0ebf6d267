package decide_test

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
)

const (
	trigger = `Helm upgrade failed for release ns/app with chart app@1: "app" has no deployed releases`
	running = "Running 'upgrade' action with timeout of 5m0s"
)

// youngest is when the youngest revision was stored that a hold found.
var youngest = time.Date(2026, 11, 29, 11, 0, 0, 0, time.UTC)

var now = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// edit changes an input; a row of a table is a story of edits.
type edit func(*decide.Input)

// base is a quiet, healthy release: Ready, remembered, nothing of ours.
func base(edits ...edit) decide.Input {
	release := &decide.Release{
		Namespace: "ns", Name: "app", UID: "uid", ResourceVersion: "7", Generation: 4,
		Finalizers: []string{contract.HelmFinalizer}, Annotations: map[string]string{},
		Status: decide.Status{
			ObservedGeneration: 4, StorageNamespace: "ns",
			Ready:   decide.Condition{Status: "True", Reason: "UpgradeSucceeded", ObservedGeneration: 4},
			History: []decide.Snapshot{{Name: "app", Namespace: "ns", Version: 1, Status: "deployed"}},
		},
	}
	in := decide.Input{Release: release, Now: now, Options: decide.Options{
		Strategy: decide.Repair, FenceUntil: decide.UntilRemembered, UnprovenUninstall: decide.ReleaseUnproven}}
	for _, e := range edits {
		e(&in)
	}
	return in
}

func reclaim(in *decide.Input)  { in.Options.Strategy = decide.Reclaim }
func hold(in *decide.Input)     { in.Options.UnprovenUninstall = decide.HoldUnproven }
func draining(in *decide.Input) { in.Draining = true }

// forgotten: no history, and helm-controller failed to upgrade.
func forgotten(in *decide.Input) {
	in.Release.Status.History = nil
	in.Release.Status.Ready = decide.Condition{Status: "False", Reason: "UpgradeFailed", Message: trigger, ObservedGeneration: in.Release.Generation}
	in.Release.Status.Released = in.Release.Status.Ready
	in.Release.Status.Failures = 1
}

// unrendered: no history, and the last attempt failed before Helm stored anything.
func unrendered(in *decide.Input) {
	in.Release.Status.History = nil
	in.Release.Status.Ready = decide.Condition{Status: "False", Reason: "UpgradeFailed", ObservedGeneration: in.Release.Generation,
		Message: "Helm upgrade failed for release ns/app with chart app@2: this chart does not render"}
	in.Release.Status.Released = in.Release.Status.Ready
}

func upgrading(in *decide.Input) {
	in.Release.Status.History = nil
	in.Release.Status.Ready = decide.Condition{Status: "Unknown", Reason: "Progressing", Message: running, ObservedGeneration: in.Release.Generation}
}

func fenced(in *decide.Input) { in.Release.Finalizers = append(in.Release.Finalizers, contract.Fence) }

func suspendedBy(entries ...decide.ManagedField) edit {
	return func(in *decide.Input) {
		in.Release.Spec.Suspend = new(true)
		in.Release.Managers = append(in.Release.Managers, entries...)
	}
}

func entry(manager, operation, subresource string) decide.ManagedField {
	return decide.ManagedField{Manager: manager, Operation: operation, Subresource: subresource,
		Fields: []byte(`{"f:metadata":{"f:finalizers":{".":{}}},"f:spec":{"f:suspend":{}}}`)}
}

func ours() decide.ManagedField    { return entry(contract.FieldManager, "Apply", "") }
func foreign() decide.ManagedField { return entry("flux", "Update", "") }

// held: our suspension with its fence, set by this process for revision u<v>.
func held(version int) edit {
	return func(in *decide.Input) {
		suspendedBy(ours())(in)
		fenced(in)
		in.Memory.HoldGeneration, in.Memory.HoldUID, in.Memory.HoldVersion = in.Release.Generation, fmt.Sprintf("u%d", version), version
	}
}

func annotated(key, value string) edit {
	return func(in *decide.Input) { in.Release.Annotations[key] = value }
}

// reclaimed: the note of a hold that deleted revision u<version>.
func reclaimed(version int, hold int64) edit {
	return func(in *decide.Input) {
		in.Release.Annotations[contract.ProcessedUID] = fmt.Sprintf("u%d@%d", version, hold)
		in.Release.Annotations[contract.NotedRevision] = fmt.Sprintf("%d@%s", version, youngest.Format(time.RFC3339))
	}
}

// stored lists revisions, the latest first: "2:uninstalling".
func stored(revisions ...string) edit {
	return func(in *decide.Input) {
		in.Storage = &decide.Storage{}
		for _, r := range revisions {
			var version int
			var status string
			if _, err := fmt.Sscanf(r, "%d:%s", &version, &status); err != nil {
				panic(r)
			}
			in.Storage.Revisions = append(in.Storage.Revisions, decide.Revision{
				Namespace: "ns", Name: fmt.Sprintf("sh.helm.release.v1.app.v%d", version),
				UID: fmt.Sprintf("u%d", version), ResourceVersion: "9", Version: version, Status: status, Created: youngest})
		}
	}
}

func payload(status string) edit {
	return func(in *decide.Input) {
		in.Storage.Payload = &decide.Payload{UID: in.Storage.Revisions[0].UID, Status: status}
	}
}

func repaired(in *decide.Input)  { in.Storage.Revisions[0].RepairedByUs = true }
func rechecked(in *decide.Input) { in.Storage.Rechecked = true }

func failures(n int64) edit { return func(in *decide.Input) { in.Release.Status.Failures = n } }

// deleted: the delete was accepted a minute ago, which makes a generation.
func deleted(in *decide.Input) {
	in.Release.DeletionTimestamp = now.Add(-time.Minute)
	in.Release.Generation++
}

// through: helm-controller came to the end of the present generation.
func through(in *decide.Input) {
	in.Release.Finalizers = remove(in.Release.Finalizers, contract.HelmFinalizer)
	in.Release.Status.ObservedGeneration = in.Release.Generation
	in.Release.Status.LastHandledReconcileAt = in.Release.Annotations[contract.RequestedAt]
}

func remove(list []string, what string) []string {
	var kept []string
	for _, s := range list {
		if s != what {
			kept = append(kept, s)
		}
	}
	return kept
}

func released(reason string) edit {
	return func(in *decide.Input) {
		in.Release.Status.Released = decide.Condition{Status: "False", Reason: reason,
			ObservedGeneration: in.Release.Generation, LastTransition: now.Add(-time.Second)}
	}
}

func noHistory(in *decide.Input)          { in.Release.Status.History = nil }
func noStorageNamespace(in *decide.Input) { in.Release.Status.StorageNamespace = "" }

func generation(n int64) edit { return func(in *decide.Input) { in.Release.Generation += n } }

// want is what a row expects.
type want struct {
	verb   decide.Verb
	reason decide.Reason
}

type row struct {
	name string
	in   decide.Input
	want want
}

func check(t *testing.T, rows []row) {
	t.Helper()
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			got := decide.Next(r.in)
			if got.Verb != r.want.verb {
				t.Errorf("decided %s (%s), want %s", got.Verb, got.Why, r.want.verb)
			}
			if got.Why == "" {
				t.Error("a decision without a reason")
			}
			if got.Verb == decide.Wait && r.want.reason != decide.RecoveryBackoff && got.After != bound(r.in) {
				t.Errorf("waits for %s, want %s", got.After, bound(r.in))
			}
			var reason decide.Reason
			if len(got.Events) > 0 {
				reason = got.Events[0].Reason
				if got.Events[0].Message == "" {
					t.Error("an event that says nothing")
				}
			}
			if reason != r.want.reason || len(got.Events) > 1 {
				t.Errorf("tells %v, want %q", got.Events, r.want.reason)
			}
		})
	}
}

// bound is how long a wait may last: helm-controller's uninstall is looked at more
// often than its upgrade (B5.3), and the end of a pass is waited for until five
// seconds after Ready (B3.4).
func bound(in decide.Input) time.Duration {
	ready := in.Release.Status.Ready
	switch {
	case in.Release.Terminating():
		return 15 * time.Second
	case ready.Status == "True" && !ready.LastTransition.IsZero():
		return 5*time.Second - max(in.Now.Sub(ready.LastTransition), 0)
	}
	return time.Minute
}

func sha256Prefix(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s)))[:12] }
