// Package ui owns what a person or a machine sees of a command: plain lines,
// live lines on a terminal, JSON lines, refusals with their hint, tables and
// quoted command lines.
//
// Its invariant: data goes to one writer (stdout), everything else to the other
// (stderr), and no byte that came from a cluster or a file reaches a terminal
// with its control characters alive, because a log line must not be able to
// rewrite what the operator reads above it. What carries a server's words is cut to a
// bound here, redacted as it is by then; what this program says itself is not, since a
// command that is cut off is another command.
//
// It must not import any k8s.io module or internal/evidence, and it never ends
// the process: who holds a lock decides when to go.
package ui

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-project/holdfast/internal/redact"
)

// Program is the name that begins each line of an error.
const Program = "upgrade-production-images"

// Format is how progress and results are written.
type Format string

// The formats of --output.
const (
	Text Format = "text"
	JSON Format = "json"
)

// Options say where a Printer writes and what the other end can show.
type Options struct {
	Format Format
	// Out takes data: the result's path, the summary, JSON lines.
	Out io.Writer
	// Err takes everything else.
	Err io.Writer
	// Terminal is true when Err is a terminal that can move its cursor.
	Terminal bool
	// Color allows colours; false under NO_COLOR (no-color.org).
	Color bool
	// Width is the terminal's width in columns; 0 means 80.
	Width int
}

// Printer writes for one command. Its methods may be called from several
// goroutines.
type Printer struct {
	options Options

	mu    sync.Mutex
	live  []*row
	drawn int
	done  chan struct{}
	idle  sync.WaitGroup
}

// New returns a Printer. Close it before the process ends, or the live lines
// stay half drawn.
func New(options Options) *Printer {
	if options.Width <= 0 {
		options.Width = 80
	}
	return &Printer{options: options}
}

// event is one JSON line. The names are a contract with scripts.
type event struct {
	Version int    `json:"version"`
	Time    string `json:"time"`
	Event   string `json:"event"`
	Message string `json:"message,omitempty"`
	Slot    string `json:"slot,omitempty"`
	Phase   string `json:"phase,omitempty"`
	Hint    string `json:"hint,omitempty"`
	Path    string `json:"path,omitempty"`
	Code    *int   `json:"exitCode,omitempty"`
}

// emit writes one JSON line to Out; the caller holds the lock. A write error is
// dropped on purpose: a closed pipe must not stop a run that holds evidence.
func (p *Printer) emit(e event) {
	e.Version = 1
	e.Time = time.Now().UTC().Format(time.RFC3339Nano)
	line, err := json.Marshal(e)
	if err != nil {
		return
	}
	_, _ = p.options.Out.Write(append(line, '\n'))
}

// say writes one line to Err above the live lines; the caller holds the lock.
func (p *Printer) say(line string) {
	p.erase()
	_, _ = io.WriteString(p.options.Err, line+"\n")
	p.draw()
}

// Step says what the command does now.
func (p *Printer) Step(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.options.Format == JSON {
		p.emit(event{Event: "step", Message: text})
		return
	}
	p.say(Escape(text))
}

// Warn says what the operator should know though nothing is refused, for
// example a Warning header of the API server.
func (p *Printer) Warn(text string) {
	text = redact.Cut(text)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.options.Format == JSON {
		p.emit(event{Event: "warning", Message: text})
		return
	}
	p.say(p.paint(yellow, "warning:") + " " + Escape(text))
}

// Log shows the last lines that a slot's container printed.
func (p *Printer) Log(slot, tail string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.options.Format == JSON {
		p.emit(event{Event: "log", Slot: slot, Message: tail})
		return
	}
	for line := range strings.Lines(tail) {
		p.say("  " + slot + " | " + Escape(redact.Cut(strings.TrimRight(line, "\r\n"))))
	}
}

// Error says why the command ends and, in a second line, what to do next.
// Errors go to Err in every format; in JSON they are in the end event too.
func (p *Printer) Error(err error, hint string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.say(p.paint(red, Program+":") + " " + Escape(err.Error()))
	if hint != "" {
		p.say(Program + ": hint: " + Escape(hint))
	}
}

// Note says one thing more after an error or a summary: where the helper is
// kept, which command comes next.
func (p *Printer) Note(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.options.Format == JSON {
		p.emit(event{Event: "note", Message: text})
		return
	}
	p.say(Program + ": " + Escape(text))
}

// Command shows a command line that the operator can copy whole. It is never
// wrapped, since a broken line would be another command.
func (p *Printer) Command(purpose string, argv []string) {
	line := Quote(argv)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.options.Format == JSON {
		p.emit(event{Event: "command", Message: line, Hint: purpose})
		return
	}
	p.say(Program + ": " + Escape(purpose) + ":")
	p.say("  " + line)
}

// Path puts the path of a published result on Out: it is data.
func (p *Printer) Path(path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.options.Format == JSON {
		p.emit(event{Event: "result", Path: path})
		return
	}
	p.erase()
	_, _ = fmt.Fprintln(p.options.Out, Escape(path))
	p.draw()
}

// End is the last JSON line: the exit code and the sentence that goes with it.
// In text the exit code speaks for itself.
func (p *Printer) End(code int, sentence, hint string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.options.Format == JSON {
		p.emit(event{Event: "end", Code: &code, Message: sentence, Hint: hint})
	}
}
