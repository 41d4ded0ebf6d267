package write_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
	"github.com/holdfast-project/holdfast/test/truth"
)

// sideBySide is how many cells are made at a time.
const sideBySide = 8

// B2.1 to B2.4, B3.1, B3.2, B4.4, B5.1: the whole ownership truth table on a real
// API server. Every cell is made by the requests that lead to it in a cluster;
// what is decided about it is the table's answer, which the pure function gives
// too, and the write that follows changes what it should and nothing else. Where
// the object was created again, the same write for the old one is refused.
func TestOwnershipTruthTableOnTheAPIServer(t *testing.T) {
	cells := truth.Cells()
	if len(cells) != truth.Size {
		t.Fatalf("%d cells, the table has shrunk", len(cells))
	}
	must(t, api.Namespace(t.Context(), "truth"))
	next, workers := make(chan int), sync.WaitGroup{}
	for range sideBySide {
		workers.Go(func() {
			for i := range next {
				c := cellOnServer{Cell: cells[i], key: types.NamespacedName{Namespace: "truth", Name: fmt.Sprintf("cell-%d", i)}}
				if err := c.prove(t.Context()); err != nil {
					t.Errorf("%s: %v", c.Cell, err)
				}
			}
		})
	}
	for i := range cells {
		next <- i
	}
	close(next)
	workers.Wait()
}

type cellOnServer struct {
	truth.Cell
	key types.NamespacedName
}

func (c cellOnServer) prove(ctx context.Context) error {
	gone, err := c.before(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(c.create(ctx), c.write(ctx), c.end(ctx)); err != nil {
		return err
	}
	r, err := api.reader.Release(ctx, c.key.Namespace, c.key.Name)
	if err != nil {
		return err
	}
	if err := c.isWhatItSays(*r); err != nil {
		return err
	}
	answer := truth.Ask(c.Quiet(*r))
	if pure := truth.Ask(c.Input()); answer != c.Want() || pure != answer {
		return fmt.Errorf("the API server's %+v, the pure function's %+v, want %+v; managedFields %s", answer, pure, c.Want(), said(r.Managers))
	}
	if c.Recreated {
		if err := c.refused(ctx, *r, gone, answer.Verb); err != nil {
			return err
		}
	}
	return c.changes(ctx, *r, answer)
}

// before creates and removes an object of the name, where the cell wants one,
// and returns its UID.
func (c cellOnServer) before(ctx context.Context) (string, error) {
	if !c.Recreated {
		return "", nil
	}
	earlier := &helmv2.HelmRelease{ObjectMeta: metav1.ObjectMeta{Namespace: c.key.Namespace, Name: c.key.Name},
		Spec: helmv2.HelmReleaseSpec{ChartRef: &helmv2.CrossNamespaceSourceReference{Kind: "OCIRepository", Name: "lab"}}}
	if err := api.Client.Create(ctx, earlier); err != nil {
		return "", err
	}
	return string(earlier.UID), api.Client.Delete(ctx, earlier)
}

// fencedAtBirth: wiped and ancient objects know no Apply of ours, so there the
// fence comes by the creator's hand.
func (c cellOnServer) fencedAtBirth() bool {
	switch c.Manager {
	case truth.Nobody, truth.Ancient, truth.BeforeFirstApply, truth.OtherSubresource:
		return true
	default:
		return false
	}
}

// suspendedAtBirth: the creator wrote the value, or somebody later.
func (c cellOnServer) suspendedAtBirth() bool {
	return c.Manager == truth.Nobody || c.Manager == truth.Ancient || c.Manager == truth.BeforeFirstApply || c.Manager == truth.OtherSubresource
}

func (c cellOnServer) create(ctx context.Context) error {
	finalizers := []any{contract.HelmFinalizer}
	if c.Fenced && c.fencedAtBirth() {
		finalizers = append(finalizers, contract.Fence)
	}
	annotations := map[string]any{}
	for name, value := range c.Annotations() {
		annotations[name] = value
	}
	spec := map[string]any{"interval": "1h0m0s", "chartRef": map[string]any{"kind": "OCIRepository", "name": "lab"}}
	if c.suspendedAtBirth() && c.Value != truth.Absent {
		spec["suspend"] = c.Value == truth.True
	}
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": helmv2.GroupVersion.String(), "kind": helmv2.HelmReleaseKind,
		"metadata": map[string]any{"namespace": c.key.Namespace, "name": c.key.Name, "finalizers": finalizers, "annotations": annotations}, "spec": spec}}
	return api.Client.Create(ctx, object, client.FieldOwner("creator"))
}

