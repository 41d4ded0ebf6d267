package kube

import (
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// guarded returns the configuration for clients that client-go brings along,
// with the rules of this package that they do not know: an answer without the
// request's Audit-ID is no answer, nor is one that is not final, and a write is
// sent once.
func guarded(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.WrapTransport = transport.Wrappers(func(next http.RoundTripper) http.RoundTripper { return guard{next} }, config.WrapTransport)
	return config
}

type guard struct{ next http.RoundTripper }

// RoundTrip turns a foreign answer into an error. client-go itself calls any
// 404 NotFound, a gateway's page too, which would read as "gone", and a 101 done.
// It also takes Retry-After from a write's answer: client-go would send the write
// again, and report the second one's conflict with the first.
func (g guard) RoundTrip(request *http.Request) (*http.Response, error) {
	id := NewAuditID()
	var connected atomic.Bool
	request = request.Clone(httptrace.WithClientTrace(request.Context(), traceTo(&connected)))
	request.Header.Set(auditHeader, id)
	if request.Body != nil && request.Body != http.NoBody {
		request.Body = &witness{ReadCloser: request.Body, read: &connected}
	}
	answer, err := g.next.RoundTrip(request)
	// Of a request that a redirect caused, an earlier one was sent.
	if err != nil && request.Method != http.MethodGet && request.Response == nil && !connected.Load() {
		return nil, &unsent{err}
	}
	if err != nil {
		return nil, err
	}
	if !echoes(answer.Header.Values(auditHeader), id) {
		_ = answer.Body.Close()
		return nil, errForeignAudit
	}
	if answer.StatusCode < http.StatusOK {
		_ = answer.Body.Close()
		return nil, errNotFinal
	}
	if strings.Contains(request.URL.Path, "/secrets") {
		// client-go logs a warning, and who gives it is shown the Secret.
		answer.Header.Del("Warning")
	}
	if request.Method != http.MethodGet {
		answer.Header.Del("Retry-After")
	}
	return answer, nil
}

// unsent is why a write was not sent: no connection was obtained for it.
type unsent struct{ cause error }

func (e *unsent) Error() string { return e.cause.Error() }

func (e *unsent) Unwrap() error { return e.cause }

// WrappedRoundTripper lets client-go reach the transport below.
func (g guard) WrappedRoundTripper() http.RoundTripper { return g.next }
