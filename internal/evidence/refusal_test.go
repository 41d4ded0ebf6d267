package evidence_test

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-project/holdfast/internal/durable/durabletest"
	"github.com/holdfast-project/holdfast/internal/evidence"
	et "github.com/holdfast-project/holdfast/internal/evidence/evidencetest"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/strictjson"
)

const attempt = root + "/upgrade-preflight"

// loadAs opens the evidence at path and loads it once.
func loadAs(disk *durabletest.FS, path string, expect evidence.Expectation) (*evidence.Inventory, error) {
	dir, err := evidence.Open(disk, path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	return dir.Load(expect)
}

func expectation() evidence.Expectation { return et.Expectation(et.Parameters()) }

// mustRefuse asserts a refusal of the named file for the given reason.
func mustRefuse(t *testing.T, err error, file, reason string) {
	t.Helper()
	var refusal *evidence.Refusal
	if !errors.As(err, &refusal) {
		t.Fatalf("got %v, want a refusal of %s that says %q", err, file, reason)
	}
	if refusal.File != file || !says(refusal.Reason, reason) {
		t.Errorf("refused %q because it %q; want %q because it %q", refusal.File, refusal.Reason, file, reason)
	}
	if said := refusal.Error(); strings.Contains(said, "\n") || strings.Contains(said, "%!") {
		t.Errorf("the refusal is not one whole sentence: %q", said)
	}
}

// says reports whether the words stand in the sentence, as whole words, and at its
// beginning where they are one.
func says(sentence, words string) bool {
	before, after, found := strings.Cut(sentence, words)
	for _, verb := range []string{"is ", "has ", "does "} {
		if strings.HasPrefix(words, verb) && before != "" {
			return false
		}
	}
	letter := func(s string) bool {
		return s != "" && (s[0] >= '0' && s[0] <= '9' || s[0]|0x20 >= 'a' && s[0]|0x20 <= 'z')
	}
	return found && (!letter(words[len(words)-1:]) || !letter(after))
}

// row damages valid evidence in one way.
type row struct {
	name, file, reason string
	damage             func(disk *durabletest.FS)
}

// tree is the evidence that every row damages: a startup attempt in which
// everything exists, and a resume that was cut off at its second create.
func tree(t *testing.T) *durabletest.FS {
	t.Helper()
	disk := durabletest.New()
	et.Build(t, disk, root, treeAttempts()...)
	return disk
}

func treeAttempts() []et.Attempt {
	return []et.Attempt{all(), {Steps: []et.Step{et.Acknowledged, et.Uncertain}}}
}

// everyRow is the whole matrix, which the real command meets too.
func everyRow() []row {
	return slices.Concat(rowsOfA1_5(), rowsOfParameters(), rowsOfRecords(), rowsOfA5_2(), rowsOfA5_4(), rowsOfPlans(),
		rowsOfA5_5(), rowsOfA5_6(), rowsOfA5_7(), rowsOfA5_8())
}

func runRows(t *testing.T, rows []row) {
	t.Helper()
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			disk := tree(t)
			row.damage(disk)
			_, err := loadAs(disk, root, expectation())
			mustRefuse(t, err, row.file, row.reason)
		})
	}
}

// resume is the path of the second attempt, whose name is random.
func resume(disk *durabletest.FS) string {
	for _, path := range disk.Paths() {
		if strings.HasPrefix(path, root+"/upgrade-preflight-resume.") && strings.Count(path, "/") == 2 {
			return path
		}
	}
	return ""
}

func place(path string) func(*durabletest.FS) {
	return func(disk *durabletest.FS) { disk.Place(path, 0o600, "{}\n") }
}

func remove(path string) func(*durabletest.FS) {
	return func(disk *durabletest.FS) { disk.Delete(path) }
}

// rewrite decodes a record, changes it, seals it again and writes it back: the
// damage of somebody who knows the format.
func rewrite[T any](path string, change func(*T)) func(*durabletest.FS) {
	return func(disk *durabletest.FS) {
		disk.Edit(path, func(content string) string { return resealed(content, change) })
	}
}

