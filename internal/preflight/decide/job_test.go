package decide

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-project/holdfast/internal/identity"
)

const (
	ours   = "0a0a0a0a-0000-4000-8000-000000000001"
	theirs = "0b0b0b0b-0000-4000-8000-000000000002"
)

type edit[T any] func(*T)

func job(edits ...edit[batchv1.Job]) *batchv1.Job {
	run := false
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "demo-preflight-api-0a0a0a0a", UID: ours}, Spec: batchv1.JobSpec{Suspend: &run}}
	for _, e := range edits {
		e(j)
	}
	return j
}

func condition(kind batchv1.JobConditionType, status corev1.ConditionStatus, reason string) edit[batchv1.Job] {
	return func(j *batchv1.Job) {
		j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: kind, Status: status, Reason: reason, Message: "controller says " + reason})
	}
}

func pod(phase corev1.PodPhase, edits ...edit[corev1.Pod]) corev1.Pod {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod", OwnerReferences: []metav1.OwnerReference{{Kind: "Job", UID: ours}}},
		Status:     corev1.PodStatus{Phase: phase},
	}
	for _, e := range edits {
		e(&p)
	}
	return p
}

func ownedByUID(uid types.UID) edit[corev1.Pod] {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", UID: uid}}
		p.Labels = map[string]string{"controller-uid": ours, batchv1.ControllerUidLabel: ours}
	}
}

func waiting(reason string) edit[corev1.Pod] {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: "api",
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "kubelet says " + reason}}})
	}
}

func initWaiting(reason string) edit[corev1.Pod] {
	return func(p *corev1.Pod) {
		p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, corev1.ContainerStatus{Name: "prepare",
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}})
	}
}

func ended(code int32, reason string) edit[corev1.Pod] {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: "api",
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason}}})
	}
}

func notScheduled(reason string) edit[corev1.Pod] {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: "0/3 nodes"})
	}
}

func says(kind corev1.PodConditionType, status corev1.ConditionStatus) edit[corev1.Pod] {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind, Status: status, Reason: "Other"})
	}
}

func refusedPod(count int32) Event {
	return Event{Reason: "FailedCreate", Message: "exceeded quota", Count: count}
}

