// Package apiproxy stands between a client under test and a real API server
// and does to chosen requests what networks, load balancers and dying processes
// do: delay them, carry them out and lose the answer, answer in the server's
// place, or stop the world between the two.
//
// Its invariant: whatever is not touched by a hook passes unchanged, credentials
// and watches included, so that everything a test observes about the API is the
// real server's own behaviour. It must not import any package of the preflight or of
// flux-plunger.
package apiproxy

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Exchange is one request and, once there is one, the server's answer.
type Exchange struct {
	Method  string
	Path    string
	Query   url.Values
	Header  http.Header
	Body    []byte
	Started time.Time

	// Code and Answer are set for After; a watch or a followed log has neither.
	Code   int
	Answer []byte
}

// DryRun reports whether the request asks the server to store nothing.
func (e Exchange) DryRun() bool { return e.Query.Get("dryRun") == "All" }

// Streams reports whether the answer never ends by itself.
func (e Exchange) Streams() bool {
	return e.Query.Get("watch") == "true" || e.Query.Get("watch") == "1" || e.Query.Get("follow") == "true"
}

// Action is what a hook wants done with a request. The zero value passes it on.
type Action struct {
	// Drop cuts the connection without an answer.
	Drop bool
	// Reply, when not 0, is sent in the server's place with Body.
	Reply       int
	Body        string
	ContentType string
	Header      http.Header
}

// Hooks are called for each request, possibly side by side. A nil hook passes.
type Hooks struct {
	// Before is called before the server sees the request.
	Before func(Exchange) Action
	// After is called when the server has answered and the client has not
	// heard of it.
	After func(Exchange) Action
}

// Proxy is a running proxy on a free loopback port. It speaks TLS with a
// certificate of its own, so that clients which refuse anything less are not
// given a special case.
type Proxy struct {
	server   *httptest.Server
	upstream *url.URL
	client   http.RoundTripper

	mu    sync.Mutex
	hooks Hooks
	delay time.Duration
	log   []Exchange
}

// Start begins to serve in front of the API server of config. The credentials
// of config are not used: a client brings its own.
func Start(config *rest.Config) (*Proxy, error) {
	upstream, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("parsing the API server's address %q: %w", config.Host, err)
	}
	anonymous := rest.AnonymousClientConfig(config)
	transport, err := rest.TransportFor(anonymous)
	if err != nil {
		return nil, fmt.Errorf("building the transport to %s: %w", config.Host, err)
	}
	p := &Proxy{upstream: upstream, client: transport}
	p.server = httptest.NewUnstartedServer(http.HandlerFunc(p.serve))
	p.server.EnableHTTP2 = true
	p.server.StartTLS()
	return p, nil
}

// Close ends the proxy and every open connection.
func (p *Proxy) Close() {
	p.server.CloseClientConnections()
	p.server.Close()
}

// URL is where the proxy listens.
func (p *Proxy) URL() string { return p.server.URL }

// Hook replaces the hooks for requests that arrive from now on.
func (p *Proxy) Hook(hooks Hooks) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hooks = hooks
}

// Delay holds every request and every answer for d, each way.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Requests returns what has passed so far, in order of arrival.
func (p *Proxy) Requests() []Exchange {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Exchange(nil), p.log...)
}

// Forget empties the record of what has passed.
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = nil
}

// Config returns a copy of config that goes through the proxy with the same
// credentials.
func (p *Proxy) Config(config *rest.Config) *rest.Config {
	through := rest.CopyConfig(config)
	through.Host = p.server.URL
	through.TLSClientConfig.CAData, through.TLSClientConfig.CAFile = p.CA(), ""
	return through
}

// CA is the certificate, in PEM, that a client must trust.
func (p *Proxy) CA() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw})
}

// Kubeconfig returns the kubeconfig at path, changed only in that every cluster
// is reached through the proxy.
func (p *Proxy) Kubeconfig(path string) ([]byte, error) {
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig %s: %w", path, err)
	}
	for name := range config.Clusters {
		config.Clusters[name] = &clientcmdapi.Cluster{Server: p.server.URL, CertificateAuthorityData: p.CA()}
	}
	data, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("writing kubeconfig %s through the proxy: %w", path, err)
	}
	return data, nil
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the client is gone: there is nobody to answer
	}
	x := Exchange{Method: r.Method, Path: r.URL.Path, Query: r.URL.Query(), Header: r.Header.Clone(), Body: body, Started: time.Now()}
	hooks, delay := p.arrive(x)
	wait(r, delay)
	if hooks.Before != nil && act(w, hooks.Before(x)) {
		return
	}
	answer := p.forward(r, body)
	defer answer.Body.Close() // the answer has been read or the client is gone
	if x.Streams() {
		stream(w, answer, delay)
		return
	}
	x.Code = answer.StatusCode
	if x.Answer, err = io.ReadAll(answer.Body); err != nil {
		panic(http.ErrAbortHandler)
	}
	if hooks.After != nil && act(w, hooks.After(x)) {
		return
	}
	wait(r, delay)
	copyHeader(w.Header(), answer.Header)
	w.WriteHeader(answer.StatusCode)
	_, _ = w.Write(x.Answer)
}

func (p *Proxy) arrive(x Exchange) (Hooks, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = append(p.log, x)
	return p.hooks, p.delay
}

// forward carries the request out. It does not follow the client's end: a
// request that has left cannot be called back, and that is the very thing to be
// tested.
func (p *Proxy) forward(r *http.Request, body []byte) *http.Response {
	ctx := r.Context()
	if r.Method != http.MethodGet {
		ctx = context.WithoutCancel(ctx)
	}
	out, err := http.NewRequestWithContext(ctx, r.Method, p.upstream.JoinPath(r.URL.Path).String(), bytes.NewReader(body))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	out.URL.RawQuery = r.URL.RawQuery
	out.Header = r.Header.Clone()
	answer, err := p.client.RoundTrip(out)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return answer
}

func act(w http.ResponseWriter, a Action) bool {
	switch {
	case a.Drop:
		panic(http.ErrAbortHandler)
	case a.Reply != 0:
		copyHeader(w.Header(), a.Header)
		if a.ContentType != "" {
			w.Header().Set("Content-Type", a.ContentType)
		}
		w.WriteHeader(a.Reply)
		_, _ = io.WriteString(w, a.Body)
		return true
	}
	return false
}

func stream(w http.ResponseWriter, answer *http.Response, delay time.Duration) {
	copyHeader(w.Header(), answer.Header)
	w.WriteHeader(answer.StatusCode)
	flush := http.NewResponseController(w)
	_ = flush.Flush()
	for buffer := make([]byte, 64<<10); ; {
		n, err := answer.Body.Read(buffer)
		if n > 0 {
			time.Sleep(delay)
			if _, failed := w.Write(buffer[:n]); failed != nil {
				return
			}
			_ = flush.Flush()
		}
		if err != nil {
			return
		}
	}
}

func wait(r *http.Request, d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-r.Context().Done():
	}
}

func copyHeader(to, from http.Header) {
	for name, values := range from {
		if !strings.EqualFold(name, "Content-Length") {
			to[name] = values
		}
	}
}
