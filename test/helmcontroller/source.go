package helmcontroller

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/fluxcd/pkg/runtime/jitter"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"github.com/opencontainers/go-digest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
)

// sourceDigestLength is how much of the artifact's digest becomes build metadata
// of the chart's version, so that a republished version is a new one.
const sourceDigestLength = 12

// desired is what the release should become.
type desired struct {
	chart        *chart.Chart
	values       map[string]any
	configDigest string
	sourceDigest string
}

// prepare fetches the chart and composes the values. Everything that can be
// wrong with a source ends here, before Helm is asked anything.
func (r *reconciler) prepare(ctx context.Context, obj *helmv2.HelmRelease) (desired, ctrl.Result, error) {
	refuse := func(reason string, err error) (desired, ctrl.Result, error) {
		conditions.MarkFalse(obj, meta.ReadyCondition, reason, "%s", err)
		return desired{}, ctrl.Result{}, err
	}
	if err := unsupported(obj); err != nil {
		return refuse("NotInStandIn", reconcile.TerminalError(err))
	}
	source := &sourcev1.OCIRepository{}
	key := client.ObjectKey{Namespace: obj.Spec.ChartRef.Namespace, Name: obj.Spec.ChartRef.Name}
	if key.Namespace == "" {
		key.Namespace = obj.Namespace
	}
	if err := r.Get(ctx, key, source); err != nil {
		return refuse(helmv2.ArtifactFailedReason, fmt.Errorf("could not get Source object: %w", err))
	}
	if message := notReady(source); message != "" {
		conditions.MarkFalse(obj, meta.ReadyCondition, "SourceNotReady", "%s", message)
		return desired{}, jitter.JitteredRequeueInterval(ctrl.Result{RequeueAfter: obj.GetRequeueAfter()}), errWaitForSource
	}
	loaded, err := fetch(ctx, source)
	if errors.Is(err, errArtifactMissing) {
		conditions.MarkFalse(obj, meta.ReadyCondition, helmv2.ArtifactFailedReason, "Source not ready: artifact not found. Retrying in %s", requeueDependency)
		return desired{}, ctrl.Result{RequeueAfter: requeueDependency}, errWaitForSource
	}
	if err != nil {
		return refuse(helmv2.ArtifactFailedReason, fmt.Errorf("could not load chart: %w", err))
	}
	if conditions.HasAnyReason(obj, meta.ReadyCondition, helmv2.ArtifactFailedReason, "SourceNotReady", "RESTClientError") {
		conditions.MarkUnknown(obj, meta.ReadyCondition, meta.ProgressingReason, "reconciliation in progress")
	}
	values := obj.GetValues()
	canonical, err := json.Marshal(values)
	if err != nil {
		return refuse("ValuesError", err)
	}
	d := desired{chart: loaded, values: values, configDigest: digest.FromBytes(canonical).String()}
	if _, dig, found := strings.Cut(source.GetArtifact().Revision, "@"); found {
		d.sourceDigest = dig
		short := digest.Digest(dig).Encoded()[:sourceDigestLength]
		if !strings.Contains(loaded.Metadata.Version, "+") {
			loaded.Metadata.Version += "+" + short
		}
	}
	return d, ctrl.Result{}, nil
}

// unsupported refuses what the stand-in does not reproduce.
func unsupported(obj *helmv2.HelmRelease) error {
	s := obj.Spec
	if s.ChartRef == nil || s.ChartRef.Kind != sourcev1.OCIRepositoryKind {
		return errors.New("the stand-in takes charts from an OCIRepository only")
	}
	if len(s.DependsOn) > 0 || len(s.ValuesFrom) > 0 || len(s.PostRenderers) > 0 || obj.GetTest().Enable || obj.GetDriftDetection().MustDetectChanges() {
		return errors.New("the stand-in knows no dependsOn, valuesFrom, postRenderers, test or driftDetection")
	}
	return nil
}

func notReady(source *sourcev1.OCIRepository) string {
	name := fmt.Sprintf("%s '%s/%s'", sourcev1.OCIRepositoryKind, source.Namespace, source.Name)
	switch {
	case source.Generation != source.Status.ObservedGeneration:
		return name + " is not ready: latest generation of object has not been reconciled"
	case conditions.IsStalled(source):
		return name + " is not ready: " + conditions.GetMessage(source, meta.StalledCondition)
	case conditions.IsFalse(source, meta.ReadyCondition):
		return name + " is not ready: " + conditions.GetMessage(source, meta.ReadyCondition)
	case source.GetArtifact() == nil:
		return name + " is not ready: does not have an artifact"
	}
	return ""
}

var errArtifactMissing = errors.New("artifact not found")

func fetch(ctx context.Context, source *sourcev1.OCIRepository) (*chart.Chart, error) {
	artifact := source.GetArtifact()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, artifact.URL, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close() // it has been read
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return nil, errArtifactMissing
	default:
		return nil, fmt.Errorf("fetching %s: %s", artifact.URL, answer.Status)
	}
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, fmt.Errorf("fetching %s: %w", artifact.URL, err)
	}
	if got := digest.FromBytes(data).String(); got != artifact.Digest {
		return nil, fmt.Errorf("artifact %s has digest %s, want %s", artifact.URL, got, artifact.Digest)
	}
	return loader.LoadArchive(bytes.NewReader(data))
}

// newArtifact wakes releases only when a source shows another revision.
func newArtifact() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok1 := e.ObjectOld.(*sourcev1.OCIRepository)
			after, ok2 := e.ObjectNew.(*sourcev1.OCIRepository)
			if !ok1 || !ok2 || after.GetArtifact() == nil {
				return false
			}
			return before.GetArtifact() == nil || !before.GetArtifact().HasRevision(after.GetArtifact().Revision)
		},
	}
}

func (r *reconciler) releasesOf(ctx context.Context, source client.Object) []reconcile.Request {
	list := &helmv2.HelmReleaseList{}
	if err := r.List(ctx, list); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "listing HelmReleases of a source")
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		ref, namespace := list.Items[i].Spec.ChartRef, list.Items[i].Namespace
		if ref != nil && ref.Namespace != "" {
			namespace = ref.Namespace
		}
		if ref != nil && ref.Name == source.GetName() && namespace == source.GetNamespace() {
			requests = append(requests, reconcile.Request{NamespacedName: keyOf(&list.Items[i])})
		}
	}
	return requests
}
