// Package evidencetest builds valid evidence directories for tests, through the
// real journal, so that no test rests on a history that the protocol cannot
// have written.
//
// Only tests import it.
package evidencetest

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-project/holdfast/internal/durable"
	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/journal"
	"github.com/holdfast-project/holdfast/internal/strictjson"
)

// Executable is the content of the helper that wrote the evidence.
const Executable = "#!/bin/false\n"

// Opens is a journal.Setup's Executable that reads content.
func Opens(content string) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(content)), nil }
}

// The target of all evidence that this package builds.
const (
	Namespace = "openclaw-system"
	Release   = "openclaw-enterprise"
)

// Step is how far a slot came.
type Step int

// The steps. Each contains those before it, but for Rejected and Reconciled,
// which follow Uncertain.
const (
	// Planned: nothing was sent.
	Planned Step = iota
	// Uncertain: started, and neither receipt nor rejection.
	Uncertain
	// Acknowledged: with a receipt.
	Acknowledged
	// Released: a Job that was acknowledged and released.
	Released
	// WithChild: a released Job with the receipt of one Pod.
	WithChild
	// Rejected: started and definitely refused.
	Rejected
	// Reconciled: uncertain, with a release owner's statement.
	Reconciled
)

// Attempt is one attempt to be built. The first is the startup attempt, the
// others are resumes.
type Attempt struct {
	// Steps are those of the slots in the plan's order: secret,
	// network-policy, migration, api, worker. Missing ones are Planned.
	Steps []Step
	// Plan replaces the plan of the built-in profile.
	Plan *evidence.Plan
	// Offset is added to the attempt's index in its nonce, its UIDs and its
	// Audit-IDs: with another one it is the attempt of another run.
	Offset int
}

// Statement is the text of every Reconciled slot.
const Statement = "searched the audit log: the request never arrived"

// now is the time of every record.
func now() time.Time { return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) }

// Helper is the identity of the helper that wrote the evidence.
func Helper() identity.Helper {
	return identity.Helper{
		SHA256: strictjson.Sum([]byte(Executable)), ModuleVersion: "v0.0.0-test", Revision: "0123456789abcdef",
		Assets: map[string]string{"profile.yaml": strictjson.Sum([]byte("profile"))},
	}
}

// Parameters are those of a run of the built-in profile.
func Parameters() evidence.Parameters {
	return evidence.Parameters{
		Kubeconfig: "/secure/occ/kubeconfig", KubeconfigSHA256: strictjson.Sum([]byte("kubeconfig")),
		Context: "production", Namespace: Namespace, Release: Release,
		Profile:        evidence.Asset{Name: evidence.BuiltInProfile, SHA256: strictjson.Sum([]byte("profile"))},
		Chart:          evidence.Asset{Name: "openclaw-enterprise", Version: "1.2.3", SHA256: strictjson.Sum([]byte("chart"))},
		Values:         evidence.Stretched{Name: "values.yaml", Salt: strings.Repeat("5a", 16), Iterations: 1, PBKDF2: strictjson.Sum([]byte("values"))},
		Images:         []evidence.Image{{Role: "controller", Reference: "registry.example/controller@sha256:" + strictjson.Sum([]byte("image"))}},
		TimeoutSeconds: 600,
		Helper:         Helper(),
		Cluster:        identity.Cluster{NamespaceUID: UID("namespace"), KubeSystemUID: UID("kube-system")},
		CreatedAt:      evidence.FormatTime(now()),
	}
}

// Expectation is what the right command line says of evidence with these
// parameters.
func Expectation(p evidence.Parameters) evidence.Expectation {
	return evidence.Expectation{
		KubeconfigPath: p.Kubeconfig, KubeconfigSHA256: p.KubeconfigSHA256,
		Context: p.Context, Namespace: p.Namespace, Release: p.Release, Helper: p.Helper,
	}
}

