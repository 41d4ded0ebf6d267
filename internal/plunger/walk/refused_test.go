package walk_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
	"github.com/holdfast-project/holdfast/internal/plunger/gather"
	"github.com/holdfast-project/holdfast/internal/plunger/observe"
	"github.com/holdfast-project/holdfast/internal/plunger/walk"
	"github.com/holdfast-project/holdfast/internal/plunger/write"
)

const (
	secretPath  = "/api/v1/namespaces/ns/secrets/sh.helm.release.v1.app.v3"
	releasePath = "/apis/helm.toolkit.fluxcd.io/v2/namespaces/ns/helmreleases/app"
)

// server is an API server of one stuck release that refuses to change it: what is
// looked at here is what is asked and told, never what a write does.
type server struct {
	suspended, fenced bool
	// deleted: after three requests that helm-controller handled in vain.
	deleted          bool
	payload, version string
	refuse           map[string]int
	sent             []string
	told             []string
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := r.Method + " " + r.URL.Path
	s.sent = append(s.sent, sent)
	code, body := 200, ""
	switch {
	case s.refuse[sent] != 0:
		code = s.refuse[sent]
		body = fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":%d,"message":"admission webhook \"guard.example.com\" denied the request: quoted-value"}`, code)
	case strings.HasSuffix(r.URL.Path, ".v4"):
		code, body = 404, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"details":{"kind":"secrets","name":"sh.helm.release.v1.app.v4"}}`
	case strings.HasSuffix(r.URL.Path, "/events"):
		raw, _ := io.ReadAll(r.Body)
		var event struct{ Reason, Note string }
		_ = json.Unmarshal(raw, &event)
		s.told = append(s.told, event.Reason+": "+event.Note)
		body = string(raw)
	case r.URL.Path == releasePath:
		body = s.release()
	case r.URL.Path == secretPath:
		body = `{"apiVersion":"v1","kind":"Secret","type":"helm.sh/release.v1",` + s.secretMeta() + `,"data":{"release":"` + base64.StdEncoding.EncodeToString([]byte(s.payload)) + `"}}`
	default:
		body = `{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadataList","metadata":{},"items":[{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata",` + s.secretMeta() + `}]}`
	}
	header := http.Header{"Content-Type": {"application/json"}}
	header.Set("Audit-Id", r.Header.Get("Audit-Id"))
	return &http.Response{StatusCode: code, Header: header, Body: io.NopCloser(strings.NewReader(body))}, nil
}

func (s *server) secretMeta() string {
	return `"metadata":{"namespace":"ns","name":"sh.helm.release.v1.app.v3","uid":"secret","resourceVersion":"` + s.version + `","labels":{"owner":"helm","name":"app","version":"3","status":"uninstalling"}}`
}

func (s *server) release() string {
	finalizers, managed := `"finalizers.fluxcd.io"`, ""
	if s.fenced {
		finalizers += `,"` + contract.Fence + `"`
	}
	deleted := ""
	if s.deleted {
		finalizers, deleted = `"`+contract.Fence+`"`, `"deletionTimestamp":"2026-11-29T12:00:00Z",`
	}
	if s.suspended {
		managed = `{"manager":"flux-plunger","operation":"Apply","fieldsV1":{"f:spec":{"f:suspend":{}}}}`
	}
	return fmt.Sprintf(`{"apiVersion":"helm.toolkit.fluxcd.io/v2","kind":"HelmRelease","metadata":{"namespace":"ns","name":"app","uid":"release","resourceVersion":"7","generation":2,%s`+
		`"annotations":{"flux-plunger.cozystack.io/last-processed-uid":"secret@2","flux-plunger.cozystack.io/reminders":"3"},"finalizers":[%s],"managedFields":[%s]},"spec":{"suspend":%t},"status":{"observedGeneration":2,"storageNamespace":"ns",`+
		`"conditions":[{"type":"Ready","status":"False","reason":"UpgradeFailed","message":"\"app\" has no deployed releases","observedGeneration":2}]}}`, deleted, finalizers, managed, s.suspended)
}

func (s *server) count(sent string) (n int) {
	for _, one := range s.sent {
		if one == sent {
			n++
		}
	}
	return n
}

