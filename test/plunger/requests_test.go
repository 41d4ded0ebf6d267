package plunger

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-project/holdfast/test/apiproxy"
)

var (
	releasePath = regexp.MustCompile(`/helmreleases/([^/]+)(/status)?$`)
	storagePath = regexp.MustCompile(`/secrets/sh\.helm\.release\.v1\.([^/]+)\.v\d+$`)
)

// releaseOf names the release that a request is about, empty for the others.
// The lab's releases are stored under their own names.
func releaseOf(x apiproxy.Exchange) string {
	for _, path := range []*regexp.Regexp{releasePath, storagePath} {
		if found := path.FindStringSubmatch(x.Path); found != nil {
			return found[1]
		}
	}
	if selector := x.Query.Get("labelSelector"); strings.HasSuffix(x.Path, "/secrets") {
		for _, term := range strings.Split(selector, ",") {
			if name, found := strings.CutPrefix(term, "name="); found {
				return name
			}
		}
	}
	return ""
}

func writes(x apiproxy.Exchange) bool {
	return x.Method != http.MethodGet && releaseOf(x) != "" && !x.DryRun()
}

// counter numbers the writes about each release, from 1, as they arrive.
type counter struct {
	mu sync.Mutex
	n  map[string]int
}

func newCounter() *counter { return &counter{n: map[string]int{}} }

func (c *counter) next(release string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[release]++
	return c.n[release]
}

func (c *counter) last(release string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[release]
}

// cost is what one flux-plunger sent about one release.
type cost struct {
	Writes, Conflicts, Reads, Payloads, Bytes int
	// Relisted are the conflicts about a storage Secret.
	Relisted int
	// Kinds are the requests in their order, to see where they went.
	Kinds []string
}

// costs sums what the recorded answers say. An answer is recorded by watched.
func costs(exchanges []apiproxy.Exchange) map[string]*cost {
	sums := map[string]*cost{}
	for _, x := range exchanges {
		release := releaseOf(x)
		if release == "" || x.Streams() {
			continue
		}
		c := sums[release]
		if c == nil {
			c = &cost{}
			sums[release] = c
		}
		c.Kinds = append(c.Kinds, kindOf(x))
		switch {
		case x.Method == http.MethodGet:
			c.Reads++
			if strings.Contains(x.Path, "/secrets") {
				c.Bytes += len(x.Answer)
				if !metadataOnly(x) {
					c.Payloads++
				}
			}
		case x.Code == http.StatusConflict:
			c.Conflicts++
			if strings.Contains(x.Path, "/secrets") {
				c.Relisted++
			}
		case x.Code < 300:
			c.Writes++
		}
	}
	return sums
}

func metadataOnly(x apiproxy.Exchange) bool {
	return strings.Contains(x.Header.Get("Accept"), "as=PartialObjectMetadata")
}

// answers collects exchanges with their answers.
type answers struct {
	mu           sync.Mutex
	seen         []apiproxy.Exchange
	begun, ended int
}

// hooks passes everything, and knows what is under way.
func (a *answers) hooks() apiproxy.Hooks { return apiproxy.Hooks{Before: a.before, After: a.after} }

func (a *answers) before(x apiproxy.Exchange) apiproxy.Action {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !x.Streams() {
		a.begun++
	}
	return apiproxy.Action{}
}

func (a *answers) after(x apiproxy.Exchange) apiproxy.Action {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen = append(a.seen, x)
	if !x.Streams() {
		a.ended++
	}
	return apiproxy.Action{}
}

// all returns what was seen once nothing is under way: a test that watches the object
// sees a write before the proxy has its answer. A request whose connection broke is
// never answered, so the wait is bounded.
func (a *answers) all() []apiproxy.Exchange {
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		a.mu.Lock()
		if a.begun <= a.ended || time.Now().After(deadline) {
			defer a.mu.Unlock()
			return slices.Clone(a.seen)
		}
		a.mu.Unlock()
	}
}
