package preflight

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-project/holdfast/internal/cleanup"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/internal/render"
)

// A1.6, A6.12: what the run asks for, and what cleanup says that it needs, is
// exactly what the shipped Roles grant: nothing is granted that is not asked for,
// and nothing asked for that the files do not grant.
func TestA6_12_PermissionsAreThoseOfTheShippedRoles(t *testing.T) {
	const namespace = "openclaw-system"
	kinds := []string{"Secret", "NetworkPolicy", "Job", "Job", "Job"}
	slots := make([]render.Slot, len(kinds))
	for i, kind := range kinds {
		slots[i] = render.Slot{Object: identity.Object{Kind: kind}}
	}
	ofCleanup := granted(t, "preflight-cleanup-role.yaml", "preflight-cleanup")
	ofBoth := maps.Clone(ofCleanup)
	maps.Copy(ofBoth, granted(t, "preflight-run-role.yaml", "preflight-run"))
	if len(ofCleanup) != 9 || len(ofBoth) != 24 {
		t.Errorf("the Roles grant %d and %d permissions: they are not read as they are written", len(ofCleanup), len(ofBoth))
	}
	for name, row := range map[string]struct {
		asked   []kube.Permission
		granted map[kube.Permission]bool
	}{
		"cleanup": {cleanup.Permissions(namespace, kinds...), ofCleanup},
		"the run": {permissions(namespace, slots), ofBoth},
	} {
		asked := map[kube.Permission]bool{}
		for _, p := range row.asked {
			if asked[p] {
				t.Errorf("%s asks twice for %+v", name, p)
			}
			asked[p] = true
		}
		if !maps.Equal(asked, row.granted) {
			t.Errorf("%s asks for\n%s\nthe Roles grant\n%s", name, lines(asked), lines(row.granted))
		}
	}
}

func lines(set map[kube.Permission]bool) string {
	var all []string
	for p := range set {
		all = append(all, fmt.Sprintf("%+v", p))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// granted reads what the Role of this name in a file of config/rbac grants.
func granted(t *testing.T, file, name string) map[kube.Permission]bool {
	t.Helper()
	content, err := os.ReadFile("../../config/rbac/" + file)
	if err != nil {
		t.Fatal(err)
	}
	all := map[kube.Permission]bool{}
	for _, document := range bytes.Split(content, []byte("\n---\n")) {
		var role rbacv1.Role
		if err := yaml.Unmarshal(document, &role); err != nil {
			t.Fatal(err)
		}
		if role.Kind != "Role" || role.Name != name {
			continue
		}
		for _, rule := range role.Rules {
			for _, verb := range rule.Verbs {
				for _, group := range rule.APIGroups {
					for _, resource := range rule.Resources {
						for _, object := range append(slices.Clone(rule.ResourceNames), "")[:max(1, len(rule.ResourceNames))] {
							resource, subresource, _ := strings.Cut(resource, "/")
							all[kube.Permission{Verb: verb, Group: group, Resource: resource, Subresource: subresource, Namespace: role.Namespace, Name: object}] = true
						}
					}
				}
			}
		}
	}
	return all
}
