package evidence_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-project/holdfast/internal/durable"
	"github.com/holdfast-project/holdfast/internal/durable/durabletest"
	"github.com/holdfast-project/holdfast/internal/evidence"
	et "github.com/holdfast-project/holdfast/internal/evidence/evidencetest"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/strictjson"
)

// The damage of this file is that of somebody who knows the format: every digest
// above what was changed is made to fit, so that each row meets one rule alone.

// rewriteParameters changes the parameters and the registry that holds their sum.
func rewriteParameters(change func(*evidence.Parameters)) func(*durabletest.FS) {
	return func(disk *durabletest.FS) {
		rewrite(root+"/parameters.json", change)(disk)
		sum := strictjson.Sum([]byte(disk.Files()[root+"/parameters.json"]))
		rewrite(root+"/preflight-journal.json", func(j *evidence.Journal) { j.ParametersSHA256 = sum })(disk)
	}
}

func TestA1_5_RefusesParametersWithoutAValue(t *testing.T) { runRows(t, rowsOfParameters()) }

func rowsOfParameters() (rows []row) {
	long := strings.Repeat("0", 64)
	for _, r := range []struct {
		name, lacks string
		change      func(*evidence.Parameters)
	}{
		{"another version", "version", func(p *evidence.Parameters) { p.Version = 2 }},
		{"no kubeconfig", "kubeconfig", func(p *evidence.Parameters) { p.Kubeconfig = "" }},
		{"a relative kubeconfig", "kubeconfig", func(p *evidence.Parameters) { p.Kubeconfig = "kubeconfig" }},
		{"no digest of the kubeconfig", "kubeconfigSHA256", func(p *evidence.Parameters) { p.KubeconfigSHA256 = "" }},
		{"a short digest", "kubeconfigSHA256", func(p *evidence.Parameters) { p.KubeconfigSHA256 = long[1:] }},
		{"a long digest", "kubeconfigSHA256", func(p *evidence.Parameters) { p.KubeconfigSHA256 += "0" }},
		{"a digest in capitals", "kubeconfigSHA256", func(p *evidence.Parameters) { p.KubeconfigSHA256 = strings.Repeat("A", 64) }},
		{"a digest past f", "kubeconfigSHA256", func(p *evidence.Parameters) { p.KubeconfigSHA256 = long[1:] + "g" }},
		{"a digest before a", "kubeconfigSHA256", func(p *evidence.Parameters) { p.KubeconfigSHA256 = long[1:] + "`" }},
		{"a digest past 9", "kubeconfigSHA256", func(p *evidence.Parameters) { p.KubeconfigSHA256 = long[1:] + ":" }},
		{"a digest before 0", "kubeconfigSHA256", func(p *evidence.Parameters) { p.KubeconfigSHA256 = long[1:] + "/" }},
		{"no context", "context", func(p *evidence.Parameters) { p.Context = "" }},
		{"no namespace", "namespace", func(p *evidence.Parameters) { p.Namespace = "" }},
		{"no release", "release", func(p *evidence.Parameters) { p.Release = "" }},
		{"no profile", "profile", func(p *evidence.Parameters) { p.Profile.Name = "" }},
		{"no digest of the profile", "profile", func(p *evidence.Parameters) { p.Profile.SHA256 = "" }},
		{"no chart", "chart", func(p *evidence.Parameters) { p.Chart.Name = "" }},
		{"no digest of the chart", "chart", func(p *evidence.Parameters) { p.Chart.SHA256 = "" }},
		{"values without a digest", "values", func(p *evidence.Parameters) { p.Values.PBKDF2 = "" }},
		{"no images", "images", func(p *evidence.Parameters) { p.Images = nil }},
		{"an image without a role", "images", func(p *evidence.Parameters) { p.Images[0].Role = "" }},
		{"an image without a reference", "images", func(p *evidence.Parameters) { p.Images[0].Reference = "" }},
		{"no timeout", "timeoutSeconds", func(p *evidence.Parameters) { p.TimeoutSeconds = 0 }},
		{"no file system", "fileSystem", func(p *evidence.Parameters) { p.FileSystem.Type = "" }},
		{"no Namespace", "cluster", func(p *evidence.Parameters) { p.Cluster.NamespaceUID = "" }},
		{"kube-system without a UID", "cluster", func(p *evidence.Parameters) { p.Cluster.KubeSystemUID = "x" }},
		{"no time", "createdAt", func(p *evidence.Parameters) { p.CreatedAt = "" }},
		{"a time of another zone", "createdAt", func(p *evidence.Parameters) { p.CreatedAt = "2026-05-01T12:00:00+02:00" }},
	} {
		rows = append(rows, row{"parameters: " + r.name, "parameters.json", "has no valid " + r.lacks, rewriteParameters(r.change)})
	}
	return append(rows, row{"parameters: no helper", "parameters.json", "has no identity of the helper",
		rewriteParameters(func(p *evidence.Parameters) { p.Helper.SHA256 = "" })})
}

