package chart

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/holdfast-project/holdfast/test/chart/rendered"
)

// B7.2: however long the name of the release, or one that somebody gives, every name
// that is derived from it is one that the API server takes: a hook whose Job cannot be
// made fails every uninstall, and not before it.
func TestB7_2_EveryNameFits(t *testing.T) {
	t.Parallel()
	const mostOfHelm = 53
	named := func(key, value string) values {
		v := everything()
		v[key] = value
		return v
	}
	narrow := everything()
	narrow["watchAllNamespaces"], narrow["allowCrossNamespaceStorage"] = false, false
	long := strings.Repeat("n", mostOfHelm)
	for name, v := range map[string]values{
		"release": everything(), "one namespace": narrow,
		"nameOverride": named("nameOverride", strings.Repeat("o", 63)), "fullnameOverride": named("fullnameOverride", strings.Repeat("f", 63)),
	} {
		for _, release := range []string{long, "r", "flux-plunger-" + long[:mostOfHelm-len("flux-plunger-")]} {
			chart, err := rendered.Render(t.Context(), dir, rendered.Options{Name: release, Values: v})
			if err != nil {
				t.Fatal(err)
			}
			objects := slices.Concat(chart.Objects, chart.Hooks)
			if len(chart.Hooks) != 1 || len(objects) < len(base()) {
				t.Fatalf("%s: %d objects", name, len(objects))
			}
			for _, object := range objects {
				if wrong := validation.IsDNS1123Label(object.GetName()); wrong != nil {
					t.Errorf("%s, release %s: %s %s: %v", name, release, object.GetKind(), object.GetName(), wrong)
				}
				for key, value := range object.GetLabels() {
					if wrong := validation.IsValidLabelValue(value); wrong != nil {
						t.Errorf("%s, release %s: %s %s: label %s: %v", name, release, object.GetKind(), object.GetName(), key, wrong)
					}
				}
			}
		}
	}
}