// UID makes a UID out of a name; equal names give equal UIDs.
func UID(name string) string {
	sum := sha256.Sum256([]byte(name))
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// ObjectUID is the UID of a slot's object in the attempt with this index, from
// 0, and PodUID that of its Pod.
func ObjectUID(attempt int, slot identity.Slot) string {
	return UID(fmt.Sprintf("%d/%s", attempt, slot))
}

// PodUID is the UID of the Pod of a slot's Job.
func PodUID(attempt int, slot identity.Slot) string {
	return UID(fmt.Sprintf("%d/%s/pod", attempt, slot))
}

// AuditID is the Audit-ID of a slot's create.
func AuditID(attempt int, slot identity.Slot) string {
	return UID(fmt.Sprintf("%d/%s/audit", attempt, slot))
}

// Plan is the plan of the attempt with this index, with all five slots.
func Plan(attempt int) evidence.Plan {
	nonce := strictjson.Sum(fmt.Append(nil, "nonce ", attempt))[:32]
	plan := evidence.Plan{Namespace: Namespace, Release: Release, Nonce: nonce}
	for _, slot := range []identity.Slot{
		identity.SlotSecret, identity.SlotNetworkPolicy,
		identity.SlotMigration, identity.SlotAPI, identity.SlotWorker,
	} {
		plan.Slots = append(plan.Slots, PlannedSlot(slot, nonce))
	}
	return plan
}

// PlannedSlot is a slot of the built-in profile; any other name is that of a
// Job.
func PlannedSlot(slot identity.Slot, nonce string) evidence.PlannedSlot {
	p := evidence.PlannedSlot{
		Slot: slot, APIVersion: "batch/v1", Kind: "Job", Namespace: Namespace,
		Name: fmt.Sprintf("%s-preflight-%s-%s", Release, slot, nonce[:8]),
	}
	switch slot {
	case identity.SlotSecret:
		p.APIVersion, p.Kind, p.SecretShape = "v1", "Secret", strictjson.Sum([]byte("shape"))
		return p
	case identity.SlotNetworkPolicy:
		p.APIVersion, p.Kind = "networking.k8s.io/v1", "NetworkPolicy"
	}
	p.Manifest = Manifest(p)
	return p
}

// Manifest is the smallest manifest that names a slot's object.
func Manifest(p evidence.PlannedSlot) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"namespace":%q}}`,
		p.APIVersion, p.Kind, p.Name, p.Namespace))
}

// Build makes an evidence directory at path, which must not exist, with the
// parameters of this package, and gives up its lock. It allows whatever file
// system path lies on: a test's temporary directory may be in memory.
func Build(t testing.TB, disk durable.FS, path string, attempts ...Attempt) {
	t.Helper()
	setup := journal.Setup{Parameters: Parameters(), Executable: Opens(Executable)}
	parent, err := disk.Open(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	if setup.AllowFileSystem, err = parent.FileSystem(); err != nil {
		t.Fatal(err)
	}
	if err := parent.Close(); err != nil {
		t.Fatal(err)
	}
	BuildWith(t, disk, path, setup, attempts...)
}

// BuildWith is Build with other parameters.
func BuildWith(t testing.TB, disk durable.FS, path string, setup journal.Setup, attempts ...Attempt) {
	t.Helper()
	j, err := journal.Create(disk, path, setup)
	if err != nil {
		t.Fatal(err)
	}
	for i, attempt := range attempts {
		if i > 0 {
			j = reopen(t, disk, path, Expectation(setup.Parameters))
		}
		a := register(t, j, i, attempt)
		if len(attempt.Steps) > len(a.Plan().Slots) {
			t.Fatalf("attempt %d has more steps than slots", i)
		}
		var statements []identity.SlotRef
		for k, step := range attempt.Steps {
			slot := a.Plan().Slots[k]
			Walk(t, a, i+attempt.Offset, slot, step)
			if step == Reconciled {
				statements = append(statements, identity.SlotRef{Attempt: a.Name(), Slot: slot.Slot})
			}
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		// A statement needs the lock, and comes before the next attempt.
		for _, ref := range statements {
			if err := journal.Reconcile(disk, path, ref, Statement, now()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(attempts) == 0 {
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func reopen(t testing.TB, disk durable.FS, path string, expect evidence.Expectation) *journal.Journal {
	t.Helper()
	dir, err := evidence.Open(disk, path)
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := dir.Load(expect)
	if err != nil {
		t.Fatal(err)
	}
	return journal.Reopen(dir, accepted)
}

func register(t testing.TB, j *journal.Journal, index int, attempt Attempt) *journal.Attempt {
	t.Helper()
	plan, kind := Plan(index+attempt.Offset), evidence.Startup
	if attempt.Plan != nil {
		plan = *attempt.Plan
	}
	if index > 0 {
		kind = evidence.Resume
	}
	a, err := j.Register(kind, plan)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.Load(Expectation(j.Parameters())); err != nil {
		t.Fatal(err)
	}
	return a
}

// Walk takes one slot of a registered attempt to a step. Reconciled goes as far
// as Uncertain, since a statement needs the lock.
func Walk(t testing.TB, a *journal.Attempt, index int, slot evidence.PlannedSlot, step Step) {
	t.Helper()
	created := slot.Object()
	created.UID = ObjectUID(index, slot.Slot)
	pod := identity.Object{
		APIVersion: "v1", Kind: "Pod", Namespace: slot.Namespace,
		Name: slot.Name + "-abcde", UID: PodUID(index, slot.Slot),
	}
	start := func() error { return a.Start(slot.Slot, AuditID(index, slot.Slot), now()) }
	acknowledge := func() error { return a.Acknowledge(slot.Slot, created, "2026-05-01T12:00:00Z") }
	release := func() error { return a.Release(slot.Slot, now()) }
	child := func() error { return a.Child(slot.Slot, pod, created.UID) }
	reject := func() error {
		return a.Reject(slot.Slot, journal.Rejection{Code: 403, Reason: "Forbidden"}, now())
	}
	steps := map[Step][]func() error{
		Planned: {}, Uncertain: {start}, Reconciled: {start}, Rejected: {start, reject},
		Acknowledged: {start, acknowledge}, Released: {start, acknowledge, release},
		WithChild: {start, acknowledge, release, child},
	}[step]
	for _, do := range steps {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
}

// Load opens the evidence at path, holds its lock until the test ends, and
// returns its inventory.
func Load(t testing.TB, disk durable.FS, path string) *evidence.Inventory {
	t.Helper()
	_, inventory := Open(t, disk, path)
	return inventory
}

// Open is Load for a test that also writes beside the evidence.
func Open(t testing.TB, disk durable.FS, path string) (*evidence.Dir, *evidence.Inventory) {
	t.Helper()
	dir, err := evidence.Open(disk, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	inventory, err := dir.Load(Expectation(Parameters()))
	if err != nil {
		t.Fatal(err)
	}
	return dir, inventory
}
