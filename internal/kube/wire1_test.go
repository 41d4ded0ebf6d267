package kube

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// cases1 are the ways in which an HTTP/1.1 server or a gateway can let a create
// down.
func cases1() []wireCase {
	var cases []wireCase
	add := func(name string, want []Outcome, serve func(*hostile, *tls.Conn)) {
		cases = append(cases, wireCase{name: name, protocol: "http/1.1", serve: serve, want: want})
	}
	unknown := []Outcome{Unknown}
	for name, end := range map[string]func(*tls.Conn){"close": func(c *tls.Conn) { c.Close() }, "reset": reset} {
		add(name+" at once", unknown, func(_ *hostile, c *tls.Conn) {
			// The connection is accepted, so the request may have been sent.
			end(c)
		})
		add(name+" after the headers", unknown, http1(func(_ *hostile, c *tls.Conn, _ *http.Request, _ *bufio.Reader) bool {
			end(c)
			return false
		}))
		add(name+" in the body", unknown, http1(func(_ *hostile, c *tls.Conn, r *http.Request, _ *bufio.Reader) bool {
			_, _ = io.CopyN(io.Discard, r.Body, 1000)
			end(c)
			return false
		}))
		for _, part := range []string{"", "HTTP/1.1 201 Cre", "HTTP/1.1 201 Created\r\nContent-Le", "HTTP/1.1 201 Created\r\nContent-Length: 500\r\n\r\n{\"kind\":",
			"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"ki", "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"} {
			add(fmt.Sprintf("%s after %q", name, part), unknown, http1(func(h *hostile, c *tls.Conn, r *http.Request, _ *bufio.Reader) bool {
				h.whole(r)
				write(c, part)
				end(c)
				return false
			}))
		}
	}
	for _, code := range []int{301, 302, 303, 307, 308} {
		for _, location := range []string{"/apis/batch/v1/namespaces/ns/jobs", "/elsewhere", ""} {
			add(fmt.Sprintf("%d to %q", code, location), unknown, respond(code, "Location: "+location+"\r\n", true))
		}
	}
	for code := 400; code < 600; code++ {
		want := unknown
		if code == http.StatusTooManyRequests {
			want = []Outcome{Rejected}
		}
		add(fmt.Sprintf("Retry-After on %d", code), want, respond(code, "Retry-After: 0\r\n", true))
	}
	add("101", unknown, respond(101, "Connection: Upgrade\r\nUpgrade: x\r\n", false))
	add("garbage", unknown, http1(func(h *hostile, c *tls.Conn, r *http.Request, _ *bufio.Reader) bool {
		h.whole(r)
		write(c, "SSH-2.0-OpenSSH\r\n\r\n")
		return false
	}))
	add("two answers", unknown, http1(func(h *hostile, c *tls.Conn, r *http.Request, _ *bufio.Reader) bool {
		h.whole(r)
		write(c, "HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\nHTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n")
		return true
	}))
	for _, read := range []bool{false, true} {
		stall := wireCase{name: fmt.Sprintf("stall, body read=%v", read), protocol: "http/1.1", want: unknown, wait: stallWait}
		stall.serve = http1(func(h *hostile, c *tls.Conn, r *http.Request, reader *bufio.Reader) bool {
			if read {
				h.whole(r)
			}
			_, _ = io.Copy(io.Discard, reader) // until the other side gives up
			return false
		})
		cases = append(cases, stall)
	}
	return cases
}

// stallWait is how long a create waits for a server that never answers: long enough
// for the handshake on slow cores, since a request that never left is another case.
const stallWait = 2 * time.Second

// respond answers each create with a code, echoing its Audit-ID.
func respond(code int, headers string, body bool) func(*hostile, *tls.Conn) {
	return http1(func(h *hostile, c *tls.Conn, r *http.Request, _ *bufio.Reader) bool {
		h.whole(r)
		length := ""
		if body {
			length = "Content-Length: 2\r\n"
		}
		write(c, fmt.Sprintf("HTTP/1.1 %d X\r\nAudit-ID: %s\r\n%s%s\r\n{}", code, r.Header.Get(auditHeader), headers, length))
		return body
	})
}

