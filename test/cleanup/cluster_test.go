package cleanup

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/test/controlplane"
)

// A6.2, A3.9: another cluster behind the same kubeconfig answers 404 to
// everything; nothing but its identity is read.
func TestAnotherCluster(t *testing.T) {
	tr := begin(t, options{})
	tr.acknowledge("secret", "network-policy", "migration")
	tr.crash()
	elsewhere := controlplane.StartForTest(t, controlplane.Options{NoControllerManager: true, NoScheduler: true, NoPodRunner: true})
	tr.through(elsewhere, true)
	namespace := []byte("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: " + tr.namespace + "\n")
	for _, there := range []bool{false, true} {
		if there {
			tr.must(elsewhere.ApplyYAML(t.Context(), namespace))
		}
		tr.proxy.Forget()
		r := tr.clean()
		tr.expect(r, evidence.Incomplete, "migration=unreadable", "secret=retained", "network-policy=retained")
		if !strings.Contains(r.Reasons[0], "another cluster") {
			t.Errorf("because of %q", r.Reasons)
		}
		if sent := tr.proxy.Requests(); len(sent) != 2 {
			t.Errorf("%d requests were sent", len(sent))
		}
	}
	for slot, object := range tr.created {
		if !tr.exists(object) {
			t.Errorf("%s is gone", slot)
		}
	}
}

// remakeNamespace ends the namespace with all that is in it and makes it anew,
// with the shipped Roles.
func (tr *trial) remakeNamespace() {
	tr.t.Helper()
	client := shared.Client().CoreV1().Namespaces()
	tr.absentSoon(client.Delete(tr.t.Context(), tr.namespace, metav1.DeleteOptions{}), "the namespace", func() error {
		_, err := client.Get(tr.t.Context(), tr.namespace, metav1.GetOptions{})
		return err
	})
	tr.makeNamespace(nil)
	tr.through(shared, false)
}

// A6.2: a namespace that was made anew in the same cluster: each resource is
// judged by its own absence read.
func TestNamespaceMadeAnew(t *testing.T) {
	tr := begin(t, options{})
	tr.acknowledge("secret", "network-policy", "migration")
	tr.crash()
	tr.remakeNamespace()
	r := tr.clean()
	tr.expect(r, evidence.Complete, "migration=absent", "secret=absent", "network-policy=absent")
	if r.Cluster[0].NamespaceUID == tr.recorded.NamespaceUID || r.Cluster[0].KubeSystemUID != tr.recorded.KubeSystemUID {
		t.Errorf("the readings are %+v", r.Cluster)
	}
}

// A6.2: the same, where the evidence does not record kube-system: this cannot be
// told from another cluster, and nothing is sent.
func TestNamespaceMadeAnewWithoutKubeSystem(t *testing.T) {
	tr := begin(t, options{withoutKubeSystem: true})
	tr.acknowledge("secret", "network-policy", "migration")
	tr.crash()
	tr.remakeNamespace()
	r := tr.clean()
	tr.expect(r, evidence.Incomplete, "migration=unreadable", "secret=retained")
	if sent := tr.proxy.Requests(); len(sent) != 2 {
		t.Errorf("%d requests were sent", len(sent))
	}
}

// A6.2: kube-system is on record and may no longer be read: the Namespace decides
// alone, and it is the same.
func TestKubeSystemForbidden(t *testing.T) {
	tr := begin(t, options{role: func(role string) string {
		return role[:strings.Index(role, "---\n# Optional")]
	}})
	tr.acknowledge("secret", "network-policy", "migration")
	tr.crash()
	tr.expect(tr.clean(), evidence.Complete, "migration=absent", "secret=absent")
}

