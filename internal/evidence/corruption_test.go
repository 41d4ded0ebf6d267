package evidence_test

import (
	"bytes"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-project/holdfast/internal/durable/durabletest"
	"github.com/holdfast-project/holdfast/internal/evidence"
	et "github.com/holdfast-project/holdfast/internal/evidence/evidencetest"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/journal"
	"github.com/holdfast-project/holdfast/internal/strictjson"
)

// small is evidence that holds one record of every kind, under a profile of its
// own: a Secret, a Job with a Pod, a Job that is reconciled; and, in a resume,
// a rejection.
func small(t testing.TB) *durabletest.FS { return smallOf(t, 0, et.Parameters()) }

// smallOf is small as another run, or a run in another cluster, would write it.
func smallOf(t testing.TB, offset int, parameters evidence.Parameters) *durabletest.FS {
	t.Helper()
	setup := journal.Setup{Parameters: parameters}
	setup.Parameters.Profile.Name = "other"
	plan := func(attempt int, slots ...identity.Slot) *evidence.Plan {
		p := et.Plan(attempt + offset)
		p.Slots = nil
		for _, slot := range slots {
			p.Slots = append(p.Slots, et.PlannedSlot(slot, p.Nonce))
		}
		return &p
	}
	disk := durabletest.New()
	et.BuildWith(t, disk, root, setup,
		et.Attempt{Plan: plan(0, "secret", "job", "late"), Steps: []et.Step{et.Acknowledged, et.WithChild, et.Reconciled}, Offset: offset},
		et.Attempt{Plan: plan(1, "job"), Steps: []et.Step{et.Rejected}, Offset: offset})
	return disk
}

func smallExpectation() evidence.Expectation {
	p := et.Parameters()
	return et.Expectation(p)
}

// slow leaves a test out under -short, where generated faults are tried by the
// thousand: one that waits for a disk, or tries all damage where the tables of
// refusals name each rule.
func slow(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes long")
	}
}

// A1.5: every single bit that is flipped in a sealed record is refused by its
// spelling or its seal.
func TestA1_5_EveryFlippedBitOfARecordIsRefused(t *testing.T) {
	slow(t)
	mutants := 0
	for name, content := range small(t).Files() {
		fresh := recordOf(name)
		if fresh == nil {
			continue
		}
		for i := range content {
			for bit := range 8 {
				mutants++
				mutant := []byte(content)
				mutant[i] ^= 1 << bit
				record := fresh()
				if strictjson.Decode(mutant, 1<<20, record) == nil && evidence.CheckSeal(record) == nil {
					t.Errorf("%s is accepted as %q", name, mutant)
				}
			}
		}
	}
	if mutants != 30_456 {
		t.Errorf("the space has changed: %d mutants", mutants)
	}
}

// recordOf makes an empty record of the type that a file of this name holds.
func recordOf(name string) func() evidence.Sealed {
	for kind, fresh := range map[string]func() evidence.Sealed{
		"-started.json":    func() evidence.Sealed { return &evidence.Started{} },
		"-identity.json":   func() evidence.Sealed { return &evidence.Receipt{} },
		"-child-":          func() evidence.Sealed { return &evidence.Child{} },
		"-released.json":   func() evidence.Sealed { return &evidence.Released{} },
		"-rejected.json":   func() evidence.Sealed { return &evidence.Rejected{} },
		"-reconciled.json": func() evidence.Sealed { return &evidence.Reconciled{} },
	} {
		if strings.Contains(name, kind) {
			return fresh
		}
	}
	return nil
}

// A1.5: a record's sum is that of what "jq 'del(.sha256)'" prints of it, so that
// anybody can compute it.
func TestA1_5_SealIsOfTheRest(t *testing.T) {
	sealed := 0
	for name, content := range small(t).Files() {
		if recordOf(name) == nil {
			continue
		}
		sealed++
		rest, sum, found := strings.Cut(content, ",\n  \"sha256\": \"")
		if !found || strings.TrimSuffix(sum, "\"\n}\n") != strictjson.Sum([]byte(rest+"\n}\n")) {
			t.Errorf("%s is not sealed by the sum of its rest:\n%s", name, content)
		}
	}
	if sealed < 9 {
		t.Errorf("only %d records", sealed)
	}
}

// A1.5, A5.4: the loader refuses a flipped bit in every byte of every file that
// a decision rests on, every bit of the registry, which no digest covers, and
// files that are cut. With HOLDFAST_EVERY_BIT set it is every bit of every file,
// and a cut at every length.
func TestA1_5_EveryDamagedByteIsRefusedByTheLoader(t *testing.T) {
	slow(t)
	disk := small(t)
	if _, err := loadAs(disk, root, smallExpectation()); err != nil {
		t.Fatal(err)
	}
	every := os.Getenv("HOLDFAST_EVERY_BIT") != ""
	mutants, want := 0, 17_049
	if every {
		want = 75_672
	}
	for name, content := range disk.Files() {
		if !strings.HasSuffix(name, ".json") {
			continue
		}
		try := func(mutant []byte) {
			mutants++
			disk.Edit(name, func(string) string { return string(mutant) })
			if _, err := loadAs(disk, root, smallExpectation()); err == nil {
				t.Errorf("%s is accepted as %q", name, mutant)
			}
		}
		for i := range content {
			for bit := range 8 {
				mutant := []byte(content)
				mutant[i] ^= 1 << bit
				if every || bit == i%8 || strings.HasSuffix(name, "preflight-journal.json") {
					try(mutant)
				}
			}
			if every || i%16 == 0 {
				try([]byte(content[:i]))
			}
		}
		disk.Edit(name, func(string) string { return content })
	}
	t.Logf("corruption: mutants=%d", mutants)
	if mutants != want {
		t.Errorf("the space has changed: %d mutants, want %d", mutants, want)
	}
}

