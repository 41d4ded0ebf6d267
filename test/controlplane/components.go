package controlplane

import (
	"context"
	_ "embed" // the stages of kwok
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-project/holdfast/test/controlplane/internal/keeper"
	"github.com/holdfast-project/holdfast/test/controlplane/internal/nodeconfig"
)

// The components, by the names of their logs.
const (
	etcd              = "etcd"
	apiServer         = "kube-apiserver"
	controllerManager = "kube-controller-manager"
	scheduler         = "kube-scheduler"
	kwok              = "kwok"
	podRunner         = "podrunner"
)

// controllers are those that tests are about or that others need. Left out is what
// deals with volumes, clouds, routes and certificates: it would only add load.
const controllers = "namespace-controller,serviceaccount-controller,root-ca-certificate-publisher-controller," +
	"garbage-collector-controller,job-controller,cronjob-controller,ttl-after-finished-controller,pod-garbage-collector-controller," +
	"deployment-controller,replicaset-controller,replicationcontroller-controller,statefulset-controller,daemonset-controller," +
	"disruption-controller,endpoints-controller,endpointslice-controller,node-lifecycle-controller,taint-eviction-controller," +
	"resourcequota-controller,horizontal-pod-autoscaler-controller"

// kwokStages is written to the state directory: kwok reads a file.
//
//go:embed kwok-stages.yaml
var kwokStages []byte

// part is one component: how to start it, and the process while it runs.
type part struct {
	spec    keeper.Spec
	port    int
	process *keeper.Process
}

// plan chooses the ports and composes all command lines.
func (cp *ControlPlane) plan() (map[string]part, error) {
	var taken []int
	for range 6 {
		port, err := cp.ports.take()
		if err != nil {
			return nil, err
		}
		taken = append(taken, port)
	}
	etcdURL, peerURL := "http://"+loopback(taken[0]), "http://"+loopback(taken[1])
	cp.server = "https://" + loopback(taken[2])
	parts := map[string]part{
		etcd:              cp.part(cp.bins.Servers, etcd, taken[0], "-data-dir", cp.path("etcd"), "-client-url", etcdURL, "-peer-url", peerURL),
		apiServer:         cp.part(cp.bins.Servers, apiServer, taken[2], cp.apiServerArgs(etcdURL, taken[2])...),
		controllerManager: cp.part(cp.bins.Servers, controllerManager, taken[3], cp.controllerManagerArgs(taken[3])...),
		scheduler:         cp.part(cp.bins.Servers, scheduler, taken[4], cp.clientArgs(scheduler, taken[4])...),
		kwok: cp.part(cp.bins.Servers, kwok, 0, "--kubeconfig="+cp.kubeconfigPath(kwok), "--config="+cp.path("kwok-stages.yaml"),
			"--manage-nodes-with-label-selector="+KwokNodeLabel+"="+KwokNodeValue, "--server-address="),
		podRunner: cp.part(cp.bins.Helpers, podRunner, 0, "-config", cp.path("podrunner.json")),
	}
	// The runner is asked first, because it knows the groups of its programs. Only on
	// Linux would the keeper find them without it.
	runner := parts[podRunner]
	runner.spec.Grace = 2 * time.Second
	parts[podRunner] = runner
	return parts, nodeconfig.Write(cp.path("podrunner.json"), nodeconfig.Config{
		Kubeconfig: cp.kubeconfigPath(podRunner), Server: cp.server, CA: cp.ca.file("ca.crt"),
		Address: loopback(taken[5]), Certificate: cp.ca.file("server.crt"), Key: cp.ca.file("server.key"),
		ClientCA: cp.ca.file("ca.crt"), Dir: cp.path("pods"), Images: cp.path("images.json"),
	})
}

func (cp *ControlPlane) part(dir, name string, port int, args ...string) part {
	return part{port: port, spec: keeper.Spec{
		Name: name, Path: filepath.Join(dir, name), Args: args, Env: cp.environment(), Dir: cp.dir, Log: cp.path("log", name+".log"),
	}}
}

