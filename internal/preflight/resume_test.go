package preflight

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-project/holdfast/internal/durable/durabletest"
	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/journal"
	"github.com/holdfast-project/holdfast/internal/kube"
)

// interrupted is a run in memory that died, and what its cluster then held.
type interrupted struct {
	disk    *durabletest.FS
	objects []*stored
	next    int
	config  Config
}

// dies kills a run before the operation that first touches a file of this name.
func dies(t *testing.T, profile []byte, file string) interrupted {
	t.Helper()
	trace := try(t, profile, func(*trial) {}).model.disk.Trace()
	at := slices.IndexFunc(trace, func(op durabletest.Op) bool { return strings.Contains(op.Path, file) })
	if at < 0 {
		t.Fatalf("a run never touches %s", file)
	}
	one := try(t, profile, func(one *trial) { one.model.disk.StopAt(at + 1) })
	return interrupted{disk: one.model.disk.Killed(), objects: one.model.objects, next: one.model.next, config: one.config}
}

// model is the cluster as it was left, over a disk of its own.
func (i interrupted) model() *model {
	m := newModel(i.disk.Killed())
	m.next = i.next
	for _, object := range i.objects {
		kept := *object
		m.objects = append(m.objects, &kept)
	}
	return m
}

func (i interrupted) open(t *testing.T, m *model) (*evidence.Dir, *evidence.Inventory) {
	t.Helper()
	dir, err := evidence.Open(m.disk, "/evidence")
	if err != nil {
		t.Fatal(err)
	}
	inventory, err := dir.Load(expectation(i.config))
	if err != nil {
		t.Fatal(err)
	}
	return dir, inventory
}

// cleaned is the same after a cleanup.
func (i interrupted) cleaned(t *testing.T) interrupted {
	t.Helper()
	m := i.model()
	dir, inventory := i.open(t, m)
	if result := cleanUp(t, m, dir, inventory); !result.Complete {
		t.Fatalf("the cleanup between is incomplete: %v", result.Reasons)
	}
	return interrupted{disk: m.disk.Killed(), objects: m.objects, next: m.next, config: i.config}
}

// resume resumes in a bubble of time.
func (i interrupted) resume(t *testing.T, prepare func(*trial)) *trial {
	t.Helper()
	one := &trial{model: i.model()}
	synctest.Test(t, func(t *testing.T) {
		dir, inventory := i.open(t, one.model)
		one.config = config(t, one.model, i.config.Profile)
		prepare(one)
		one.outcome, one.err = Resume(context.Background(), one.config, dir, inventory)
	})
	return one
}

// refused demands exit 2 with its words, no create, and no new attempt.
func (i interrupted) refused(t *testing.T, prepare func(*trial), words ...string) {
	t.Helper()
	one := i.resume(t, prepare)
	var refusal *Refusal
	if !errors.As(one.err, &refusal) {
		t.Fatalf("ended with %v, not with a refusal", one.err)
	}
	for _, word := range words {
		if !strings.Contains(refusal.Sentence+"\n"+refusal.Hint, word) {
			t.Errorf("%q (%s) does not say %q", refusal.Sentence, refusal.Hint, word)
		}
	}
	if len(one.model.writes) > 0 {
		t.Errorf("it sent %v", one.model.writes)
	}
	if _, inventory := i.open(t, &model{disk: one.model.disk.Killed()}); len(inventory.Plans) > 1 {
		t.Error("it registered an attempt")
	}
}

