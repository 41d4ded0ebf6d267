package chart

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-project/holdfast/test/chart/rendered"
)

// B7.4: the limit of each container is also what its collector goes by: a hook that
// is killed for its memory is killed at each try, and the chart stays for ever.
func TestB7_4_TheCollectorKnowsTheLimit(t *testing.T) {
	t.Parallel()
	for kind, object := range workloads(t, render(t, nil)) {
		_, _, container := pod(t, object)
		limits, _ := container["resources"].(values)["limits"].(values)
		if limits["memory"] == nil {
			t.Errorf("%s has no limit of memory", kind)
		}
		limit := values{"name": "GOMEMLIMIT", "valueFrom": values{"resourceFieldRef": values{"resource": "limits.memory"}}}
		if env := container["env"].([]any); !slices.ContainsFunc(env, func(e any) bool { return reflect.DeepEqual(e, limit) }) {
			t.Errorf("%s: %v", kind, env)
		}
	}
}

// B7.2: nothing that people add can undo what Deployment, hook and roles must share:
// no flag that the chart gives the controller is taken again, since the last one wins,
// no variable, and no label by which Pods are selected.
func TestB7_2_WhatIsSharedCannotBeUndone(t *testing.T) {
	t.Parallel()
	refused := func(v values, says string) {
		t.Helper()
		if _, err := rendered.Render(t.Context(), dir, rendered.Options{Values: v}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: refused with %v, want %q", v, err, says)
		}
	}
	all := everything()
	all["watchLabelSelector"], all["extraArgs"] = "a=b", []any{}
	_, _, controller := pod(t, workloads(t, render(t, all))["Deployment"])
	for _, arg := range append(argsOf(controller), "--enable-leader-election") {
		name, _, _ := strings.Cut(arg, "=")
		if strings.HasSuffix(name, "-addr") {
			continue // where it listens concerns nothing else
		}
		for _, given := range []string{name, name + "=x", name + "=a=b"} {
			refused(values{"extraArgs": []any{"--kube-api-qps=100", given}}, "extraArgs has "+name+", which ")
		}
	}
	for _, variable := range controller["env"].([]any) {
		name := variable.(values)["name"].(string)
		if name != "HTTPS_PROXY" {
			refused(values{"extraEnv": []any{values{"name": name, "value": "x"}}}, "extraEnv has "+name+", which ")
		}
	}
	chart := render(t, nil)
	for _, kind := range []string{"Deployment", "Job"} {
		for label := range labelsOf(t, workloads(t, chart)[kind]) {
			refused(values{"podLabels": values{label: "x"}}, "podLabels has "+label+", which ")
			refused(values{"commonLabels": values{label: "x"}}, "commonLabels has "+label+", which ")
		}
	}
	for label := range chart.Find("Deployment", "flux-plunger").GetLabels() {
		refused(values{"commonLabels": values{label: "x"}}, "commonLabels has "+label+", which ")
	}
}
