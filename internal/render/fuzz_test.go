package render

import (
	"errors"
	"strings"
	"testing"
)

// A4.2: a reference that is accepted has one spelling, and only characters that
// every runtime reads alike.
func FuzzParseImage(f *testing.F) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	for _, reference := range []string{
		"registry.example/a/b@" + digest, "localhost:5000/a@" + digest, "a@" + digest, "a:tag@" + digest,
		"a:1@sha256:00", "a@" + strings.ToUpper(digest), "a@" + digest + "\n", "a/../b@" + digest, "A@" + digest, "a:latest",
	} {
		f.Add(reference)
	}
	f.Fuzz(func(t *testing.T, reference string) {
		image, err := ParseImage(reference)
		if err != nil {
			var refused *InputError
			if !errors.As(err, &refused) {
				t.Fatalf("%q: %v", reference, err)
			}
			return
		}
		if image.String() != reference || !imageDigest.MatchString(image.Digest) || strings.ContainsAny(image.Name, "@ \n\t'\"$\\") || strings.Contains(image.Name, "..") {
			t.Fatalf("%q is read as %+v", reference, image)
		}
		if rendered, err := parseRendered(reference); err != nil || rendered != image {
			t.Fatalf("%q is rendered as %+v (%v)", reference, rendered, err)
		}
	})
}

// A4.4, A3.3: whatever a chart renders, it is refused in one sentence that quotes
// nothing of it, since it may be a Secret, or it is a list of objects.
func FuzzParseObjects(f *testing.F) {
	for _, text := range []string{
		"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: planted-value-77}\n",
		"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}\n- 1\n",
		"# nothing\n---\n\n---\nkind: X\n", "a: &a [*a]\n", "planted-value-77: [", "apiVersion: v1\nkind: Pod\nmetadata: {annotations: {helm.sh/hook: test}}\n",
		"{apiVersion: v1, kind: Job, metadata: {name: [planted-value-77]}}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		objects, err := parseObjects(map[string]string{"chart/templates/t.yaml": text}, "ns")
		if err != nil {
			if strings.Contains(err.Error(), "planted-value-77") || strings.Contains(err.Error(), "\n") {
				t.Fatalf("got %q", err)
			}
			return
		}
		for _, o := range objects {
			if o.GetKind() == "" || o.GetNamespace() != "" && o.GetNamespace() != "ns" {
				t.Fatalf("%q gives %s in %s", text, o.GetKind(), o.GetNamespace())
			}
			_, _ = findSecret(objects, &SecretSource{Component: o.GetLabels()["app.kubernetes.io/component"]})
		}
	})
}
