package plunger

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-project/holdfast/internal/plunger/plungertest"
	"github.com/holdfast-project/holdfast/test/apiproxy"
	"github.com/holdfast-project/holdfast/test/helmcontroller/lab"
)

// The figures of the table beside what they cost: a payload like those of real
// charts, and deletes as near to the error as a person or a pruning gets.
const (
	tablePayload = 100 << 10
	tableWithin  = 400 * time.Millisecond
)

// column is one strategy at one latency, as it was measured.
type column struct {
	strategy string
	latency  time.Duration

	recoveries int
	// kinds counts requests by what they are, over all recoveries.
	kinds                           map[string]int
	metadataBytes, payloadBytes     int
	fence, ready                    spread
	fenceStands, suspended, missing spread
	ends                            tally
}

// BenchmarkStrategies prints docs/design/fence.md's table of both strategies
// side by side ("make table"). It asserts only what becomes of the deletes
// (B9.1): the tests of this package hold the other figures to their bars.
func BenchmarkStrategies(b *testing.B) {
	columns := []*column{
		{strategy: repair}, {strategy: repair, latency: 2 * time.Millisecond},
		{strategy: reclaim}, {strategy: reclaim, latency: 2 * time.Millisecond},
	}
	for _, c := range columns {
		b.Run(fmt.Sprintf("%s/%s", c.strategy, c.latency), func(b *testing.B) {
			*c = column{strategy: c.strategy, latency: c.latency, recoveries: b.N, kinds: map[string]int{}}
			shared.measure(b, c)
		})
	}
	columns = slices.DeleteFunc(columns, func(c *column) bool { return c.recoveries == 0 }) // not selected by -bench
	if len(columns) > 0 {
		fmt.Print(table(columns))
	}
}

func (b *bench) measure(t *testing.B, c *column) {
	namespace := fmt.Sprintf("table-%s-%d-%d", c.strategy, c.latency.Milliseconds(), c.recoveries)
	keys := b.Releases(t, namespace, 2*c.recoveries)
	line := b.watch(t, namespace)
	seen := &answers{}
	p := b.start(t, setup{strategy: c.strategy, namespace: namespace, latency: c.latency, hooks: seen.hooks()})
	for _, key := range keys[:c.recoveries] { // one after another
		b.stick(t, key, lab.Damage{Padding: tablePayload})
		b.Await(t, key, plungertest.Recovered)
	}
	c.count(seen.all())
	c.time(line, keys[:c.recoveries], seen.all())

	moments := rand.New(rand.NewPCG(1, 1))
	for _, key := range keys[c.recoveries:] {
		must(t, b.raceOne(t, line, key, time.Duration(moments.Int64N(int64(tableWithin))), &c.ends))
	}
	b.expectOrphans(t, c.strategy, &c.ends, seen.all())
	must(t, p.stop())
}

func (c *column) count(exchanges []apiproxy.Exchange) {
	for _, x := range exchanges {
		switch {
		case x.Streams():
		case x.Method == http.MethodPost && path.Base(x.Path) == "events":
			c.kinds["Event"]++
		case releaseOf(x) != "":
			c.kinds[kindOf(x)]++
			if x.Method == http.MethodGet && strings.Contains(x.Path, "/secrets") {
				if metadataOnly(x) {
					c.metadataBytes += len(x.Answer)
				} else {
					c.payloadBytes += len(x.Answer)
				}
			}
		}
	}
}

// kinds are the rows of requests, in the table's order.
func kinds() []string {
	return []string{"GET HelmRelease", "LIST storage, metadata", "GET Secret, metadata", "GET Secret, whole",
		"apply to HelmRelease", "patch of HelmRelease", "patch of its status", "UPDATE Secret", "DELETE Secret", "conflict (409)", "Event"}
}

func kindOf(x apiproxy.Exchange) string {
	secret, list := strings.Contains(x.Path, "/secrets"), strings.HasSuffix(x.Path, "/secrets")
	switch {
	case x.Code == http.StatusConflict:
		return "conflict (409)"
	case list:
		return "LIST storage, metadata"
	case x.Method == http.MethodGet && secret && metadataOnly(x):
		return "GET Secret, metadata"
	case x.Method == http.MethodGet && secret:
		return "GET Secret, whole"
	case x.Method == http.MethodGet:
		return "GET HelmRelease"
	case x.Method == http.MethodPut:
		return "UPDATE Secret"
	case x.Method == http.MethodDelete:
		return "DELETE Secret"
	case strings.HasSuffix(x.Path, "/status"):
		return "patch of its status"
	case strings.Contains(x.Header.Get("Content-Type"), "apply-patch"):
		return "apply to HelmRelease"
	default:
		return "patch of HelmRelease"
	}
}

