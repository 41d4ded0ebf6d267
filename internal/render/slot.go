package render

import (
	"fmt"
	"maps"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/strictjson"
)

// Slot is one object of the attempt.
type Slot struct {
	Name identity.Slot
	// Object is where it will be, without a UID.
	Object identity.Object
	// Manifest is the whole object of a Job or NetworkPolicy in canonical
	// JSON, without the plan hash; nil for the Secret, which is never written.
	Manifest []byte
	// Container is the name of a Job's container that runs the candidate.
	Container string
	// SecretShape is the Secret's SHA-256 over keys and value lengths, else
	// empty.
	SecretShape string
	// After names the slots whose Jobs must have succeeded before this one
	// starts.
	After []identity.Slot

	secret func() ([]byte, error)
}

// Body returns what is sent for the slot: its manifest with the plan hash. For
// the Secret it holds the values; it may be sent and must not be kept.
func (s Slot) Body(planSHA256 string) ([]byte, error) {
	if s.secret == nil {
		return withPlanHash(s.Manifest, planSHA256)
	}
	manifest, err := s.secret()
	if err != nil {
		return nil, err
	}
	return withPlanHash(manifest, planSHA256)
}

// withPlanHash sets the plan hash annotation on an object and, if it has one,
// on its Pod template (A4.3). The plan holds manifests without it, since a plan
// cannot contain its own digest. The manifest is canonical JSON and so is what
// comes back; no error quotes it.
func withPlanHash(manifest []byte, planSHA256 string) ([]byte, error) {
	var object unstructured.Unstructured
	if err := object.UnmarshalJSON(manifest); err != nil {
		return nil, fmt.Errorf("setting the plan hash: the manifest is not a Kubernetes object")
	}
	paths := [][]string{{"metadata", "annotations"}}
	if _, found, _ := unstructured.NestedMap(object.Object, "spec", "template"); found {
		paths = append(paths, []string{"spec", "template", "metadata", "annotations"})
	}
	for _, path := range paths {
		if err := unstructured.SetNestedField(object.Object, planSHA256, append(path, identity.PlanAnnotation)...); err != nil {
			return nil, fmt.Errorf("setting the plan hash of %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return strictjson.Compact(object.Object)
}

func jobSlot(in input, objects []object, source JobSource, secret *secretData, secrets [][]byte) (Slot, error) {
	template, err := podTemplate(objects, source)
	if err != nil {
		return Slot{}, err
	}
	if err := setImages(&template.Spec, source, in.Profile.Image.Values, in.image); err != nil {
		return Slot{}, err
	}
	setCommand(&template.Spec.Containers[0].Command, &template.Spec.Containers[0].Args, source, in.IdentityOnly)
	if err := shapePod(&template.Spec, source); err != nil {
		return Slot{}, err
	}
	if secret != nil {
		copyName := objectName(in.Release, identity.SlotSecret, in.Nonce)
		if err := secret.useCopy(&template.Spec, copyName, source.Slot); err != nil {
			return Slot{}, err
		}
	}
	if err := checkLiterals(&template, source.Slot, secrets); err != nil {
		return Slot{}, err
	}
	// The template's own labels make Services, budgets and ReplicaSets claim
	// its Pods, so all are dropped (A4.3). Its annotations stay: agents that
	// inject what the program needs are steered by them.
	annotations := maps.Clone(template.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.Copy(annotations, objectAnnotations(in.Nonce))
	template.ObjectMeta = metav1.ObjectMeta{Labels: objectLabels(in.Release, source.Slot), Annotations: annotations}

	job := &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: objectMeta(in, source.Slot),
		Spec:       jobSpec(in.Deadline),
	}
	job.Spec.Template = template
	slot, err := newSlot(source.Slot, job.TypeMeta, job.ObjectMeta, job)
	slot.After, slot.Container = source.After, source.From.Container
	return slot, err
}

// setCommand applies the profile's proof as Kubernetes applies a command: a new
// command makes the old arguments meaningless.
func setCommand(command, args *[]string, source JobSource, identityOnly bool) {
	proof := source.Startup
	if identityOnly && source.Identity != nil {
		proof = *source.Identity
	}
	if len(proof.Command) > 0 {
		*command, *args = proof.Command, proof.Args
	} else if len(proof.Args) > 0 {
		*args = proof.Args
	}
}

// jobSpec is the same for every Job (A4.2a, A4.2c, A4.4). It is suspended: no
// Pod of it exists before its receipt is durable. It is tried once: a second
// Pod would run a migration twice. It has no TTL: a Job that deletes itself is
// one whose absence proves nothing.
func jobSpec(deadline time.Duration) batchv1.JobSpec {
	one, none, suspend := int32(1), int32(0), true
	seconds := int64((deadline + time.Second - 1) / time.Second)
	return batchv1.JobSpec{
		Parallelism: &one, Completions: &one, BackoffLimit: &none,
		ActiveDeadlineSeconds: &seconds, Suspend: &suspend,
	}
}

func policySlot(in input, spec *networkingv1.NetworkPolicySpec) (Slot, error) {
	policy := &networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"},
		ObjectMeta: objectMeta(in, identity.SlotNetworkPolicy),
		Spec:       *spec,
	}
	return newSlot(identity.SlotNetworkPolicy, policy.TypeMeta, policy.ObjectMeta, policy)
}

func secretSlot(in input, secret *secretData) (Slot, error) {
	shape, err := secret.shape()
	if err != nil {
		return Slot{}, err
	}
	meta := objectMeta(in, identity.SlotSecret)
	return Slot{
		Name:        identity.SlotSecret,
		Object:      identity.Object{APIVersion: "v1", Kind: "Secret", Namespace: meta.Namespace, Name: meta.Name},
		SecretShape: shape,
		secret: func() ([]byte, error) {
			return strictjson.Compact(map[string]any{
				"apiVersion": "v1", "kind": "Secret", "type": secret.kind, "data": secret.data(),
				"metadata": map[string]any{
					"name": meta.Name, "namespace": meta.Namespace, "labels": meta.Labels, "annotations": meta.Annotations,
				},
			})
		},
	}, nil
}

func objectMeta(in input, slot identity.Slot) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:        objectName(in.Release, slot, in.Nonce),
		Namespace:   in.Namespace,
		Labels:      objectLabels(in.Release, slot),
		Annotations: objectAnnotations(in.Nonce),
	}
}

func newSlot(name identity.Slot, kind metav1.TypeMeta, meta metav1.ObjectMeta, object any) (Slot, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return Slot{}, fmt.Errorf("encoding %s %s: %w", kind.Kind, meta.Name, err)
	}
	// The types always encode an empty status; a create carries none.
	delete(content, "status")
	manifest, err := strictjson.Compact(content)
	return Slot{
		Name:     name,
		Object:   identity.Object{APIVersion: kind.APIVersion, Kind: kind.Kind, Namespace: meta.Namespace, Name: meta.Name},
		Manifest: manifest,
	}, err
}
