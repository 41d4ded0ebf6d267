package plunger

import (
	"fmt"
	"strings"
	"testing"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
	"github.com/holdfast-project/holdfast/internal/plunger/gather"
	"github.com/holdfast-project/holdfast/internal/plunger/plungertest"
	"github.com/holdfast-project/holdfast/test/helmcontroller/lab"
)

// apply sends a server-side apply with nothing but the given suspension.
func (b *bench) apply(t *testing.T, key types.NamespacedName, manager string, suspend *bool, force bool) {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": helmv2.GroupVersion.String(), "kind": "HelmRelease",
		"metadata": map[string]any{"namespace": key.Namespace, "name": key.Name}, "spec": map[string]any{}}}
	if suspend != nil {
		object.Object["spec"] = map[string]any{"suspend": *suspend}
	}
	opts := []client.PatchOption{client.FieldOwner(manager)}
	if force {
		opts = append(opts, client.ForceOwnership)
	}
	must(t, b.Client.Patch(t.Context(), object, client.Apply, opts...)) //nolint:staticcheck // an unstructured apply has no typed configuration
}

func (b *bench) update(t *testing.T, key types.NamespacedName, manager string, suspend bool) {
	t.Helper()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"suspend":%t}}`, suspend))
	must(t, b.Client.Patch(t.Context(), &helmv2.HelmRelease{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}, patch, client.FieldOwner(manager)))
}

// The ownership truth table, the live side: the same writers as in the table of
// the pure function, by real requests, and what a real API server makes of them
// (B2.1, B2.2; the forced acquire of B3.3).
func TestOwnershipOnTheAPIServer(t *testing.T) {
	t.Parallel()
	b := shared
	must(t, b.Namespace(t.Context(), "owners"))
	yes, no := true, false
	rows := []struct {
		name string
		do   func(types.NamespacedName)
		want decide.Suspension
	}{
		{"nobody", func(types.NamespacedName) {}, decide.Running},
		{"ours", func(k types.NamespacedName) { b.apply(t, k, contract.FieldManager, &yes, false) }, decide.Ours},
		{"ours given up", func(k types.NamespacedName) {
			b.apply(t, k, contract.FieldManager, &yes, false)
			b.apply(t, k, contract.FieldManager, nil, false)
		}, decide.Running},
		{"ours at false", func(k types.NamespacedName) { b.apply(t, k, contract.FieldManager, &no, false) }, decide.Running},
		{"other apply", func(k types.NamespacedName) { b.apply(t, k, "kustomize-controller", &yes, false) }, decide.Foreign},
		{"other update", func(k types.NamespacedName) { b.update(t, k, "flux", true) }, decide.Foreign},
		{"earlier flux-plunger", func(k types.NamespacedName) { b.apply(t, k, "flux-client-side-apply", &yes, false) }, decide.Foreign},
		{"our name by update", func(k types.NamespacedName) { b.update(t, k, contract.FieldManager, true) }, decide.Foreign},
		{"shared", func(k types.NamespacedName) {
			b.apply(t, k, contract.FieldManager, &yes, false)
			b.apply(t, k, "kustomize-controller", &yes, false)
		}, decide.Shared},
		{"shared, and we give up", func(k types.NamespacedName) {
			b.apply(t, k, contract.FieldManager, &yes, false)
			b.apply(t, k, "kustomize-controller", &yes, false)
			b.apply(t, k, contract.FieldManager, nil, false)
		}, decide.Foreign},
		{"taken over by force", func(k types.NamespacedName) {
			b.apply(t, k, contract.FieldManager, &yes, false)
			b.apply(t, k, "operator", &no, true)
			b.apply(t, k, "operator", &yes, true)
		}, decide.Foreign},
		{"resumed by update", func(k types.NamespacedName) {
			b.apply(t, k, contract.FieldManager, &yes, false)
			b.update(t, k, "flux", false)
		}, decide.Running},
		{"resumed and suspended by update", func(k types.NamespacedName) {
			b.apply(t, k, contract.FieldManager, &yes, false)
			b.update(t, k, "flux", false)
			b.update(t, k, "flux", true)
		}, decide.Foreign},
		{"forced over an update at false", func(k types.NamespacedName) {
			b.update(t, k, "flux", false)
			b.apply(t, k, contract.FieldManager, &yes, true)
		}, decide.Ours},
		{"the no-op write inside our hold leaves no trace", func(k types.NamespacedName) {
			b.apply(t, k, contract.FieldManager, &yes, false)
			b.update(t, k, "flux", true)
		}, decide.Ours},
	}
	for i, row := range rows {
		for _, ends := range []bool{false, true} {
			key := types.NamespacedName{Namespace: "owners", Name: fmt.Sprintf("row-%d-%t", i, ends)}
			b.createBare(t, key)
			row.do(key)
			if ends {
				must(t, b.Delete(t.Context(), key))
			}
			if got := gather.FromHelmRelease(b.Live(t, key)).Suspension(); got != row.want {
				t.Errorf("%s, terminating %t: %s, want %s; managedFields %s", row.name, ends, got, row.want, owners(b.Live(t, key)))
			}
		}
	}
}

// createBare creates a release that no helm-controller can do anything with and
// that a delete does not remove.
func (b *bench) createBare(t *testing.T, key types.NamespacedName) {
	t.Helper()
	object := &helmv2.HelmRelease{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Finalizers: []string{"lab.holdfast.test/hold"}},
		Spec: helmv2.HelmReleaseSpec{ChartRef: &helmv2.CrossNamespaceSourceReference{Kind: "OCIRepository", Name: "none"}}}
	must(t, b.Client.Create(t.Context(), object, client.FieldOwner("creator")))
}

func owners(hr *helmv2.HelmRelease) string {
	var said []string
	for _, entry := range hr.ManagedFields {
		said = append(said, fmt.Sprintf("%s %s %s %s", entry.Manager, entry.Operation, entry.Subresource, entry.FieldsV1.GetRawBytes()))
	}
	return strings.Join(said, "; ")
}

// B3.5: no write of a recovery changes or takes over anything but what it is
// for, however the release came to be, with an Update owner at false (B3.3).
func TestARecoveryLeavesTheRestOfTheReleaseAlone(t *testing.T) {
	for _, strategy := range []string{repair, reclaim} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			b := shared
			namespace := "fields-" + strategy
			keys := b.Releases(t, namespace, 2)
			b.update(t, keys[1], "flux", false)
			before := map[string]string{}
			for _, key := range keys {
				must(t, b.Stick(t.Context(), key, lab.Damage{}))
				before[key.Name] = fieldsOf(b.Live(t, key))
			}
			b.start(t, setup{strategy: strategy, namespace: namespace})
			for _, key := range keys {
				b.Await(t, key, plungertest.Recovered)
				if after := fieldsOf(b.Live(t, key)); after != before[key.Name] {
					t.Errorf("%s: the specification or its owners changed\nfrom %s\nto   %s", key, before[key.Name], after)
				}
			}
		})
	}
}

// fieldsOf renders the specification, but for the suspension, and who owns what
// of it, but for helm-controller, which owns nothing there.
func fieldsOf(hr *helmv2.HelmRelease) string {
	spec := hr.Spec.DeepCopy()
	spec.Suspend = false
	said := []string{fmt.Sprintf("%v %v %v %s", spec.Interval, spec.Timeout, spec.ChartRef, spec.Values.Raw)}
	for _, entry := range hr.ManagedFields {
		if entry.Subresource == "" && entry.Manager != contract.FieldManager && entry.Manager != "helm-controller" {
			fields := strings.NewReplacer(`,"f:suspend":{}`, "", `{"f:suspend":{}}`, "{}").Replace(string(entry.FieldsV1.GetRawBytes()))
			if fields != `{"f:spec":{}}` { // the suspension is ours to take and to give up
				said = append(said, entry.Manager+" "+string(entry.Operation)+" "+fields)
			}
		}
	}
	return strings.Join(said, "; ")
}
