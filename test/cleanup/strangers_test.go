package cleanup

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/test/apiproxy"
	"github.com/holdfast-project/holdfast/test/controlplane"
)

// collecting is more than the garbage collector needs to learn of an object by its
// watch, and to act on it.
const collecting = 3 * time.Second

// seeds are the random runs that are made: HOLDFAST_STRANGER_RUNS is a number of
// them, or FROM-TO for a part, the end excluded; without it, eight.
func seeds(t *testing.T) (from, to int) {
	text := os.Getenv("HOLDFAST_STRANGER_RUNS")
	if text == "" {
		return 0, 8
	}
	first, last, part := strings.Cut(text, "-")
	if !part {
		first, last = "0", text
	}
	from, err := strconv.Atoi(first)
	to, err2 := strconv.Atoi(last)
	if err != nil || err2 != nil || from >= to {
		t.Fatalf("HOLDFAST_STRANGER_RUNS is %q", text)
	}
	return from, to
}

// A6.3 to A6.7 beside somebody who deletes, replaces, relabels, orphans and holds
// our objects while we clean up: nothing of theirs is deleted, be it under our name
// or collected since a dependency of ours owned it, no dependency goes
// while a Job or a Pod of ours is there, complete is true, and when they have
// stopped the same command finishes. What was sent is judged once more by the
// API server's own audit log.
func TestBesideAStranger(t *testing.T) {
	from, to := seeds(t)
	all := make([]*stranger, to-from)
	t.Run("runs", func(t *testing.T) { // returns when the last of them has
		for i := range all {
			seed := from + i
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				all[i] = &stranger{trial: begin(t, options{}), rng: rand.New(rand.NewPCG(uint64(seed), 1))}
				all[i].carryOut()
			})
		}
	})
	if t.Failed() {
		return
	}
	records, err := shared.AuditOf(controlplane.AuditFilter{Writes: true})
	if err != nil {
		t.Fatal(err)
	}
	var total audited
	for _, s := range all {
		total.add(s.judgeAudit(t, records))
	}
	t.Logf("strangers: runs=%d deeds=%d job-deletes=%d dependency-deletes=%d pods=%d", len(all), total.Deeds, total.Jobs, total.Dependencies, total.Pods)
	// Two to three of each a run are usual; a few runs may have none of one.
	floor := 1
	if len(all) >= 8 {
		floor = len(all)
	}
	if min(total.Jobs, total.Dependencies, total.Pods, total.Deeds) < floor {
		t.Errorf("the runs have shown too little, less than %d of something: %+v", floor, total)
	}
}

func (s *stranger) carryOut() {
	s.prepare()
	s.lean()
	s.crash()
	s.judgeBarrier()
	s.act(s.rng.IntN(3)) // some are done before cleanup begins
	more := 1 + s.rng.IntN(4)
	var wait sync.WaitGroup
	wait.Go(func() { s.act(more) })
	s.judge(s.clean())
	wait.Wait()
	s.stop()
	last := s.clean()
	if late(last) {
		// A loaded machine can need longer than a Job is waited for; the way on is
		// the same command.
		s.t.Logf("cleaning up once more: %q", last.Reasons)
		last = s.clean()
	}
	s.judgeAgain(last)
}

// late: all that a repeated cleanup has to wait for is what goes.
func late(r evidence.Result) bool {
	remaining := false
	for _, resource := range r.Resources {
		switch resource.Outcome {
		case evidence.Remaining:
			remaining = true
		case evidence.Absent, evidence.Retained, evidence.Conflict:
		default:
			return false
		}
	}
	return remaining
}

// stranger acts on the objects of a trial.
type stranger struct {
	*trial
	rng       *rand.Rand
	uncertain bool
	done      int // deeds that were carried out

	mu       sync.Mutex
	theirs   []identity.Object // what the stranger made
	owner    map[string]string // of a UID of theirs: that of our object which owns it
	taken    map[string]bool   // UIDs of theirs that the stranger itself may have taken away
	replaced map[identity.Slot]bool
	held     []identity.Object
}

// prepare takes a random number of slots to a random step.
func (s *stranger) prepare() {
	s.t.Helper()
	s.replaced, s.owner, s.taken = map[identity.Slot]bool{}, map[string]string{}, map[string]bool{}
	slots := []identity.Slot{"secret", "network-policy", "migration", "api", "worker"}
	reached := 2 + s.rng.IntN(4)
	var suspended []identity.Slot
	for i, slot := range slots[:reached] {
		s.acknowledge(slot)
		switch {
		case !s.created[slot].Consumer():
		case s.rng.IntN(4) > 0 || i+1 < reached:
			// A Job is let run before the next slot starts, and of a migration its Pod
			// is recorded before api does.
			s.release(s.rng.IntN(2) == 0 || slot == identity.SlotMigration, slot)
		default:
			suspended = append(suspended, slot)
		}
	}
	if reached < len(slots) && s.rng.IntN(3) == 0 {
		s.release(slots[reached] == identity.SlotAPI, suspended...)
		s.create(slots[reached])
		s.uncertain = true
	}
}

