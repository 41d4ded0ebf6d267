package imageindex

import "testing"

// A4.6: whatever a registry serves is an error or a list of what it lists.
func FuzzListed(f *testing.F) {
	f.Add([]byte(`{"manifests":[{"digest":"sha256:aa"},{"digest":"sha256:bb"}]}`))
	f.Add([]byte(`{"manifests":[null,{}]}`))
	f.Add([]byte(`{"config":{"digest":"sha256:aa"}}`))
	f.Add([]byte(`<html>`))
	f.Fuzz(func(t *testing.T, data []byte) {
		digests, err := listed(data)
		if err != nil && digests != nil {
			t.Fatalf("%v and %v", digests, err)
		}
	})
}
