package journal

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"unicode"

	"github.com/holdfast-project/holdfast/internal/durable"
	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/strictjson"
)

// Cleanup writes one preflight-cleanup.XXXXXXXX directory. Nothing else in the
// evidence directory is touched. It is safe for concurrent use.
type Cleanup struct {
	mu           sync.Mutex
	dir          durable.Dir
	observations durable.Dir
	errors       durable.File
	failure      error
	over         bool
}

// NewCleanup makes the directory of an accepted cleanup, with its empty error
// file (A6.1, A6.9). The evidence must have been loaded: a refusal leaves no
// directory.
func NewCleanup(evidenceDir *evidence.Dir) (*Cleanup, error) {
	root := evidenceDir.Root()
	dir, err := root.MakeDir(evidence.CleanupDirectory(suffix()))
	if err != nil {
		return nil, fmt.Errorf("making the cleanup's directory: %w", err)
	}
	c := &Cleanup{dir: dir}
	if err := c.begin(root); err != nil {
		return nil, errors.Join(fmt.Errorf("beginning %s: %w", dir.Path(), err), c.Close())
	}
	return c, nil
}

func (c *Cleanup) begin(root durable.Dir) (err error) {
	if c.errors, err = c.dir.Create(evidence.ErrorFile, 0o600); err != nil {
		return err
	}
	if c.observations, err = c.dir.MakeDir(evidence.ObservationsDirectory); err != nil {
		return err
	}
	if err := c.dir.Sync(); err != nil {
		return err
	}
	return root.Sync()
}

// Path is the directory's absolute path.
func (c *Cleanup) Path() string { return c.dir.Path() }

// Report appends one line to preflight-cleanup.err, which the caller has
// redacted. What could change how the line is shown becomes a space: control
// characters, and those that reorder or break text.
func (c *Cleanup) Report(line string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.usable(); err != nil {
		return err
	}
	_, err := c.errors.Write([]byte(strings.Map(printable, line) + "\n"))
	return c.durably(err)
}

func printable(r rune) rune {
	if unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) {
		return ' '
	}
	return r
}

// observationName is a plain file name.
var observationName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// Observe keeps an identity-only readback as observations/NAME. The name must
// be new, and must not look like a record of a create.
func (c *Cleanup) Observe(name string, readback any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.usable(); err != nil {
		return err
	}
	if !observationName.MatchString(name) || evidence.CreateRecord(name) {
		return misuse("%q cannot name an observation", name)
	}
	data, err := strictjson.Encode(readback)
	if err != nil {
		return err
	}
	return c.durably(write(c.observations, name, data))
}

// write makes a plain file. An observation decides nothing, so its entry is
// made durable with all others, before the result.
func write(dir durable.Dir, name string, data []byte) error {
	file, err := dir.Create(name, 0o600)
	if err != nil {
		return err
	}
	if _, err := file.Write(data); err != nil {
		return errors.Join(err, file.Close())
	}
	return errors.Join(file.Sync(), file.Close())
}

// Publish makes everything and, last, the result durable, and returns the
// result's absolute path. Nothing can be written afterwards. If anything before
// it could not be made durable, there is no result.
func (c *Cleanup) Publish(result evidence.Result) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.usable(); err != nil {
		return "", err
	}
	data, err := strictjson.Encode(result)
	if err != nil {
		return "", err
	}
	c.over = true
	for _, step := range []func() error{
		c.errors.Sync,
		c.closeErrors,
		c.observations.Sync,
		func() error { return durable.Publish(c.dir, evidence.ResultFile, data) },
	} {
		if err := c.durably(step()); err != nil {
			return "", fmt.Errorf("publishing the result of the cleanup: %w", err)
		}
	}
	return filepath.Join(c.dir.Path(), evidence.ResultFile), nil
}

// Close gives up the descriptors, with or without a result.
func (c *Cleanup) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	err := c.closeErrors()
	if c.observations != nil {
		err = errors.Join(err, c.observations.Close())
		c.observations = nil
	}
	if c.dir != nil {
		err = errors.Join(err, c.dir.Close())
	}
	return err
}

func (c *Cleanup) closeErrors() error {
	if c.errors == nil {
		return nil
	}
	err := c.errors.Close()
	c.errors = nil
	return err
}

func (c *Cleanup) usable() error {
	switch {
	case c.failure != nil:
		return fmt.Errorf("nothing more is written after the first failure: %w", c.failure)
	case c.over:
		return misuse("the cleanup's directory is closed")
	}
	return nil
}

func (c *Cleanup) durably(err error) error {
	if err != nil && c.failure == nil {
		c.failure = err
	}
	return err
}
