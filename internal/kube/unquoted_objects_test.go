package kube

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// B4.5, B8.3: of an answer about a Secret, whichever verb it was, nobody's words reach an
// event or the log: who refuses it is shown the Secret, and so is who answers garbage.
// What is told of a HelmRelease is the whole.
func TestB8_3_AnswersAboutASecretAreNotQuoted(t *testing.T) {
	const value = "Hunter2-value"
	status := func(code int, reason, message string) string {
		raw, err := json.Marshal(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message,
			"details": map[string]any{"causes": []any{map[string]any{"message": message, "field": "data"}}}})
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	releases := Resource{Group: "helm.toolkit.fluxcd.io", Version: "v2", Plural: "helmreleases", Kind: "HelmRelease"}
	for name, answer := range map[string]struct {
		code       int
		body, says string
	}{
		"a webhook":               {403, status(403, "Forbidden", `admission webhook "guard.example.com" denied the request: `+value), `403 Forbidden: admission webhook "guard.example.com" denied the request`},
		"a webhook's own reason":  {422, status(422, value, `admission webhook "guard.example.com" denied the request: `+value), `422: admission webhook "guard.example.com" denied the request`},
		"a webhook that fails":    {500, status(500, "InternalError", `Internal error occurred: failed calling webhook "guard.example.com": `+value), `500 InternalError: Internal error occurred: failed calling webhook "guard.example.com"`},
		"a policy":                {422, status(422, "Invalid", `secrets "s" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: `+value), "ValidatingAdmissionPolicy 'p' with binding 'b' denied request"},
		"a conflict":              {409, status(409, "Conflict", "the object holds "+value), "409 Conflict"},
		"a page":                  {502, "<html>" + value, "502"},
		"no object":               {200, `{"data":{"release":"` + value + `"}}`, ""},
		"no JSON":                 {200, value, ""},
		"a right that is missing": {403, status(403, "Forbidden", `secrets "s" is forbidden: User "u" cannot VERB resource "secrets" in API group "" in the namespace "ns"`), `User "u" cannot VERB resource "secrets" in API group "" in the namespace "ns"`},
	} {
		for verb, send := range map[string]func(*Objects, Resource) error{
			"get": func(o *Objects, r Resource) error { _, err := o.Get(t.Context(), r, "ns", "s"); return err },
			"list": func(o *Objects, r Resource) error {
				_, err := o.ListMetadata(t.Context(), r, Selection{Namespace: "ns"})
				return err
			},
			"delete": func(o *Objects, r Resource) error {
				v := Version{Resource: r, Object: r.At("ns", "s"), ResourceVersion: "1"}
				v.Object.UID = testUID
				return o.DeleteExactly(t.Context(), v)
			},
			"update": func(o *Objects, _ Resource) error {
				read := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret",
					"metadata": map[string]any{"namespace": "ns", "name": "s", "uid": testUID, "resourceVersion": "1"}}}
				_, err := o.UpdateSecret(t.Context(), Secret{read}, SecretChange{})
				return err
			},
		} {
			network := &answers{code: answer.code, body: strings.ReplaceAll(answer.body, "VERB", verb),
				header: http.Header{"Content-Type": {"application/json"}, http.CanonicalHeaderKey(auditHeader): {"echo"}, "Warning": {`299 - "it holds ` + value + `"`}}}
			var warned bytes.Buffer
			o, err := NewObjects(&rest.Config{Host: "http://cluster.invalid", Transport: network, RateLimiter: flowcontrol.NewFakeAlwaysRateLimiter(),
				WarningHandler: rest.NewWarningWriter(&warned, rest.WarningWriterOptions{})}, "test")
			if err != nil {
				t.Fatal(err)
			}
			err = send(o, Secrets())
			if answer.code == 200 && (verb == "delete" || verb == "list") {
				continue // an answer that nothing is read from, or an empty list
			}
			says := strings.ReplaceAll(answer.says, "VERB", verb)
			if err == nil || strings.Contains(fmt.Sprintf("%v %+v", err, err), value) || !strings.Contains(err.Error(), says) {
				t.Errorf("%s, %s: %v\ndoes not say %q alone", name, verb, err, says)
			}
			if strings.Contains(warned.String(), value) {
				t.Errorf("%s, %s: the log says %s", name, verb, warned.String())
			}
			if verb == "update" || answer.code == 200 || answer.code == 502 || strings.Contains(answer.body, "VERB") {
				continue
			}
			if err := send(o, releases); err == nil || !strings.Contains(err.Error(), value) {
				t.Errorf("%s, %s a HelmRelease: %v does not say what was refused", name, verb, err)
			}
			if !strings.Contains(warned.String(), value) {
				t.Errorf("%s, %s a HelmRelease: the warning is hushed up: %s", name, verb, warned.String())
			}
		}
	}
}
