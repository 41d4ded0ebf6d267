package decide

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-project/holdfast/internal/identity"
)

// refusals is how often the Job controller must have been refused a Pod before
// the Job is doomed. One refusal can be a webhook that was just restarting; the
// controller asks again within seconds, and the second answer is the cluster's.
const refusals = 2

// JobView is everything that was read about one Job at one moment.
type JobView struct {
	// Object is the Job with the UID of its receipt.
	Object identity.Object
	// Job is nil when its absence was read.
	Job *batchv1.Job
	// Pods may be any Pods of the namespace: only those that the receipt's UID
	// owns are looked at.
	Pods []corev1.Pod
	// Events are those of the Job.
	Events []Event
	// SinceRelease is how long ago it was released.
	SinceRelease time.Duration
	// ScheduleBound is how long after the release a Pod may stay unscheduled.
	ScheduleBound time.Duration
}

// Event is the part of a Kubernetes event that counts.
type Event struct {
	Reason  string
	Message string
	// Count is how often it was seen; zero counts as once.
	Count int32
}

// Phase is what became of a Job.
type Phase string

// The phases. Waiting and Running go on; the others are final.
const (
	// Waiting: there is no Pod yet that runs.
	Waiting Phase = "waiting"
	// Running: its container runs.
	Running Phase = "running"
	// Succeeded: the Job is complete.
	Succeeded Phase = "succeeded"
	// Failed: it ran and failed, or it is gone.
	Failed Phase = "failed"
	// Doomed: it has not failed, and it can never start (A4.5).
	Doomed Phase = "doomed"
)

// The reasons that Kubernetes has no word for. All others are its own, for
// example ImagePullBackOff or DeadlineExceeded.
const (
	// ReasonVanished: the Job is absent although nobody of us deleted it.
	ReasonVanished = "JobVanished"
	// ReasonReplaced: its name belongs to another object now.
	ReasonReplaced = "JobReplaced"
	// ReasonDeleted: somebody is deleting it.
	ReasonDeleted = "JobDeleted"
	// ReasonSuspended: it may not have Pods yet.
	ReasonSuspended = "Suspended"
	// ReasonExit: a container ended with another code than 0.
	ReasonExit = "ContainerFailed"
)

// Progress is the answer to a JobView.
type Progress struct {
	Phase Phase
	// Reason is one word; empty while nothing stands out.
	Reason string
	// Message is for people, unescaped and unredacted.
	Message string
	// Pod and PodPhase name the Pod that the answer is about, if any, and
	// Container the one of its containers that failed.
	Pod       string
	PodPhase  corev1.PodPhase
	Container string
}

// Final reports whether waiting on is pointless.
func (p Progress) Final() bool { return p.Phase != Waiting && p.Phase != Running }

// JudgeJob says what became of a Job (A4.5). The order matters. Identity comes
// first: what another object did is no answer. What the Job controller
// concluded comes next, since it has seen the Pod's end also when the Pod is
// gone by now. Then what the Pods show, whose news reach the Job late or, for a
// Pod that cannot start, never. What was refused comes last: a refusal counts
// only as long as there is no Pod.
func JudgeJob(v JobView) Progress {
	for _, judge := range []func(JobView) (Progress, bool){lost, concluded, fromPods, refused} {
		if answer, decided := judge(v); decided {
			return answer
		}
	}
	// Before its release that is how it should be; after it, somebody (a queue)
	// took it back, and only the timeout can tell for how long.
	if suspend := v.Job.Spec.Suspend; suspend != nil && *suspend {
		return Progress{Phase: Waiting, Reason: ReasonSuspended}
	}
	return Progress{Phase: Waiting}
}

// lost judges a Job that is no longer the one of the receipt. A Job that
// vanishes during the wait is a failed preflight (A4.5).
func lost(v JobView) (Progress, bool) {
	switch {
	case v.Job == nil:
		return Progress{Phase: Failed, Reason: ReasonVanished, Message: "it is gone and this run did not delete it"}, true
	case string(v.Job.UID) != v.Object.UID:
		return Progress{Phase: Failed, Reason: ReasonReplaced, Message: fmt.Sprintf("its name belongs to another Job, uid %s", v.Job.UID)}, true
	case v.Job.DeletionTimestamp != nil:
		return Progress{Phase: Failed, Reason: ReasonDeleted, Message: "somebody is deleting it"}, true
	}
	return Progress{}, false
}

// concluded takes the Job controller's word. FailureTarget counts as Failed,
// which follows it only when the last Pod has ended: a Pod that is held would
// hide the failure. Success has no such shortcut, since a Pod that still ends
// can still be looked at for its image.
func concluded(v JobView) (Progress, bool) {
	for _, c := range v.Job.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case batchv1.JobComplete:
			return Progress{Phase: Succeeded}, true
		case batchv1.JobFailed, batchv1.JobFailureTarget:
			return failure(v, c), true
		}
	}
	return Progress{}, false
}

// failure prefers what the Pod shows: "BackoffLimitExceeded" says only that a
// Pod failed, and the Pod says why.
func failure(v JobView, c batchv1.JobCondition) Progress {
	answer := Progress{Phase: Failed, Reason: c.Reason, Message: c.Message}
	if c.Reason != batchv1.JobReasonBackoffLimitExceeded {
		return answer
	}
	for _, pod := range ownedBy(v.Pods, v.Object.UID) {
		if failed, decided := podFailure(pod); decided {
			return failed
		}
	}
	return answer
}

func fromPods(v JobView) (Progress, bool) {
	var latest Progress
	pods := ownedBy(v.Pods, v.Object.UID)
	for _, pod := range pods {
		answer := judgePod(pod, v.SinceRelease >= v.ScheduleBound)
		if answer.Final() {
			return answer, true
		}
		// A Pod that runs says more than one that waits.
		if latest.Phase != Running {
			latest = answer
		}
	}
	return latest, len(pods) > 0
}

// refused judges a Job that gets no Pod (quota, Pod security, a webhook).
func refused(v JobView) (Progress, bool) {
	var count int32
	var last Event
	for _, event := range v.Events {
		if event.Reason == "FailedCreate" {
			count += max(event.Count, 1)
			last = event
		}
	}
	switch {
	case count == 0:
		return Progress{}, false
	case count < refusals:
		return Progress{Phase: Waiting, Reason: last.Reason, Message: last.Message}, true
	}
	return Progress{Phase: Doomed, Reason: last.Reason, Message: last.Message}, true
}
