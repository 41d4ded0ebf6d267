package e2e

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/holdfast-project/holdfast/internal/plunger"
	"github.com/holdfast-project/holdfast/internal/plunger/contract"
)

// request is one request of flux-plunger's about one release.
type request struct {
	// Release is the HelmRelease's name, Verb the HTTP method.
	Release, Verb, Path string
	// Step says in one word what a write does.
	Step step
	// MetadataOnly is true where the answer is asked for without contents.
	MetadataOnly bool
	// Status is the answer's, 0 before there is one.
	Status int
}

// tap sees every request of a flux-plunger about HelmReleases and their storage;
// writes before they are sent and after they were answered.
type tap struct {
	before, after func(request)

	// dead loses every further request, as a process that was killed sends none.
	dead atomic.Bool

	mu     sync.Mutex
	writes []request
	reads  []request
}

func (p *tap) wrap(config *plunger.Config) {
	config.Rest.Wrap(func(next http.RoundTripper) http.RoundTripper { return tapped{p, next} })
}

// of returns the writes about one release whose answers were successes, and the
// number of those that lost against another writer.
func (p *tap) of(release string) (written []request, lost int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.writes {
		switch {
		case r.Release != release:
		case r.Status == http.StatusConflict:
			lost++
		case r.Status < 300:
			written = append(written, r)
		}
	}
	return written, lost
}

// written returns how many writes were answered, about any release.
func (p *tap) written() int {
	return len(p.all())
}

// all returns every answered write.
func (p *tap) all() []request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.writes)
}

// first returns the place of the first write about a release, -1 without one.
func (p *tap) first(release string) int {
	return slices.IndexFunc(p.all(), func(r request) bool { return r.Release == release })
}

// readsOf returns the reads about one release, lists of its storage included.
func (p *tap) readsOf(release string) []request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.reads), func(r request) bool { return r.Release != release })
}

var errDead = errors.New("this process was killed")

type tapped struct {
	tap  *tap
	next http.RoundTripper
}

// RoundTrip is http.RoundTripper.
func (t tapped) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.tap.dead.Load() {
		return nil, errDead
	}
	seen := request{Release: releaseOf(req), Verb: req.Method, Path: req.URL.Path,
		MetadataOnly: strings.Contains(req.Header.Get("Accept"), "PartialObjectMetadata")}
	if seen.Release == "" {
		return t.next.RoundTrip(req)
	}
	if req.Method == http.MethodGet {
		t.tap.mu.Lock()
		t.tap.reads = append(t.tap.reads, seen)
		t.tap.mu.Unlock()
		return t.next.RoundTrip(req)
	}
	seen.Step = stepOf(req)
	if t.tap.before != nil {
		t.tap.before(seen)
	}
	response, err := t.next.RoundTrip(req)
	if err == nil {
		seen.Status = response.StatusCode
	}
	t.tap.mu.Lock()
	t.tap.writes = append(t.tap.writes, seen)
	t.tap.mu.Unlock()
	if t.tap.after != nil {
		t.tap.after(seen)
	}
	return response, err
}

// step is what one write does, told from its bytes.
type step string

const (
	setFence      step = "fence"
	acquire       step = "acquire"
	lift          step = "lift"
	drop          step = "drop"
	noteUID       step = "note the uid"
	noteVersion   step = "note the version"
	requestLook   step = "request"
	remind        step = "remind"
	fill          step = "fill the status"
	rewrite       step = "rewrite"
	deleteSecret  step = "delete the Secret"
	removeByPatch step = "remove by JSON patch"
)

func stepOf(req *http.Request) step {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return step(err.Error())
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	has := func(what string) bool { return bytes.Contains(body, []byte(what)) }
	kind := req.Header.Get("Content-Type")
	switch {
	case req.Method == http.MethodPut:
		return rewrite
	case req.Method == http.MethodDelete:
		return deleteSecret
	case strings.HasSuffix(req.URL.Path, "/status"):
		return fill
	case strings.Contains(kind, "json-patch"):
		return removeByPatch
	case strings.Contains(kind, "apply"):
		return applied(has)
	case has(contract.ProcessedUID):
		return noteUID
	case has(contract.ProcessedVersion):
		return noteVersion
	case has(contract.RequestedUID):
		return requestLook
	default:
		return remind
	}
}

func applied(has func(string) bool) step {
	switch {
	case has(`"suspend":true`):
		return acquire
	case !has(contract.Fence):
		return drop
	case has("resourceVersion"):
		return lift
	default:
		return setFence
	}
}

// releaseOf names the release that a request is about, empty for the others.
func releaseOf(req *http.Request) string {
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	for i, part := range parts {
		switch {
		case part == "helmreleases" && i+1 < len(parts):
			return parts[i+1]
		case part == "secrets" && i+1 < len(parts):
			name := strings.TrimPrefix(parts[i+1], "sh.helm.release.v1.")
			return name[:max(strings.LastIndex(name, ".v"), 0)]
		case part == "secrets":
			_, name, _ := strings.Cut(req.URL.Query().Get("labelSelector"), "name=")
			name, _, _ = strings.Cut(name, ",")
			return name
		}
	}
	return ""
}
