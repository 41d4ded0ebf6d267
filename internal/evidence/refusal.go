package evidence

import (
	"fmt"

	"github.com/holdfast-project/holdfast/internal/identity"
)

// Refusal says that the evidence is not accepted: which file, and why, in one
// sentence. Nothing was sent and nothing written; the exit code is 2.
type Refusal struct {
	// File is the path relative to the evidence directory, "." for itself.
	File string
	// Reason continues the sentence that File begins.
	Reason string
	// Err is the cause when there is one, for errors.Is.
	Err error
}

// Error returns "evidence refused: FILE REASON".
func (r *Refusal) Error() string {
	if r.File == "." {
		return "evidence refused: the evidence directory " + r.Reason
	}
	return "evidence refused: " + r.File + " " + r.Reason
}

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Err }

// refuse builds a Refusal. The result is an error, never a typed nil.
func refuse(file, format string, args ...any) error {
	return &Refusal{File: file, Reason: fmt.Sprintf(format, args...)}
}

// refuseBecause builds a Refusal whose reason is its cause's text.
func refuseBecause(file string, cause error) error {
	return &Refusal{File: file, Reason: cause.Error(), Err: cause}
}

// Expectation is what the command line says about the run whose evidence this
// is, and who asks (A5.3). All of it must equal the record.
type Expectation struct {
	// KubeconfigPath is the absolute physical path of the kubeconfig.
	KubeconfigPath string
	// KubeconfigSHA256 is the digest of the bytes that the client will be built
	// from, in lower-case hex.
	KubeconfigSHA256 string
	Context          string
	Namespace        string
	Release          string
	// Helper is the running executable's identity.
	Helper identity.Helper
}
