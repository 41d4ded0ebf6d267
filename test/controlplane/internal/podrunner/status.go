package podrunner

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// loopback is the address of everything here.
const loopback = "127.0.0.1"

// status is the Pod's status as it is now.
func (p *pod) status(final bool) corev1.PodStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	status := corev1.PodStatus{
		Phase: p.phase(final), StartTime: &p.startTime, QOSClass: p.object.Status.QOSClass,
		ObservedGeneration: p.object.Generation,
		HostIP:             loopback, HostIPs: []corev1.HostIP{{IP: loopback}},
		PodIP: loopback, PodIPs: []corev1.PodIP{{IP: loopback}},
	}
	for _, c := range p.init {
		status.InitContainerStatuses = append(status.InitContainerStatuses, c.status())
	}
	for _, c := range p.main {
		status.ContainerStatuses = append(status.ContainerStatuses, c.status())
	}
	if final && p.reason != "" {
		status.Phase, status.Reason = corev1.PodFailed, p.reason
		status.Message = "Pod was active on the node longer than the specified deadline"
	}
	status.Conditions = p.conditions(status.Phase)
	return status
}

// phase must be called with mu held.
func (p *pod) phase(final bool) corev1.PodPhase {
	started, failed, all := false, false, append(append([]*container(nil), p.init...), p.main...)
	for _, c := range all {
		started = started || !c.isInit && c.everStarted()
		if !c.exitedWith(0) {
			failed = true
		}
	}
	switch {
	case final && failed:
		return corev1.PodFailed
	case final:
		return corev1.PodSucceeded
	case started:
		return corev1.PodRunning
	}
	return corev1.PodPending
}

// conditions must be called with mu held. They are a kubelet's; those of others, as
// the scheduler's, are left alone.
func (p *pod) conditions(phase corev1.PodPhase) []corev1.PodCondition {
	initialized, ready := true, phase == corev1.PodRunning
	for _, c := range p.init {
		initialized = initialized && c.exitedWith(0)
	}
	for _, c := range p.main {
		ready = ready && c.state.Running != nil
	}
	var conditions []corev1.PodCondition
	reason := ""
	switch {
	case finished(phase):
		reason = "PodCompleted"
		if phase == corev1.PodFailed {
			reason = "PodFailed"
		}
	case !ready:
		reason = "ContainersNotReady"
	}
	for _, c := range []struct {
		kind   corev1.PodConditionType
		value  bool
		reason string
	}{
		{corev1.PodReadyToStartContainers, !finished(phase), ""},
		{corev1.PodInitialized, initialized, ""},
		{corev1.PodReady, ready, reason},
		{corev1.ContainersReady, ready, reason},
	} {
		conditions = append(conditions, p.condition(c.kind, c.value, c.reason))
	}
	return conditions
}

// condition keeps the time of the last transition.
func (p *pod) condition(kind corev1.PodConditionType, value bool, reason string) corev1.PodCondition {
	now := corev1.PodCondition{
		Type: kind, Status: corev1.ConditionFalse, Reason: reason,
		LastTransitionTime: metav1.Now().Rfc3339Copy(), ObservedGeneration: p.object.Generation,
	}
	if value {
		now.Status = corev1.ConditionTrue
	}
	if p.written == nil {
		return now
	}
	for _, before := range p.written.Conditions {
		if before.Type == kind && before.Status == now.Status {
			now.LastTransitionTime = before.LastTransitionTime
		}
	}
	return now
}

// statusPatch is a strategic merge patch: it merges conditions by their type, so what
// the scheduler or a controller adds meanwhile stays. The price is that a reason which
// no longer holds has to be emptied by name. The UID makes the patch fail when the
// name belongs to another Pod by now.
func statusPatch(uid types.UID, status corev1.PodStatus) ([]byte, error) {
	text, err := json.Marshal(status)
	if err != nil {
		return nil, fmt.Errorf("encoding a status: %w", err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, fmt.Errorf("encoding a status: %w", err)
	}
	conditions, _ := fields["conditions"].([]any)
	for _, c := range conditions {
		if condition, ok := c.(map[string]any); ok && condition["reason"] == nil {
			condition["reason"] = ""
		}
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid}, "status": fields})
}
