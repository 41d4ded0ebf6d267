package chart

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-project/holdfast/test/chart/rendered"
)

const dir = "../../charts/flux-plunger"

type values = map[string]any

func render(t *testing.T, v values) rendered.Chart {
	t.Helper()
	chart, err := rendered.Render(t.Context(), dir, rendered.Options{Values: v})
	if err != nil {
		t.Fatal(err)
	}
	return chart
}

// kinds lists what was rendered, hooks marked.
func kinds(c rendered.Chart) []string {
	var names []string
	for _, object := range c.Objects {
		names = append(names, object.GetKind()+"/"+object.GetName())
	}
	for _, object := range c.Hooks {
		names = append(names, "hook "+object.GetKind()+"/"+object.GetName())
	}
	slices.Sort(names)
	return names
}

// base is what every installation has.
func base() []string {
	return []string{
		"ClusterRole/flux-plunger", "ClusterRole/flux-plunger-hook",
		"ClusterRoleBinding/flux-plunger", "ClusterRoleBinding/flux-plunger-hook",
		"Deployment/flux-plunger",
		"Role/flux-plunger-hook", "Role/flux-plunger-leader",
		"RoleBinding/flux-plunger-hook", "RoleBinding/flux-plunger-leader",
		"Service/flux-plunger",
		"ServiceAccount/flux-plunger", "ServiceAccount/flux-plunger-hook",
		"ValidatingAdmissionPolicy/flux-plunger-secrets", "ValidatingAdmissionPolicyBinding/flux-plunger-secrets",
		"hook Job/flux-plunger-release-fences",
	}
}

// everything switches on all that is off by default.
func everything() values {
	return values{
		"replicas": 2, "imagePullSecrets": []any{values{"name": "registry"}}, "priorityClassName": "system-cluster-critical",
		"commonLabels": values{"team": "platform"}, "commonAnnotations": values{"note": "n"},
		"podLabels": values{"pod": "l"}, "podAnnotations": values{"pod": "a"},
		"serviceAccount": values{"annotations": values{"account": "a"}},
		"nodeSelector":   values{"disk": "ssd"}, "tolerations": []any{values{"operator": "Exists"}},
		"affinity":                  values{"podAntiAffinity": values{}},
		"topologySpreadConstraints": []any{values{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}},
		"extraArgs":                 []any{"--kube-api-qps=100"}, "extraEnv": []any{values{"name": "HTTPS_PROXY", "value": "http://proxy"}},
		"dryRun": true, "recoverUninstalled": true, "allowCrossNamespaceStorage": true,
		"metrics": values{
			"service": values{"annotations": values{"service": "a"}}, "podMonitor": values{"enabled": true, "labels": values{"prometheus": "main"}, "interval": "30s"},
			"prometheusRule": values{"enabled": true, "labels": values{"prometheus": "main"}}, "dashboard": values{"enabled": true},
		},
		"networkPolicy": values{"enabled": true},
	}
}

// B7.1, B7.9: which objects there are.
func TestWhichObjects(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		values values
		more   []string
		less   []string
	}{
		"defaults": {nil, nil, nil},
		"HA":       {values{"replicas": 2}, []string{"PodDisruptionBudget/flux-plunger"}, nil},
		"HA without budget": {values{"replicas": 3, "podDisruptionBudget": values{"enabled": false}},
			nil, nil},
		"sharded": {values{"watchLabelSelector": "sharding.fluxcd.io/key=shard1"}, nil, nil},
		"one namespace": {values{"watchAllNamespaces": false},
			[]string{"RoleBinding/flux-plunger", "RoleBinding/flux-plunger-hook-releases"},
			[]string{"ClusterRoleBinding/flux-plunger", "ClusterRoleBinding/flux-plunger-hook"}},
		"everything": {everything(), []string{"PodDisruptionBudget/flux-plunger", "PodMonitor/flux-plunger",
			"PrometheusRule/flux-plunger", "ConfigMap/flux-plunger-dashboard", "NetworkPolicy/flux-plunger"}, nil},
		"no roles": {values{"rbac": values{"create": false}}, nil, []string{"ClusterRole/flux-plunger", "ClusterRole/flux-plunger-hook",
			"ClusterRoleBinding/flux-plunger", "ClusterRoleBinding/flux-plunger-hook", "Role/flux-plunger-hook", "Role/flux-plunger-leader",
			"RoleBinding/flux-plunger-hook", "RoleBinding/flux-plunger-leader"}},
		"service monitor": {values{"metrics": values{"serviceMonitor": values{"enabled": true}}}, []string{"ServiceMonitor/flux-plunger"}, nil},
		"nothing optional": {values{"admissionPolicy": values{"enabled": false}, "preDeleteHook": values{"enabled": false},
			"metrics": values{"service": values{"enabled": false}}}, nil, []string{
			"ValidatingAdmissionPolicy/flux-plunger-secrets", "ValidatingAdmissionPolicyBinding/flux-plunger-secrets", "Service/flux-plunger",
			"hook Job/flux-plunger-release-fences", "ServiceAccount/flux-plunger-hook", "ClusterRole/flux-plunger-hook",
			"ClusterRoleBinding/flux-plunger-hook", "Role/flux-plunger-hook", "RoleBinding/flux-plunger-hook"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := append(slices.DeleteFunc(base(), func(k string) bool { return slices.Contains(c.less, k) }), c.more...)
			slices.Sort(want)
			if diff := cmp.Diff(want, kinds(render(t, c.values))); diff != "" {
				t.Errorf("the objects are not those expected:\n%s", diff)
			}
		})
	}
}