// lean lets a ConfigMap of the stranger's be owned by each dependency of ours: it
// outlives them, unlike what names our Job as its owner (A8.1).
func (s *stranger) lean() {
	s.t.Helper()
	for _, slot := range []identity.Slot{"secret", "network-policy"} {
		ours := s.created[slot]
		reference := metav1.OwnerReference{APIVersion: ours.APIVersion, Kind: ours.Kind, Name: ours.Name, UID: types.UID(ours.UID)}
		theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "strangers-" + string(slot), OwnerReferences: []metav1.OwnerReference{reference}}}
		made, err := shared.Client().CoreV1().ConfigMaps(s.namespace).Create(s.t.Context(), theirs, metav1.CreateOptions{})
		s.must(err)
		object := identity.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: s.namespace, Name: made.Name, UID: string(made.UID)}
		s.theirs, s.owner[object.UID] = append(s.theirs, object), ours.UID
	}
	time.Sleep(collecting)
}

// deed is something that a stranger does to an object.
type deed struct {
	name string
	do   func(context.Context, identity.Slot, identity.Object) error
}

// act is a number of deeds within the next seconds. An object that is gone by
// then is no error.
func (s *stranger) act(deeds int) {
	ctx := s.t.Context()
	for range deeds {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(s.rng.IntN(400)) * time.Millisecond):
		}
		slot, object := s.pick()
		deeds := []deed{
			{"foreground", s.remove(metav1.DeletePropagationForeground)}, {"background", s.remove(metav1.DeletePropagationBackground)},
			{"orphan", s.remove(metav1.DeletePropagationOrphan)}, {"default", s.remove("")},
			{"swap", s.swap}, {"relabel", s.relabel}, {"hold", s.hold},
		}
		deed := deeds[s.rng.IntN(len(deeds))]
		err := deed.do(ctx, slot, object)
		s.t.Logf("the stranger's deed %s on %s: %v", deed.name, slot, err)
		if err == nil {
			s.done++
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			s.t.Errorf("deed %s on %s: %v", deed.name, object, err)
		}
	}
}

func (s *stranger) pick() (identity.Slot, identity.Object) {
	slots := []identity.Slot{"secret", "network-policy", "migration", "api", "worker"}
	for {
		slot := slots[s.rng.IntN(len(slots))]
		if object, ok := s.created[slot]; ok {
			return slot, object
		}
	}
}

// at is the path of an object for a raw request: a stranger needs no UID.
func at(object identity.Object) []string {
	group := map[string]string{"Job": "/apis/batch/v1", "NetworkPolicy": "/apis/networking.k8s.io/v1"}[object.Kind]
	if group == "" {
		group = "/api/v1"
	}
	plural := strings.ToLower(object.Kind) + "s"
	if object.Kind == "NetworkPolicy" {
		plural = "networkpolicies"
	}
	return []string{group, "namespaces", object.Namespace, plural, object.Name}
}

func (s *stranger) rawDelete(ctx context.Context, object identity.Object, propagation metav1.DeletionPropagation) error {
	s.takes(func(theirs identity.Object) bool {
		return theirs.Place() == object.Place() || propagation != metav1.DeletePropagationOrphan && s.owner[theirs.UID] == object.UID
	})
	options := &metav1.DeleteOptions{}
	if propagation != "" {
		options.PropagationPolicy = &propagation
	}
	return shared.Client().CoreV1().RESTClient().Delete().AbsPath(at(object)...).Body(options).Do(ctx).Error()
}

func (s *stranger) patch(ctx context.Context, object identity.Object, patch string) error {
	return shared.Client().CoreV1().RESTClient().Patch(types.MergePatchType).AbsPath(at(object)...).Body([]byte(patch)).Do(ctx).Error()
}

// remove deletes by name, as kubectl and the raw API do; "" is the server's own
// default, which for a Job is to orphan its Pods.
func (s *stranger) remove(propagation metav1.DeletionPropagation) func(context.Context, identity.Slot, identity.Object) error {
	return func(ctx context.Context, _ identity.Slot, object identity.Object) error {
		return s.rawDelete(ctx, object, propagation)
	}
}