func resealed[T any](content string, change func(*T)) string {
	var record T
	if err := strictjson.Decode([]byte(content), 1<<20, &record); err != nil {
		panic(err)
	}
	change(&record)
	if sealed, ok := any(&record).(evidence.Sealed); ok {
		if err := evidence.Seal(sealed); err != nil {
			panic(err)
		}
	}
	data, err := strictjson.Encode(record)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// rewritePlan changes the startup plan and the registry that holds its hash.
// The records are not bound to it any more; the plan is judged first.
func rewritePlan(change func(*evidence.Plan)) func(*durabletest.FS) {
	return func(disk *durabletest.FS) {
		rewrite(attempt+"/preflight-plan.json", change)(disk)
		sum := strictjson.Sum([]byte(disk.Files()[attempt+"/preflight-plan.json"]))
		rewrite(root+"/preflight-journal.json", func(j *evidence.Journal) { j.Attempts[0].PlanSHA256 = sum })(disk)
	}
}

func TestA1_5_Refuses(t *testing.T) { runRows(t, rowsOfA1_5()) }

func rowsOfA1_5() []row {
	edit := func(path, old, new string) func(*durabletest.FS) {
		return func(disk *durabletest.FS) {
			disk.Edit(path, func(content string) string {
				if !strings.Contains(content, old) {
					panic(path + " has no " + old)
				}
				return strings.Replace(content, old, new, 1)
			})
		}
	}
	receipt := attempt + "/preflight-api-identity.json"
	name := "upgrade-preflight/preflight-api-identity.json"
	return []row{
		{"an unknown field", name, `unknown field "extra"`, edit(receipt, `  "kind"`, "  \"extra\": 1,\n  \"kind\"")},
		{"a duplicate key", name, `the key "kind" twice`, edit(receipt, `  "kind"`, "  \"kind\": \"Job\",\n  \"kind\"")},
		{"a trailing byte", name, "bytes after its object", func(d *durabletest.FS) { d.Edit(receipt, func(c string) string { return c + "x" }) }},
		{"a wrong type", name, `field "version"`, edit(receipt, `"version": 1`, `"version": "1"`)},
		{"a missing field", name, "canonical form", edit(receipt, "  \"kind\": \"Job\",\n", "")},
		{"no seal", name, "does not match its own SHA-256", func(d *durabletest.FS) {
			d.Edit(receipt, func(c string) string { return c[:strings.Index(c, ",\n  \"sha256\"")] + "\n}\n" })
		}},
		{"another UID under the old seal", name, "does not match its own SHA-256", edit(receipt, et.ObjectUID(0, identity.SlotAPI), et.UID("other"))},
		{"an empty file", name, "not complete JSON", func(d *durabletest.FS) { d.Edit(receipt, func(string) string { return "" }) }},
		{"a huge file", name, "is larger than its bound of 65536 bytes", func(d *durabletest.FS) {
			d.Edit(receipt, func(c string) string { return c + strings.Repeat(" ", 1<<16) })
		}},
		{"an empty required value", "upgrade-preflight/preflight-api-started.json", "has no valid auditID",
			rewrite(attempt+"/preflight-api-started.json", func(s *evidence.Started) { s.AuditID = "" })},
		{"a UID that is none", name, "has no valid uid", rewrite(receipt, func(r *evidence.Receipt) { r.UID = "x; rm -rf /" })},
		{"a time that is none", name, "has no valid creationTimestamp", rewrite(receipt, func(r *evidence.Receipt) { r.CreationTimestamp = "yesterday" })},
		{"another version", name, "does not belong to its plan", rewrite(receipt, func(r *evidence.Receipt) { r.Version = 2 })},
		{"a record of another slot", name, "does not belong to its plan", rewrite(receipt, func(r *evidence.Receipt) { r.Slot = "worker" })},
		{"a record of another plan", name, "does not belong to its plan", rewrite(receipt, func(r *evidence.Receipt) { r.PlanSHA256 = strings.Repeat("0", 64) })},
		{"a record of another attempt", name, "does not belong to its plan", rewrite(receipt, func(r *evidence.Receipt) { r.Attempt = "other" })},
		{"changed parameters", "parameters.json", "was changed", rewrite(root+"/parameters.json", func(p *evidence.Parameters) { p.Context = "" })},
	}
}

func rowsOfA5_2() []row {
	return []row{
		{"a restored directory", ".", "as after a copy or a restore", func(d *durabletest.FS) { d.Rebirth(root) }},
		{"a directory that others may read", ".", "is open to group or others", func(d *durabletest.FS) { d.Chmod(root, 0o750) }},
		{"a directory of somebody else", ".", "is owned by another user", func(d *durabletest.FS) { d.Chown(root, 0) }},
		{"another file system", ".", "was recorded on xfs: it is not the original directory", rewriteParameters(func(p *evidence.Parameters) { p.FileSystem.Type = "xfs" })},
	}
}

func TestA5_2_Refuses(t *testing.T) {
	runRows(t, rowsOfA5_2())
	t.Run("a moved directory", func(t *testing.T) {
		disk := tree(t)
		disk.Move(root, "/elsewhere")
		_, err := loadAs(disk, "/elsewhere", expectation())
		mustRefuse(t, err, ".", "was recorded at /evidence: it was moved or copied")
	})
	t.Run("a symbolic link", func(t *testing.T) {
		disk := tree(t)
		disk.Place("/link", fs.ModeSymlink|0o777, root)
		_, err := loadAs(disk, "/link", expectation())
		mustRefuse(t, err, ".", "/link is reached through a symbolic link")
	})
	t.Run("a file", func(t *testing.T) {
		disk := durabletest.New()
		disk.Place(root, 0o600, "")
		_, err := loadAs(disk, root, expectation())
		mustRefuse(t, err, ".", "/evidence is not a directory")
	})
	t.Run("nothing", func(t *testing.T) {
		_, err := loadAs(durabletest.New(), root, expectation())
		mustRefuse(t, err, ".", "/evidence does not exist")
	})
}

func TestA1_2_RefusesWhatAnotherProcessHolds(t *testing.T) {
	disk := tree(t)
	et.Open(t, disk, root)
	_, err := evidence.Open(disk, root)
	mustRefuse(t, err, ".", "another process holds this evidence")
}

func TestA5_3_Refuses(t *testing.T) {
	for _, test := range []struct {
		name, reason string
		change       func(*evidence.Expectation)
	}{
		{"another kubeconfig", `records the kubeconfig "/secure/occ/kubeconfig", not "/tmp/k"`, func(e *evidence.Expectation) { e.KubeconfigPath = "/tmp/k" }},
		{"another kubeconfig's bytes", "the kubeconfig was changed after the run", func(e *evidence.Expectation) { e.KubeconfigSHA256 = "0" }},
		{"another context", `the context "production", not "staging"`, func(e *evidence.Expectation) { e.Context = "staging" }},
		{"another namespace", `the namespace "openclaw-system", not "x"`, func(e *evidence.Expectation) { e.Namespace = "x" }},
		{"another release", `the release "openclaw-enterprise", not "x"`, func(e *evidence.Expectation) { e.Release = "x" }},
		{"another helper", "use the retained copy /evidence/helper/upgrade-production-images", func(e *evidence.Expectation) { e.Helper.SHA256 = "0" }},
		{"another build", "written by another helper", func(e *evidence.Expectation) { e.Helper.Revision = "0" }},
		{"nothing", "records the kubeconfig", func(e *evidence.Expectation) { *e = evidence.Expectation{} }},
	} {
		t.Run(test.name, func(t *testing.T) {
			expect := expectation()
			test.change(&expect)
			_, err := loadAs(tree(t), root, expect)
			mustRefuse(t, err, "parameters.json", test.reason)
		})
	}
}

func TestA5_4_Refuses(t *testing.T) { runRows(t, rowsOfA5_4()) }

func rowsOfA5_4() []row {
	journal := func(change func(*evidence.Journal)) func(*durabletest.FS) {
		return rewrite(root+"/preflight-journal.json", change)
	}
	plan := "upgrade-preflight/preflight-plan.json"
	return []row{
		{"an attempt that is gone", "upgrade-preflight", "does not exist", remove(attempt)},
		{"an attempt that was restored", "upgrade-preflight", "as after a copy or a restore", func(d *durabletest.FS) { d.Rebirth(attempt) }},
		{"an attempt that is a file", "upgrade-preflight", "is not a directory", func(d *durabletest.FS) { d.Place(attempt, 0o600, "") }},
		{"an attempt that is a link", "upgrade-preflight", "is a symbolic link", func(d *durabletest.FS) { d.Place(attempt, fs.ModeSymlink|0o777, "x") }},
		{"an attempt open to others", "upgrade-preflight", "is open to group or others", func(d *durabletest.FS) { d.Chmod(attempt, 0o711) }},
		{"an attempt twice", "preflight-journal.json", "out of order", journal(func(j *evidence.Journal) { j.Attempts = append(j.Attempts, j.Attempts[0]) })},
		{"a resume twice", "preflight-journal.json", "twice", journal(func(j *evidence.Journal) { j.Attempts = append(j.Attempts, j.Attempts[1]) })},
		{"a resume first", "preflight-journal.json", "out of order", journal(func(j *evidence.Journal) { j.Attempts = j.Attempts[1:] })},
		{"an attempt by another name", "preflight-journal.json", "which is not one", journal(func(j *evidence.Journal) { j.Attempts[0].Name = "../x" })},
		{"an attempt of another kind", "preflight-journal.json", "which is not one", journal(func(j *evidence.Journal) { j.Attempts[0].Kind = "cleanup" })},
		{"no list of attempts", "preflight-journal.json", "has no list of attempts", journal(func(j *evidence.Journal) { j.Attempts = nil })},
		{"parameters of another run", "parameters.json", "was changed", journal(func(j *evidence.Journal) { j.ParametersSHA256 = strings.Repeat("0", 64) })},
		{"another helper in the registry", "parameters.json", "record different helpers", journal(func(j *evidence.Journal) { j.Helper.Revision = "x" })},
		{"no plan", plan, "does not exist", remove(attempt + "/preflight-plan.json")},
		{"a changed plan", plan, "was changed", rewrite(attempt+"/preflight-plan.json", func(p *evidence.Plan) { p.Nonce = strings.Repeat("0", 32) })},
		{"a plan of another release", plan, "is for release", rewritePlan(func(p *evidence.Plan) { p.Release = "x" })},
		{"a plan of another attempt", plan, "is the plan of another attempt", rewritePlan(func(p *evidence.Plan) { p.Attempt = "x" })},
		{"a plan of another version", plan, "has version 2", rewritePlan(func(p *evidence.Plan) { p.Version = 2 })},
		{"a plan without a nonce", plan, "no nonce of 128 bits", rewritePlan(func(p *evidence.Plan) { p.Nonce = "" })},
		{"a plan without a worker", plan, "not complete: it holds the NetworkPolicy network-policy where", rewritePlan(func(p *evidence.Plan) { p.Slots = append(p.Slots[:1], p.Slots[1:4]...) })},
		{"a plan without migration and policy", plan, "not complete: it holds 3 slots", rewritePlan(func(p *evidence.Plan) { p.Slots = append(p.Slots[:1], p.Slots[3:]...) })},
		{"a plan without slots", plan, "not complete: it holds 0 slots", rewritePlan(func(p *evidence.Plan) { p.Slots = nil })},
		{"a plan in another order", plan, "where the Job api belongs", rewritePlan(func(p *evidence.Plan) { p.Slots[3], p.Slots[4] = p.Slots[4], p.Slots[3] })},
		{"a plan with an object twice", plan, "twice", rewritePlan(func(p *evidence.Plan) { s := p.Slots[4]; s.Slot = "more"; p.Slots = append(p.Slots, s) })},
		{"a plan with a slot twice", plan, `slot "worker" twice`, rewritePlan(func(p *evidence.Plan) { p.Slots = append(p.Slots, p.Slots[4]) })},
		{"a plan of an unknown kind", plan, "which this version does not know", rewritePlan(func(p *evidence.Plan) { p.Slots[4].Kind = "Deployment" })},
		{"a plan in another namespace", plan, `in namespace "kube-system"`, rewritePlan(func(p *evidence.Plan) { p.Slots[4].Namespace = "kube-system" })},
		{"a plan with a name that is a command", plan, "invalid name", rewritePlan(func(p *evidence.Plan) { p.Slots[4].Name = "x;rm" })},
		{"a plan with a Secret's content", plan, "holds a manifest for the Secret", rewritePlan(func(p *evidence.Plan) { p.Slots[0].Manifest = p.Slots[1].Manifest })},
		{"a plan without a Secret's shape", plan, "no shape of the Secret", rewritePlan(func(p *evidence.Plan) { p.Slots[0].SecretShape = "" })},
		{"a plan without a manifest", plan, "no manifest for api", rewritePlan(func(p *evidence.Plan) { p.Slots[3].Manifest = nil })},
		{"a plan with another object's manifest", plan, "that names", rewritePlan(func(p *evidence.Plan) { p.Slots[3].Manifest = p.Slots[4].Manifest })},
		{"a plan with a manifest in two spellings", plan, "not in canonical form", rewritePlan(func(p *evidence.Plan) {
			p.Slots[3].Manifest = []byte(strings.Replace(string(p.Slots[3].Manifest), "batch", `b\u0061tch`, 1))
		})},
	}
}

func TestA5_5_Refuses(t *testing.T) { runRows(t, rowsOfA5_5()) }

func rowsOfA5_5() []row {
	const in = "upgrade-preflight/"
	child := func(slot identity.Slot) string { return evidence.ChildFile(slot, et.PodUID(0, slot)) }
	// plant writes a sealed record that is bound to the startup plan.
	plant := func(file string, slot identity.Slot, build func(evidence.Record) evidence.Sealed) func(*durabletest.FS) {
		return func(disk *durabletest.FS) { disk.Place(attempt+"/"+file, 0o600, bound(disk, slot, build)) }
	}
	rejection := func(auditID string) func(evidence.Record) evidence.Sealed {
		return func(r evidence.Record) evidence.Sealed {
			return &evidence.Rejected{Record: r, AuditID: auditID, Code: 403, Reason: "Forbidden", Time: "2026-05-01T12:00:00Z"}
		}
	}
	statement := func(r evidence.Record) evidence.Sealed {
		return &evidence.Reconciled{Record: r, MarkerSHA256: strings.Repeat("0", 64), Statement: "x", Time: "2026-05-01T12:00:00Z"}
	}
	both := func(f ...func(*durabletest.FS)) func(*durabletest.FS) {
		return func(disk *durabletest.FS) {
			for _, one := range f {
				one(disk)
			}
		}
	}
	const worker = identity.SlotWorker
	return []row{
		{"a receipt without a marker", in + "preflight-worker-identity.json", "exists without its started marker", remove(attempt + "/preflight-worker-started.json")},
		{"a rejection without a marker", in + "preflight-worker-rejected.json", "exists without its started marker", both(
			remove(attempt+"/preflight-worker-started.json"), remove(attempt+"/preflight-worker-identity.json"),
			plant("preflight-worker-rejected.json", worker, rejection("x")))},
		{"a statement without a marker", in + "preflight-worker-reconciled.json", "exists without its started marker", both(
			remove(attempt+"/preflight-worker-started.json"), remove(attempt+"/preflight-worker-identity.json"),
			plant("preflight-worker-reconciled.json", worker, statement))},
		{"a create error without a marker", in + "preflight-worker-create.err", "exists without its started marker", both(
			remove(attempt+"/preflight-worker-started.json"), remove(attempt+"/preflight-worker-identity.json"), remove(attempt+"/preflight-worker-released.json"),
			remove(attempt+"/"+child(worker)), place(attempt+"/preflight-worker-create.err"))},
		{"a rejection beside a receipt", in + "preflight-worker-rejected.json", "conflicts with the slot's receipt",
			plant("preflight-worker-rejected.json", worker, rejection(et.AuditID(0, worker)))},
		{"a statement beside a receipt", in + "preflight-worker-reconciled.json", "conflicts with the slot's receipt",
			plant("preflight-worker-reconciled.json", worker, statement)},
		{"a statement beside a rejection", in + "preflight-worker-reconciled.json", "conflicts with the slot's rejection", both(
			remove(attempt+"/preflight-worker-identity.json"), remove(attempt+"/preflight-worker-released.json"), remove(attempt+"/"+child(worker)),
			plant("preflight-worker-rejected.json", worker, rejection(et.AuditID(0, worker))),
			plant("preflight-worker-reconciled.json", worker, statement))},
		{"a rejection of another request", in + "preflight-worker-rejected.json", "of another request", both(
			remove(attempt+"/preflight-worker-identity.json"), remove(attempt+"/preflight-worker-released.json"), remove(attempt+"/"+child(worker)),
			plant("preflight-worker-rejected.json", worker, rejection("other")))},
		{"a rejection that settles nothing", in + "preflight-worker-rejected.json", "has no valid code", both(
			remove(attempt+"/preflight-worker-identity.json"), remove(attempt+"/preflight-worker-released.json"), remove(attempt+"/"+child(worker)),
			plant("preflight-worker-rejected.json", worker, func(r evidence.Record) evidence.Sealed {
				return &evidence.Rejected{Record: r, AuditID: et.AuditID(0, worker), Code: 409, Time: "2026-05-01T12:00:00Z"}
			}))},
		{"a statement on another marker", in + "preflight-worker-reconciled.json", "on another started marker", both(
			remove(attempt+"/preflight-worker-identity.json"), remove(attempt+"/preflight-worker-released.json"), remove(attempt+"/"+child(worker)),
			plant("preflight-worker-reconciled.json", worker, statement))},
		{"a release without a receipt", in + "preflight-worker-released.json", "without the slot's receipt", both(
			remove(attempt+"/preflight-worker-identity.json"), remove(attempt+"/"+child(worker)))},
		{"a release of another Job", in + "preflight-worker-released.json", "of another Job",
			rewrite(attempt+"/preflight-worker-released.json", func(r *evidence.Released) { r.UID = et.UID("x") })},
		{"a release of a Secret", in + "preflight-secret-released.json", "never suspended",
			plant("preflight-secret-released.json", identity.SlotSecret, func(r evidence.Record) evidence.Sealed {
				return &evidence.Released{Record: r, UID: et.ObjectUID(0, identity.SlotSecret), Time: "2026-05-01T12:00:00Z"}
			})},
		{"a receipt of another object", in + "preflight-worker-identity.json", "was planned",
			rewrite(attempt+"/preflight-worker-identity.json", func(r *evidence.Receipt) { r.Name = "x" })},
		{"a receipt of another kind", in + "preflight-worker-identity.json", "was planned",
			rewrite(attempt+"/preflight-worker-identity.json", func(r *evidence.Receipt) { r.Kind = "Secret" })},
		{"two receipts with one UID", in + "preflight-network-policy-identity.json", "the same UID as upgrade-preflight/preflight-secret-identity.json",
			rewrite(attempt+"/preflight-network-policy-identity.json", func(r *evidence.Receipt) { r.UID = et.ObjectUID(0, identity.SlotSecret) })},
		{"a child of another owner", in + child(worker), "of another owner",
			rewrite(attempt+"/"+child(worker), func(c *evidence.Child) { c.OwnerUID = et.UID("x") })},
		{"a child in another namespace", in + child(worker), "in another namespace",
			rewrite(attempt+"/"+child(worker), func(c *evidence.Child) { c.Namespace = "x" })},
		{"a child under another name", in + child(worker), "holds the receipt of Pod",
			rewrite(attempt+"/"+child(worker), func(c *evidence.Child) { c.UID = et.UID("x") })},
		{"a child without a receipt", in + child(worker), "without its Job's receipt", both(
			remove(attempt+"/preflight-worker-identity.json"), remove(attempt+"/preflight-worker-released.json"))},
		{"a child before the release", in + child(worker), "without its Job's release", remove(attempt + "/preflight-worker-released.json")},
		{"a child with its Job's UID", in + evidence.ChildFile(worker, et.ObjectUID(0, worker)), "the same UID as",
			plant(evidence.ChildFile(worker, et.ObjectUID(0, worker)), worker, func(r evidence.Record) evidence.Sealed {
				return &evidence.Child{Record: r, Namespace: et.Namespace, Name: "pod", UID: et.ObjectUID(0, worker), OwnerUID: et.ObjectUID(0, worker)}
			})},
		{"a log before the release", in + "preflight-worker.log", "without its Job's release", both(
			remove(attempt+"/preflight-worker-released.json"), remove(attempt+"/"+child(worker)), place(attempt+"/preflight-worker.log"))},
		{"a log without the receipt of its Pod", in + "preflight-worker.log", "without the receipt of a Pod of its Job", both(
			remove(attempt+"/"+child(worker)), place(attempt+"/preflight-worker.log"))},
		{"a lost receipt of the Pod of a migration that succeeded", in + "preflight-api-started.json", "without the receipt of a Pod of migration", remove(attempt + "/" + child(identity.SlotMigration))},
		{"an unknown file", in + "preflight-api-maybe.json", "not a file of this version", place(attempt + "/preflight-api-maybe.json")},
		{"an unknown file in the root", "preflight-plan.json", "not a file of this version", place(root + "/preflight-plan.json")},
		{"a record of an unplanned slot", in + "preflight-cache-started.json", "belongs to no slot", place(attempt + "/preflight-cache-started.json")},
		{"a lost marker of an earlier slot", in + "preflight-api-started.json", "is missing although worker was started after it", both(
			remove(attempt+"/preflight-api-started.json"), remove(attempt+"/preflight-api-identity.json"), remove(attempt+"/preflight-api-released.json"),
			remove(attempt+"/"+child(identity.SlotAPI)))},
		{"a lost receipt of an earlier slot", in + "preflight-api-identity.json", "is missing although worker was started after it", both(
			remove(attempt+"/preflight-api-identity.json"), remove(attempt+"/preflight-api-released.json"), remove(attempt+"/"+child(identity.SlotAPI)))},
		{"a lost release of an earlier Job", in + "preflight-api-released.json", "is missing although worker was started after it", both(
			remove(attempt+"/preflight-api-released.json"), remove(attempt+"/"+child(identity.SlotAPI)))},
		{"a marker after a rejected slot", in + "preflight-worker-started.json", "although api was rejected", both(
			remove(attempt+"/preflight-api-identity.json"), remove(attempt+"/preflight-api-released.json"), remove(attempt+"/"+child(identity.SlotAPI)),
			plant("preflight-api-rejected.json", identity.SlotAPI, rejection(et.AuditID(0, identity.SlotAPI))))},
		{"a lost receipt before a resume", in + "preflight-worker-identity.json", "is missing although upgrade-preflight-resume.", both(
			remove(attempt+"/preflight-worker-identity.json"), remove(attempt+"/preflight-worker-released.json"), remove(attempt+"/"+child(worker)))},
		{"one Audit-ID twice", in + "preflight-worker-started.json", "the same Audit-ID as",
			rewrite(attempt+"/preflight-worker-started.json", func(s *evidence.Started) { s.AuditID = et.AuditID(0, identity.SlotAPI) })},
		{"a strange staging file", in + ".preflight-api-identity.json.staging", "but another file", place(attempt + "/.preflight-api-identity.json.staging")},
		{"a huge create error", in + "preflight-worker-create.err", "is larger than its bound of 65536 bytes", func(disk *durabletest.FS) {
			disk.Place(attempt+"/preflight-worker-create.err", 0o600, strings.Repeat("a", evidence.MaxCreateErrorBytes+1))
		}},
		{"a huge log", in + "preflight-worker.log", "is larger than its bound of 4194304 bytes", func(disk *durabletest.FS) {
			disk.Place(attempt+"/preflight-worker.log", 0o600, strings.Repeat("a", evidence.MaxLogBytes+1))
		}},
		{"a huge staging file", in + ".preflight-worker.log.staging", "is larger than its bound of 16777216 bytes", func(disk *durabletest.FS) {
			disk.Place(attempt+"/.preflight-worker.log.staging", 0o600, strings.Repeat("torn", 4<<20)+"x")
		}},
		{"another unknown staging file", in + ".preflight-plan.staging", "not a staging file of this version", place(attempt + "/.preflight-plan.staging")},
		{"an unknown staging file", in + ".preflight-x.staging", "not a staging file of this version", place(attempt + "/.preflight-x.staging")},
	}
}

// A5.5: what a run can have written is accepted, though it looks like a loss: a Job
// without a Pod that is its attempt's last or comes before no other, the order of a
// profile that is not the built-in one, a log beside its Pod, and a file of text that
// proves nothing.
func TestA5_5_AcceptsWhatProvesNoLoss(t *testing.T) {
	const worker = identity.SlotWorker
	other := func(disk *durabletest.FS) {
		rewrite(root+"/parameters.json", func(p *evidence.Parameters) { p.Profile.SHA256 = strictjson.Sum([]byte("a profile of the same name")) })(disk)
		sum := strictjson.Sum([]byte(disk.Files()[root+"/parameters.json"]))
		rewrite(root+"/preflight-journal.json", func(j *evidence.Journal) { j.ParametersSHA256 = sum })(disk)
		remove(attempt + "/" + evidence.ChildFile(identity.SlotMigration, et.PodUID(0, identity.SlotMigration)))(disk)
	}
	for name, change := range map[string]func(*durabletest.FS){
		"nothing changed":                 func(*durabletest.FS) {},
		"a last Job without a Pod":        remove(attempt + "/" + evidence.ChildFile(worker, et.PodUID(0, worker))),
		"an api without a Pod":            remove(attempt + "/" + evidence.ChildFile(identity.SlotAPI, et.PodUID(0, identity.SlotAPI))),
		"another profile of the name":     other,
		"a log beside its Pod":            place(attempt + "/preflight-worker.log"),
		"a create's error and its object": place(attempt + "/preflight-worker-create.err"),
	} {
		disk := tree(t)
		change(disk)
		if _, err := loadAs(disk, root, expectation()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// bound is a sealed record of a slot of the startup attempt.
func bound(disk *durabletest.FS, slot identity.Slot, build func(evidence.Record) evidence.Sealed) string {
	r := build(evidence.Record{
		Version: 1, Attempt: "upgrade-preflight", Slot: slot,
		PlanSHA256: strictjson.Sum([]byte(disk.Files()[attempt+"/preflight-plan.json"])),
	})
	if err := evidence.Seal(r); err != nil {
		panic(err)
	}
	data, err := strictjson.Encode(r)
	if err != nil {
		panic(err)
	}
	return string(data)
}
