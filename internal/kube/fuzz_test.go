package kube

import (
	"net/http"
	"testing"

	"github.com/holdfast-project/holdfast/internal/identity"
)

// A3.7, A6.2a: whatever an answer says, nothing panics, and each certainty has
// its conditions.
func FuzzAnswer(f *testing.F) {
	for _, code := range []int{200, 201, 403, 404, 429, 500} {
		for _, body := range bodies(code) {
			f.Add(code, []byte(body), true)
		}
	}
	f.Fuzz(func(t *testing.T, code int, body []byte, ours bool) {
		got := answer{call: call{verb: "create", object: testJob(), auditID: "id"}, attempts: 1, connected: true, code: code, body: body}
		if ours {
			got.auditIDs = []string{"id"}
		}
		created := classify(CreateRequest{Place: testJob(), Nonce: testNonce}, got)
		switch created.Outcome {
		case Acknowledged:
			if !ours || code != http.StatusCreated || !identity.ValidUID(created.Meta.Object.UID) || created.Meta.Nonce != testNonce {
				t.Errorf("acknowledged by %d %q", code, body)
			}
		case Rejected:
			if !ours || code < 400 || code >= 500 || code == http.StatusConflict || code == http.StatusRequestTimeout {
				t.Errorf("rejected by %d %q", code, body)
			}
		case Unsent:
			if code != 0 || got.connected {
				t.Errorf("not sent, with %d %q", code, body)
			}
		}
		got.call.verb, got.call.name = "get", testJob().Name
		seen := observe(testJob(), got)
		if seen.Presence != NotRead && (!ours || (seen.Presence == Present) != (code == http.StatusOK) || (seen.Presence == Absent) != (code == http.StatusNotFound)) {
			t.Errorf("seen as %v by %d %q", seen.Presence, code, body)
		}
	})
}
