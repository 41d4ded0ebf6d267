package controlplane_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/test/controlplane"
)

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func createJob(t *testing.T, ns string, container corev1.Container, volumes ...corev1.Volume) *batchv1.Job {
	t.Helper()
	container.Name = "main"
	never, zero := int32(0), int64(0)
	job, err := shared.Client().BatchV1().Jobs(ns).Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "job"},
		Spec: batchv1.JobSpec{BackoffLimit: &never, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: &zero,
			Containers: []corev1.Container{container}, Volumes: volumes,
		}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return job
}

func podOf(t *testing.T, job *batchv1.Job) (pod *corev1.Pod) {
	t.Helper()
	eventually(t, func() error {
		pods, err := shared.Client().CoreV1().Pods(job.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "batch.kubernetes.io/controller-uid=" + string(job.UID)})
		if err == nil && len(pods.Items) != 1 {
			err = fmt.Errorf("the Job has %d Pods", len(pods.Items))
		}
		if err == nil {
			pod = &pods.Items[0]
		}
		return err
	})
	return pod
}

func TestJobRunsItsProgram(t *testing.T) {
	ns := namespace(t)
	core := shared.Client().CoreV1()
	if _, err := core.Secrets(ns).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"password": "hunter2", "user": "me"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := core.ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "c"}, Data: map[string]string{"colour": "green"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	job := createJob(t, ns, reportContainer(),
		corev1.Volume{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}})
	pod := reaches(t, podOf(t, job), corev1.PodFailed)

	var found seen
	out, errText, _ := strings.Cut(logOf(t, pod, corev1.PodLogOptions{}), "\n")
	if strings.HasPrefix(out, "a word") { // the two streams are not in order
		out, errText = strings.TrimSpace(errText), out+"\n"
	}
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	if errText != "a word on stderr\n" {
		t.Errorf("stderr in the log is %q", errText)
	}
	checkSeen(t, found, pod)
	checkEnd(t, pod)
	eventually(t, func() error {
		now, err := shared.Client().BatchV1().Jobs(ns).Get(t.Context(), "job", metav1.GetOptions{})
		if err == nil && now.Status.Failed != 1 {
			err = fmt.Errorf("the Job's status is %+v", now.Status)
		}
		return err
	})
}

