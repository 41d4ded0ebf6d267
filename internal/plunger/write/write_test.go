package write_test

import (
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
)

func now() time.Time { return time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC) }

// B5.8: the fence alone wins against any other write, makes no generation, and
// is refused once the delete was accepted.
func TestSetFence(t *testing.T) {
	t.Run("B5.8 on the uid only", func(t *testing.T) {
		o := create(t)
		stale := o.view()
		o.merge("helm-controller", `{"metadata":{"annotations":{"a":"b"}}}`)
		set, err := writer().SetFence(t.Context(), stale)
		must(t, err)
		if !set.Fenced() || set.Suspended() || set.Generation != stale.Generation {
			t.Errorf("fenced %t, suspended %t, generation %d after %d", set.Fenced(), set.Suspended(), set.Generation, stale.Generation)
		}
		if !slices.Contains(set.Finalizers, contract.HelmFinalizer) {
			t.Error("another finalizer is gone")
		}
	})
	t.Run("B5.8 after the delete", func(t *testing.T) {
		o := create(t)
		stale := o.view()
		o.deleted()
		if _, err := writer().SetFence(t.Context(), stale); !kube.AddsFinalizerToTerminating(err) {
			t.Errorf("%v, want the refusal that the delete was first", err)
		}
	})
	t.Run("B3.2 nothing is created", func(t *testing.T) {
		missing := create(t).view()
		missing.Name = "never-was-fenced"
		if _, err := writer().SetFence(t.Context(), missing); err == nil {
			t.Error("accepted")
		}
		if r, err := api.reader.Release(t.Context(), "ns", missing.Name); r != nil || err != nil {
			t.Errorf("created %v, %v", r, err)
		}
	})
}

// B3.4, B7.3: the fence goes whoever owns its entry in the list, and no other
// finalizer with it.
func TestDropWhoeverOwnsTheFence(t *testing.T) {
	for name, prepare := range map[string]func(object){
		"ours": func(o object) {
			_, err := writer().SetFence(o.t.Context(), o.view())
			must(o.t, err)
		},
		"ours and another's": func(o object) {
			_, err := writer().SetFence(o.t.Context(), o.view())
			must(o.t, err)
			o.apply("gitops", `{"metadata":{"finalizers":["`+contract.Fence+`"]}}`)
		},
		"another's": func(o object) {
			o.merge("helm-controller", `{"metadata":{"finalizers":["a.example/x","`+contract.Fence+`","`+contract.HelmFinalizer+`"]}}`)
		},
	} {
		t.Run("B7.3 "+name, func(t *testing.T) {
			o := create(t)
			prepare(o)
			want := slices.DeleteFunc(slices.Clone(o.view().Finalizers), func(s string) bool { return s == contract.Fence })
			dropped, err := writer().Drop(t.Context(), o.view())
			must(t, err)
			if diff := cmp.Diff(want, dropped.Finalizers); diff != "" {
				t.Errorf("finalizers: %s", diff)
			}
		})
	}
}

// B4.2a: the notes are an Update of their own, so the next apply keeps them.
func TestNotesSurviveTheNextApply(t *testing.T) {
	o := create(t)
	acquired, err := writer().Acquire(t.Context(), o.view())
	must(t, err)
	noted, err := writer().NoteUID(t.Context(), *acquired, "u1", "3@2026-11-29T11:00:00Z")
	must(t, err)
	noted, err = writer().NoteVersion(t.Context(), *noted, 3)
	must(t, err)
	lifted, err := writer().Lift(t.Context(), *noted)
	must(t, err)
	dropped, err := writer().Drop(t.Context(), *lifted)
	must(t, err)
	if dropped.Annotations[contract.ProcessedVersion] != "3" || dropped.Annotations[contract.ProcessedUID] != "u1@"+strconv.FormatInt(acquired.Generation, 10) ||
		dropped.Annotations[contract.NotedRevision] != "3@2026-11-29T11:00:00Z" {
		t.Errorf("the notes are %v", dropped.Annotations)
	}
}