// B7.9: where the API is not served, the policy is left out.
func TestPolicyWhereItIsNotServed(t *testing.T) {
	t.Parallel()
	chart, err := rendered.Render(t.Context(), dir, rendered.Options{NoAdmissionPolicy: true})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(chart.Manifest, "ValidatingAdmissionPolicy") {
		t.Error("the policy is rendered for a cluster that does not serve it")
	}
}

// B6.7, B7.1: each refused value, with its sentence.
func TestRefusedValues(t *testing.T) {
	t.Parallel()
	for says, v := range map[string]values{
		"shutdownGracePeriodSeconds 39 is not between 40 and 140":  {"shutdownGracePeriodSeconds": 39},
		"shutdownGracePeriodSeconds 141 is not between 40 and 140": {"shutdownGracePeriodSeconds": 141},
		"shutdownGracePeriodSeconds 0 is not between 40 and 140":   {"shutdownGracePeriodSeconds": 0},
		"at '/shutdownGracePeriodSeconds': got string":             {"shutdownGracePeriodSeconds": "90"},
		"fenceUntil lifted goes with strategy reclaim only":        {"fenceUntil": "lifted"},
		"recoverUninstalled goes with strategy repair only":        {"strategy": "reclaim", "recoverUninstalled": true},
		"allowCrossNamespaceStorage needs watchAllNamespaces":      {"allowCrossNamespaceStorage": true, "watchAllNamespaces": false},
		"metrics.podMonitor and metrics.serviceMonitor are both": {"metrics": values{"podMonitor": values{"enabled": true},
			"serviceMonitor": values{"enabled": true}}},
		"metrics.serviceMonitor needs metrics.service": {"metrics": values{"service": values{"enabled": false}, "serviceMonitor": values{"enabled": true}}},
		"serviceAccount.name is empty":                 {"serviceAccount": values{"create": false}},
		"additional properties 'stratgy' not allowed":  {"stratgy": "repair"},
		"at '/image'":                        {"image": values{"name": "x"}},
		"at '/metrics/podMonitor'":           {"metrics": values{"podMonitor": values{"enable": true}}},
		"at '/strategy'":                     {"strategy": "rebuild"},
		"at '/fenceUntil'":                   {"fenceUntil": "forever"},
		"at '/unprovenUninstall'":            {"unprovenUninstall": "guess"},
		"at '/replicas'":                     {"replicas": -1},
		"at '/concurrent'":                   {"concurrent": 0},
		"at '/image/digest'":                 {"image": values{"digest": "sha256:short"}},
		"at '/image/pullPolicy'":             {"image": values{"pullPolicy": "Sometimes"}},
		"at '/log/level'":                    {"log": values{"level": "loud"}},
		"at '/extraArgs/0'":                  {"extraArgs": []any{"strategy=reclaim"}},
		"at '/dryRun'":                       {"dryRun": "yes"},
		"at '/networkPolicy/apiServerPorts'": {"networkPolicy": values{"apiServerPorts": []any{}}},
	} {
		_, err := rendered.Render(t.Context(), dir, rendered.Options{Values: v})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: refused with %v, want %q", v, err, says)
		}
	}
	for _, accepted := range []int{40, 90, 140} {
		render(t, values{"shutdownGracePeriodSeconds": accepted})
	}
}

// B7.1: the schema knows every value of values.yaml and no other, at every level.
func TestSchemaIsStrictAndComplete(t *testing.T) {
	t.Parallel()
	loaded, err := rendered.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	var schema values
	if err := json.Unmarshal(loaded.Schema, &schema); err != nil {
		t.Fatal(err)
	}
	compareSchema(t, "", schema, loaded.Values)
}

