package cleanup

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/journal"
	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/test/apiproxy"
	"github.com/holdfast-project/holdfast/test/controlplane"
)

func yamlUnmarshal(data []byte, into any) error { return yaml.Unmarshal(data, into) }

// A6.3, A6.7, A6.8, A6.12: all five objects with running Pods, under exactly the
// shipped Role; when the first dependency's DELETE leaves, no Job and no Pod of
// ours is left.
func TestEverythingIsRemoved(t *testing.T) {
	tr := begin(t, options{})
	tr.everything()
	tr.crash()
	tr.proxy.Hook(apiproxy.Hooks{Before: func(x apiproxy.Exchange) apiproxy.Action {
		if x.Method == "DELETE" && !strings.Contains(x.Path, "/jobs/") {
			pods, err := tr.admin.Pods(context.Background(), tr.namespace)
			jobs, err2 := tr.admin.Jobs(context.Background(), tr.namespace, "")
			if err != nil || err2 != nil || len(pods)+len(jobs) > 0 {
				t.Errorf("%s leaves while %d Pods and %d Jobs are there (%v, %v)", x.Path, len(pods), len(jobs), err, err2)
			}
		}
		return apiproxy.Action{}
	}})
	r := tr.clean()
	tr.expect(r, evidence.Complete, "secret=absent", "network-policy=absent", "migration=absent", "api=absent", "worker=absent")
	for slot, object := range tr.created {
		if tr.exists(object) {
			t.Errorf("%s is there", slot)
		}
	}
	if got := tr.deleted(); len(got) != 5 {
		t.Errorf("DELETEs were sent for %v", got)
	}
	// A6.11: again, with nothing left.
	tr.expect(tr.clean(), evidence.Complete, "secret=absent", "worker=absent")
}

// A6.3: a Job that somebody deleted through the raw API leaves its Pod running
// without an owner.
func TestOrphanedPod(t *testing.T) {
	tr := begin(t, options{})
	tr.acknowledge("secret", "network-policy", "migration")
	tr.release(false, "migration")
	pod := tr.pod("migration")
	tr.crash()
	job := tr.created["migration"]
	// The raw API's default for a batch/v1 Job: its Pods are orphaned.
	tr.must(shared.Client().BatchV1().RESTClient().Delete().AbsPath("/apis/batch/v1/namespaces", tr.namespace, "jobs", job.Name).Do(t.Context()).Error())
	tr.eventually("the Job's end", func() bool { return !tr.exists(job) })

	r := tr.clean()
	tr.expect(r, evidence.Incomplete, "migration=orphaned", "secret=retained", "network-policy=retained")
	if len(r.Pods) != 1 || r.Pods[0].Object != pod || r.Pods[0].Relation != "orphaned" || !strings.Contains(strings.Join(r.RetainedBecause, " "), pod.Name) {
		t.Errorf("the Pod is not named: %+v, %v", r.Pods, r.RetainedBecause)
	}
	if !tr.exists(pod) || !tr.exists(tr.created["secret"]) || !tr.exists(tr.created["network-policy"]) {
		t.Error("something was deleted that the evidence does not let go")
	}
	// The release owner deletes exactly that Pod; the same command then ends.
	tr.must(tr.admin.Delete(t.Context(), pod, kube.Foreground))
	tr.expect(tr.clean(), evidence.Complete, "migration=absent", "secret=absent", "network-policy=absent")
}

// A6.6: a Pod held by a finalizer: exit 1 within its 30 s, the finalizer named,
// dependencies there; after the finalizer is gone, exit 0.
func TestHeldPod(t *testing.T) {
	tr := begin(t, options{})
	tr.acknowledge("secret", "network-policy", "migration")
	tr.release(true, "migration")
	pod := tr.pod("migration")
	tr.crash()
	tr.finalizers("pods", pod, `["example.com/hold"]`)
	started := time.Now()
	r := tr.clean()
	if took := time.Since(started); took < 30*time.Second || took > 45*time.Second {
		t.Errorf("took %s", took)
	}
	tr.expect(r, evidence.Incomplete, "migration=remaining", "secret=retained", "network-policy=retained")
	if !strings.Contains(strings.Join(r.Reasons, " "), "example.com/hold") {
		t.Errorf("the finalizer is not named: %q", r.Reasons)
	}
	if !tr.exists(tr.created["secret"]) || !tr.exists(tr.created["network-policy"]) {
		t.Error("a dependency is gone")
	}
	tr.finalizers("pods", pod, `null`)
	tr.expect(tr.clean(), evidence.Complete, "migration=absent", "secret=absent")
}