// B5.7: what is empty is filled and nothing else is, in a form that the CRD
// accepts, and the counter counts.
func TestFillAndRemind(t *testing.T) {
	o := create(t)
	filled, err := writer().FillStatus(t.Context(), o.view(), decide.Revision{Version: 3, Status: "uninstalling"}, now())
	must(t, err)
	latest, known := filled.Remembered()
	if !known || latest.Version != 3 || latest.Name != o.key.Name || latest.Namespace != "ns" || latest.Status != "uninstalling" {
		t.Errorf("history %+v", filled.Status.History)
	}
	if filled.Status.StorageNamespace != "ns" {
		t.Errorf("storage namespace %q", filled.Status.StorageNamespace)
	}
	again, err := writer().FillStatus(t.Context(), *filled, decide.Revision{Version: 9, Status: "failed"}, now())
	must(t, err)
	if latest, _ := again.Remembered(); latest.Version != 3 {
		t.Errorf("a history that was there became version %d", latest.Version)
	}
	for n := 1; n <= 2; n++ {
		again, err = writer().Remind(t.Context(), *again, 0, now().Add(time.Duration(n)*time.Second))
		must(t, err)
		if again.ReminderCount() != n || again.Annotations[contract.RequestedAt] == "" || again.Annotations[contract.Unproven] != "" {
			t.Errorf("annotations after reminder %d: %v", n, again.Annotations)
		}
	}
	marked, err := writer().Remind(t.Context(), *again, 4, now())
	must(t, err)
	if marked.Annotations[contract.Unproven] != "4" {
		t.Errorf("annotations %v", marked.Annotations)
	}
}

// B4.3: the Secret that was decided about is deleted, in the state that was
// decided about, and no other; under repair's permissions none at all (B10.5).
func TestDeleteRevision(t *testing.T) {
	present := func(t *testing.T, r decide.Revision) bool {
		err := api.Client.Get(t.Context(), types.NamespacedName{Namespace: r.Namespace, Name: r.Name}, &corev1.Secret{})
		must(t, client.IgnoreNotFound(err))
		return err == nil
	}
	var conflict *kube.Conflict
	t.Run("B4.3 as decided", func(t *testing.T) {
		r := secret(t, "delete-ok", 1, nil, "helm.sh/release.v1")
		must(t, writer().DeleteRevision(t.Context(), r))
		if present(t, r) {
			t.Error("still there")
		}
	})
	t.Run("B4.3 written in between", func(t *testing.T) {
		r := secret(t, "delete-stale", 1, nil, "helm.sh/release.v1")
		r.ResourceVersion = "1"
		if err := writer().DeleteRevision(t.Context(), r); !errors.As(err, &conflict) || !present(t, r) {
			t.Errorf("%v, present %t", err, present(t, r))
		}
	})
	t.Run("B4.3 another under the name", func(t *testing.T) {
		r := secret(t, "delete-other", 1, nil, "helm.sh/release.v1")
		r.UID = "00000000-0000-4000-8000-000000000000"
		if err := writer().DeleteRevision(t.Context(), r); !errors.As(err, &conflict) || !present(t, r) {
			t.Errorf("%v, present %t", err, present(t, r))
		}
	})
	t.Run("B10.5 forbidden under repair", func(t *testing.T) {
		r := secret(t, "delete-repair", 1, nil, "helm.sh/release.v1")
		var refused *kube.Refused
		if err := api.writer[decide.Repair].DeleteRevision(t.Context(), r); !errors.As(err, &refused) || refused.Code != 403 {
			t.Errorf("%v", err)
		}
	})
}

// content is the smallest release that Helm decodes, with a field that it does
// not know.
const content = `eyJuYW1lIjoiYXBwIiwiaW5mbyI6eyJzdGF0dXMiOiJ1bmluc3RhbGxpbmciLCJmdXR1cmUiOjF9LCJ2ZXJzaW9uIjoxLCJuYW1lc3BhY2UiOiJucyJ9`

