package plunger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/holdfast-project/holdfast/internal/plunger/contract"
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

// settle bounds a wait for something that takes a second when the machine is
// not busy.
const settle = 90 * time.Second

// bench is one control plane with a helm-controller, shared by the package's
// tests; each has a namespace and flux-plungers of its own.
type bench struct {
	*lab.Lab
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

// namespace makes one with a good chart in it, and releases that are Ready.
func (b *bench) namespace(t testing.TB, name string, releases int, edits ...func(*helmv2.HelmRelease)) []types.NamespacedName {
	t.Helper()
	must(t, b.Namespace(t.Context(), name))
	must(t, b.Publish(t.Context(), name, lab.Source, lab.Chart{}))
	keys := lab.Names(name, "hr", releases)
	must(t, b.Install(t.Context(), keys, edits...))
	return keys
}

func (b *bench) release(t testing.TB, key types.NamespacedName) *helmv2.HelmRelease {
	t.Helper()
	hr, err := b.Release(t.Context(), key)
	must(t, err)
	return hr
}

// until waits for a state, and shows what flux-plunger said when it never comes.
func (b *bench) until(t testing.TB, key types.NamespacedName, what func(*helmv2.HelmRelease) bool) *helmv2.HelmRelease {
	t.Helper()
	hr, err := b.Until(t.Context(), key, settle, what)
	if err != nil {
		t.Fatalf("%v\nevents: %v", err, b.events(t, key))
	}
	return hr
}

// gone waits for the object to go and returns what it left behind.
func (b *bench) gone(t testing.TB, key types.NamespacedName) lab.Remains {
	t.Helper()
	if err := b.Gone(t.Context(), key, settle); err != nil {
		t.Fatalf("%v\nevents: %v", err, b.events(t, key))
	}
	return b.remains(t, key)
}

func (b *bench) remains(t testing.TB, key types.NamespacedName) lab.Remains {
	t.Helper()
	left, err := b.Remains(t.Context(), lab.NewRelease(key))
	must(t, err)
	return left
}

// events returns the reasons and notes of what flux-plunger said about a release.
func (b *bench) events(t testing.TB, key types.NamespacedName) []string {
	t.Helper()
	events, err := b.ControlPlane.Client().EventsV1().Events(key.Namespace).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	var said []string
	for _, event := range events.Items {
		if event.ReportingController == contract.FieldManager && event.Regarding.Name == key.Name {
			said = append(said, event.Type+" "+event.Reason+": "+event.Note)
		}
	}
	return said
}

// told waits until flux-plunger has said reason, which begins with the event's
// type: "Warning UninstallUnproven".
func (b *bench) told(t testing.TB, key types.NamespacedName, reason string) string {
	t.Helper()
	var found string
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, settle, true, func(context.Context) (bool, error) {
		for _, said := range b.events(t, key) {
			if strings.HasPrefix(said, reason+":") {
				found = said
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		t.Errorf("%s: no event %q, only %v", key, reason, b.events(t, key))
	}
	return found
}

// silent fails when flux-plunger has said reason.
func (b *bench) silent(t testing.TB, key types.NamespacedName, reason string) {
	t.Helper()
	for _, said := range b.events(t, key) {
		if strings.Contains(said, " "+reason+":") {
			t.Errorf("%s: unexpected event %q", key, said)
		}
	}
}

func fenced(hr *helmv2.HelmRelease) bool {
	for _, finalizer := range hr.Finalizers {
		if finalizer == contract.Fence {
			return true
		}
	}
	return false
}

// recovered: Ready, unsuspended, unfenced, remembered.
func recovered(hr *helmv2.HelmRelease) bool {
	return lab.Ready(hr) && !hr.Spec.Suspend && !fenced(hr) && len(hr.Status.History) > 0
}

func terminating(hr *helmv2.HelmRelease) bool { return !hr.DeletionTimestamp.IsZero() }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
