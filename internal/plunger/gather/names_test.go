package gather

import (
	"testing"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The rule for names that decide has of its own, since it links no API package,
// is still helm-controller's: a release with each field set and unset has the names
// that the API's own methods give it.
func TestNamesAreHelmControllers(t *testing.T) {
	either := func(set bool, value string) string {
		if set {
			return value
		}
		return ""
	}
	for bits := range 8 {
		hr := &helmv2.HelmRelease{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "app"}}
		hr.Spec.ReleaseName = either(bits&1 != 0, "named")
		hr.Spec.TargetNamespace = either(bits&2 != 0, "target")
		hr.Spec.StorageNamespace = either(bits&4 != 0, "storage")
		r := FromHelmRelease(hr)
		for what, pair := range map[string][2]string{
			"release name":      {r.ReleaseName(), hr.GetReleaseName()},
			"release namespace": {r.ReleaseNamespace(), hr.GetReleaseNamespace()},
			"storage namespace": {r.StorageNamespace(), hr.GetStorageNamespace()},
		} {
			if pair[0] != pair[1] {
				t.Errorf("%s of %+v: %q, and helm-controller says %q", what, hr.Spec, pair[0], pair[1])
			}
		}
	}
}