// walker returns one whose requests go over this network.
func walker(t *testing.T, network http.RoundTripper, options decide.Options) *walk.Walker {
	t.Helper()
	objects, err := kube.NewObjects(&rest.Config{Host: "http://cluster.invalid", Transport: network, RateLimiter: flowcontrol.NewFakeAlwaysRateLimiter()}, contract.FieldManager)
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := observe.NewMetrics(prometheus.NewRegistry(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return &walk.Walker{Reader: gather.NewReader(objects), Writer: write.NewWriter(objects), Teller: observe.NewTeller(objects, "test", metrics),
		Metrics: metrics, Ledger: &walk.Ledger{}, Options: options, Now: time.Now}
}

// walks looks at the release as often, as the reconciler does.
func (s *server) walks(t *testing.T, options decide.Options, memory decide.Memory, times int) (after decide.Memory, failed error) {
	t.Helper()
	w := walker(t, s, options)
	for range times {
		c := &walk.Case{Namespace: "ns", Name: "app", Memory: memory}
		if err := w.Look(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		c.Live = false
		_, failed = w.Walk(context.Background(), c)
		memory = c.Memory
	}
	return memory, failed
}

func repairing() decide.Options {
	return decide.Options{Strategy: decide.Repair, FenceUntil: decide.UntilRemembered, UnprovenUninstall: decide.ReleaseUnproven}
}

// B4.5, B8.3: a step that the API server refuses, on the release as on its storage, is
// said once for a generation: nobody else knows that the release is neither recovered
// nor safe from a delete.
func TestB4_5_ARefusedStepIsSaid(t *testing.T) {
	for name, row := range map[string]struct {
		server server
		sent   string
		code   int
		says   []string
	}{
		"the fence, by its role":    {server{}, "PATCH " + releasePath, 403, []string{"StorageRefused: ", "the step set-fence (403 Forbidden)", "a delete"}},
		"the fence, by a webhook":   {server{}, "PATCH " + releasePath, 400, []string{"StorageRefused: ", "the step set-fence (400 Forbidden)", "a delete"}},
		"a rewrite":                 {server{fenced: true, payload: stored(t, "info")}, "PUT " + secretPath, 403, []string{"StorageRefused: ", "the step rewrite-status on its storage (403 Forbidden)"}},
		"a rewrite that is too big": {server{fenced: true, payload: stored(t, "info")}, "PUT " + secretPath, 413, []string{"StorageRefused: ", "the step rewrite-status on its storage (413 Forbidden)"}},
		"a list":                    {server{fenced: true}, "GET /api/v1/namespaces/ns/secrets", 403, []string{"StorageRefused: ", "the step read-storage on its storage (403 Forbidden)"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := row.server
			s.version, s.refuse = "1", map[string]int{row.sent: row.code}
			if _, err := s.walks(t, repairing(), decide.Memory{}, 3); err == nil {
				t.Error("the step is not tried again")
			}
			if s.count(row.sent) != 3 || len(s.told) != 1 || strings.Contains(s.told[0], "quoted-value") {
				t.Fatalf("tried %d times, told %q", s.count(row.sent), s.told)
			}
			for _, part := range row.says {
				if !strings.Contains(s.told[0], part) {
					t.Errorf("told %q, which does not say %q", s.told[0], part)
				}
			}
		})
	}
}

// B4.5: so is a step under our own suspension, without what an admission controller
// says of the Secret.
func TestB4_5_AHeldSuspensionQuotesNoSecret(t *testing.T) {
	s := server{suspended: true, fenced: true, version: "1", refuse: map[string]int{"DELETE " + secretPath: 403}}
	options := repairing()
	options.Strategy = decide.Reclaim
	_, err := s.walks(t, options, decide.Memory{HoldGeneration: 2, HoldUID: "secret", HoldVersion: 3}, 1)
	if err == nil || strings.Contains(err.Error(), "quoted-value") {
		t.Errorf("failed with %v", err)
	}
	if len(s.told) != 1 || !strings.HasPrefix(s.told[0], "SuspensionHeld: ") || !strings.Contains(s.told[0], "403 Forbidden") || strings.Contains(s.told[0], "quoted-value") {
		t.Errorf("told %q", s.told)
	}
}

// B10.3: a payload that cannot be decoded, or decoded and not rewritten, is left alone,
// said once, and read again only when it has changed.
func TestB10_3_APayloadIsLeftAloneUntilItChanges(t *testing.T) {
	for name, content := range map[string]string{"undecodable": "garbage", "not to be rewritten": stored(t, "INFO")} {
		t.Run(name, func(t *testing.T) {
			s := server{fenced: true, version: "1", payload: content}
			memory, err := s.walks(t, repairing(), decide.Memory{}, 3)
			if err != nil {
				t.Errorf("it is tried again: %v", err)
			}
			if reads, writes := s.count("GET "+secretPath), s.count("PUT "+secretPath); reads != 1 || writes != 0 {
				t.Errorf("read %d times, written %d times", reads, writes)
			}
			if len(s.told) != 1 || !strings.HasPrefix(s.told[0], "StorageRefused: Secret ns/sh.helm.release.v1.app.v3 ") {
				t.Errorf("told %q", s.told)
			}
			s.version = "2"
			if _, err := s.walks(t, repairing(), memory, 1); err != nil || s.count("GET "+secretPath) != 2 {
				t.Errorf("changed, and read %d times: %v", s.count("GET "+secretPath), err)
			}
		})
	}
}

// stored is the content of a revision, with its status under this member.
func stored(t *testing.T, info string) string {
	t.Helper()
	var buffer bytes.Buffer
	writer := gzip.NewWriter(&buffer)
	_, err := fmt.Fprintf(writer, `{"name":"app",%q:{"status":"uninstalling"},"version":3,"namespace":"ns"}`, info)
	if err == nil {
		err = writer.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(buffer.Bytes())
}
