package plunger

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/plungertest"
	"github.com/holdfast-project/holdfast/test/apiproxy"
	"github.com/holdfast-project/holdfast/test/controlplane"
	"github.com/holdfast-project/holdfast/test/helmcontroller/lab"
)

// shardLabel keeps a flux-plunger that watches all namespaces, as it ships, away
// from the releases of other tests.
const shardLabel = "lab.holdfast.test/shard"

func inShard(shard string) func(*helmv2.HelmRelease) {
	return func(hr *helmv2.HelmRelease) { hr.Labels = map[string]string{shardLabel: shard} }
}

func shipped(strategy, shard string) setup {
	return setup{strategy: strategy, flags: []string{"--leader-elect", "--watch-label-selector=" + shardLabel + "=" + shard}}
}

// B1.2, B10.1: as it ships, with its Lease and over all namespaces: payloads are
// read only for repair's one rewrite, and at rest there is nothing but the watch
// and the Lease.
func TestAsShippedAndAtRest(t *testing.T) {
	for _, strategy := range []string{repair, reclaim} {
		t.Run(strategy, func(t *testing.T) {
			b := shared
			namespace := "shipped-" + strategy
			keys := b.Releases(t, namespace, 3, inShard(namespace))
			seen := &answers{}
			s := shipped(strategy, namespace)
			s.hooks = seen.hooks()
			p := b.start(t, s)
			for _, key := range keys {
				must(t, b.Harm(t.Context(), key, lab.Damage{Padding: 900 << 10, Unknown: map[string]any{"fieldOfALaterHelm": map[string]any{"kept": true}}}))
				must(t, b.Wake(t.Context(), key))
				b.Await(t, key, plungertest.Recovered)
			}
			b.expectBytes(t, strategy, costs(seen.all()), keys)
			b.expectUpgradedInPlace(t, strategy, keys)
			b.expectRest(t, p)
			must(t, p.stop())
		})
	}
}

// expectBytes: under reclaim under 2 % of the payloads, under repair one payload
// each.
func (b *bench) expectBytes(t *testing.T, strategy string, spent map[string]*cost, keys []types.NamespacedName) {
	t.Helper()
	for _, key := range keys {
		c := spent[key.Name]
		switch {
		case c == nil:
			t.Errorf("%s: no request at all", key)
		case strategy == reclaim && c.Bytes > 900<<10/50:
			t.Errorf("%s: %d bytes of storage were read", key, c.Bytes)
		case strategy == repair && c.Payloads != 1:
			t.Errorf("%s: %d payloads were read", key, c.Payloads)
		}
	}
}

// expectUpgradedInPlace: what repair rewrote is still stored beneath the upgrade
// (B10.2).
func (b *bench) expectUpgradedInPlace(t *testing.T, strategy string, keys []types.NamespacedName) {
	t.Helper()
	if strategy != repair {
		return
	}
	for _, key := range keys {
		stored, err := b.Revisions(t.Context(), b.Live(t, key))
		must(t, err)
		if len(stored) != 2 || stored[0].Labels["status"] == "uninstalling" {
			t.Errorf("%s: stored %d revisions, the first %q", key, len(stored), stored[0].Labels["status"])
		}
	}
}

// expectRest wants three renewals of the Lease with nothing between them. The
// last event of a recovery may still be on its way, so it may take some windows.
func (b *bench) expectRest(t *testing.T, p *process) {
	t.Helper()
	var disturbed []string
	for range 5 {
		p.proxy.Forget()
		err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, plungertest.Settle, true, func(context.Context) (bool, error) {
			return renewals(p.proxy.Requests()) >= 3, nil
		})
		if err != nil {
			t.Fatalf("the Lease is not renewed: %v", err)
		}
		disturbed = nil
		for _, x := range p.proxy.Requests() {
			if !strings.Contains(x.Path, "/leases") && !x.Streams() {
				disturbed = append(disturbed, x.Method+" "+x.Path)
			}
		}
		if len(disturbed) == 0 {
			return
		}
	}
	t.Errorf("it never comes to rest: %v", disturbed)
}

func renewals(requests []apiproxy.Exchange) (n int) {
	for _, x := range requests {
		if x.Method == http.MethodPut && strings.Contains(x.Path, "/leases/") {
			n++
		}
	}
	return n
}