func TestJudgeJob(t *testing.T) {
	suspend := func(j *batchv1.Job) { yes := true; j.Spec.Suspend = &yes }
	deleting := func(j *batchv1.Job) { j.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
	replaced := func(j *batchv1.Job) { j.UID = theirs }
	complete := condition(batchv1.JobComplete, corev1.ConditionTrue, "CompletionsReached")

	for name, row := range map[string]struct {
		view   JobView
		phase  Phase
		reason string
	}{
		"A4.5: a Job that vanishes is a failed preflight":        {JobView{Job: nil}, Failed, ReasonVanished},
		"A4.5: vanished, whatever Pods are left":                 {JobView{Job: nil, Pods: []corev1.Pod{pod(corev1.PodRunning)}}, Failed, ReasonVanished},
		"A4.5: another UID is another Job, even a complete one":  {JobView{Job: job(replaced, complete)}, Failed, ReasonReplaced},
		"A4.5: somebody deletes it":                              {JobView{Job: job(deleting)}, Failed, ReasonDeleted},
		"A4.5: deleted although complete proves nothing later":   {JobView{Job: job(deleting, complete)}, Failed, ReasonDeleted},
		"A4.2c: suspended waits":                                 {JobView{Job: job(suspend)}, Waiting, ReasonSuspended},
		"A4.5: released and without a Pod yet":                   {JobView{Job: job()}, Waiting, ""},
		"A4.5: a Job without the suspend field":                  {JobView{Job: job(func(j *batchv1.Job) { j.Spec.Suspend = nil })}, Waiting, ""},
		"A4.1: complete":                                         {JobView{Job: job(complete)}, Succeeded, ""},
		"A4.1: complete is not what a condition denies":          {JobView{Job: job(condition(batchv1.JobComplete, corev1.ConditionFalse, "x"))}, Waiting, ""},
		"A4.1: complete is not what a condition does not know":   {JobView{Job: job(condition(batchv1.JobComplete, corev1.ConditionUnknown, "x"))}, Waiting, ""},
		"A4.1: success criteria met is not complete":             {JobView{Job: job(condition(batchv1.JobSuccessCriteriaMet, corev1.ConditionTrue, "x")), Pods: []corev1.Pod{pod(corev1.PodSucceeded)}}, Running, ""},
		"A4.5: complete although an event was once refused":      {JobView{Job: job(complete), Events: []Event{refusedPod(9)}}, Succeeded, ""},
		"A4.1: deadline exceeded":                                {JobView{Job: job(condition(batchv1.JobFailed, corev1.ConditionTrue, "DeadlineExceeded"))}, Failed, "DeadlineExceeded"},
		"A4.1: deadline exceeded while a Pod is held":            {JobView{Job: job(condition(batchv1.JobFailureTarget, corev1.ConditionTrue, "DeadlineExceeded")), Pods: []corev1.Pod{pod(corev1.PodRunning)}}, Failed, "DeadlineExceeded"},
		"A4.1: failed is not what a condition denies":            {JobView{Job: job(condition(batchv1.JobFailed, corev1.ConditionFalse, "x"))}, Waiting, ""},
		"A4.5: the Pod says why the limit was exceeded":          {JobView{Job: job(condition(batchv1.JobFailed, corev1.ConditionTrue, "BackoffLimitExceeded")), Pods: []corev1.Pod{pod(corev1.PodFailed, ended(137, "OOMKilled"))}}, Failed, "OOMKilled"},
		"A4.5: the limit was exceeded and the Pod is gone":       {JobView{Job: job(condition(batchv1.JobFailed, corev1.ConditionTrue, "BackoffLimitExceeded"))}, Failed, "BackoffLimitExceeded"},
		"A4.5: another Job's Pod explains nothing":               {JobView{Job: job(condition(batchv1.JobFailed, corev1.ConditionTrue, "BackoffLimitExceeded")), Pods: []corev1.Pod{pod(corev1.PodFailed, ended(1, "OOMKilled"), ownedByUID(theirs))}}, Failed, "BackoffLimitExceeded"},
		"A4.5: a failed Pod is a failed Job at once":             {JobView{Job: job(), Pods: []corev1.Pod{pod(corev1.PodFailed, ended(1, "Error"))}}, Failed, ReasonExit},
		"A4.5: a failed Pod without any status":                  {JobView{Job: job(), Pods: []corev1.Pod{pod(corev1.PodFailed)}}, Failed, ReasonExit},
		"A4.5: an evicted Pod":                                   {JobView{Job: job(), Pods: []corev1.Pod{pod(corev1.PodFailed, func(p *corev1.Pod) { p.Status.Reason = "Evicted" })}}, Failed, "Evicted"},
		"A4.5: the deadline speaks for itself, whatever the Pod": {JobView{Job: job(condition(batchv1.JobFailed, corev1.ConditionTrue, "DeadlineExceeded")), Pods: []corev1.Pod{pod(corev1.PodFailed, ended(137, "OOMKilled"))}}, Failed, "DeadlineExceeded"},
		"A4.5: the limit was exceeded and its Pod still runs":    {JobView{Job: job(condition(batchv1.JobFailed, corev1.ConditionTrue, "BackoffLimitExceeded")), Pods: []corev1.Pod{pod(corev1.PodRunning)}}, Failed, "BackoffLimitExceeded"},
		"A4.5: a failed Pod whose first container never ran":     {JobView{Job: job(), Pods: []corev1.Pod{pod(corev1.PodFailed, waiting("PodInitializing"), ended(2, "ContainerCannotRun"))}}, Failed, "ContainerCannotRun"},
		"A4.5: an exit code without any word":                    {JobView{Job: job(), Pods: []corev1.Pod{pod(corev1.PodFailed, ended(2, ""))}}, Failed, ReasonExit},
		"A4.5: an evicted Pod keeps its reason beside exit 137":  {JobView{Job: job(), Pods: []corev1.Pod{pod(corev1.PodFailed, ended(137, "OOMKilled"), func(p *corev1.Pod) { p.Status.Reason = "Evicted" })}}, Failed, "Evicted"},
		"A4.5: a failed Pod whose first container ended well":    {JobView{Job: job(), Pods: []corev1.Pod{pod(corev1.PodFailed, ended(0, "Completed"), ended(2, "ContainerCannotRun"))}}, Failed, "ContainerCannotRun"},
		"A4.5: running": {JobView{Job: job(), Pods: []corev1.Pod{pod(corev1.PodRunning)}}, Running, ""},
		"A4.5: a succeeded Pod waits for the Job":                 {JobView{Job: job(), Pods: []corev1.Pod{pod(corev1.PodSucceeded)}}, Running, ""},
		"A4.5: a running Pod says more than one that waits":       {JobView{Job: job(), Pods: []corev1.Pod{pod(corev1.PodRunning), pod(corev1.PodPending, waiting("ContainerCreating"))}}, Running, ""},
		"A4.5: a waiting Pod shows its reason":                    {JobView{Job: job(), Pods: []corev1.Pod{pod(corev1.PodPending, waiting("ContainerCreating"))}}, Waiting, "ContainerCreating"},
		"A4.5: a running Pod with a container that still waits":   {JobView{Job: job(), Pods: []corev1.Pod{pod(corev1.PodRunning, waiting("ContainerCreating"))}}, Running, ""},
		"A4.5: a Pod between its containers":                      {JobView{Job: job(), Pods: []corev1.Pod{pod(corev1.PodPending, ended(0, "Completed"))}}, Waiting, ""},
		"A6.3: a Pod that only a label gives us is not looked at": {JobView{Job: job(), Pods: []corev1.Pod{pod(corev1.PodFailed, ownedByUID(theirs))}}, Waiting, ""},
		"A4.5: an ownerless Pod is not looked at":                 {JobView{Job: job(), Pods: []corev1.Pod{pod(corev1.PodFailed, func(p *corev1.Pod) { p.OwnerReferences = nil })}}, Waiting, ""},

		"A4.5: ImagePullBackOff":                                       {JobView{Job: job(), Pods: []corev1.Pod{pod(corev1.PodPending, waiting("ImagePullBackOff"))}}, Doomed, "ImagePullBackOff"},
		"A4.5: ErrImagePull":                                           {JobView{Job: job(), Pods: []corev1.Pod{pod(corev1.PodPending, waiting("ErrImagePull"))}}, Doomed, "ErrImagePull"},
		"A4.5: InvalidImageName":                                       {JobView{Job: job(), Pods: []corev1.Pod{pod(corev1.PodPending, waiting("InvalidImageName"))}}, Doomed, "InvalidImageName"},
		"A4.5: ErrImageNeverPull":                                      {JobView{Job: job(), Pods: []corev1.Pod{pod(corev1.PodPending, waiting("ErrImageNeverPull"))}}, Doomed, "ErrImageNeverPull"},
		"A4.5: CreateContainerConfigError":                             {JobView{Job: job(), Pods: []corev1.Pod{pod(corev1.PodPending, waiting("CreateContainerConfigError"))}}, Doomed, "CreateContainerConfigError"},
		"A4.5: CreateContainerError":                                   {JobView{Job: job(), Pods: []corev1.Pod{pod(corev1.PodPending, waiting("CreateContainerError"))}}, Doomed, "CreateContainerError"},
		"A4.5: RunContainerError":                                      {JobView{Job: job(), Pods: []corev1.Pod{pod(corev1.PodPending, waiting("RunContainerError"))}}, Doomed, "RunContainerError"},
		"A4.5: an init container that cannot start":                    {JobView{Job: job(), Pods: []corev1.Pod{pod(corev1.PodPending, initWaiting("ImagePullBackOff"), waiting("PodInitializing"))}}, Doomed, "ImagePullBackOff"},
		"A4.5: an init container that works":                           {JobView{Job: job(), Pods: []corev1.Pod{pod(corev1.PodPending, initWaiting("PodInitializing"))}}, Waiting, "PodInitializing"},
		"A4.5: a sidecar that cannot start beside a running container": {JobView{Job: job(), Pods: []corev1.Pod{pod(corev1.PodRunning, waiting("ImagePullBackOff"))}}, Doomed, "ImagePullBackOff"},
		"A4.5: a doomed Pod beside a running one":                      {JobView{Job: job(), Pods: []corev1.Pod{pod(corev1.PodRunning), pod(corev1.PodPending, waiting("ErrImagePull"))}}, Doomed, "ErrImagePull"},

		"A4.5: unschedulable before its bound":                  {JobView{Job: job(), SinceRelease: 59 * time.Second, ScheduleBound: time.Minute, Pods: []corev1.Pod{pod(corev1.PodPending, notScheduled("Unschedulable"))}}, Waiting, "Unschedulable"},
		"A4.5: unschedulable at its bound":                      {JobView{Job: job(), SinceRelease: time.Minute, ScheduleBound: time.Minute, Pods: []corev1.Pod{pod(corev1.PodPending, notScheduled("Unschedulable"))}}, Doomed, "Unschedulable"},
		"A4.5: unschedulable, whatever its container waits for": {JobView{Job: job(), ScheduleBound: time.Minute, Pods: []corev1.Pod{pod(corev1.PodPending, notScheduled("Unschedulable"), waiting("PodInitializing"))}}, Waiting, "Unschedulable"},
		"A4.5: scheduled past its bound":                        {JobView{Job: job(), SinceRelease: time.Hour, ScheduleBound: time.Minute, Pods: []corev1.Pod{pod(corev1.PodPending, says(corev1.PodScheduled, corev1.ConditionTrue))}}, Waiting, ""},
		"A4.5: not ready past the scheduling bound":             {JobView{Job: job(), SinceRelease: time.Hour, ScheduleBound: time.Minute, Pods: []corev1.Pod{pod(corev1.PodPending, says(corev1.PodReady, corev1.ConditionFalse))}}, Waiting, ""},
		"A4.5: gated past its bound":                            {JobView{Job: job(), SinceRelease: time.Hour, ScheduleBound: time.Minute, Pods: []corev1.Pod{pod(corev1.PodPending, notScheduled("SchedulingGated"))}}, Doomed, "SchedulingGated"},
		"A4.5: running past the scheduling bound":               {JobView{Job: job(), SinceRelease: time.Hour, ScheduleBound: time.Minute, Pods: []corev1.Pod{pod(corev1.PodRunning)}}, Running, ""},
		"A4.5: creating past the scheduling bound":              {JobView{Job: job(), SinceRelease: time.Hour, ScheduleBound: time.Minute, Pods: []corev1.Pod{pod(corev1.PodPending, waiting("ContainerCreating"))}}, Waiting, "ContainerCreating"},

		"A4.5: one refused Pod may be a hiccup":                {JobView{Job: job(), Events: []Event{refusedPod(1)}}, Waiting, "FailedCreate"},
		"A4.5: Pods are refused, one event seen twice":         {JobView{Job: job(), Events: []Event{refusedPod(2)}}, Doomed, "FailedCreate"},
		"A4.5: Pods are refused, two events":                   {JobView{Job: job(), Events: []Event{refusedPod(0), {Reason: "SuccessfulCreate"}, refusedPod(1)}}, Doomed, "FailedCreate"},
		"A4.5: other events decide nothing":                    {JobView{Job: job(), Events: []Event{{Reason: "Suspended", Count: 9}, {Reason: "Resumed", Count: 9}}}, Waiting, ""},
		"A4.5: refused at first, then there was a Pod":         {JobView{Job: job(), Events: []Event{refusedPod(5)}, Pods: []corev1.Pod{pod(corev1.PodRunning)}}, Running, ""},
		"A4.5: refused, and the Pod there is is another's":     {JobView{Job: job(), Events: []Event{refusedPod(5)}, Pods: []corev1.Pod{pod(corev1.PodRunning, ownedByUID(theirs))}}, Doomed, "FailedCreate"},
		"A4.5: a Job that ran into its deadline while refused": {JobView{Job: job(condition(batchv1.JobFailed, corev1.ConditionTrue, "DeadlineExceeded")), Events: []Event{refusedPod(5)}}, Failed, "DeadlineExceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			row.view.Object = identity.Object{Kind: "Job", UID: ours}
			if row.view.ScheduleBound == 0 {
				row.view.ScheduleBound = time.Minute
			}
			got := JudgeJob(row.view)
			if got.Phase != row.phase || got.Reason != row.reason {
				t.Errorf("got %s %q, want %s %q", got.Phase, got.Reason, row.phase, row.reason)
			}
			if final := row.phase != Waiting && row.phase != Running; got.Final() != final {
				t.Errorf("Final() is %v", got.Final())
			}
		})
	}
}