// finalizers replaces an object's finalizers, as an admin.
func (tr *trial) finalizers(resource string, object identity.Object, list string) {
	tr.t.Helper()
	patch := []byte(`{"metadata":{"finalizers":` + list + `}}`)
	tr.must(shared.Client().CoreV1().RESTClient().Patch(types.MergePatchType).Namespace(tr.namespace).Resource(resource).Name(object.Name).Body(patch).Do(tr.t.Context()).Error())
}

// A6.7: a stranger's ConfigMap that names our Secret as its owner survives, since
// the Secret goes with Orphan. The control: one that names a Secret which is
// deleted in the background is collected.
func TestStrangersDependent(t *testing.T) {
	tr := begin(t, options{})
	tr.acknowledge("secret")
	tr.crash()
	client := shared.Client().CoreV1()
	other, err := client.Secrets(tr.namespace).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, metav1.CreateOptions{})
	tr.must(err)
	for name, owner := range map[string]metav1.OwnerReference{
		"strangers": {APIVersion: "v1", Kind: "Secret", Name: tr.created["secret"].Name, UID: types.UID(tr.created["secret"].UID)},
		"control":   {APIVersion: "v1", Kind: "Secret", Name: other.Name, UID: other.UID},
	} {
		configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{owner}}}
		_, err := client.ConfigMaps(tr.namespace).Create(t.Context(), configMap, metav1.CreateOptions{})
		tr.must(err)
	}
	tr.expect(tr.clean(), evidence.Complete, "secret=absent")
	background := metav1.DeletePropagationBackground
	tr.absentSoon(client.Secrets(tr.namespace).Delete(t.Context(), "other", metav1.DeleteOptions{PropagationPolicy: &background}), "the control", func() error {
		_, err := client.ConfigMaps(tr.namespace).Get(t.Context(), "control", metav1.GetOptions{})
		return err
	})
	if _, err := client.ConfigMaps(tr.namespace).Get(t.Context(), "strangers", metav1.GetOptions{}); err != nil {
		t.Errorf("the stranger's ConfigMap: %v", err)
	}
}

// replace deletes a slot's object and puts a stranger's under its name.
func (tr *trial) replace(slot identity.Slot) identity.Object {
	tr.t.Helper()
	ours := tr.created[slot]
	tr.must(tr.admin.Delete(tr.t.Context(), ours, kube.Background))
	tr.eventually("the end of "+string(slot), func() bool { return !tr.exists(ours) })
	body := encode(tr.t, tr.manifest(tr.planned(slot)))
	made := tr.admin.Create(tr.t.Context(), kube.CreateRequest{Place: ours.Place(), Body: body, AuditID: kube.NewAuditID(), Nonce: tr.nonce})
	tr.must(made.Err)
	return made.Meta.Object
}

// A6.4: the same name, the same labels, the same nonce and another UID: it is
// never touched, and a Job keeps the dependencies.
func TestReplacedJob(t *testing.T) {
	tr := begin(t, options{})
	tr.acknowledge("secret", "network-policy", "migration")
	tr.crash()
	stranger := tr.replace("migration")
	started := time.Now()
	r := tr.clean()
	if took := time.Since(started); took > 10*time.Second {
		t.Errorf("a conflict does not end the wait: %s", took)
	}
	tr.expect(r, evidence.Incomplete, "migration=conflict", "secret=retained", "network-policy=retained")
	if !tr.exists(stranger) || !tr.exists(tr.created["secret"]) {
		t.Error("something is gone")
	}
	if r.Resources[0].FoundUID != stranger.UID {
		t.Errorf("the stranger's UID is not named: %+v", r.Resources[0])
	}
}

// A6.4: a replaced dependency is left alone and holds nothing else up.
func TestReplacedSecret(t *testing.T) {
	tr := begin(t, options{})
	tr.acknowledge("secret", "network-policy", "migration")
	tr.crash()
	stranger := tr.replace("secret")
	tr.expect(tr.clean(), evidence.Incomplete, "migration=absent", "secret=conflict", "network-policy=absent")
	if !tr.exists(stranger) {
		t.Error("the stranger's Secret is gone")
	}
}