// B10.3: a field that this Helm does not know survives the rewrite itself. The
// upgrade after it would hide that, so it is not let through.
func TestUnknownFieldsSurviveTheRewrite(t *testing.T) {
	t.Parallel()
	b := shared
	key := b.Releases(t, "unknown", 1)[0]
	must(t, b.Stick(t.Context(), key, lab.Damage{Padding: 900 << 10, Unknown: map[string]any{"fieldOfALaterHelm": map[string]any{"kept": "so"}}}))
	rewritten := make(chan struct{}, 1)
	b.start(t, setup{strategy: repair, namespace: "unknown", hooks: apiproxy.Hooks{
		Before: func(x apiproxy.Exchange) apiproxy.Action {
			if x.Method == http.MethodPatch && strings.Contains(string(x.Body), contract.RequestedAt) {
				return apiproxy.Action{Drop: true}
			}
			return apiproxy.Action{}
		},
		After: func(x apiproxy.Exchange) apiproxy.Action {
			if x.Method == http.MethodPut && x.Code == http.StatusOK && releaseOf(x) == key.Name {
				rewritten <- struct{}{}
			}
			return apiproxy.Action{}
		}}})
	select {
	case <-rewritten:
	case <-time.After(plungertest.Settle):
		t.Fatal("nothing was rewritten")
	}
	stored, err := b.Revisions(t.Context(), b.Live(t, key))
	must(t, err)
	payload, err := lab.Decode(stored[0])
	must(t, err)
	info, _ := payload["info"].(map[string]any)
	if fmt.Sprint(payload["fieldOfALaterHelm"]) != "map[kept:so]" || info["status"] != "failed" || stored[0].Labels["status"] != "failed" {
		t.Errorf("after the rewrite: unknown field %v, status %v, label %s", payload["fieldOfALaterHelm"], info["status"], stored[0].Labels["status"])
	}
	if notes, _ := info["notes"].(string); len(notes) < 800<<10 {
		t.Errorf("the notes lost most of their %d bytes", len(notes))
	}
}

// B6.4, B6.6: stopped in the middle of a recovery with a second one waiting, the
// first drains and gives the Lease up last; the second leads within seconds and
// ends the recovery. It never writes before.
func TestHandover(t *testing.T) {
	for _, strategy := range []string{repair, reclaim} {
		t.Run(strategy, func(t *testing.T) {
			b := shared
			namespace := "handover-" + strategy
			key := b.Releases(t, namespace, 1, inShard(namespace))[0]
			s := shipped(strategy, namespace)
			firstSeen, secondSeen := &answers{}, &answers{}
			s.hooks = firstSeen.hooks()
			one := b.start(t, s)
			s.hooks = secondSeen.hooks()
			two := b.launch(t, s)
			count := newCounter()
			one.proxy.Hook(apiproxy.Hooks{After: func(x apiproxy.Exchange) apiproxy.Action {
				firstSeen.after(x)
				if writes(x) && count.next("all") == 2 {
					one.terminate()
				}
				return apiproxy.Action{}
			}})
			b.stick(t, key, lab.Damage{})
			<-one.done
			ended := time.Now()
			if one.err != nil {
				t.Errorf("the stop was asked for, and the exit is %v", one.err)
			}
			b.Await(t, key, plungertest.Recovered)
			t.Logf("Ready again %v after the first one's end", time.Since(ended).Round(time.Millisecond))
			b.expectOneWriter(t, firstSeen.all(), secondSeen.all())
			must(t, two.stop())
		})
	}
}

// expectOneWriter: everything that the first sent was answered before anything
// that the second wrote was sent, and the Lease was the last.
func (b *bench) expectOneWriter(t *testing.T, one, two []apiproxy.Exchange) {
	t.Helper()
	var last apiproxy.Exchange
	for _, x := range one {
		if x.Method != http.MethodGet && x.Code < 300 {
			last = x
		}
	}
	if !strings.Contains(last.Path, "/leases/") {
		t.Errorf("the first one's last write is %s %s, want the Lease", last.Method, last.Path)
	}
	for _, x := range two {
		if writes(x) && x.Started.Before(last.Started) {
			t.Errorf("the second one wrote %s %s before the first one's last write", x.Method, x.Path)
		}
	}
}

