package plunger

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/plungertest"
	"github.com/holdfast-project/holdfast/test/helmcontroller/lab"
)

// operator runs one of the operator's commands with the administrator's
// kubeconfig and returns what it printed, and its exit code.
func (b *bench) operator(t *testing.T, input string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), b.binary, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+b.ControlPlane.AdminKubeconfig())
	var out, problems strings.Builder
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &problems
	_ = cmd.Run() // the exit code says how it ended
	return out.String(), problems.String(), cmd.ProcessState.ExitCode()
}

// B8.4: the commands that events and alerts name exist, and do what they say.
func TestOperatorCommands(t *testing.T) {
	t.Parallel()
	b := shared
	keys := b.Releases(t, "operator", 3)
	kept, left, held := keys[0], keys[1], keys[2]
	must(t, b.Edit(t.Context(), kept, func(hr *helmv2.HelmRelease) { hr.Finalizers = append(hr.Finalizers, contract.Fence) }))
	must(t, b.Edit(t.Context(), left, func(hr *helmv2.HelmRelease) {
		hr.Spec.Suspend = true
		hr.Annotations = map[string]string{contract.ProcessedVersion: "1"}
	}))
	must(t, b.Edit(t.Context(), held, func(hr *helmv2.HelmRelease) { hr.Spec.Suspend = true }))

	for _, form := range []string{"table", "json", "yaml"} {
		out, problems, code := b.operator(t, "", "fences", "--namespace", "operator", "--output", form)
		if code != 0 || !strings.Contains(out, kept.String()) || strings.Contains(out, left.String()) || !strings.Contains(out, "remember the release") {
			t.Errorf("fences as %s: exit %d, %s%s", form, code, out, problems)
		}
		out, problems, code = b.operator(t, "", "candidates", "--namespace", "operator", "--output", form)
		if code != 0 || !strings.Contains(out, left.String()) || strings.Contains(out, held.String()) || !strings.Contains(out, "flux resume helmrelease") {
			t.Errorf("candidates as %s: exit %d, %s%s", form, code, out, problems)
		}
	}
	if _, problems, code := b.operator(t, "no\n", "release-fence", kept.String()); code == 0 || !strings.Contains(problems, "nothing was changed") {
		t.Errorf("release-fence after a no: exit %d, %s", code, problems)
	}
	if hr := b.Live(t, kept); !plungertest.Fenced(hr) {
		t.Error("the fence went after a no")
	}
	if out, problems, code := b.operator(t, "", "release-fence", "--yes", kept.String()); code != 0 || !strings.Contains(out, "1 copies") {
		t.Errorf("release-fence --yes: exit %d, %s%s", code, out, problems)
	}
	if hr := b.Live(t, kept); plungertest.Fenced(hr) || !lab.Ready(hr) {
		t.Errorf("want the fence gone and nothing else changed: %s", lab.Describe(hr))
	}
	if _, problems, code := b.operator(t, "", "release-fence", "--yes", kept.String()); code == 0 || !strings.Contains(problems, "carries no fence") {
		t.Errorf("release-fence without a fence: exit %d, %s", code, problems)
	}
	if _, problems, code := b.operator(t, "", "release-fence", "one", "two"); code != 2 {
		t.Errorf("release-fence with two arguments: exit %d, %s", code, problems)
	}
}

// explained asks until the answer says all that it should: helm-controller attempts
// a stuck release again by itself, and while it does there is nothing to decide.
func (b *bench) explained(t *testing.T, key string, args, says []string) {
	t.Helper()
	var out, problems string
	var code int
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, plungertest.Settle, true, func(context.Context) (bool, error) {
		out, problems, code = b.operator(t, "", append([]string{"explain", key}, args...)...)
		return code == 0 && !slices.ContainsFunc(says, func(part string) bool { return !strings.Contains(out, part) }), nil
	})
	if err != nil {
		t.Errorf("explain %s %v: exit %d, it does not say each of %q: %s%s", key, args, code, says, out, problems)
	}
}

// B8.4: explain says what was read, what would be decided and why, and changes nothing.
func TestExplain(t *testing.T) {
	t.Parallel()
	b := shared
	keys := b.Releases(t, "explain", 3)
	healthy, stuck, fencedStuck := keys[0], keys[1], keys[2]
	must(t, b.Stick(t.Context(), stuck, lab.Damage{}))
	must(t, b.Stick(t.Context(), fencedStuck, lab.Damage{}))
	must(t, b.Edit(t.Context(), fencedStuck, func(hr *helmv2.HelmRelease) { hr.Finalizers = append(hr.Finalizers, contract.Fence) }))
	for _, c := range []struct {
		key  types.NamespacedName
		args []string
		says []string
	}{
		{healthy, nil, []string{"none", "neither stuck nor fenced", "not asked for"}},
		{stuck, nil, []string{"set-fence", "B5.8", "has no deployed releases"}},
		{fencedStuck, nil, []string{"rewrite-status", "B10.1", "uninstalling"}},
		{fencedStuck, []string{"--strategy", "reclaim"}, []string{"acquire", "B4.1"}},
	} {
		for _, form := range []string{"table", "json", "yaml"} {
			b.explained(t, c.key.String(), append(c.args, "--output", form), append(c.says, c.key.String()))
		}
	}
	if hr := b.Live(t, stuck); plungertest.Fenced(hr) {
		t.Error("explaining set the fence")
	}
	for _, args := range [][]string{{"explain"}, {"explain", "one", "two"}, {"explain", "a/b/c"}, {"explain", "a/b", "--strategy", "none"}, {"explain", "a/b", "--output", "xml"}} {
		if _, problems, code := b.operator(t, "", args...); code != 2 {
			t.Errorf("%v: exit %d, %s", args, code, problems)
		}
	}
	if _, problems, code := b.operator(t, "", "explain", "explain/none"); code != 1 || !strings.Contains(problems, "does not exist") {
		t.Errorf("explain of none: exit %d, %s", code, problems)
	}
}
