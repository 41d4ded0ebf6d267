package evidence_test

import (
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

func TestA5_6_RefusesRecordsOutsideAnAttempt(t *testing.T) { runRows(t, rowsOfA5_6()) }

func rowsOfA5_6() []row {
	var rows []row
	for _, name := range []string{
		"preflight-api-started.json", "preflight-api-identity.json", "preflight-api-released.json",
		"preflight-api-rejected.json", "preflight-api-reconciled.json", "preflight-api-create.err",
		"preflight-api-child-" + et.UID("x") + ".json",
	} {
		for _, dir := range []string{"", "upgrade-preflight-resume.ABCDEFGH/", "old/deep/", "preflight-cleanup.ABCDEFGH/observations/", "upgrade-preflight/old/"} {
			rows = append(rows, row{dir + name, dir + name, "is a create record outside a registered attempt", func(disk *durabletest.FS) {
				makeDirs(disk, dir)
				disk.Place(root+"/"+dir+name, 0o600, "")
			}})
		}
	}
	return rows
}

func makeDirs(disk *durabletest.FS, dir string) {
	at := root
	for part := range strings.SplitSeq(strings.Trim(dir, "/"), "/") {
		if at += "/" + part; part != "" && !slices.Contains(disk.Paths(), at) {
			disk.Place(at, fs.ModeDir|0o700, "")
		}
	}
}

// A5.6: a plan precedes every create, so one that no registry names is harmless.
func TestA5_6_UnregisteredPlanIsHarmless(t *testing.T) {
	disk := tree(t)
	disk.Place(root+"/upgrade-preflight-resume.ABCDEFGH", fs.ModeDir|0o700, "")
	disk.Place(root+"/upgrade-preflight-resume.ABCDEFGH/preflight-plan.json", 0o600, "{")
	if _, err := loadAs(disk, root, expectation()); err != nil {
		t.Fatal(err)
	}
}

func TestA5_7_Refuses(t *testing.T) { runRows(t, rowsOfA5_7()) }

func rowsOfA5_7() []row {
	var rows []row
	for _, file := range []string{
		"preflight-journal.json", "parameters.json", ".upgrade-lock", "helper/upgrade-production-images",
		"upgrade-preflight/preflight-plan.json", "upgrade-preflight/preflight-api-started.json",
		"upgrade-preflight/preflight-api-identity.json", "upgrade-preflight/preflight-api-released.json",
		"preflight-cleanup.ABCDEFGH/preflight-cleanup-result.json",
	} {
		at := root + "/" + file
		for _, how := range []struct {
			name, reason string
			damage       func(*durabletest.FS)
		}{
			{"link", "is a symbolic link", func(d *durabletest.FS) { d.Place(at, fs.ModeSymlink|0o777, "x") }},
			{"FIFO", "is not a regular file", func(d *durabletest.FS) { d.Place(at, fs.ModeNamedPipe|0o600, "") }},
			{"device", "is not a regular file", func(d *durabletest.FS) { d.Place(at, fs.ModeDevice|0o600, "") }},
			{"socket", "is not a regular file", func(d *durabletest.FS) { d.Place(at, fs.ModeSocket|0o600, "") }},
			{"group", "is open to group or others", func(d *durabletest.FS) { d.Chmod(at, 0o640) }},
			{"others", "is open to group or others", func(d *durabletest.FS) { d.Chmod(at, 0o602) }},
			{"owner", "is owned by another user", func(d *durabletest.FS) { d.Chown(at, 0) }},
			{"hard link", "has a hard link", func(d *durabletest.FS) { d.HardLink(at, "/other") }},
			{"two hard links", "has a hard link", func(d *durabletest.FS) {
				dir, name := at[:strings.LastIndex(at, "/")], at[strings.LastIndex(at, "/")+1:]
				d.HardLink(at, dir+"/."+name+".staging")
				d.HardLink(at, "/other")
			}},
		} {
			rows = append(rows, row{file + " " + how.name, file, how.reason, func(disk *durabletest.FS) {
				earlierCleanup(disk)
				how.damage(disk)
			}})
		}
	}
	for name, mode := range map[string]fs.FileMode{"x": fs.ModeDir | 0o755, "y": fs.ModeSymlink | 0o777, "preflight-cleanup.ABCDEFGH": fs.ModeDir | 0o710} {
		reason := "is open to group or others"
		if mode&fs.ModeSymlink != 0 {
			reason = "is a symbolic link"
		}
		rows = append(rows, row{name, name, reason, func(disk *durabletest.FS) { disk.Place(root+"/"+name, mode, "") }})
	}
	rows = append(rows,
		row{"a cleanup that is a file", "preflight-cleanup.ABCDEFGH", "is not a directory", place(root + "/preflight-cleanup.ABCDEFGH")},
		row{"nesting without end in an attempt", "upgrade-preflight/b/c/d/e/f/g/h/i", "nested deeper than 8 directories", func(disk *durabletest.FS) {
			makeDirs(disk, "upgrade-preflight/b/c/d/e/f/g/h/i")
		}},
		row{"nesting without end", "a/b/c/d/e/f/g/h/i", "nested deeper", func(disk *durabletest.FS) { makeDirs(disk, "a/b/c/d/e/f/g/h/i/j") }},
	)
	// The staging link of a file with a third name is met before the file itself.
	for i := range rows {
		if strings.HasSuffix(rows[i].name, "two hard links") && !slices.Contains([]string{"preflight-journal.json", "parameters.json"}, rows[i].file) &&
			rows[i].file != "upgrade-preflight/preflight-plan.json" {
			at := strings.LastIndex(rows[i].file, "/") + 1
			rows[i].file = rows[i].file[:at] + "." + rows[i].file[at:] + ".staging"
		}
	}
	return rows
}

func earlierCleanup(disk *durabletest.FS) {
	dir := root + "/preflight-cleanup.ABCDEFGH"
	disk.Place(dir, fs.ModeDir|0o700, "")
	disk.Place(dir+"/preflight-cleanup-result.json", 0o600, "{ cut off")
	disk.Place(dir+"/preflight-cleanup.err", 0o600, "")
	disk.Place(dir+"/observations", fs.ModeDir|0o700, "")
}

// A5.7: earlier cleanups are never parsed.
func TestA5_7_CutOffCleanupIsAccepted(t *testing.T) {
	disk := tree(t)
	earlierCleanup(disk)
	makeDirs(disk, "a/b/c/d/e/f/g/h") // as deep as is looked
	makeDirs(disk, "upgrade-preflight/b/c/d/e/f/g/h")
	if _, err := loadAs(disk, root, expectation()); err != nil {
		t.Fatal(err)
	}
}

// A2.2: the staging link of an interrupted publication is accepted, and a
// staging file alone is nothing.
func TestA2_2_StagingLinksAreAccepted(t *testing.T) {
	disk := tree(t)
	for _, file := range []string{root + "/parameters.json", attempt + "/preflight-plan.json", attempt + "/preflight-api-identity.json", attempt + "/preflight-worker-started.json"} {
		at := strings.LastIndex(file, "/") + 1
		disk.HardLink(file, file[:at]+"."+file[at:]+".staging")
	}
	next := resume(disk)
	disk.Place(next+"/.preflight-network-policy-identity.json.staging", 0o600, "torn")
	disk.Place(next+"/.preflight-migration.log.staging", 0o600, strings.Repeat("torn ", 100<<10))
	disk.Place(next+"/.notes.txt.staging", 0o600, "a person's")
	disk.Place(root+"/.preflight-journal.json.staging", 0o600, "torn")
	inventory, err := loadAs(disk, root, expectation())
	if err != nil {
		t.Fatal(err)
	}
	if got := inventory.Slots[6].State; got != evidence.StateUncertain {
		t.Errorf("a staged receipt made the slot %s", got)
	}
}

func rowsOfA5_8() []row {
	const journal, manual = "preflight-journal.json", ": this evidence needs manual reconciliation"
	edit := func(change func(string) string) func(*durabletest.FS) {
		return func(disk *durabletest.FS) { disk.Edit(root+"/"+journal, change) }
	}
	return []row{
		{"another format", journal, `has format "upgrade-preflight-v9", not "upgrade-preflight-v1"` + manual,
			edit(func(c string) string { return strings.Replace(c, "preflight-v1", "preflight-v9", 1) })},
		{"no format", journal, `has no format, not "upgrade-preflight-v1"` + manual, edit(func(string) string { return "{}\n" })},
		{"no JSON", journal, "not complete JSON", edit(func(string) string { return "x" })},
		{"no journal, with create records", journal, "does not exist, but upgrade-preflight/preflight-", remove(root + "/" + journal)},
		{"no journal, and more than can be searched", journal, "does not exist, and the directory cannot be searched (directories are nested too deep)" + manual, func(disk *durabletest.FS) {
			disk.Delete(root + "/" + journal)
			disk.Delete(attempt)
			disk.Delete(resume(disk))
			makeDirs(disk, "a/b/c/d/e/f/g/h/i")
		}},
		{"no journal, with a create record deep down", journal, "does not exist, but a/b/c/d/e/f/g/h/preflight-api-started.json does" + manual, func(disk *durabletest.FS) {
			disk.Delete(root + "/" + journal)
			disk.Delete(attempt)
			disk.Delete(resume(disk))
			makeDirs(disk, "a/b/c/d/e/f/g/h")
			disk.Place(root+"/a/b/c/d/e/f/g/h/preflight-api-started.json", 0o600, "")
		}},
		{"no journal, with create records, by hand", journal, "does" + manual, remove(root + "/" + journal)},
	}
}

func TestA5_8_Refuses(t *testing.T) {
	runRows(t, rowsOfA5_8())
	t.Run("no journal, without create records", func(t *testing.T) {
		disk := durabletest.New()
		et.Build(t, disk, root, et.Attempt{})
		disk.Delete(root + "/preflight-journal.json")
		_, err := loadAs(disk, root, expectation())
		mustRefuse(t, err, "preflight-journal.json", "nor does any create record: the run was killed before anything could be created")
	})
	t.Run("a directory that was mistyped", func(t *testing.T) {
		disk := durabletest.New()
		disk.Place("/empty", fs.ModeDir|0o700, "")
		_, err := loadAs(disk, "/empty", expectation())
		mustRefuse(t, err, "preflight-journal.json", "does not exist, nor does parameters.json or any create record: either /empty is not the directory of a run, or the run was killed before anything could be created")
	})
}

// A5.4: a migration-resume attempt is read, and holds exactly the migration.
func TestA5_4_MigrationResume(t *testing.T) {
	build := func(change func(*evidence.Plan)) *durabletest.FS {
		disk := tree(t)
		name := "migration-preflight-resume.ABCDEFGH"
		disk.Place(root+"/"+name, fs.ModeDir|0o700, "")
		plan := et.Plan(2)
		plan.Version, plan.Attempt, plan.Kind = 1, name, evidence.MigrationResume
		plan.Slots = plan.Slots[2:3]
		change(&plan)
		data, err := strictjson.Encode(plan)
		if err != nil {
			t.Fatal(err)
		}
		disk.Place(root+"/"+name+"/preflight-plan.json", 0o600, string(data))
		parent, err := disk.Open(root + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		info, err := parent.Stat()
		if err != nil {
			t.Fatal(err)
		}
		rewrite(root+"/preflight-journal.json", func(j *evidence.Journal) {
			j.Attempts = append(j.Attempts, evidence.Attempt{
				Kind: evidence.MigrationResume, Name: name, PlanSHA256: strictjson.Sum(data),
				Directory: identity.Directory{Path: root + "/" + name, Inode: info.Inode, BirthTime: info.BirthTime},
			})
		})(disk)
		return disk
	}
	inventory, err := loadAs(build(func(*evidence.Plan) {}), root, expectation())
	if err != nil {
		t.Fatal(err)
	}
	if last := inventory.Slots[len(inventory.Slots)-1]; last.Ref.Slot != identity.SlotMigration || last.State != evidence.StatePlanned {
		t.Errorf("read %+v", last)
	}
	_, err = loadAs(build(func(p *evidence.Plan) { p.Slots = et.Plan(2).Slots[3:4] }), root, expectation())
	mustRefuse(t, err, "migration-preflight-resume.ABCDEFGH/preflight-plan.json", "where the Job migration belongs")
	_, err = loadAs(build(func(p *evidence.Plan) { p.Slots = et.Plan(2).Slots }), root, expectation())
	mustRefuse(t, err, "migration-preflight-resume.ABCDEFGH/preflight-plan.json", "it holds 5 slots, not migration")
	_, err = loadAs(build(func(p *evidence.Plan) { p.Nonce = et.Plan(0).Nonce }), root, expectation())
	mustRefuse(t, err, "migration-preflight-resume.ABCDEFGH/preflight-plan.json", "the same nonce as")
}
