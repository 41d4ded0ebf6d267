package preflight

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/holdfast-project/holdfast/internal/durable"
	run "github.com/holdfast-project/holdfast/internal/preflight"
	"github.com/holdfast-project/holdfast/internal/strictjson"
	"github.com/holdfast-project/holdfast/internal/ui"
)

// maxKubeconfigBytes bounds a kubeconfig; with a dozen embedded certificates one
// has some fifty thousand bytes.
const maxKubeconfigBytes = 1 << 20

// protected is an input that may hold credentials, read once.
type protected struct {
	// path is absolute and physical: only its last component is not allowed to
	// be a link, so the others are resolved here.
	path   string
	data   []byte
	sha256 string
}

// readProtected reads a private regular file that is not a link (A4.2), at most
// max bytes of it. It may be a mount of its own, unlike a file of the evidence.
func readProtected(flag, path string, max int64) (protected, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return protected{}, badInput(flag, path, err)
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(absolute))
	if err != nil {
		return protected{}, badInput(flag, path, err)
	}
	dir, err := durable.Inputs().Open(parent)
	if err != nil {
		return protected{}, badInput(flag, path, err)
	}
	defer func() { _ = dir.Close() }()
	name := filepath.Base(absolute)
	data, _, err := durable.ReadPrivate(dir, name, max)
	if err != nil {
		return protected{}, badInput(flag, path, err)
	}
	return protected{path: filepath.Join(parent, name), data: data, sha256: strictjson.Sum(data)}, nil
}

func badInput(flag, path string, cause error) error {
	hint := ""
	if errors.Is(cause, durable.ErrMode) {
		hint = ui.Quote([]string{"chmod", "600", absolute(path)})
	}
	return &run.Refusal{Sentence: fmt.Sprintf("reading --%s %s: %v", flag, path, cause), Hint: hint, Err: cause}
}
