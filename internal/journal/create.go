package journal

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"path/filepath"

	"github.com/holdfast-project/holdfast/internal/durable"
	"github.com/holdfast-project/holdfast/internal/evidence"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/strictjson"
)

// Setup is what a new evidence directory begins with.
type Setup struct {
	// Parameters are written as they are, but for Version, FileSystem and
	// HelperRetained, which Create fills in.
	Parameters evidence.Parameters
	// Executable opens the running executable for the retained copy; nil when
	// none is to be kept (--retain-helper=false).
	Executable func() (io.ReadCloser, error)
	// AllowFileSystem is the type named by --allow-filesystem, or empty.
	AllowFileSystem string
}

// Create makes the evidence directory at path, which must not exist
// (fs.ErrExist), in a directory that does, takes its lock, and makes the
// parameters, the retained helper, .upgrade-lock and, last, the empty registry
// durable (A1.1, A2.5). A file system that is refused makes nothing and matches
// durable.ErrFileSystem.
func Create(disk durable.FS, path string, setup Setup) (*Journal, error) {
	path = filepath.Clean(path)
	parent, err := disk.Open(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("making the evidence directory %s: %w", path, err)
	}
	// The parent is only fsynced through, below; a failing close loses nothing.
	defer func() { _ = parent.Close() }()
	j := &Journal{parameters: setup.Parameters, seen: map[string]bool{}}
	if err := j.describe(parent, setup); err != nil {
		return nil, err
	}
	if j.root, err = makeDurably(parent, filepath.Base(path)); err != nil {
		return nil, fmt.Errorf("making the evidence directory %s: %w", path, err)
	}
	j.dir = evidence.Hold(j.root)
	if err := j.begin(setup); err != nil {
		return nil, errors.Join(fmt.Errorf("beginning the evidence in %s: %w", path, err), j.dir.Close())
	}
	return j, nil
}

// describe completes the parameters and checks them before anything is made.
func (j *Journal) describe(parent durable.Dir, setup Setup) error {
	kind, err := parent.FileSystem()
	if err != nil {
		return err
	}
	warning, err := durable.Acceptable(kind, setup.AllowFileSystem)
	if err != nil {
		return fmt.Errorf("the evidence directory %w", err)
	}
	if warning != "" {
		j.warnings = append(j.warnings, warning)
	}
	_, refusedOtherwise := durable.Acceptable(kind, "")
	j.parameters.Version = evidence.Version
	j.parameters.FileSystem = evidence.FileSystem{Type: kind, Allowed: refusedOtherwise != nil}
	j.parameters.HelperRetained = setup.Executable != nil
	return evidence.RequireParameters(&j.parameters)
}

// makeDurably makes the directory, locks it and makes its entry durable. The
// lock comes first: nobody else may ever find it unlocked.
func makeDurably(parent durable.Dir, name string) (durable.Dir, error) {
	root, err := parent.MakeDir(name)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(root.Lock(), parent.Sync()); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return root, nil
}

// begin writes what precedes every attempt, in the order of A2.5.
func (j *Journal) begin(setup Setup) error {
	data, err := strictjson.Encode(j.parameters)
	if err != nil {
		return err
	}
	info, err := durable.CheckPrivateDirectory(j.root)
	if err != nil {
		return err
	}
	if err := durable.Publish(j.root, evidence.ParametersFile, data); err != nil {
		return err
	}
	if setup.Executable != nil {
		if err := j.retainHelper(setup.Executable); err != nil {
			return err
		}
	}
	if err := durable.Publish(j.root, evidence.UpgradeLockFile, nil); err != nil {
		return err
	}
	j.registry = evidence.Journal{
		Format:           evidence.Format,
		ParametersSHA256: strictjson.Sum(data),
		Directory:        directoryOf(j.root, info),
		Helper:           j.parameters.Helper,
		Attempts:         []evidence.Attempt{},
	}
	return j.publishRegistry()
}

func directoryOf(dir durable.Dir, info durable.Info) identity.Directory {
	return identity.Directory{Path: dir.Path(), Inode: info.Inode, BirthTime: info.BirthTime}
}

// retainHelper keeps a copy of the running executable, which alone may clean up
// (A3.6). A copy with another digest is not published.
func (j *Journal) retainHelper(open func() (io.ReadCloser, error)) error {
	source, err := open()
	if err != nil {
		return fmt.Errorf("opening the running executable: %w", err)
	}
	defer func() { _ = source.Close() }()
	dir, err := j.root.MakeDir(evidence.HelperDirectory)
	if err != nil {
		return err
	}
	checked := &checkedReader{source: source, sum: sha256.New(), want: j.parameters.Helper.SHA256}
	if err := durable.PublishFrom(dir, evidence.HelperFile, 0o700, checked); err != nil {
		return errors.Join(err, dir.Close())
	}
	return errors.Join(dir.Close(), j.root.Sync())
}

// checkedReader fails at the end of its source instead of reporting the end,
// when what it read has not the expected SHA-256.
type checkedReader struct {
	source io.Reader
	sum    hash.Hash
	want   string
}

func (r *checkedReader) Read(p []byte) (int, error) {
	n, err := r.source.Read(p)
	r.sum.Write(p[:n])
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	if got := hex.EncodeToString(r.sum.Sum(nil)); got != r.want {
		return n, fmt.Errorf("the executable changed while it ran: SHA-256 %s, not %s", got, r.want)
	}
	return n, io.EOF
}