// A6.2: a forced finalize takes the Namespace and leaves what was in it. With
// kube-system matching, each DELETE is still sent: its UID is the proof.
func TestForcedFinalize(t *testing.T) {
	tr := begin(t, options{asAdmin: true})
	tr.acknowledge("secret", "network-policy", "migration")
	tr.crash()
	namespaces := shared.Client().CoreV1().Namespaces()
	namespace, err := namespaces.Get(t.Context(), tr.namespace, metav1.GetOptions{})
	tr.must(err)
	namespace.Spec.Finalizers = nil
	_, err = namespaces.Finalize(t.Context(), namespace, metav1.UpdateOptions{})
	tr.must(err)
	// The first DELETE marks it as terminating, and the next one, with nothing
	// to finalize, removes it.
	tr.absentSoon(nil, "the namespace", func() error {
		return namespaces.Delete(t.Context(), tr.namespace, metav1.DeleteOptions{})
	})
	if !tr.exists(tr.created["secret"]) {
		t.Fatal("nothing was left behind: the test proves nothing")
	}
	r := tr.clean()
	tr.expect(r, evidence.Complete, "migration=absent", "secret=absent", "network-policy=absent")
	for slot, object := range tr.created {
		if tr.exists(object) {
			t.Errorf("%s is there", slot)
		}
	}
}

// A6.2a: a gateway's 404 is no absence.
func TestGatewaysNotFound(t *testing.T) {
	tr := begin(t, options{})
	tr.acknowledge("secret", "network-policy", "migration")
	tr.crash()
	tr.proxy.Hook(notFoundFor("/jobs/"))
	r := tr.clean()
	tr.expect(r, evidence.Incomplete, "migration=unreadable", "secret=retained")
	tr.proxy.Hook(notFoundFor("/never"))
	tr.expect(tr.clean(), evidence.Complete, "migration=absent", "secret=absent")
}

// slowPodWebhook makes every Pod create of the namespace wait, and tells of each
// one that has begun to wait.
func (tr *trial) slowPodWebhook(wait time.Duration) <-chan struct{} {
	tr.t.Helper()
	begun := make(chan struct{}, 10)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &review)
		}
		if err != nil || review.Request == nil {
			http.Error(w, "no review", http.StatusBadRequest)
			return
		}
		begun <- struct{}{}
		time.Sleep(wait) // this is the webhook's slowness, not a wait for a result
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		_ = json.NewEncoder(w).Encode(review)
	}))
	tr.t.Cleanup(server.Close)
	url, seconds, ignore := server.URL, int32(30), admissionregistrationv1.Ignore
	none := admissionregistrationv1.SideEffectClassNone
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "slow-" + tr.namespace},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:                    "slow.holdfast.test",
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: certificate(server.Certificate())},
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": tr.namespace}},
			FailurePolicy:           &ignore,
			SideEffects:             &none,
			TimeoutSeconds:          &seconds,
			AdmissionReviewVersions: []string{"v1"},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
		}},
	}
	webhooks := shared.Client().AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := webhooks.Create(tr.t.Context(), configuration, metav1.CreateOptions{})
	tr.must(err)
	tr.t.Cleanup(func() { _ = webhooks.Delete(contextOf(tr.t), configuration.Name, metav1.DeleteOptions{}) })
	tr.awaitWebhook(begun)
	return begun
}

