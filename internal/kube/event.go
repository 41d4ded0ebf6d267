package kube

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/redact"
)

// Note is one event to write about an object.
type Note struct {
	// Warning is false for a Normal event.
	Warning bool
	// Reason is one CamelCase word, Action what was done about it.
	Reason, Action string
	// Text is cut to the 1024 bytes that the API allows.
	Text string
	// Reporter and Instance name the program and its process.
	Reporter, Instance string
	// At is when it happened.
	At time.Time
}

// maxNote is the API's bound on an event's note, in bytes.
const maxNote = 1024

// WriteEvent writes one event straight to the API server (B6.3). A create needs
// no precondition: it is about an object and changes none. Errors: *Refused,
// *Conflict, *NotSent, *UnknownOutcome.
func (o *Objects) WriteEvent(ctx context.Context, about identity.Object, note Note) error {
	events := Resource{Group: "events.k8s.io", Version: "v1", Plural: "events", Kind: "Event"}
	kind := "Normal"
	if note.Warning {
		kind = "Warning"
	}
	event := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": events.APIVersion(), "kind": events.Kind,
		"metadata": map[string]any{
			"namespace": about.Namespace,
			"name":      fmt.Sprintf("%s.%x", about.Name, note.At.UnixNano()),
		},
		"eventTime": note.At.UTC().Format(metav1.RFC3339Micro), "type": kind, "reason": note.Reason, "action": note.Action,
		"note": redact.CutTo(note.Text, maxNote), "reportingController": note.Reporter, "reportingInstance": note.Instance,
		"regarding": map[string]any{"apiVersion": about.APIVersion, "kind": about.Kind,
			"namespace": about.Namespace, "name": about.Name, "uid": about.UID},
	}}
	_, err := o.dynamic.Resource(events.gvr()).Namespace(about.Namespace).Create(ctx, event, metav1.CreateOptions{FieldManager: o.manager})
	if err != nil {
		return writeError("create", events, events.At(about.Namespace, event.GetName()), err)
	}
	return nil
}
