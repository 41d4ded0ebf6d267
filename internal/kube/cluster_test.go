package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/test/controlplane"
)

// shared starts the real control plane when the first test asks for it.
type sharedPlane struct {
	once sync.Once
	cp   *controlplane.ControlPlane
	err  error
}

var shared = &sharedPlane{}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.cp != nil {
		if err := shared.cp.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// plane returns the control plane and a namespace of the test's own.
func plane(t *testing.T) (*controlplane.ControlPlane, string) {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs a real control plane")
	}
	shared.once.Do(func() {
		shared.cp, shared.err = controlplane.Start(context.Background(), controlplane.Options{AuditLevel: "RequestResponse"})
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	namespace := strings.ToLower(strings.NewReplacer("_", "-", "/", "-").Replace(t.Name()))
	if len(namespace) > 60 {
		namespace = namespace[:60]
	}
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := shared.cp.Client().CoreV1().Namespaces().Create(t.Context(), made, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return shared.cp, namespace
}

// admin returns a client made from a kubeconfig's bytes, as the product does.
func admin(t *testing.T, cp *controlplane.ControlPlane) *Client {
	t.Helper()
	return from(t, cp.AdminKubeconfig())
}

func from(t *testing.T, path string) *Client {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(text, "holdfast", Options{Dir: filepath.Dir(path), UserAgent: "kube-test"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// object is a manifest under construction.
func object(place identity.Object, spec map[string]any) []byte {
	manifest := map[string]any{
		"apiVersion": place.APIVersion, "kind": place.Kind,
		"metadata": map[string]any{"name": place.Name, "namespace": place.Namespace, "annotations": map[string]string{identity.NonceAnnotation: testNonce}},
	}
	for key, value := range spec {
		manifest[key] = value
	}
	body, err := json.Marshal(manifest)
	if err != nil {
		panic(err)
	}
	return body
}

func jobAt(namespace, name string) identity.Object {
	return identity.Object{APIVersion: "batch/v1", Kind: "Job", Namespace: namespace, Name: name}
}

func secretAt(namespace, name string) identity.Object {
	return identity.Object{APIVersion: "v1", Kind: "Secret", Namespace: namespace, Name: name}
}

func configMapAt(namespace, name string) identity.Object {
	return identity.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: namespace, Name: name}
}

// suspendedJob hangs once it is released.
func suspendedJob(place identity.Object) []byte {
	return object(place, map[string]any{"spec": map[string]any{
		"suspend": true, "backoffLimit": 0,
		"template": map[string]any{
			"metadata": map[string]any{"annotations": map[string]string{identity.NonceAnnotation: testNonce}},
			"spec": map[string]any{"restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
				"containers": []any{map[string]any{"name": "main", "image": controlplane.ImageHang}}},
		},
	}})
}

func create(t *testing.T, c *Client, place identity.Object, body []byte) Created {
	t.Helper()
	return c.Create(t.Context(), CreateRequest{Place: place, Body: body, AuditID: NewAuditID(), Nonce: testNonce})
}

// mustCreate returns the object with the UID that its create returned.
func mustCreate(t *testing.T, c *Client, place identity.Object, body []byte) identity.Object {
	t.Helper()
	created := create(t, c, place, body)
	if created.Outcome != Acknowledged {
		t.Fatalf("creating %s: %v: %v", place, created.Outcome, created.Err)
	}
	return created.Meta.Object
}

// eventually waits for a condition, a minute at most.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		t.Fatalf("%s: it did not happen within a minute", what)
	}
}

func is[T error](err error) bool {
	var target T
	return errors.As(err, &target)
}

// A3.5, A3.7: a create of each kind is one POST with our Audit-ID, and the UID is
// the live object's.
func TestA3_5_CreateOnTheRealServer(t *testing.T) {
	cp, namespace := plane(t)
	c := admin(t, cp)
	policy := identity.Object{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy", Namespace: namespace, Name: "np"}
	for _, row := range []struct {
		place identity.Object
		body  []byte
	}{
		{secretAt(namespace, "s"), object(secretAt(namespace, "s"), map[string]any{"stringData": map[string]string{"k": "v"}})},
		{policy, object(policy, map[string]any{"spec": map[string]any{"podSelector": map[string]any{}}})},
		{jobAt(namespace, "j"), suspendedJob(jobAt(namespace, "j"))},
		{configMapAt(namespace, "c"), object(configMapAt(namespace, "c"), nil)},
	} {
		request := CreateRequest{Place: row.place, Body: row.body, AuditID: NewAuditID(), Nonce: testNonce}
		created := c.Create(t.Context(), request)
		if created.Outcome != Acknowledged {
			t.Fatalf("%s: %v: %v", row.place, created.Outcome, created.Err)
		}
		records, err := cp.AuditOf(controlplane.AuditFilter{AuditID: request.AuditID})
		if err != nil || len(records) != 1 || records[0].Verb != "create" || records[0].Code != http.StatusCreated {
			t.Errorf("%s: audited as %+v, %v", row.place, records, err)
		}
		seen := c.Observe(t.Context(), row.place)
		if seen.Presence != Present || seen.Meta.Object != created.Meta.Object || seen.Meta.Nonce != testNonce || seen.Meta.CreationTimestamp != created.Meta.CreationTimestamp {
			t.Errorf("%s: seen as %+v, created as %+v", row.place, seen, created)
		}
	}
}

// A3.7: what the real server's refusals are taken for.
func TestA3_7_RefusalsOfTheRealServer(t *testing.T) {
	cp, namespace := plane(t)
	c := admin(t, cp)
	quota := fmt.Sprintf("{apiVersion: v1, kind: ResourceQuota, metadata: {name: q, namespace: %s}, spec: {hard: {secrets: \"1\"}}}", namespace)
	if err := cp.ApplyYAML(t.Context(), []byte(quota)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the quota is enforced", func() bool {
		q, err := cp.Client().CoreV1().ResourceQuotas(namespace).Get(t.Context(), "q", metav1.GetOptions{})
		return err == nil && len(q.Status.Hard) > 0
	})
	first := secretAt(namespace, "first")
	mustCreate(t, c, first, object(first, nil))
	second, elsewhere := secretAt(namespace, "second"), secretAt("no-such-namespace", "s")
	twice := configMapAt(namespace, "twice")
	mustCreate(t, c, twice, object(twice, nil))
	unserved, misplaced := jobAt(namespace, "bad"), configMapAt(namespace, "a")
	for _, row := range []struct {
		name  string
		place identity.Object
		body  []byte
		want  Outcome
		code  int
	}{
		{"already exists", twice, object(twice, nil), Unknown, 409},
		{"quota", second, object(second, nil), Rejected, 403},
		{"no namespace", elsewhere, object(elsewhere, nil), Rejected, 404},
		{"invalid", unserved, object(unserved, map[string]any{"spec": map[string]any{"template": map[string]any{}}}), Rejected, 422},
		{"not json", misplaced, []byte("{"), Rejected, 400},
		{"other namespace", misplaced, object(configMapAt("other", "a"), nil), Rejected, 400},
		{"without our nonce", misplaced, []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`), Unknown, 201},
	} {
		created := create(t, c, row.place, row.body)
		if created.Outcome != row.want || created.Code != row.code {
			t.Errorf("%s: %v with %d: %v", row.name, created.Outcome, created.Code, created.Err)
		}
	}
	bad := cp.AdminConfig()
	bad.BearerToken, bad.BearerTokenFile = "expired", ""
	stranger, err := newForConfig(bad, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if created := create(t, stranger, second, object(second, nil)); created.Outcome != Rejected || created.Code != 401 {
		t.Errorf("a login that is not accepted: %v with %d: %v", created.Outcome, created.Code, created.Err)
	}
}

// A3.7, A4.2b: a webhook that is dead or hangs leaves a create unknown, and the
// dry run finds it before anything is created.
func TestA3_7_WebhookOnTheRealServer(t *testing.T) {
	cp, namespace := plane(t)
	c := admin(t, cp)
	hook := fmt.Sprintf(`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: dead}, webhooks: [{
		name: dead.example.com, sideEffects: None, admissionReviewVersions: [v1], timeoutSeconds: 1, clientConfig: {url: "https://127.0.0.1:1/"},
		namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}},
		rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}]}`, namespace)
	if err := cp.ApplyYAML(t.Context(), []byte(hook)); err != nil {
		t.Fatal(err)
	}
	place := configMapAt(namespace, "c")
	eventually(t, "the webhook is called", func() bool {
		_, err := c.TryCreate(t.Context(), place, object(place, nil))
		return is[*Unreadable](err)
	})
	if created := create(t, c, place, object(place, nil)); created.Outcome != Unknown || created.Code != 500 {
		t.Errorf("%v with %d: %v", created.Outcome, created.Code, created.Err)
	}
	if seen := c.Observe(t.Context(), place); seen.Presence != Absent {
		t.Errorf("the dry run or the refused create left %+v", seen)
	}
}

// A6.3, A6.5: the UID precondition is the server's, and its answers are told
// apart by type.
func TestA6_3_DeleteOnTheRealServer(t *testing.T) {
	cp, namespace := plane(t)
	c := admin(t, cp)
	made := mustCreate(t, c, configMapAt(namespace, "c"), object(configMapAt(namespace, "c"), nil))
	other := made
	other.UID = otherUID
	if err := c.Delete(t.Context(), other, Orphan); !is[*Conflict](err) {
		t.Errorf("with another UID: %T %v", err, err)
	}
	if seen := c.Observe(t.Context(), made); seen.Presence != Present || seen.Meta.Object != made {
		t.Errorf("after a refused delete: %+v", seen)
	}
	if err := c.Delete(t.Context(), made, Orphan); err != nil {
		t.Errorf("with the right UID: %v", err)
	}
	// Accepted is not absent (A6.5): the collector takes the finalizer first.
	eventually(t, "the object is gone", func() bool {
		seen := c.Observe(t.Context(), made)
		return seen.Presence == Absent && is[*Gone](seen.Err)
	})
	if err := c.Delete(t.Context(), made, Orphan); !is[*Gone](err) {
		t.Errorf("a second time: %T %v", err, err)
	}
	nowhere := made
	nowhere.Namespace = "no-such-namespace"
	if err := c.Delete(t.Context(), nowhere, Orphan); !is[*Gone](err) {
		t.Errorf("in no namespace: %T %v", err, err)
	}
}

// A4.2c, A6.3: a suspended Job has no Pod; released by its UID it has one; a
// foreground delete takes both.
func TestA4_2c_ReleaseOnTheRealServer(t *testing.T) {
	cp, namespace := plane(t)
	c := admin(t, cp)
	place := jobAt(namespace, "j")
	job := mustCreate(t, c, place, suspendedJob(place))
	other := job
	other.UID = otherUID
	if err := c.Unsuspend(t.Context(), other); !is[*Conflict](err) {
		t.Errorf("releasing another UID: %T %v", err, err)
	}
	if live, err := c.Job(t.Context(), namespace, "j"); err != nil || live.Spec.Suspend == nil || !*live.Spec.Suspend {
		t.Errorf("after a refused release: %v", err)
	}
	if pods, err := c.Pods(t.Context(), namespace); err != nil || len(pods) != 0 {
		t.Errorf("a suspended Job has Pods: %v, %v", pods, err)
	}
	if err := c.Unsuspend(t.Context(), job); err != nil {
		t.Fatalf("releasing: %v", err)
	}
	eventually(t, "the Job's Pod runs", func() bool {
		pods, err := c.PodsOf(t.Context(), job)
		return err == nil && len(pods) == 1 && pods[0].Status.Phase == corev1.PodRunning
	})
	pods, err := c.Pods(t.Context(), namespace)
	if err != nil || len(pods) != 1 || !pods[0].OwnedBy(job.UID) || pods[0].Nonce != testNonce || fmt.Sprint(pods[0].ControllerUIDs()) != "["+job.UID+"]" {
		t.Errorf("the Pod is read as %+v, %v", pods, err)
	}
	if jobs, err := c.Jobs(t.Context(), namespace, ""); err != nil || len(jobs) != 1 {
		t.Errorf("%d Jobs, %v", len(jobs), err)
	}
	if err := c.Delete(t.Context(), job, Foreground); err != nil {
		t.Fatalf("deleting: %v", err)
	}
	eventually(t, "the Job is gone", func() bool { return c.Observe(t.Context(), job).Presence == Absent })
	if pods, err := c.Pods(t.Context(), namespace); err != nil || len(pods) != 0 {
		t.Errorf("Pods after the foreground delete: %+v, %v", pods, err)
	}
	if err := c.Unsuspend(t.Context(), job); !is[*Gone](err) {
		t.Errorf("releasing what is gone: %T %v", err, err)
	}
}

// recorder keeps every byte that a response carried.
type recorder struct {
	next http.RoundTripper
	seen *bytes.Buffer
}

func (r recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	r.seen.Write(body)
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, err
}

// A6.8: the data of a Secret does not come back, whatever is done to it.
func TestA6_8_SecretDataDoesNotComeBack(t *testing.T) {
	cp, namespace := plane(t)
	var seen bytes.Buffer
	config := cp.AdminConfig()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return recorder{next, &seen} })
	c, err := newForConfig(config, Options{})
	if err != nil {
		t.Fatal(err)
	}
	place := secretAt(namespace, "s")
	body := object(place, map[string]any{"data": map[string]string{"password": "Y2FuYXJ5LWNhbmFyeQ=="}})
	if tried, err := c.TryCreate(t.Context(), place, body); err != nil || tried.Object != nil || tried.Meta.Object.UID != "" || tried.Meta.Nonce != testNonce {
		t.Errorf("tried as %+v, %v", tried, err)
	}
	made := mustCreate(t, c, place, body)
	create(t, c, place, body) // 409
	c.Observe(t.Context(), place)
	if list, err := c.List(t.Context(), "v1", "Secret", namespace, ""); err != nil || len(list) != 1 {
		t.Errorf("listed as %v, %v", list, err)
	}
	if err := c.Delete(t.Context(), made, Foreground); err != nil { // answered with the object, which has a finalizer now
		t.Error(err)
	}
	if !strings.Contains(seen.String(), made.UID) {
		t.Fatal("no answer was recorded, so this test proves nothing")
	}
	// The key's name does come back, in managedFields; the value does not.
	for _, canary := range []string{"Y2FuYXJ5", "canary-canary"} {
		if strings.Contains(seen.String(), canary) {
			t.Errorf("%q came back: %s", canary, seen.String())
		}
	}
}
