package controlplane_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast-project/holdfast/test/controlplane"
)

// startWithPod starts a control plane that runs one Pod with a process which no
// signal to a group would reach.
func startWithPod(ctx context.Context) (dir string, err error) {
	cp, err := controlplane.Start(ctx, controlplane.Options{Images: images()})
	if err != nil {
		return "", err
	}
	pods := cp.Client().CoreV1().Pods(metav1.NamespaceDefault)
	_, err = pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "parent"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "main", Image: "example.test/parent"}},
	}}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	for {
		log, err := pods.GetLogs("parent", &corev1.PodLogOptions{}).DoRaw(ctx)
		if err == nil && strings.HasPrefix(string(log), "child") {
			return cp.Dir(), nil
		}
	}
}

// No process may survive a kill -9 of the program that started it, and no file that
// nobody asked for.
func TestKilledParentLeavesNothing(t *testing.T) {
	starter := exec.CommandContext(t.Context(), program("starter").Path)
	starter.Env = append(os.Environ(), roleVariable+"=starter")
	starter.Stderr = os.Stderr
	out, err := starter.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := starter.Start(); err != nil {
		t.Fatal(err)
	}
	var dir string
	if _, err := fmt.Fscanf(out, "started in %s\n", &dir); err != nil {
		t.Fatalf("the starter does not say that it has started: %v", err)
	}
	// The keeper, etcd, the API server, the controller-manager, the scheduler, the
	// runner, the program and its child, which has left its group.
	if before := processesOf(dir); len(before) != 8 {
		t.Errorf("before the kill there are %d processes, want 8: %s", len(before), strings.Join(before, "\n"))
	}
	if err := starter.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = starter.Wait() // "signal: killed"
	eventually(t, func() error { return nothingLeft(dir) })
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the temporary state directory %s is left: %v", dir, err)
	}
}

func TestServiceAccountIsHeldToRBAC(t *testing.T) {
	ns := namespace(t)
	path, err := shared.KubeconfigFor(t.Context(), ns, "default")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the kubeconfig is %v, %v", info.Mode(), err)
	}
	client := clientOf(t, path)
	if _, err := client.CoreV1().ConfigMaps(ns).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("without a Role the answer is %v", err)
	}
	err = shared.ApplyYAML(t.Context(), []byte(strings.ReplaceAll(`
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: NS}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [list]}]
---
# a comment alone is no object
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: NS}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects:
- {kind: ServiceAccount, name: default, namespace: NS}
- {kind: User, apiGroup: rbac.authorization.k8s.io, name: alice}
`, "NS", ns)))
	if err != nil {
		t.Fatal(err)
	}
	alice, err := shared.UserKubeconfig("alice")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []kubernetes.Interface{client, clientOf(t, alice)} {
		eventually(t, func() error { // the authorizer reads Roles through a cache
			_, err := c.CoreV1().ConfigMaps(ns).List(t.Context(), metav1.ListOptions{})
			return err
		})
		if _, err := c.CoreV1().Secrets(ns).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("beyond the Role the answer is %v", err)
		}
	}
	checkAudit(t, ns)
}

func checkAudit(t *testing.T, ns string) {
	t.Helper()
	for _, user := range []string{"system:serviceaccount:" + ns + ":default", "alice"} {
		records, err := shared.AuditOf(controlplane.AuditFilter{User: user, Verb: "list", Namespace: ns, Resource: "secrets"})
		if err != nil || len(records) != 1 {
			t.Fatalf("the audit log has of %s %+v, %v", user, records, err)
		}
		r := records[0]
		if r.Code != 403 || r.AuditID == "" || r.UserAgent == "" || r.RequestURI != "/api/v1/namespaces/"+ns+"/secrets" || r.Completed.Before(r.Received) || r.Received.IsZero() {
			t.Errorf("the record is %+v", r)
		}
	}
	writes, err := shared.AuditOf(controlplane.AuditFilter{User: controlplane.AdminUser, Namespace: ns, Writes: true, Resource: "roles"})
	if err != nil || len(writes) != 1 || writes[0].Verb != "patch" || writes[0].Code != 201 {
		t.Errorf("the audit log has %+v, %v", writes, err)
	}
}

func clientOf(t *testing.T, kubeconfig string) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if config.Insecure || len(config.CAData) == 0 {
		t.Error("the kubeconfig does not verify the server")
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// Without a controller-manager a Job gets no Pod; when it is back, it does.
func TestControllerManagerMayBeAway(t *testing.T) {
	ns := namespace(t)
	if err := shared.StopControllerManager(); err != nil {
		t.Fatal(err)
	}
	if left := processesMatching(shared.Dir(), "kube-controller-manager"); len(left) > 0 {
		t.Errorf("the controller-manager is there: %v", left)
	}
	job := createJob(t, ns, corev1.Container{Image: controlplane.ImageHang})
	if err := shared.StartControllerManager(t.Context()); err != nil {
		t.Fatal(err)
	}
	reaches(t, podOf(t, job), corev1.PodRunning)
	records, err := shared.AuditOf(controlplane.AuditFilter{User: "system:kube-controller-manager", Namespace: ns, Resource: "pods", Verb: "create"})
	if err != nil || len(records) != 1 {
		t.Errorf("the controller-manager created Pods by %+v, %v", records, err)
	}
	if err := shared.RestartControllerManager(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// The API server comes back at its address with what was stored, and the runner's
// Pods live through it.
func TestAPIServerMayBeAway(t *testing.T) {
	ns := namespace(t)
	pod := createPod(t, ns, corev1.PodSpec{Containers: []corev1.Container{{Image: "example.test/polite"}}})
	reaches(t, pod, corev1.PodRunning)
	if err := shared.StopAPIServer(); err != nil {
		t.Fatal(err)
	}
	if _, err := getPod(t, pod); err == nil {
		t.Error("a stopped API server answers")
	}
	if err := shared.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	now := reaches(t, pod, corev1.PodRunning)
	if now.UID != pod.UID || now.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("afterwards the Pod is %s with %+v", now.UID, now.Status.ContainerStatuses)
	}
	if err := shared.Client().CoreV1().Pods(ns).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	isGone(t, pod) // the runner watches again
}

func processesMatching(dir, name string) (found []string) {
	for _, p := range processesOf(dir) {
		if strings.Contains(p, "/"+name+" ") {
			found = append(found, p)
		}
	}
	return found
}

// Objects of a kind may follow its definition at once.
func TestApplyFilesWaitsForNewKinds(t *testing.T) {
	dir := t.TempDir()
	crd := `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.example.test},
spec: {group: example.test, scope: Namespaced, names: {plural: things, singular: thing, kind: Thing, listKind: ThingList},
versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`
	thing := "{apiVersion: example.test/v1, kind: Thing, metadata: {name: one}}"
	for name, text := range map[string]string{"1.yaml": crd, "2.yaml": thing, "README.md": "not YAML: {"} {
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := shared.ApplyFiles(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if err := shared.ApplyFiles(t.Context(), dir+"/missing.yaml"); err == nil {
		t.Error("a missing file is no error")
	}
	err := shared.ApplyYAML(t.Context(), []byte(fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: %q}}", "no-such-namespace")))
	if !apierrors.IsNotFound(err) {
		t.Errorf("a refused object gives %v", err)
	}
}