// A4.7: after a complete cleanup a resume passes with objects of its own, whose
// api and worker Jobs only identify themselves, and takes .upgrade-lock away.
func TestA4_7_ResumePasses(t *testing.T) {
	base := dies(t, exampleProfile(t), evidence.StartedFile(identity.SlotWorker)).cleaned(t)
	one := base.resume(t, func(*trial) {})
	if one.err != nil {
		t.Fatalf("%v\n%s", one.err, strings.Join(one.config.Report.(*silent).lines, "\n"))
	}
	if left := one.model.left(); len(left) > 0 || one.outcome.Result.Verdict != evidence.Complete {
		t.Errorf("left %v, result %+v", left, one.outcome.Result)
	}
	if len(one.outcome.Result.Resources) != 4+5 {
		t.Errorf("A6.7: the cleanup covers %d resources, not those of both attempts", len(one.outcome.Result.Resources))
	}
	if _, locked := one.model.disk.Files()["/evidence/"+evidence.UpgradeLockFile]; locked {
		t.Error("A1.3: .upgrade-lock survived exit 0")
	}
	judgePlans(t, one.outcome.Inventory.Plans)
	again := interrupted{disk: one.model.disk.Killed(), objects: one.model.objects, next: one.model.next, config: base.config}.resume(t, func(*trial) {})
	var refusal *Refusal
	if !errors.As(again.err, &refusal) || !strings.Contains(refusal.Sentence, evidence.UpgradeLockFile) {
		t.Errorf("a passed preflight was resumed: %v", again.err)
	}
}

func judgePlans(t *testing.T, plans []evidence.Plan) {
	t.Helper()
	if len(plans) != 2 || plans[1].Kind != evidence.Resume || plans[1].Nonce == plans[0].Nonce {
		t.Fatalf("the plans are %+v", plans)
	}
	for k, slot := range plans[1].Slots {
		before := plans[0].Slots[k]
		if slot.Slot != before.Slot || slot.Name == before.Name {
			t.Errorf("slot %s as %s, after %s as %s", slot.Slot, slot.Name, before.Slot, before.Name)
		}
		identifies := slot.Slot == identity.SlotAPI || slot.Slot == identity.SlotWorker
		if strings.Contains(string(slot.Manifest), `"--identity"`) != identifies || strings.Contains(string(slot.Manifest), `"--check"`) {
			t.Errorf("slot %s runs %s", slot.Slot, slot.Manifest)
		}
	}
}

// A4.7, A6.14: what an earlier attempt left, be it acknowledged, a Pod, or found at
// a planned name without a receipt, refuses with the words to run cleanup first,
// whatever an earlier cleanup wrote.
func TestA4_7_WhatIsLeftRefuses(t *testing.T) {
	profile := exampleProfile(t)
	running := dies(t, profile, evidence.StartedFile(identity.SlotWorker))
	running.refused(t, func(*trial) {}, "is still there", "run --cleanup-preflight first")

	cleaned := running.cleaned(t)
	for _, left := range running.objects {
		t.Run("a cleaned up "+left.object.Kind+" "+left.object.Name+" is back", func(t *testing.T) {
			cleaned.refused(t, func(one *trial) { one.model.objects = append(one.model.objects, left) },
				left.object.Name, "is still there", "run --cleanup-preflight first")
		})
	}
	t.Run("an unstarted slot's name is taken", func(t *testing.T) {
		_, inventory := cleaned.open(t, cleaned.model())
		unstarted := inventory.Slots[len(inventory.Slots)-1].Object
		unstarted.UID = "00000000-0000-4000-8000-00000000ffff"
		cleaned.refused(t, func(one *trial) { one.model.objects = append(one.model.objects, &stored{object: unstarted}) },
			unstarted.Name, "run --cleanup-preflight first")
	})
	t.Run("a Pod that carries the nonce", func(t *testing.T) {
		pod := identity.Object{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "stray", UID: "00000000-0000-4000-8000-00000000fffe"}
		cleaned.refused(t, func(one *trial) {
			one.model.objects = append(one.model.objects, &stored{object: pod, nonce: running.objects[0].nonce})
		}, "stray", "run --cleanup-preflight first")
	})
}