// A3.7: one create is at most one complete POST, whatever an HTTP/1.1 server
// does, and what is not known stays unknown.
func TestA3_7_OnePostHTTP1(t *testing.T) { runAll(t, cases1(), 400) }

// Control: client-go as it is used everywhere sends the same create again, so
// the servers above do invite a repetition.
func TestControlStockClientRepeats(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits between the repetitions")
	}
	for protocol, cases := range map[string][]wireCase{"HTTP/1.1": cases1(), "HTTP/2": cases2()} {
		repeated := 0
		for _, w := range cases {
			if !strings.HasPrefix(w.name, "Retry-After") {
				continue // some of these are repeated too, after long waits
			}
			h := newHostile(t, w.protocol, w.serve)
			config := rest.CopyConfig(h.config)
			config.NegotiatedSerializer = serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
			stock, err := rest.UnversionedRESTClientFor(config)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = stock.Post().AbsPath("/apis/batch/v1/namespaces/ns/jobs").Body([]byte("{}")).DoRaw(t.Context())
			if h.posts.Load() > 1 {
				repeated++
			}
		}
		if repeated < 100 {
			t.Errorf("only %d %s servers are sent the create more than once by stock client-go", repeated, protocol)
		}
		t.Logf("stock client-go repeats the create at %d %s servers", repeated, protocol)
	}
}

// A kept-alive connection that the other side has closed must not make a create
// uncertain: nothing was sent, and nobody could tell. The create goes out on a
// connection of its own instead.
func TestStaleConnectionIsNotUsed(t *testing.T) {
	for range 20 {
		h := newHostile(t, "http/1.1", func(h *hostile, c *tls.Conn) {
			reader := bufio.NewReader(c)
			request, err := http.ReadRequest(reader)
			if err != nil {
				return
			}
			if request.Method == http.MethodGet {
				// Answered, and closed while it is idle, without saying so.
				write(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
				return
			}
			respond429(h, c, request)
		})
		c := h.client(t)
		c.Observe(t.Context(), testJob())
		created := c.Create(t.Context(), CreateRequest{Place: testJob(), Body: []byte("{}"), AuditID: NewAuditID(), Nonce: testNonce})
		if created.Outcome != Rejected || h.posts.Load() != 1 {
			t.Fatalf("%v after %d POSTs: %v", created.Outcome, h.posts.Load(), created.Err)
		}
	}
}

func respond429(h *hostile, c *tls.Conn, r *http.Request) {
	h.whole(r)
	write(c, fmt.Sprintf("HTTP/1.1 429 X\r\nAudit-ID: %s\r\nContent-Length: 0\r\n\r\n", r.Header.Get(auditHeader)))
}

// A3.7: a refused connection, a certificate that is not trusted and a login that
// fails are not sent. A create is then settled, and may be begun again.
func TestA3_7_NeverConnected(t *testing.T) {
	h := newHostile(t, "http/1.1", respond(201, "", true))
	refused := rest.CopyConfig(h.config)
	refused.Host = "https://127.0.0.1:1"
	untrusted := rest.CopyConfig(h.config)
	untrusted.ServerName = "other.invalid"
	unknownHost := rest.CopyConfig(h.config)
	unknownHost.Host = "https://cluster.invalid"
	for name, config := range map[string]*rest.Config{"refused": refused, "untrusted": untrusted, "unknown host": unknownHost} {
		c, err := newForConfig(config, Options{})
		if err != nil {
			t.Fatal(err)
		}
		created := c.Create(t.Context(), CreateRequest{Place: testJob(), Body: []byte("{}"), AuditID: NewAuditID(), Nonce: testNonce})
		if created.Outcome != Unsent || created.Code != 0 {
			t.Errorf("%s: %v (%v)", name, created.Outcome, created.Err)
		}
	}
	if h.posts.Load() != 0 {
		t.Errorf("%d POSTs arrived", h.posts.Load())
	}
}
