package preflight

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"github.com/holdfast-project/holdfast/internal/durable/durabletest"
	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/kube"
)

// marked says whether one started marker on the disk is that of this request: it
// carries its Audit-ID, and its slot is planned for its object (A3.4). A marker with
// another one would send whoever searches the audit log after a request that never
// was.
func marked(disk *durabletest.FS, want kube.CreateRequest) error {
	var found []string
	files := disk.Files()
	for name, content := range files {
		var marker evidence.Started
		if !strings.HasSuffix(name, "-started.json") || json.Unmarshal([]byte(content), &marker) != nil || marker.AuditID != want.AuditID {
			continue
		}
		var plan evidence.Plan
		if err := json.Unmarshal([]byte(files[path.Join(path.Dir(name), evidence.PlanFile)]), &plan); err != nil {
			return err
		}
		for _, slot := range plan.Slots {
			if slot.Slot == marker.Slot && slot.Object() == want.Place {
				found = append(found, name)
			}
		}
	}
	if len(found) != 1 {
		return fmt.Errorf("the create of %s left with Audit-ID %s, which the markers %q have (A3.4)", want.Place, want.AuditID, found)
	}
	return nil
}
