package kube

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A3.3, A6.8: on a real API server a policy does see the Secret that is deleted, and
// its words are the ones that are left out.
func TestA3_3_PolicyOnTheRealServer(t *testing.T) {
	cp, namespace := plane(t)
	c := admin(t, cp)
	policy := fmt.Sprintf(`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: %[1]s}, spec: {
		failurePolicy: Fail,
		matchConstraints: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}},
			resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [DELETE], resources: [secrets]}]},
		validations: [{expression: "false", messageExpression: "'it holds ' + string(oldObject.data.k)"}]}}`, namespace)
	binding := fmt.Sprintf(`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: %[1]s},
		spec: {policyName: %[1]s, validationActions: [Deny]}}`, namespace)
	for _, text := range []string{policy, binding} {
		if err := cp.ApplyYAML(t.Context(), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	tried := 0
	eventually(t, "the policy refuses a deletion", func() bool {
		tried++
		place := secretAt(namespace, fmt.Sprintf("s%d", tried))
		secret := mustCreate(t, c, place, object(place, map[string]any{"data": map[string]string{"k": "Y2FuYXJ5"}}))
		err := c.Delete(t.Context(), secret, Background)
		if err == nil {
			return false
		}
		// The control: this is what anybody else is told.
		raw := cp.Client().CoreV1().Secrets(namespace).Delete(t.Context(), place.Name, metav1.DeleteOptions{})
		if raw == nil || !strings.Contains(raw.Error(), "it holds canary") && !strings.Contains(raw.Error(), "it holds Y2FuYXJ5") {
			t.Errorf("the policy quotes nothing: %v", raw)
		}
		want := "ValidatingAdmissionPolicy '" + namespace + "' with binding '" + namespace + "' denied request; " + leftOut
		if !is[*Refused](err) || strings.Contains(err.Error(), "it holds") || !strings.Contains(err.Error(), want) {
			t.Errorf("%T %v", err, err)
		}
		return true
	})
}
