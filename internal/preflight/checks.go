package preflight

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/holdfast-project/holdfast/internal/durable"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/internal/preflight/decide"
	"github.com/holdfast-project/holdfast/internal/render"
)

// checkPlace refuses an evidence directory that cannot be made before anything is
// asked of the cluster. journal.Create judges the same again under its own lock.
func (r *run) checkPlace(context.Context) error {
	place := filepath.Clean(r.Directory)
	parent, err := r.Files.Open(filepath.Dir(place))
	if err != nil {
		return refuseBecause(err, "its parent must exist and be reached without a link", "opening the parent of the evidence directory "+place)
	}
	defer func() { _ = parent.Close() }()
	path := filepath.Join(parent.Path(), filepath.Base(place))
	if _, err := parent.Lstat(filepath.Base(place)); err == nil {
		return refuse("every run needs a directory of its own; if it is of an interrupted run, clean that up first",
			"the evidence directory %s already exists", path)
	}
	name, err := parent.FileSystem()
	if err != nil {
		return refuseBecause(err, "", "finding the file system of "+parent.Path())
	}
	if _, err := durable.Acceptable(name, r.AllowFileSystem); err != nil {
		return refuse("", "the evidence directory %s %v", path, err)
	}
	return nil
}

// identify reads which cluster this is (A3.9). A run that cannot read its
// Namespace refuses: its cleanup could not tell this cluster from a rebuilt one.
func (r *run) identify(ctx context.Context) error {
	reading, err := r.readCluster(ctx)
	r.cluster = reading.Cluster()
	return err
}

func (r *run) readCluster(ctx context.Context) (kube.ClusterReading, error) {
	reading := r.Cluster.ClusterIdentity(ctx, r.Namespace)
	if reading.Namespace.Presence != kube.Present {
		return reading, r.unanswered(reading.Namespace.Err, "reading the cluster's identity")
	}
	if reading.Namespace.Meta.DeletionTimestamp != "" {
		return reading, refuse("", "namespace %s is being deleted", r.Namespace)
	}
	if reading.KubeSystem.Presence == kube.NotRead && !reading.KubeSystem.Forbidden() {
		return reading, r.unanswered(reading.KubeSystem.Err, "reading the cluster's identity")
	}
	return reading, nil
}

// unanswered refuses because a question to the cluster got no usable answer.
// Nothing was created, so this is exit 2.
func (r *run) unanswered(err error, doing string) error {
	if err == nil {
		err = errors.New("no answer")
	}
	text := r.words(err.Error())
	return &Refusal{Sentence: doing + ": " + text, Err: err}
}

// checkOthers refuses beside another preflight of the release (A4.2d): the lock
// of one evidence directory does not see another's run.
func (r *run) checkOthers(ctx context.Context) error {
	ofRelease := identity.InstanceLabel + "=" + r.Release
	jobs, err := r.Cluster.Jobs(ctx, r.Namespace, ofRelease)
	if err != nil {
		return r.unanswered(err, "looking for another preflight")
	}
	pods, err := r.Cluster.List(ctx, "v1", "Pod", r.Namespace, ofRelease)
	if err != nil {
		return r.unanswered(err, "looking for another preflight")
	}
	var present []decide.Present
	for i := range jobs {
		present = append(present, presentJob(&jobs[i]))
	}
	for _, pod := range pods {
		present = append(present, decide.Present{
			Object: pod.Object, Labels: pod.Labels, Terminating: pod.DeletionTimestamp != "",
			Annotations: map[string]string{identity.NonceAnnotation: pod.Nonce},
		})
	}
	if rivals := decide.Rivals(r.Release, present); len(rivals) > 0 {
		return refuse("wait for it to end, or clean it up with its own evidence directory",
			"another preflight of this release: %s is still there", rivals[0].Object)
	}
	return nil
}

func presentJob(job *batchv1.Job) decide.Present {
	p := decide.Present{
		Object: identity.Object{APIVersion: "batch/v1", Kind: "Job", Namespace: job.Namespace, Name: job.Name, UID: string(job.UID)},
		Labels: job.Labels, Annotations: job.Annotations, Terminating: job.DeletionTimestamp != nil,
	}
	for _, condition := range job.Status.Conditions {
		if (condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed) && condition.Status == corev1.ConditionTrue {
			p.Finished = true
		}
	}
	return p
}

