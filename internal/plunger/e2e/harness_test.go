package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-project/holdfast/internal/plunger"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
	"github.com/holdfast-project/holdfast/internal/plunger/plungertest"
	"github.com/holdfast-project/holdfast/test/controlplane"
	"github.com/holdfast-project/holdfast/test/helmcontroller"
	"github.com/holdfast-project/holdfast/test/helmcontroller/lab"
)

// bench is one control plane with a helm-controller, shared by the package's
// tests; each test has a namespace and a flux-plunger of its own.
type bench struct {
	plungertest.Bench
	gate   *helmcontroller.Gate
	config map[decide.Strategy]*rest.Config
}

var shared *bench

func TestMain(m *testing.M) {
	gate := &helmcontroller.Gate{}
	os.Exit(lab.Tests{
		ControlPlane:   controlplane.Options{NoPodRunner: true, NoScheduler: true},
		SideBySide:     8,
		HelmController: &helmcontroller.Options{Concurrent: 24, At: gate.At},
		Begin: func(ctx context.Context, l *lab.Lab) error {
			shared = &bench{Bench: plungertest.Bench{Lab: l}, gate: gate, config: map[decide.Strategy]*rest.Config{}}
			return errors.Join(shared.permit(ctx, decide.Repair), shared.permit(ctx, decide.Reclaim))
		},
	}.Run(m))
}

// permit remembers how to reach the API server under the strategy's shipped
// permissions.
func (b *bench) permit(ctx context.Context, strategy decide.Strategy) error {
	if err := b.Permit(ctx, filepath.Join("..", "..", "..", "config", "rbac"), string(strategy)); err != nil {
		return err
	}
	config, err := b.ConfigFor(ctx, lab.System(string(strategy)), lab.Account(string(strategy)))
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 200, 400
	b.config[strategy] = config
	return nil
}

// plungerRun is a running flux-plunger.
type plungerRun struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// configuration is how a test runs flux-plunger over one namespace.
func (b *bench) configuration(t *testing.T, namespace string, strategy decide.Strategy, edits ...func(*plunger.Config)) plunger.Config {
	t.Helper()
	config := plunger.Config{
		Rest: rest.CopyConfig(b.config[strategy]),
		Options: decide.Options{Strategy: strategy, FenceUntil: decide.UntilRemembered,
			UnprovenUninstall: decide.ReleaseUnproven},
		Timing: plunger.Timing{Grace: plunger.MinGrace, Renew: 30 * time.Second, Retry: 2 * time.Second}, Identity: "test-" + namespace, Namespace: namespace, Concurrent: 8,
		MetricsAddress: "0", HealthAddress: "0", Registry: prometheus.NewRegistry(), Log: b.overheard(t),
	}
	for _, edit := range edits {
		edit(&config)
	}
	return config
}

// overheard is a log that is shown when the test fails.
func (b *bench) overheard(t *testing.T) logr.Logger {
	t.Helper()
	var mu sync.Mutex
	var said []string
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		if t.Failed() {
			t.Logf("flux-plunger said:\n%s", strings.Join(said, "\n"))
		}
	})
	return funcr.New(func(_, line string) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, time.Now().Format("15:04:05.000 ")+line)
	}, funcr.Options{})
}

// start runs flux-plunger over one namespace until the test ends or stop.
func (b *bench) start(t *testing.T, namespace string, strategy decide.Strategy, edits ...func(*plunger.Config)) *plungerRun {
	t.Helper()
	config := b.configuration(t, namespace, strategy, edits...)
	ctx, cancel := context.WithCancel(context.Background())
	run := &plungerRun{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(run.done)
		run.err = plunger.Run(ctx, config)
	}()
	t.Cleanup(func() { run.stop() }) // a test that cares stops it itself
	return run
}

// stop is SIGTERM and the wait for the exit.
func (p *plungerRun) stop() error {
	p.cancel()
	<-p.done
	return p.err
}

// uninstalled waits until the object is gone and fails unless nothing is left.
func (b *bench) uninstalled(t *testing.T, hr *helmv2.HelmRelease) {
	t.Helper()
	left := b.Left(t, hr)
	if !left.Clean() {
		t.Errorf("%s/%s is gone and left %v and %v behind; events: %v", hr.Namespace, hr.Name, left.Chart, left.Storage, b.Said(t, client.ObjectKeyFromObject(hr)))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// abandon runs a flux-plunger that nobody will stop: its tap kills it.
func (b *bench) abandon(t *testing.T, namespace string, strategy decide.Strategy, edits ...func(*plunger.Config)) {
	t.Helper()
	go func() {
		if err := plunger.Run(context.Background(), b.configuration(t, namespace, strategy, edits...)); err != nil {
			t.Logf("the abandoned one: %v", err)
		}
	}()
}

// dashed makes a name of a step's words.
func dashed(s string) string { return strings.ToLower(strings.ReplaceAll(s, " ", "-")) }
