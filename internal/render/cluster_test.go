package render_test

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/preflight/decide"
	"github.com/holdfast-project/holdfast/internal/render"
	"github.com/holdfast-project/holdfast/test/controlplane"
)

// What is rendered meets a real API server here, and with it the decisions that
// rest on what Kubernetes writes: its defaults, labels, events
// and conditions. These tests feed them from a real control plane, which has a
// scheduler and no node.
func TestOnAControlPlane(t *testing.T) {
	if testing.Short() {
		t.Skip("it needs a real control plane")
	}
	cp := controlplane.StartForTest(t, controlplane.Options{NoPodRunner: true})
	c := cluster{cp.Client(), cp.AdminConfig()}
	t.Run("A4.2b A4.4: the example passes restricted Pod security, and defaults are no difference", c.restricted)
	t.Run("A4.2b: a Job that breaks Pod security is warned of", c.warned)
	t.Run("A4.3: Pods have the labels we judged, and the policy chooses them alone", c.labels)
	t.Run("A4.5: a Job whose Pods a quota refuses is doomed", c.quota)
}

type cluster struct {
	kubernetes.Interface
	config *rest.Config
}

// namespace makes one that enforces restricted Pod security.
func (c cluster) namespace(t *testing.T, name string) string {
	t.Helper()
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted",
	}}}
	if _, err := c.CoreV1().Namespaces().Create(t.Context(), made, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return name
}