// A4.5: after which waiting reasons the kubelet only repeats itself.
func TestReasonsThatNeverHeal(t *testing.T) {
	for _, reason := range []string{
		"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull",
		"ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed",
		"CreateContainerConfigError", "CreateContainerError", "RunContainerError",
		"PreCreateHookError", "PreStartHookError", "PostStartHookError",
	} {
		got := JudgeJob(JobView{Object: identity.Object{UID: ours}, Job: job(), Pods: []corev1.Pod{pod(corev1.PodPending, waiting(reason))}, ScheduleBound: time.Minute})
		if got.Phase != Doomed || got.Reason != reason {
			t.Errorf("%s: got %s %q", reason, got.Phase, got.Reason)
		}
	}
}

// A4.5: what a person is told names the container and the exit code, or says in
// the cluster's own words what it found.
func TestProgressTellsPeople(t *testing.T) {
	failed := func(reason string) *batchv1.Job {
		return job(condition(batchv1.JobFailed, corev1.ConditionTrue, reason))
	}
	evicted := func(p *corev1.Pod) { p.Status.Reason, p.Status.Message = "Evicted", "the node was low on memory" }
	for _, row := range []struct {
		job    *batchv1.Job
		pods   []corev1.Pod
		events []Event
		want   string
	}{
		{job(), []corev1.Pod{pod(corev1.PodFailed, ended(3, "Error"))}, nil, "container api ended with exit code 3"},
		{job(), []corev1.Pod{pod(corev1.PodFailed, ended(3, "Error"), ended(4, "Error"))}, nil, "container api ended with exit code 3"},
		{job(), []corev1.Pod{pod(corev1.PodFailed, evicted)}, nil, "the node was low on memory"},
		{job(), []corev1.Pod{pod(corev1.PodPending, waiting("ErrImagePull"))}, nil, "container api: kubelet says ErrImagePull"},
		{job(), []corev1.Pod{pod(corev1.PodPending, waiting("ContainerCreating"))}, nil, "kubelet says ContainerCreating"},
		{job(), []corev1.Pod{pod(corev1.PodPending, notScheduled("Unschedulable"))}, nil, "0/3 nodes"},
		{nil, nil, nil, "it is gone and this run did not delete it"},
		{job(func(j *batchv1.Job) { j.UID = theirs }), nil, nil, "its name belongs to another Job, uid " + theirs},
		{job(func(j *batchv1.Job) { j.DeletionTimestamp = &metav1.Time{} }), nil, nil, "somebody is deleting it"},
		{failed("DeadlineExceeded"), nil, nil, "controller says DeadlineExceeded"},
		{job(), nil, []Event{refusedPod(1)}, "exceeded quota"},
		{job(), nil, []Event{refusedPod(2)}, "exceeded quota"},
	} {
		got := JudgeJob(JobView{Object: identity.Object{UID: ours}, Job: row.job, Pods: row.pods, Events: row.events, ScheduleBound: time.Minute})
		if got.Message != row.want {
			t.Errorf("got %+v, want message %q", got, row.want)
		}
		if len(row.pods) > 0 && (got.Pod != "pod" || got.PodPhase != row.pods[0].Status.Phase) {
			t.Errorf("got %+v, want its Pod named", got)
		}
	}
}

