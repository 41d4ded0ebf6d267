package helmcontroller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	fluxcontroller "github.com/fluxcd/pkg/runtime/controller"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// The real helm-controller's defaults, where a test can feel them.
const (
	defaultConcurrent = 4
	defaultQPS        = 50
	defaultBurst      = 300
)

// fieldManager is the real helm-controller's: managedFields of its writes are
// part of what Holdfast reads.
const fieldManager = "helm-controller"

// Options say how the stand-in runs.
type Options struct {
	// Config reaches the API server; it needs the rights of a cluster
	// administrator, as helm-controller has.
	Config *rest.Config
	// Concurrent is how many objects are looked at side by side (--concurrent),
	// 4 when 0.
	Concurrent int
	// Gap is held between the closing patches of a look, so that a test can put
	// something between them without a race. 0 leaves the network's own gap.
	Gap time.Duration
	// At is called at each Point, see Gate. It may be nil.
	At func(context.Context, Point, types.NamespacedName)
	// Log receives what the real one would log. The zero value is silent.
	Log logr.Logger
}

// Controller is a running stand-in.
type Controller struct {
	cancel context.CancelFunc
	dead   *atomic.Bool
	done   chan struct{}
	err    error
}

// Start runs the stand-in until ctx ends or Stop or Kill is called. It returns
// when the caches are filled, that is when every object that was there has been
// queued for its first look.
func Start(ctx context.Context, opts Options) (*Controller, error) {
	dead := &atomic.Bool{}
	mgr, err := newManager(opts, dead)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	c := &Controller{cancel: cancel, dead: dead, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.err = mgr.Start(ctx)
	}()
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		cancel()
		<-c.done
		return nil, fmt.Errorf("starting the stand-in: its caches never filled: %w", c.err)
	}
	return c, nil
}

// Stop ends the stand-in as SIGTERM ends the real one: looks in progress are
// cancelled, may still patch what they saw, and are waited for.
func (c *Controller) Stop() error {
	c.cancel()
	<-c.done
	return c.err
}

// Kill ends it as SIGKILL does: from this moment on no request of it reaches the
// API server. Requests that are on the wire may still be carried out.
func (c *Controller) Kill() {
	c.dead.Store(true)
	c.cancel()
	<-c.done
}

func newManager(opts Options, dead *atomic.Bool) (ctrl.Manager, error) {
	cfg := rest.CopyConfig(opts.Config)
	if cfg.QPS == 0 {
		cfg.QPS, cfg.Burst = defaultQPS, defaultBurst
	}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return mortal{next: next, dead: dead} })
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	anyName, grace := true, 5*time.Second
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:                  scheme,
		Logger:                  opts.Log,
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		GracefulShutdownTimeout: &grace,
		Controller:              config.Controller{SkipNameValidation: &anyName},
		// Secrets are read live, as the real one reads them; accounts too, where
		// the real one has a cache: a test that removes an account means it.
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ServiceAccount{}}}},
	})
	if err != nil {
		return nil, fmt.Errorf("building the stand-in's manager: %w", err)
	}
	clients, err := kubernetes.NewForConfigAndClient(cfg, mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("building the stand-in's discovery client: %w", err)
	}
	r := &reconciler{
		Client:    mgr.GetClient(),
		events:    mgr.GetEventRecorderFor(fieldManager), //nolint:staticcheck // the real one writes core/v1 Events
		config:    cfg,
		discovery: memory.NewMemCacheClient(clients.Discovery()),
		mapper:    mgr.GetRESTMapper(),
		at:        opts.At,
		gap:       opts.Gap,
	}
	if r.at == nil {
		r.at = func(context.Context, Point, types.NamespacedName) {}
	}
	concurrent := opts.Concurrent
	if concurrent == 0 {
		concurrent = defaultConcurrent
	}
	if err := r.setup(mgr, concurrent, fluxcontroller.GetDefaultRateLimiter()); err != nil {
		return nil, fmt.Errorf("wiring the stand-in: %w", err)
	}
	return mgr, nil
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	err := errors.Join(clientgoscheme.AddToScheme(scheme), helmv2.AddToScheme(scheme), sourcev1.AddToScheme(scheme))
	if err != nil {
		return nil, fmt.Errorf("registering the API types: %w", err)
	}
	return scheme, nil
}

// mortal lets no request out once its process is dead.
type mortal struct {
	next http.RoundTripper
	dead *atomic.Bool
}

func (m mortal) RoundTrip(r *http.Request) (*http.Response, error) {
	if m.dead.Load() {
		return nil, errors.New("this helm-controller was killed")
	}
	return m.next.RoundTrip(r)
}
