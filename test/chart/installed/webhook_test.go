package installed

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// underThePatch has change called once, in the middle of the hook's next patch of
// the release: after the API server read the release for it, and before it stores
// the outcome. An admission webhook is the one place from which that can be done
// to a process that runs as it is shipped. What is returned reports whether it was.
func (s *site) underThePatch(release string, change func() error) (changed func() bool) {
	s.Helper()
	var once sync.Once
	var done bool
	var mu sync.Mutex
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		once.Do(func() {
			if err := change(); err != nil {
				s.Errorf("changing %s under the hook's patch: %v", release, err)
			}
			mu.Lock()
			defer mu.Unlock()
			done = true
		})
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		_ = json.NewEncoder(w).Encode(review) // the API server's failure, if it has gone
	}))
	s.Cleanup(server.Close)
	s.admit(release, server)
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		return done
	}
}

// admit asks the server about the hook's patches of the release, and about nothing
// else, until the test ends.
func (s *site) admit(release string, server *httptest.Server) {
	s.Helper()
	none, fail, scope := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Fail, admissionregistrationv1.NamespacedScope
	webhooks := shared.ControlPlane.Client().AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := webhooks.Create(s.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: s.name + "-under-the-patch"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "under-the-patch.example.com", SideEffects: &none, FailurePolicy: &fail, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &server.URL,
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})},
			Rules: []admissionregistrationv1.RuleWithOperations{{Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
				Rule: admissionregistrationv1.Rule{APIGroups: []string{"helm.toolkit.fluxcd.io"}, APIVersions: []string{"v2"}, Resources: []string{"helmreleases"}, Scope: &scope}}},
			MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "hook",
				Expression: fmt.Sprintf("request.userInfo.username == %q && request.name == %q", s.user("-hook"), release)}},
		}},
	}, metav1.CreateOptions{})
	s.must(err)
	s.Cleanup(func() {
		err := webhooks.Delete(context.Background(), s.name+"-under-the-patch", metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			s.Error(err)
		}
	})
}