// A4.5: the container that failed is named, so that its log can be kept: an init
// container, or the candidate's beside a sidecar that was ended after it.
func TestFailedContainerIsNamed(t *testing.T) {
	initEnded := func(p *corev1.Pod) {
		p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, corev1.ContainerStatus{Name: "prepare",
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 143, Reason: "Error"}}})
	}
	for want, edits := range map[string][]edit[corev1.Pod]{
		"prepare": {initEnded, waiting("PodInitializing")},
		"api":     {initEnded, ended(3, "Error")},
	} {
		got := JudgeJob(JobView{Object: identity.Object{UID: ours}, Job: job(), Pods: []corev1.Pod{pod(corev1.PodFailed, edits...)}})
		if got.Phase != Failed || got.Container != want || !strings.Contains(got.Message, "container "+want+" ended") {
			t.Errorf("got %+v, want container %s", got, want)
		}
	}
}

// A4.5: the words that people and "--output json" see are fixed.
func TestWords(t *testing.T) {
	for got, want := range map[string]string{
		string(Waiting): "waiting", string(Running): "running", string(Succeeded): "succeeded", string(Failed): "failed", string(Doomed): "doomed",
		ReasonVanished: "JobVanished", ReasonReplaced: "JobReplaced", ReasonDeleted: "JobDeleted", ReasonSuspended: "Suspended", ReasonExit: "ContainerFailed",
		string(ImageProven): "proven", string(ImageOther): "other", string(ImageUnknown): "unknown",
	} {
		if got != want {
			t.Errorf("the word is %q, want %q", got, want)
		}
	}
}

