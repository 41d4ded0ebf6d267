package preflight

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-project/holdfast/internal/identity"
	run "github.com/holdfast-project/holdfast/internal/preflight"
)

// A6.15: --slot has one reading, which is written back as that very argument; any
// other is refused in one line, which shows no control character of it.
func FuzzSlotArgument(f *testing.F) {
	for _, slot := range []string{
		"upgrade-preflight/api", "upgrade-preflight-resume.0123456789/network-policy", "a/b/c", "/api", "upgrade-preflight/", "api", "/", " ",
		"../api", "upgrade-preflight/API", "upgrade-preflight/api-", "upgrade-preflight/api\n", "\x1b[2J/\u009b", "upgrade-preflight/" + strings.Repeat("a", 21),
	} {
		f.Add(slot)
	}
	f.Fuzz(func(t *testing.T, slot string) {
		ref, err := judgeReconcile("/evidence", slot, "deleted by hand")
		attempt, name, _ := strings.Cut(slot, "/")
		if wanted := attempt != "" && identity.ValidSlot(identity.Slot(name)); wanted != (err == nil) {
			t.Fatalf("%q: %v", slot, err)
		}
		if err == nil {
			if ref.String() != slot || !identity.ValidSlot(ref.Slot) || strings.Contains(ref.Attempt, "/") {
				t.Fatalf("%q is read as %+v", slot, ref)
			}
			return
		}
		var refused *run.Refusal
		if !errors.As(err, &refused) || ref != (identity.SlotRef{}) {
			t.Fatalf("%q: %T %v, %+v", slot, err, err, ref)
		}
		for _, r := range refused.Sentence {
			if r < ' ' || r >= 0x7f && r < 0xa0 {
				t.Fatalf("%q is shown as %q", slot, refused.Sentence)
			}
		}
	})
}
