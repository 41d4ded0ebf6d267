package kube

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/holdfast-project/holdfast/internal/identity"
)

// A3.3, A6.8: whoever refuses the deletion of a Secret may quote it, and a cleanup
// does not know its values. What is told is the code, the reason and who refused; of
// every other object the whole.
func TestA3_3_RefusedDeletionOfASecret(t *testing.T) {
	const value = "Hunter2-value"
	for name, row := range map[string]struct {
		code            int
		reason, message string
		want            string
	}{
		"a webhook": {403, "Forbidden", `admission webhook "guard.example.com" denied the request: token is ` + value,
			`403 Forbidden: admission webhook "guard.example.com" denied the request; its words are left out`},
		"a webhook that explains nothing": {400, "", `admission webhook "guard.example.com" denied the request without explanation`,
			`400: admission webhook "guard.example.com" denied the request`},
		"a webhook that words the reason": {422, value, `admission webhook "guard.example.com" denied the request: ` + value,
			`422: admission webhook "guard.example.com" denied the request`},
		"a webhook that fails": {500, "InternalError", `Internal error occurred: failed calling webhook "guard.example.com": failed to call webhook: an error on the server ("` + value + `")`,
			`500 InternalError: Internal error occurred: failed calling webhook "guard.example.com"; its words`},
		"a policy": {403, "Forbidden", `secrets "s" is forbidden: ValidatingAdmissionPolicy 'p.example.com' with binding 'b' denied request: ` + value,
			`ValidatingAdmissionPolicy 'p.example.com' with binding 'b' denied request; its words`},
		"a missing right": {403, "Forbidden", `secrets "s" is forbidden: User "system:serviceaccount:a:b" cannot delete resource "secrets" in API group "" in the namespace "ns"`,
			`User "system:serviceaccount:a:b" cannot delete resource "secrets" in API group "" in the namespace "ns" (refused`},
		"an expired login":         {401, "Unauthorized", "Unauthorized", "401 Unauthorized: Unauthorized (refused"},
		"words that nobody knows":  {409, "Conflict", "the object holds " + value, "409 Conflict: its words are left out"},
		"words after a false name": {403, "Forbidden", `admission webhook "` + value + `" denied the request`, "403 Forbidden: its words are left out"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, object := range []identity.Object{secretAt("ns", "s"), testJob()} {
				object.UID = testUID
				err := deletionAnswered(t, object, row.code, row.reason, row.message, func(string) {})
				told := object.Kind != "Secret"
				if strings.Contains(err.Error(), value) != (told && strings.Contains(row.message, value)) {
					t.Errorf("%s: %v", object, err)
				}
				if !told && !strings.Contains(err.Error(), row.want) {
					t.Errorf("%v\ndoes not say %q", err, row.want)
				}
				if told && !strings.Contains(err.Error(), row.message) {
					t.Errorf("%v\ndoes not say what was refused", err)
				}
			}
		})
	}
}

// A3.3: neither does a warning beside an accepted deletion, and it is not hushed up.
func TestA3_3_WarningBesideADeletionOfASecret(t *testing.T) {
	for kind, object := range map[string]identity.Object{"Secret": secretAt("ns", "s"), "Job": testJob()} {
		object.UID = testUID
		var warned []string
		_ = deletionAnswered(t, object, 403, "Forbidden", "no", func(text string) { warned = append(warned, text) })
		text := strings.Join(warned, "|")
		if strings.Contains(text, "quoted-value") != (kind == "Job") || len(warned) != 1 || kind == "Secret" && !strings.Contains(text, "deleting Secret ns/s") {
			t.Errorf("%s: %q", kind, text)
		}
	}
}

// deletionAnswered deletes the object and is answered with this Status and a warning.
func deletionAnswered(t *testing.T, object identity.Object, code int, reason, message string, warn func(string)) error {
	t.Helper()
	status := map[string]any{
		"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message,
		"details": map[string]any{"causes": []any{map[string]any{"message": message}}},
	}
	body, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	network := &answers{code: code, header: http.Header{"Warning": {`299 - "it holds quoted-value"`}}, body: string(body)}
	network.header.Set(auditHeader, "echo")
	c, err := newForConfig(&rest.Config{Host: "http://cluster.invalid", Transport: network}, Options{Warn: warn})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Delete(t.Context(), object, Orphan)
	if err == nil || strings.Contains(fmt.Sprintf("%+v", err), "quoted-value") {
		t.Fatalf("got %v", err)
	}
	return err
}