func reportContainer() corev1.Container {
	return corev1.Container{
		Image:   "example.test/report:v1@" + digest,
		Command: []string{"/usr/bin/tool", "run"}, Args: []string{"--colour=$(COLOUR)", "$(UNKNOWN)", "$$(COLOUR)"},
		EnvFrom: []corev1.EnvFromSource{{Prefix: "S_", SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}},
		Env: []corev1.EnvVar{
			{Name: "CODE", Value: "3"},
			{Name: "COLOUR", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{Key: "colour", LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}}},
			{Name: "PASSWORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "password", LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}},
			{Name: "UID_SEEN", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.uid"}}},
			{Name: "READ", Value: "/etc/s/password /etc/one /var/run/secrets/kubernetes.io/serviceaccount/namespace"},
		},
		VolumeMounts: []corev1.VolumeMount{{Name: "s", MountPath: "/etc/s"}, {Name: "s", MountPath: "/etc/one", SubPath: "user"}},
	}
}

func checkSeen(t *testing.T, found seen, pod *corev1.Pod) {
	t.Helper()
	wantArgs := []string{"/usr/bin/tool", "run", "--colour=green", "$(UNKNOWN)", "$(COLOUR)"}
	if fmt.Sprint(found.Args) != fmt.Sprint(wantArgs) {
		t.Errorf("argv is %q, want %q", found.Args, wantArgs)
	}
	for name, want := range map[string]string{
		"S_user": "me", "COLOUR": "green", "PASSWORD": "hunter2", "UID_SEEN": string(pod.UID), "HOSTNAME": pod.Name,
	} {
		if found.Env[name] != want {
			t.Errorf("variable %s is %q, want %q", name, found.Env[name], want)
		}
	}
	for path, want := range map[string]string{
		"/etc/s/password": "hunter2", "/etc/one": "me", "/var/run/secrets/kubernetes.io/serviceaccount/namespace": pod.Namespace,
	} {
		if found.Files[path] != want {
			t.Errorf("file %s holds %q, want %q", path, found.Files[path], want)
		}
	}
	if found.Links["/etc/s/password"] != "..data/password" || found.Links["/etc/one"] != "" {
		t.Errorf("links are %q: a kubelet links into ..data, and mounts a subPath without a link", found.Links)
	}
	if want := "system:serviceaccount:" + pod.Namespace + ":default"; found.Caller != want {
		t.Errorf("with the Pod's token the caller is %q, want %q", found.Caller, want)
	}
}

func checkEnd(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	status := pod.Status.ContainerStatuses[0]
	if status.ImageID != "example.test/report@"+digest {
		t.Errorf("imageID is %q", status.ImageID)
	}
	end := status.State.Terminated
	if end == nil || end.ExitCode != 3 || end.Reason != "Error" || end.StartedAt.IsZero() || end.FinishedAt.Before(&end.StartedAt) {
		t.Errorf("the container's state is %+v", status.State)
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status != corev1.ConditionFalse {
			t.Errorf("a failed Pod has the condition %+v", c)
		}
		if c.Type == corev1.PodScheduled && c.Status != corev1.ConditionTrue {
			t.Errorf("the scheduler's condition is now %+v", c)
		}
	}
	if len(pod.Status.Conditions) != 5 {
		t.Errorf("conditions are %+v", pod.Status.Conditions)
	}
}

// A Pod that takes no notice of SIGTERM is killed when its grace period is over, and
// its object lives until then.
func TestDeletedPodIsAskedThenKilled(t *testing.T) {
	ns, grace := namespace(t), int64(1)
	pod := createPod(t, ns, corev1.PodSpec{
		TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{{Image: "example.test/deaf"}},
	})
	stream, err := shared.Client().CoreV1().Pods(ns).GetLogs(reaches(t, pod, corev1.PodRunning).Name, &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	var pid int
	if _, err := fmt.Fscanf(stream, "ready %d\n", &pid); err != nil {
		t.Fatalf("following the log: %v", err)
	}
	before := time.Now()
	if err := shared.Client().CoreV1().Pods(ns).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(stream) // a follower is released when the container has ended
	if err != nil || string(rest) != "asked to end\n" {
		t.Errorf("after the delete the log says %q, %v", rest, err)
	}
	isGone(t, pod)
	if took := time.Since(before); took < time.Second {
		t.Errorf("killed after %s, before the grace period was over", took)
	}
	if err := syscall.Kill(pid, 0); err == nil {
		t.Errorf("process %d lives on after its Pod", pid)
	}
}

func TestDeletedPodMayEndWell(t *testing.T) {
	ns, grace := namespace(t), int64(30)
	pod := createPod(t, ns, corev1.PodSpec{TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{{Image: "example.test/polite"}}})
	pod.Finalizers = []string{"holdfast.test/look"}
	held, err := shared.Client().CoreV1().Pods(ns).Update(t.Context(), pod, metav1.UpdateOptions{})
	for apierrors.IsConflict(err) {
		if held, err = getPod(t, pod); err == nil {
			held.Finalizers = pod.Finalizers
			held, err = shared.Client().CoreV1().Pods(ns).Update(t.Context(), held, metav1.UpdateOptions{})
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if text := logOf(t, reaches(t, held, corev1.PodRunning), corev1.PodLogOptions{}); !strings.HasPrefix(text, "ready") {
			return fmt.Errorf("the log is %q", text)
		}
		return nil
	})
	if err := shared.Client().CoreV1().Pods(ns).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	ended := reaches(t, pod, corev1.PodSucceeded)
	if end := ended.Status.ContainerStatuses[0].State.Terminated; end == nil || end.ExitCode != 0 {
		t.Errorf("the state is %+v", ended.Status.ContainerStatuses[0].State)
	}
	eventually(t, func() error {
		now, err := getPod(t, pod)
		if err == nil && (now.DeletionGracePeriodSeconds == nil || *now.DeletionGracePeriodSeconds != 0) {
			err = fmt.Errorf("the runner has not let the Pod go")
		}
		return err
	})
	if !strings.HasSuffix(logOf(t, ended, corev1.PodLogOptions{}), "goodbye\n") {
		t.Error("the log of a Pod that a finalizer holds is gone")
	}
	patch := []byte(`{"metadata":{"finalizers":null}}`)
	if _, err := shared.Client().CoreV1().Pods(ns).Patch(t.Context(), pod.Name, "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	isGone(t, pod)
	eventually(t, func() error {
		if _, err := os.Stat(shared.Dir() + "/pods/" + string(pod.UID)); !os.IsNotExist(err) {
			return fmt.Errorf("the Pod's directory is left: %w", err)
		}
		return nil
	})
}

func isGone(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	eventually(t, func() error {
		now, err := getPod(t, pod)
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err == nil:
			return fmt.Errorf("it is there: %+v", now.Status)
		}
		return err
	})
}

func TestForegroundDeletionOfJobRemovesItsPods(t *testing.T) {
	ns := namespace(t)
	job := createJob(t, ns, corev1.Container{Image: controlplane.ImageHang})
	pod := reaches(t, podOf(t, job), corev1.PodRunning)
	foreground := metav1.DeletePropagationForeground
	err := shared.Client().BatchV1().Jobs(ns).Delete(t.Context(), job.Name, metav1.DeleteOptions{PropagationPolicy: &foreground})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		_, err := shared.Client().BatchV1().Jobs(ns).Get(t.Context(), job.Name, metav1.GetOptions{})
		if err == nil {
			return fmt.Errorf("the Job is there")
		}
		return client404(err)
	})
	// Foreground: when the Job is gone its Pods are.
	if _, err := getPod(t, pod); !apierrors.IsNotFound(err) {
		t.Errorf("the Job is gone before its Pod: %v", err)
	}
}

func client404(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
