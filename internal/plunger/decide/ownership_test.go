package decide_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
)

// The ownership truth table, the pure side: who the managedFields say owns
// spec.suspend × its value × terminating × fenced × the processed mark, each
// with the expectation written as a rule beside the table (B2.1 to B2.4, B4.4).
func TestOwnershipTruthTable(t *testing.T) {
	fields := `{"f:spec":{"f:suspend":{}}}`
	managers := []struct {
		name    string
		entries []decide.ManagedField
		owner   decide.Suspension
	}{
		{"none", nil, decide.Foreign},
		{"ours", []decide.ManagedField{ours()}, decide.Ours},
		{"other Apply", []decide.ManagedField{entry("kustomize-controller", "Apply", "")}, decide.Foreign},
		{"other Update", []decide.ManagedField{foreign()}, decide.Foreign},
		{"flux-client-side-apply", []decide.ManagedField{entry("flux-client-side-apply", "Update", "")}, decide.Foreign},
		{"flux-client-side-apply by Apply", []decide.ManagedField{entry("flux-client-side-apply", "Apply", "")}, decide.Foreign},
		{"shared", []decide.ManagedField{ours(), entry("kustomize-controller", "Apply", "")}, decide.Shared},
		{"shared with an Update", []decide.ManagedField{foreign(), ours()}, decide.Shared},
		{"ancient-changes", []decide.ManagedField{entry("ancient-changes", "Update", "")}, decide.Foreign},
		{"before-first-apply", []decide.ManagedField{entry("before-first-apply", "Update", "")}, decide.Foreign},
		{"before-first-apply and ours", []decide.ManagedField{entry("before-first-apply", "Update", ""), ours()}, decide.Shared},
		{"our name by Update", []decide.ManagedField{entry(contract.FieldManager, "Update", "")}, decide.Foreign},
		{"our name on the status", []decide.ManagedField{entry(contract.FieldManager, "Apply", "status")}, decide.Foreign},
		{"our apply of the fence only", []decide.ManagedField{{Manager: contract.FieldManager, Operation: "Apply",
			Fields: []byte(`{"f:metadata":{"f:finalizers":{"v:\"` + contract.Fence + `\"":{}}}}`)}}, decide.Foreign},
		{"ours beside another's of other fields", []decide.ManagedField{ours(), {Manager: "kubectl", Operation: "Update",
			Fields: []byte(`{"f:spec":{"f:interval":{},"f:values":{}}}`)}}, decide.Ours},
		{"a name like ours", []decide.ManagedField{{Manager: "flux-plunger2", Operation: "Apply", Fields: []byte(fields)}}, decide.Foreign},
		{"ours, in fields that cannot be parsed", []decide.ManagedField{{Manager: contract.FieldManager, Operation: "Apply", Fields: []byte(`{"f:spec":`)}}, decide.Foreign},
		{"ours, of a deeper field of the name", []decide.ManagedField{{Manager: contract.FieldManager, Operation: "Apply", Fields: []byte(`{"f:spec":{"f:values":{"f:suspend":{}}}}`)}}, decide.Foreign},
	}
	yes, no := true, false
	cells := 0
	for _, m := range managers {
		for value, suspend := range map[string]*bool{"absent": nil, "false": &no, "true": &yes} {
			for _, terminating := range []bool{false, true} {
				for _, fence := range []bool{false, true} {
					for _, mark := range []string{"none", "old", "current"} {
						cells++
						in := cell(m.entries, suspend, terminating, fence, mark)
						name := fmt.Sprintf("%s, %s, terminating %t, fenced %t, mark %s", m.name, value, terminating, fence, mark)
						owner := m.owner
						if value != "true" {
							owner = decide.Running
						}
						if got := in.Release.Suspension(); got != owner {
							t.Errorf("%s: owner %s, want %s", name, got, owner)
						}
						if got, want := decide.Next(in).Verb, expected(owner, terminating, fence); got != want {
							t.Errorf("%s: %s, want %s", name, got, want)
						}
					}
				}
			}
		}
	}
	if cells != 18*3*2*2*3 {
		t.Errorf("%d cells, the table has changed", cells)
	}
}

// cell is a release that nothing but the suspension makes interesting.
func cell(entries []decide.ManagedField, suspend *bool, terminating, fence bool, mark string) decide.Input {
	in := base()
	in.Release.Managers, in.Release.Spec.Suspend = entries, suspend
	if fence {
		fenced(&in)
	}
	if terminating {
		deleted(&in)
	}
	switch mark {
	case "old":
		annotated(contract.ProcessedVersion, "1")(&in)
	case "current":
		annotated(contract.ProcessedVersion, "1")(&in)
		annotated(contract.ProcessedUID, "u1@4")(&in)
	}
	return in
}

