package kube

import (
	"bytes"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/manual"
	"github.com/holdfast-project/holdfast/internal/preflight/decide"
	"github.com/holdfast-project/holdfast/test/controlplane"
)

// A6.12, A3.9: under a namespaced Role everything it grants works, and what it
// does not grant is refused, by type.
func TestA6_12_NamespacedRole(t *testing.T) {
	cp, namespace := plane(t)
	role := fmt.Sprintf(`{apiVersion: v1, kind: ServiceAccount, metadata: {name: cleaner, namespace: %[1]s}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: cleaner, namespace: %[1]s}, rules: [
 {apiGroups: [batch], resources: [jobs], verbs: [get, delete]},
 {apiGroups: [""], resources: [secrets], verbs: [get, delete]},
 {apiGroups: [""], resources: [pods], verbs: [get, list]},
 {apiGroups: [""], resources: [namespaces], resourceNames: [%[1]s], verbs: [get]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: cleaner, namespace: %[1]s},
 roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: cleaner}, subjects: [{kind: ServiceAccount, name: cleaner, namespace: %[1]s}]}
`, namespace)
	if err := cp.ApplyYAML(t.Context(), []byte(role)); err != nil {
		t.Fatal(err)
	}
	path, err := cp.KubeconfigFor(t.Context(), namespace, "cleaner")
	if err != nil {
		t.Fatal(err)
	}
	c, as := from(t, path), admin(t, cp)
	secret := mustCreate(t, as, secretAt(namespace, "s"), object(secretAt(namespace, "s"), nil))

	needed := []Permission{
		{Verb: "get", Group: "batch", Resource: "jobs", Namespace: namespace},
		{Verb: "delete", Resource: "secrets", Namespace: namespace},
		{Verb: "list", Resource: "pods", Namespace: namespace},
		{Verb: "get", Resource: "namespaces", Namespace: namespace, Name: namespace},
		{Verb: "get", Resource: "pods", Subresource: "log", Namespace: namespace},
		{Verb: "create", Group: "batch", Resource: "jobs", Namespace: namespace},
		{Verb: "delete", Resource: "secrets", Namespace: "default"},
	}
	var denied []Permission
	eventually(t, "the Role is in force", func() bool {
		denied, err = c.May(t.Context(), needed)
		return err == nil && len(denied) < len(needed)-3
	})
	if !slices.Equal(denied, needed[4:]) {
		t.Errorf("denied: %+v", denied)
	}
	reading := c.ClusterIdentity(t.Context(), namespace)
	whole := as.ClusterIdentity(t.Context(), namespace)
	if reading.Cluster().NamespaceUID == "" || reading.Cluster().NamespaceUID != whole.Cluster().NamespaceUID {
		t.Errorf("the namespace is read as %+v, by an admin as %+v", reading.Namespace, whole.Namespace)
	}
	if !reading.KubeSystem.Forbidden() || reading.Namespace.Forbidden() || whole.Cluster().KubeSystemUID == "" {
		t.Errorf("kube-system is read as %+v, by an admin as %+v", reading.KubeSystem, whole.KubeSystem)
	}
	if created := create(t, c, configMapAt(namespace, "c"), object(configMapAt(namespace, "c"), nil)); created.Outcome != Rejected || created.Code != 403 {
		t.Errorf("a forbidden create: %v: %v", created.Outcome, created.Err)
	}
	policy := identity.Object{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy", Namespace: namespace, Name: "np", UID: otherUID}
	if err := c.Delete(t.Context(), policy, Orphan); !is[*Refused](err) {
		t.Errorf("a forbidden delete: %T %v", err, err)
	}
	if _, err := c.List(t.Context(), "v1", "Secret", namespace, ""); !is[*Refused](err) {
		t.Errorf("a forbidden list: %T %v", err, err)
	}
	if err := c.Delete(t.Context(), secret, Orphan); err != nil {
		t.Errorf("a granted delete: %v", err)
	}
}

// A3.9, A6.2: a namespace that is not there reads absent, not unreadable.
func TestA6_2_NamespaceThatIsNotThere(t *testing.T) {
	cp, _ := plane(t)
	reading := admin(t, cp).ClusterIdentity(t.Context(), "no-such-namespace")
	if reading.Namespace.Presence != Absent || reading.KubeSystem.Presence != Present {
		t.Errorf("read as %+v", reading)
	}
}

// A4.2b: a dry run returns the object as it would be stored, the server's
// warnings, and stores nothing.
func TestA4_2b_DryRunOnTheRealServer(t *testing.T) {
	cp, namespace := plane(t)
	label := fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s, labels: {pod-security.kubernetes.io/warn: restricted}}}", namespace)
	if err := cp.ApplyYAML(t.Context(), []byte(label)); err != nil {
		t.Fatal(err)
	}
	c := admin(t, cp)
	place := jobAt(namespace, "j")
	var tried Tried
	eventually(t, "the warning is given", func() bool {
		var err error
		tried, err = c.TryCreate(t.Context(), place, suspendedJob(place))
		return err == nil && len(tried.Warnings) == 1
	})
	if !strings.Contains(tried.Warnings[0], "PodSecurity") {
		t.Errorf("warned %q", tried.Warnings)
	}
	if tried.Object.GetUID() != "" || tried.Meta.Object.UID != "" || tried.Object.GetName() != "j" {
		t.Errorf("tried as %+v", tried)
	}
	if seen := c.Observe(t.Context(), place); seen.Presence != Absent {
		t.Errorf("the dry run left %+v", seen)
	}
	elsewhere := jobAt("no-such-namespace", "j")
	if _, err := c.TryCreate(t.Context(), elsewhere, suspendedJob(elsewhere)); !is[*Refused](err) {
		t.Errorf("in no namespace: %T %v", err, err)
	}
}

