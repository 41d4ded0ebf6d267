package controlplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-project/holdfast/test/controlplane/internal/nodeconfig"
)

// pollInterval is short: what is waited for takes tenths of a second. kindTimeout is
// how long a kind may take to be served.
const (
	pollInterval = 25 * time.Millisecond
	kindTimeout  = 20 * time.Second
)

// StartAPIServer starts the API server again, at the same address, and returns when
// it is ready. When it runs already, it only waits.
func (cp *ControlPlane) StartAPIServer(ctx context.Context) error {
	if err := cp.run(apiServer); err != nil {
		return err
	}
	return cp.await(ctx, apiServer)
}

// StopAPIServer kills the API server without any grace, as a crash does. Requests
// in flight may have been carried out or not.
func (cp *ControlPlane) StopAPIServer() error { return cp.end(apiServer, 0) }

// StartControllerManager starts the controller-manager and returns when it works.
func (cp *ControlPlane) StartControllerManager(ctx context.Context) error {
	if err := cp.run(controllerManager); err != nil {
		return err
	}
	return cp.await(ctx, controllerManager)
}

// StopControllerManager ends the controller-manager: from its return on, no Job gets
// a Pod and nothing is garbage collected.
func (cp *ControlPlane) StopControllerManager() error {
	return cp.end(controllerManager, 5*time.Second)
}

// RestartControllerManager ends the controller-manager and starts it again.
func (cp *ControlPlane) RestartControllerManager(ctx context.Context) error {
	if err := cp.StopControllerManager(); err != nil {
		return err
	}
	return cp.StartControllerManager(ctx)
}

// StopPodRunner ends the Pod runner and all programs, without a word to the API
// server: to it, the node has fallen silent.
func (cp *ControlPlane) StopPodRunner() error { return cp.end(podRunner, 2*time.Second) }

// StartPodRunner starts the Pod runner again. Pods that are not finished start anew.
func (cp *ControlPlane) StartPodRunner(ctx context.Context) error {
	if err := cp.run(podRunner); err != nil {
		return err
	}
	return cp.await(ctx, podRunner)
}

// await waits until a component works, and gives up when its process ends.
func (cp *ControlPlane) await(ctx context.Context, name string) error {
	ready := map[string]func(context.Context) error{
		apiServer:         cp.apiServerReady,
		controllerManager: cp.controllerManagerReady,
		scheduler:         cp.schedulerReady,
		podRunner:         func(ctx context.Context) error { return cp.nodeReady(ctx, nodeconfig.NodeName) },
		kwok:              cp.kwokReady,
	}[name]
	var last error
	err := poll(ctx, pollInterval, func() (bool, error) {
		if err := cp.alive(etcd); err != nil {
			return false, err
		}
		if err := cp.alive(name); err != nil {
			return false, err
		}
		last = ready(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", name, errors.Join(err, last))
	}
	return nil
}

func (cp *ControlPlane) apiServerReady(ctx context.Context) error {
	return cp.client.CoreV1().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}

// controllerManagerReady asks for what users of a fresh cluster wait for: the
// default ServiceAccount and the CA in every namespace. In a cluster that has these
// already, the answer is only that the process serves.
func (cp *ControlPlane) controllerManagerReady(ctx context.Context) error {
	if err := cp.healthy(ctx, controllerManager); err != nil {
		return err
	}
	_, err := cp.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
	if err != nil {
		return err
	}
	_, err = cp.client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
	return err
}

func (cp *ControlPlane) schedulerReady(ctx context.Context) error { return cp.healthy(ctx, scheduler) }

func (cp *ControlPlane) healthy(ctx context.Context, name string) error {
	roots := x509.NewCertPool()
	roots.AddCert(cp.ca.cert)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+loopback(cp.port(name))+"/healthz", nil)
	if err != nil {
		return fmt.Errorf("asking %s for its health: %w", name, err)
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return fmt.Errorf("asking %s for its health: %w", name, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("asking %s for its health: %s", name, response.Status)
	}
	return nil
}

func (cp *ControlPlane) nodeReady(ctx context.Context, name string) error {
	node, err := cp.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("node %s is not ready", name)
}

// kwokReady makes kwok's nodes, which it takes over by their label.
func (cp *ControlPlane) kwokReady(ctx context.Context) error {
	for i := range cp.opts.KwokNodes {
		name := fmt.Sprintf("kwok-%d", i)
		err := cp.CreateNode(ctx, name, map[string]string{KwokNodeLabel: KwokNodeValue},
			corev1.Taint{Key: KwokNodeLabel, Value: KwokNodeValue, Effect: corev1.TaintEffectNoSchedule})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		if err := cp.nodeReady(ctx, name); err != nil {
			return err
		}
	}
	return nil
}
