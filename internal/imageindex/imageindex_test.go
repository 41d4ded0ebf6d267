package imageindex

import "testing"

func TestQualified(t *testing.T) {
	for name, want := range map[string]string{
		"demo":                       "docker.io/library/demo",
		"acme/demo":                  "docker.io/acme/demo",
		"registry.example/acme/demo": "registry.example/acme/demo",
		"127.0.0.1:5000/demo":        "127.0.0.1:5000/demo",
		"localhost/demo":             "localhost/demo",
	} {
		if got := qualified(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

// A4.6: an index lists manifests, a single image's manifest lists none.
func TestListed(t *testing.T) {
	digests, err := listed([]byte(`{"schemaVersion":2,"manifests":[{"digest":"sha256:aa"},{"digest":"sha256:bb"}]}`))
	if err != nil || len(digests) != 2 || digests[1] != "sha256:bb" {
		t.Errorf("%v, %v", digests, err)
	}
	digests, err = listed([]byte(`{"schemaVersion":2,"config":{"digest":"sha256:aa"},"layers":[]}`))
	if err != nil || len(digests) != 0 {
		t.Errorf("%v, %v", digests, err)
	}
	if _, err = listed([]byte(`<html>`)); err == nil {
		t.Error("a gateway's page passed for an index")
	}
}
