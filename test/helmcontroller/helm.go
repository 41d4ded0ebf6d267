package helmcontroller

import (
	"context"
	"fmt"
	"net/http"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
)

// helmClient is one look's way to Helm: the target cluster, as the account that
// the release asks for.
type helmClient struct {
	getter  getter
	secrets kubernetes.Interface
}

// connect builds it. A missing kubeconfig Secret is returned as the API server's
// own "not found", because that alone makes a delete skip the uninstall (F3).
func (r *reconciler) connect(ctx context.Context, obj *helmv2.HelmRelease) (*helmClient, error) {
	g := getter{config: rest.CopyConfig(r.config), discovery: r.discovery, mapper: r.mapper, namespace: obj.GetReleaseNamespace()}
	if obj.Spec.KubeConfig != nil {
		config, err := r.remote(ctx, obj)
		if err != nil {
			return nil, err
		}
		disco, err := discovery.NewDiscoveryClientForConfig(config)
		if err != nil {
			return nil, fmt.Errorf("building the remote cluster's client: %w", err)
		}
		cached := memory.NewMemCacheClient(disco)
		g.config, g.discovery, g.mapper = config, cached, restmapper.NewDeferredDiscoveryRESTMapper(cached)
	}
	if account := obj.Spec.ServiceAccountName; account != "" {
		g.config.Impersonate = rest.ImpersonationConfig{UserName: fmt.Sprintf("system:serviceaccount:%s:%s", obj.Namespace, account)}
	}
	secrets, err := kubernetes.NewForConfig(g.config)
	if err != nil {
		return nil, fmt.Errorf("building the storage client: %w", err)
	}
	return &helmClient{getter: g, secrets: secrets}, nil
}

func (r *reconciler) remote(ctx context.Context, obj *helmv2.HelmRelease) (*rest.Config, error) {
	ref := obj.Spec.KubeConfig.SecretRef
	if ref == nil {
		return nil, fmt.Errorf("the stand-in knows no kubeConfig.configMapRef")
	}
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: obj.Namespace, Name: ref.Name}
	if err := r.Get(ctx, key, secret); err != nil {
		return nil, fmt.Errorf("could not get KubeConfig secret '%s': %w", key, err)
	}
	data := secret.Data[ref.Key]
	for _, usual := range []string{"value", "value.yaml"} {
		if ref.Key == "" && len(data) == 0 {
			data = secret.Data[usual]
		}
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		return nil, fmt.Errorf("KubeConfig secret '%s' does not hold a kubeconfig: %w", key, err)
	}
	if wrap := r.config.WrapTransport; wrap != nil { // a killed process reaches no cluster
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return wrap(next) })
	}
	return config, nil
}

// configure returns Helm's configuration with its Secrets storage in namespace,
// heard by heard.
func (h *helmClient) configure(namespace string, heard func(observation)) *action.Configuration {
	cfg := action.NewConfiguration()
	helm := kube.New(h.getter)
	helm.Namespace = h.getter.namespace
	cfg.RESTClientGetter = h.getter
	cfg.KubeClient = helm
	cfg.Releases = storage.Init(observer{Driver: driver.NewSecrets(h.secrets.CoreV1().Secrets(namespace)), heard: heard})
	cfg.Capabilities = common.DefaultCapabilities
	return cfg
}

func waitStrategy(disabled bool) kube.WaitStrategy {
	if disabled {
		return kube.HookOnlyStrategy
	}
	return kube.StatusWatcherStrategy
}

// getter gives Helm's client the connection of one release. Discovery is shared
// by all looks: the stand-in's charts bring no kinds of their own.
type getter struct {
	config    *rest.Config
	discovery discovery.CachedDiscoveryInterface
	mapper    meta.RESTMapper
	namespace string
}

// ToRESTConfig returns the connection.
func (g getter) ToRESTConfig() (*rest.Config, error) { return rest.CopyConfig(g.config), nil }

// ToDiscoveryClient returns the shared discovery.
func (g getter) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	return g.discovery, nil
}

// ToRESTMapper returns the shared mapper.
func (g getter) ToRESTMapper() (meta.RESTMapper, error) { return g.mapper, nil }

// ToRawKubeConfigLoader answers only what Helm asks of it: the namespace.
func (g getter) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	overrides := &clientcmd.ConfigOverrides{Context: clientcmdapi.Context{Namespace: g.namespace}}
	return clientcmd.NewDefaultClientConfig(*clientcmdapi.NewConfig(), overrides)
}
