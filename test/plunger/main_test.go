package plunger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-project/holdfast/internal/plunger/plungertest"
	"github.com/holdfast-project/holdfast/test/controlplane"
	"github.com/holdfast-project/holdfast/test/helmcontroller"
	"github.com/holdfast-project/holdfast/test/helmcontroller/lab"
)

// EnvCounts scales the campaigns: a percentage of the full counts. The default
// keeps the package within minutes on two cores.
const EnvCounts = "HOLDFAST_PLUNGER_COUNTS"

const defaultCounts = 20

const (
	repair  = "repair"
	reclaim = "reclaim"
)

// bench is one control plane with a helm-controller, shared by the package's
// tests; each has a namespace and flux-plungers of its own.
type bench struct {
	plungertest.Bench
	gate   *helmcontroller.Gate
	binary string
	// counts is the percentage of EnvCounts.
	counts int
}

var shared *bench

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "flux-plunger")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir) // a temporary directory
	shared = &bench{gate: &helmcontroller.Gate{}, binary: filepath.Join(dir, "flux-plunger"), counts: defaultCounts}
	return lab.Tests{
		ControlPlane: controlplane.Options{NoPodRunner: true, NoScheduler: true,
			AuditSecretsOf: []string{"system:serviceaccounts:" + lab.System(repair), "system:serviceaccounts:" + lab.System(reclaim)}},
		SideBySide: 8,
		// A look of the helm-controller holds its worker until its cache has caught
		// up, a second at least: with the default of four the tests would wait in
		// line for each other.
		HelmController: &helmcontroller.Options{Concurrent: 24, At: shared.gate.At},
		Begin:          shared.prepare,
		End: func() error {
			if err := shared.expectAudit(); err != nil {
				return fmt.Errorf("the audit log says: %w", err)
			}
			return nil
		},
	}.Run(m)
}

func (b *bench) prepare(ctx context.Context, l *lab.Lab) error {
	b.Lab = l
	if s := os.Getenv(EnvCounts); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return fmt.Errorf("reading %s: %q is no percentage", EnvCounts, s)
		}
		b.counts = n
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", b.binary, "../../cmd/flux-plunger")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building flux-plunger: %w\n%s", err, out)
	}
	folder := filepath.Join("..", "..", "config", "rbac")
	return errors.Join(b.Permit(ctx, folder, repair), b.Permit(ctx, folder, reclaim))
}

// of returns the share of a full count that this run takes, and at least two.
func (b *bench) of(full int) int { return max(full*b.counts/100, 2) }

// gone waits for the object to go and returns what it left behind.
func (b *bench) gone(t testing.TB, key types.NamespacedName) lab.Remains {
	t.Helper()
	return b.Left(t, lab.NewRelease(key))
}

func (b *bench) remains(t testing.TB, key types.NamespacedName) lab.Remains {
	t.Helper()
	left, err := b.Remains(t.Context(), lab.NewRelease(key))
	must(t, err)
	return left
}

func terminating(hr *helmv2.HelmRelease) bool { return !hr.DeletionTimestamp.IsZero() }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
