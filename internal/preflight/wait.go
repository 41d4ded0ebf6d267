package preflight

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/internal/preflight/decide"
	"github.com/holdfast-project/holdfast/internal/render"
)

// pollInterval is the pause between two looks at the Jobs. A preflight lasts
// minutes, and a look costs two requests for each Job.
const pollInterval = 500 * time.Millisecond

// Bounds of a wait. A node is started by an autoscaler within some minutes; a
// kubelet writes the image's identity with the Pod's own end.
const (
	scheduleBound = 3 * time.Minute
	proofLooks    = 20
)

// What is kept of a log, and how much of it is shown when its Job failed.
const (
	logLines   = 2000
	shownLines = 20
)

// job is one created Job while it is awaited.
type job struct {
	slot   render.Slot
	object identity.Object
	// failed is the container that failed, if it is known.
	failed   string
	released time.Time
	// pods are those of the last list that held any.
	pods    []corev1.Pod
	looks   int
	done    bool
	imageID string
	took    time.Duration
	// last is what was last shown of it, for an end that has no better reason.
	last string
}

// awaitSlots waits for the Jobs of these slots, which were created before.
func (a *attempt) awaitSlots(ctx context.Context, slots []identity.Slot) error {
	var jobs []*job
	for _, j := range a.jobs {
		if slices.Contains(slots, j.slot.Name) {
			jobs = append(jobs, j)
		}
	}
	return a.await(ctx, jobs)
}

// await looks at the Jobs in turn until all have succeeded. The first that has
// failed, vanished or can never start ends the wait (A4.5).
func (a *attempt) await(ctx context.Context, jobs []*job) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		waiting := false
		for _, j := range jobs {
			if j.done {
				continue
			}
			if err := a.look(ctx, j); err != nil {
				return err
			}
			waiting = waiting || !j.done
		}
		if !waiting {
			return nil
		}
		select {
		case <-ctx.Done():
			return a.overdue(ctx, jobs)
		case <-ticker.C:
		}
	}
}

// overdue keeps what the unfinished Jobs have printed before they are removed, and
// says of each how far it was: with credentials that expired it was never read.
func (a *attempt) overdue(ctx context.Context, jobs []*job) error {
	if end := stopped(ctx, a.Timeout); errors.Is(end, ErrInterrupted) {
		return end
	}
	reading, done := a.untilGivenUp(ctx)
	defer done()
	var open []string
	for _, j := range jobs {
		if j.done {
			continue
		}
		open = append(open, fmt.Sprintf("%s (%s)", j.slot.Name, j.last))
		if err := a.keepLog(reading, j, true); err != nil {
			return err
		}
	}
	return &Failed{Reason: timedOut(a.Timeout) + ": " + strings.Join(open, ", ")}
}

// show tells how far a Job is.
func (a *attempt) show(j *job, phase, detail string, mark Mark) {
	j.last = strings.TrimSuffix(phase+": "+detail, ": ")
	a.Report.Slot(string(j.slot.Name), phase, detail, mark)
}

// look reads one Job and its Pods, records what was seen, and judges it.
func (a *attempt) look(ctx context.Context, j *job) error {
	view, err := a.observe(ctx, j)
	if err != nil {
		// A read that fails is neither good nor bad news: the next one, or the
		// timeout, decides.
		if ctx.Err() == nil {
			a.show(j, "unreadable", a.Redact.String(err.Error()), Busy)
		}
		return nil
	}
	for i := range j.pods {
		if err := a.records.Child(j.slot.Name, podIdentity(&j.pods[i]), j.object.UID); err != nil {
			return &NotDurable{Err: err}
		}
	}
	return a.judge(ctx, j, decide.JudgeJob(view))
}

// observe reads what the judgement needs. Events are asked for only while there is
// no Pod: they say why there is none.
func (a *attempt) observe(ctx context.Context, j *job) (decide.JobView, error) {
	view := decide.JobView{
		Object:       j.object,
		SinceRelease: time.Since(j.released), ScheduleBound: min(scheduleBound, a.Timeout/2),
	}
	var gone *kube.Gone
	found, err := a.Cluster.Job(ctx, j.object.Namespace, j.object.Name)
	if err != nil && !errors.As(err, &gone) {
		return view, err
	}
	view.Job = found
	pods, err := a.Cluster.PodsOf(ctx, j.object)
	if err != nil {
		return view, err
	}
	if len(pods) > 0 {
		j.pods = pods
	}
	view.Pods = j.pods
	if len(j.pods) > 0 {
		return view, nil
	}
	events, err := a.Cluster.Events(ctx, j.object)
	if err != nil {
		return view, err
	}
	for _, event := range events {
		count := event.Count
		if event.Series != nil {
			count = max(count, event.Series.Count)
		}
		view.Events = append(view.Events, decide.Event{Reason: event.Reason, Message: event.Message, Count: count})
	}
	return view, nil
}

