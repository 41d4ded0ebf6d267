package apipath

import "testing"

// A6.13: a printed command and a request go to the same, known place.
func TestPath(t *testing.T) {
	for _, row := range []struct{ apiVersion, kind, namespace, name, want string }{
		{"batch/v1", "Job", "ns", "a-b", "/apis/batch/v1/namespaces/ns/jobs/a-b"},
		{"v1", "Secret", "ns", "s", "/api/v1/namespaces/ns/secrets/s"},
		{"networking.k8s.io/v1", "NetworkPolicy", "ns", "n", "/apis/networking.k8s.io/v1/namespaces/ns/networkpolicies/n"},
		{"v1", "Namespace", "", "kube-system", "/api/v1/namespaces/kube-system"},
		{"v1", "Pod", "ns", "p.q", "/api/v1/namespaces/ns/pods/p.q"},
	} {
		resource, err := Of(row.apiVersion, row.kind)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := resource.Path(row.namespace, row.name); err != nil || got != row.want {
			t.Errorf("%s %s: got %q, %v; want %q", row.apiVersion, row.kind, got, err, row.want)
		}
	}
}

func TestPathRefusesWhatCouldLeaveItsPlace(t *testing.T) {
	job, err := Of("batch/v1", "Job")
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", ".", "..", "a/b", "a b", "a;b", "a?b", "a%2fb", "a\nb", "A", "$(x)", "'"} {
		if p, err := job.Path("ns", bad); err == nil {
			t.Errorf("name %q is accepted as %q", bad, p)
		}
		if p, err := job.Path(bad, "n"); err == nil {
			t.Errorf("namespace %q is accepted as %q", bad, p)
		}
	}
}

func TestUnknownKindIsAnError(t *testing.T) {
	for _, row := range [][2]string{{"batch/v1beta1", "Job"}, {"v1", "Job"}, {"", ""}, {"v1", "Node"}} {
		if r, err := Of(row[0], row[1]); err == nil {
			t.Errorf("%v is found at %+v", row, r)
		}
	}
}
