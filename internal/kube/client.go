package kube

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/transport"
)

// The client's own rate limit: enough for deletes side by side and reads every
// 50 ms of a handful of objects (A6.6), and far below what an API server sheds.
const (
	queriesPerSecond = 50
	burst            = 100
)

// Options are what a client needs beside its kubeconfig.
type Options struct {
	// Dir is the kubeconfig's directory: its relative paths are resolved
	// against it, as kubectl does.
	Dir string
	// UserAgent names the program in audit logs; by default "holdfast".
	UserAgent string
	// Warn is given the text of every Warning header but a create's, as the server
	// wrote it: redact and escape it. It may be called from several goroutines, and
	// must not block: the request returns after it. Nil drops them.
	Warn func(text string)
}

// Client sends requests to one cluster. It is safe for concurrent use.
type Client struct {
	rest        rest.Interface
	execPlugin  string
	credentials []string
	warn        func(string)
}

// New makes a client from the bytes of a kubeconfig, which were read and hashed
// once by the caller (A5.3), and the name of a context in it. It sends nothing
// and starts no exec plugin. An error can quote a URL of the kubeconfig with a
// password in it: redact it. A kubeconfig that skips TLS verification, or TLS, is
// refused: an answer that anybody can give proves nothing.
func New(kubeconfig []byte, contextName string, options Options) (*Client, error) {
	file, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("parsing the kubeconfig: %w", UnquotedKubeconfig(err))
	}
	if _, found := file.Contexts[contextName]; !found || contextName == "" {
		return nil, fmt.Errorf("finding context %q in the kubeconfig: it is not there", contextName)
	}
	anchorPaths(file, filepath.Join(options.Dir, "kubeconfig"))
	if err := clientcmd.ResolveLocalPaths(file); err != nil {
		return nil, fmt.Errorf("resolving the kubeconfig's relative paths: %w", err)
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*file, contextName, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading context %q of the kubeconfig: %w", contextName, err)
	}
	if err := encrypted(config); err != nil {
		return nil, err
	}
	return newForConfig(config, options)
}

// encrypted refuses what insecure-skip-tls-verify is refused for: over plain HTTP
// anybody on the way can say that everything is gone. Nobody is on the way to this
// very machine, where kubectl proxy listens.
func encrypted(config *rest.Config) error {
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return fmt.Errorf("using the kubeconfig: %w", err)
	}
	local := server.Hostname() == "localhost" || net.ParseIP(server.Hostname()).IsLoopback()
	if server.Scheme != "https" && !local {
		return fmt.Errorf("using the kubeconfig: its server is reached over plain %s, and an unverified server's answers prove nothing: give an https address", server.Scheme)
	}
	return nil
}

// anchorPaths says where the bytes came from, which clientcmd needs to resolve
// the relative paths of certificates, keys, tokens and exec plugins.
func anchorPaths(file *clientcmdapi.Config, origin string) {
	for _, cluster := range file.Clusters {
		cluster.LocationOfOrigin = origin
	}
	for _, user := range file.AuthInfos {
		user.LocationOfOrigin = origin
	}
}

// newForConfig makes a client from a configuration that has been read.
func newForConfig(config *rest.Config, options Options) (*Client, error) {
	if config.Insecure {
		return nil, errors.New("using the kubeconfig: insecure-skip-tls-verify is set, and an unverified server's answers prove nothing: give its certificate-authority instead")
	}
	c := &Client{warn: options.Warn, credentials: credentials(config)}
	config = rest.CopyConfig(config)
	if config.ExecProvider != nil {
		c.execPlugin = config.ExecProvider.Command
	}
	config.UserAgent = cmp.Or(options.UserAgent, "holdfast")
	config.QPS, config.Burst = queriesPerSecond, burst
	config.WarningHandler = rest.NoWarnings{}
	config.NegotiatedSerializer = serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
	// Ours is added first, and rest adds exec plugins and credentials around
	// it: it is the innermost one and sees exactly what reaches the wire.
	ours := func(next http.RoundTripper) http.RoundTripper { return &wire{next: next} }
	config.WrapTransport = transport.Wrappers(ours, config.WrapTransport)
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making an HTTP client from the kubeconfig: %w", err)
	}
	// A redirect is an answer like any other, and not one of an API server's:
	// following it would repeat a create, or read the answer of another request.
	httpClient.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.rest, err = rest.UnversionedRESTClientForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("making a client from the kubeconfig: %w", err)
	}
	return c, nil
}

// credentials returns what a server or a proxy could echo in a message.
func credentials(config *rest.Config) []string {
	var found []string
	for _, value := range []string{config.BearerToken, config.Password, string(config.KeyData)} {
		if value != "" {
			found = append(found, value)
		}
	}
	return found
}

// Credentials returns the secrets of the kubeconfig, for redaction alone.
func (c *Client) Credentials() []string { return append([]string(nil), c.credentials...) }

// ExecPlugin returns the command that the kubeconfig runs to log in, empty when
// it runs none. Name it before the first request: it can run anything.
func (c *Client) ExecPlugin() string { return c.execPlugin }

// NewAuditID returns a random Audit-ID for one request. The API server keeps it,
// echoes it and writes it to its audit log, so that an administrator can settle
// what became of the request (A3.4, A6.13).
func NewAuditID() string { return string(uuid.NewUUID()) }