// A4.7: other inputs than the recorded ones, each with its own clause.
func TestA4_7_OtherInputsRefuse(t *testing.T) {
	base := dies(t, exampleProfile(t), evidence.StartedFile(identity.SlotWorker)).cleaned(t)
	for name, change := range map[string]func(*Config){
		"chart": func(c *Config) {
			c.Chart = t.TempDir()
			copyChart(t, "../../examples/chart", c.Chart)
		},
		"values file": func(c *Config) { c.Values = append([]byte(" "), c.Values...) },
		"profile":     func(c *Config) { c.Profile = append(slices.Clone(c.Profile), "# other\n"...) },
		"image":       func(c *Config) { c.Image = "registry.example/demo@sha256:" + sum("another") },
		"timeout":     func(c *Config) { c.Timeout = 2 * time.Minute },
	} {
		t.Run(name, func(t *testing.T) {
			base.refused(t, func(one *trial) {
				change(&one.config)
				one.model.onRequest = func(int) { t.Error("the cluster was asked") }
			}, "the "+name+" is not that of the original run", evidence.ParametersFile)
		})
	}
}

// A3.3: neither the evidence nor a refusal tells a plain digest of the values: of a
// file whose template is known it would let a short password be guessed. What is
// recorded costs its full price in a run.
func TestA3_3_NoPlainDigestOfTheValues(t *testing.T) {
	whole := try(t, exampleProfile(t), func(one *trial) { one.config.StretchIterations = 0 })
	base := dies(t, exampleProfile(t), evidence.StartedFile(identity.SlotWorker)).cleaned(t)
	other := values + " "
	refused := base.resume(t, func(one *trial) { one.config.Values = []byte(other) })
	for _, digest := range []string{sum(values), sum(other)} {
		for path, content := range whole.model.disk.Files() {
			if strings.Contains(content, digest) {
				t.Errorf("%s holds it", path)
			}
		}
		if refused.err == nil || strings.Contains(refused.err.Error(), digest) {
			t.Errorf("the refusal is %v", refused.err)
		}
	}
	recorded := whole.outcome.Inventory.Parameters.Values
	if same, err := recorded.Matches([]byte(values)); !same || err != nil || recorded.Iterations != evidence.StretchIterations {
		t.Errorf("%+v matches: %v, %v", recorded, same, err)
	}
}

// A4.7, A6.15: an uncertain create refuses until the release owner has stated how
// it was reconciled; then the resume ends with exit 3, and .upgrade-lock stays.
func TestA4_7_UncertainRefusesUntilReconciled(t *testing.T) {
	base := dies(t, exampleProfile(t), evidence.ReceiptFile(identity.SlotSecret))
	base.objects = nil // the release owner deleted it by hand
	base.refused(t, func(*trial) {}, "upgrade-preflight/secret is uncertain", "reconcile --slot")

	ref := identity.SlotRef{Attempt: evidence.StartupDirectory, Slot: identity.SlotSecret}
	if err := journal.Reconcile(base.disk, "/evidence", ref, "deleted by hand", time.Now()); err != nil {
		t.Fatal(err)
	}
	one := base.resume(t, func(*trial) {})
	if !errors.Is(one.err, ErrReconciled) || one.outcome.Result.Verdict != evidence.ReconciledByHand || one.outcome.Result.Complete {
		t.Fatalf("%v\n%+v", one.err, one.outcome.Result)
	}
	if left := one.model.left(); len(left) > 0 {
		t.Errorf("left %v", left)
	}
	if _, locked := one.model.disk.Files()["/evidence/"+evidence.UpgradeLockFile]; !locked {
		t.Error("A1.3: .upgrade-lock is gone after exit 3")
	}
}

// A3.9, A6.2: another cluster answers 404 to everything, before the absence reads or
// from some read on.
func TestA4_7_AnotherClusterRefuses(t *testing.T) {
	base := dies(t, exampleProfile(t), evidence.StartedFile(identity.SlotWorker)).cleaned(t)
	for name, change := range map[string]func(*elsewhere){
		"namespace":               func(e *elsewhere) { e.namespace = "bbbbbbbb-0000-4000-8000-000000000001" },
		"kube-system":             func(e *elsewhere) { e.kubeSystem = "bbbbbbbb-0000-4000-8000-000000000002" },
		"kube-system, read again": func(e *elsewhere) { e.kubeSystem, e.from = "bbbbbbbb-0000-4000-8000-000000000002", 2 },
	} {
		t.Run(name, func(t *testing.T) {
			base.refused(t, func(one *trial) {
				other := &elsewhere{model: one.model, from: 1}
				change(other)
				one.config.Cluster = other
			}, "the evidence records")
		})
	}
}