// A4.5: what the run reads while it waits.
func TestA4_5_ReadsOfTheRun(t *testing.T) {
	cp, namespace := plane(t)
	if err := cp.RegisterImage("example.test/talker", controlplane.Program{Path: "/bin/sh", Args: []string{"-c", "for i in 1 2 3 4 5 6 7 8 9; do echo line-$i; done; echo done"}}); err != nil {
		t.Fatal(err)
	}
	c := admin(t, cp)
	place := jobAt(namespace, "talker")
	body := bytes.ReplaceAll(suspendedJob(place), []byte(controlplane.ImageHang), []byte("example.test/talker"))
	job := mustCreate(t, c, place, body)
	if err := c.Unsuspend(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Job completes", func() bool {
		live, err := c.Job(t.Context(), namespace, "talker")
		return err == nil && live.Status.Succeeded == 1
	})
	pods, err := c.PodsOf(t.Context(), job)
	if err != nil || len(pods) != 1 {
		t.Fatalf("%d Pods, %v", len(pods), err)
	}
	log, err := c.PodLog(t.Context(), namespace, pods[0].Name, "main", PodLogLimits{Bytes: 1000, Lines: 2})
	if err != nil || string(log) != "line-9\ndone\n" {
		t.Errorf("the log is %q, %v", log, err)
	}
	if log, err := c.PodLog(t.Context(), namespace, pods[0].Name, "main", PodLogLimits{Bytes: 6, Lines: 100}); err != nil || string(log) != "line-1" {
		t.Errorf("the bounded log is %q, %v", log, err)
	}
	if _, err := c.PodLog(t.Context(), namespace, "no-such-pod", "main", PodLogLimits{Bytes: 6, Lines: 1}); !is[*Gone](err) {
		t.Errorf("the log of no Pod: %T %v", err, err)
	}
	eventually(t, "an event about the Job", func() bool {
		events, err := c.Events(t.Context(), job)
		return err == nil && len(events) > 0 && string(events[0].InvolvedObject.UID) == job.UID
	})
	stranger := job
	stranger.UID = otherUID
	if pods, err := c.PodsOf(t.Context(), stranger); err != nil || len(pods) != 0 {
		t.Errorf("Pods of another UID: %v, %v", pods, err)
	}
	if _, err := c.Job(t.Context(), namespace, "other"); !is[*Gone](err) {
		t.Errorf("reading no Job: %T %v", err, err)
	}
}

