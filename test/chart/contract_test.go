package chart

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	cli "github.com/holdfast-project/holdfast/internal/cli/plunger"
	"github.com/holdfast-project/holdfast/internal/plunger"
	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
	"github.com/holdfast-project/holdfast/internal/plunger/hook"
	"github.com/holdfast-project/holdfast/internal/plunger/observe"
	"github.com/holdfast-project/holdfast/test/chart/rendered"
)

// roleVariable makes this test's binary flux-plunger itself, which costs no build.
const roleVariable = "HOLDFAST_CHART_TEST_FLUX_PLUNGER"

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) != "" {
		os.Exit(cli.Main(os.Args[1:], cli.Build{}, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// flagOf returns the value of a container's flag, "" without it.
func flagOf(container values, name string) string {
	for _, arg := range argsOf(container) {
		if value, ok := strings.CutPrefix(arg, name+"="); ok {
			return value
		}
	}
	return ""
}

func argsOf(container values) (args []string) {
	for _, arg := range container["args"].([]any) {
		args = append(args, arg.(string))
	}
	return args
}

func selectorOf(t *testing.T, text string) labels.Selector {
	t.Helper()
	selector, err := labels.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return selector
}

func labelsOf(t *testing.T, workload *unstructured.Unstructured) labels.Set {
	t.Helper()
	set, _, err := unstructured.NestedStringMap(workload.Object, "spec", "template", "metadata", "labels")
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// B6.7, B7.4, B7.5: one value gives the Pod's grace period, the controller's and
// the hook's; the durations and names of the templates are the Go constants.
func TestDurationsAndNamesAreTheConstants(t *testing.T) {
	t.Parallel()
	for _, grace := range []time.Duration{plunger.MinGrace, plunger.DefaultGrace, plunger.MaxGrace} {
		v := values{"shutdownGracePeriodSeconds": int(grace / time.Second)}
		if grace == plunger.DefaultGrace {
			v = nil
		}
		work := workloads(t, render(t, v))
		_, spec, controller := pod(t, work["Deployment"])
		_, _, hooked := pod(t, work["Job"])
		seconds := fmt.Sprint(int(grace / time.Second))
		for what, got := range map[string]string{"terminationGracePeriodSeconds": fmt.Sprint(spec["terminationGracePeriodSeconds"]),
			"the controller's flag": flagOf(controller, "--shutdown-grace-period-seconds"), "the hook's flag": flagOf(hooked, "--shutdown-grace-period-seconds")} {
			if got != seconds {
				t.Errorf("B6.7: %s is %s, want %s", what, got, seconds)
			}
		}
	}
	for _, beyond := range []time.Duration{plunger.MinGrace - time.Second, plunger.MaxGrace + time.Second} {
		_, err := rendered.Render(t.Context(), dir, rendered.Options{Values: values{"shutdownGracePeriodSeconds": int(beyond / time.Second)}})
		if err == nil {
			t.Errorf("B6.7: %s is not refused", beyond)
		}
	}
	job := workloads(t, render(t, nil))["Job"]
	deadline, _, _ := unstructured.NestedInt64(job.Object, "spec", "activeDeadlineSeconds")
	if time.Duration(deadline)*time.Second != hook.JobDeadline {
		t.Errorf("B7.5: the Job's deadline is %d s, the hook counts on %s", deadline, hook.JobDeadline)
	}
}

// B7.5: how the Job runs, and that only it is a hook.
func TestHookJob(t *testing.T) {
	t.Parallel()
	chart := render(t, nil)
	if len(chart.Hooks) != 1 {
		t.Fatalf("B7.5: %d hooks", len(chart.Hooks))
	}
	job := chart.Hooks[0]
	want := map[string]string{"helm.sh/hook": "pre-delete", "helm.sh/hook-delete-policy": "before-hook-creation"}
	if got := job.GetAnnotations(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("B7.5: the Job's annotations are %v, want %v", got, want)
	}
	limit, found, _ := unstructured.NestedInt64(job.Object, "spec", "backoffLimit")
	if !found || limit != 0 {
		t.Errorf("B7.5: backoffLimit is %d (%t)", limit, found)
	}
	if ttl, found, _ := unstructured.NestedInt64(job.Object, "spec", "ttlSecondsAfterFinished"); !found || ttl != 86400 {
		t.Errorf("B7.5: the TTL is %d (%t)", ttl, found)
	}
	_, spec, container := pod(t, job)
	if spec["restartPolicy"] != "Never" || spec["serviceAccountName"] != "flux-plunger-hook" || container["command"] != nil {
		t.Errorf("B7.2: %v", spec)
	}
	if args := argsOf(container); args[0] != "release-fences" {
		t.Errorf("B7.2: the hook runs %v", args)
	}
}

// B7.1: the rollout's strategy, and leader election.
func TestDeployment(t *testing.T) {
	t.Parallel()
	deployment := render(t, nil).Find("Deployment", "flux-plunger")
	strategy, _, _ := unstructured.NestedMap(deployment.Object, "spec", "strategy")
	want := values{"type": "RollingUpdate", "rollingUpdate": values{"maxSurge": int64(0), "maxUnavailable": int64(1)}}
	if fmt.Sprint(strategy) != fmt.Sprint(want) {
		t.Errorf("B7.1: the strategy is %v", strategy)
	}
	_, _, container := pod(t, deployment)
	if !slices.Contains(argsOf(container), "--leader-elect") {
		t.Errorf("B6.5: no leader election in %v", argsOf(container))
	}
	env := fmt.Sprint(container["env"])
	if !strings.Contains(env, "RUNTIME_NAMESPACE") || !strings.Contains(env, "metadata.namespace") {
		t.Errorf("env is %s", env)
	}
}

// B7.1, B7.2, B8.1: every argument of both is one that the program knows and
// accepts: it gets as far as looking for a cluster.
func TestArgumentsAreAccepted(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	all := everything()
	sharded := values{"watchLabelSelector": "sharding.fluxcd.io/key in (shard1, shard2)", "watchAllNamespaces": false,
		"strategy": "reclaim", "fenceUntil": "lifted", "unprovenUninstall": "hold", "shutdownGracePeriodSeconds": 140}
	for name, v := range map[string]values{"defaults": nil, "everything": all, "sharded": sharded} {
		for kind, object := range workloads(t, render(t, v)) {
			_, _, container := pod(t, object)
			cmd := exec.CommandContext(t.Context(), self, argsOf(container)...)
			cmd.Env = []string{roleVariable + "=1", "RUNTIME_NAMESPACE=flux-system", "KUBECONFIG=" + filepath.Join(t.TempDir(), "absent"), "HOME=" + t.TempDir()}
			out, err := cmd.CombinedOutput()
			if err == nil || cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "finding a cluster") {
				t.Errorf("%s, %s: %v ends with %v:\n%s", name, kind, argsOf(container), err, out)
			}
		}
	}
}

// B7.2: the controller and its hook are given the same watch.
func TestHookSweepsWhatIsWatched(t *testing.T) {
	t.Parallel()
	work := workloads(t, render(t, values{"watchLabelSelector": "a in (b, c)", "watchAllNamespaces": false}))
	_, _, controller := pod(t, work["Deployment"])
	_, _, hooked := pod(t, work["Job"])
	for name, want := range map[string]string{"--watch-label-selector": "a in (b, c)", "--watch-all-namespaces": "false"} {
		if c, h := flagOf(controller, name), flagOf(hooked, name); c != want || h != want {
			t.Errorf("%s: the controller has %q, the hook %q", name, c, h)
		}
	}
}

// B7.1: the names of the contract, wherever the chart says them.
func TestContractNames(t *testing.T) {
	t.Parallel()
	chart := render(t, nil)
	for _, role := range []string{"flux-plunger-leader", "flux-plunger-hook"} {
		if text := fmt.Sprint(chart.Find("Role", role)); !strings.Contains(text, "["+contract.LeaderElectionID+"]") {
			t.Errorf("Role %s does not name the Lease %s", role, contract.LeaderElectionID)
		}
	}
	for _, file := range []string{"README.md", "templates/NOTES.txt"} {
		raw, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(raw), contract.Fence) {
			t.Errorf("%s does not name the fence", file)
		}
	}
	raw, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	guarded := `[{"op":"test","path":"/metadata/finalizers/INDEX","value":"` + contract.Fence + `"},{"op":"remove","path":"/metadata/finalizers/INDEX"}]`
	for _, says := range []string{guarded, contract.ProcessedVersion, "flux resume helmrelease NAME --namespace NAMESPACE"} {
		if !strings.Contains(string(raw), says) {
			t.Errorf("B7.1: the README does not say %s", says)
		}
	}
}

// metricNames are those that flux-plunger registers.
func metricNames(t *testing.T) []string {
	t.Helper()
	registry := &names{}
	if _, err := observe.NewMetrics(registry, time.Now); err != nil {
		t.Fatal(err)
	}
	return registry.known
}

// names is a registry that remembers the names alone.
type names struct {
	prometheus.Registerer
	known []string
}

func (n *names) Register(c prometheus.Collector) error {
	found := regexp.MustCompile(`fqName: "([^"]+)"`)
	described := make(chan *prometheus.Desc, 16)
	c.Describe(described)
	close(described)
	for desc := range described {
		n.known = append(n.known, found.FindStringSubmatch(desc.String())[1])
	}
	return nil
}

// B8.2: alerts and dashboard ask for metrics that there are, and for reasons that
// are told; the alerts of the specification are there.
func TestAlertsAndDashboardAskForWhatThereIs(t *testing.T) {
	t.Parallel()
	known := metricNames(t)
	chart := render(t, everything())
	var rule struct {
		Spec struct {
			Groups []struct {
				Rules []struct{ Alert, Expr string }
			}
		}
	}
	text, err := yaml.Marshal(chart.Find("PrometheusRule", "flux-plunger").Object)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &rule); err != nil {
		t.Fatal(err)
	}
	var alerts []string
	for _, r := range rule.Spec.Groups[0].Rules {
		alerts = append(alerts, r.Alert)
		checkExpression(t, r.Expr, known)
	}
	if got := fmt.Sprint(alerts); got != "[FluxPlungerFenceOld FluxPlungerRecoveryLoop FluxPlungerUninstallUnproven]" {
		t.Errorf("the alerts are %s", got)
	}
	dashboard, _, _ := unstructured.NestedString(chart.Find("ConfigMap", "flux-plunger-dashboard").Object, "data", "flux-plunger.json")
	var board struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal([]byte(dashboard), &board); err != nil {
		t.Fatal(err)
	}
	shown := ""
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			checkExpression(t, target.Expr, known)
			shown += target.Expr
		}
	}
	for _, name := range known {
		if !strings.Contains(shown, name) {
			t.Errorf("the dashboard does not show %s", name)
		}
	}
}

