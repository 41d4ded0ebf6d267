package installed

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	coordinationv1 "k8s.io/api/coordination/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/plungertest"
	"github.com/holdfast-project/holdfast/test/chart/rendered"
	"github.com/holdfast-project/holdfast/test/helmcontroller/lab"
)

// right is one verb on one resource in one rule of the controller's shipped roles.
type right struct{ strategy, role, resource, verb string }

func (r right) String() string {
	if r.verb == "" {
		return r.strategy + "-all"
	}
	return r.strategy + "-" + strings.ReplaceAll(r.resource, "/", "-") + "-" + r.verb
}

// shippedRights lists every right of the controller's roles under the strategy.
func shippedRights(t *testing.T, strategy string) []right {
	t.Helper()
	var all []right
	for _, object := range shippedRoles(t, strategy) {
		for _, rule := range rulesOf(object) {
			for _, resource := range rule["resources"].([]any) {
				for _, verb := range rule["verbs"].([]any) {
					all = append(all, right{strategy, object.GetName(), resource.(string), verb.(string)})
				}
			}
		}
	}
	return all
}

func shippedRoles(t *testing.T, strategy string) []*unstructured.Unstructured {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "rbac", "flux-plunger-"+strategy+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	objects, err := rendered.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func rulesOf(object *unstructured.Unstructured) (rules []map[string]any) {
	list, _, _ := unstructured.NestedSlice(object.Object, "rules")
	for _, rule := range list {
		rules = append(rules, rule.(map[string]any))
	}
	return rules
}

// B7.1, B7.6, B10.5: every right of the controller's roles, under either strategy,
// is needed: with all of them flux-plunger recovers a stuck release, sees a deleted
// one uninstalled and says so in an event, and is denied nothing; without any one
// of them it is denied just that, and is stopped without the end that needs it.
func TestEveryRightOfTheControllerIsNeeded(t *testing.T) {
	t.Parallel()
	var cases []right
	for _, strategy := range []string{"repair", "reclaim"} {
		cases = append(append(cases, right{strategy: strategy}), shippedRights(t, strategy)...)
	}
	if len(cases) != 2*(1+12) {
		t.Errorf("%d cases: the roles grant other rights than this test was written for", len(cases))
	}
	// A few processes at a time, which wait more than they work.
	slots := make(chan struct{}, 4)
	var all sync.WaitGroup
	for _, c := range cases {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			t.Run(c.String(), func(t *testing.T) { newSite(t, "right-"+c.String()).without(c) })
		})
	}
	all.Wait()
}

// without runs flux-plunger without one right.
func (s *site) without(c right) {
	s.grant(c)
	s.forgotten("live", "deleted")
	if c.resource == "leases" && c.verb == "update" {
		// Somebody gave the Lease up: to take it is an update.
		s.must(shared.Client.Create(s.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: contract.LeaderElectionID}}))
	}
	process := s.start(c.strategy)
	denied := fmt.Sprintf("cannot %s resource %q", c.verb, c.resource)
	s.eventually("a denial or the end of the work", func() bool {
		return c.verb != "" && process.says("forbidden", denied) || s.done(c) && (c.verb == "" || s.done(right{}))
	})
	output, clean := process.stop()
	s.judge(c, denied, output, clean)
}

// judge compares how a run without the right ended with what the right is for.
func (s *site) judge(c right, denied, output string, clean bool) {
	s.Helper()
	switch {
	case c.verb == "" && (strings.Contains(output, "forbidden") || !clean):
		s.Errorf("with every right it is denied something, or does not stop well:\n%s", output)
	case c.verb == "":
	case !strings.Contains(output, denied):
		s.Errorf("it never asked for it:\n%s", output)
	// An API server that streams the first list of a watch asks for no right to
	// list; the drain lists.
	case c.resource == "helmreleases" && c.verb == "list":
		if clean {
			s.Errorf("without it the drain is complete all the same:\n%s", output)
		}
	case s.done(c):
		s.Errorf("without it the work is done all the same:\n%s", output)
	}
}

