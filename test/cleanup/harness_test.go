// Package cleanup proves cleanup on a real control plane: what Kubernetes does
// with preconditions, propagation, finalizers, owners, namespaces and RBAC. The
// evidence is written by the real journal from what the real API server
// answered, cleanup runs under exactly the shipped Role, and a proxy keeps every
// request that it sends.
package cleanup

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-project/holdfast/internal/cleanup"
	"github.com/holdfast-project/holdfast/internal/durable/durabletest"
	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/evidence/evidencetest"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/journal"
	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/internal/strictjson"
	"github.com/holdfast-project/holdfast/test/apiproxy"
	"github.com/holdfast-project/holdfast/test/controlplane"
)

// shared is the control plane of all tests; each has a namespace of its own.
var shared *controlplane.ControlPlane

func TestMain(m *testing.M) {
	// These tests wait for thirty seconds at a time and compute nothing: the
	// number of processors says nothing about how many may wait together.
	err := flag.Set("test.parallel", "16")
	if err == nil {
		shared, err = controlplane.Start(context.Background(), controlplane.Options{AuditLevel: "Request"})
	}
	if err != nil {
		panic(err)
	}
	m.Run() // its result becomes the exit code when TestMain returns
	if err := shared.Stop(); err != nil {
		panic(err)
	}
}

const (
	// canary is in the preflight's Secret and must never come back.
	canary = "canary-4f9d2c7b1e"
	// serviceAccount is the subject of the shipped Roles.
	serviceAccount = "preflight-cleanup"
	evidencePath   = "/evidence"
)

var serial atomic.Int64

// trial is one preflight in a namespace of its own, and its cleanup.
type trial struct {
	t         *testing.T
	namespace string
	nonce     string
	disk      *durabletest.FS
	admin     *kube.Client
	proxy     *apiproxy.Proxy
	client    *kube.Client // what cleanup uses, through the proxy
	journal   *journal.Journal
	attempt   *journal.Attempt
	created   map[identity.Slot]identity.Object
	recorded  identity.Cluster
}

// options change how a trial begins.
type options struct {
	// withoutKubeSystem leaves kube-system out of the evidence.
	withoutKubeSystem bool
	// asAdmin cleans up with all rights.
	asAdmin bool
	// role changes the shipped manifest before it is applied.
	role func(string) string
}

func begin(t *testing.T, o options) *trial {
	t.Helper()
	t.Parallel()
	n := serial.Add(1)
	tr := &trial{
		t: t, namespace: fmt.Sprintf("cleanup-%d", n), disk: durabletest.New(),
		nonce: strictjson.Sum(fmt.Append(nil, t.Name(), n))[:32], created: map[identity.Slot]identity.Object{},
	}
	tr.admin = tr.clientOf(read(t, shared.AdminKubeconfig()))
	tr.makeNamespace(o.role)
	reading := tr.admin.ClusterIdentity(t.Context(), tr.namespace)
	tr.recorded = reading.Cluster()
	if o.withoutKubeSystem {
		tr.recorded.KubeSystemUID = ""
	}
	tr.through(shared, o.asAdmin)
	tr.register()
	return tr
}

// makeNamespace also applies the shipped Roles, with the namespace replaced as
// their first lines say.
func (tr *trial) makeNamespace(change func(string) string) {
	tr.t.Helper()
	ctx, client := tr.t.Context(), shared.Client()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tr.namespace}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		tr.t.Fatal(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: serviceAccount}}
	if _, err := client.CoreV1().ServiceAccounts(tr.namespace).Create(ctx, account, metav1.CreateOptions{}); err != nil {
		tr.t.Fatal(err)
	}
	role := string(read(tr.t, filepath.Join("..", "..", "config", "rbac", "preflight-cleanup-role.yaml")))
	role = strings.ReplaceAll(role, "openclaw-system", tr.namespace)
	// Tests share kube-system, and a binding's name is one per test there.
	role = strings.ReplaceAll(role, "name: preflight-cluster-identity\n  namespace", "name: preflight-cluster-identity-"+tr.namespace+"\n  namespace")
	role = strings.ReplaceAll(role, "kind: Role\n  name: preflight-cluster-identity\n", "kind: Role\n  name: preflight-cluster-identity-"+tr.namespace+"\n")
	if change != nil {
		role = change(role)
	}
	if err := shared.ApplyYAML(ctx, []byte(role)); err != nil {
		tr.t.Fatal(err)
	}
}

