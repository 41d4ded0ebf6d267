package walk_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/internal/plunger/walk"
)

// B6.6: a write for which no connection was made is tried again, and does not keep the
// Lease: nothing of it can still be on its way. One whose connection was cut does.
func TestB6_6_AWriteThatWasNotSentIsNotUnknown(t *testing.T) {
	cuts := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer cuts.Close()
	ended := httptest.NewServer(http.NotFoundHandler())
	ended.Close()
	for name, row := range map[string]struct {
		to      string
		notSent bool
	}{"nobody listens": {ended.URL, true}, "the connection is cut": {cuts.URL, false}} {
		to, err := url.Parse(row.to)
		if err != nil {
			t.Fatal(err)
		}
		network := &diverted{server: &server{}, to: to.Host}
		w := walker(t, network, repairing())
		c := &walk.Case{Namespace: "ns", Name: "app"}
		if err := w.Look(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		_, err = w.Walk(t.Context(), c)
		var notSent *kube.NotSent
		if err == nil || errors.As(err, &notSent) != row.notSent || w.Ledger.Definite() != row.notSent || network.writes == 0 {
			t.Errorf("%s: %d writes, definite: %t, %v", name, network.writes, w.Ledger.Definite(), err)
		}
	}
}

// diverted sends each write to the release elsewhere.
type diverted struct {
	*server
	to     string
	writes int
}

func (d *diverted) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || r.URL.Path != releasePath {
		return d.server.RoundTrip(r)
	}
	d.writes++
	r = r.Clone(r.Context())
	r.URL.Host = d.to
	return http.DefaultTransport.RoundTrip(r)
}