// expected is the table's rule, in the words of the specification.
func expected(owner decide.Suspension, terminating, fence bool) decide.Verb {
	switch {
	case owner == decide.Running && terminating && fence:
		return decide.Wait // B5.3
	case owner == decide.Running && fence:
		return decide.ReadStorage // B3.4
	case owner == decide.Running:
		return decide.None
	case owner == decide.Shared && terminating:
		return decide.DropFence // B2.2, B2.3
	case owner == decide.Shared && fence:
		return decide.Lift // B2.2
	case owner == decide.Shared:
		return decide.DropFence // B2.2
	case owner == decide.Foreign && terminating && fence:
		return decide.DropFence // B2.3
	case owner == decide.Foreign && fence:
		return decide.ReadStorage // B3.4, whoever suspends
	case owner == decide.Foreign:
		return decide.None // B2.2
	case terminating && fence:
		return decide.ReadStorage // B5.7, before the lift
	case terminating:
		return decide.DropFence // B5.1, without a fence to list
	default:
		return decide.Lift // B4.4, found
	}
}

// B Names: helm-controller's rule for the effective name, with its 53 characters.
func TestEffectiveNames(t *testing.T) {
	long := strings.Repeat("a", 54)
	for name, c := range map[string]struct {
		release           decide.Release
		name, ns, storage string
	}{
		"plain":       {decide.Release{Namespace: "ns", Name: "app"}, "app", "ns", "ns"},
		"target":      {decide.Release{Namespace: "ns", Name: "app", Spec: decide.Spec{TargetNamespace: "t"}}, "t-app", "t", "ns"},
		"named":       {decide.Release{Namespace: "ns", Name: "app", Spec: decide.Spec{TargetNamespace: "t", ReleaseName: "r"}}, "r", "t", "ns"},
		"storage":     {decide.Release{Namespace: "ns", Name: "app", Spec: decide.Spec{StorageNamespace: "s"}}, "app", "ns", "s"},
		"status rule": {decide.Release{Namespace: "ns", Name: "app", Spec: decide.Spec{StorageNamespace: "s"}, Status: decide.Status{StorageNamespace: "x"}}, "app", "ns", "x"},
		"53 fit":      {decide.Release{Namespace: "ns", Name: long[:53]}, long[:53], "ns", "ns"},
		// The first 12 hex digits of the SHA-256 of 54 times "a".
		"54 do not": {decide.Release{Namespace: "ns", Name: long}, long[:40] + "-" + sha256Prefix(long), "ns", "ns"},
		"54 by the target": {decide.Release{Namespace: "ns", Name: long[:50], Spec: decide.Spec{TargetNamespace: "tar"}},
			"tar-" + long[:36] + "-" + sha256Prefix("tar-"+long[:50]), "tar", "ns"},
	} {
		t.Run("B Names "+name, func(t *testing.T) {
			if got := c.release.ReleaseName(); got != c.name {
				t.Errorf("name %q, want %q", got, c.name)
			}
			if got := c.release.ReleaseNamespace(); got != c.ns {
				t.Errorf("namespace %q, want %q", got, c.ns)
			}
			if got := c.release.StorageNamespace(); got != c.storage {
				t.Errorf("storage %q, want %q", got, c.storage)
			}
		})
	}
}

// B10.1: the API server's record of who set the label is what tells a repaired
// revision from one that Helm wrote.
func TestRepairedByUs(t *testing.T) {
	label := []byte(`{"f:data":{"f:release":{}},"f:metadata":{"f:labels":{"f:status":{}}}}`)
	for name, c := range map[string]struct {
		entries []decide.ManagedField
		want    bool
	}{
		"none":                {nil, false},
		"Helm's":              {[]decide.ManagedField{{Manager: "Helm", Operation: "Update", Fields: label}}, false},
		"ours":                {[]decide.ManagedField{{Manager: "Helm", Operation: "Update", Fields: []byte(`{"f:type":{}}`)}, {Manager: contract.FieldManager, Operation: "Update", Fields: label}}, true},
		"ours, another label": {[]decide.ManagedField{{Manager: contract.FieldManager, Operation: "Update", Fields: []byte(`{"f:metadata":{"f:labels":{"f:other":{}}}}`)}}, false},
	} {
		if got := decide.RepairedByUs(c.entries); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
