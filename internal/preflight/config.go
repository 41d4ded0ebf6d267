package preflight

import (
	"context"
	"io"
	"time"

	"github.com/holdfast-project/holdfast/internal/durable"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/redact"
)

// Config is a judged command line with its inputs read.
type Config struct {
	// Files and Directory are where the evidence will be; Directory must not
	// exist.
	Files     durable.FS
	Directory string
	// AllowFileSystem is the type that --allow-filesystem names, or empty.
	AllowFileSystem string
	// Helper is the running executable's identity; Executable opens it for
	// the retained copy and is nil when none is kept (A3.6).
	Helper     identity.Helper
	Executable func() (io.ReadCloser, error)

	// KubeconfigPath and KubeconfigSHA256 name the file that Cluster was built
	// from.
	KubeconfigPath   string
	KubeconfigSHA256 string
	Context          string
	Namespace        string
	Release          string

	// Chart is a directory or a .tgz, Values and Profile are file contents;
	// a nil Profile means the built-in one. ValuesName is for people.
	Chart      string
	Values     []byte
	ValuesName string
	// StretchIterations is what the values' digest costs; 0 for
	// evidence.StretchIterations, and little in a test of many runs.
	StretchIterations int
	Profile           []byte
	// Image is the candidate as NAME@sha256:….
	Image string
	// Timeout bounds the run from its first create to its last Job, in whole
	// seconds.
	Timeout time.Duration

	Cluster Cluster
	// Index returns the digests that an image index lists, from its registry.
	Index  func(ctx context.Context, name, digest string) ([]string, error)
	Report Reporter
	// Redact knows the kubeconfig's credentials; the run adds every Secret
	// value that the chart renders. No request is under way when it does.
	Redact *redact.Redactor
	// Escape makes the control characters of a text visible: what a webhook says is
	// kept in files that a person shows on a terminal.
	Escape func(text string) string
	// GiveUp is closed by the second signal: no request in flight is awaited any
	// longer.
	GiveUp <-chan struct{}
}

// safe is a text of the cluster's as a file of the evidence may hold it.
func (c Config) safe(text string) string { return c.Escape(c.Redact.String(text)) }

// words is what others said as it may stand in a sentence of ours: bounded, so that it
// cannot push out what we say after it.
func (c Config) words(text string) string { return redact.Cut(c.safe(text)) }

// Mark says how a slot's phase is meant.
type Mark int

// The marks: something follows, or the slot has ended well or badly.
const (
	Busy Mark = iota
	Good
	Bad
)

// Reporter takes what a person or a machine should see while the run goes on.
// Nothing that it gets holds a Secret value; it escapes control characters.
type Reporter interface {
	Step(text string)
	Warn(text string)
	Slot(slot, phase, detail string, mark Mark)
	Log(slot, tail string)
}
