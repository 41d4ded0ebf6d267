package preflight

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/holdfast-project/holdfast/internal/durable"
	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/internal/strictjson"
)

// historical is the name of an attempt that no command writes any more.
const historical = "migration-preflight-resume.ABCDEFGH"

// A5.4, A6.7: a historical migration-resume attempt with its one slot is read, and
// cleaned up together with the others; a resume goes on after it.
func TestHistoricalMigrationResumeIsCleanedUp(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.killedAt("after link "+evidence.ReceiptFile("network-policy"), s.preflightArgs())
	s.addMigrationResume()
	if left := s.ours(); len(left) != 3 {
		t.Fatalf("the cluster holds %v", left)
	}
	s.says(s.expect(s.run(s.resumeArgs()...), 2), "run --cleanup-preflight first")
	result := s.result(s.expect(s.run(s.cleanupArgs()...), 0))
	want := identity.SlotRef{Attempt: historical, Slot: identity.SlotMigration}
	if !result.Complete || len(result.Resources) != 3 || result.Resources[0].SlotRef != want || result.Resources[0].Outcome != evidence.Absent {
		t.Errorf("result %+v", result)
	}
	s.nothingLeft()
	s.expect(s.run(s.resumeArgs()...), 0)
	s.nothingLeft()
}

// addMigrationResume writes a historical attempt beside the first one, whose
// migration Job it really creates, suspended.
func (s *site) addMigrationResume() {
	s.t.Helper()
	root, err := durable.OS().Open(s.evidence)
	s.must(err)
	defer func() { s.must(root.Close()) }()
	dir, err := root.MakeDir(historical)
	s.must(err)
	defer func() { s.must(dir.Close()) }()

	plan := s.migrationPlan()
	data, err := strictjson.Encode(plan)
	s.must(err)
	s.must(durable.Publish(dir, evidence.PlanFile, data))
	s.register(root, dir, strictjson.Sum(data))

	var job batchv1.Job
	s.must(world.cluster.Client().BatchV1().RESTClient().Post().Namespace(s.namespace).Resource("jobs").
		SetHeader("Content-Type", "application/json").Body([]byte(plan.Slots[0].Manifest)).Do(s.t.Context()).Into(&job))
	record := evidence.Record{Version: evidence.Version, Attempt: historical, Slot: identity.SlotMigration, PlanSHA256: strictjson.Sum(data)}
	s.seal(dir, evidence.StartedFile(identity.SlotMigration), &evidence.Started{
		Record: record, Time: evidence.FormatTime(time.Now()), AuditID: kube.NewAuditID(),
	})
	s.seal(dir, evidence.ReceiptFile(identity.SlotMigration), &evidence.Receipt{
		Record: record, APIVersion: "batch/v1", Kind: "Job", Namespace: s.namespace, Name: job.Name,
		UID: string(job.UID), CreationTimestamp: evidence.FormatTime(job.CreationTimestamp.Time),
	})
}

// migrationPlan is the first attempt's migration under a nonce of its own.
func (s *site) migrationPlan() evidence.Plan {
	s.t.Helper()
	content, err := os.ReadFile(filepath.Join(s.evidence, evidence.StartupDirectory, evidence.PlanFile))
	s.must(err)
	var first evidence.Plan
	s.must(strictjson.Decode(content, len(content), &first))
	renamed := bytes.ReplaceAll(content, []byte(first.Nonce[:8]), []byte("01234567"))
	var plan evidence.Plan
	s.must(strictjson.Decode(renamed, len(renamed), &plan))
	plan.Attempt, plan.Kind = historical, evidence.MigrationResume
	for _, slot := range plan.Slots {
		if slot.Slot == identity.SlotMigration {
			plan.Slots = []evidence.PlannedSlot{slot}
			return plan
		}
	}
	s.t.Fatal("the first attempt plans no migration")
	return plan
}

func (s *site) register(root, dir durable.Dir, plan string) {
	s.t.Helper()
	info, err := dir.Stat()
	s.must(err)
	content, err := os.ReadFile(filepath.Join(s.evidence, evidence.JournalFile))
	s.must(err)
	var journal evidence.Journal
	s.must(strictjson.Decode(content, len(content), &journal))
	journal.Attempts = append(journal.Attempts, evidence.Attempt{
		Kind: evidence.MigrationResume, Name: historical, PlanSHA256: plan,
		Directory: identity.Directory{Path: dir.Path(), Inode: info.Inode, BirthTime: info.BirthTime},
	})
	data, err := strictjson.Encode(journal)
	s.must(err)
	s.must(durable.Replace(root, evidence.JournalFile, data))
}

func (s *site) seal(dir durable.Dir, name string, record evidence.Sealed) {
	s.t.Helper()
	s.must(evidence.Seal(record))
	data, err := strictjson.Encode(record)
	s.must(err)
	s.must(durable.Publish(dir, name, data))
}
