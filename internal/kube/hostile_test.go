package kube

import (
	"bufio"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// hostile is a TLS server whose connections are served by the test itself, byte
// by byte where it wants to. It counts the POSTs that it received completely, and
// those that were handed to its client's transport.
type hostile struct {
	posts    atomic.Int64
	begun    atomic.Int64
	listener net.Listener
	config   *rest.Config
	serve    func(*hostile, *tls.Conn)

	mu    sync.Mutex
	conns []net.Conn
	wait  sync.WaitGroup
}

func newHostile(t *testing.T, protocol string, serve func(*hostile, *tls.Conn)) *hostile {
	t.Helper()
	certified := httptest.NewUnstartedServer(nil)
	certified.StartTLS()
	certificates := certified.TLS.Certificates
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certified.Certificate().Raw})
	certified.Close()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certificates, NextProtos: []string{protocol}})
	if err != nil {
		t.Fatal(err)
	}
	h := &hostile{listener: listener, serve: serve, config: &rest.Config{
		Host:            "https://" + listener.Addr().String(),
		TLSClientConfig: rest.TLSClientConfig{CAData: authority},
		RateLimiter:     flowcontrol.NewFakeAlwaysRateLimiter(),
	}}
	h.config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPost {
				h.begun.Add(1)
			}
			return next.RoundTrip(r)
		})
	})
	h.wait.Go(h.accept)
	t.Cleanup(h.close)
	return h
}

func (h *hostile) accept() {
	for {
		conn, err := h.listener.Accept()
		if err != nil {
			return
		}
		h.mu.Lock()
		h.conns = append(h.conns, conn)
		h.mu.Unlock()
		h.wait.Go(func() {
			defer conn.Close()
			c := conn.(*tls.Conn)
			if c.Handshake() == nil {
				h.serve(h, c)
			}
		})
	}
}

func (h *hostile) close() {
	h.listener.Close()
	h.mu.Lock()
	for _, conn := range h.conns {
		conn.Close()
	}
	h.mu.Unlock()
	h.wait.Wait()
}

func (h *hostile) client(t *testing.T) *Client {
	t.Helper()
	c, err := newForConfig(h.config, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// reset ends a connection with RST instead of FIN.
func reset(c *tls.Conn) {
	if tcp, ok := c.NetConn().(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.NetConn().Close()
}

// http1 serves requests with answer until it returns false. A GET, which warms
// the connection up, is always answered properly.
func http1(answer func(h *hostile, c *tls.Conn, request *http.Request, reader *bufio.Reader) bool) func(*hostile, *tls.Conn) {
	return func(h *hostile, c *tls.Conn) {
		reader := bufio.NewReader(c)
		for {
			request, err := http.ReadRequest(reader)
			if err != nil {
				return
			}
			if request.Method == http.MethodGet {
				write(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
				continue
			}
			if !answer(h, c, request, reader) {
				return
			}
		}
	}
}

// whole reads the rest of a request and counts it.
func (h *hostile) whole(request *http.Request) bool {
	if _, err := io.Copy(io.Discard, request.Body); err != nil {
		return false
	}
	h.posts.Add(1)
	return true
}

func write(w io.Writer, text string) { _, _ = io.WriteString(w, text) }

// wireCase is one hostile behaviour and what a create may be taken for after it.
type wireCase struct {
	name     string
	protocol string
	serve    func(*hostile, *tls.Conn)
	want     []Outcome
	// wait is how long the create waits; generous unless the server stalls.
	wait time.Duration
}

// run sends one create, over a cold connection or one that a read left behind,
// and asserts A3.7: at most one complete POST, and never a wrong certainty.
func (w wireCase) run(t *testing.T, warm bool) {
	t.Helper()
	h := newHostile(t, w.protocol, w.serve)
	c := h.client(t)
	if warm {
		c.Observe(t.Context(), testJob())
	}
	wait := w.wait
	if wait == 0 {
		wait = 20 * time.Second
	}
	created := c.Create(t.Context(), CreateRequest{Place: testJob(), Body: make([]byte, 200_000), AuditID: NewAuditID(), Nonce: testNonce, Wait: wait})
	if n := h.posts.Load(); n > 1 {
		t.Errorf("%d complete POSTs", n)
	}
	if n := h.begun.Load(); n != 1 {
		t.Errorf("%d requests were begun", n)
	}
	for _, want := range w.want {
		if created.Outcome == want {
			return
		}
	}
	t.Errorf("%v (%v), want %v", created.Outcome, created.Err, w.want)
}

// runAll runs each case twice and says how many there were.
func runAll(t *testing.T, cases []wireCase, atLeast int) {
	t.Helper()
	if testing.Short() {
		t.Skip("it waits for silent servers")
	}
	for _, w := range cases {
		for _, warm := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/warm=%v", w.name, warm), func(t *testing.T) {
				t.Parallel()
				w.run(t, warm)
			})
		}
	}
	if n := 2 * len(cases); n < atLeast {
		t.Errorf("only %d cases", n)
	} else {
		t.Logf("%d cases", n)
	}
}