// A4.5: a view without a receipt's UID claims no Pod, not even an ownerless one.
func TestNoUIDOwnsNothing(t *testing.T) {
	stray := pod(corev1.PodFailed, func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{}} })
	if got := ownedBy([]corev1.Pod{stray}, ""); len(got) != 0 {
		t.Errorf("an empty UID owns %d Pods", len(got))
	}
}

func TestJudgeImage(t *testing.T) {
	const candidate = "sha256:aaaa"
	running := func(container, imageID string) corev1.Pod {
		return corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
			{Name: "sidecar", ImageID: "proxy@sha256:ffff"}, {Name: container, ImageID: imageID},
		}}}
	}
	for name, row := range map[string]struct {
		pod    corev1.Pod
		listed []string
		want   ImageVerdict
	}{
		"A4.6: the candidate's digest":                    {running("api", "registry.example/demo@sha256:aaaa"), nil, ImageProven},
		"A4.6: from another registry, a mirror":           {running("api", "mirror.example/demo@sha256:aaaa"), nil, ImageProven},
		"A4.6: with the runtime's scheme":                 {running("api", "docker-pullable://registry.example/demo@sha256:aaaa"), nil, ImageProven},
		"A4.6: one that its index lists":                  {running("api", "demo@sha256:bbbb"), []string{"sha256:cccc", "sha256:bbbb"}, ImageProven},
		"A4.6: one that its index does not list":          {running("api", "demo@sha256:bbbb"), []string{"sha256:cccc"}, ImageOther},
		"A4.6: a bare digest that is the candidate's":     {running("api", "sha256:aaaa"), nil, ImageProven},
		"A4.6: a bare digest of a configuration":          {running("api", "sha256:dddd"), nil, ImageOther},
		"A4.6: a name that only contains the digest":      {running("api", "demo/sha256:aaaa@sha256:dddd"), nil, ImageOther},
		"A4.6: a digest that only begins like it":         {running("api", "demo@sha256:aaaab"), nil, ImageOther},
		"A4.6: no imageID yet":                            {running("api", ""), nil, ImageUnknown},
		"A4.6: a sidecar's image does not speak for it":   {running("other", "demo@sha256:aaaa"), nil, ImageUnknown},
		"A4.6: no status at all":                          {corev1.Pod{}, nil, ImageUnknown},
		"A4.6: an empty digest listed proves nothing new": {running("api", "demo@sha256:bbbb"), []string{""}, ImageOther},
	} {
		t.Run(name, func(t *testing.T) {
			got, imageID := JudgeImage(row.pod, "api", candidate, row.listed)
			if got != row.want {
				t.Errorf("got %s for %q, want %s", got, imageID, row.want)
			}
			said := ""
			if row.want != ImageUnknown {
				said = row.pod.Status.ContainerStatuses[1].ImageID
			}
			if imageID != said {
				t.Errorf("the imageID is given as %q, want %q", imageID, said)
			}
		})
	}
}