// The helm-controller itself is killed while a fenced release waits for it; its
// next start ends the uninstall.
func TestHelmControllerKilledInTheMiddle(t *testing.T) {
	b := shared
	keys := b.Releases(t, "hckilled", 4)
	must(t, lab.Each(keys, func(key types.NamespacedName) error { return b.Stick(t.Context(), key, lab.Damage{}) }))
	must(t, b.Publish(t.Context(), "hckilled", lab.Source, lab.Chart{Version: "2.0.0", Broken: true}))
	reminded := make(chan struct{}, len(keys))
	b.start(t, setup{strategy: repair, namespace: "hckilled", hooks: apiproxy.Hooks{After: func(x apiproxy.Exchange) apiproxy.Action {
		if x.Method == http.MethodPatch && strings.Contains(string(x.Body), contract.Reminders) {
			reminded <- struct{}{}
		}
		return apiproxy.Action{}
	}}})
	for _, key := range keys {
		b.Await(t, key, plungertest.Fenced)
	}
	must(t, b.Delete(t.Context(), keys[0])) // killed right after it was asked
	<-reminded
	b.KillHelmController()
	must(t, b.Delete(t.Context(), keys[1])) // deleted while it is down
	must(t, b.StartHelmControllerAgain(t.Context()))
	for _, key := range keys[:2] {
		if left := b.gone(t, key); !left.Clean() {
			t.Errorf("%s: %+v", key, left)
		}
	}
	for _, key := range keys[2:] {
		if hr := b.Live(t, key); !plungertest.Fenced(hr) || terminating(hr) {
			t.Errorf("the others stay as they are: %s", lab.Describe(hr))
		}
	}
}

// expectAudit is asked when all tests are over: whatever they did, no Secret was
// watched, nothing was created, contents of Secrets were answered to repair alone
// and only one by one, and nothing was refused that the permissions leave out
// (B1.2, B7.1).
func (b *bench) expectAudit() error {
	records, err := b.ControlPlane.AuditOf(controlplane.AuditFilter{})
	if err != nil {
		return err
	}
	metadata := 0
	for _, r := range records {
		if !strings.Contains(r.User, ":flux-system-") {
			continue
		}
		if err := allowed(r); err != nil {
			return err
		}
		if r.Resource == "secrets" && strings.HasPrefix(kindAnswered(r), "PartialObjectMetadata") {
			metadata++
		}
	}
	if metadata == 0 && flag.Lookup("test.run").Value.String() == "" { // a selection may have had nobody read any
		return errors.New("no answer about a Secret is recorded: nothing is proven about them")
	}
	return nil
}

func allowed(r controlplane.AuditRecord) error {
	verbs := []string{"get", "list", "update", "delete"}
	switch {
	case r.Resource == "secrets" && !slices.Contains(verbs, r.Verb):
		return fmt.Errorf("%s sent %s %s", r.User, r.Verb, r.RequestURI)
	case r.Resource == "secrets" && kindAnswered(r) == "SecretList":
		return fmt.Errorf("%s was given the contents of a list: %s", r.User, r.RequestURI)
	case r.Resource == "secrets" && kindAnswered(r) == "Secret" && !strings.Contains(r.User, ":"+lab.System(repair)+":"):
		return fmt.Errorf("%s was given the contents of %s", r.User, r.RequestURI)
	case r.Resource == "secrets" && kindAnswered(r) == "Secret" && !strings.HasPrefix(r.Name, "sh.helm.release.v1."):
		return fmt.Errorf("%s was given the contents of %s, which is not Helm's", r.User, r.RequestURI)
	case r.Resource == "helmreleases" && (r.Verb == "create" || r.Verb == "update" || r.Verb == "delete"):
		return fmt.Errorf("%s sent %s %s", r.User, r.Verb, r.RequestURI)
	case r.Code == http.StatusForbidden && !terminatingNamespace(r):
		return fmt.Errorf("%s was refused %s %s: the shipped permissions lack it", r.User, r.Verb, r.RequestURI)
	default:
		return nil
	}
}

// kindAnswered is the kind of what the API server answered; a delete's answer is
// a Status.
func kindAnswered(r controlplane.AuditRecord) string {
	var answer struct {
		Kind string `json:"kind"`
	}
	if json.Unmarshal(r.Response, &answer) != nil {
		return ""
	}
	return answer.Kind
}

// terminatingNamespace: an Event cannot be created in a namespace that ends.
func terminatingNamespace(r controlplane.AuditRecord) bool {
	return r.Resource == "events" && r.Namespace != metav1.NamespaceNone && r.Verb == "create"
}
