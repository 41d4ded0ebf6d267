package durabletest

import "path"

// Kind is a kind of operation that changes something, or that promises that a
// change is kept.
type Kind string

// The kinds, each named by its system call.
const (
	Mkdir    Kind = "mkdir"
	Create   Kind = "create"
	Write    Kind = "write"
	Fsync    Kind = "fsync"
	Close    Kind = "close"
	Link     Kind = "link"
	Rename   Kind = "rename"
	Unlink   Kind = "unlink"
	FsyncDir Kind = "fsync-dir"
)

// Op is one operation. To is the new path of a link or rename.
type Op struct {
	Kind     Kind
	Path, To string
}

// String returns "kind path" or "kind path to".
func (o Op) String() string {
	if o.To != "" {
		return string(o.Kind) + " " + o.Path + " " + o.To
	}
	return string(o.Kind) + " " + o.Path
}

// Fault makes an operation fail.
type Fault struct {
	// At is the operation's position in the trace, counted from 1.
	At int
	// Err is what it returns.
	Err error
	// Sticky makes all later operations fail as well.
	Sticky bool
	// Applied lets the operation take effect although it reports a failure,
	// as a link over a network can.
	Applied bool
}

// Inject sets the fault; there is one at a time.
func (f *FS) Inject(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = &fault
}

// StopAt lets the operation at position n (counted from 1) and everything after
// it not happen: the process is dead, or the machine.
func (f *FS) StopAt(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopAt = n
}

// Watch has look called before every operation that follows, with that
// operation, while nothing is half done: what a crash at that moment may leave
// can be asked for in it.
func (f *FS) Watch(look func(next Op)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.look = look
}

// Trace returns the operations so far, with those that failed.
func (f *FS) Trace() []Op {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Op(nil), f.trace...)
}

// begin records an operation and says what is to become of it: whether it takes
// effect, and what it returns.
func (f *FS) begin(op Op) (apply bool, err error) {
	if f.stopped || f.stopAt == len(f.trace)+1 {
		f.stopped = true
		return false, ErrStopped
	}
	f.trace = append(f.trace, op)
	if f.fault == nil {
		return true, nil
	}
	at := len(f.trace)
	if at == f.fault.At || (f.fault.Sticky && at > f.fault.At) {
		return f.fault.Applied, f.fault.Err
	}
	return true, nil
}

// operate runs one operation under the lock. change must not fail half-way.
func (f *FS) operate(op Op, check func() error, change func()) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if look := f.look; look != nil && !f.stopped {
		f.mu.Unlock()
		look(op)
		f.mu.Lock()
	}
	if f.stopped {
		return ErrStopped
	}
	if err := check(); err != nil {
		return err
	}
	apply, err := f.begin(op)
	if apply {
		change()
	} else if op.Kind == Fsync || op.Kind == FsyncDir {
		f.doubt(op.Path)
	}
	return err
}

// doubt marks what a failed fsync was to save: the kernel has dropped it from
// its list of what is to be written, so that no later fsync saves it, and
// nobody knows what of it reached the disk.
func (f *FS) doubt(name string) {
	n, err := f.walk(path.Clean(name))
	if err != nil {
		return
	}
	for i := range n.writes {
		n.writes[i].doubtful = true
	}
	for i := range n.changes {
		n.changes[i].doubtful = true
	}
}