// grant applies the shipped roles but for one right, under names of this site's own.
func (s *site) grant(c right) {
	s.Helper()
	var stream bytes.Buffer
	removed := 0
	for _, object := range shippedRoles(s.T, c.strategy) {
		rules := rulesOf(object)
		var kept []any
		for _, rule := range rules {
			verbs := rule["verbs"].([]any)
			if object.GetName() == c.role && slices.Contains(rule["resources"].([]any), any(c.resource)) && slices.Contains(verbs, any(c.verb)) {
				verbs = slices.DeleteFunc(verbs, func(v any) bool { return v == any(c.verb) })
				removed++
			}
			if rule["verbs"] = verbs; len(verbs) > 0 {
				kept = append(kept, rule)
			}
		}
		if rules != nil {
			object.Object["rules"] = kept
		}
		text, err := yaml.Marshal(object.Object)
		s.must(err)
		stream.WriteString("---\n")
		stream.Write(text)
	}
	if want := min(1, len(c.verb)); removed != want {
		s.Fatalf("%d rules grant %s on %s", removed, c.verb, c.resource)
	}
	own := strings.ReplaceAll(stream.String(), "flux-system", s.ns)
	own = strings.ReplaceAll(own, "name: flux-plunger\n", "name: "+s.fullname()+"\n")
	s.must(shared.ControlPlane.ApplyYAML(s.Context(), []byte(own)))
}

// forgotten makes two releases that helm-controller has forgotten: one is stuck,
// the other was deleted under the fence and waits for a reminder.
func (s *site) forgotten(live, deleted string) {
	s.Helper()
	s.releases(live, deleted)
	s.must(lab.Each([]types.NamespacedName{s.key(live), s.key(deleted)}, func(key types.NamespacedName) error {
		return shared.Stick(s.Context(), key, lab.Damage{})
	}))
	s.patch(deleted, types.ApplyPatchType, "flux-plunger", fenceOnly)
	s.must(shared.Delete(s.Context(), s.key(deleted)))
	_, err := shared.Until(s.Context(), s.key(deleted), settle, func(hr *helmv2.HelmRelease) bool {
		return slices.Equal(hr.Finalizers, []string{contract.Fence})
	})
	s.must(err)
}

// done reports whether the end is reached that the right is for: for events, that
// one is there; for the status, that the deleted release is uninstalled; for all
// others that the stuck one is recovered; for none in particular, all three.
func (s *site) done(c right) bool {
	s.Helper()
	live := s.live("live")
	recovered := lab.Ready(live) && !live.Spec.Suspend && !plungertest.Fenced(live) && len(live.Status.History) > 0
	_, err := shared.Release(s.Context(), s.key("deleted"))
	uninstalled := apierrors.IsNotFound(errors.Unwrap(err))
	var events eventsv1.EventList
	s.must(shared.Client.List(s.Context(), &events, client.InNamespace(s.tenant)))
	told := slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool { return e.Reason == "Recovered" })
	switch c.resource {
	case "events":
		return told
	case "helmreleases/status":
		return uninstalled
	case "":
		return recovered && uninstalled && told
	default:
		return recovered
	}
}

// process is a running flux-plunger.
type process struct {
	*site
	cmd *exec.Cmd
	mu  sync.Mutex
	out bytes.Buffer
}

// Write takes what it says.
func (p *process) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(text)
}

// start runs flux-plunger as the site's ServiceAccount.
func (s *site) start(strategy string) *process {
	s.Helper()
	kubeconfig, err := shared.ControlPlane.KubeconfigFor(s.Context(), s.ns, s.fullname())
	s.must(err)
	self, err := os.Executable()
	s.must(err)
	p := &process{site: s, cmd: exec.CommandContext(s.Context(), self, "--leader-elect", "--strategy="+strategy,
		"--watch-label-selector=site="+s.name, "--metrics-addr=0", "--health-addr=0", "--shutdown-grace-period-seconds=40")}
	p.cmd.Env = append(os.Environ(), roleVariable+"=1", "RUNTIME_NAMESPACE="+s.ns, "KUBECONFIG="+kubeconfig)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	s.must(p.cmd.Start())
	return p
}

// said is its output with the quotes as they were before they were logged.
func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.ReplaceAll(p.out.String(), `\`, "")
}

func (p *process) says(parts ...string) bool {
	said := p.said()
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(said, part) })
}

// stop ends it as a kubelet does, and returns what it said, and whether it ended
// with exit 0: stopped, and drained.
func (p *process) stop() (said string, clean bool) {
	p.Helper()
	p.must(p.cmd.Process.Signal(syscall.SIGTERM))
	err := p.cmd.Wait()
	return p.said(), err == nil
}