// elsewhere is a model that has other identities from its n-th reading on.
type elsewhere struct {
	*model
	namespace, kubeSystem string
	from, readings        int
}

func (e *elsewhere) ClusterIdentity(ctx context.Context, namespace string) kube.ClusterReading {
	reading := e.model.ClusterIdentity(ctx, namespace)
	if e.readings++; e.readings < e.from {
		return reading
	}
	if e.namespace != "" {
		reading.Namespace.Meta.Object.UID = e.namespace
	}
	if e.kubeSystem != "" {
		reading.KubeSystem.Meta.Object.UID = e.kubeSystem
	}
	return reading
}

// A4.7, A6.7: a resume dies before each operation on its evidence; cleanup then
// flattens both attempts. Either everything is gone, or exactly what is uncertain
// is named.
func TestA4_7_ResumeDiesBeforeEachOperation(t *testing.T) {
	base := dies(t, exampleProfile(t), evidence.StartedFile(identity.SlotWorker)).cleaned(t)
	whole := base.resume(t, func(*trial) {})
	trace := whole.model.disk.Trace()
	if whole.err != nil || len(trace) < 200 {
		t.Fatalf("the sweep has shrunk to %d operations: %v", len(trace), whole.err)
	}
	for at := 1; at <= len(trace); at++ {
		// The loader comes first, and its death is that of any cleanup.
		one := base.resumeUntil(t, at)
		if one == nil {
			continue
		}
		for name, disk := range map[string]*durabletest.FS{"kill": one.model.disk.Killed(), "power cut": one.model.disk.PowerLost()} {
			t.Run(fmt.Sprintf("%s before %d %s", name, at, trace[at-1]), func(t *testing.T) { judgeDeath(t, one, disk) })
		}
	}
}

// A2.4: each operation by which a resume writes its attempt or the registry fails, or
// reports a failure although it took effect. Nothing is sent from then on, and a UID
// that only memory knows is told.
func TestA4_7_FailedDurabilityStopsAResume(t *testing.T) {
	base := dies(t, exampleProfile(t), evidence.StartedFile(identity.SlotWorker)).cleaned(t)
	judged := 0
	for at, op := range base.resume(t, func(*trial) {}).model.disk.Trace() {
		registry := strings.Contains(op.Path, evidence.JournalFile+".staging")
		if !registry && !strings.Contains(op.Path, "/upgrade-preflight-resume.") {
			continue
		}
		for _, applied := range []bool{false, true} {
			fault := durabletest.Fault{At: at + 1, Applied: applied, Err: errors.New("injected I/O error")}
			one := base.resume(t, func(one *trial) { one.model.disk.Inject(fault) })
			if trace := one.model.disk.Trace(); at < len(trace) {
				judgeFault(t, one, fault, trace[at])
				judged++
			}
		}
	}
	if judged < 200 {
		t.Errorf("the sweep has shrunk to %d operations", judged)
	}
}

// resumeUntil is a resume that dies before an operation; nil when it did not come
// to resume at all.
func (i interrupted) resumeUntil(t *testing.T, at int) *trial {
	t.Helper()
	one := &trial{model: i.model(), config: i.config}
	one.model.disk.StopAt(at)
	dir, err := evidence.Open(one.model.disk, "/evidence")
	if err != nil {
		return nil
	}
	inventory, err := dir.Load(expectation(i.config))
	if err != nil {
		return nil
	}
	synctest.Test(t, func(t *testing.T) {
		one.config = config(t, one.model, i.config.Profile)
		one.outcome, one.err = Resume(context.Background(), one.config, dir, inventory)
	})
	return one
}

// copyChart copies a chart and changes a comment in it.
func copyChart(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(to, "values.yaml")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(content, "# other\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
}
