package cleanup

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/test/controlplane"
)

// audited counts what the audit log tells of the runs beside a stranger.
type audited struct {
	// Jobs and Dependencies are DELETEs that cleanups sent, Pods the removals of
	// our Pods, Deeds what strangers carried out.
	Jobs, Dependencies, Pods, Deeds int
}

func (a *audited) add(b audited) {
	a.Jobs += b.Jobs
	a.Dependencies += b.Dependencies
	a.Pods += b.Pods
	a.Deeds += b.Deeds
}

// judgeAudit holds what the API server recorded of one run to A6.3 and A6.7:
// cleanup's account wrote nothing but DELETEs of single objects, each with the UID
// of a receipt and its propagation; no Pod of ours was removed after the first
// DELETE of a dependency had come in; and the garbage collector removed nothing of a
// stranger's that the stranger had not let go.
func (s *stranger) judgeAudit(t *testing.T, records []controlplane.AuditRecord) (seen audited) {
	t.Helper()
	account := "system:serviceaccount:" + s.namespace + ":" + serviceAccount
	var barrier time.Time
	seen.Deeds = s.done
	for _, r := range records {
		if r.User != account {
			continue
		}
		object, ours := s.receipt(r)
		switch {
		case r.Verb != "delete" || !ours:
			t.Errorf("%s: cleanup sent %s %s (%s)", s.namespace, r.Verb, r.RequestURI, r.Request)
		case object.Consumer():
			seen.Jobs++
		default:
			seen.Dependencies++
			if barrier.IsZero() || r.Received.Before(barrier) {
				barrier = r.Received
			}
		}
	}
	for _, r := range records {
		for _, object := range s.theirs {
			if r.Verb == "delete" && r.Code < 300 && !s.taken[object.UID] && strings.Contains(string(r.Request), object.UID) {
				t.Errorf("%s: %s was the stranger's, and %s removed it", s.namespace, object, r.User)
			}
		}
		if r.Namespace != s.namespace || r.Resource != "pods" || r.Subresource != "" || r.Verb != "delete" || r.Code >= 300 || !s.podOfOurs(r.Name) {
			continue
		}
		seen.Pods++
		if !barrier.IsZero() && r.Completed.After(barrier) {
			t.Errorf("%s: Pod %s was removed by %s at %s, after a dependency's DELETE at %s", s.namespace, r.Name, r.User, r.Completed, barrier)
		}
	}
	return seen
}

// receipt returns the acknowledged object that a recorded DELETE is bound to by
// UID, name and propagation.
func (s *stranger) receipt(r controlplane.AuditRecord) (identity.Object, bool) {
	var options metav1.DeleteOptions
	if json.Unmarshal(r.Request, &options) != nil || options.Preconditions == nil || options.Preconditions.UID == nil || options.PropagationPolicy == nil {
		return identity.Object{}, false
	}
	for _, object := range s.created {
		want := metav1.DeletePropagationOrphan
		if object.Consumer() {
			want = metav1.DeletePropagationForeground
		}
		if object.Name == r.Name && strings.HasPrefix(r.Resource, strings.ToLower(object.Kind[:len(object.Kind)-1])) {
			return object, object.UID == string(*options.Preconditions.UID) && *options.PropagationPolicy == want
		}
	}
	return identity.Object{}, false
}

// podOfOurs goes by the name that the Job controller gives. The stranger's own
// Jobs have the same names, and stay suspended: they have no Pods.
func (s *stranger) podOfOurs(name string) bool {
	for _, object := range s.created {
		if object.Consumer() && strings.HasPrefix(name, object.Name+"-") {
			return true
		}
	}
	return false
}
