package write_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
	"github.com/holdfast-project/holdfast/internal/plunger/write"
)

func writer() write.Writer { return api.writer[decide.Reclaim] }

// B2.1 to B2.3, the live side of the ownership truth table: the API server's own
// managedFields, for each way to write the field, and the same answer.
func TestOwnershipAsTheServerRecordsIt(t *testing.T) {
	acquire := func(o object) {
		_, err := writer().Acquire(o.t.Context(), o.view())
		must(o.t, err)
	}
	for name, c := range map[string]struct {
		create []func(*helmv2.HelmRelease)
		do     func(object)
		want   decide.Suspension
	}{
		"nobody":                        {do: func(object) {}, want: decide.Running},
		"created suspended":             {create: []func(*helmv2.HelmRelease){suspended}, do: func(object) {}, want: decide.Foreign},
		"ours":                          {do: acquire, want: decide.Ours},
		"another's merge patch":         {do: func(o object) { o.merge("flux", `{"spec":{"suspend":true}}`) }, want: decide.Foreign},
		"another's apply":               {do: func(o object) { o.apply("kustomize-controller", `{"spec":{"suspend":true}}`) }, want: decide.Foreign},
		"flux-client-side-apply":        {do: func(o object) { o.apply("flux-client-side-apply", `{"spec":{"suspend":true}}`) }, want: decide.Foreign},
		"a merge patch under our name":  {do: func(o object) { o.merge(contract.FieldManager, `{"spec":{"suspend":true}}`) }, want: decide.Foreign},
		"ours, then applied by another": {do: func(o object) { acquire(o); o.apply("kustomize-controller", `{"spec":{"suspend":true}}`) }, want: decide.Shared},
		"ours, then resumed":            {do: func(o object) { acquire(o); o.merge("flux", `{"spec":{"suspend":false}}`) }, want: decide.Running},
		"ours, resumed, suspended again": {do: func(o object) {
			acquire(o)
			o.merge("flux", `{"spec":{"suspend":false}}`)
			o.merge("flux", `{"spec":{"suspend":true}}`)
		}, want: decide.Foreign},
		"ours, removed, suspended again": {do: func(o object) {
			acquire(o)
			o.merge("flux", `{"spec":{"suspend":null}}`)
			o.merge("flux", `{"spec":{"suspend":true}}`)
		}, want: decide.Foreign},
		// The documented blind spot (B9.2): nothing of it reaches the server.
		"ours, then the same by merge patch": {do: func(o object) { acquire(o); o.merge("flux", `{"spec":{"suspend":true}}`) }, want: decide.Ours},
		"ours, on another's earlier true": {create: []func(*helmv2.HelmRelease){suspended}, do: func(o object) {
			o.apply(contract.FieldManager, `{"metadata":{"finalizers":["`+contract.Fence+`"]},"spec":{"suspend":true}}`)
		}, want: decide.Shared},
		"managedFields wiped": {do: func(o object) { acquire(o); o.merge("wiper", `{"metadata":{"managedFields":[{}]}}`) }, want: decide.Foreign},
	} {
		t.Run("B2.1 "+name, func(t *testing.T) {
			o := create(t, c.create...)
			c.do(o)
			if got := o.view().Suspension(); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// rest is the object without what a suspension and a fence may change.
func rest(hr *helmv2.HelmRelease) *helmv2.HelmRelease {
	hr = hr.DeepCopy()
	hr.ResourceVersion, hr.Generation, hr.Finalizers, hr.Spec.Suspend = "", 0, nil, false
	var kept []metav1.ManagedFieldsEntry
	for _, entry := range hr.ManagedFields {
		if entry.Manager != contract.FieldManager {
			entry.Time = nil
			entry.FieldsV1 = metav1.NewFieldsV1(string(withoutSuspend(entry.FieldsV1.GetRawBytes())))
			// A manager that owned the suspension alone owns nothing after it was
			// taken over (B3.3).
			if string(entry.FieldsV1.GetRawBytes()) != `{"f:spec":{}}` {
				kept = append(kept, entry)
			}
		}
	}
	hr.ManagedFields = kept
	return hr
}

func withoutSuspend(raw []byte) []byte {
	var fields map[string]any
	if json.Unmarshal(raw, &fields) != nil {
		return raw
	}
	if spec, ok := fields["f:spec"].(map[string]any); ok {
		delete(spec, "f:suspend")
	}
	raw, _ = json.Marshal(fields)
	return raw
}

// B3.1, B3.4, B3.5: acquire, lift and drop change the suspension and the fence,
// and neither spec.interval, its owner nor any other field, whoever owns them.
func TestNothingElseChanges(t *testing.T) {
	for name, prepare := range map[string]func(object){
		"created by Update": func(object) {},
		"owned by an apply": func(o object) {
			o.apply("kustomize-controller", `{"spec":{"interval":"1h0m0s","chartRef":{"kind":"OCIRepository","name":"lab"}}}`)
		},
		"suspend false, owned by an Update": func(o object) { o.merge("velero", `{"spec":{"suspend":false}}`) },
	} {
		t.Run("B3.5 "+name, func(t *testing.T) {
			o := create(t)
			prepare(o)
			before := o.live()
			acquired, err := writer().Acquire(t.Context(), o.view())
			must(t, err)
			if !acquired.Suspended() || !acquired.Fenced() || acquired.Generation != before.Generation+1 {
				t.Errorf("acquired: suspended %t, fenced %t, generation %d", acquired.Suspended(), acquired.Fenced(), acquired.Generation)
			}
			lifted, err := writer().Lift(t.Context(), *acquired)
			must(t, err)
			if lifted.Suspended() || !lifted.Fenced() {
				t.Errorf("lifted: suspended %t, fenced %t", lifted.Suspended(), lifted.Fenced())
			}
			dropped, err := writer().Drop(t.Context(), *lifted)
			must(t, err)
			if dropped.Fenced() {
				t.Error("dropped, and still fenced")
			}
			if diff := cmp.Diff(rest(before), rest(o.live())); diff != "" {
				t.Errorf("something else changed: %s", diff)
			}
		})
	}
}

// B3.2: a write that lost against another one changes nothing and creates
// nothing.
func TestPreconditions(t *testing.T) {
	type attempt func(write.Writer, *testing.T, decide.Release) error
	writes := map[string]attempt{
		"acquire": func(w write.Writer, t *testing.T, r decide.Release) error {
			_, err := w.Acquire(t.Context(), r)
			return err
		},
		"lift": func(w write.Writer, t *testing.T, r decide.Release) error {
			_, err := w.Lift(t.Context(), r)
			return err
		},
		"drop": func(w write.Writer, t *testing.T, r decide.Release) error {
			_, err := w.Drop(t.Context(), r)
			return err
		},
		"note": func(w write.Writer, t *testing.T, r decide.Release) error {
			_, err := w.NoteUID(t.Context(), r, "u", "1@2026-11-29T11:00:00Z")
			return err
		},
		"fill": func(w write.Writer, t *testing.T, r decide.Release) error {
			_, err := w.FillStatus(t.Context(), r, decide.Revision{Version: 1, Status: "failed"}, now())
			return err
		},
		"request": func(w write.Writer, t *testing.T, r decide.Release) error {
			_, err := w.Request(t.Context(), r, "u", now())
			return err
		},
	}
	for name, send := range writes {
		t.Run("B3.2 "+name+", stale", func(t *testing.T) {
			o := create(t)
			stale := o.view()
			o.merge("somebody", `{"metadata":{"annotations":{"a":"b"}}}`)
			before := o.live()
			var conflict *kube.Conflict
			if err := send(writer(), t, stale); !errors.As(err, &conflict) || len(conflict.Fields()) > 0 {
				t.Errorf("%v, want a conflict on the version", err)
			}
			if diff := cmp.Diff(before, o.live()); diff != "" {
				t.Errorf("changed all the same: %s", diff)
			}
		})
		t.Run("B3.2 "+name+", another object under the name", func(t *testing.T) {
			o := create(t)
			other := o.view()
			other.UID = "00000000-0000-4000-8000-000000000000"
			before := o.live()
			err := send(writer(), t, other)
			if name == "fill" {
				// The API server ignores a wrong uid on /status; the answer is about
				// another object, and is not taken for ours.
				var unknown *kube.UnknownOutcome
				if err != nil && !errors.As(err, &unknown) {
					t.Errorf("%v", err)
				}
				return
			}
			if err == nil {
				t.Error("accepted")
			}
			if diff := cmp.Diff(before, o.live()); diff != "" {
				t.Errorf("changed all the same: %s", diff)
			}
		})
		t.Run("B3.2 "+name+", nothing under the name", func(t *testing.T) {
			missing := create(t).view()
			missing.Name = "never-was"
			if err := send(writer(), t, missing); err == nil {
				t.Error("accepted")
			}
			r, err := api.reader.Release(t.Context(), "ns", "never-was")
			if err != nil || r != nil {
				t.Errorf("created %v, %v", r, err)
			}
		})
		t.Run("B3.2 "+name+", no uid", func(t *testing.T) {
			r := create(t).view()
			r.UID = ""
			if err := send(writer(), t, r); err == nil || !strings.Contains(err.Error(), "no UID") {
				t.Errorf("%v, want a refusal before anything is sent", err)
			}
		})
	}
}

// B3.3: who is forced and who is not.
func TestAcquireAndForce(t *testing.T) {
	t.Run("B3.3 false by an Update is forced", func(t *testing.T) {
		o := create(t)
		o.merge("velero", `{"spec":{"suspend":false}}`)
		acquired, err := writer().Acquire(t.Context(), o.view())
		must(t, err)
		if acquired.Suspension() != decide.Ours {
			t.Errorf("%s", acquired.Suspension())
		}
	})
	t.Run("B3.3 true by another is not", func(t *testing.T) {
		o := create(t)
		before := o.view()
		o.merge("flux", `{"spec":{"suspend":true}}`)
		// The decision was made on the release as it was; its resourceVersion fails
		// the apply first, and a fresh one is never acquired by the decision.
		var conflict *kube.Conflict
		if _, err := writer().Acquire(t.Context(), before); !errors.As(err, &conflict) {
			t.Errorf("%v, want a conflict", err)
		}
		if got := o.view().Suspension(); got != decide.Foreign {
			t.Errorf("%s", got)
		}
	})
	t.Run("B3.1 on a terminating release both are refused", func(t *testing.T) {
		o := create(t)
		o.deleted()
		_, err := writer().Acquire(t.Context(), o.view())
		if !kube.AddsFinalizerToTerminating(err) {
			t.Errorf("%v", err)
		}
		if o.live().Spec.Suspend {
			t.Error("suspended without a fence")
		}
	})
}

// B2.2: what two want stays when one gives it up.
func TestSharedSuspensionStays(t *testing.T) {
	o := create(t)
	_, err := writer().Acquire(t.Context(), o.view())
	must(t, err)
	o.apply("kustomize-controller", `{"spec":{"suspend":true}}`)
	given, err := writer().Lift(t.Context(), o.view())
	must(t, err)
	if given.Suspension() != decide.Foreign || !given.Fenced() {
		t.Errorf("%s, fenced %t", given.Suspension(), given.Fenced())
	}
}
