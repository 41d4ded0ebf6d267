package preflight

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/test/apiproxy"
)

// refusesCleanly demands exit 2 with its reason, no evidence directory, and
// nothing created: not a moment of it (the proxy has seen every request).
func (s *site) refusesCleanly(args []string, reasons ...string) {
	s.t.Helper()
	proxy := s.through(apiproxy.Hooks{})
	e := s.expect(s.run(args...), 2)
	s.says(e, reasons...)
	if _, err := os.Lstat(s.evidence); err == nil {
		s.t.Error("an evidence directory was made")
	}
	for _, seen := range proxy.Requests() {
		reads := seen.Method == http.MethodGet || strings.HasSuffix(seen.Path, "/selfsubjectaccessreviews")
		if !reads && !seen.DryRun() {
			s.t.Errorf("%s %s was sent", seen.Method, seen.Path)
		}
	}
}

// rule is CREATE of one resource.
func rule(group, version, plural string) []admissionregistrationv1.RuleWithOperations {
	return []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{plural}},
	}}
}

func (s *site) selector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.namespace}}
}

// A4.2b: a dead admission webhook.
func TestDeadWebhookIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	url, fail, none := "https://127.0.0.1:1/", admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone
	webhooks := world.cluster.Client().AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := webhooks.Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "dead.holdfast.test", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url}, Rules: rule("batch", "v1", "jobs"),
			FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: []string{"v1"}, NamespaceSelector: s.selector(),
		}},
	}, metav1.CreateOptions{})
	s.must(err)
	t.Cleanup(func() { _ = webhooks.Delete(t.Context(), s.namespace, metav1.DeleteOptions{}) })
	s.until("the webhook", func() bool { return s.trial("dead.holdfast.test") })
	s.refusesCleanly(s.preflightArgs(), "dead.holdfast.test")
}

// trial reports whether a dry run of a Job is answered with this word: admission
// configuration reaches the API server a moment after it is stored.
func (s *site) trial(word string) bool {
	body := `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"trial"},"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}`
	answer, err := world.cluster.Client().BatchV1().RESTClient().Post().Namespace(s.namespace).Resource("jobs").
		Param("dryRun", "All").SetHeader("Content-Type", "application/json").Body([]byte(body)).DoRaw(s.t.Context())
	return strings.Contains(string(answer), word) || err != nil && strings.Contains(err.Error(), word)
}

// A4.2b: a webhook that adds a finalizer, which cleanup would wait for.
func TestAddedFinalizerIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	server := httptest.NewTLSServer(http.HandlerFunc(addFinalizer))
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	fail, none := admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone
	webhooks := world.cluster.Client().AdmissionregistrationV1().MutatingWebhookConfigurations()
	_, err := webhooks.Create(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "holder.holdfast.test", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &server.URL, CABundle: ca}, Rules: rule("batch", "v1", "jobs"),
			FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: []string{"v1"}, NamespaceSelector: s.selector(),
		}},
	}, metav1.CreateOptions{})
	s.must(err)
	t.Cleanup(func() { _ = webhooks.Delete(t.Context(), s.namespace, metav1.DeleteOptions{}) })
	s.until("the webhook", func() bool { return s.trial("test.example/hold") })
	s.refusesCleanly(s.preflightArgs(), "test.example/hold", "slot migration")
}

func addFinalizer(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var review admissionv1.AdmissionReview
	if json.Unmarshal(body, &review) != nil || review.Request == nil {
		http.Error(w, "no review", http.StatusBadRequest)
		return
	}
	kind := admissionv1.PatchTypeJSONPatch
	review.Response = &admissionv1.AdmissionResponse{
		UID: review.Request.UID, Allowed: true, PatchType: &kind,
		Patch: []byte(`[{"op":"add","path":"/metadata/finalizers","value":["test.example/hold"]}]`),
	}
	_ = json.NewEncoder(w).Encode(review)
}

// A4.2b: an exceeded quota.
func TestExceededQuotaIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	quotas := world.cluster.Client().CoreV1().ResourceQuotas(s.namespace)
	_, err := quotas.Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "none"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/jobs.batch": resource.MustParse("0")}},
	}, metav1.CreateOptions{})
	s.must(err)
	s.until("the quota", func() bool { return s.trial("exceeded quota") })
	s.refusesCleanly(s.preflightArgs(), "exceeded quota")
}

// A4.2d: a preflight beside another one of the same release, and beside what an
// interrupted one left.
func TestSecondPreflightOfTheReleaseIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.behave(map[string]string{"migration": "hang"})
	first := s.start(nil, s.preflightArgs()...)
	s.until("the first one's Job", func() bool { return s.record("preflight-migration-released.json") })

	second := *s
	second.evidence = filepath.Join(s.dir, "second")
	second.kubeconfig = filepath.Join(s.dir, "second.kubeconfig")
	content, err := os.ReadFile(s.kubeconfig)
	s.must(err)
	second.write(second.kubeconfig, string(content))
	second.refusesCleanly(second.preflightArgs(), "another preflight of this release")

	s.must(first.cmd.Process.Kill())
	s.wait(first)
	second.refusesCleanly(second.preflightArgs(), "another preflight of this release")
	// A1.2: the lock died with the process, so cleanup gets it.
	s.expect(s.run(s.cleanupArgs()...), 0)
	s.nothingLeft()
}

// A4.3: a Service of the live namespace that chooses by the instance label.
func TestServiceThatWouldSelectUsIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	_, err := world.cluster.Client().CoreV1().Services(s.namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "greedy"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{identity.InstanceLabel: s.release}, Ports: []corev1.ServicePort{{Port: 80}},
		},
	}, metav1.CreateOptions{})
	s.must(err)
	s.refusesCleanly(s.preflightArgs(), "greedy", "slot migration")
}

// A1.6, A6.12: without one permission nothing is made, and it is named.
func TestMissingPermissionIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.asServiceAccount("preflight-cleanup-role.yaml")
	s.refusesCleanly(s.preflightArgs(), "may not: create jobs", "patch jobs")
}

// A6.12: the two shipped Roles are enough for a run and for its cleanup.
func TestShippedRolesAreEnough(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.asServiceAccount("preflight-cleanup-role.yaml", "preflight-run-role.yaml")
	s.expect(s.run(s.preflightArgs()...), 0)
	s.expect(s.run(s.cleanupArgs()...), 0)
	s.nothingLeft()
}

// asServiceAccount makes the site's kubeconfig that of the shipped Roles'
// ServiceAccount, bound in the site's namespace to the given files alone.
func (s *site) asServiceAccount(files ...string) {
	s.t.Helper()
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(world.root, "config/rbac", file))
		s.must(err)
		s.must(world.cluster.ApplyYAML(s.t.Context(), []byte(strings.ReplaceAll(string(content), "openclaw-system", s.namespace))))
	}
	accounts := world.cluster.Client().CoreV1().ServiceAccounts(s.namespace)
	_, err := accounts.Create(s.t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "preflight-cleanup"}}, metav1.CreateOptions{})
	if err != nil {
		_, err = accounts.Get(s.t.Context(), "preflight-cleanup", metav1.GetOptions{})
	}
	s.must(err)
	path, err := world.cluster.KubeconfigFor(s.t.Context(), s.namespace, "preflight-cleanup")
	s.must(err)
	content, err := os.ReadFile(path)
	s.must(err)
	s.write(s.kubeconfig, string(content))
}
