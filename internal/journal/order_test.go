package journal_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-project/holdfast/internal/durable/durabletest"
	"github.com/holdfast-project/holdfast/internal/evidence"
	et "github.com/holdfast-project/holdfast/internal/evidence/evidencetest"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/journal"
)

const root = "/evidence"

func now() time.Time { return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) }

func setup() journal.Setup {
	return journal.Setup{Parameters: et.Parameters(), Executable: et.Opens(et.Executable)}
}

// create begins a journal and registers the startup attempt.
func create(t *testing.T, disk *durabletest.FS) (*journal.Journal, *journal.Attempt) {
	t.Helper()
	j, err := journal.Create(disk, root, setup())
	if err != nil {
		t.Fatal(err)
	}
	a, err := j.Register(evidence.Startup, et.Plan(0))
	if err != nil {
		t.Fatal(err)
	}
	return j, a
}

func load(t *testing.T, j *journal.Journal) *evidence.Inventory {
	t.Helper()
	inventory, err := j.Load(et.Expectation(j.Parameters()))
	if err != nil {
		t.Fatal(err)
	}
	return inventory
}

// published are the operations of A2.1: content before name, name before the
// staging name goes, each step synced.
func published(dir, name string) []string {
	final, staging := dir+"/"+name, dir+"/."+name+".staging"
	return []string{
		"create " + staging, "write " + staging, "fsync " + staging, "close " + staging,
		"link " + staging + " " + final, "fsync-dir " + dir,
		"unlink " + staging, "fsync-dir " + dir,
	}
}

// replaced are the operations of A2.3.
func replaced(dir, name string) []string {
	final, staging := dir+"/"+name, dir+"/."+name+".staging"
	return []string{
		"create " + staging, "write " + staging, "fsync " + staging, "close " + staging,
		"rename " + staging + " " + final, "fsync-dir " + dir,
	}
}

// A2.1, A2.3, A2.5: the whole sequence of a five-slot run, exactly.
func TestA2_5_OrderOfAFiveSlotRun(t *testing.T) {
	disk := durabletest.New()
	j, a := create(t, disk)
	beforeLoad := len(disk.Trace())
	load(t, j)
	afterLoad := len(disk.Trace())

	attempt := root + "/upgrade-preflight"
	empty := slices.DeleteFunc(published(root, ".upgrade-lock"), func(op string) bool {
		return op == "write "+root+"/..upgrade-lock.staging"
	})
	want := slices.Concat(
		[]string{"mkdir " + root, "fsync-dir /"},
		published(root, "parameters.json"),
		[]string{"mkdir " + root + "/helper"},
		published(root+"/helper", "upgrade-production-images"),
		[]string{"fsync-dir " + root},
		empty,
		replaced(root, "preflight-journal.json"),
		[]string{"mkdir " + attempt, "fsync-dir " + root},
		published(attempt, "preflight-plan.json"),
		replaced(root, "preflight-journal.json"),
	)
	if diff := cmp.Diff(want, lines(disk.Trace()[:beforeLoad])); diff != "" {
		t.Errorf("before the first slot (-want +got):\n%s", diff)
	}

	want = nil
	for _, slot := range a.Plan().Slots {
		name := string(slot.Slot)
		want = append(want, published(attempt, "preflight-"+name+"-started.json")...)
		want = append(want, published(attempt, "preflight-"+name+"-identity.json")...)
		step := et.Acknowledged
		if slot.Kind == "Job" {
			step = et.WithChild
			want = append(want, published(attempt, "preflight-"+name+"-released.json")...)
			want = append(want, published(attempt, "preflight-"+name+"-child-"+et.PodUID(0, slot.Slot)+".json")...)
		}
		et.Walk(t, a, 0, slot, step)
	}
	if err := j.Finish(); err != nil {
		t.Fatal(err)
	}
	want = append(want, "unlink "+root+"/.upgrade-lock", "fsync-dir "+root)
	if diff := cmp.Diff(want, lines(disk.Trace()[afterLoad:])); diff != "" {
		t.Errorf("the slots (-want +got):\n%s", diff)
	}
}

// A5.10: the loader fsyncs every fact and then, from within outwards, every
// directory that holds one.
func TestA5_10_LoadSyncsFactsThenDirectories(t *testing.T) {
	disk := durabletest.New()
	et.Build(t, disk, root, et.Attempt{Steps: []et.Step{et.Acknowledged, et.Uncertain}})
	before := len(disk.Trace())
	et.Load(t, disk, root)
	attempt := root + "/upgrade-preflight/"
	want := []string{
		"fsync " + root + "/preflight-journal.json", "fsync " + root + "/parameters.json",
		"fsync " + attempt + "preflight-plan.json",
		"fsync " + attempt + "preflight-network-policy-started.json",
		"fsync " + attempt + "preflight-secret-identity.json",
		"fsync " + attempt + "preflight-secret-started.json",
		"fsync-dir " + root + "/upgrade-preflight", "fsync-dir " + root,
	}
	if diff := cmp.Diff(want, lines(disk.Trace()[before:])); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func lines(ops []durabletest.Op) []string {
	var out []string
	for _, op := range ops {
		out = append(out, op.String())
	}
	return out
}

// ref is a slot of the startup attempt.
func ref(slot identity.Slot) identity.SlotRef {
	return identity.SlotRef{Attempt: evidence.StartupDirectory, Slot: slot}
}