// through makes cleanup's client, behind a proxy of its own.
func (tr *trial) through(cp *controlplane.ControlPlane, asAdmin bool) {
	tr.t.Helper()
	proxy, err := apiproxy.Start(cp.AdminConfig())
	if err != nil {
		tr.t.Fatal(err)
	}
	tr.t.Cleanup(proxy.Close)
	path := cp.AdminKubeconfig()
	if !asAdmin {
		if path, err = cp.KubeconfigFor(tr.t.Context(), tr.namespace, serviceAccount); err != nil {
			tr.t.Fatal(err)
		}
	}
	kubeconfig, err := proxy.Kubeconfig(path)
	if err != nil {
		tr.t.Fatal(err)
	}
	tr.proxy, tr.client = proxy, tr.clientOf(kubeconfig)
}

func (tr *trial) clientOf(kubeconfig []byte) *kube.Client {
	tr.t.Helper()
	var file struct {
		Current string `json:"current-context"`
	}
	if err := yamlUnmarshal(kubeconfig, &file); err != nil {
		tr.t.Fatal(err)
	}
	client, err := kube.New(kubeconfig, file.Current, kube.Options{UserAgent: "holdfast-test"})
	if err != nil {
		tr.t.Fatal(err)
	}
	return client
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (tr *trial) parameters() evidence.Parameters {
	p := evidencetest.Parameters()
	p.Namespace, p.Cluster = tr.namespace, tr.recorded
	return p
}

// register writes the evidence up to the plan.
func (tr *trial) register() {
	tr.t.Helper()
	var err error
	setup := journal.Setup{Parameters: tr.parameters(), Executable: evidencetest.Opens(evidencetest.Executable)}
	if tr.journal, err = journal.Create(tr.disk, evidencePath, setup); err != nil {
		tr.t.Fatal(err)
	}
	plan := evidence.Plan{Namespace: tr.namespace, Release: evidencetest.Release, Nonce: tr.nonce}
	for _, slot := range []identity.Slot{"secret", "network-policy", "migration", "api", "worker"} {
		p := evidencetest.PlannedSlot(slot, tr.nonce)
		p.Namespace = tr.namespace
		if p.SecretShape == "" {
			p.Manifest = encode(tr.t, tr.manifest(p))
		}
		plan.Slots = append(plan.Slots, p)
	}
	if tr.attempt, err = tr.journal.Register(evidence.Startup, plan); err != nil {
		tr.t.Fatal(err)
	}
	if _, err := tr.journal.Load(evidencetest.Expectation(tr.parameters())); err != nil {
		tr.t.Fatal(err)
	}
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

type object = map[string]any

// manifest is a slot's object as a preflight makes it.
func (tr *trial) manifest(p evidence.PlannedSlot) object {
	annotations := object{identity.NonceAnnotation: tr.nonce}
	o := object{
		"apiVersion": p.APIVersion, "kind": p.Kind,
		"metadata": object{"name": p.Name, "namespace": p.Namespace, "annotations": annotations},
	}
	switch p.Kind {
	case "Secret":
		o["stringData"] = object{"token": canary}
	case "NetworkPolicy":
		o["spec"] = object{"podSelector": object{"matchLabels": object{"x": "y"}}, "policyTypes": []any{"Ingress"}}
	default:
		o["spec"] = object{
			"suspend": true, "backoffLimit": 0, "activeDeadlineSeconds": 600,
			"template": object{
				"metadata": object{"annotations": object{identity.NonceAnnotation: tr.nonce}},
				"spec": object{
					"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "automountServiceAccountToken": false,
					"containers": []any{object{"name": "c", "image": controlplane.ImageHang}},
				},
			},
		}
	}
	return o
}

// planned is a slot of the plan.
func (tr *trial) planned(slot identity.Slot) evidence.PlannedSlot {
	for _, p := range tr.attempt.Plan().Slots {
		if p.Slot == slot {
			return p
		}
	}
	tr.t.Fatalf("no slot %s", slot)
	return evidence.PlannedSlot{}
}

// create starts a slot and sends its one create.
func (tr *trial) create(slot identity.Slot) kube.Created {
	tr.t.Helper()
	p, auditID := tr.planned(slot), kube.NewAuditID()
	tr.must(tr.attempt.Start(slot, auditID, time.Now()))
	body := encode(tr.t, tr.manifest(p))
	made := tr.admin.Create(tr.t.Context(), kube.CreateRequest{Place: p.Object(), Body: body, AuditID: auditID, Nonce: tr.nonce})
	tr.must(made.Err)
	return made
}

// acknowledge takes slots as far as their receipt.
func (tr *trial) acknowledge(slots ...identity.Slot) {
	tr.t.Helper()
	for _, slot := range slots {
		made := tr.create(slot)
		tr.must(tr.attempt.Acknowledge(slot, made.Meta.Object, made.Meta.CreationTimestamp))
		tr.created[slot] = made.Meta.Object
	}
}

// release lets acknowledged Jobs run and waits for their Pods; each gets a
// receipt when children is true.
func (tr *trial) release(children bool, slots ...identity.Slot) {
	tr.t.Helper()
	for _, slot := range slots {
		tr.must(tr.attempt.Release(slot, time.Now()))
		tr.must(tr.admin.Unsuspend(tr.t.Context(), tr.created[slot]))
	}
	for _, slot := range slots {
		pod := tr.pod(slot)
		if children {
			tr.must(tr.attempt.Child(slot, pod, tr.created[slot].UID))
		}
	}
}

// pod waits for the running Pod of a slot's Job.
func (tr *trial) pod(slot identity.Slot) (found identity.Object) {
	tr.t.Helper()
	tr.eventually("a running Pod of "+string(slot), func() bool {
		pods, err := tr.admin.PodsOf(tr.t.Context(), tr.created[slot])
		if err != nil || len(pods) == 0 || pods[0].Status.Phase != corev1.PodRunning {
			return false
		}
		found = identity.Object{APIVersion: "v1", Kind: "Pod", Namespace: tr.namespace, Name: pods[0].Name, UID: string(pods[0].UID)}
		return true
	})
	return found
}

// everything is a whole preflight with running Pods on record.
func (tr *trial) everything() {
	tr.t.Helper()
	tr.acknowledge("secret", "network-policy", "migration")
	tr.release(true, "migration")
	tr.acknowledge("api")
	tr.release(true, "api")
	tr.acknowledge("worker")
	tr.release(true, "worker")
}

// crash ends the run where it is.
func (tr *trial) crash() {
	tr.t.Helper()
	tr.must(tr.journal.Close())
}

// clean is one cleanup, in the order of the command: open, lock, load, run.
func (tr *trial) clean() evidence.Result {
	tr.t.Helper()
	dir, err := evidence.Open(tr.disk, evidencePath)
	tr.must(err)
	defer func() { tr.must(dir.Close()) }()
	inventory, err := dir.Load(evidencetest.Expectation(tr.parameters()))
	tr.must(err)
	record, err := journal.NewCleanup(dir)
	tr.must(err)
	defer func() { tr.must(record.Close()) }()
	outcome, err := cleanup.Run(tr.t.Context(), cleanup.Config{
		Inventory: inventory, Cluster: tr.client, Record: record, Redact: func(s string) string { return s },
		Progress: func(p cleanup.Progress) {
			tr.t.Logf("%7.3fs %s %s: %s", p.Elapsed.Seconds(), p.Ref.Slot, p.Object.Kind, p.Text)
		},
	})
	tr.must(err)
	tr.judgeRequests()
	return outcome.Result
}

// judgeRequests holds every request of a cleanup to A6.7 and A6.8: a DELETE has
// a UID precondition and says what happens to dependents, every read asks for
// metadata alone and is a quorum read, and nothing else is sent.
func (tr *trial) judgeRequests() {
	tr.t.Helper()
	for _, x := range tr.proxy.Requests() {
		if strings.Contains(string(x.Answer), canary) {
			tr.t.Errorf("%s %s answers the Secret's data", x.Method, x.Path)
		}
		if !strings.Contains(x.Header.Get("Accept"), "as=PartialObjectMetadata") {
			tr.t.Errorf("%s %s asks for more than metadata: %q", x.Method, x.Path, x.Header.Get("Accept"))
		}
		if x.Header.Get("Audit-ID") == "" || x.Query.Has("resourceVersion") || x.Query.Has("labelSelector") {
			tr.t.Errorf("%s %s: Audit-ID %q, %v", x.Method, x.Path, x.Header.Get("Audit-ID"), x.Query)
		}
		switch x.Method {
		case "GET":
		case "DELETE":
			tr.judgeDelete(x)
		default:
			tr.t.Errorf("cleanup sent %s %s", x.Method, x.Path)
		}
	}
}

func (tr *trial) judgeDelete(x apiproxy.Exchange) {
	tr.t.Helper()
	var options metav1.DeleteOptions
	if err := json.Unmarshal(x.Body, &options); err != nil {
		tr.t.Fatalf("DELETE %s carries %q: %v", x.Path, x.Body, err)
	}
	for slot, object := range tr.created {
		if !strings.HasSuffix(x.Path, "/"+object.Name) {
			continue
		}
		want := metav1.DeletePropagationOrphan
		if object.Consumer() {
			want = metav1.DeletePropagationForeground
		}
		if options.Preconditions == nil || options.Preconditions.UID == nil || *options.Preconditions.UID != types.UID(object.UID) {
			tr.t.Errorf("DELETE of %s has the preconditions %+v", slot, options.Preconditions)
		}
		if options.PropagationPolicy == nil || *options.PropagationPolicy != want {
			tr.t.Errorf("DELETE of %s propagates %v", slot, options.PropagationPolicy)
		}
		return
	}
	tr.t.Errorf("DELETE %s is of nothing that we acknowledged", x.Path)
}

// deleted lists the slots for which a DELETE was sent.
func (tr *trial) deleted() (slots []identity.Slot) {
	for _, x := range tr.proxy.Requests() {
		for slot, object := range tr.created {
			if x.Method == "DELETE" && strings.HasSuffix(x.Path, "/"+object.Name) && !slices.Contains(slots, slot) {
				slots = append(slots, slot)
			}
		}
	}
	slices.Sort(slots)
	return slots
}

// expect compares the end of each slot, in the form "api=absent", and the
// verdict.
func (tr *trial) expect(r evidence.Result, verdict evidence.Verdict, want ...string) {
	tr.t.Helper()
	got := map[string]bool{}
	for _, resource := range r.Resources {
		got[fmt.Sprintf("%s=%s", resource.Slot, resource.Outcome)] = true
	}
	for _, planned := range r.PlannedNames {
		got[fmt.Sprintf("%s=%s", planned.Slot, planned.Outcome)] = true
	}
	for _, w := range want {
		if !got[w] {
			tr.t.Errorf("%s is not among %v", w, got)
		}
	}
	if r.Verdict != verdict || r.Complete != (verdict == evidence.Complete) {
		tr.t.Errorf("verdict %s, want %s; because of %q", r.Verdict, verdict, r.Reasons)
	}
}

// exists asks the API server, as an admin, for exactly this object.
func (tr *trial) exists(object identity.Object) bool {
	tr.t.Helper()
	o := tr.admin.Observe(tr.t.Context(), object)
	if o.Presence == kube.NotRead {
		tr.t.Fatal(o.Err)
	}
	return o.Presence == kube.Present && o.Meta.Object.UID == object.UID
}

func (tr *trial) must(err error) {
	tr.t.Helper()
	if err != nil {
		tr.t.Fatal(err)
	}
}

// eventually polls for up to a minute, which a busy machine may need.
func (tr *trial) eventually(what string, done func() bool) {
	tr.t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if done() {
			return
		}
		select {
		case <-tr.t.Context().Done():
			tr.t.Fatalf("waiting for %s: the test ended", what)
		case <-time.After(50 * time.Millisecond):
		}
	}
	tr.t.Fatalf("%s: not within a minute", what)
}

// absentSoon waits for an object's end.
func (tr *trial) absentSoon(err error, what string, get func() error) {
	tr.t.Helper()
	tr.must(err)
	tr.eventually("the end of "+what, func() bool { return apierrors.IsNotFound(get()) })
}
