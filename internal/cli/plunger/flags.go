package plunger

import (
	"errors"
	"fmt"
	"os"
	"time"

	fluxclient "github.com/fluxcd/pkg/runtime/client"
	fluxcontroller "github.com/fluxcd/pkg/runtime/controller"
	"github.com/fluxcd/pkg/runtime/logger"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/holdfast-project/holdfast/internal/plunger"
	"github.com/holdfast-project/holdfast/internal/plunger/decide"
)

// flags are the controller's, named as in Flux's own controllers (B8.1). Two of
// Flux's are missing on purpose: leader-election-release-on-cancel, because the
// Lease is given up after the drain or not at all (B6.6), and
// watch-configs-label-selector, because no Secret is watched.
type flags struct {
	strategy, fenceUntil, unproven      string
	crossNamespace, uninstalled, dryRun bool
	grace                               int
	leaderElect                         bool
	lease, renew, retry                 time.Duration
	concurrent                          int
	metricsAddress, healthAddress       string
	allNamespaces                       bool
	selector                            string
	log                                 logger.Options
	client                              fluxclient.Options
	rate                                fluxcontroller.RateLimiterOptions
}

// bindPolicy binds what changes a decision; explain takes the same.
func (f *flags) bindPolicy(fs *pflag.FlagSet) {
	fs.StringVar(&f.strategy, "strategy", string(decide.Repair),
		"How a stuck release is recovered: 'repair' rewrites the status of its latest revision, which needs a role that may update Secrets; "+
			"'reclaim' suspends it and deletes that revision's Secret, which needs one that may delete them.")
	fs.StringVar(&f.fenceUntil, "fence-until", string(decide.UntilRemembered),
		"When the fence of a live release goes: 'remembered', once helm-controller has a history again, or 'lifted', with the suspension (reclaim only).")
	fs.StringVar(&f.unproven, "unproven-uninstall", string(decide.ReleaseUnproven),
		"What becomes of the fence where an uninstall cannot be proven: 'release' drops it with a warning, 'hold' keeps it.")
	fs.BoolVar(&f.crossNamespace, "allow-cross-namespace-storage", false,
		"Act on releases whose Helm storage is in another namespace than the HelmRelease.")
	fs.BoolVar(&f.uninstalled, "recover-uninstalled", false,
		"Let repair rewrite a latest revision that is 'uninstalled'.")
}

// options are the policy as it was given.
func (f *flags) options() decide.Options {
	return decide.Options{Strategy: decide.Strategy(f.strategy), FenceUntil: decide.FenceUntil(f.fenceUntil),
		UnprovenUninstall: decide.UnprovenPolicy(f.unproven), AllowCrossNamespaceStorage: f.crossNamespace, RecoverUninstalled: f.uninstalled}
}

func (f *flags) bind(fs *pflag.FlagSet) {
	f.bindPolicy(fs)
	fs.BoolVar(&f.dryRun, "dry-run", false, "Decide and report, and write nothing but events, and with --leader-elect the Lease.")

	timing := plunger.DefaultTiming()
	fs.IntVar(&f.grace, "shutdown-grace-period-seconds", int(timing.Grace/time.Second),
		"The Pod's termination grace period in seconds, 40 to 140: up to 10 for the manager's stop, 15 kept before the kill, the rest for the drain.")
	fs.BoolVar(&f.leaderElect, "enable-leader-election", false,
		"Take a Lease before acting, so that there is one writer.")
	fs.BoolVar(&f.leaderElect, "leader-elect", false, "The same as --enable-leader-election.")
	fs.DurationVar(&f.lease, "leader-election-lease-duration", timing.Lease,
		"How long the Lease is valid after its last renewal; 0 for the shortest that outlasts a stop and a drain, with a margin.")
	fs.DurationVar(&f.renew, "leader-election-renew-deadline", timing.Renew,
		"How long the leader tries to renew the Lease before it gives up.")
	fs.DurationVar(&f.retry, "leader-election-retry-period", timing.Retry,
		"How long to wait between tries to take or renew the Lease.")

	fs.IntVar(&f.concurrent, "concurrent", 4, "How many releases it works on at the same time.")
	fs.StringVar(&f.metricsAddress, "metrics-addr", ":8080", "The address the metric endpoint binds to; 0 for none.")
	fs.StringVar(&f.healthAddress, "health-addr", ":9440", "The address the health endpoint binds to; 0 for none.")
	fs.BoolVar(&f.allNamespaces, "watch-all-namespaces", true,
		"Watch all namespaces; if false, only the one in RUNTIME_NAMESPACE.")
	fs.StringVar(&f.selector, "watch-label-selector", "",
		"Watch HelmReleases with matching labels only, e.g. 'sharding.fluxcd.io/key=shard1'.")
	f.log.BindFlags(fs)
	f.client.BindFlags(fs)
	f.rate.BindFlags(fs)
}

