package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// auditHeader is kept by the API server and echoed in every answer to the
// request, whatever became of it.
const auditHeader = "Audit-ID"

// wire is the innermost round tripper. It alone knows what reached the network:
// everything above it may retry, log in again or fail before a connection.
type wire struct{ next http.RoundTripper }

// exchangeKey finds the exchange of a request in its context.
type exchangeKey struct{}

// exchange is one call's traffic. client-go gets the response as usual; what is
// judged is the record made here, since no layer above can have replaced it.
type exchange struct {
	bodySize int64
	limit    int64
	fresh    bool

	connected atomic.Bool
	mu        sync.Mutex
	attempts  int
	response  *response
	// underWay is true while a request is in the transport below, idle is told
	// when it no longer is, and given up means that none begins any more.
	underWay, givenUp bool
	idle              chan struct{}
}

// response is one HTTP answer as it came off the wire.
type response struct {
	code   int
	header http.Header
	body   []byte
	err    error
}

var (
	errTooLarge = errors.New("the answer is larger than its bound")
	errNotFinal = errors.New("the answer is not a final one")
	errGivenUp  = errors.New("nobody waits for this request any more, so it is not sent")
)

// RoundTrip sends one request and reads its whole answer. The response it
// returns replays that record.
func (w *wire) RoundTrip(request *http.Request) (*http.Response, error) {
	x, ok := request.Context().Value(exchangeKey{}).(*exchange)
	if !ok {
		return nil, errors.New("sending a request: it was not made by this package")
	}
	if x.fresh {
		// A kept-alive connection may have been closed by the other side
		// already. Writing a create into it fails with nothing sent, and could
		// not be told from a create that was carried out.
		utilnet.CloseIdleConnectionsFor(w.next)
	}
	request = request.Clone(httptrace.WithClientTrace(request.Context(), traceTo(&x.connected)))
	if request.Body != nil {
		// Without a length the body is chunked, which some gateways refuse.
		// GetBody stays nil: nothing can replay it.
		request.ContentLength = x.bodySize
		request.Body = &witness{ReadCloser: request.Body, read: &x.connected}
	}
	if !x.begin() {
		return nil, errGivenUp
	}
	defer x.end()
	answer, err := w.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	body, err := readAnswer(answer, x.limit)
	x.finish(&response{code: answer.StatusCode, header: answer.Header.Clone(), body: body, err: err})
	answer.Body = io.NopCloser(bytes.NewReader(body))
	return answer, nil
}

// readAnswer reads a body up to limit bytes. A body that is cut off or too large
// comes with an error: what was read of it proves nothing.
func readAnswer(answer *http.Response, limit int64) ([]byte, error) {
	defer answer.Body.Close()
	if answer.StatusCode < http.StatusOK {
		return nil, errNotFinal
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, limit+1))
	if err != nil {
		return body, fmt.Errorf("reading the answer: %w", err)
	}
	if int64(len(body)) > limit {
		return nil, errTooLarge
	}
	return body, nil
}

// traceTo sets connected as soon as any part of the request could leave.
func traceTo(connected *atomic.Bool) *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn:          func(httptrace.GotConnInfo) { connected.Store(true) },
		WroteHeaderField: func(string, []string) { connected.Store(true) },
		WroteHeaders:     func() { connected.Store(true) },
		WroteRequest:     func(httptrace.WroteRequestInfo) { connected.Store(true) },
	}
}

// begin notes that a request goes to the transport, unless it was given up.
func (x *exchange) begin() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.givenUp {
		return false
	}
	x.attempts++
	x.response, x.underWay = nil, true
	return true
}

func (x *exchange) end() {
	x.mu.Lock()
	x.underWay = false
	x.mu.Unlock()
	select {
	case x.idle <- struct{}{}:
	default:
	}
}

// giveUp sees to it that nothing more is sent, and is false while a request is in
// the transport: that one ends with the context.
func (x *exchange) giveUp() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.givenUp = !x.underWay
	return x.givenUp
}

// await returns when do has, or when ctx ends. The transport below heeds ctx, and an
// exec plugin above it does not: one that waits for somebody at a browser would hold
// up a signal, and the bound of a create, for ever.
func (x *exchange) await(ctx context.Context, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	ended := ctx.Done()
	for {
		select {
		case err := <-done:
			return err
		case <-ended:
			ended = nil
		case <-x.idle:
		}
		if ended == nil && x.giveUp() {
			return fmt.Errorf("not answered in time: %w", context.Cause(ctx))
		}
	}
}

func (x *exchange) finish(r *response) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.response = r
}

// witness notes that the body was read. A transport reads it only to send it:
// should a trace hook ever be missed, this still denies "not sent".
type witness struct {
	io.ReadCloser
	read *atomic.Bool
}

func (w *witness) Read(p []byte) (int, error) {
	w.read.Store(true)
	return w.ReadCloser.Read(p)
}

func withExchange(ctx context.Context, x *exchange) context.Context {
	x.idle = make(chan struct{}, 1)
	return context.WithValue(ctx, exchangeKey{}, x)
}
