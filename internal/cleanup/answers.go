package cleanup

import (
	"errors"
	"fmt"

	"github.com/holdfast-project/holdfast/internal/cleanup/decide"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/internal/redact"
)

// take adds an answer to the state and to the record.
func (e *engine) take(a answer) error {
	switch a.request.Verb {
	case decide.ReadCluster:
		return e.takeCluster(a)
	case decide.ListPods:
		return e.takePods(a)
	case decide.Delete:
		return e.takeDelete(a)
	default:
		return e.takeRead(a)
	}
}

func (e *engine) takeCluster(a answer) error {
	e.state.Cluster = append(e.state.Cluster, decide.ClusterRead{
		Sent: a.sent, Answered: a.answered,
		Namespace: namespaceRead(a.cluster.Namespace), KubeSystem: namespaceRead(a.cluster.KubeSystem),
	})
	if err := e.failed(a.cluster.Namespace.Err, a.cluster.Namespace.Presence == kube.NotRead); err != nil {
		return err
	}
	// Where the evidence does not record kube-system, its read decides nothing.
	recorded := e.state.Recorded.KubeSystemUID != ""
	if err := e.failed(a.cluster.KubeSystem.Err, recorded && a.cluster.KubeSystem.Presence == kube.NotRead); err != nil {
		return err
	}
	e.keepUnproven(a.cluster.Namespace)
	if recorded && !a.cluster.KubeSystem.Forbidden() {
		e.keepUnproven(a.cluster.KubeSystem)
	}
	return e.record.cluster(a, e.namespace)
}

// keepUnproven keeps why a reading of the cluster's identity failed, for the reason in
// the result (A6.2): an expired login, a certificate, a network that is down.
func (e *engine) keepUnproven(o kube.Observation) {
	if e.unproven == "" && o.Presence == kube.NotRead && o.Err != nil {
		e.unproven = e.said(o.Err.Error())
	}
}

func namespaceRead(o kube.Observation) decide.NamespaceRead {
	switch {
	case o.Presence == kube.Present:
		return decide.NamespaceRead{Found: decide.NamespacePresent, UID: o.Meta.Object.UID}
	case o.Presence == kube.Absent:
		return decide.NamespaceRead{Found: decide.NamespaceAbsent}
	case o.Forbidden():
		return decide.NamespaceRead{Found: decide.NamespaceDenied}
	default:
		return decide.NamespaceRead{Found: decide.NamespaceFailed}
	}
}

func (e *engine) takePods(a answer) error {
	list := decide.PodList{Sent: a.sent, Answered: a.answered, Failed: a.err != nil}
	concerns := e.state.Concerns()
	for _, meta := range a.pods {
		if pod := podOf(meta); concerns(pod) {
			list.Pods = append(list.Pods, pod)
			if err := e.record.observed(a, identity.SlotRef{}, pod.Object, kube.Observation{Presence: kube.Present, Meta: meta}); err != nil {
				return err
			}
		}
	}
	e.state.Pods = append(e.state.Pods, list)
	if a.err != nil {
		e.unlisted = e.said(a.err.Error())
	}
	return e.failed(a.err, a.err != nil)
}

func podOf(meta kube.Meta) decide.Pod {
	pod := decide.Pod{
		Object: meta.Object, ControllerUIDs: meta.ControllerUIDs(), Nonce: meta.Nonce,
		Deleting: meta.DeletionTimestamp != "", Finalizers: meta.Finalizers,
	}
	for _, owner := range meta.Owners {
		pod.Owners = append(pod.Owners, owner.UID)
	}
	return pod
}

func (e *engine) takeDelete(a answer) error {
	resource := e.resource(a.request.Ref)
	resource.Deletes = append(resource.Deletes, decide.Deletion{Answered: a.answered})
	if a.err == nil {
		delete(e.refused, a.request.Ref)
		e.record.progress(a.answered, a.request.Ref, resource.Object, "deletion accepted")
		return nil
	}
	e.refused[a.request.Ref] = e.said(a.err.Error())
	e.record.progress(a.answered, a.request.Ref, resource.Object, a.err.Error())
	// Gone is the state that was wanted; the absence read that follows settles
	// it. Everything else is a line for whoever looks for the cause.
	var gone *kube.Gone
	return e.failed(a.err, !errors.As(a.err, &gone))
}

func (e *engine) takeRead(a answer) error {
	read := readOf(a)
	switch a.request.Verb {
	case decide.ReadPlanned:
		slot := e.slot(a.request.Ref)
		slot.Reads = append(slot.Reads, read)
	case decide.ReadChild:
		resource := e.resource(a.request.Ref)
		for i := range resource.Children {
			if child := &resource.Children[i]; child.Object.UID == a.request.Child {
				child.Reads = append(child.Reads, read)
			}
		}
	default:
		resource := e.resource(a.request.Ref)
		resource.Reads = append(resource.Reads, read)
	}
	if cause := a.observation.Err; cause != nil && read.Found == decide.Failed {
		e.unread[a.request.Ref] = e.said(cause.Error())
	}
	if err := e.failed(a.observation.Err, read.Found == decide.Failed); err != nil {
		return err
	}
	return e.record.observed(a, a.request.Ref, e.place(a.request), a.observation)
}

func readOf(a answer) decide.Read {
	read := decide.Read{Sent: a.sent, Answered: a.answered}
	switch a.observation.Presence {
	case kube.Absent:
		read.Found = decide.Absent
	case kube.Present:
		meta := a.observation.Meta
		read.Found, read.UID, read.Nonce = decide.Present, meta.Object.UID, meta.Nonce
		read.Deleting, read.Finalizers = meta.DeletionTimestamp != "", meta.Finalizers
	}
	return read
}

// failed counts a failed request and writes its line.
func (e *engine) failed(cause error, failed bool) error {
	if !failed {
		return nil
	}
	e.counts.Failed++
	if cause == nil {
		cause = errors.New("a request failed without a reason")
	}
	return e.report(cause.Error())
}

func (e *engine) report(line string) error {
	if err := e.Record.Report(e.said(line)); err != nil {
		return fmt.Errorf("writing the cleanup's error file: %w", err)
	}
	return nil
}

// said is what others worded, as a file or a person may have it.
func (e *engine) said(text string) string { return redact.Cut(e.Redact(text)) }

// resource and slot find a row of the state. A request names only rows that the
// decision was given, so that a miss is a defect of this package.
func (e *engine) resource(ref identity.SlotRef) *decide.Resource {
	for i := range e.state.Resources {
		if e.state.Resources[i].Ref == ref {
			return &e.state.Resources[i]
		}
	}
	panic("cleanup: an answer about an unknown resource: " + ref.String())
}

func (e *engine) slot(ref identity.SlotRef) *decide.Slot {
	for i := range e.state.Slots {
		if e.state.Slots[i].Ref == ref {
			return &e.state.Slots[i]
		}
	}
	panic("cleanup: an answer about an unknown slot: " + ref.String())
}
