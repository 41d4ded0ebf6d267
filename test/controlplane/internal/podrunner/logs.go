package podrunner

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// logFile is the log of one start of a container, in the format that container
// runtimes write: time, stream, F, text. A reader may follow it while it grows.
type logFile struct {
	path string

	mu    sync.Mutex
	file  *os.File // nil when finished
	grown chan struct{}
}

func createLog(path string) (*logFile, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("creating a container's log: %w", err)
	}
	return &logFile{path: path, file: file, grown: make(chan struct{})}, nil
}

// copy logs a stream line by line until it ends. A line that is not ended by a
// newline is logged when the stream ends.
func (l *logFile) copy(stream string, from io.Reader) {
	for lines := bufio.NewReader(from); ; {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			l.write(stream, bytes.TrimSuffix(line, []byte("\n")))
		}
		if err != nil {
			return
		}
	}
}

func (l *logFile) write(stream string, line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return
	}
	entry := fmt.Appendf(nil, "%s %s F ", time.Now().UTC().Format(time.RFC3339Nano), stream)
	entry = append(append(entry, line...), '\n')
	_, _ = l.file.Write(entry) // a full disk must not end the program that talks
	l.wake()
}

// finish marks the end: nothing follows.
func (l *logFile) finish() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.file.Close()
	l.file = nil
	l.wake()
}

// wake must be called with mu held.
func (l *logFile) wake() {
	close(l.grown)
	l.grown = make(chan struct{})
}

// state says whether more may come, and what is closed then.
func (l *logFile) state() (growing bool, grown <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file != nil, l.grown
}

// send writes the log as the options ask, and with Follow goes on until the container
// has ended or ctx does.
func (l *logFile) send(ctx context.Context, to io.Writer, options *corev1.PodLogOptions, flush func()) error {
	file, err := os.Open(l.path)
	if err != nil {
		return fmt.Errorf("opening a container's log: %w", err)
	}
	defer func() { _ = file.Close() }() // only read
	if options.TailLines != nil {
		if err := seekTail(file, *options.TailLines); err != nil {
			return err
		}
	}
	limited := &limitedWriter{to: to, left: -1}
	if options.LimitBytes != nil {
		limited.left = *options.LimitBytes
	}
	// One reader for all rounds: it may hold the beginning of a line.
	lines := bufio.NewReader(file)
	for {
		// Asked before reading: what is written after the answer is seen next time.
		growing, grown := l.state()
		if err := sendLines(limited, lines, options); err != nil {
			return err
		}
		flush()
		if !growing || !options.Follow || limited.left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-grown:
		}
	}
}

// sendLines sends the complete lines that there are. Lines are written in one piece,
// so an incomplete one is not met.
func sendLines(to *limitedWriter, lines *bufio.Reader, options *corev1.PodLogOptions) error {
	for to.left != 0 {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading a container's log: %w", err)
		}
		if err := sendLine(to, line, options); err != nil {
			return err
		}
	}
	return nil
}

func sendLine(to io.Writer, line []byte, options *corev1.PodLogOptions) error {
	stamp, rest, _ := bytes.Cut(line, []byte(" "))
	stream, rest, _ := bytes.Cut(rest, []byte(" "))
	_, text, _ := bytes.Cut(rest, []byte(" "))
	if options.Stream != nil && *options.Stream != corev1.LogStreamAll && !equalFold(*options.Stream, string(stream)) {
		return nil
	}
	if since := sinceTime(options); !since.IsZero() {
		if at, err := time.Parse(time.RFC3339Nano, string(stamp)); err == nil && at.Before(since) {
			return nil
		}
	}
	if options.Timestamps {
		text = append(append(append([]byte(nil), stamp...), ' '), text...)
	}
	_, err := to.Write(text)
	return err
}

func equalFold(a, b string) bool { return bytes.EqualFold([]byte(a), []byte(b)) }

func sinceTime(options *corev1.PodLogOptions) time.Time {
	switch {
	case options.SinceTime != nil:
		return options.SinceTime.Time
	case options.SinceSeconds != nil:
		return time.Now().Add(-time.Duration(*options.SinceSeconds) * time.Second)
	}
	return time.Time{}
}

// seekTail moves to the beginning of the last n lines.
func seekTail(file *os.File, n int64) error {
	var starts []int64 // a ring of the last n
	offset := int64(0)
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			starts = append(starts, offset)
			if int64(len(starts)) > n {
				starts = starts[1:]
			}
			offset += int64(len(line))
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading a container's log: %w", err)
		}
	}
	if len(starts) > 0 {
		offset = starts[0]
	}
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return fmt.Errorf("reading a container's log: %w", err)
	}
	return nil
}

// limitedWriter takes left bytes, or all when left is negative.
type limitedWriter struct {
	to   io.Writer
	left int64
}

func (w *limitedWriter) Write(p []byte) (int, error) {
	cut := p
	if w.left >= 0 {
		cut = p[:min(int64(len(p)), w.left)]
		w.left -= int64(len(cut))
	}
	if _, err := w.to.Write(cut); err != nil {
		return 0, err
	}
	return len(p), nil
}