// time reads the clock off the watch, where everybody else sees it, and the
// moment of a delete off the proxy.
func (c *column) time(line *timeline, keys []types.NamespacedName, exchanges []apiproxy.Exchange) {
	deleted := map[string]time.Time{}
	for _, x := range exchanges {
		if x.Method == http.MethodDelete {
			deleted[releaseOf(x)] = x.Started
		}
	}
	for _, key := range keys {
		seen := line.of(key.Name)
		stuck := first(seen, time.Time{}, func(m moment) bool { return m.stuck })
		fence := first(seen, time.Time{}, func(m moment) bool { return m.fenced })
		suspend := first(seen, time.Time{}, func(m moment) bool { return m.suspended })
		c.fence.add(stuck, fence)
		c.ready.add(stuck, first(seen, stuck, func(m moment) bool { return m.ready }))
		c.fenceStands.add(fence, first(seen, fence, func(m moment) bool { return !m.fenced }))
		c.suspended.add(suspend, first(seen, suspend, func(m moment) bool { return !m.suspended }))
		c.missing.add(deleted[key.Name], first(seen, deleted[key.Name], func(m moment) bool { return m.remembered }))
	}
}

// add records a stretch of time whose both ends were seen.
func (s *spread) add(from, to time.Time) {
	if !from.IsZero() && !to.IsZero() {
		*s = append(*s, to.Sub(from))
	}
}

func table(columns []*column) string {
	var out strings.Builder
	row := func(name string, cell func(*column) string) {
		fmt.Fprintf(&out, "| %s |", name)
		for _, c := range columns {
			fmt.Fprintf(&out, " %s |", cell(c))
		}
		out.WriteString("\n")
	}
	each := func(c *column, n int) string { return fmt.Sprintf("%.1f", float64(n)/float64(c.recoveries)) }
	sum := func(c *column, names []string) (n int) {
		for _, name := range names {
			n += c.kinds[name]
		}
		return n
	}
	helm := "the stand-in for helm-controller"
	if lab.Real() {
		helm = path.Base(os.Getenv(lab.EnvHelmController))
	}
	fmt.Fprintf(&out, "\n%s, %d CPUs, payloads of about %d kB, %d recoveries one after another and %d deletes each\n\n",
		helm, runtime.NumCPU(), tablePayload/1024, columns[0].recoveries, columns[0].recoveries)
	row("per recovery", func(c *column) string { return fmt.Sprintf("%s, %s each way", c.strategy, c.latency) })
	out.WriteString("|" + strings.Repeat(" --- |", len(columns)+1) + "\n")
	for _, name := range kinds() {
		row(name, func(c *column) string { return each(c, c.kinds[name]) })
	}
	row("**reads**", func(c *column) string { return each(c, sum(c, kinds()[:4])) })
	row("**writes** but Events", func(c *column) string { return each(c, sum(c, kinds()[4:9])) })
	row("bytes of storage read as metadata", func(c *column) string { return fmt.Sprint(c.metadataBytes / c.recoveries) })
	row("bytes of storage read whole", func(c *column) string { return fmt.Sprint(c.payloadBytes / c.recoveries) })
	row("error to fence", func(c *column) string { return c.fence.String() })
	row("error to Ready", func(c *column) string { return c.ready.String() })
	row("the fence stands", func(c *column) string { return c.fenceStands.String() })
	row("suspended by flux-plunger", func(c *column) string { return c.suspended.String() })
	row("no manifest stored: Secret deleted to release stored", func(c *column) string { return c.missing.String() })
	row(fmt.Sprintf("deletes within %s of the error, before the fence: all, orphaned", tableWithin), func(c *column) string {
		return fmt.Sprintf("%d, %d", c.ends.unfenced, c.ends.unfencedOrphans)
	})
	row("the same, once it stood: all, orphaned", func(c *column) string { return fmt.Sprintf("%d, %d", c.ends.fenced, len(c.ends.orphans)) })
	return out.String()
}
