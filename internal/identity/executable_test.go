package identity_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"testing"

	"github.com/holdfast-project/holdfast/internal/identity"
)

func TestA3_6_RunningHelperIsTheRunningExecutable(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	helper, err := identity.RunningHelper("abc", true, map[string]string{"profile.yaml": "1"})
	if err != nil {
		t.Fatal(err)
	}
	if helper.SHA256 != hex.EncodeToString(sum[:]) || helper.Revision != "abc" || !helper.Modified {
		t.Errorf("got %+v", helper)
	}
}

func TestA3_6_HelperEqualComparesEverything(t *testing.T) {
	base := func() identity.Helper {
		return identity.Helper{SHA256: "1", ModuleVersion: "v1", Revision: "r", Assets: map[string]string{"a": "1"}}
	}
	if !base().Equal(base()) {
		t.Fatal("a helper differs from itself")
	}
	for name, change := range map[string]func(*identity.Helper){
		"digest":      func(h *identity.Helper) { h.SHA256 = "2" },
		"version":     func(h *identity.Helper) { h.ModuleVersion = "v2" },
		"revision":    func(h *identity.Helper) { h.Revision = "s" },
		"modified":    func(h *identity.Helper) { h.Modified = true },
		"asset":       func(h *identity.Helper) { h.Assets["a"] = "2" },
		"other asset": func(h *identity.Helper) { h.Assets = map[string]string{"b": "1"} },
		"more assets": func(h *identity.Helper) { h.Assets["b"] = "1" },
	} {
		other := base()
		change(&other)
		if base().Equal(other) {
			t.Errorf("another %s is not noticed", name)
		}
	}
}

func TestA3_5_ValidUID(t *testing.T) {
	if !identity.ValidUID("0b5b1d3e-8b6a-4e6f-9d0e-3f1f5c1d2a3b") {
		t.Error("a UID of the API server is refused")
	}
	for _, s := range []string{
		"", "0b5b1d3e", "0B5B1D3E-8b6a-4e6f-9d0e-3f1f5c1d2a3b", "0b5b1d3e-8b6a-4e6f-9d0e-3f1f5c1d2a3b\n",
		"0b5b1d3e-8b6a-4e6f-9d0e-3f1f5c1d2a3b;rm", "0b5b1d3e08b6a04e6f09d0e03f1f5c1d2a3b",
	} {
		if identity.ValidUID(s) {
			t.Errorf("%q passes as a UID", s)
		}
	}
}
