package evidence_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-project/holdfast/internal/durable/durabletest"
	et "github.com/holdfast-project/holdfast/internal/evidence/evidencetest"
	"github.com/holdfast-project/holdfast/internal/identity"
)

// strangersFiles are the files of another run of the same release, in another
// cluster, by the names that they would have on disk.
func strangersFiles(t testing.TB, disk *durabletest.FS) map[string]string {
	t.Helper()
	elsewhere := et.Parameters()
	elsewhere.Cluster = identity.Cluster{NamespaceUID: et.UID("its namespace"), KubeSystemUID: et.UID("its kube-system")}
	other := smallOf(t, 10, elsewhere)
	files := map[string]string{}
	for name, content := range other.Files() {
		if !strings.HasSuffix(name, ".json") {
			continue
		}
		name = strings.Replace(name, resume(other), resume(disk), 1)
		// A Pod's UID is in its receipt's name.
		name = strings.Replace(name, et.PodUID(10, "job"), et.PodUID(0, "job"), 1)
		files[name] = content
	}
	return files
}

// A5.4, A3.9: no record of another run of the same release counts here, be it
// from this cluster or from another: neither one alone, nor all that one slot has,
// nor all records of an attempt, nor its plan with them.
func TestA5_4_EveryReplayIsRefused(t *testing.T) {
	disk := small(t)
	foreign := strangersFiles(t, disk)
	own := disk.Files()
	groups := map[string]func(name string) bool{}
	for name := range foreign {
		if own[name] == foreign[name] {
			t.Errorf("%s is the same in both runs: the test shows nothing", name)
		}
		groups[name] = func(n string) bool { return n == name }
	}
	for _, at := range []string{attempt, resume(disk)} {
		below := func(n string) bool { return strings.HasPrefix(n, at+"/") }
		groups["the attempt "+at] = below
		groups["the records of "+at] = func(n string) bool { return below(n) && !strings.HasSuffix(n, "-plan.json") }
		for _, slot := range []string{"secret", "job", "late"} {
			if _, ok := own[at+"/preflight-"+slot+"-started.json"]; ok {
				groups["slot "+slot+" of "+at] = func(n string) bool { return strings.HasPrefix(n, at+"/preflight-"+slot+"-") }
			}
		}
	}
	groups["parameters and registry"] = func(n string) bool { return strings.Count(n, "/") == 2 }
	for what, in := range groups {
		mixed := disk.Killed()
		for name, content := range foreign {
			if in(name) {
				mixed.Edit(name, func(string) string { return content })
			}
		}
		if _, err := loadAs(mixed, root, smallExpectation()); err == nil {
			t.Errorf("of another run %s is accepted", what)
		}
	}
	if len(groups) < 20 {
		t.Errorf("only %d replays: the space has shrunk", len(groups))
	}
}

// damage changes a directory as the bytes of script say: each step is three of
// them, the deed, the file it is done to, and an offset or another file. The
// files of another run of the same release are there to be replayed.
func damage(disk *durabletest.FS, foreign map[string]string, script []byte) {
	for ; len(script) >= 3; script = script[3:] {
		files := disk.Files()
		names := slices.Sorted(maps.Keys(files))
		if len(names) == 0 {
			return
		}
		name := names[int(script[1])%len(names)]
		at := int(script[2])
		other := names[at%len(names)]
		switch script[0] % 7 {
		case 0:
			disk.Edit(name, func(s string) string { return flipped(s, at) })
		case 1:
			disk.Edit(name, func(s string) string { return s[:len(s)*at/256] })
		case 2:
			disk.Delete(name)
		case 3:
			content := files[other]
			disk.Edit(name, func(string) string { return content })
			disk.Edit(other, func(string) string { return files[name] })
		case 4:
			if content, ok := foreign[name]; ok {
				disk.Edit(name, func(string) string { return content })
			}
		case 5:
			disk.Edit(name, func(s string) string { return s + string(script[2:3]) })
		case 6:
			disk.Edit(name, func(s string) string {
				return strings.ReplaceAll(s, et.UID("x")[:at%36], et.UID("y")[:at%36])
			})
		}
	}
}

func flipped(s string, at int) string {
	if s == "" {
		return s
	}
	b := []byte(s)
	b[at*len(b)/256] ^= 1 << (at % 8)
	return string(b)
}

// FuzzDirectory proves that whatever was changed, lost, exchanged or brought from
// another run, the loader does not panic, and lets nothing be deleted but what
// this run was given (A5.4 to A5.6).
func FuzzDirectory(f *testing.F) {
	for deed := range byte(7) {
		f.Add([]byte{deed, 3, 40})
		f.Add([]byte{deed, 7, 8, 2, 5, 0})
	}
	f.Add([]byte{3, 6, 9, 4, 4, 4, 4, 5, 5})
	original := small(f)
	given := map[string]bool{}
	intact, err := loadAs(original.Killed(), root, smallExpectation())
	if err != nil {
		f.Fatal(err)
	}
	for _, resource := range intact.Resources {
		if uid := resource.Object().UID; uid != "" {
			given[uid] = true
		}
	}
	foreign := strangersFiles(f, original)
	f.Fuzz(func(t *testing.T, script []byte) {
		disk := original.Killed()
		damage(disk, foreign, script[:min(len(script), 30)])
		inventory, err := loadAs(disk, root, smallExpectation())
		if err != nil {
			return
		}
		for _, resource := range inventory.Resources {
			if uid := resource.Object().UID; uid != "" && (!given[uid] || !identity.ValidUID(uid)) {
				t.Fatalf("%v lets %s be deleted", script, resource.Object())
			}
		}
	})
}