func checkExpression(t *testing.T, expression string, known []string) {
	t.Helper()
	used := regexp.MustCompile(`flux_plunger_[a-z_]+`).FindAllString(expression, -1)
	if len(used) == 0 {
		t.Errorf("%q asks for nothing of flux-plunger's", expression)
	}
	for _, name := range used {
		if !slices.Contains(known, name) {
			t.Errorf("%q asks for %s, which there is not: %v", expression, name, known)
		}
	}
	for _, match := range regexp.MustCompile(`reason=~?"([^"]+)"`).FindAllStringSubmatch(expression, -1) {
		for _, reason := range strings.Split(match[1], "|") {
			if !slices.Contains(decide.Reasons(), decide.Reason(reason)) {
				t.Errorf("%q asks for the reason %s, which is never told", expression, reason)
			}
		}
	}
}

// B7.8: the package that is released is a chart that Helm loads, and runs the
// pinned image in the Deployment and the hook alike.
func TestReleasedPackagePinsTheImage(t *testing.T) {
	t.Parallel()
	digest := "sha256:" + strings.Repeat("cd", 32)
	archive := filepath.Join(t.TempDir(), "flux-plunger.tgz")
	absolute, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "run", "./chart", "--chart", absolute, "--digest", digest, "--out", archive)
	cmd.Dir = "../../tools/release"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("packing the chart: %v\n%s", err, out)
	}
	packed, err := rendered.Render(t.Context(), archive, rendered.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for kind, object := range workloads(t, packed) {
		if _, _, container := pod(t, object); !strings.HasSuffix(container["image"].(string), "@"+digest) {
			t.Errorf("%s runs %v", kind, container["image"])
		}
	}
}