// compareSchema walks both; free-form maps end the walk.
func compareSchema(t *testing.T, path string, schema, defaults values) {
	t.Helper()
	properties, known := schema["properties"].(values)
	if !known {
		return
	}
	if schema["additionalProperties"] != false {
		t.Errorf("%q allows unknown values", path)
	}
	have, want := slices.Sorted(maps.Keys(properties)), slices.Sorted(maps.Keys(defaults))
	have = slices.DeleteFunc(have, func(key string) bool { return path == "" && key == "global" }) // Helm's own
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("the schema of %q and values.yaml differ:\n%s", path, diff)
	}
	for key, below := range properties {
		if child, ok := defaults[key].(values); ok {
			compareSchema(t, path+"/"+key, below.(values), child)
		}
	}
}

// B7.1, B10.5: under either strategy the roles are, rule for rule, those that the
// shipped files grant and the other tests run under; the hook's too (B7.6).
func TestRolesAreTheShippedFiles(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"repair", "reclaim"} {
		chart := render(t, values{"strategy": strategy})
		for _, file := range []string{"flux-plunger-" + strategy + ".yaml", "flux-plunger-hook.yaml"} {
			raw, err := os.ReadFile(filepath.Join("..", "..", "config", "rbac", file))
			if err != nil {
				t.Fatal(err)
			}
			shipped, err := rendered.Decode(raw)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range shipped {
				have := chart.Find(want.GetKind(), want.GetName())
				if have == nil {
					t.Errorf("%s: the chart has no %s %s", file, want.GetKind(), want.GetName())
					continue
				}
				have = have.DeepCopy()
				have.SetLabels(nil)
				if diff := cmp.Diff(want.Object, have.Object); diff != "" {
					t.Errorf("%s: %s %s differs:\n%s", file, want.GetKind(), want.GetName(), diff)
				}
			}
		}
		for _, object := range chart.Objects {
			if strings.HasSuffix(object.GetKind(), "Role") && !strings.HasPrefix(object.GetName(), "flux-plunger") {
				t.Errorf("an unexpected %s %s", object.GetKind(), object.GetName())
			}
		}
	}
}

// B7.1, B7.2: every namespaced object is in the release's namespace, names follow
// the release, and two installations share no cluster-wide name.
func TestNamesAndNamespaces(t *testing.T) {
	t.Parallel()
	two, err := rendered.Render(t.Context(), dir, rendered.Options{Name: "shard-two", Namespace: "shards", Values: everything()})
	if err != nil {
		t.Fatal(err)
	}
	one := kinds(render(t, everything()))
	cluster := regexp.MustCompile(`^(ClusterRole|ClusterRoleBinding|ValidatingAdmissionPolicy|ValidatingAdmissionPolicyBinding)$`)
	for _, object := range append(two.Objects, two.Hooks...) {
		name := object.GetKind() + "/" + object.GetName()
		if !strings.HasPrefix(object.GetName(), "shard-two-flux-plunger") {
			t.Errorf("%s does not carry the release's name", name)
		}
		if cluster.MatchString(object.GetKind()) {
			if slices.Contains(one, name) || object.GetNamespace() != "" {
				t.Errorf("%s: shared with another installation, or in a namespace", name)
			}
		} else if object.GetNamespace() != "shards" {
			t.Errorf("%s is in namespace %q", name, object.GetNamespace())
		}
	}
	text := fmt.Sprint(two)
	if strings.Contains(text, "flux-system") {
		t.Error("the default namespace is named somewhere")
	}
}

// pod returns the Pod specification of a Deployment or Job.
func pod(t *testing.T, object *unstructured.Unstructured) (template, spec, container values) {
	t.Helper()
	template, _, _ = unstructured.NestedMap(object.Object, "spec", "template")
	spec = template["spec"].(values)
	containers := spec["containers"].([]any)
	if len(containers) != 1 {
		t.Fatalf("%s has %d containers", object.GetName(), len(containers))
	}
	return template, spec, containers[0].(values)
}

func workloads(t *testing.T, c rendered.Chart) map[string]*unstructured.Unstructured {
	t.Helper()
	found := map[string]*unstructured.Unstructured{"Deployment": c.Find("Deployment", "flux-plunger"), "Job": c.Find("Job", "flux-plunger-release-fences")}
	for kind, object := range found {
		if object == nil {
			t.Fatalf("there is no %s", kind)
		}
	}
	return found
}