// write is what happened to the release since.
func (c cellOnServer) write(ctx context.Context) error {
	switch c.Manager {
	case truth.Nobody:
		return c.wipe(ctx)
	case truth.Us:
		return c.apply(ctx, contract.FieldManager, c.Fenced, c.Value)
	case truth.OtherApply:
		return errors.Join(c.fence(ctx), c.apply(ctx, "kustomize-controller", false, c.Value))
	case truth.OtherUpdate:
		return errors.Join(c.fence(ctx), c.update(ctx, "flux"))
	case truth.Both:
		return errors.Join(c.apply(ctx, contract.FieldManager, c.Fenced, c.Value), c.apply(ctx, "kustomize-controller", false, c.Value))
	case truth.Ancient:
		return c.age(ctx)
	case truth.BeforeFirstApply:
		return errors.Join(c.wipe(ctx), c.patch(ctx, types.ApplyPatchType, "kustomize-controller",
			map[string]any{"metadata": map[string]any{"labels": map[string]any{"applied": "yes"}}}))
	case truth.SpoofedName:
		return errors.Join(c.fence(ctx), c.update(ctx, contract.FieldManager))
	default:
		return c.forge(ctx)
	}
}

func (c cellOnServer) wipe(ctx context.Context) error {
	return c.patch(ctx, types.MergePatchType, "wiper", map[string]any{"metadata": map[string]any{"managedFields": []any{map[string]any{}}}})
}

// age: more writers by Update than the API server keeps apart.
func (c cellOnServer) age(ctx context.Context) error {
	const kept = 10
	for i := range kept + 1 {
		if err := c.patch(ctx, types.MergePatchType, fmt.Sprintf("z-%02d", i), map[string]any{"metadata": map[string]any{"labels": map[string]any{fmt.Sprintf("l%d", i): "set"}}}); err != nil {
			return err
		}
	}
	return nil
}

// forge writes managedFields by hand, as anybody may: our name, our operation,
// but on the status.
func (c cellOnServer) forge(ctx context.Context) error {
	if c.Value == truth.Absent {
		return c.wipe(ctx)
	}
	return c.patch(ctx, types.MergePatchType, "forger", map[string]any{"metadata": map[string]any{"managedFields": []any{map[string]any{
		"manager": contract.FieldManager, "operation": "Apply", "subresource": "status", "apiVersion": helmv2.GroupVersion.String(),
		"fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:spec": map[string]any{"f:suspend": map[string]any{}}}}}}})
}

func (c cellOnServer) fence(ctx context.Context) error {
	if !c.Fenced {
		return nil
	}
	return c.apply(ctx, contract.FieldManager, true, truth.Absent)
}

func (c cellOnServer) apply(ctx context.Context, manager string, fenced bool, value truth.Value) error {
	body := map[string]any{}
	if fenced {
		body["metadata"] = map[string]any{"finalizers": []any{contract.Fence}}
	}
	if value != truth.Absent {
		body["spec"] = map[string]any{"suspend": value == truth.True}
	}
	return c.patch(ctx, types.ApplyPatchType, manager, body)
}

func (c cellOnServer) update(ctx context.Context, manager string) error {
	if c.Value == truth.Absent {
		return nil
	}
	return c.patch(ctx, types.MergePatchType, manager, map[string]any{"spec": map[string]any{"suspend": c.Value == truth.True}})
}

