package identity

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime/debug"
)

// OpenExecutable opens the bytes of the running program itself. The path under
// which it was started may hold another file by now; the kernel's link to the
// running one does not.
func OpenExecutable() (io.ReadCloser, error) { return os.Open("/proc/self/exe") }

// RunningHelper identifies the running executable (A3.6). revision and modified
// are what the build stamped, since a reproducible build carries no version
// control data of its own. assets maps each embedded file that shapes a
// manifest to its SHA-256.
func RunningHelper(revision string, modified bool, assets map[string]string) (Helper, error) {
	sum, err := sumExecutable()
	if err != nil {
		return Helper{}, fmt.Errorf("identifying the running executable: %w", err)
	}
	helper := Helper{SHA256: sum, Revision: revision, Modified: modified, Assets: assets}
	if info, ok := debug.ReadBuildInfo(); ok {
		helper.ModuleVersion = info.Main.Version
	}
	return helper, nil
}

func sumExecutable() (string, error) {
	file, err := OpenExecutable()
	if err != nil {
		return "", err
	}
	// Only read: a failing close loses nothing.
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