// A6.13, A6.14, A6.15: a Job whose receipt was lost is found, described and never
// deleted; its dependencies stay; after the release owner's word, exit 3.
func TestLostReceipt(t *testing.T) {
	tr := begin(t, options{})
	tr.acknowledge("secret", "network-policy")
	made := tr.create("migration") // and no receipt
	tr.crash()
	r := tr.clean()
	tr.expect(r, evidence.Incomplete, "migration=unexplained", "secret=retained", "network-policy=retained", "api=absent")
	found := r.PlannedNames[0]
	if found.FoundUID != made.Meta.Object.UID || !found.CarriesNonce || found.AuditID == "" {
		t.Errorf("the candidate is not described: %+v", found)
	}
	if !tr.exists(made.Meta.Object) || len(tr.deleted()) > 0 {
		t.Errorf("something was deleted: %v", tr.deleted())
	}
	// The audit log settles the question, by the Audit-ID that is on record.
	records, err := shared.AuditOf(controlplane.AuditFilter{AuditID: found.AuditID})
	tr.must(err)
	if len(records) != 1 || records[0].Code != 201 || records[0].Name != made.Meta.Object.Name {
		t.Errorf("the audit log says %+v", records)
	}

	ref := r.Unknown[0]
	tr.must(journal.Reconcile(tr.disk, evidencePath, ref, "looked it up in the audit log", time.Now()))
	// While it is there, no statement opens the barrier.
	tr.expect(tr.clean(), evidence.Incomplete, "migration=unexplained", "secret=retained")
	tr.must(tr.admin.Delete(t.Context(), made.Meta.Object, kube.Foreground))
	tr.eventually("the candidate's end", func() bool { return !tr.exists(made.Meta.Object) })
	r = tr.clean()
	tr.expect(r, evidence.ReconciledByHand, "migration=absent", "secret=absent", "network-policy=absent")
	if r.Verdict.ExitCode() != 3 || !slices.Equal(r.Unknown, []identity.SlotRef{ref}) {
		t.Errorf("exit %d, unknown %v", r.Verdict.ExitCode(), r.Unknown)
	}
}

// A6.14: an object at a name that was never started (files were lost) keeps the
// barrier shut when it is a Job, and the verdict down in any case.
func TestUnexplainedObjects(t *testing.T) {
	for _, row := range []struct {
		slot   identity.Slot
		secret string
	}{{"worker", "secret=retained"}, {"network-policy", "secret=absent"}} {
		t.Run(string(row.slot), func(t *testing.T) {
			tr := begin(t, options{})
			tr.acknowledge("secret")
			tr.crash()
			p := tr.planned(row.slot)
			made := tr.admin.Create(t.Context(), kube.CreateRequest{Place: p.Object(), Body: encode(t, tr.manifest(p)), AuditID: kube.NewAuditID(), Nonce: tr.nonce})
			tr.must(made.Err)
			tr.expect(tr.clean(), evidence.Incomplete, string(row.slot)+"=unexplained", row.secret)
			if !tr.exists(made.Meta.Object) {
				t.Error("it was deleted")
			}
		})
	}
}

// A6.3: a Pod whose create waits in an admission webhook comes after its Job's
// end; the Secret that it would use goes only after it.
func TestPodOutOfASlowWebhook(t *testing.T) {
	tr := begin(t, options{})
	held := tr.slowPodWebhook(12 * time.Second)
	tr.acknowledge("secret", "network-policy", "migration")
	tr.must(tr.attempt.Release("migration", time.Now()))
	tr.must(tr.admin.Unsuspend(t.Context(), tr.created["migration"]))
	<-held // the Job controller's create is in the webhook
	tr.crash()
	lifetime := tr.watchPod()
	tr.expect(tr.clean(), evidence.Complete, "migration=absent", "secret=absent")
	for _, x := range tr.proxy.Requests() {
		if x.Method != "DELETE" || !strings.Contains(x.Path, "/secrets/") {
			continue
		}
		select {
		case gone := <-lifetime:
			if !x.Started.After(gone) {
				t.Errorf("the Secret's DELETE left at %s, and the late Pod was gone at %s", x.Started, gone)
			}
		default:
			t.Error("no Pod came and went: the webhook proves nothing")
		}
	}
}

// watchPod tells when the first Pod of the namespace, which must come, is gone.
func (tr *trial) watchPod() <-chan time.Time {
	tr.t.Helper()
	watch, err := shared.Client().CoreV1().Pods(tr.namespace).Watch(tr.t.Context(), metav1.ListOptions{})
	tr.must(err)
	tr.t.Cleanup(watch.Stop)
	gone := make(chan time.Time, 100)
	go func() {
		for event := range watch.ResultChan() {
			if event.Type == apiwatch.Deleted {
				gone <- time.Now()
			}
		}
	}()
	return gone
}
