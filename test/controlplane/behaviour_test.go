package controlplane_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/test/controlplane"
)

func TestContainersThatWait(t *testing.T) {
	ns := namespace(t)
	missing := corev1.EnvVar{Name: "X", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		Key: "k", LocalObjectReference: corev1.LocalObjectReference{Name: "missing"},
	}}}
	for reason, containers := range map[string][]corev1.Container{
		"ImagePullBackOff":           {{Image: controlplane.ImagePullError}, {Image: "example.test/nobody-knows:v1"}},
		"CreateContainerConfigError": {{Image: controlplane.ImageConfigError}, {Image: "example.test/report", Env: []corev1.EnvVar{missing}}},
	} {
		for _, container := range containers {
			pod := createPod(t, ns, corev1.PodSpec{Containers: []corev1.Container{container}})
			eventually(t, func() error {
				now, err := getPod(t, pod)
				if err != nil {
					return err
				}
				for _, s := range now.Status.ContainerStatuses {
					if s.State.Waiting != nil && s.State.Waiting.Reason == reason && now.Status.Phase == corev1.PodPending {
						return nil
					}
				}
				return fmt.Errorf("%s: status is %+v, want the reason %s", container.Image, now.Status, reason)
			})
		}
	}
}

// What was missing may come: the Pod that waited for it starts.
func TestImageMayBeRegisteredLater(t *testing.T) {
	ns := namespace(t)
	pod := createPod(t, ns, corev1.PodSpec{Containers: []corev1.Container{{Image: "example.test/later:v1"}}})
	reaches(t, pod, corev1.PodPending)
	if err := shared.RegisterImage("example.test/later", program("lines")); err != nil {
		t.Fatal(err)
	}
	now := reaches(t, pod, corev1.PodFailed)
	if id := now.Status.ContainerStatuses[0].ImageID; !strings.HasPrefix(id, "example.test/later@sha256:") {
		t.Errorf("the imageID is %q", id)
	}
}

func TestHangingPodIsReadyAndObeys(t *testing.T) {
	ns, grace := namespace(t), int64(1)
	for _, image := range []string{controlplane.ImageHang, controlplane.ImageHangDeaf} {
		pod := createPod(t, ns, corev1.PodSpec{TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{{Image: image}}})
		now := reaches(t, pod, corev1.PodRunning)
		if !now.Status.ContainerStatuses[0].Ready {
			t.Errorf("%s is not ready: %+v", image, now.Status)
		}
		if err := shared.Client().CoreV1().Pods(ns).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		isGone(t, pod)
	}
}

func TestDeadlineFailsThePod(t *testing.T) {
	ns, second := namespace(t), int64(1)
	pod := createPod(t, ns, corev1.PodSpec{ActiveDeadlineSeconds: &second, Containers: []corev1.Container{{Image: "example.test/deaf"}}})
	now := reaches(t, pod, corev1.PodFailed)
	if now.Status.Reason != "DeadlineExceeded" || now.Status.ContainerStatuses[0].State.Terminated.ExitCode != 137 {
		t.Errorf("status is %+v", now.Status)
	}
	if err := shared.Client().CoreV1().Pods(ns).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	isGone(t, pod)
}

func TestLogOptions(t *testing.T) {
	pod := createPod(t, namespace(t), corev1.PodSpec{Containers: []corev1.Container{{Image: "example.test/lines"}}})
	pod = reaches(t, pod, corev1.PodFailed)
	two, eight := int64(2), int64(8)
	for want, options := range map[string]corev1.PodLogOptions{
		"line 9\nno newline\n": {TailLines: &two},
		"line 0\nl":            {LimitBytes: &eight},
	} {
		if got := logOf(t, pod, options); got != want {
			t.Errorf("the log is %q, want %q", got, want)
		}
	}
	stamped := logOf(t, pod, corev1.PodLogOptions{Timestamps: true})
	if first, _, _ := strings.Cut(stamped, "\n"); !strings.HasSuffix(first, "Z line 0") {
		t.Errorf("the first line with its time is %q", first)
	}
}

func TestFailingContainerIsStartedAgain(t *testing.T) {
	ns := namespace(t)
	pod := createPod(t, ns, corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways, Containers: []corev1.Container{{Image: "example.test/lines"}}})
	eventually(t, func() error {
		now, err := getPod(t, pod)
		if err != nil {
			return err
		}
		if s := now.Status.ContainerStatuses; len(s) == 0 || s[0].RestartCount < 2 || now.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("status is %+v", now.Status)
		}
		return nil
	})
	if got := logOf(t, pod, corev1.PodLogOptions{Previous: true}); !strings.HasPrefix(got, "line 0\n") {
		t.Errorf("the log of the start before is %q", got)
	}
}

func TestInitContainersComeFirst(t *testing.T) {
	ns := namespace(t)
	for code, phase := range map[string]corev1.PodPhase{"0": corev1.PodSucceeded, "4": corev1.PodFailed} {
		pod := createPod(t, ns, corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "first", Image: "example.test/report", Env: []corev1.EnvVar{{Name: "CODE", Value: code}}}},
			Containers:     []corev1.Container{{Image: "example.test/report"}},
		})
		now := reaches(t, pod, phase)
		if ran := now.Status.ContainerStatuses[0].State.Terminated != nil; ran != (code == "0") {
			t.Errorf("after an init container with exit code %s the main one ran: %v", code, ran)
		}
	}
}

// A Pod gets to a node of kwok only when it asks, and kwok alone reports for it.
func TestKwokRunsWhatAsksForIt(t *testing.T) {
	ns := namespace(t)
	pod := createPod(t, ns, corev1.PodSpec{
		NodeSelector: map[string]string{controlplane.KwokNodeLabel: controlplane.KwokNodeValue},
		Tolerations:  []corev1.Toleration{{Key: controlplane.KwokNodeLabel, Operator: corev1.TolerationOpExists}},
		Containers:   []corev1.Container{{Image: "example.test/nobody-knows"}},
	})
	now := reaches(t, pod, corev1.PodRunning)
	if now.Spec.NodeName == controlplane.NodeName {
		t.Errorf("the Pod is on node %s", now.Spec.NodeName)
	}
	records, err := shared.AuditOf(controlplane.AuditFilter{Namespace: ns, Name: pod.Name, Subresource: "status", Writes: true})
	if err != nil {
		t.Fatal(err)
	}
	writers := map[string]bool{}
	for _, r := range records {
		writers[r.User] = true
	}
	delete(writers, "system:kube-scheduler") // it may have said that there was no node yet
	if len(writers) != 1 || !writers["holdfast-kwok"] {
		t.Errorf("the status was written by %v", writers)
	}
}

// A node without a kubelet: a Pod on it stays Pending, and its delete unfinished.
func TestNodeWithoutKubelet(t *testing.T) {
	ns := namespace(t)
	if err := shared.CreateNode(t.Context(), "silent", nil); err != nil {
		t.Fatal(err)
	}
	grace := int64(1)
	pod := createPod(t, ns, corev1.PodSpec{NodeName: "silent", TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{{Image: controlplane.ImageHang}}})
	if err := shared.Client().CoreV1().Pods(ns).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	now, err := getPod(t, pod)
	if err != nil || now.DeletionTimestamp == nil || now.Status.Phase != corev1.PodPending {
		t.Errorf("the Pod is %+v, %v", now.Status, err)
	}
}