// A1.5: what may be left out may be left out.
func TestA1_5_AcceptsParametersWithoutWhatIsOptional(t *testing.T) {
	for name, change := range map[string]func(*evidence.Parameters){
		"no kube-system":   func(p *evidence.Parameters) { p.Cluster.KubeSystemUID = "" },
		"one second":       func(p *evidence.Parameters) { p.TimeoutSeconds = 1 },
		"two images":       func(p *evidence.Parameters) { p.Images = append(p.Images, p.Images[0]) },
		"a finer time":     func(p *evidence.Parameters) { p.CreatedAt = "2026-05-01T12:00:00.000000001Z" },
		"no copied helper": func(p *evidence.Parameters) { p.HelperRetained = false },
	} {
		disk := tree(t)
		rewriteParameters(change)(disk)
		if _, err := loadAs(disk, root, expectation()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A1.2: a later command judges the file system as the run did.
func TestA1_2_FileSystemOfALaterCommand(t *testing.T) {
	on := func(kind string, allowed bool) (*evidence.Inventory, error) {
		disk := tree(t)
		disk.SetType(kind)
		rewriteParameters(func(p *evidence.Parameters) { p.FileSystem = evidence.FileSystem{Type: kind, Allowed: allowed} })(disk)
		return loadAs(disk, root, expectation())
	}
	moved := tree(t)
	moved.SetType("xfs")
	_, err := loadAs(moved, root, expectation())
	mustRefuse(t, err, ".", "lies on xfs, but was recorded on ext4")
	_, err = on("nfs", false)
	if !errors.Is(err, durable.ErrFileSystem) {
		t.Errorf("%v hides its cause", err)
	}
	mustRefuse(t, err, ".", "but on nfs; choose another directory, or accept the risk with --allow-filesystem=nfs")
	for _, row := range []struct {
		kind    string
		allowed bool
		warning string
	}{
		{"ext4", false, ""},
		{"ext4", true, ""},
		{"nfs", true, "lies on nfs by --allow-filesystem"},
		{"overlay", false, "lies on an overlay file system"},
	} {
		inventory, err := on(row.kind, row.allowed)
		if err != nil {
			t.Errorf("%s: %v", row.kind, err)
			continue
		}
		if said := strings.Join(inventory.Warnings, "; "); !strings.Contains(said, row.warning) || (len(inventory.Warnings) == 0) != (row.warning == "") {
			t.Errorf("on %s, allowed %v: warned %q, want %q", row.kind, row.allowed, said, row.warning)
		}
	}
}

func TestA5_4_RefusesRegistryAndPlan(t *testing.T) { runRows(t, rowsOfPlans()) }

func rowsOfPlans() []row {
	const plan = "upgrade-preflight/preflight-plan.json"
	journal := func(change func(*evidence.Journal)) func(*durabletest.FS) {
		return rewrite(root+"/preflight-journal.json", change)
	}
	slot := func(i int, change func(*evidence.PlannedSlot)) func(*durabletest.FS) {
		return rewritePlan(func(p *evidence.Plan) { change(&p.Slots[i]) })
	}
	// other plans a Deployment, which is in itself as it should be.
	other := func(apiVersion string) func(*durabletest.FS) {
		return slot(4, func(s *evidence.PlannedSlot) {
			s.Kind, s.APIVersion = "Deployment", apiVersion
			s.Manifest = et.Manifest(*s)
		})
	}
	manifest := func(text string) func(*durabletest.FS) {
		return slot(4, func(s *evidence.PlannedSlot) { s.Manifest = []byte(text) })
	}
	return []row{
		{"registry: huge", "preflight-journal.json", "is larger than its bound of 4194304 bytes", func(disk *durabletest.FS) {
			disk.Edit(root+"/preflight-journal.json", func(c string) string { return c + strings.Repeat(" ", 4<<20) })
		}},
		{"parameters: huge", "parameters.json", "is larger than its bound of 1048576 bytes", func(disk *durabletest.FS) {
			disk.Edit(root+"/parameters.json", func(c string) string { return c + strings.Repeat(" ", 1<<20) })
		}},
		{"registry: no sum of the parameters", "parameters.json", "has not the SHA-256 that preflight-journal.json records", journal(func(j *evidence.Journal) { j.ParametersSHA256 = "" })},
		{"registry: another path", ".", "it was moved or copied", journal(func(j *evidence.Journal) { j.Directory.Path = "x" })},
		{"registry: no inode", ".", "as after a copy or a restore", journal(func(j *evidence.Journal) { j.Directory.Inode = 0 })},
		{"registry: another birth", ".", "as after a copy or a restore", journal(func(j *evidence.Journal) { j.Directory.BirthTime++ })},
		{"registry: no helper", "parameters.json", "and preflight-journal.json record different helpers", journal(func(j *evidence.Journal) { j.Helper = identity.Helper{} })},
		{"registry: no sum of the plan", plan, "has not the SHA-256 that preflight-journal.json records", journal(func(j *evidence.Journal) { j.Attempts[0].PlanSHA256 = "" })},
		{"registry: an attempt elsewhere", "upgrade-preflight", "it was moved or copied", journal(func(j *evidence.Journal) { j.Attempts[0].Directory.Path = "/x" })},
		{"registry: an attempt of another inode", "upgrade-preflight", "as after a copy or a restore", journal(func(j *evidence.Journal) { j.Attempts[0].Directory.Inode++ })},
		{"registry: a resume without a suffix", "preflight-journal.json", "which is not one", journal(func(j *evidence.Journal) { j.Attempts[1].Name = "upgrade-preflight-resume." })},
		{"registry: a resume with a startup's name", "preflight-journal.json", "which is not one", journal(func(j *evidence.Journal) { j.Attempts[1].Name = "upgrade-preflight" })},
		{"registry: a resume under another prefix", "preflight-journal.json", "which is not one", journal(func(j *evidence.Journal) { j.Attempts[1].Name = "migration-preflight-resume.ABCDEFGH" })},
		{"registry: a resume with a resume's kind and no other", "preflight-journal.json", "which is not one", journal(func(j *evidence.Journal) { j.Attempts[1].Kind = evidence.MigrationResume })},
		{"registry: an unknown kind with a suffix alone", "preflight-journal.json", "which is not one", journal(func(j *evidence.Journal) {
			j.Attempts[1].Kind, j.Attempts[1].Name = "cleanup", "ABCDEFGH"
		})},
		{"plan: of another kind of attempt", plan, "is the plan of another attempt (upgrade-preflight, resume)", rewritePlan(func(p *evidence.Plan) { p.Kind = evidence.Resume })},
		{"plan: for another namespace", plan, `is for release "openclaw-enterprise" in namespace "x", not those of parameters.json`, rewritePlan(func(p *evidence.Plan) { p.Namespace = "x" })},
		{"plan: a nonce in capitals", plan, "no nonce of 128 bits", rewritePlan(func(p *evidence.Plan) { p.Nonce = strings.Repeat("A", 32) })},
		{"plan: a nonce of 124 bits", plan, "no nonce of 128 bits", rewritePlan(func(p *evidence.Plan) { p.Nonce = p.Nonce[1:] })},
		{"plan: a nonce of 132 bits", plan, "no nonce of 128 bits", rewritePlan(func(p *evidence.Plan) { p.Nonce += "0" })},
		{"plan: a slot with another name", plan, `plans a slot with the invalid name "Worker"`, slot(4, func(s *evidence.PlannedSlot) { s.Slot = "Worker" })},
		{"plan: an object without a name", plan, `plans worker under the invalid name ""`, slot(4, func(s *evidence.PlannedSlot) { s.Name = "" })},
		{"plan: an object without a kind", plan, "which this version does not know", slot(4, func(s *evidence.PlannedSlot) { s.Kind, s.APIVersion = "", "" })},
		{"plan: another kind without a version", plan, `plans worker as a Deployment of "", which`, other("")},
		{"plan: another kind with a version", plan, `plans worker as a Deployment of "x", which`, other("x")},
		{"plan: a Job of another version", plan, `plans worker as a Job of "batch/v2", which this version does not know`, slot(4, func(s *evidence.PlannedSlot) { s.APIVersion = "batch/v2" })},
		{"plan: a NetworkPolicy of another version", plan, "which this version does not know", slot(1, func(s *evidence.PlannedSlot) { s.APIVersion = "extensions/v1" })},
		{"plan: a Secret of another version", plan, "which this version does not know", slot(0, func(s *evidence.PlannedSlot) { s.APIVersion = "v2" })},
		{"plan: a Job with a Secret's shape", plan, "has the shape of a Secret for worker, a Job", slot(4, func(s *evidence.PlannedSlot) { s.SecretShape = strings.Repeat("0", 64) })},
		{"plan: a manifest that is a list", plan, "has a manifest for worker that is not a JSON object", manifest(`[]`)},
		{"plan: a manifest without a name of the kind of a name", plan, "has a manifest for worker that is not an object", manifest(`{"apiVersion":1}`)},
		{"plan: a manifest that names nothing", plan, "has a manifest for worker that names", manifest(`{}`)},
		{"plan: without a Job", plan, "is not complete: it holds no Job", func(disk *durabletest.FS) {
			rewriteParameters(func(p *evidence.Parameters) { p.Profile.Name = "other" })(disk)
			rewritePlan(func(p *evidence.Plan) { p.Slots = p.Slots[:2] })(disk)
		}},
		{"plan: six slots", plan, "is not complete: it holds 6 slots, not secret, network-policy, migration, api, worker", rewritePlan(func(p *evidence.Plan) {
			p.Slots = append(p.Slots, et.PlannedSlot("more", p.Nonce))
		})},
		{"plan: a Job in the Secret's slot", plan, "it holds the Job secret where the Secret secret belongs", slot(0, func(s *evidence.PlannedSlot) {
			s.Kind, s.APIVersion, s.SecretShape = "Job", "batch/v1", ""
			s.Manifest = et.Manifest(*s)
		})},
	}
}

// A5.4: the NetworkPolicy is optional; a name may be as long as the API server
// takes it, and have the dots that it allows.
func TestA5_4_AcceptsPlans(t *testing.T) {
	without := func(change func(*evidence.Plan)) *durabletest.FS {
		plan := et.Plan(0)
		change(&plan)
		disk := durabletest.New()
		et.Build(t, disk, root, et.Attempt{Plan: &plan, Steps: []et.Step{et.Acknowledged}})
		return disk
	}
	for name, change := range map[string]func(*evidence.Plan){
		"no NetworkPolicy": func(p *evidence.Plan) { p.Slots = append(p.Slots[:1], p.Slots[2:]...) },
		"a long manifest": func(p *evidence.Plan) {
			m := string(p.Slots[3].Manifest)
			p.Slots[3].Manifest = []byte(m[:len(m)-1] + `,"z":"` + strings.Repeat("a", 100<<10) + `"}`)
		},
		"one letter":  func(p *evidence.Plan) { p.Slots[0].Name = "a" },
		"a long name": func(p *evidence.Plan) { p.Slots[0].Name = strings.Repeat("a.b-", 63) + "c" },
	} {
		inventory, err := loadAs(without(change), root, expectation())
		if err != nil || len(inventory.Resources) != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestA1_5_RefusesRecordsWithoutAValue(t *testing.T) { runRows(t, rowsOfRecords()) }

func rowsOfRecords() []row {
	const in, worker = "upgrade-preflight/", identity.SlotWorker
	child := evidence.ChildFile(worker, et.PodUID(0, worker))
	lost := []string{"preflight-worker-identity.json", "preflight-worker-released.json", child}
	// instead leaves the worker's create without an outcome but this one.
	instead := func(file string, build func(evidence.Record) evidence.Sealed) func(*durabletest.FS) {
		return func(disk *durabletest.FS) {
			for _, name := range lost {
				disk.Delete(attempt + "/" + name)
			}
			disk.Place(attempt+"/"+file, 0o600, bound(disk, worker, build))
		}
	}
	rejected := func(change func(*evidence.Rejected)) func(*durabletest.FS) {
		return instead("preflight-worker-rejected.json", func(r evidence.Record) evidence.Sealed {
			record := &evidence.Rejected{Record: r, AuditID: et.AuditID(0, worker), Code: 403, Reason: "Forbidden", Time: "2026-05-01T12:00:00Z"}
			change(record)
			return record
		})
	}
	stated := func(change func(*evidence.Reconciled)) func(*durabletest.FS) {
		return instead("preflight-worker-reconciled.json", func(r evidence.Record) evidence.Sealed {
			record := &evidence.Reconciled{Record: r, MarkerSHA256: strings.Repeat("0", 64), Statement: "x", Time: "2026-05-01T12:00:00Z"}
			change(record)
			return record
		})
	}
	started := func(change func(*evidence.Started)) func(*durabletest.FS) {
		return rewrite(attempt+"/preflight-worker-started.json", change)
	}
	aChild := func(change func(*evidence.Child)) func(*durabletest.FS) {
		return rewrite(attempt+"/"+child, change)
	}
	released := func(change func(*evidence.Released)) func(*durabletest.FS) {
		return rewrite(attempt+"/preflight-worker-released.json", change)
	}
	const marker, rejection, statement, release = in + "preflight-worker-started.json", in + "preflight-worker-rejected.json", in + "preflight-worker-reconciled.json", in + "preflight-worker-released.json"
	return []row{
		{"marker: no time", marker, "has no valid time", started(func(r *evidence.Started) { r.Time = "" })},
		{"marker: a long Audit-ID", marker, "has no valid auditID", started(func(r *evidence.Started) { r.AuditID = strings.Repeat("a", 65) })},
		{"child: a name that is a command", in + child, "has no valid name", aChild(func(r *evidence.Child) { r.Name = "x;rm" })},
		{"child: no UID", in + child, "has no valid uid", aChild(func(r *evidence.Child) { r.UID = "" })},
		{"child: no owner", in + child, "has no valid ownerUID", aChild(func(r *evidence.Child) { r.OwnerUID = "" })},
		{"release: no UID", release, "has no valid uid", released(func(r *evidence.Released) { r.UID = "" })},
		{"release: no time", release, "has no valid time", released(func(r *evidence.Released) { r.Time = "" })},
		{"release: without a marker", release, "exists without its started marker", func(disk *durabletest.FS) {
			for _, name := range []string{"preflight-worker-started.json", "preflight-worker-identity.json", child} {
				disk.Delete(attempt + "/" + name)
			}
		}},
		{"rejection: no Audit-ID", rejection, "has no valid auditID", rejected(func(r *evidence.Rejected) { r.AuditID = "" })},
		{"rejection: no code", rejection, "has no valid code", rejected(func(r *evidence.Rejected) { r.Code = 0 })},
		{"rejection: not sent, with a code", rejection, "has no valid code", rejected(func(r *evidence.Rejected) { r.NotSent = true })},
		{"rejection: a long reason", rejection, "has no valid reason", rejected(func(r *evidence.Rejected) { r.Reason = strings.Repeat("a", evidence.MaxReasonBytes+1) })},
		{"rejection: no time", rejection, "has no valid time", rejected(func(r *evidence.Rejected) { r.Time = "" })},
		{"statement: on no marker", statement, "has no valid markerSHA256", stated(func(r *evidence.Reconciled) { r.MarkerSHA256 = "" })},
		{"statement: empty", statement, "has no valid statement", stated(func(r *evidence.Reconciled) { r.Statement = "" })},
		{"statement: no time", statement, "has no valid time", stated(func(r *evidence.Reconciled) { r.Time = "" })},
	}
}

// A3.7: the codes that settle a create, and no other; a request that was not sent
// has none.
func TestA3_7_DefiniteRefusal(t *testing.T) {
	settles := func(code int, notSent bool) bool {
		record := evidence.Rejected{AuditID: "a", Code: code, NotSent: notSent, Time: "2026-05-01T12:00:00Z"}
		return evidence.CheckRequired(&record) == nil
	}
	settled := ""
	for code := range 1000 {
		if settles(code, false) {
			settled += fmt.Sprint(code, " ")
		}
		if settles(code, true) != (code == 0) {
			t.Errorf("not sent, with code %d", code)
		}
	}
	if want := "400 401 403 404 405 406 413 415 422 429 "; settled != want {
		t.Errorf("settled by %s, want %s", settled, want)
	}
}

func TestA6_15_ValidStatement(t *testing.T) {
	for text, want := range map[string]bool{
		"":                             false,
		"x":                            true,
		"the audit log says 403, über": true,
		strings.Repeat("a", evidence.MaxStatementBytes):   true,
		strings.Repeat("a", evidence.MaxStatementBytes+1): false,
		"a\nb": false, "\x1b[2J": false, "a\x7f": false, "\xff": false,
	} {
		if evidence.ValidStatement(text) != want {
			t.Errorf("%.40q: want %v", text, want)
		}
	}
}

// A3.4: an Audit-ID comes back whole.
func TestA3_4_ValidAuditID(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "a": true, "0A-z": true, strings.Repeat("a", 64): true, strings.Repeat("a", 65): false, "a b": false, "a\n": false,
	} {
		if evidence.ValidAuditID(text) != want {
			t.Errorf("%.70q: want %v", text, want)
		}
	}
}

// A4.7: a resume follows an attempt whose creates are all settled, be it by a
// receipt, a definite refusal or a statement, and one whose later slots were never
// started.
func TestA4_7_AcceptsAResumeAfterSettledCreates(t *testing.T) {
	for name, steps := range map[string][]et.Step{
		"acknowledged": {et.Acknowledged},
		"rejected":     {et.Acknowledged, et.Rejected},
		"reconciled":   {et.Acknowledged, et.Acknowledged, et.Reconciled},
		"nothing":      nil,
	} {
		disk := durabletest.New()
		et.Build(t, disk, root, et.Attempt{Steps: steps}, et.Attempt{Steps: []et.Step{et.Uncertain}})
		if _, err := loadAs(disk, root, expectation()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A5.5: two attempts that plan one object cannot be of this protocol: each has a
// nonce in its names.
func TestA5_5_RefusesAnObjectThatTwoAttemptsPlan(t *testing.T) {
	disk := durabletest.New()
	et.Build(t, disk, root, all(), et.Attempt{})
	at := resume(disk) + "/preflight-plan.json"
	rewrite(at, func(p *evidence.Plan) { p.Slots = et.Plan(0).Slots })(disk)
	sum := strictjson.Sum([]byte(disk.Files()[at]))
	rewrite(root+"/preflight-journal.json", func(j *evidence.Journal) { j.Attempts[1].PlanSHA256 = sum })(disk)
	_, err := loadAs(disk, root, expectation())
	mustRefuse(t, err, strings.TrimPrefix(at, root+"/"), "has the same planned object as upgrade-preflight/preflight-plan.json")
}

// A4.5, A3.8: what a Job printed and what a create failed with lie beside the
// records and decide nothing.
func TestA5_4_AcceptsLogsAndErrors(t *testing.T) {
	disk := tree(t)
	disk.Place(attempt+"/preflight-worker.log", 0o600, strings.Repeat("a", evidence.MaxLogBytes))
	disk.Place(attempt+"/preflight-worker-create.err", 0o600, strings.Repeat("a", evidence.MaxCreateErrorBytes))
	disk.Place(attempt+"/notes.txt", 0o600, "a person's")
	inventory, err := loadAs(disk, root, expectation())
	if err != nil || len(inventory.Resources) != 6 {
		t.Errorf("%v", err)
	}
}

// A3.7: a reason may be as long as its bound.
func TestA3_7_AcceptsALongReason(t *testing.T) {
	disk := durabletest.New()
	et.Build(t, disk, root, et.Attempt{Steps: []et.Step{et.Rejected}})
	rewrite(attempt+"/preflight-secret-rejected.json", func(r *evidence.Rejected) { r.Reason = strings.Repeat("a", evidence.MaxReasonBytes) })(disk)
	if inventory, err := loadAs(disk, root, expectation()); err != nil || inventory.Slots[0].State != evidence.StateRejected {
		t.Errorf("%v", err)
	}
}

// A3.6: without a retained copy the refusal of another helper says that there is none.
func TestA3_6_RefusesAnotherHelperWithoutACopy(t *testing.T) {
	disk := tree(t)
	rewriteParameters(func(p *evidence.Parameters) { p.HelperRetained = false })(disk)
	expect := expectation()
	expect.Helper.SHA256 = "0"
	_, err := loadAs(disk, root, expect)
	mustRefuse(t, err, "parameters.json", "use the executable that made this run, since no copy was retained")
}

// A6.15: a command that is told no target judges everything else.
func TestA6_15_LoadUnbound(t *testing.T) {
	for name, want := range map[string]bool{"parameters.json": true, "upgrade-preflight/preflight-api-identity.json": false} {
		disk := tree(t)
		if !want {
			disk.Delete(root + "/" + name)
		}
		dir, err := evidence.Open(disk, root)
		if err != nil {
			t.Fatal(err)
		}
		inventory, err := dir.LoadUnbound()
		if (err == nil) != want || want && len(inventory.Resources) != 6 {
			t.Errorf("%s: %v", name, err)
		}
		if err := dir.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