// judge acts on what became of a Job.
func (a *attempt) judge(ctx context.Context, j *job, progress decide.Progress) error {
	detail := strings.Trim(progress.Reason+": "+a.words(progress.Message), ": ")
	if !progress.Final() {
		if progress.Pod != "" {
			detail = strings.TrimRight(fmt.Sprintf("Pod %s %s %s", progress.Pod, progress.PodPhase, detail), " ")
		}
		a.show(j, string(progress.Phase), detail, Busy)
		return nil
	}
	if progress.Phase != decide.Succeeded {
		j.failed = progress.Container
		return a.fail(ctx, j, detail)
	}
	proven, err := a.proveImage(ctx, j)
	if err != nil || !proven {
		return err
	}
	j.done, j.took = true, time.Since(j.released).Round(time.Second)
	a.show(j, "succeeded", "", Good)
	return a.keepLog(ctx, j, false)
}

// fail shows and keeps what a failed Job printed, before it is removed.
func (a *attempt) fail(ctx context.Context, j *job, reason string) error {
	a.show(j, "failed", reason, Bad)
	if err := a.keepLog(ctx, j, true); err != nil {
		return err
	}
	return &Failed{Slot: j.slot.Name, Reason: reason}
}

// proveImage demands that what ran is the candidate or a manifest that its image
// index lists (A4.6). A node may say so a moment after the Job is complete; it is
// given proofLooks looks for that.
func (a *attempt) proveImage(ctx context.Context, j *job) (bool, error) {
	j.looks++
	verdict, imageID := a.judgeImage(j)
	if verdict == decide.ImageOther && !a.indexRead {
		if err := a.readIndex(ctx); err != nil {
			if end := stopped(ctx, a.Timeout); end != nil {
				return false, end
			}
			return false, a.fail(ctx, j, fmt.Sprintf("it ran the image %s, and whether the candidate's index lists that is not known: %s", imageID, a.words(err.Error())))
		}
		verdict, imageID = a.judgeImage(j)
	}
	switch {
	case verdict == decide.ImageProven:
		j.imageID = imageID
		return true, nil
	case verdict == decide.ImageOther:
		return false, a.fail(ctx, j, fmt.Sprintf("it ran the image %s and not the candidate %s", imageID, a.image))
	case j.looks >= proofLooks:
		return false, a.fail(ctx, j, "no Pod of it says which image it ran")
	}
	a.show(j, "succeeded", "waiting for the image's identity", Busy)
	return false, nil
}

func (a *attempt) judgeImage(j *job) (decide.ImageVerdict, string) {
	if len(j.pods) == 0 {
		return decide.ImageUnknown, ""
	}
	return decide.JudgeImage(j.pods[len(j.pods)-1], j.slot.Container, a.image.Digest, a.listed)
}

// indexTimeout bounds the one question to the registry.
const indexTimeout = 30 * time.Second

// readIndex asks the registry what the candidate lists. It is asked only when a
// node reports another digest, as it does for an index of several platforms.
func (a *attempt) readIndex(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, indexTimeout)
	defer cancel()
	listed, err := a.Index(ctx, a.image.Name, a.image.Digest)
	if err != nil {
		return err
	}
	a.listed, a.indexRead = listed, true
	return nil
}

// podIdentity names a Pod for its receipt.
func podIdentity(pod *corev1.Pod) identity.Object {
	return identity.Object{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)}
}

// keepLog keeps what the Job's last Pod printed, redacted and bounded, and shows
// its end when the Job failed. A log that cannot be read is no failure of the
// candidate.
func (a *attempt) keepLog(ctx context.Context, j *job, show bool) error {
	if len(j.pods) == 0 {
		return nil
	}
	pod := &j.pods[len(j.pods)-1]
	limits := kube.PodLogLimits{Bytes: evidence.MaxLogBytes, Lines: logLines}
	text, err := a.Cluster.PodLog(ctx, pod.Namespace, pod.Name, cmp.Or(j.failed, j.slot.Container), limits)
	if err != nil && len(text) == 0 {
		a.Report.Warn(fmt.Sprintf("the log of slot %s could not be read: %s", j.slot.Name, a.Redact.String(err.Error())))
		return nil
	}
	if err != nil || len(text) >= evidence.MaxLogBytes {
		text = wholeLines(text)
	}
	text = a.Redact.Bytes(text)
	if len(text) > evidence.MaxLogBytes {
		text = text[len(text)-evidence.MaxLogBytes:]
	}
	if err := a.records.Log(j.slot.Name, text); err != nil {
		return &NotDurable{Err: err}
	}
	if show {
		a.Report.Log(string(j.slot.Name), lastLines(string(text), shownLines))
	}
	return nil
}

// wholeLines drops the last line of a log that was cut off, at its bound or with
// its connection: half a Secret value would no longer be recognised.
func wholeLines(text []byte) []byte {
	return text[:bytes.LastIndexByte(text, '\n')+1]
}

func lastLines(text string, n int) string {
	lines := strings.SplitAfter(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "")
}
