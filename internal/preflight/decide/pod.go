package decide

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ownedBy returns the Pods whose owner is that very UID. A label that says so
// proves nothing.
func ownedBy(pods []corev1.Pod, uid string) []corev1.Pod {
	var owned []corev1.Pod
	for _, pod := range pods {
		owns := func(owner metav1.OwnerReference) bool { return string(owner.UID) == uid }
		if uid != "" && slices.ContainsFunc(pod.OwnerReferences, owns) {
			owned = append(owned, pod)
		}
	}
	return owned
}

// judgePod reads one Pod of the Job. Succeeded is left to the Job controller:
// here such a Pod is merely still running out.
func judgePod(pod corev1.Pod, late bool) Progress {
	if answer, decided := podFailure(pod); decided {
		return answer
	}
	if answer, decided := cannotStart(pod); decided {
		return answer
	}
	answer := Progress{Phase: Waiting, Pod: pod.Name, PodPhase: pod.Status.Phase}
	if pod.Status.Phase == corev1.PodRunning || pod.Status.Phase == corev1.PodSucceeded {
		answer.Phase = Running
		return answer
	}
	if c := unscheduled(pod); c != nil {
		answer.Reason, answer.Message = c.Reason, c.Message
		if late {
			answer.Phase = Doomed
		}
		return answer
	}
	for _, status := range statuses(pod) {
		if waiting := status.State.Waiting; waiting != nil {
			answer.Reason, answer.Message = waiting.Reason, waiting.Message
		}
	}
	return answer
}

// podFailure: with a back-off limit of 0 a failed Pod is a failed Job, which
// the Job controller says some moments later.
func podFailure(pod corev1.Pod) (Progress, bool) {
	if pod.Status.Phase != corev1.PodFailed {
		return Progress{}, false
	}
	answer := Progress{Phase: Failed, Pod: pod.Name, PodPhase: pod.Status.Phase, Reason: pod.Status.Reason, Message: pod.Status.Message}
	// The candidate's own container first: when it fails, the sidecars among the
	// init containers are ended after it, and often not with 0. When an init
	// container fails, the candidate's has not ended at all.
	for _, status := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses) {
		ended := status.State.Terminated
		if ended == nil || ended.ExitCode == 0 {
			continue
		}
		answer.Container = status.Name
		answer.Message = fmt.Sprintf("container %s ended with exit code %d", status.Name, ended.ExitCode)
		// "Error" is what the kubelet writes for any exit code; OOMKilled and
		// its like are worth more than our own word.
		if answer.Reason == "" && ended.Reason != "Error" {
			answer.Reason = ended.Reason
		}
		break
	}
	if answer.Reason == "" {
		answer.Reason = ReasonExit
	}
	return answer, true
}

// neverStarts are the waiting reasons after which the kubelet only repeats
// itself: the image is not there or may not be had, or what the container needs
// from the namespace or the node is missing (A4.5). Some of them can heal, a
// registry can come back; a preflight that waits for that measures the registry,
// and failing early costs a second run.
func neverStarts() []string {
	return []string{
		"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull",
		"ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed",
		"CreateContainerConfigError", "CreateContainerError", "RunContainerError",
		"PreCreateHookError", "PreStartHookError", "PostStartHookError",
	}
}

func cannotStart(pod corev1.Pod) (Progress, bool) {
	for _, status := range statuses(pod) {
		if waiting := status.State.Waiting; waiting != nil && slices.Contains(neverStarts(), waiting.Reason) {
			return Progress{
				Phase: Doomed, Reason: waiting.Reason, Message: fmt.Sprintf("container %s: %s", status.Name, waiting.Message),
				Pod: pod.Name, PodPhase: pod.Status.Phase,
			}, true
		}
	}
	return Progress{}, false
}

// unscheduled returns the condition that says so, nil when none does.
func unscheduled(pod corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c
		}
	}
	return nil
}

func statuses(pod corev1.Pod) []corev1.ContainerStatus {
	return slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
}
