package kube

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	"github.com/go-logr/logr"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/klog/v2"

	"github.com/holdfast-project/holdfast/internal/apipath"
	"github.com/holdfast-project/holdfast/internal/identity"
)

// requestTimeout bounds every request but a create. The API server gives a
// write 34 s; a read that takes longer is repeated by its caller instead.
const requestTimeout = 40 * time.Second

// Bounds of an answer in bytes: an object is at most 1.5 MiB in etcd, a page of
// a list is many of them.
const (
	objectLimit = 4 << 20
	pageLimit   = 64 << 20
)

// What a request accepts. The metadata forms carry no contents at all, so that
// Secret data does not even come back (A6.8).
const (
	acceptObject   = "application/json"
	acceptMetadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	acceptList     = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	acceptText     = "text/plain, application/json"
)

// call is one request to be sent.
type call struct {
	verb string
	// object is the target; its Name is empty for a list or a create.
	object      identity.Object
	name        string
	subresource string
	accept      string
	contentType string
	query       [][2]string
	body        []byte
	auditID     string
	limit       int64
	// timeout is requestTimeout when zero.
	timeout time.Duration
	// fresh asks for a connection that was not kept alive from before.
	fresh bool
}

// answer is everything that is known after a call, and all that it is judged by.
type answer struct {
	call call
	// attempts is how many requests reached the innermost transport.
	attempts int
	// connected is true when any of them obtained a connection.
	connected bool
	code      int
	auditIDs  []string
	body      []byte
	warnings  []string
	// err is why there is no answer, or why its body is incomplete.
	err error
}

// opaque hides the type of a reader from net/http and client-go, which would
// otherwise keep a copy of the body and replay it: after 429 and 5xx with
// Retry-After, on a refused HTTP/2 stream, on 307 and 308.
type opaque struct{ r io.Reader }

func (o opaque) Read(p []byte) (int, error) { return o.r.Read(p) }

// send carries out a call whose warnings can be told at once.
func (c *Client) send(ctx context.Context, call call) answer {
	got := c.carryOut(ctx, call)
	for _, text := range got.warnings {
		if c.warn != nil {
			c.warn(text)
		}
	}
	return got
}

// carryOut carries out a call. A call with a body is at most one request on the
// wire; a read may be repeated by client-go when the server asks for it.
func (c *Client) carryOut(ctx context.Context, call call) answer {
	if call.auditID == "" {
		call.auditID = NewAuditID()
	}
	got := answer{call: call}
	resource, err := apipath.Of(call.object.APIVersion, call.object.Kind)
	if err != nil {
		got.err = err
		return got
	}
	x := &exchange{bodySize: int64(len(call.body)), limit: cmp.Or(call.limit, objectLimit), fresh: call.fresh}
	ctx, cancel := context.WithTimeout(withExchange(ctx, x), cmp.Or(call.timeout, requestTimeout))
	defer cancel()
	// client-go logs bodies to the logger of the context when klog is verbose.
	request := c.request(call, resource)
	err = x.await(ctx, func() error {
		_, err := request.DoRaw(klog.NewContext(ctx, logr.Discard()))
		return err
	})
	got.read(x, err)
	return got
}

// read takes over what the innermost transport recorded. Without an answer,
// client-go's error says why.
func (a *answer) read(x *exchange, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	a.attempts, a.connected = x.attempts, x.connected.Load()
	if x.response == nil {
		a.err = err
		if err == nil {
			a.err = errors.New("no answer was recorded")
		}
		return
	}
	a.code, a.body, a.err = x.response.code, x.response.body, x.response.err
	a.auditIDs = x.response.header.Values(auditHeader)
	parsed, _ := utilnet.ParseWarningHeaders(x.response.header.Values("Warning"))
	for _, w := range parsed {
		text := w.Text
		if a.call.deletesSecret() {
			text = "deleting " + a.call.object.String() + " came with a warning: " + leftOut
		}
		a.warnings = append(a.warnings, text)
	}
}