// slots are the example's.
func slots(t *testing.T, namespace string) []render.Slot {
	t.Helper()
	text, err := os.ReadFile("../../examples/profile.yaml")
	if err != nil {
		t.Fatal(err)
	}
	profile, err := render.ParseProfile(text)
	if err != nil {
		t.Fatal(err)
	}
	values, err := os.ReadFile("../../examples/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := render.Render(t.Context(), render.Inputs{
		Profile: profile, Chart: "../../examples/chart", Values: values, Namespace: namespace, Release: "demo",
		Image: "registry.example/holdfast/demo@sha256:1111111111111111111111111111111111111111111111111111111111111111",
		Nonce: "0a1b2c3d4e5f60718293a4b5c6d7e8f9", Deadline: time.Minute,
		Capabilities: render.Capabilities{KubeVersion: "v1.37.2", APIVersions: []string{"v1"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return rendered.Slots
}

// warnings collects the server's Warning headers.
type warnings struct {
	mu    sync.Mutex
	lines []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, text)
}

// try sends a body as a dry run and returns the whole answer.
func (c cluster) try(t *testing.T, object identity.Object, body []byte) (*unstructured.Unstructured, []string) {
	t.Helper()
	seen := &warnings{}
	config := rest.CopyConfig(c.config)
	config.WarningHandler = seen
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	path := map[string]string{"Secret": "/api/v1", "NetworkPolicy": "/apis/networking.k8s.io/v1", "Job": "/apis/batch/v1"}[object.Kind]
	resource := map[string]string{"Secret": "secrets", "NetworkPolicy": "networkpolicies", "Job": "jobs"}[object.Kind]
	raw, err := client.CoreV1().RESTClient().Post().AbsPath(path, "namespaces", object.Namespace, resource).
		Param("dryRun", "All").Param("fieldValidation", "Strict").Body(body).Do(t.Context()).Raw()
	if err != nil {
		t.Fatalf("%s: %v", object, err)
	}
	var answer unstructured.Unstructured
	if err := answer.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return &answer, seen.lines
}

func (c cluster) restricted(t *testing.T) {
	namespace := c.namespace(t, "restricted")
	for _, slot := range slots(t, namespace) {
		body, err := slot.Body("cafe")
		if err != nil {
			t.Fatal(err)
		}
		answer, warned := c.try(t, slot.Object, body)
		if len(warned) > 0 {
			t.Errorf("%s: the server warns %q", slot.Name, warned)
		}
		differences, err := decide.DryRun(body, answer)
		if err != nil || len(differences) > 0 {
			t.Errorf("%s: %v, %v", slot.Name, differences, err)
		}
	}
}

// warned proves that the test above can fail.
func (c cluster) warned(t *testing.T) {
	namespace := c.namespace(t, "warned")
	all := slots(t, namespace)
	job := decodeJob(t, all[len(all)-1].Manifest)
	job.Spec.Template.Spec.Containers[0].SecurityContext = nil
	body, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	if _, warned := c.try(t, all[len(all)-1].Object, body); len(warned) == 0 {
		t.Error("the server does not warn")
	}
}

func decodeJob(t *testing.T, manifest []byte) *batchv1.Job {
	t.Helper()
	var job batchv1.Job
	if err := json.Unmarshal(manifest, &job); err != nil {
		t.Fatal(err)
	}
	return &job
}

// start creates a slot's Job and lets it run.
func (c cluster) start(t *testing.T, slot render.Slot) *batchv1.Job {
	t.Helper()
	job, err := c.BatchV1().Jobs(slot.Object.Namespace).Create(t.Context(), decodeJob(t, slot.Manifest), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	release := []byte(`[{"op":"replace","path":"/spec/suspend","value":false}]`)
	if job, err = c.BatchV1().Jobs(job.Namespace).Patch(t.Context(), job.Name, types.JSONPatchType, release, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	return job
}

// until polls a view of the Job until judge is content, and shows the last
// answer when it never is.
func (c cluster) until(t *testing.T, job *batchv1.Job, bound time.Duration, content func(decide.Progress, []corev1.Pod) bool) {
	t.Helper()
	var last decide.Progress
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		now, err := c.BatchV1().Jobs(job.Namespace).Get(ctx, job.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		pods, err := c.CoreV1().Pods(job.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		events, err := c.CoreV1().Events(job.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(job.UID)})
		if err != nil {
			return false, err
		}
		view := decide.JobView{Object: identity.Object{Kind: "Job", UID: string(job.UID)}, Job: now, Pods: pods.Items, SinceRelease: time.Second, ScheduleBound: bound}
		for _, e := range events.Items {
			view.Events = append(view.Events, decide.Event{Reason: e.Reason, Message: e.Message, Count: e.Count})
		}
		last = decide.JudgeJob(view)
		return content(last, pods.Items), nil
	})
	if err != nil {
		t.Fatalf("%v; the last answer is %+v", err, last)
	}
}

func (c cluster) labels(t *testing.T) {
	namespace := c.namespace(t, "labels")
	var policy networkingv1.NetworkPolicy
	for _, slot := range slots(t, namespace) {
		if slot.Object.Kind == "NetworkPolicy" {
			if err := json.Unmarshal(slot.Manifest, &policy); err != nil {
				t.Fatal(err)
			}
		}
		if slot.Object.Kind != "Job" {
			continue
		}
		job := c.start(t, slot)
		c.until(t, job, time.Hour, func(p decide.Progress, pods []corev1.Pod) bool {
			return p.Pod != "" && p.Phase == decide.Waiting && p.Reason == "Unschedulable"
		})
		// The same Pod is doomed once the bound has passed (A4.5).
		c.until(t, job, time.Second, func(p decide.Progress, pods []corev1.Pod) bool {
			return p.Phase == decide.Doomed && p.Reason == "Unschedulable"
		})
		pods, err := c.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=" + job.Name})
		if err != nil || len(pods.Items) != 1 {
			t.Fatalf("%d Pods, %v", len(pods.Items), err)
		}
		if got, want := pods.Items[0].Labels, decide.PodLabels(job); !maps.Equal(got, want) {
			t.Errorf("%s: the Pod has %v, judged were %v", slot.Name, got, want)
		}
		selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
		if err != nil {
			t.Fatal(err)
		}
		if !selector.Matches(labels.Set(pods.Items[0].Labels)) {
			t.Errorf("%s: the policy does not choose its Pod", slot.Name)
		}
		own := maps.Clone(pods.Items[0].Labels)
		own[batchv1.JobNameLabel] = "demo-migration"
		if selector.Matches(labels.Set(own)) {
			t.Errorf("the policy chooses the release's own Pod %v", own)
		}
	}
}

func (c cluster) quota(t *testing.T) {
	namespace := c.namespace(t, "quota")
	none := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": resource.MustParse("0")}}}
	if _, err := c.CoreV1().ResourceQuotas(namespace).Create(t.Context(), none, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	all := slots(t, namespace)
	c.until(t, c.start(t, all[len(all)-1]), time.Hour, func(p decide.Progress, _ []corev1.Pod) bool {
		return p.Phase == decide.Doomed && p.Reason == "FailedCreate"
	})
}
