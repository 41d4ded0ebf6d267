package decide_test

import (
	"strings"
	"testing"

	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
	"github.com/holdfast-project/holdfast/test/truth"
)

// The ownership truth table, the pure side: every cell with its expectation (B2.1
// to B2.4, B3.1, B4.4, B5.1). The API server's side is in package write.
func TestOwnershipTruthTable(t *testing.T) {
	cells := truth.Cells()
	if len(cells) != truth.Size {
		t.Fatalf("%d cells, the table has shrunk", len(cells))
	}
	for _, cell := range cells {
		if got, want := truth.Ask(cell.Input()), cell.Want(); got != want {
			t.Errorf("%s: %+v, want %+v", cell, got, want)
		}
	}
}

// B2.1, B2.2: entries of managedFields that the table has no row for.
func TestSuspensionByItsEntries(t *testing.T) {
	fields := `{"f:spec":{"f:suspend":{}}}`
	yes, no := true, false
	for name, c := range map[string]struct {
		entries []decide.ManagedField
		owner   decide.Suspension
	}{
		"flux-client-side-apply":          {[]decide.ManagedField{entry("flux-client-side-apply", "Update", "")}, decide.Foreign},
		"flux-client-side-apply by Apply": {[]decide.ManagedField{entry("flux-client-side-apply", "Apply", "")}, decide.Foreign},
		"shared with an Update":           {[]decide.ManagedField{foreign(), ours()}, decide.Shared},
		"before-first-apply and ours":     {[]decide.ManagedField{entry("before-first-apply", "Update", ""), ours()}, decide.Shared},
		"our apply of the fence only": {[]decide.ManagedField{{Manager: contract.FieldManager, Operation: "Apply",
			Fields: []byte(`{"f:metadata":{"f:finalizers":{"v:\"` + contract.Fence + `\"":{}}}}`)}}, decide.Foreign},
		"ours beside another's of other fields": {[]decide.ManagedField{ours(), {Manager: "kubectl", Operation: "Update",
			Fields: []byte(`{"f:spec":{"f:interval":{},"f:values":{}}}`)}}, decide.Ours},
		"a name like ours":                      {[]decide.ManagedField{{Manager: "flux-plunger2", Operation: "Apply", Fields: []byte(fields)}}, decide.Foreign},
		"ours, in fields that cannot be parsed": {[]decide.ManagedField{{Manager: contract.FieldManager, Operation: "Apply", Fields: []byte(`{"f:spec":`)}}, decide.Foreign},
		"ours, in fields that end too early":    {[]decide.ManagedField{{Manager: contract.FieldManager, Operation: "Apply", Fields: []byte(`{"f:spec":{"f:suspend":{}},"f:status":`)}}, decide.Foreign},
		"ours, of a deeper field of the name":   {[]decide.ManagedField{{Manager: contract.FieldManager, Operation: "Apply", Fields: []byte(`{"f:spec":{"f:values":{"f:suspend":{}}}}`)}}, decide.Foreign},
	} {
		for value, owner := range map[*bool]decide.Suspension{nil: decide.Running, &no: decide.Running, &yes: c.owner} {
			r := decide.Release{Managers: c.entries, Spec: decide.Spec{Suspend: value}}
			if got := r.Suspension(); got != owner {
				t.Errorf("%s: %s, want %s", name, got, owner)
			}
		}
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
		"ours, by Apply":      {[]decide.ManagedField{{Manager: contract.FieldManager, Operation: "Apply", Fields: label}}, false},
		"ours, another label": {[]decide.ManagedField{{Manager: contract.FieldManager, Operation: "Update", Fields: []byte(`{"f:metadata":{"f:labels":{"f:other":{}}}}`)}}, false},
	} {
		if got := decide.RepairedByUs(c.entries); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
