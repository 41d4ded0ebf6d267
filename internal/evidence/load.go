package evidence

import (
	"errors"
	"io/fs"
	"path"

	"github.com/holdfast-project/holdfast/internal/durable"
	"github.com/holdfast-project/holdfast/internal/strictjson"
)

// Load validates everything (A5.2 to A5.10) against what the command line says,
// fsyncs the facts, and returns what they prove. Every error is a *Refusal.
func (d *Dir) Load(expect Expectation) (*Inventory, error) {
	return d.load(func(l *loading) error { return l.targetIsTheRecorded(expect) })
}

// LoadUnbound does the same without A5.3, for a command that is told neither
// target nor credentials and sends nothing (A6.15).
func (d *Dir) LoadUnbound() (*Inventory, error) {
	return d.load(func(*loading) error { return nil })
}

// loading is what has been read so far of one evidence directory.
type loading struct {
	root             durable.Dir
	rootInfo         durable.Info
	journal          Journal
	parameters       Parameters
	parametersSHA256 string
	warnings         []string
	attempts         []*attempt
}

// load runs the steps in their order: what names and binds the rest is judged
// before the rest is read, and the fsync comes last, since only a history that
// is accepted is worth keeping.
func (d *Dir) load(bound func(*loading) error) (*Inventory, error) {
	l := &loading{root: d.root}
	defer l.close()
	for _, step := range []func() error{
		l.rootIsPrivate,                  // A5.7
		l.journalIsOfThisVersion,         // A5.8
		l.directoryIsTheOriginal,         // A5.2
		l.parametersAreTheRegistered,     // A3.1, A3.2
		l.fileSystemIsAcceptable,         // A1.2
		func() error { return bound(l) }, // A5.3
		l.attemptsAreTheRegistered,       // A5.4
		l.plansAreComplete,               // A5.4
		l.recordsAreOfTheirPlans,         // A5.4, A5.7
		l.historiesArePossible,           // A5.5
		l.nothingLiesOutside,             // A5.6, A5.7
		l.factsAreDurable,                // A5.10
	} {
		if err := step(); err != nil {
			return nil, asRefusal(err)
		}
	}
	return l.inventory(), nil
}

func (l *loading) close() {
	for _, a := range l.attempts {
		// Nothing was written through it: there is nothing that a failing close
		// could lose.
		_ = a.dir.Close()
	}
}

// asRefusal keeps a Refusal and makes one of anything else.
func asRefusal(err error) error {
	if refusal := (*Refusal)(nil); errors.As(err, &refusal) {
		return refusal
	}
	return refuseBecause(".", err)
}

// read reads and decodes one record and returns the SHA-256 of its bytes.
func (l *loading) read(dir durable.Dir, name string, maxBytes int, v any) (sum string, err error) {
	file := l.relative(dir, name)
	data, _, err := durable.ReadPrivate(dir, name, int64(maxBytes))
	if err != nil {
		return sum, refuseFile(file, err)
	}
	if err := strictjson.Decode(data, maxBytes, v); err != nil {
		return sum, refuseBecause(file, err)
	}
	if sealed, ok := v.(Sealed); ok {
		if err := CheckSeal(sealed); err != nil {
			return sum, refuseBecause(file, err)
		}
	}
	return strictjson.Sum(data), nil
}

// relative is a file's path as refusals name it.
func (l *loading) relative(dir durable.Dir, name string) string {
	return relativePath(l.root.Path(), dir.Path(), name)
}

func relativePath(root, dir, name string) string {
	if dir == root {
		return name
	}
	return path.Join(dir[len(root)+1:], name)
}

// refuseFile says why a file cannot be accepted, without the absolute path that
// an error of the file system carries.
func refuseFile(file string, err error) error {
	reason := withoutPath(err)
	switch {
	case errors.Is(reason, fs.ErrNotExist):
		return &Refusal{File: file, Reason: "does not exist", Err: err}
	case errors.Is(reason, durable.ErrSymlink):
		return &Refusal{File: file, Reason: "is a symbolic link", Err: err}
	case known(reason):
		return &Refusal{File: file, Reason: reason.Error(), Err: err}
	}
	return &Refusal{File: file, Reason: "cannot be read: " + reason.Error(), Err: err}
}

func withoutPath(err error) error {
	if pathErr := (*fs.PathError)(nil); errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

// known reports whether the error is already a clause that continues a name.
func known(err error) bool {
	for _, sentinel := range []error{
		durable.ErrCrossDevice, durable.ErrNotRegular, durable.ErrNotDirectory, durable.ErrOwner,
		durable.ErrMode, durable.ErrLinks, durable.ErrTooBig,
	} {
		if errors.Is(err, sentinel) {
			return true
		}
	}
	return false
}

// factsAreDurable fsyncs the directories that hold the facts; the files were
// fsynced as they were read. A fact that the next power cut could take back
// must not justify a deletion. The innermost come first.
func (l *loading) factsAreDurable() error {
	for _, a := range l.attempts {
		if err := a.dir.Sync(); err != nil {
			return refuseSync(a.entry.Name, err)
		}
	}
	if err := l.root.Sync(); err != nil {
		return refuseSync(".", err)
	}
	return nil
}

func refuseSync(file string, err error) error {
	return &Refusal{File: file, Reason: "cannot be made durable: " + withoutPath(err).Error(), Err: err}
}
