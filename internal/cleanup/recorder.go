package cleanup

import (
	"fmt"
	"reflect"
	"time"

	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/kube"
)

// readback is one file of observations/: what a read gave, identity only (A6.8).
// It is kept for people; no later command reads it as proof.
type readback struct {
	Version int             `json:"version"`
	Slot    string          `json:"slot,omitempty"`
	Asked   identity.Object `json:"asked"`
	// Found is "absent", "present" or "unreadable".
	Found             string       `json:"found"`
	UID               string       `json:"uid,omitempty"`
	DeletionTimestamp string       `json:"deletionTimestamp,omitempty"`
	Finalizers        []string     `json:"finalizers,omitempty"`
	Owners            []kube.Owner `json:"owners,omitempty"`
	// AfterMilliseconds is the time since cleanup began.
	AfterMilliseconds int64 `json:"afterMilliseconds"`
}

// recorder keeps a readback whenever it differs from the one before of the same
// name: a poll of thirty seconds is not thirty files.
type recorder struct {
	record Record
	report func(Progress)
	last   map[identity.Object]readback
	number int
}

func newRecorder(config Config) recorder {
	r := recorder{record: config.Record, report: config.Progress, last: map[identity.Object]readback{}}
	if r.report == nil {
		r.report = func(Progress) {}
	}
	return r
}

func (r *recorder) progress(at time.Duration, ref identity.SlotRef, object identity.Object, text string) {
	r.report(Progress{Elapsed: at, Ref: ref, Object: object, Text: text})
}

// cluster keeps a reading of the cluster's identity.
func (r *recorder) cluster(a answer, namespace string) error {
	for _, o := range []struct {
		name string
		kube.Observation
	}{{namespace, a.cluster.Namespace}, {"kube-system", a.cluster.KubeSystem}} {
		asked := identity.Object{APIVersion: "v1", Kind: "Namespace", Name: o.name}
		if err := r.observed(a, identity.SlotRef{}, asked, o.Observation); err != nil {
			return err
		}
	}
	return nil
}

func (r *recorder) observed(a answer, ref identity.SlotRef, asked identity.Object, o kube.Observation) error {
	back := readbackOf(ref, asked, o)
	if previous, ok := r.last[asked]; ok && reflect.DeepEqual(previous, back) {
		return nil
	}
	r.last[asked] = back
	r.progress(a.answered, ref, asked, back.clause())
	back.AfterMilliseconds = a.answered.Milliseconds()
	r.number++
	name := fmt.Sprintf("%04d-%s.json", r.number, kindWord(asked))
	if ref.Slot != "" {
		name = fmt.Sprintf("%04d-%s-%s.json", r.number, ref.Slot, kindWord(asked))
	}
	if err := r.record.Observe(name, back); err != nil {
		return fmt.Errorf("keeping an observation of %s: %w", asked, err)
	}
	return nil
}

func readbackOf(ref identity.SlotRef, asked identity.Object, o kube.Observation) readback {
	back := readback{Version: evidence.Version, Asked: asked, Found: "unreadable"}
	if ref.Slot != "" {
		back.Slot = ref.String()
	}
	switch o.Presence {
	case kube.Absent:
		back.Found = "absent"
	case kube.Present:
		back.Found, back.UID = "present", o.Meta.Object.UID
		back.DeletionTimestamp, back.Finalizers, back.Owners = o.Meta.DeletionTimestamp, o.Meta.Finalizers, o.Meta.Owners
	}
	return back
}

// clause is the readback in words.
func (b readback) clause() string {
	switch {
	case b.Found != "present":
		return b.Found
	case len(b.Finalizers) > 0:
		return fmt.Sprintf("present, held by the finalizers %v", b.Finalizers)
	case b.DeletionTimestamp != "":
		return "present, being deleted"
	default:
		return "present"
	}
}
