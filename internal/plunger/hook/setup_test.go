package hook_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/hook"
	"github.com/holdfast-project/holdfast/test/controlplane"
	"github.com/holdfast-project/holdfast/test/helmcontroller/lab"
)

// shared is a control plane without any helm-controller and without anything
// that runs Pods: what happens to a release is what the test and the hook wrote.
var shared *lab.Lab

func TestMain(m *testing.M) {
	os.Exit(lab.Tests{
		ControlPlane: controlplane.Options{NoPodRunner: true, NoScheduler: true},
		Begin: func(_ context.Context, l *lab.Lab) error {
			shared = l
			return nil
		},
	}.Run(m))
}

const pods = "app=flux-plunger"

// site is one namespace with a flux-plunger to stop, and releases to let go.
type site struct {
	*testing.T
	ns string
	mu sync.Mutex
	// before is called with every request of the hook, before it is sent.
	before func(*http.Request) error
	said   bytes.Buffer
	// planned is the failure that a test wants the hook to meet.
	planned error
}

// newSite makes the namespace with the hook's ServiceAccount under the shipped
// rules, but for what edit takes from them.
func newSite(t *testing.T, ns string, edit func(rule *rbacv1.PolicyRule)) *site {
	t.Helper()
	s := &site{T: t, ns: ns}
	s.must(shared.Namespace(t.Context(), ns))
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "rbac", "flux-plunger-hook.yaml"))
	s.must(err)
	// The cluster-wide names are this site's own, so that one site's rules give
	// nothing to another's.
	own := strings.ReplaceAll(string(raw), "flux-system", ns)
	own = strings.ReplaceAll(own, "name: flux-plunger-hook", "name: hook-"+ns)
	s.must(shared.ControlPlane.ApplyYAML(t.Context(), []byte(own)))
	if edit == nil {
		return s
	}
	var cluster rbacv1.ClusterRole
	s.must(shared.Client.Get(t.Context(), types.NamespacedName{Name: "hook-" + ns}, &cluster))
	for i := range cluster.Rules {
		edit(&cluster.Rules[i])
	}
	s.must(shared.Client.Update(t.Context(), &cluster))
	var local rbacv1.Role
	s.must(shared.Client.Get(t.Context(), types.NamespacedName{Namespace: ns, Name: "hook-" + ns}, &local))
	for i := range local.Rules {
		edit(&local.Rules[i])
	}
	s.must(shared.Client.Update(t.Context(), &local))
	return s
}

// without takes a verb on a resource away.
func without(verb, resource string) func(*rbacv1.PolicyRule) {
	return func(rule *rbacv1.PolicyRule) {
		if slices.Contains(rule.Resources, resource) {
			rule.Verbs = slices.DeleteFunc(rule.Verbs, func(v string) bool { return v == verb })
			if len(rule.Verbs) == 0 {
				rule.Verbs = []string{"none"} // a rule without any is not valid
			}
		}
	}
}

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// deployment makes a flux-plunger whose Pods wait for a node, and its Lease.
func (s *site) deployment() {
	s.Helper()
	labels := map[string]string{"app": "flux-plunger"}
	s.must(shared.Client.Create(s.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "flux-plunger"},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "registry.invalid/never:1"}}}}},
	}))
	holder := "somebody"
	s.must(shared.Client.Create(s.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: contract.LeaderElectionID}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}))
	s.eventually("its Pod", func() bool { return len(s.podNames()) == 1 })
}

func (s *site) podNames() (names []string) {
	s.Helper()
	var list corev1.PodList
	s.must(shared.Client.List(s.Context(), &list, client.InNamespace(s.ns)))
	for _, pod := range list.Items {
		names = append(names, pod.Name)
	}
	return names
}

func (s *site) eventually(what string, holds func() bool) {
	s.Helper()
	err := wait.PollUntilContextTimeout(s.Context(), 20*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		s.Fatalf("waiting for %s: %v", what, err)
	}
}

// shortTiming is the shipped relation of the durations, at a test's pace.
func shortTiming() hook.Timing {
	return hook.Timing{Grace: 20 * time.Second, Deadline: 60 * time.Second, Stop: 10 * time.Second,
		List: 10 * time.Second, Reserve: 20 * time.Second, Look: 20 * time.Millisecond}
}

// hook runs it as its ServiceAccount.
func (s *site) hook(edits ...func(*hook.Config)) error {
	s.Helper()
	config, err := shared.ConfigFor(s.Context(), s.ns, "hook-"+s.ns)
	s.must(err)
	config.QPS = -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return tapped{s, next} })
	objects, err := kube.NewObjects(config, contract.FieldManager)
	s.must(err)
	run := hook.Config{Objects: objects, Namespace: s.ns, Deployment: "flux-plunger", Pods: pods, WatchNamespace: s.ns,
		Timing: shortTiming(), Report: &s.said, Now: time.Now}
	for _, edit := range edits {
		edit(&run)
	}
	return hook.Run(s.Context(), run)
}

// errBusy stands for the answer of an API server that has no time.
var errBusy = errors.New("too many requests")

// errLost is the loss of an answer: the request arrives.
var errLost = errors.New("the answer is lost")

