package nodeconfig

import (
	"path/filepath"
	"testing"
)

func TestLookupPrefersTheExactReference(t *testing.T) {
	const digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	images := Images{
		"localhost:5000/tool:v2": {Path: "v2"}, "localhost:5000/tool": {Path: "tool"}, "tool" + digest: {Path: "pinned"},
	}
	for reference, want := range map[string]string{
		"localhost:5000/tool:v2": "v2", "localhost:5000/tool:v1": "tool", "localhost:5000/tool": "tool",
		"localhost:5000/tool:v2" + digest: "tool", "tool" + digest: "pinned",
		"tool": "", "localhost": "", "localhost:5000/tool/other": "", "example.test/tool": "",
	} {
		got, ok := images.Lookup(reference)
		if got.Path != want || ok != (want != "") {
			t.Errorf("%s is %q (%v), want %q", reference, got.Path, ok, want)
		}
	}
	images[AnyImage] = Program{Path: "any"}
	if got, _ := images.Lookup("example.test/tool"); got.Path != "any" {
		t.Errorf("with a program for any image it is %q", got.Path)
	}
}

func TestFilesSurviveTheRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "images.json")
	for _, want := range []string{"/first", "/second"} { // the second replaces
		if err := Write(path, Images{"a": {Path: want}}); err != nil {
			t.Fatal(err)
		}
		var got Images
		if err := Read(path, &got); err != nil || got["a"].Path != want {
			t.Errorf("read back %+v, %v", got, err)
		}
	}
	left, err := filepath.Glob(path + "*")
	if err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
}
