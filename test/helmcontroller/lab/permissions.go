package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// System is the namespace of the flux-plunger with this strategy, and Account its
// ServiceAccount there, once Permit has made them.
func System(strategy string) string { return "flux-system-" + strategy }

// Account is explained at System.
func Account(strategy string) string { return "flux-plunger-" + strategy }

// Permit applies the strategy's shipped file from the folder of config/rbac, under
// names of its own, so that both strategies can stand side by side.
func (l *Lab) Permit(ctx context.Context, folder, strategy string) error {
	raw, err := os.ReadFile(filepath.Join(folder, "flux-plunger-"+strategy+".yaml"))
	if err != nil {
		return fmt.Errorf("permitting %s: %w", strategy, err)
	}
	own := strings.ReplaceAll(string(raw), "flux-system", System(strategy))
	own = strings.ReplaceAll(own, "name: flux-plunger\n", "name: "+Account(strategy)+"\n")
	return errors.Join(l.Namespace(ctx, System(strategy)), l.ControlPlane.ApplyYAML(ctx, []byte(own)))
}

// ConfigFor reaches the API server as a ServiceAccount.
func (l *Lab) ConfigFor(ctx context.Context, namespace, account string) (*rest.Config, error) {
	path, err := l.ControlPlane.KubeconfigFor(ctx, namespace, account)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of %s/%s: %w", namespace, account, err)
	}
	return config, nil
}
