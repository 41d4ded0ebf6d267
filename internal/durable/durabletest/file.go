package durabletest

import (
	"io"
	"io/fs"

	"github.com/holdfast-project/holdfast/internal/durable"
)

// file is an opened file.
type file struct {
	fs       *FS
	node     *inode
	path     string
	offset   int
	writable bool
	closed   bool
}

func (f *file) check() error {
	if f.closed {
		return &fs.PathError{Op: "using", Path: f.path, Err: fs.ErrClosed}
	}
	return nil
}

func (f *file) Read(p []byte) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.fs.stopped {
		return 0, ErrStopped
	}
	if err := f.check(); err != nil {
		return 0, err
	}
	if f.offset >= len(f.node.content) {
		return 0, io.EOF
	}
	n := copy(p, f.node.content[f.offset:])
	f.offset += n
	return n, nil
}

func (f *file) Write(p []byte) (int, error) {
	check := func() error {
		if !f.writable {
			return &fs.PathError{Op: "writing", Path: f.path, Err: fs.ErrPermission}
		}
		return f.check()
	}
	err := f.fs.operate(Op{Kind: Write, Path: f.path}, check, func() {
		w := write{offset: f.offset, data: append([]byte(nil), p...)}
		f.node.content = w.applyTo(f.node.content)
		f.node.writes = append(f.node.writes, w)
		f.offset += len(p)
	})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// applyTo returns a copy of content with the write in it.
func (w write) applyTo(content []byte) []byte {
	size := max(len(content), w.offset+len(w.data))
	out := make([]byte, size)
	copy(out, content)
	copy(out[w.offset:], w.data)
	return out
}

// Sync saves the writes since the last one, but for those whose own fsync has
// failed.
func (f *file) Sync() error {
	return f.fs.operate(Op{Kind: Fsync, Path: f.path}, f.check, func() {
		var doubtful []write
		for _, w := range f.node.writes {
			if w.doubtful {
				doubtful = append(doubtful, w)
				continue
			}
			f.node.synced = w.applyTo(f.node.synced)
		}
		f.node.writes = doubtful
	})
}

func (f *file) Stat() (durable.Info, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.fs.stopped {
		return durable.Info{}, ErrStopped
	}
	return f.fs.info(f.node), f.check()
}

// Close of a written file can report a lost write, and is an operation; that of
// a file that was read is not.
func (f *file) Close() error {
	if !f.writable {
		f.closed = true
		return nil
	}
	return f.fs.operate(Op{Kind: Close, Path: f.path}, f.check, func() { f.closed = true })
}