type tapped struct {
	site *site
	next http.RoundTripper
}

func (t tapped) RoundTrip(request *http.Request) (*http.Response, error) {
	t.site.mu.Lock()
	before := t.site.before
	t.site.mu.Unlock()
	if before != nil {
		switch err := before(request); {
		case errors.Is(err, errBusy):
			return &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{}, Body: http.NoBody, Request: request}, nil
		case errors.Is(err, errLost):
			answer, sent := t.next.RoundTrip(request)
			if sent == nil {
				sent = answer.Body.Close()
			}
			return nil, errors.Join(err, sent)
		case err != nil:
			return nil, err
		}
	}
	return t.next.RoundTrip(request)
}

// first calls do once, before the first request that matches.
func (s *site) first(method, part string, do func() error) {
	s.nth(1, method, part, do)
}

// nth calls do once, before the nth request that matches.
func (s *site) nth(n int, method, part string, do func() error) {
	seen := 0
	s.before = func(request *http.Request) error {
		if request.Method != method || !strings.Contains(request.URL.Path, part) {
			return nil
		}
		if seen++; seen != n {
			return nil
		}
		err := do()
		if err != nil && s.planned != err { //nolint:errorlint // the very value
			s.Errorf("before the hook's request: %v", err)
		}
		return err
	}
}

// release makes one as an administrator does, with helm-controller's finalizer.
func (s *site) release(name string, edits ...func(*helmv2.HelmRelease)) {
	s.Helper()
	hr := lab.NewRelease(types.NamespacedName{Namespace: s.ns, Name: name}, edits...)
	hr.Finalizers = append(hr.Finalizers, contract.HelmFinalizer)
	hr.Labels = map[string]string{"shard": "one"}
	s.must(shared.Client.Create(s.Context(), hr, client.FieldOwner("creator")))
}

// apply sends a server-side apply to a release as a manager.
func (s *site) apply(name, manager, fields string) {
	s.Helper()
	s.must(s.applied(name, manager, fields))
}

func (s *site) applied(name, manager, fields string) error {
	hr := &helmv2.HelmRelease{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name}}
	body := `{"apiVersion":"helm.toolkit.fluxcd.io/v2","kind":"HelmRelease",` + fields + `}`
	return shared.Client.Patch(context.Background(), hr, client.RawPatch(types.ApplyPatchType, []byte(body)), client.FieldOwner(manager), client.ForceOwnership)
}

// What flux-plunger applies: the fence, with or without its suspension.
const (
	fenceOnly = `"metadata":{"finalizers":["` + contract.Fence + `"]}`
	fenceHold = fenceOnly + `,"spec":{"suspend":true}`
)

func (s *site) merge(name, body string) error {
	hr := &helmv2.HelmRelease{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name}}
	return shared.Client.Patch(context.Background(), hr, client.RawPatch(types.MergePatchType, []byte(body)), client.FieldOwner("helm-controller"))
}

func (s *site) remove(name string) error {
	return shared.Client.Delete(context.Background(), &helmv2.HelmRelease{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name}})
}

// live reads a release; nil when it is gone.
func (s *site) live(name string) *helmv2.HelmRelease {
	s.Helper()
	hr, err := shared.Release(s.Context(), types.NamespacedName{Namespace: s.ns, Name: name})
	if apierrors.IsNotFound(errors.Unwrap(err)) {
		return nil
	}
	s.must(err)
	return hr
}

func (s *site) fences(name string) (count int) {
	s.Helper()
	if hr := s.live(name); hr != nil {
		for _, finalizer := range hr.Finalizers {
			if finalizer == contract.Fence {
				count++
			}
		}
	}
	return count
}

// hasLease reports whether the leader's Lease is there.
func (s *site) hasLease() bool {
	s.Helper()
	err := shared.Client.Get(s.Context(), types.NamespacedName{Namespace: s.ns, Name: contract.LeaderElectionID}, &coordinationv1.Lease{})
	s.must(client.IgnoreNotFound(err))
	return err == nil
}

// wrote returns what the hook wrote to HelmReleases, by the audit log.
func (s *site) wrote() []controlplane.AuditRecord {
	s.Helper()
	records, err := shared.ControlPlane.AuditOf(controlplane.AuditFilter{Writes: true, Resource: "helmreleases",
		User: "system:serviceaccount:" + s.ns + ":hook-" + s.ns})
	s.must(err)
	return records
}

func (s *site) says(parts ...string) {
	s.Helper()
	for _, part := range parts {
		if !strings.Contains(s.said.String(), part) {
			s.Errorf("the report does not say %q:\n%s", part, s.said.String())
		}
	}
}

// leaseDeletes returns the codes of the hook's deletes of the Lease.
func (s *site) leaseDeletes() (codes []int) {
	s.Helper()
	records, err := shared.ControlPlane.AuditOf(controlplane.AuditFilter{Verb: "delete", Resource: "leases", Namespace: s.ns,
		User: "system:serviceaccount:" + s.ns + ":hook-" + s.ns})
	s.must(err)
	for _, record := range records {
		codes = append(codes, record.Code)
	}
	return codes
}
