package gather_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/gather"
)

// heldAtMost bounds what a list may hold of thousands of releases, whatever is in
// them: about one kilobyte of each, and one of them whole.
const heldAtMost = 8 << 20

// releaseJSON is a HelmRelease as clusters have them, with values, with who owns
// each of them, and with kubectl's copy.
func releaseJSON(i, values int) string {
	var spec, owned strings.Builder
	for j := range values {
		fmt.Fprintf(&spec, `%q:{"enabled":true,"image":{"repository":"registry.example.org/team/app-%d","tag":"v1.2.%d"}},`, fmt.Sprint("key", j), j, i)
		fmt.Fprintf(&owned, `%q:{"f:enabled":{},"f:image":{"f:repository":{},"f:tag":{}}},`, fmt.Sprint("f:key", j))
	}
	text := spec.String()
	return fmt.Sprintf(`{"apiVersion":"helm.toolkit.fluxcd.io/v2","kind":"HelmRelease","metadata":{"name":"app-%d","namespace":"ns","uid":"uid-%d","resourceVersion":"7","generation":1,`+
		`"annotations":{"kubectl.kubernetes.io/last-applied-configuration":%q,%q:"3"},"finalizers":[%q],`+
		`"managedFields":[{"manager":"kustomize-controller","operation":"Apply","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:values":{%s"f:last":{}}}}}]},`+
		`"spec":{"interval":"5m","values":{%s"last":1}},"status":{"observedGeneration":1,"storageNamespace":"ns"}}`,
		i, i, "{"+text+"}", contract.ProcessedVersion, contract.Fence, owned.String(), text)
}

// cluster serves so many releases in pages, and notes what lives on the heap while
// it does.
type cluster struct {
	total, values int
	live          uint64
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Audit-Id", r.Header.Get("Audit-Id"))
	w.Header().Set("Content-Type", "application/json")
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
	if err != nil {
		limit = c.total
	}
	until, more := min(from+limit, c.total), ""
	if until < c.total {
		more = fmt.Sprint(until)
	}
	_, _ = fmt.Fprintf(w, `{"apiVersion":"helm.toolkit.fluxcd.io/v2","kind":"HelmReleaseList","metadata":{"resourceVersion":"1","continue":%q},"items":[`, more)
	for i := from; i < until; i++ {
		if i > from {
			_, _ = io.WriteString(w, ",")
		}
		_, _ = io.WriteString(w, releaseJSON(i, c.values))
		if i%50 == 0 {
			c.live = max(c.live, live())
		}
	}
	_, _ = io.WriteString(w, `]}`)
	c.live = max(c.live, live())
}

// live is what a collection leaves on the heap.
func live() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// B7.4: what lives on the heap of hook, drain and commands does not grow with what
// people write into their releases, nor with a page of them: a hook that is killed
// for its memory would be killed at each try, and the chart could not be uninstalled.
func TestB7_4_AListOfReleasesHoldsWhatADecisionNeeds(t *testing.T) {
	for name, c := range map[string]*cluster{
		"many":  {total: 3000, values: 40},
		"large": {total: 120, values: 1500},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(c)
			defer server.Close()
			objects, err := kube.NewObjects(&rest.Config{Host: server.URL, RateLimiter: flowcontrol.NewFakeAlwaysRateLimiter()}, contract.FieldManager)
			if err != nil {
				t.Fatal(err)
			}
			before := live()
			releases, err := gather.NewReader(objects).Releases(t.Context(), "", "")
			if err != nil || len(releases) != c.total {
				t.Fatalf("%d of %d releases: %v", len(releases), c.total, err)
			}
			c.live = max(c.live, live())
			if last := releases[c.total-1]; last.Ref() != fmt.Sprintf("ns/app-%d", c.total-1) || !last.Fenced() || !last.Processed() {
				t.Errorf("the last release is read as %+v", last)
			}
			if held := c.live - min(before, c.live); held > heldAtMost {
				t.Errorf("%d releases of %d bytes hold %d kB", c.total, len(releaseJSON(1, c.values)), held>>10)
			}
		})
	}
}
