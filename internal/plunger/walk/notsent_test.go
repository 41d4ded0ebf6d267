package walk_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
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

// B9.1, B8.3: a release that is let go of unproven is named although the write that did
// it got no answer: if it was carried out there is nothing left to look at. A live one
// is still there, and told of when a write is answered.
func TestB9_1_ALostAnswerIsToldOf(t *testing.T) {
	cuts := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer cuts.Close()
	to, err := url.Parse(cuts.URL)
	if err != nil {
		t.Fatal(err)
	}
	rival := decide.Release{Namespace: "ns", Name: "rival", Spec: decide.Spec{ReleaseName: "app"}}
	for name, row := range map[string]struct {
		server    *server
		claimants []decide.Release
		reason    decide.Reason
		told      int
	}{
		"terminating": {&server{deleted: true}, nil, decide.UninstallUnproven, 1},
		"live":        {&server{fenced: true}, []decide.Release{rival}, decide.StorageRefused, 0},
	} {
		network := &diverted{server: row.server, to: to.Host}
		w := walker(t, network, repairing())
		for range 2 {
			c := &walk.Case{Namespace: "ns", Name: "app", Claimants: row.claimants}
			if err := w.Look(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Walk(t.Context(), c); err == nil {
				t.Errorf("%s: it is not tried again", name)
			}
		}
		told := 0
		for _, note := range network.told {
			if strings.HasPrefix(note, string(row.reason)+": ") {
				told++
			}
		}
		if network.writes != 2 || told != row.told {
			t.Errorf("%s: %d writes, told %q", name, network.writes, network.told)
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
