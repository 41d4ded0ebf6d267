package podrunner

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// conditions must be called with mu held. What the scheduler wrote stays.
func (p *pod) conditions(phase corev1.PodPhase) []corev1.PodCondition {
	initialized, ready := true, phase == corev1.PodRunning
	for _, c := range p.init {
		initialized = initialized && c.exitedWith(0)
	}
	for _, c := range p.main {
		ready = ready && c.state.Running != nil
	}
	var conditions []corev1.PodCondition
	for _, c := range p.object.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			conditions = append(conditions, c)
		}
	}
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