// noPlanHash stands for the plan's digest in a dry run, which comes before the
// plan.
func noPlanHash() string { return strings.Repeat("0", 64) }

// tryAll sends every object once with dryRun=All (A4.2b): what a webhook, a quota
// or an admission rule would do to it is known before anything exists. It keeps
// the Pods that the Jobs would have, with the labels that the cluster gives them.
func (r *run) tryAll(ctx context.Context) error {
	for _, slot := range r.rendered.Slots {
		body, err := slot.Body(noPlanHash())
		if err != nil {
			return refuseBecause(err, "", "encoding slot "+string(slot.Name))
		}
		tried, err := r.Cluster.TryCreate(ctx, slot.Object, body)
		if err != nil {
			return r.unanswered(err, fmt.Sprintf("trying %s for slot %s", slot.Object, slot.Name))
		}
		reason, err := changed(body, r.nonce, tried)
		if err != nil {
			return refuseBecause(err, "", "trying "+slot.Object.String())
		}
		if reason != "" {
			return refuse("a webhook or policy of the cluster changes what is created; exempt preflight objects from it",
				"the cluster would store another %s for slot %s: %s", slot.Object, slot.Name, r.words(reason))
		}
		if err := r.keepPod(slot, tried); err != nil {
			return err
		}
	}
	return nil
}

// changed says what the cluster would store otherwise than was sent; empty when
// nothing that matters. Of a Secret only metadata ever comes back (A6.8).
func changed(body []byte, nonce string, tried kube.Tried) (string, error) {
	switch {
	case tried.Meta.Nonce != nonce:
		return "its nonce annotation is changed", nil
	case len(tried.Meta.Finalizers) > 0:
		return "the finalizer " + tried.Meta.Finalizers[0] + " is added", nil
	case len(tried.Meta.Owners) > 0:
		return "the owner " + tried.Meta.Owners[0].Kind + " " + tried.Meta.Owners[0].Name + " is added", nil
	case tried.Object == nil:
		return "", nil
	}
	differences, err := decide.DryRun(body, tried.Object)
	if err != nil || len(differences) == 0 {
		return "", err
	}
	return differences[0].String(), nil
}

func (r *run) keepPod(slot render.Slot, tried kube.Tried) error {
	if !slot.Object.Consumer() {
		return nil
	}
	var job batchv1.Job
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(tried.Object.Object, &job); err != nil {
		return refuseBecause(err, "", "reading the dry run of "+slot.Object.String())
	}
	r.pods = append(r.pods, decide.PreflightPod{Slot: slot.Name, Namespace: r.Namespace, Labels: decide.PodLabels(&job)})
	return nil
}

// checkSelectors refuses when a Service, budget or workload of the chart or of
// the live namespace would claim a preflight Pod (A4.3). NetworkPolicies only
// restrict; they are named.
func (r *run) checkSelectors(ctx context.Context) error {
	if err := r.checkClaims(r.rendered.Objects); err != nil {
		return err
	}
	live, err := r.Cluster.Selectors(ctx, r.Namespace)
	if err != nil {
		return r.unanswered(err, "comparing selectors")
	}
	return r.checkClaims(live)
}

// checkClaims compares the objects of one side.
func (r *run) checkClaims(objects []unstructured.Unstructured) error {
	var selectors []decide.Selector
	for i := range objects {
		selector, selects, err := decide.SelectorOf(&objects[i])
		if err != nil {
			return &Refusal{Sentence: "comparing selectors: " + r.words(err.Error()), Err: err}
		}
		if selects {
			selectors = append(selectors, selector)
		}
	}
	refused, restricting := decide.Matches(selectors, r.pods)
	if len(refused) > 0 {
		return claimed(refused[0].Selector.Object, refused[0].Slot)
	}
	for _, match := range restricting {
		r.restricted(match.Selector.Object, match.Slot)
	}
	return nil
}

func claimed(selector identity.Object, slot identity.Slot) error {
	return refuse("narrow its selector: it must not choose Pods by the instance label alone",
		"the selector of %s would choose the Pod of slot %s", selector.Place(), slot)
}

func (r *run) restricted(policy identity.Object, slot identity.Slot) {
	r.Report.Step(fmt.Sprintf("%s also restricts the Pod of slot %s", policy.Place(), slot))
}