// B7.1, B7.8: restricted Pod security, non-root, read-only, for both.
func TestPodSecurity(t *testing.T) {
	t.Parallel()
	for kind, object := range workloads(t, render(t, everything())) {
		_, spec, container := pod(t, object)
		want := values{"runAsNonRoot": true, "seccompProfile": values{"type": "RuntimeDefault"}}
		if diff := cmp.Diff(want, spec["securityContext"]); diff != "" {
			t.Errorf("%s: the Pod's security:\n%s", kind, diff)
		}
		want = values{"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": values{"drop": []any{"ALL"}}}
		if diff := cmp.Diff(want, container["securityContext"]); diff != "" {
			t.Errorf("%s: the container's security:\n%s", kind, diff)
		}
	}
}

// B7.8: one digest pins the Deployment and the hook alike.
func TestImageIsPinnedForBoth(t *testing.T) {
	t.Parallel()
	digest := "sha256:" + strings.Repeat("ab", 32)
	chart := render(t, values{"image": values{"repository": "mirror.example:5000/fp", "tag": "v9", "digest": digest}})
	for kind, object := range workloads(t, chart) {
		if _, _, container := pod(t, object); container["image"] != "mirror.example:5000/fp:v9@"+digest {
			t.Errorf("%s runs %v", kind, container["image"])
		}
	}
}

// B7.1: what people set arrives, on the hook too where it decides whether a Pod
// can run at all.
func TestWhatPeopleSetArrives(t *testing.T) {
	t.Parallel()
	chart := render(t, everything())
	for kind, object := range workloads(t, chart) {
		template, spec, container := pod(t, object)
		for _, key := range []string{"imagePullSecrets", "priorityClassName", "nodeSelector", "tolerations", "affinity"} {
			if diff := cmp.Diff(fmt.Sprint(everything()[key]), fmt.Sprint(spec[key])); diff != "" {
				t.Errorf("%s: %s:\n%s", kind, key, diff)
			}
		}
		labels := template["metadata"].(values)["labels"].(values)
		if labels["team"] != "platform" || object.GetLabels()["team"] != "platform" {
			t.Errorf("%s: labels are %v", kind, labels)
		}
		if !strings.Contains(fmt.Sprint(container["env"]), "HTTPS_PROXY") {
			t.Errorf("%s: env is %v", kind, container["env"])
		}
	}
	template, spec, container := pod(t, chart.Find("Deployment", "flux-plunger"))
	if args := fmt.Sprint(container["args"]); !strings.HasSuffix(args, "--kube-api-qps=100]") {
		t.Errorf("extra arguments do not come last: %s", args)
	}
	if spec["topologySpreadConstraints"] == nil || fmt.Sprint(template["metadata"]) == "" {
		t.Error("topologySpreadConstraints are missing")
	}
	if got := template["metadata"].(values)["annotations"]; !cmp.Equal(got, any(values{"pod": "a"})) {
		t.Errorf("the Pods' annotations are %v", got)
	}
	account := chart.Find("ServiceAccount", "flux-plunger").GetAnnotations()
	if account["account"] != "a" || account["note"] != "n" {
		t.Errorf("the ServiceAccount's annotations are %v", account)
	}
	for _, object := range chart.Objects {
		if object.GetLabels()["team"] != "platform" || object.GetAnnotations()["note"] != "n" {
			t.Errorf("%s %s lacks the common label or annotation", object.GetKind(), object.GetName())
		}
	}
}

// B7.2: the hook waits for the controller's Pods, which its selector matches, and
// never for its own, which it does not.
func TestHookSelectsTheControllersPods(t *testing.T) {
	t.Parallel()
	for _, v := range []values{nil, {"nameOverride": "other", "commonLabels": values{"x": "y"}}, {"fullnameOverride": "flux-plunger", "podLabels": values{"p": "q"}}} {
		chart := render(t, v)
		name := "flux-plunger"
		if v["nameOverride"] != nil {
			name = "flux-plunger-other"
		}
		deployment, job := chart.Find("Deployment", name), chart.Find("Job", name+"-release-fences")
		_, _, container := pod(t, job)
		selector := selectorOf(t, flagOf(container, "--pod-selector"))
		if !selector.Matches(labelsOf(t, deployment)) {
			t.Errorf("%v: the controller's Pods are not selected", v)
		}
		if selector.Matches(labelsOf(t, job)) {
			t.Errorf("%v: the hook waits for itself", v)
		}
		if got := flagOf(container, "--deployment"); got != name {
			t.Errorf("%v: the hook scales %q", v, got)
		}
	}
}