func (c cellOnServer) patch(ctx context.Context, kind types.PatchType, manager string, body map[string]any) error {
	options := []client.PatchOption{client.FieldOwner(manager)}
	if kind == types.ApplyPatchType {
		body["apiVersion"], body["kind"] = helmv2.GroupVersion.String(), helmv2.HelmReleaseKind
		options = append(options, client.ForceOwnership)
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	object := &helmv2.HelmRelease{ObjectMeta: metav1.ObjectMeta{Namespace: c.key.Namespace, Name: c.key.Name}}
	return api.Client.Patch(ctx, object, client.RawPatch(kind, raw), options...)
}

func (c cellOnServer) end(ctx context.Context) error {
	if !c.Terminating {
		return nil
	}
	return api.Delete(ctx, c.key)
}

// isWhatItSays: the requests led where they should have, or the cell proves
// nothing.
func (c cellOnServer) isWhatItSays(r decide.Release) error {
	if r.Fenced() != c.Fenced || r.Terminating() != c.Terminating || r.Suspended() != (c.Value == truth.True) {
		return fmt.Errorf("it became fenced %t, terminating %t, suspended %t", r.Fenced(), r.Terminating(), r.Suspended())
	}
	if c.Value == truth.Absent {
		return nil
	}
	want := map[string]bool{}
	for _, entry := range c.Input().Release.Managers {
		want[entry.Manager+" "+entry.Operation+" "+entry.Subresource] = true
	}
	for _, entry := range r.Managers {
		if string(entry.Fields) != "" && ownsSuspend(entry) {
			delete(want, entry.Manager+" "+entry.Operation+" "+entry.Subresource)
		}
	}
	if len(want) > 0 {
		return fmt.Errorf("the API server does not record %v as an owner: %s", want, said(r.Managers))
	}
	return nil
}

func ownsSuspend(entry decide.ManagedField) bool {
	var fields struct {
		Spec map[string]any `json:"f:spec"`
	}
	if json.Unmarshal(entry.Fields, &fields) != nil {
		return false
	}
	_, owns := fields.Spec["f:suspend"]
	return owns
}

// send is the write of a verb; what decides no write is tried with the one that
// rests on the UID alone.
func send(ctx context.Context, r decide.Release, verb decide.Verb) (*decide.Release, error) {
	switch verb {
	case decide.Lift:
		return writer().Lift(ctx, r)
	case decide.Acquire:
		return writer().Acquire(ctx, r)
	case decide.DropFence:
		return writer().Drop(ctx, r)
	default:
		return writer().SetFence(ctx, r)
	}
}

// refused: the write that was decided about the object that is gone, with even
// the resourceVersion of the one that is there, changes nothing (B3.2).
func (c cellOnServer) refused(ctx context.Context, r decide.Release, gone string, verb decide.Verb) error {
	stale := r
	stale.UID = gone
	_, err := send(ctx, stale, verb)
	var isGone *kube.Gone
	var conflict *kube.Conflict
	if !errors.As(err, &isGone) && !errors.As(err, &conflict) && !kube.AddsFinalizerToTerminating(err) {
		return fmt.Errorf("a write for the UID that is gone: %w", err)
	}
	after, err := api.reader.Release(ctx, c.key.Namespace, c.key.Name)
	if err != nil {
		return err
	}
	if after == nil || after.ResourceVersion != r.ResourceVersion {
		return errors.New("a write for the UID that is gone has changed the one that is there")
	}
	return nil
}

// changes sends the decided write, and looks at what it did.
func (c cellOnServer) changes(ctx context.Context, r decide.Release, answer truth.Answer) error {
	if !answer.Verb.Writes() {
		return nil
	}
	after, err := send(ctx, r, answer.Verb)
	if err != nil {
		return err
	}
	suspended := r.Suspended() && (answer.Owner != decide.Ours || answer.Verb == decide.Acquire)
	fenced := answer.Verb != decide.DropFence
	if after.Suspended() != suspended || after.Fenced() != fenced {
		return fmt.Errorf("after %s: suspended %t, want %t; fenced %t, want %t", answer.Verb, after.Suspended(), suspended, after.Fenced(), fenced)
	}
	if answer.Owner == decide.Shared && after.Suspension() != decide.Foreign {
		return fmt.Errorf("after %s the suspension is %s, want theirs", answer.Verb, after.Suspension())
	}
	return nil
}

func said(entries []decide.ManagedField) (all []string) {
	for _, entry := range entries {
		all = append(all, fmt.Sprintf("%s %s %s %s", entry.Manager, entry.Operation, entry.Subresource, entry.Fields))
	}
	return all
}