// A4.3: what selects Pods in a live namespace, with the API's own rules for
// selectors that are empty.
func TestA4_3_Selectors(t *testing.T) {
	cp, namespace := plane(t)
	template := `template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: example.test/none}]}}`
	stream := strings.ReplaceAll(`{apiVersion: v1, kind: Service, metadata: {name: web, namespace: NS}, spec: {selector: {app: web}, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: selectorless, namespace: NS}, spec: {ports: [{port: 80}]}}
---
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: all, namespace: NS}, spec: {minAvailable: 1, selector: {}}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: deny, namespace: NS}, spec: {podSelector: {}}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: web, namespace: NS}, spec: {podSelector: {matchExpressions: [{key: app, operator: In, values: [web]}]}}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: NS}, spec: {replicas: 0, selector: {matchLabels: {app: web}}, `+template+`}}
---
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: web, namespace: NS}, spec: {replicas: 0, serviceName: web, selector: {matchLabels: {app: web}}, `+template+`}}
---
{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: web, namespace: NS}, spec: {selector: {matchLabels: {app: web}}, `+template+`}}
---
{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web, namespace: NS}, spec: {replicas: 0, selector: {matchLabels: {app: web}}, `+template+`}}
---
{apiVersion: v1, kind: ReplicationController, metadata: {name: web, namespace: NS}, spec: {replicas: 0, selector: {app: web}, `+template+`}}
`, "NS", namespace)
	if err := cp.ApplyYAML(t.Context(), []byte(stream)); err != nil {
		t.Fatal(err)
	}
	selectors, err := admin(t, cp).Selectors(t.Context(), namespace)
	if err != nil {
		t.Fatal(err)
	}
	matching := func(labels map[string]string) (found []string) {
		for _, s := range selectors {
			selector, selects, err := decide.SelectorOf(&s)
			if err != nil || !selects || !identity.ValidUID(string(s.GetUID())) || selector.Object.Namespace != namespace {
				t.Errorf("found as %v (%v): %v", s.Object, selects, err)
			}
			refused, restricting := decide.Matches([]decide.Selector{selector}, []decide.PreflightPod{{Namespace: namespace, Labels: labels}})
			// The Deployment has made a ReplicaSet of its own.
			if len(refused)+len(restricting) == 1 && !strings.HasPrefix(s.GetName(), "web-") {
				found = append(found, s.GetKind()+"/"+s.GetName())
			}
		}
		slices.Sort(found)
		return found
	}
	if got := strings.Join(matching(map[string]string{"app": "preflight"}), " "); got != "NetworkPolicy/deny PodDisruptionBudget/all" {
		t.Errorf("a Pod of ours is selected by %s", got)
	}
	want := "DaemonSet/web Deployment/web NetworkPolicy/deny NetworkPolicy/web PodDisruptionBudget/all ReplicaSet/web ReplicationController/web Service/web StatefulSet/web"
	if got := strings.Join(matching(map[string]string{"app": "web"}), " "); got != want {
		t.Errorf("a Pod of the release is selected by %s", got)
	}
}

// A6.13: the printed command deletes exactly the object it names, and the API
// server refuses it for another UID. Run by a shell and kubectl, as a person does.
func TestA6_13_ManualCommand(t *testing.T) {
	if _, err := exec.LookPath("kubectl"); err != nil {
		t.Skip("there is no kubectl")
	}
	cp, namespace := plane(t)
	c := admin(t, cp)
	place := jobAt(namespace, "j")
	job := mustCreate(t, c, place, suspendedJob(place))
	run := func(object identity.Object) (string, error) {
		line, err := manual.DeleteCommand(cp.AdminKubeconfig(), "holdfast", object)
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), "sh", "-c", line).CombinedOutput()
		return string(out), err
	}
	other := job
	other.UID = otherUID
	if out, err := run(other); err == nil || !strings.Contains(out, "the UID in the precondition") {
		t.Errorf("with another UID kubectl says %q, %v", out, err)
	}
	if seen := c.Observe(t.Context(), job); seen.Presence != Present || seen.Meta.DeletionTimestamp != "" {
		t.Errorf("after the refused command: %+v", seen)
	}
	if out, err := run(job); err != nil {
		t.Fatalf("kubectl says %q, %v", out, err)
	}
	eventually(t, "the Job is gone", func() bool { return c.Observe(t.Context(), job).Presence == Absent })
	records, err := cp.AuditOf(controlplane.AuditFilter{Verb: "delete", Namespace: namespace, Resource: "jobs", User: controlplane.AdminUser})
	if err != nil || len(records) != 2 {
		t.Fatalf("%d deletes, %v", len(records), err)
	}
	for _, r := range records {
		if !bytes.Contains(r.Request, []byte(`"propagationPolicy":"Foreground"`)) || !bytes.Contains(r.Request, []byte(`"preconditions":{"uid":`)) {
			t.Errorf("sent %s", r.Request)
		}
	}
}

// A list is read whole, page by page, and no read names a resourceVersion, so
// that the API server answers from a quorum (A6.8).
func TestA6_8_ListIsReadWhole(t *testing.T) {
	cp, namespace := plane(t)
	c := admin(t, cp)
	const n = pageSize + 3
	for i := range n {
		place := configMapAt(namespace, fmt.Sprintf("c%d", i))
		if err := cp.Client().CoreV1().RESTClient().Post().Namespace(namespace).Resource("configmaps").Body(object(place, nil)).Do(t.Context()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	live, err := cp.Client().CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.List(t.Context(), "v1", "ConfigMap", namespace, "")
	if err != nil || len(got) != len(live.Items) || len(got) < n {
		t.Errorf("%d of %d, %v", len(got), len(live.Items), err)
	}
	c.Observe(t.Context(), configMapAt(namespace, "c0"))
	records, err := cp.AuditOf(controlplane.AuditFilter{Namespace: namespace, Resource: "configmaps"})
	if err != nil {
		t.Fatal(err)
	}
	reads := 0
	for _, r := range records {
		if strings.HasPrefix(r.UserAgent, "kube-test") && (r.Verb == "get" || r.Verb == "list") {
			reads++
			if strings.Contains(r.RequestURI, "resourceVersion") {
				t.Errorf("read %s", r.RequestURI)
			}
		}
	}
	if reads != 3 {
		t.Errorf("%d reads are audited", reads)
	}
}
