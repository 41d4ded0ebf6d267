package kube

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// stream is one request as an HTTP/2 server sees it arrive, frame by frame.
type stream struct {
	id     uint32
	method string
	audit  string
}

// When a hostile HTTP/2 server acts.
const (
	atHeaders = "at the headers"
	inBody    = "in the body"
	atEnd     = "at the end"
)

// session is one HTTP/2 connection.
type session struct {
	*http2.Framer
	conn    *tls.Conn
	streams map[uint32]*stream
}

// http2Server speaks just enough HTTP/2 to receive requests and calls act for
// those that create, at each of the moments above, until act returns false.
func http2Server(act func(h *hostile, s *session, r *stream, moment string) bool) func(*hostile, *tls.Conn) {
	return func(h *hostile, c *tls.Conn) {
		preface := make([]byte, len(http2.ClientPreface))
		if _, err := io.ReadFull(c, preface); err != nil {
			return
		}
		s := &session{Framer: http2.NewFramer(c, c), conn: c, streams: map[uint32]*stream{}}
		s.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		if s.WriteSettings() != nil {
			return
		}
		for s.step(h, act) {
		}
	}
}

func (s *session) step(h *hostile, act func(*hostile, *session, *stream, string) bool) bool {
	frame, err := s.ReadFrame()
	if err != nil {
		return false
	}
	switch f := frame.(type) {
	case *http2.SettingsFrame:
		return f.IsAck() || s.WriteSettingsAck() == nil
	case *http2.PingFrame:
		return f.IsAck() || s.WritePing(true, f.Data) == nil
	case *http2.MetaHeadersFrame:
		r := &stream{id: f.StreamID, method: f.PseudoValue("method")}
		for _, field := range f.RegularFields() {
			if field.Name == "audit-id" {
				r.audit = field.Value
			}
		}
		s.streams[r.id] = r
		if r.method == "GET" {
			return s.answer(r, 200, "{}")
		}
		return act(h, s, r, atHeaders)
	case *http2.DataFrame:
		r := s.streams[f.StreamID]
		if f.StreamEnded() {
			h.posts.Add(1)
			return act(h, s, r, atEnd)
		}
		if n := uint32(len(f.Data())); n > 0 && (s.WriteWindowUpdate(0, n) != nil || s.WriteWindowUpdate(f.StreamID, n) != nil) {
			return false
		}
		return act(h, s, r, inBody)
	}
	return true
}

// answer sends a whole response.
func (s *session) answer(r *stream, code int, body string, extra ...string) bool {
	return s.headers(r, code, false, extra...) && s.WriteData(r.id, true, []byte(body)) == nil
}

func (s *session) headers(r *stream, code int, end bool, extra ...string) bool {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	fields := append([]string{":status", fmt.Sprint(code), "audit-id", r.audit}, extra...)
	for i := 0; i < len(fields); i += 2 {
		if encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}) != nil {
			return false
		}
	}
	return s.WriteHeaders(http2.HeadersFrameParam{StreamID: r.id, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: end}) == nil
}

// cases2 are the ways in which an HTTP/2 server can let a create down: every
// error code on the stream and on the connection, at every moment.
func cases2() []wireCase {
	var cases []wireCase
	add := func(name string, want []Outcome, serve func(*hostile, *tls.Conn)) {
		cases = append(cases, wireCase{name: name, protocol: "h2", want: want, serve: serve})
	}
	unknown := []Outcome{Unknown}
	for _, moment := range []string{atHeaders, inBody, atEnd} {
		at := func(do func(*session, *stream) bool) func(*hostile, *tls.Conn) {
			return http2Server(func(_ *hostile, s *session, r *stream, now string) bool { return now != moment || do(s, r) })
		}
		for code := http2.ErrCode(0); code < 14; code++ {
			add(fmt.Sprintf("RST_STREAM %v %s", code, moment), unknown, at(func(s *session, r *stream) bool {
				return s.WriteRSTStream(r.id, code) == nil
			}))
			for _, last := range []string{"below", "at", "above"} {
				add(fmt.Sprintf("GOAWAY %v %s the stream %s", code, last, moment), unknown, at(func(s *session, r *stream) bool {
					id := map[string]uint32{"below": 0, "at": r.id, "above": r.id + 100}[last]
					_ = s.WriteGoAway(id, code, nil)
					return false
				}))
			}
		}
		add("close "+moment, unknown, at(func(s *session, _ *stream) bool { return false }))
		add("reset "+moment, unknown, at(func(s *session, _ *stream) bool { reset(s.conn); return false }))
	}
	for code := 400; code < 600; code++ {
		want := unknown
		if code == 429 {
			want = []Outcome{Rejected}
		}
		add(fmt.Sprintf("Retry-After on %d", code), want, atTheEnd(func(s *session, r *stream) bool { return s.answer(r, code, "{}", "retry-after", "0") }))
	}
	for _, code := range []int{307, 308} {
		add(fmt.Sprint(code), unknown, atTheEnd(func(s *session, r *stream) bool { return s.answer(r, code, "", "location", "/elsewhere") }))
	}
	add("early answer", []Outcome{Rejected}, http2Server(func(_ *hostile, s *session, r *stream, now string) bool {
		return now != atHeaders || s.answer(r, 429, "", "retry-after", "0")
	}))
	add("answer cut off", unknown, atTheEnd(func(s *session, r *stream) bool {
		s.headers(r, 201, false)
		_ = s.WriteData(r.id, false, []byte(`{"kind":`))
		return s.WriteRSTStream(r.id, http2.ErrCodeInternal) == nil
	}))
	add("trailers instead of an answer", unknown, atTheEnd(func(s *session, r *stream) bool { return s.headers(r, 503, true, "retry-after", "0") }))
	cases = append(cases, wireCase{name: "stall", protocol: "h2", want: unknown, wait: stallWait,
		serve: http2Server(func(*hostile, *session, *stream, string) bool { return true })})
	return cases
}

func atTheEnd(do func(*session, *stream) bool) func(*hostile, *tls.Conn) {
	return http2Server(func(_ *hostile, s *session, r *stream, now string) bool { return now != atEnd || do(s, r) })
}

// A3.7: one create is at most one complete POST over HTTP/2 too, where a stream
// may be refused and a connection be told to go away at any moment.
func TestA3_7_OnePostHTTP2(t *testing.T) { runAll(t, cases2(), 700) }
