package preflight

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-project/holdfast/internal/durable"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/kube"
)

// A1.2: a relative evidence directory is below the physical working directory, as it
// is for a cleanup. How the operator's shell got there, perhaps through a link, is
// none of its components.
func TestPlaceBelowALinkedWorkingDirectory(t *testing.T) {
	real, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(real, "link")
	if err := os.Mkdir(filepath.Join(real, "physical"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("physical", link); err != nil {
		t.Fatal(err)
	}
	parent, err := durable.OS().Open(real)
	if err != nil {
		t.Fatal(err)
	}
	kind, err := parent.FileSystem()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Close(); err != nil {
		t.Fatal(err)
	}
	t.Chdir(link)
	place := func(directory string) error {
		r := &run{Config: Config{Files: durable.OS(), Directory: directory, AllowFileSystem: kind}}
		return r.checkPlace(t.Context())
	}
	if err := place("evidence"); err != nil {
		t.Errorf("refused: %v", err)
	}
	if err := place(filepath.Join(link, "evidence")); err == nil {
		t.Error("a path through a link is accepted")
	}
}

// drawnOut is a cluster that one question keeps busy for ever.
type drawnOut struct {
	*model
	question string
}

func (d *drawnOut) asked(ctx context.Context, question string) error {
	if question != d.question {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (d *drawnOut) ClusterIdentity(ctx context.Context, namespace string) kube.ClusterReading {
	if err := d.asked(ctx, "identity"); err != nil {
		return kube.ClusterReading{Namespace: kube.Observation{Err: err}}
	}
	return d.model.ClusterIdentity(ctx, namespace)
}

func (d *drawnOut) Capabilities(ctx context.Context) (kube.Capabilities, error) {
	if err := d.asked(ctx, "capabilities"); err != nil {
		return kube.Capabilities{}, err
	}
	return d.model.Capabilities(ctx)
}

func (d *drawnOut) May(ctx context.Context, p []kube.Permission) ([]kube.Permission, error) {
	return nil, d.asked(ctx, "permissions")
}

func (d *drawnOut) Jobs(ctx context.Context, _, _ string) ([]batchv1.Job, error) {
	return nil, d.asked(ctx, "jobs")
}

func (d *drawnOut) List(ctx context.Context, _, _, _, _ string) ([]kube.Meta, error) {
	return nil, d.asked(ctx, "pods")
}

func (d *drawnOut) TryCreate(ctx context.Context, place identity.Object, body []byte) (kube.Tried, error) {
	if err := d.asked(ctx, "dry run"); err != nil {
		return kube.Tried{}, err
	}
	return d.model.TryCreate(ctx, place, body)
}

func (d *drawnOut) Selectors(ctx context.Context, _ string) ([]unstructured.Unstructured, error) {
	return nil, d.asked(ctx, "selectors")
}

// A4.1, A4.2: whatever the cluster is asked before anything is created, it cannot
// keep the run waiting for ever. The refusal names the step and the time, and leaves
// nothing.
func TestA4_1_EveryQuestionBeforeTheFirstCreateEnds(t *testing.T) {
	for _, question := range []string{"identity", "capabilities", "permissions", "jobs", "pods", "dry run", "selectors"} {
		t.Run(question, func(t *testing.T) {
			one := try(t, exampleProfile(t), func(one *trial) {
				one.config.Cluster = &drawnOut{one.model, question}
			})
			var refused *Refusal
			if !errors.As(one.err, &refused) || !strings.Contains(refused.Sentence, "took longer than 5m0s") || refused.Hint == "" {
				t.Errorf("got %v", one.err)
			}
			if len(one.model.writes) > 0 || one.outcome.Directory != "" || len(one.model.disk.Files()) > 0 {
				t.Errorf("left %v, %v", one.model.writes, one.model.disk.Files())
			}
		})
	}
}

// crowded is a cluster in whose namespace there is one object that selects.
type crowded struct {
	*model
	live unstructured.Unstructured
}

func (c *crowded) Selectors(context.Context, string) ([]unstructured.Unstructured, error) {
	return []unstructured.Unstructured{c.live}, nil
}

// A4.3: what is live in the namespace is judged as what the chart renders: a claim is
// refused, a policy is named, also one that says nothing of the Pods it is for, and a
// selector that cannot be read is not taken for none.
func TestA4_3_LiveSelectors(t *testing.T) {
	everyJob := map[string]any{"matchExpressions": []any{map[string]any{"key": batchv1.JobNameLabel, "operator": "Exists"}}}
	for name, row := range map[string]struct {
		apiVersion, kind string
		spec             map[string]any
		refused, shown   string
	}{
		"a claim":               {"policy/v1", "PodDisruptionBudget", map[string]any{"selector": everyJob}, "the selector of PodDisruptionBudget shop/live would choose the Pod of slot ", ""},
		"a policy":              {"networking.k8s.io/v1", "NetworkPolicy", map[string]any{"podSelector": everyJob}, "", "NetworkPolicy shop/live also restricts the Pod of slot "},
		"a policy for all":      {"networking.k8s.io/v1", "NetworkPolicy", map[string]any{}, "", "NetworkPolicy shop/live also restricts the Pod of slot "},
		"a workload of its own": {"apps/v1", "Deployment", map[string]any{}, "", ""},
		"an unreadable one":     {"apps/v1", "Deployment", map[string]any{"selector": "x"}, "comparing selectors: reading the selector of Deployment shop/live", ""},
	} {
		t.Run(name, func(t *testing.T) {
			live := unstructured.Unstructured{Object: map[string]any{"spec": row.spec}}
			live.SetAPIVersion(row.apiVersion)
			live.SetKind(row.kind)
			live.SetNamespace("shop")
			live.SetName("live")
			one := try(t, exampleProfile(t), func(one *trial) { one.config.Cluster = &crowded{one.model, live} })
			var refused *Refusal
			if got := errors.As(one.err, &refused); got != (row.refused != "") || got && !strings.HasPrefix(refused.Sentence, row.refused) {
				t.Errorf("got %v", one.err)
			}
			shown := strings.Join(one.config.Report.(*silent).lines, "\n")
			if strings.Contains(shown, "also restricts") != (row.shown != "") || !strings.Contains(shown, row.shown) {
				t.Errorf("shown %s", shown)
			}
		})
	}
}