func TestRivals(t *testing.T) {
	of := func(kind string, labels map[string]string, nonce string, edits ...edit[Present]) Present {
		p := Present{Object: identity.Object{Kind: kind, Name: "x"}, Labels: labels, Annotations: map[string]string{}}
		if nonce != "" {
			p.Annotations[identity.NonceAnnotation] = nonce
		}
		for _, e := range edits {
			e(&p)
		}
		return p
	}
	labels := func(release, component string) map[string]string {
		return map[string]string{identity.InstanceLabel: release, identity.ComponentLabel: component}
	}
	finished := func(p *Present) { p.Finished = true }
	terminating := func(p *Present) { p.Terminating = true }
	for name, row := range map[string]struct {
		present Present
		rival   bool
	}{
		"A4.2d: an unfinished Job by its component":       {of("Job", labels("demo", "upgrade-preflight"), ""), true},
		"A4.2d: an unfinished migration Job by its nonce": {of("Job", labels("demo", "initialization"), "ab"), true},
		"A4.2d: the release's own migration":              {of("Job", labels("demo", "initialization"), ""), false},
		"A4.2d: a finished Job":                           {of("Job", labels("demo", "upgrade-preflight"), "ab", finished), false},
		"A4.2d: a finished Job that is terminating":       {of("Job", labels("demo", "upgrade-preflight"), "ab", finished, terminating), true},
		"A4.2d: an unfinished Job that is terminating":    {of("Job", labels("demo", "upgrade-preflight"), "ab", terminating), true},
		"A4.2d: a Pod by its nonce":                       {of("Pod", labels("demo", "initialization"), "ab"), true},
		"A4.2d: a Pod by its component":                   {of("Pod", labels("demo", "upgrade-preflight"), ""), true},
		"A4.2d: a Pod counts also when it is finished":    {of("Pod", labels("demo", "upgrade-preflight"), "", finished), true},
		"A4.2d: a Pod of the release itself":              {of("Pod", labels("demo", "api"), ""), false},
		"A4.2d: another release's preflight":              {of("Job", labels("other", "upgrade-preflight"), "ab"), false},
		"A4.2d: a release whose name only begins like it": {of("Job", labels("demo-2", "upgrade-preflight"), "ab"), false},
		"A4.2d: an object without labels":                 {of("Pod", nil, "ab"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := len(Rivals("demo", []Present{row.present})) == 1; got != row.rival {
				t.Errorf("rival: %v, want %v", got, row.rival)
			}
		})
	}
}
