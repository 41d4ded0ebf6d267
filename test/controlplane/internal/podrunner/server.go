package podrunner

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// apiServerName is whose certificate the endpoint accepts.
const apiServerName = "kube-apiserver-kubelet-client"

// serveLogs serves the part of the kubelet's endpoint that `kubectl logs` needs. Only
// the API server is let in: it is where the user's rights were checked.
func (r *Runner) serveLogs(ctx context.Context) error {
	config, err := r.tlsConfig()
	if err != nil {
		return err
	}
	listener, err := tls.Listen("tcp", r.cfg.Address, config)
	if err != nil {
		return fmt.Errorf("serving logs on %s: %w", r.cfg.Address, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", r.containerLogs)
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving logs on %s: %w", r.cfg.Address, err)
	}
	return nil
}

func (r *Runner) tlsConfig() (*tls.Config, error) {
	certificate, err := tls.LoadX509KeyPair(r.cfg.Certificate, r.cfg.Key)
	if err != nil {
		return nil, fmt.Errorf("loading the node's certificate: %w", err)
	}
	ca, err := os.ReadFile(r.cfg.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("loading the CA of clients: %w", err)
	}
	clients := x509.NewCertPool()
	if !clients.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("loading the CA of clients: %s holds no certificate", r.cfg.ClientCA)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients,
		VerifyConnection: func(state tls.ConnectionState) error {
			if name := state.PeerCertificates[0].Subject.CommonName; name != apiServerName {
				return fmt.Errorf("client %s is not the API server", name)
			}
			return nil
		},
	}, nil
}

func (r *Runner) containerLogs(w http.ResponseWriter, request *http.Request) {
	options, err := logOptions(request)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	namespace, name, wanted := request.PathValue("namespace"), request.PathValue("pod"), request.PathValue("container")
	p := r.find(namespace, name)
	if p == nil {
		http.Error(w, fmt.Sprintf("pod %s/%s is not on this node", namespace, name), http.StatusNotFound)
		return
	}
	for _, c := range append(append([]*container(nil), p.init...), p.main...) {
		if c.spec.Name == wanted {
			c.sendLog(w, request, options)
			return
		}
	}
	http.Error(w, fmt.Sprintf("container %s not found in pod %s/%s", wanted, namespace, name), http.StatusNotFound)
}

func (c *container) sendLog(w http.ResponseWriter, request *http.Request, options *corev1.PodLogOptions) {
	log := c.log(options.Previous)
	if log == nil {
		c.explainMissingLog(w, options.Previous)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	controller := http.NewResponseController(w)
	// The header goes out before the first line: a follower wants to know at once.
	flush := func() { _ = controller.Flush() }
	flush()
	if err := log.send(request.Context(), w, options, flush); err != nil {
		logFailure("sending a log", c.pod.object, err)
	}
}

// explainMissingLog says what a kubelet says. A container without a program has an
// empty log once it started.
func (c *container) explainMissingLog(w http.ResponseWriter, previous bool) {
	var reason string
	var started bool
	c.mu(func() {
		started = c.everStarted()
		if c.state.Waiting != nil {
			reason = c.state.Waiting.Reason
		}
	})
	name := c.pod.object.Name
	switch {
	case previous:
		http.Error(w, fmt.Sprintf("previous terminated container %q in pod %q not found", c.spec.Name, name), http.StatusBadRequest)
	case !started:
		http.Error(w, fmt.Sprintf("container %q in pod %q is waiting to start: %s", c.spec.Name, name, reason), http.StatusBadRequest)
	}
}

// logOptions reads the query by which the API server passes PodLogOptions on.
func logOptions(request *http.Request) (*corev1.PodLogOptions, error) {
	query, options := request.URL.Query(), &corev1.PodLogOptions{}
	for name, to := range map[string]*bool{"follow": &options.Follow, "previous": &options.Previous, "timestamps": &options.Timestamps} {
		if text := query.Get(name); text != "" {
			value, err := strconv.ParseBool(text)
			if err != nil {
				return nil, fmt.Errorf("option %s: %w", name, err)
			}
			*to = value
		}
	}
	for name, to := range map[string]**int64{"tailLines": &options.TailLines, "limitBytes": &options.LimitBytes, "sinceSeconds": &options.SinceSeconds} {
		if text := query.Get(name); text != "" {
			value, err := strconv.ParseInt(text, 10, 64)
			if err != nil || value < 0 {
				return nil, fmt.Errorf("option %s: %q is not a number from zero up", name, text)
			}
			*to = &value
		}
	}
	if text := query.Get("sinceTime"); text != "" {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return nil, fmt.Errorf("option sinceTime: %w", err)
		}
		options.SinceTime = &metav1.Time{Time: at}
	}
	if text := query.Get("stream"); text != "" {
		options.Stream = &text
	}
	return options, nil
}
