package lab

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"github.com/opencontainers/go-digest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ReleaseLabel is on every object of a chart of the lab, with the release's name.
const ReleaseLabel = "lab.holdfast.test/release"

// Chart describes a small chart. The zero value but for a version is a good one
// of four ConfigMaps.
type Chart struct {
	// Version is the chart's, "1.0.0" when empty.
	Version string
	// Objects is the number of ConfigMaps, 4 when 0; two versions with different
	// numbers differ in what they own.
	Objects int
	// Hooks add objects that Helm runs, by hook name ("pre-delete").
	Hooks map[string]Hook
	// Broken makes the chart fail to render.
	Broken bool
	// Keep puts helm.sh/resource-policy: keep on the first object.
	Keep bool
	// Finalizer is put on the first object, so that deleting it takes somebody.
	Finalizer string
}

// Hook says how a hook of the lab behaves.
type Hook int

const (
	// HookHangs is a Job that nobody runs: it ends with the action's timeout.
	HookHangs Hook = iota
	// HookFails is an object that the API server refuses: it fails at once.
	HookFails
	// HookWorks is a ConfigMap: it is done when it is stored.
	HookWorks
)

const metadata = "metadata:\n  name: {{ .Release.Name }}-%s\n  labels: {" + ReleaseLabel + ": {{ .Release.Name }}}\n"

// Pack returns the chart as the archive that a source hands out.
func (c Chart) Pack() ([]byte, error) {
	files := map[string]string{
		"Chart.yaml":  fmt.Sprintf("apiVersion: v2\nname: lab\nversion: %s\n", c.version()),
		"values.yaml": "n: 1\n",
	}
	count := c.Objects
	if count == 0 {
		count = 4
	}
	for i := range count {
		files[fmt.Sprintf("templates/cm%d.yaml", i)] = c.object(i)
	}
	for _, event := range slices.Sorted(maps.Keys(c.Hooks)) {
		files["templates/hook-"+event+".yaml"] = hookTemplate(event, c.Hooks[event])
	}
	if c.Broken {
		files["templates/broken.yaml"] = `{{ fail "this chart does not render" }}`
	}
	return pack("lab", files)
}

func (c Chart) version() string {
	if c.Version == "" {
		return "1.0.0"
	}
	return c.Version
}

func (c Chart) object(i int) string {
	head := fmt.Sprintf(metadata, fmt.Sprint(i))
	if i == 0 && c.Keep {
		head += "  annotations: {helm.sh/resource-policy: keep}\n"
	}
	if i == 0 && c.Finalizer != "" {
		head += "  finalizers: [" + c.Finalizer + "]\n"
	}
	return "apiVersion: v1\nkind: ConfigMap\n" + head + "data: {n: \"{{ .Values.n }}\"}\n"
}

func hookTemplate(event string, h Hook) string {
	head := fmt.Sprintf(metadata, "hook-"+event) + "  annotations: {helm.sh/hook: " + event + ", helm.sh/hook-delete-policy: \"before-hook-creation,hook-succeeded\"}\n"
	switch h {
	case HookHangs:
		return "apiVersion: batch/v1\nkind: Job\n" + head +
			"spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: \"registry.invalid/never:1\"}]}}}\n"
	case HookFails:
		return "apiVersion: v1\nkind: ConfigMap\n" + head + "data: {\"not a key\": \"refused\"}\n"
	}
	return "apiVersion: v1\nkind: ConfigMap\n" + head
}

func pack(name string, files map[string]string) ([]byte, error) {
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zipped)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		body := files[path]
		if err := archive.WriteHeader(&tar.Header{Name: name + "/" + path, Mode: 0o644, Size: int64(len(body))}); err != nil {
			return nil, fmt.Errorf("packing the chart: %w", err)
		}
		if _, err := archive.Write([]byte(body)); err != nil {
			return nil, fmt.Errorf("packing the chart: %w", err)
		}
	}
	if err := archive.Close(); err != nil {
		return nil, fmt.Errorf("packing the chart: %w", err)
	}
	if err := zipped.Close(); err != nil {
		return nil, fmt.Errorf("packing the chart: %w", err)
	}
	return packed.Bytes(), nil
}

// chartServer hands archives out by their digest, on a loopback port.
type chartServer struct {
	server *httptest.Server
	mu     sync.Mutex
	files  map[string][]byte
}

func newChartServer() *chartServer {
	s := &chartServer{files: map[string][]byte{}}
	s.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		data, found := s.files[r.URL.Path]
		s.mu.Unlock()
		if !found {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(data)
	}))
	return s
}

func (s *chartServer) put(data []byte) (url, path string, sum digest.Digest) {
	sum = digest.FromBytes(data)
	path = "/" + sum.Encoded() + ".tgz"
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[path] = data
	return s.server.URL + path, path, sum
}

// Publish makes the chart the artifact of the OCIRepository name in namespace,
// as source-controller would after a pull. The source is created when missing.
func (l *Lab) Publish(ctx context.Context, namespace, name string, chart Chart) error {
	data, err := chart.Pack()
	if err != nil {
		return err
	}
	url, path, sum := l.charts.put(data)
	return l.source(ctx, namespace, name, func(s *sourcev1.OCIRepository, now metav1.Time) {
		size := int64(len(data))
		s.Status.Artifact = &meta.Artifact{URL: url, Path: path[1:], Digest: sum.String(), Size: &size,
			Revision: chart.version() + "@" + sum.String(), LastUpdateTime: now}
		setReady(s, metav1.ConditionTrue, "Succeeded", "stored artifact")
	})
}

// Unready makes the source say that it is not ready; its artifact stays.
func (l *Lab) Unready(ctx context.Context, namespace, name string) error {
	return l.source(ctx, namespace, name, func(s *sourcev1.OCIRepository, _ metav1.Time) {
		setReady(s, metav1.ConditionFalse, "OCIArtifactPullFailed", "the registry does not answer")
	})
}

func (l *Lab) source(ctx context.Context, namespace, name string, edit func(*sourcev1.OCIRepository, metav1.Time)) error {
	s := &sourcev1.OCIRepository{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: sourcev1.OCIRepositorySpec{Interval: metav1.Duration{Duration: time.Hour}, URL: "oci://127.0.0.1/lab"}}
	if err := l.Client.Create(ctx, s); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating source %s/%s: %w", namespace, name, err)
	}
	if err := l.Client.Get(ctx, client.ObjectKeyFromObject(s), s); err != nil {
		return fmt.Errorf("reading source %s/%s: %w", namespace, name, err)
	}
	before := s.DeepCopy()
	s.Status.ObservedGeneration = s.Generation
	edit(s, metav1.Now())
	if err := l.Client.Status().Patch(ctx, s, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("filling the status of source %s/%s: %w", namespace, name, err)
	}
	return nil
}

func setReady(s *sourcev1.OCIRepository, status metav1.ConditionStatus, reason, message string) {
	s.Status.Conditions = []metav1.Condition{{Type: meta.ReadyCondition, Status: status, Reason: reason, Message: message,
		LastTransitionTime: metav1.Now(), ObservedGeneration: s.Generation}}
}
