package render

import (
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/strictjson"
)

func TestObjectName(t *testing.T) {
	for name, row := range map[string]struct {
		release string
		slot    identity.Slot
		want    string
	}{
		"A4.3: it fits":       {"demo", "api", "demo-preflight-api-0a1b2c3d"},
		"A4.3: a dot":         {"demo.v2", "api", "demo-v2-preflight-api-0a1b2c3d"},
		"A4.3: exactly 63":    {strings.Repeat("a", 40), "api", strings.Repeat("a", 40) + "-preflight-api-0a1b2c3d"},
		"A4.3: one too long":  {strings.Repeat("a", 41), "api", strings.Repeat("a", 33) + "-" + strictjson.Sum([]byte(strings.Repeat("a", 41)))[:6] + "-preflight-api-0a1b2c3d"},
		"A4.3: cut at a dash": {strings.Repeat("a", 32) + "-" + strings.Repeat("b", 20), "api", strings.Repeat("a", 32) + "-" + strictjson.Sum([]byte(strings.Repeat("a", 32) + "-" + strings.Repeat("b", 20)))[:6] + "-preflight-api-0a1b2c3d"},
		"A4.3: the migration": {"openclaw-enterprise", "migration", "openclaw-enterprise-preflight-migration-0a1b2c3d"},
		"A4.3: the policy":    {"openclaw-enterprise", "network-policy", "openclaw-enterprise-preflight-network-policy-0a1b2c3d"},
	} {
		t.Run(name, func(t *testing.T) {
			got := objectName(row.release, row.slot, testNonce)
			if len(got) > 63 || got != row.want {
				t.Errorf("got %q of %d characters, want %q", got, len(got), row.want)
			}
		})
	}
}

// A4.3: every name is a DNS label of at most 63 characters that ends with its
// slot and nonce, and two releases, slots or nonces never share one.
func TestNamesProperty(t *testing.T) {
	release := rapid.StringMatching(`[a-z0-9]([a-z0-9.-]{0,51}[a-z0-9])?`).Filter(releasePattern.MatchString)
	slot := rapid.StringMatching(`[a-z][a-z0-9]{0,9}(-[a-z0-9]{1,9})?`).Filter(func(s string) bool { return identity.ValidSlot(identity.Slot(s)) })
	nonce := rapid.StringMatching(`[0-9a-f]{32}`)
	rapid.Check(t, func(t *rapid.T) {
		r1, s1, n1 := release.Draw(t, "release"), slot.Draw(t, "slot"), nonce.Draw(t, "nonce")
		got := objectName(r1, identity.Slot(s1), n1)
		if problems := validation.IsDNS1123Label(got); len(problems) > 0 {
			t.Fatalf("%q: %v", got, problems)
		}
		if !strings.HasSuffix(got, "-preflight-"+s1+"-"+n1[:8]) {
			t.Fatalf("%q does not end with its slot and nonce", got)
		}
		if s2 := slot.Draw(t, "other slot"); s1 != s2 && got == objectName(r1, identity.Slot(s2), n1) {
			t.Fatalf("slots %q and %q share the name %q", s1, s2, got)
		}
		r2 := release.Draw(t, "other release")
		// A dot and a dash become the same character; the label tells them apart.
		distinct := strings.ReplaceAll(r1, ".", "-") != strings.ReplaceAll(r2, ".", "-")
		if distinct && got == objectName(r2, identity.Slot(s1), n1) {
			t.Fatalf("releases %q and %q share the name %q", r1, r2, got)
		}
	})
}

// A4.3: the annotation that keeps Argo CD from pruning is on every object and
// every Pod template, beside the nonce.
func TestMarks(t *testing.T) {
	rendered, err := Render(t.Context(), example(t))
	if err != nil {
		t.Fatal(err)
	}
	marks := regexp.MustCompile(`"argocd.argoproj.io/compare-options":"IgnoreExtraneous","argocd.argoproj.io/sync-options":"Prune=false","holdfast-project.github.io/preflight-nonce":"` + testNonce + `"`)
	for _, slot := range rendered.Slots {
		body, err := slot.Body("x")
		if err != nil {
			t.Fatal(err)
		}
		want := 1
		if slot.Object.Kind == "Job" {
			want = 2
		}
		if got := len(marks.FindAll(body, -1)); got != want {
			t.Errorf("%s is marked %d times, want %d", slot.Name, got, want)
		}
		component := `"app.kubernetes.io/component":"` + identity.Component(slot.Name) + `"`
		if got := strings.Count(string(body), component); got != want {
			t.Errorf("%s has %s %d times, want %d", slot.Name, component, got, want)
		}
	}
}