// swap puts an object of its own under the name, with our marks on it.
func (s *stranger) swap(ctx context.Context, slot identity.Slot, object identity.Object) error {
	if err := s.rawDelete(ctx, object, metav1.DeletePropagationBackground); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	body := encode(s.t, s.manifest(s.planned(slot)))
	made := s.admin.Create(ctx, kube.CreateRequest{Place: object.Place(), Body: body, AuditID: kube.NewAuditID(), Nonce: s.nonce})
	if made.Outcome != kube.Acknowledged {
		return nil // ours is still being deleted
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.theirs, s.replaced[slot] = append(s.theirs, made.Meta.Object), true
	return nil
}

func (s *stranger) relabel(ctx context.Context, _ identity.Slot, object identity.Object) error {
	return s.patch(ctx, object, `{"metadata":{"labels":{"app":"strangers"},"annotations":{"`+identity.NonceAnnotation+`":"0"}}}`)
}

// hold replaces the finalizers, and with them the one by which a deletion of ours
// that is under way lets go of what the object owns.
func (s *stranger) hold(ctx context.Context, _ identity.Slot, object identity.Object) error {
	s.takes(func(theirs identity.Object) bool { return s.owner[theirs.UID] == object.UID })
	s.mu.Lock()
	s.held = append(s.held, object)
	s.mu.Unlock()
	return s.patch(ctx, object, `{"metadata":{"finalizers":["example.com/hold"]}}`)
}

// stop takes back every finalizer and every orphaned Pod, as a release owner
// would; the replacements stay.
func (s *stranger) stop() {
	s.t.Helper()
	ctx := s.t.Context()
	for _, object := range s.held {
		if err := s.patch(ctx, object, `{"metadata":{"finalizers":null}}`); err != nil && !apierrors.IsNotFound(err) {
			s.t.Fatal(err)
		}
	}
	for _, pod := range s.ourPods(ctx) {
		if len(pod.Owners) == 0 {
			if err := s.rawDelete(ctx, pod.Object, metav1.DeletePropagationBackground); err != nil && !apierrors.IsNotFound(err) {
				s.t.Fatal(err)
			}
		}
	}
}

// ourPods are those that a Job of ours made.
func (s *stranger) ourPods(ctx context.Context) (ours []kube.Meta) {
	pods, err := s.admin.Pods(ctx, s.namespace)
	if err != nil {
		s.t.Errorf("listing Pods: %v", err)
	}
	for _, pod := range pods {
		for _, object := range s.created {
			if object.Consumer() && (pod.OwnedBy(object.UID) || len(pod.ControllerUIDs()) > 0 && pod.ControllerUIDs()[0] == object.UID) {
				ours = append(ours, pod)
			}
		}
	}
	return ours
}

// judgeBarrier looks, with an admin's eyes, when a dependency's DELETE leaves.
func (s *stranger) judgeBarrier() {
	s.proxy.Hook(apiproxy.Hooks{Before: func(x apiproxy.Exchange) apiproxy.Action {
		if x.Method != "DELETE" || strings.Contains(x.Path, "/jobs/") {
			return apiproxy.Action{}
		}
		ctx := context.WithoutCancel(s.t.Context())
		if pods := s.ourPods(ctx); len(pods) > 0 {
			s.t.Errorf("%s leaves while %s is there", x.Path, pods[0].Object)
		}
		for slot, object := range s.created {
			if o := s.admin.Observe(ctx, object); object.Consumer() && o.Presence == kube.Present && o.Meta.Object.UID == object.UID {
				s.t.Errorf("%s leaves while the Job of %s is there", x.Path, slot)
			}
		}
		if s.uncertain {
			s.t.Errorf("%s leaves while a create is uncertain", x.Path)
		}
		return apiproxy.Action{}
	}})
}

// judge is what must hold after any cleanup.
func (s *stranger) judge(r evidence.Result) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, object := range s.theirs {
		if !s.taken[object.UID] && !s.exists(object) {
			s.t.Errorf("%s was the stranger's, and is gone", object)
		}
	}
	if !r.Complete {
		return
	}
	if s.uncertain {
		s.t.Error("complete, and a create is uncertain")
	}
	for slot, object := range s.created {
		if s.exists(object) {
			s.t.Errorf("complete, and %s is there", slot)
		}
	}
}

// takes notes, before the stranger acts, which of theirs its deed may take away.
func (s *stranger) takes(which func(identity.Object) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, object := range s.theirs {
		if which(object) {
			s.taken[object.UID] = true
		}
	}
}

// judgeAgain: everything provable is gone now, unless a replacement keeps it; what
// it owned would be collected by and by.
func (s *stranger) judgeAgain(r evidence.Result) {
	s.t.Helper()
	time.Sleep(collecting)
	s.judge(r)
	jobReplaced := s.uncertain
	for slot := range s.replaced {
		jobReplaced = jobReplaced || s.created[slot].Consumer()
	}
	for slot, object := range s.created {
		if s.exists(object) && (object.Consumer() || !jobReplaced) {
			s.t.Errorf("after the stranger has stopped %s is still there: %q", slot, r.Reasons)
		}
	}
	if len(s.replaced) == 0 && !s.uncertain && !r.Complete {
		s.t.Errorf("nothing is in the way, and %s: %q", r.Verdict, r.Reasons)
	}
}
