package cleanup

import (
	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/kube"
)

// Concerns returns whether a Pod belongs to an acknowledged Job of the evidence,
// by owner, label or receipt, or carries a registered nonce (A6.3). It authorises
// nothing: a resume asks, so that its doubt is the same as that of the cleanup
// which it then calls for.
func Concerns(inventory *evidence.Inventory) func(kube.Meta) bool {
	concerns := newState(inventory).Concerns()
	return func(pod kube.Meta) bool { return concerns(podOf(pod)) }
}
