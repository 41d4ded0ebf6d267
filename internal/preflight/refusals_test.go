package preflight

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/kube"
)

// A3.7: what a create is settled by is written down twice, because neither package may
// know the other: as the answers that kube takes for a definite refusal, and as the
// codes with which the loader accepts one. A code that only kube had would make a
// journal that cannot be written, one that only the loader had would let a file say
// what no run can have seen.
func TestA3_7_TheLoaderAcceptsWhatIsRefused(t *testing.T) {
	job := identity.Object{APIVersion: "batch/v1", Kind: "Job", Namespace: "ns", Name: "job"}
	refused := 0
	for code := 100; code < 600; code++ {
		want := evidence.CheckRequired(&evidence.Rejected{AuditID: "audit", Code: code, Time: "2026-05-01T12:00:00Z"}) == nil
		created := clientOf(t, code).Create(t.Context(), kube.CreateRequest{Place: job, Body: []byte("{}"), AuditID: "audit", Nonce: "nonce"})
		if got := created.Outcome == kube.Rejected; got != want || created.Outcome == kube.Unsent {
			t.Errorf("%d: kube says %s (%v), and the loader accepts it as a refusal: %t", code, created.Outcome, created.Err, want)
		}
		if want {
			refused++
		}
	}
	if refused == 0 || refused == 500 {
		t.Errorf("%d of 500 codes are refusals, so nothing was compared", refused)
	}
}

// clientOf returns a client of an API server that answers everything with a complete
// Status of one code, which says that the namespace is not there.
func clientOf(t *testing.T, code int) *kube.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","details":{"name":"ns","kind":"namespaces"},"code":%d}`, code)
		// By hand: net/http writes no final answer with a code below 200.
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d Code\r\nAudit-ID: %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s",
			code, r.Header.Get("Audit-ID"), len(body), body)
	}))
	t.Cleanup(server.Close)
	kubeconfig := fmt.Sprintf("clusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: c, context: {cluster: c}}]\n", server.URL)
	client, err := kube.New([]byte(kubeconfig), "c", kube.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return client
}