// config judges the flags. Each refusal is one sentence that says what to give.
func (f *flags) config() (plunger.Config, error) {
	selector, err := fluxcontroller.GetWatchSelector(fluxcontroller.WatchOptions{LabelSelector: f.selector})
	if err != nil {
		return plunger.Config{}, fmt.Errorf("reading --watch-label-selector: %w", err)
	}
	namespace := os.Getenv("RUNTIME_NAMESPACE")
	config := plunger.Config{
		Options: f.options(),
		Timing:  plunger.Timing{Grace: time.Duration(f.grace) * time.Second, Lease: f.lease, Renew: f.renew, Retry: f.retry}.Complete(),
		DryRun:  f.dryRun, Identity: identity(), LeaderElect: f.leaderElect, LeaseNamespace: namespace,
		Selector: selector, Concurrent: f.concurrent, RateLimiter: f.rate,
		MetricsAddress: f.metricsAddress, HealthAddress: f.healthAddress,
	}
	if !f.allNamespaces {
		config.Namespace = namespace
	}
	return config, errors.Join(f.check(config, namespace), config.Timing.Check())
}

func (f *flags) check(config plunger.Config, namespace string) error {
	options := config.Options
	if err := f.checkPolicy(options); err != nil {
		return err
	}
	switch {
	case f.concurrent < 1:
		return fmt.Errorf("reading --concurrent: %d is less than 1", f.concurrent)
	case namespace == "" && (f.leaderElect || !f.allNamespaces):
		return errors.New("reading RUNTIME_NAMESPACE: it is empty, and the Lease and the watch of one namespace need it; set it to the Pod's namespace")
	default:
		return nil
	}
}

// checkPolicy refuses words that nothing knows, and pairs of which one would
// silently do nothing.
func (f *flags) checkPolicy(options decide.Options) error {
	switch {
	case options.Strategy != decide.Repair && options.Strategy != decide.Reclaim:
		return fmt.Errorf("reading --strategy: %q is neither repair nor reclaim", f.strategy)
	case options.FenceUntil != decide.UntilRemembered && options.FenceUntil != decide.UntilLifted:
		return fmt.Errorf("reading --fence-until: %q is neither remembered nor lifted", f.fenceUntil)
	case options.FenceUntil == decide.UntilLifted && options.Strategy == decide.Repair:
		return errors.New("reading --fence-until: repair lifts nothing, so only remembered goes with it (B3.4)")
	case options.UnprovenUninstall != decide.ReleaseUnproven && options.UnprovenUninstall != decide.HoldUnproven:
		return fmt.Errorf("reading --unproven-uninstall: %q is neither release nor hold", f.unproven)
	case options.RecoverUninstalled && options.Strategy == decide.Reclaim:
		return errors.New("reading --recover-uninstalled: it is repair that rewrites; give --strategy=repair")
	default:
		return nil
	}
}

// identity names this process: the Pod's name for people, and something that no
// other process has, because the Lease decides by it.
func identity() string {
	host, err := os.Hostname()
	if err != nil {
		host = "flux-plunger"
	}
	return host + "_" + string(uuid.NewUUID())
}