// environment is what components inherit: nothing by which a developer's shell or
// home directory could change what is tested (proxies, KUBECONFIG, GODEBUG, ~/.kwok).
// GOCOVERDIR collects the coverage of programs that run as Pods.
func (cp *ControlPlane) environment() []string {
	env := []string{"HOME=" + cp.dir}
	for _, name := range []string{"PATH", "TMPDIR", "GOCOVERDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

func (cp *ControlPlane) apiServerArgs(etcdURL string, port int) []string {
	return append([]string{
		"--etcd-servers=" + etcdURL,
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port),
		"--tls-cert-file=" + cp.ca.file("server.crt"), "--tls-private-key-file=" + cp.ca.file("server.key"),
		"--cert-dir=" + cp.path("pki"),
		"--client-ca-file=" + cp.ca.file("ca.crt"), "--token-auth-file=" + cp.path("tokens.csv"),
		"--authorization-mode=RBAC", "--anonymous-auth=false", "--allow-privileged=true",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + cp.ca.file("sa.crt"), "--service-account-signing-key-file=" + cp.ca.file("sa.key"),
		"--service-cluster-ip-range=10.0.0.0/16",
		"--kubelet-certificate-authority=" + cp.ca.file("ca.crt"),
		"--kubelet-client-certificate=" + cp.ca.file("kubelet-client.crt"), "--kubelet-client-key=" + cp.ca.file("kubelet-client.key"),
		"--kubelet-preferred-address-types=InternalIP",
		// Nobody reaches the kubernetes Service, so its endpoints are not kept.
		"--endpoint-reconciler-type=none",
		// Blocking, so that a request that has been answered is in the log.
		"--audit-policy-file=" + cp.path("audit-policy.yaml"), "--audit-log-path=" + cp.auditLog(), "--audit-log-mode=blocking",
		"--profiling=false",
	}, cp.opts.APIServerFlags...)
}

// clientArgs are what the controller-manager and the scheduler have in common.
func (cp *ControlPlane) clientArgs(name string, port int) []string {
	kubeconfig := cp.kubeconfigPath(name)
	return []string{
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port),
		"--tls-cert-file=" + cp.ca.file("server.crt"), "--tls-private-key-file=" + cp.ca.file("server.key"),
		"--leader-elect=false", "--profiling=false",
		// The defaults throttle what a test does in a burst.
		"--kube-api-qps=500", "--kube-api-burst=1000",
	}
}

func (cp *ControlPlane) controllerManagerArgs(port int) []string {
	args := append(cp.clientArgs(controllerManager, port),
		"--controllers="+controllers,
		"--service-account-private-key-file="+cp.ca.file("sa.key"), "--root-ca-file="+cp.ca.file("ca.crt"),
		"--use-service-account-credentials=false",
	)
	return append(args, cp.opts.ControllerManagerFlags...)
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// run starts a component unless it runs.
func (cp *ControlPlane) run(name string) error {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	p := cp.parts[name]
	if p.process != nil && !closed(p.process.Exited()) {
		return nil
	}
	process, err := cp.keeper.Start(p.spec)
	if err != nil {
		return err
	}
	p.process = process
	cp.parts[name] = p
	return nil
}

// end ends a component and returns when its process is gone.
func (cp *ControlPlane) end(name string, grace time.Duration) error {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	p := cp.parts[name]
	if p.process == nil || closed(p.process.Exited()) {
		return nil
	}
	if err := cp.keeper.Stop(name, grace); err != nil {
		return fmt.Errorf("stopping %s: %w", name, err)
	}
	<-p.process.Exited()
	return nil
}

func (cp *ControlPlane) port(name string) int {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	return cp.parts[name].port
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// alive returns an error with the end of the log when a component has ended.
func (cp *ControlPlane) alive(name string) error {
	cp.mu.Lock()
	p := cp.parts[name]
	cp.mu.Unlock()
	if p.process == nil || !closed(p.process.Exited()) {
		return nil
	}
	return fmt.Errorf("%s ended (%s); its log %s ends with:\n%s", name, p.process.State(), p.spec.Log, tail(p.spec.Log, 20))
}

func tail(path string, lines int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// poll calls condition at once and then in intervals, until it is true or fails or
// ctx ends.
func poll(ctx context.Context, interval time.Duration, condition func() (bool, error)) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		if done, err := condition(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}
