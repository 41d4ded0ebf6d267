package plunger

import (
	"errors"
	"fmt"
	"os"
	"time"

	fluxclient "github.com/fluxcd/pkg/runtime/client"
	fluxcontroller "github.com/fluxcd/pkg/runtime/controller"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/holdfast-project/holdfast/internal/kube"
	"github.com/holdfast-project/holdfast/internal/plunger"
	"github.com/holdfast-project/holdfast/internal/plunger/contract"
	"github.com/holdfast-project/holdfast/internal/plunger/hook"
)

// fencesFlags are those of release-fences. What the Deployment has too has the
// same name there, so that the chart gives both the same.
type fencesFlags struct {
	namespace, deployment, pods string
	allNamespaces               bool
	selector                    string
	grace                       int
	client                      fluxclient.Options
}

func (f *fencesFlags) bind(fs *pflag.FlagSet) {
	fs.StringVar(&f.namespace, "namespace", os.Getenv("RUNTIME_NAMESPACE"),
		"The namespace that flux-plunger runs in; by default RUNTIME_NAMESPACE.")
	fs.StringVar(&f.deployment, "deployment", contract.FieldManager, "The name of flux-plunger's Deployment.")
	fs.StringVar(&f.pods, "pod-selector", "", "Selects flux-plunger's Pods, and no others.")
	fs.BoolVar(&f.allNamespaces, "watch-all-namespaces", true, "Sweep all namespaces; if false, only flux-plunger's own.")
	fs.StringVar(&f.selector, "watch-label-selector", "", "Sweep HelmReleases with matching labels only, those that the Deployment watches.")
	fs.IntVar(&f.grace, "shutdown-grace-period-seconds", int(plunger.DefaultGrace/time.Second), "The termination grace period of flux-plunger's Pods in seconds.")
	f.client.BindFlags(fs)
}

func newReleaseFences() *cobra.Command {
	var f fencesFlags
	command := &cobra.Command{
		Use:   "release-fences",
		Short: "Stop flux-plunger and let every release go that still carries the fence; the chart runs it before it is uninstalled",
		Long: "Scales flux-plunger to zero, waits out its grace period, lifts suspensions that flux-plunger alone holds,\n" +
			"removes every fence and names each release that it lets go. It fails when flux-plunger could not be stopped\n" +
			"or a fence is left; keep the chart installed then. It may be run again, and by hand.",
		Args: noArguments, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := f.config()
			if err != nil {
				return usageError{err}
			}
			rest, err := plunger.Connect(f.client.QPS, f.client.Burst)
			if err != nil {
				return err
			}
			if config.Objects, err = kube.NewObjects(rest, contract.FieldManager); err != nil {
				return err
			}
			config.Report, config.Now = cmd.OutOrStdout(), time.Now
			return hook.Run(cmd.Context(), config)
		},
	}
	f.bind(command.Flags())
	return command
}

// config judges the flags. An empty Pod selector would select every Pod of the
// namespace, this one too, and wait for it.
func (f *fencesFlags) config() (hook.Config, error) {
	grace := time.Duration(f.grace) * time.Second
	watched, err := fluxcontroller.GetWatchSelector(fluxcontroller.WatchOptions{LabelSelector: f.selector})
	if err != nil {
		return hook.Config{}, fmt.Errorf("reading --watch-label-selector: %w", err)
	}
	pods, err := labels.Parse(f.pods)
	if err != nil {
		return hook.Config{}, fmt.Errorf("reading --pod-selector: %w", err)
	}
	timing := plunger.DefaultTiming()
	timing.Grace = grace
	switch {
	case f.namespace == "":
		return hook.Config{}, errors.New("reading --namespace: it is empty; give the namespace that flux-plunger runs in")
	case f.deployment == "":
		return hook.Config{}, errors.New("reading --deployment: it is empty; give the name of flux-plunger's Deployment")
	case pods.Empty():
		return hook.Config{}, errors.New("reading --pod-selector: it is empty; give the labels of flux-plunger's Pods")
	}
	config := hook.Config{Namespace: f.namespace, Deployment: f.deployment, Pods: pods.String(),
		WatchSelector: watched.String(), Timing: hook.NewTiming(grace)}
	if !f.allNamespaces {
		config.WatchNamespace = f.namespace
	}
	return config, timing.Complete().Check()
}
