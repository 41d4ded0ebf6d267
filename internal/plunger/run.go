package plunger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	fluxcontroller "github.com/fluxcd/pkg/runtime/controller"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"
	crconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
	"github.com/holdfast-project/holdfast/internal/plunger/gather"
	"github.com/holdfast-project/holdfast/internal/plunger/observe"
	"github.com/holdfast-project/holdfast/internal/plunger/walk"
	"github.com/holdfast-project/holdfast/internal/plunger/write"
)

// Config is everything that a run needs; the command line fills it (B8.1).
type Config struct {
	Rest    *rest.Config
	Options decide.Options
	Timing  Timing
	DryRun  bool

	// Identity names this process in the Lease and in events, the Pod's name
	// with something unique.
	Identity string
	// LeaderElect takes the Lease in LeaseNamespace before acting.
	LeaderElect    bool
	LeaseNamespace string

	// Namespace narrows the watch, empty for all; Selector shards it.
	Namespace string
	Selector  labels.Selector

	Concurrent  int
	RateLimiter fluxcontroller.RateLimiterOptions
	// MetricsAddress and HealthAddress are listened on, "0" for not.
	MetricsAddress, HealthAddress string
	// Registry takes the metrics; nil stands for the manager's.
	Registry prometheus.Registerer
	// Now is the clock; nil stands for time.Now.
	Now func() time.Time
	// Log takes the lines of the run.
	Log logr.Logger
}

// instance is one run with what it is made of.
type instance struct {
	Config
	objects *kube.Objects
	walker  *walk.Walker
	manager manager.Manager
}

// Connect finds the cluster as every controller does: KUBECONFIG, or the Pod's
// own account. It sends nothing.
func Connect(qps float32, burst int) (*rest.Config, error) {
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, noCluster(err)
	}
	config.QPS, config.Burst = qps, burst
	config.UserAgent = contract.FieldManager
	return config, nil
}

// noCluster names where a cluster was looked for: client-go passes over a file
// that does not exist, and then says only that there is no configuration.
func noCluster(err error) error {
	path := os.Getenv(clientcmd.RecommendedConfigPathEnvVar)
	switch {
	case path == "":
		return fmt.Errorf("finding a cluster: run it in a Pod with a ServiceAccount, or set KUBECONFIG: %w", kube.UnquotedKubeconfig(err))
	case clientcmd.IsEmptyConfig(err):
		return fmt.Errorf("finding a cluster: KUBECONFIG is %q, which does not exist or names no cluster; give the path of a kubeconfig", path)
	default:
		return fmt.Errorf("finding a cluster: reading the kubeconfig %q: %w", path, kube.UnquotedKubeconfig(err))
	}
}

// Run runs flux-plunger until ctx ends, then stops in the order of B6.1. It
// returns an error where it could not start, where leadership was lost, and
// where the stop overran or the drain stayed incomplete.
func Run(ctx context.Context, config Config) error {
	run, err := assemble(config)
	if err != nil {
		return err
	}
	ctx = logr.NewContext(ctx, run.Log)
	stopped := run.manager.Start(ctx)
	return run.stop(ctx, stopped)
}

func assemble(config Config) (*instance, error) {
	config.Timing = config.Timing.Complete()
	if err := config.Timing.Check(); err != nil {
		return nil, err
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	if config.Registry == nil {
		config.Registry = metrics.Registry
	}
	if config.Selector == nil {
		config.Selector = labels.Everything()
	}
	objects, err := kube.NewObjects(config.Rest, contract.FieldManager)
	if err != nil {
		return nil, err
	}
	told, err := observe.NewMetrics(config.Registry, config.Now)
	if err != nil {
		return nil, fmt.Errorf("registering the metrics: %w", err)
	}
	run := &instance{Config: config, objects: objects, walker: &walk.Walker{
		Reader: gather.NewReader(objects), Writer: write.NewWriter(objects),
		Teller: observe.NewTeller(objects, config.Identity, told), Metrics: told, Ledger: &walk.Ledger{},
		Options: config.Options, Now: config.Now, DryRun: config.DryRun,
	}}
	return run, run.build()
}

// build makes the manager and hangs the reconciler in.
func (run *instance) build() error {
	scheme := runtime.NewScheme()
	if err := helmv2.AddToScheme(scheme); err != nil {
		return fmt.Errorf("registering the HelmRelease types: %w", err)
	}
	lock, err := run.lock()
	if err != nil {
		return err
	}
	run.manager, err = ctrl.NewManager(run.Rest, ctrl.Options{
		Scheme: scheme, Logger: run.Log,
		Cache:   cacheOptions(run.Namespace, run.Selector),
		Metrics: metricsserver.Options{BindAddress: run.MetricsAddress}, HealthProbeBindAddress: run.HealthAddress,
		GracefulShutdownTimeout: new(StopBound),
		LeaderElection:          run.LeaderElect,
		// The Lease is given up by us, after the drain, or not at all (B6.6): the
		// manager would give it up before the drain has begun.
		LeaderElectionReleaseOnCancel:       false,
		LeaderElectionResourceLockInterface: lock,
		LeaseDuration:                       &run.Timing.Lease, RenewDeadline: &run.Timing.Renew, RetryPeriod: &run.Timing.Retry,
		Controller: crconfig.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		return fmt.Errorf("making the manager: %w", err)
	}
	if err := indexClaims(context.Background(), run.manager.GetFieldIndexer()); err != nil {
		return fmt.Errorf("indexing releases: %w", err)
	}
	if err := errors.Join(run.manager.AddHealthzCheck("healthz", healthz.Ping), run.manager.AddReadyzCheck("readyz", healthz.Ping)); err != nil {
		return fmt.Errorf("adding the health checks: %w", err)
	}
	return run.watch(run.manager)
}

func (run *instance) watch(mgr manager.Manager) error {
	reconciler := &Reconciler{Cache: mgr.GetCache(), Walker: run.walker}
	options := controller.Options{MaxConcurrentReconciles: run.Concurrent}
	if run.RateLimiter != (fluxcontroller.RateLimiterOptions{}) {
		options.RateLimiter = fluxcontroller.GetRateLimiter(run.RateLimiter)
	}
	err := ctrl.NewControllerManagedBy(mgr).Named("flux-plunger").For(&helmv2.HelmRelease{}).WithOptions(options).Complete(reconciler)
	if err != nil {
		return fmt.Errorf("watching HelmReleases: %w", err)
	}
	return nil
}

// lock makes the lock with an identity that we know, because the drain and the
// end of the Lease ask whether it still names us.
func (run *instance) lock() (resourcelock.Interface, error) {
	if !run.LeaderElect {
		return nil, nil
	}
	clients, err := kubernetes.NewForConfig(run.Rest)
	if err != nil {
		return nil, fmt.Errorf("making the leader election's client: %w", err)
	}
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, run.LeaseNamespace, contract.LeaderElectionID,
		clients.CoreV1(), clients.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: run.Identity})
	if err != nil {
		return nil, fmt.Errorf("making the Lease's lock: %w", err)
	}
	return lock, nil
}