// B10.1, B10.3: payload and label in one update on exactly what was read, and
// the API server then says that it was us.
func TestRewrite(t *testing.T) {
	repair := api.writer[decide.Repair]
	read := func(t *testing.T, r decide.Revision) kube.Secret {
		s, err := api.objects[decide.Repair].GetSecret(t.Context(), r.Namespace, r.Name)
		must(t, err)
		return s
	}
	stored := func(t *testing.T, name string) decide.Revision {
		s, err := api.reader.Storage(t.Context(), decide.Release{Namespace: "ns", Name: name})
		must(t, err)
		return s.Revisions[0]
	}
	t.Run("B10.1 rewritten", func(t *testing.T) {
		r := secret(t, "rewrite-ok", 1, []byte(content), "helm.sh/release.v1")
		if stored(t, "rewrite-ok").RepairedByUs {
			t.Error("repaired before anything was written")
		}
		must(t, repair.Rewrite(t.Context(), read(t, r)))
		after := stored(t, "rewrite-ok")
		if after.Status != "failed" || !after.RepairedByUs || after.UID != r.UID {
			t.Errorf("stored %+v", after)
		}
		payload, s, err := api.reader.Payload(t.Context(), after)
		must(t, err)
		other, err := s.Data("other")
		if payload.Status != "failed" || err != nil || string(other) != "kept" {
			t.Errorf("payload %+v, the other value %q, %v", payload, other, err)
		}
	})
	t.Run("B10.1 written in between", func(t *testing.T) {
		r := secret(t, "rewrite-stale", 1, []byte(content), "helm.sh/release.v1")
		before := read(t, r)
		must(t, repair.Rewrite(t.Context(), before))
		var conflict *kube.Conflict
		if err := repair.Rewrite(t.Context(), before); !errors.As(err, &conflict) {
			t.Errorf("%v", err)
		}
	})
	t.Run("B10.3 not decodable", func(t *testing.T) {
		r := secret(t, "rewrite-garbage", 1, []byte("garbage"), "helm.sh/release.v1")
		if err := repair.Rewrite(t.Context(), read(t, r)); err == nil || stored(t, "rewrite-garbage").ResourceVersion != r.ResourceVersion {
			t.Errorf("%v", err)
		}
	})
	t.Run("B10.5 another type", func(t *testing.T) {
		r := secret(t, "rewrite-opaque", 1, []byte(content), "Opaque")
		if err := repair.Rewrite(t.Context(), read(t, r)); err == nil {
			t.Error("an Opaque Secret was rewritten")
		}
	})
	t.Run("B10.5 forbidden under reclaim", func(t *testing.T) {
		r := secret(t, "rewrite-reclaim", 1, []byte(content), "helm.sh/release.v1")
		var refused *kube.Refused
		if err := writer().Rewrite(t.Context(), read(t, r)); !errors.As(err, &refused) || refused.Code != 403 {
			t.Errorf("%v", err)
		}
	})
}

// B4.5: a suspension that stays although our claim is gone is said, not taken
// for lifted: somebody wiped managedFields.
func TestWipedManagedFields(t *testing.T) {
	o := create(t)
	acquired, err := writer().Acquire(t.Context(), o.view())
	must(t, err)
	o.merge("wiper", `{"metadata":{"managedFields":[{}]}}`)
	if got := o.view().Suspension(); got != decide.Foreign {
		t.Errorf("%s: a wiped suspension must not be taken for ours", got)
	}
	stale := *acquired
	stale.ResourceVersion = o.view().ResourceVersion
	if _, err := writer().Lift(t.Context(), stale); err == nil || !o.live().Spec.Suspend {
		t.Errorf("%v, suspended %t: want the error that it stays", err, o.live().Spec.Suspend)
	}
}