// A1.5, A5.4: no record can take another's place, in its own attempt or in
// another.
func TestA5_4_EverySwappedRecordIsRefused(t *testing.T) {
	slow(t)
	disk := small(t)
	files := disk.Files()
	var names []string
	for name := range files {
		if strings.HasSuffix(name, ".json") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, from := range names {
		for _, to := range names {
			if from == to {
				continue
			}
			disk.Edit(to, func(string) string { return files[from] })
			if _, err := loadAs(disk, root, smallExpectation()); err == nil {
				t.Errorf("%s is accepted in the place of %s", from, to)
			}
			disk.Edit(to, func(string) string { return files[to] })
		}
	}
}

// A5.5: of the evidence of a run that passed, no file can be lost without a refusal,
// but what no decision rests on.
func TestA5_5_EveryLostFile(t *testing.T) {
	disk := durabletest.New()
	et.Build(t, disk, root, all())
	harmless := map[string]bool{root + "/.upgrade-lock": true, root + "/helper/upgrade-production-images": true}
	for _, slot := range []identity.Slot{identity.SlotMigration, identity.SlotAPI, identity.SlotWorker} {
		disk.Place(attempt+"/"+evidence.LogFile(slot), 0o600, "ready\n")
		harmless[attempt+"/"+evidence.LogFile(slot)] = true
	}
	for name := range disk.Files() {
		lost := disk.Killed()
		lost.Delete(name)
		_, err := loadAs(lost, root, expectation())
		if (err == nil) != harmless[name] {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

// The evidence package proves by its links that nothing is sent before the
// evidence is accepted.
func TestEvidenceLinksNoNetworkAndNoKubernetes(t *testing.T) {
	slow(t)
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(out, []byte("internal/durable\n")) {
		t.Fatalf("the list of dependencies looks wrong:\n%s", out)
	}
	for dep := range strings.Lines(string(out)) {
		dep = strings.TrimSpace(dep)
		if dep == "net" || strings.HasPrefix(dep, "net/") || strings.Contains(dep, "k8s.io") ||
			strings.HasSuffix(dep, "internal/kube") {
			t.Errorf("internal/evidence links %s", dep)
		}
	}
}

// fuzzRecord proves that whatever is read as a record is written back to the
// same bytes, and that reading does not change the record.
func fuzzRecord[T any](f *testing.F, kind string) {
	for name, content := range small(f).Files() {
		if strings.Contains(name, kind) {
			f.Add([]byte(content))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var record, twin T
		if strictjson.Decode(data, 1<<20, &record) != nil {
			return
		}
		again, err := strictjson.Encode(record)
		if err != nil || !bytes.Equal(again, data) {
			t.Fatalf("%q is written back as %q (%v)", data, again, err)
		}
		if err := strictjson.Decode(again, 1<<20, &twin); err != nil || !reflect.DeepEqual(record, twin) {
			t.Fatalf("%q is read in two ways (%v)", data, err)
		}
	})
}

func FuzzParameters(f *testing.F) { fuzzRecord[evidence.Parameters](f, "parameters.json") }
func FuzzJournal(f *testing.F)    { fuzzRecord[evidence.Journal](f, "preflight-journal.json") }
func FuzzPlan(f *testing.F)       { fuzzRecord[evidence.Plan](f, "preflight-plan.json") }
func FuzzStarted(f *testing.F)    { fuzzRecord[evidence.Started](f, "-started.json") }
func FuzzReceipt(f *testing.F)    { fuzzRecord[evidence.Receipt](f, "-identity.json") }
func FuzzChild(f *testing.F)      { fuzzRecord[evidence.Child](f, "-child-") }
func FuzzReleased(f *testing.F)   { fuzzRecord[evidence.Released](f, "-released.json") }
func FuzzRejected(f *testing.F)   { fuzzRecord[evidence.Rejected](f, "-rejected.json") }
func FuzzReconciled(f *testing.F) { fuzzRecord[evidence.Reconciled](f, "-reconciled.json") }

// FuzzLoadReceipt proves that no content of a receipt makes the loader accept
// another UID than the recorded one, or panic.
func FuzzLoadReceipt(f *testing.F) {
	disk := small(f)
	name := attempt + "/preflight-job-identity.json"
	original := disk.Files()[name]
	f.Add([]byte(original))
	f.Add([]byte(resealed(original, func(r *evidence.Receipt) { r.UID = et.UID("other") })))
	f.Fuzz(func(t *testing.T, data []byte) {
		disk.Edit(name, func(string) string { return string(data) })
		inventory, err := loadAs(disk, root, smallExpectation())
		if err != nil {
			return
		}
		if got := inventory.Resources[1].Object().UID; got != et.ObjectUID(0, "job") || string(data) != original {
			t.Fatalf("%q is accepted as %s", data, got)
		}
	})
}