func certificate(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

// awaitWebhook waits until the API server asks the webhook: it hears of a new
// configuration a moment after it was made. A dry run leaves no Pod.
func (tr *trial) awaitWebhook(begun chan struct{}) {
	tr.t.Helper()
	p := tr.planned("api")
	pod := tr.manifest(p)["spec"].(object)["template"].(object)
	pod["apiVersion"], pod["kind"] = "v1", "Pod"
	pod["metadata"] = object{"name": "probe", "namespace": tr.namespace}
	body := encode(tr.t, pod)
	tr.eventually("the webhook", func() bool {
		_, err := shared.Client().CoreV1().RESTClient().Post().Namespace(tr.namespace).Resource("pods").Param("dryRun", "All").
			SetHeader("Content-Type", "application/json").Body(body).Do(tr.t.Context()).Raw()
		tr.must(err)
		return len(begun) > 0
	})
	<-begun
}

// A6.12: the shipped Role is what cleanup asks for; without one of its rules
// cleanup says so, claims nothing and keeps the dependencies.
func TestEveryRuleIsNeeded(t *testing.T) {
	for _, row := range []struct{ name, old, new, outcome string }{
		{"get namespaces", "resources: [namespaces]\n    resourceNames: [NS]\n    verbs: [get]", "resources: [namespaces]\n    resourceNames: [other]\n    verbs: [get]", "secret=retained"},
		{"get jobs", "resources: [jobs]\n    verbs: [get, delete]", "resources: [jobs]\n    verbs: [delete]", "migration=unreadable"},
		{"delete jobs", "resources: [jobs]\n    verbs: [get, delete]", "resources: [jobs]\n    verbs: [get]", "migration=remaining"},
		{"get secrets", "resources: [secrets]\n    verbs: [get, delete]", "resources: [secrets]\n    verbs: [delete]", "secret=unreadable"},
		{"delete secrets", "resources: [secrets]\n    verbs: [get, delete]", "resources: [secrets]\n    verbs: [get]", "secret=remaining"},
		{"get networkpolicies", "resources: [networkpolicies]\n    verbs: [get, delete]", "resources: [networkpolicies]\n    verbs: [delete]", "network-policy=unreadable"},
		{"delete networkpolicies", "resources: [networkpolicies]\n    verbs: [get, delete]", "resources: [networkpolicies]\n    verbs: [get]", "network-policy=remaining"},
		{"get pods", "verbs: [get, list]", "verbs: [list]", "migration=unreadable"},
		{"list pods", "verbs: [get, list]", "verbs: [get]", "migration=unreadable"},
	} {
		t.Run(row.name, func(t *testing.T) {
			tr := begin(t, options{role: func(role string) string {
				namespace := strings.Split(strings.Split(role, "resourceNames: [")[1], "]")[0]
				old := strings.ReplaceAll(row.old, "NS", namespace)
				if strings.Count(role, old) != 1 {
					t.Fatalf("the Role holds %q %d times", old, strings.Count(role, old))
				}
				return strings.Replace(role, old, row.new, 1)
			}})
			tr.acknowledge("secret", "network-policy", "migration")
			tr.release(true, "migration")
			tr.crash()
			tr.expect(tr.clean(), evidence.Incomplete, row.outcome)
		})
	}
}

// A6.12: verbs used are verbs granted, and the account may do nothing else that
// cleanup could be made to do.
func TestShippedRole(t *testing.T) {
	tr := begin(t, options{})
	denied, err := tr.client.May(t.Context(), permissions(tr.namespace))
	tr.must(err)
	if len(denied) > 0 {
		t.Errorf("the shipped Role denies %+v", denied)
	}
	forbidden := []kube.Permission{
		{Verb: "create", Group: "batch", Resource: "jobs", Namespace: tr.namespace},
		{Verb: "patch", Group: "batch", Resource: "jobs", Namespace: tr.namespace},
		{Verb: "deletecollection", Group: "batch", Resource: "jobs", Namespace: tr.namespace},
		{Verb: "list", Resource: "secrets", Namespace: tr.namespace},
		{Verb: "delete", Resource: "pods", Namespace: tr.namespace},
		{Verb: "get", Resource: "secrets", Namespace: "kube-system"},
		{Verb: "list", Resource: "namespaces"},
		{Verb: "get", Resource: "pods", Subresource: "log", Namespace: tr.namespace},
	}
	denied, err = tr.client.May(t.Context(), forbidden)
	tr.must(err)
	if len(denied) != len(forbidden) {
		t.Errorf("of %d forbidden deeds only these are denied: %+v", len(forbidden), denied)
	}
	tr.proxy.Forget()

	tr.everything()
	tr.crash()
	tr.expect(tr.clean(), evidence.Complete)
	records, err := shared.AuditOf(controlplane.AuditFilter{User: "system:serviceaccount:" + tr.namespace + ":" + serviceAccount})
	tr.must(err)
	used := map[string]bool{}
	for _, r := range records {
		if r.Resource != "selfsubjectaccessreviews" {
			used[r.Verb+" "+r.Resource] = true
		}
	}
	for _, p := range permissions(tr.namespace) {
		if !used[p.Verb+" "+p.Resource] {
			t.Errorf("%s %s is granted and not used", p.Verb, p.Resource)
		}
		delete(used, p.Verb+" "+p.Resource)
	}
	if len(used) > 0 {
		t.Errorf("used and not among the permissions: %v", used)
	}
}
