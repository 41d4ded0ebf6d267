package evidence

import (
	"strings"
	"testing"

	"github.com/holdfast-project/holdfast/internal/identity"
)

// A1.4, A5.5: each file name has one reading, which is written back as that very
// name; a slot or a UID out of a name is one.
func FuzzRecordName(f *testing.F) {
	uid := "00000000-0000-4000-8000-000000000001"
	for _, slot := range []identity.Slot{"api", "a-child", "network-policy", "started"} {
		for _, kind := range recordKinds() {
			f.Add(slotFile(slot, kind))
		}
		f.Add(ChildFile(slot, uid))
	}
	f.Add("preflight--started.json")
	f.Add("preflight-a-child-" + strings.ToUpper(uid) + ".json")
	f.Fuzz(func(t *testing.T, name string) {
		record, ok := parseRecordName(name)
		if !ok {
			if CreateRecord(name) {
				t.Fatalf("%q is a create record of nothing", name)
			}
			return
		}
		again := slotFile(record.slot, record.kind)
		if record.kind == kindChild {
			again = ChildFile(record.slot, record.uid)
		}
		if again != name || !identity.ValidSlot(record.slot) || (record.uid != "") != (record.kind == kindChild) {
			t.Fatalf("%q is read as %+v and written as %q", name, record, again)
		}
	})
}
