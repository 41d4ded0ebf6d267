package ui

import (
	"context"
	"io"
)

// backlogLines is how much may wait to be written: more than a command has to say. The
// clock of the live lines, which has something every second, is not written while
// anything waits (Behind).
const backlogLines = 1 << 14

// Backlog stands between a command and the terminals or pipes that it talks to. A
// terminal that is held up, or a pipe that nobody reads, must not hold up what the
// command does: a signal could no longer end it, and an engine would stand still
// between two requests. Everything is written in the order in which it was given, to
// whichever writer.
type Backlog struct{ pieces chan piece }

// piece is one write, or where to tell that everything before it is written.
type piece struct {
	to      io.Writer
	data    []byte
	reached chan<- struct{}
}

// NewBacklog returns an empty one. Flush it before the process ends.
func NewBacklog() *Backlog {
	b := &Backlog{pieces: make(chan piece, backlogLines)}
	go func() {
		for p := range b.pieces {
			if p.reached != nil {
				close(p.reached)
				continue
			}
			// A closed pipe must not stop a command that holds evidence.
			_, _ = p.to.Write(p.data)
		}
	}()
	return b
}

// Writer returns a writer whose writes do not wait for to.
func (b *Backlog) Writer(to io.Writer) io.Writer { return &waiting{b, to} }

// Flush returns when everything is written, or when ctx ends.
func (b *Backlog) Flush(ctx context.Context) {
	reached := make(chan struct{})
	select {
	case b.pieces <- piece{reached: reached}:
	case <-ctx.Done():
		return
	}
	select {
	case <-reached:
	case <-ctx.Done():
	}
}

// Behind reports whether something waits to be written.
func (w *waiting) Behind() bool { return len(w.backlog.pieces) > 0 }

type waiting struct {
	backlog *Backlog
	to      io.Writer
}

// Write keeps a copy of data and never fails.
func (w *waiting) Write(data []byte) (int, error) {
	w.backlog.pieces <- piece{to: w.to, data: append([]byte(nil), data...)}
	return len(data), nil
}
