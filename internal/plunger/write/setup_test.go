package write_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
	"github.com/holdfast-project/holdfast/internal/plunger/gather"
	"github.com/holdfast-project/holdfast/internal/plunger/write"
	"github.com/holdfast-project/holdfast/test/controlplane"
	"github.com/holdfast-project/holdfast/test/helmcontroller/lab"
)

// server is a control plane without any helm-controller: what happens to an
// object here is what the test and flux-plunger wrote.
type server struct {
	*lab.Lab
	writer  map[decide.Strategy]write.Writer
	reader  gather.Reader
	objects map[decide.Strategy]*kube.Objects
	serial  int
}

var api *server

func TestMain(m *testing.M) {
	os.Exit(lab.Tests{ControlPlane: controlplane.Options{NoPodRunner: true, NoScheduler: true}, Begin: begin}.Run(m))
}

func begin(ctx context.Context, l *lab.Lab) error {
	api = &server{Lab: l, writer: map[decide.Strategy]write.Writer{}, objects: map[decide.Strategy]*kube.Objects{}}
	return errors.Join(api.permit(ctx, decide.Repair), api.permit(ctx, decide.Reclaim), l.Namespace(ctx, "ns"))
}

// permit makes a client under the strategy's shipped permissions.
func (s *server) permit(ctx context.Context, strategy decide.Strategy) error {
	if err := s.Permit(ctx, filepath.Join("..", "..", "..", "config", "rbac"), string(strategy)); err != nil {
		return err
	}
	config, err := s.ConfigFor(ctx, lab.System(string(strategy)), lab.Account(string(strategy)))
	if err != nil {
		return err
	}
	config.QPS = -1 // the truth table has thousands of requests
	objects, err := kube.NewObjects(config, contract.FieldManager)
	if err != nil {
		return err
	}
	s.objects[strategy], s.writer[strategy], s.reader = objects, write.NewWriter(objects), gather.NewReader(objects)
	return nil
}

// object is one HelmRelease of a test's own.
type object struct {
	t   *testing.T
	key types.NamespacedName
}

// create makes a HelmRelease by an Update, as a client without server-side apply
// does, with a finalizer that keeps it when it is deleted.
func create(t *testing.T, edits ...func(*helmv2.HelmRelease)) object {
	t.Helper()
	api.serial++
	key := types.NamespacedName{Namespace: "ns", Name: fmt.Sprintf("hr-%d", api.serial)}
	hr := lab.NewRelease(key, edits...)
	hr.Finalizers = append(hr.Finalizers, contract.HelmFinalizer)
	must(t, api.Client.Create(t.Context(), hr, client.FieldOwner("creator")))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		patch := []byte(`{"metadata":{"finalizers":null}}`)
		_ = api.Client.Patch(ctx, &helmv2.HelmRelease{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}, client.RawPatch(types.MergePatchType, patch))
		_ = api.Client.Delete(ctx, &helmv2.HelmRelease{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}})
	})
	return object{t, key}
}

// view is what flux-plunger reads.
func (o object) view() decide.Release {
	o.t.Helper()
	r, err := api.reader.Release(o.t.Context(), o.key.Namespace, o.key.Name)
	must(o.t, err)
	if r == nil {
		o.t.Fatalf("%s is gone", o.key)
	}
	return *r
}

// live is the object as an administrator reads it.
func (o object) live() *helmv2.HelmRelease {
	o.t.Helper()
	hr, err := api.Release(o.t.Context(), o.key)
	must(o.t, err)
	return hr
}

// patched sends a patch as the given manager.
func (o object) patched(kind types.PatchType, manager, body string) {
	o.t.Helper()
	hr := &helmv2.HelmRelease{ObjectMeta: metav1.ObjectMeta{Namespace: o.key.Namespace, Name: o.key.Name}}
	options := []client.PatchOption{client.FieldOwner(manager)}
	if kind == types.ApplyPatchType {
		options = append(options, client.ForceOwnership)
		body = `{"apiVersion":"helm.toolkit.fluxcd.io/v2","kind":"HelmRelease",` + strings.TrimPrefix(body, "{")
	}
	must(o.t, api.Client.Patch(o.t.Context(), hr, client.RawPatch(kind, []byte(body)), options...))
}

func (o object) merge(manager, body string) {
	o.t.Helper()
	o.patched(types.MergePatchType, manager, body)
}
func (o object) apply(manager, body string) {
	o.t.Helper()
	o.patched(types.ApplyPatchType, manager, body)
}

func (o object) deleted() {
	o.t.Helper()
	must(o.t, api.Delete(o.t.Context(), o.key))
}

// secret makes a storage Secret of the release.
func secret(t *testing.T, name string, version int, data []byte, kind corev1.SecretType) decide.Revision {
	t.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("sh.helm.release.v1.%s.v%d", name, version),
		Labels: map[string]string{"owner": "helm", "name": name, "version": fmt.Sprint(version), "status": "uninstalling"}},
		Type: kind, Data: map[string][]byte{"release": data, "other": []byte("kept")}}
	must(t, api.Client.Create(t.Context(), s, client.FieldOwner("Helm")))
	return decide.Revision{Namespace: "ns", Name: s.Name, UID: string(s.UID), ResourceVersion: s.ResourceVersion, Version: version, Status: "uninstalling"}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func suspended(hr *helmv2.HelmRelease) { hr.Spec.Suspend = true }
