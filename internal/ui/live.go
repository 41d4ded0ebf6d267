package ui

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/holdfast-project/holdfast/internal/redact"
)

type color string

const (
	red    color = "31"
	green  color = "32"
	yellow color = "33"
)

func (p *Printer) paint(c color, s string) string {
	if !p.options.Color {
		return s
	}
	return "\x1b[" + string(c) + "m" + s + "\x1b[0m"
}

// row is the line of one slot.
type row struct {
	slot, phase, detail string
	since               time.Time
	settled             bool
	outcome             color
}

// Mark says how a phase is meant, so that a terminal can colour it.
type Mark int

// The marks of a phase.
const (
	// Busy is a phase that something else follows.
	Busy Mark = iota
	// Good and Bad end a slot's line: its clock stops.
	Good
	Bad
)

// Slot says that a slot is now in another phase: "started", "running", "absent".
// On a terminal each slot keeps one line that is redrawn with its elapsed time;
// elsewhere each change is one line. A repetition of the same words is silent.
func (p *Printer) Slot(slot, phase, detail string, mark Mark) {
	detail = redact.Cut(detail)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.same(slot, phase, detail, mark) {
		return
	}
	switch {
	case p.options.Format == JSON:
		p.emit(event{Event: "slot", Slot: slot, Phase: phase, Message: detail})
	case !p.options.Terminal:
		p.say(slot + ": " + words(phase, detail))
	default:
		p.erase()
		p.draw()
		p.tick()
	}
}

// words is a phase with what is known of it.
func words(phase, detail string) string {
	if detail == "" {
		return Escape(phase)
	}
	return Escape(phase + ": " + detail)
}

// same updates the slot's row and reports whether nothing changed; the caller
// holds the lock.
func (p *Printer) same(slot, phase, detail string, mark Mark) bool {
	outcome := map[Mark]color{Good: green, Bad: red}[mark]
	for _, r := range p.live {
		if r.slot != slot {
			continue
		}
		if r.phase == phase && r.detail == detail {
			return true
		}
		r.phase, r.detail, r.outcome = phase, detail, outcome
		r.settle(mark)
		return false
	}
	r := &row{slot: slot, phase: phase, detail: detail, since: time.Now(), outcome: outcome}
	p.live = append(p.live, r)
	r.settle(mark)
	return false
}

// settle stops the row's clock when the slot has ended and starts it afresh when
// the slot goes on, since "removing (12m3s)" would count the Job's own run.
func (r *row) settle(mark Mark) {
	if r.settled && mark == Busy {
		r.since = time.Now()
	}
	r.settled = mark != Busy
}

// erase removes the drawn live lines; the caller holds the lock.
func (p *Printer) erase() {
	if p.drawn > 0 {
		_, _ = fmt.Fprintf(p.options.Err, "\x1b[%dA\x1b[J", p.drawn)
		p.drawn = 0
	}
}

// draw writes the live lines; the caller holds the lock. Each is cut to the
// width, because a wrapped line would make erase count wrongly.
func (p *Printer) draw() {
	if !p.options.Terminal || p.options.Format == JSON {
		return
	}
	var b strings.Builder
	for _, r := range p.live {
		line := fmt.Sprintf("  %-16s %s", r.slot, words(r.phase, r.detail))
		if !r.settled {
			line += fmt.Sprintf(" (%s)", time.Since(r.since).Round(time.Second))
		}
		line = cut(line, p.options.Width-1)
		if r.outcome != "" {
			line = p.paint(r.outcome, line)
		}
		b.WriteString(line + "\n")
	}
	p.drawn = len(p.live)
	_, _ = io.WriteString(p.options.Err, b.String())
}

// cut shortens a line to at most width runes, and at least one.
func cut(line string, width int) string {
	runes, width := []rune(line), max(width, 1)
	if len(runes) <= width {
		return line
	}
	return string(runes[:width-1]) + "…"
}

// tick starts the clock of the live lines once; the caller holds the lock.
func (p *Printer) tick() {
	if p.done != nil {
		return
	}
	done, ticker := make(chan struct{}), time.NewTicker(time.Second)
	p.done = done
	p.idle.Go(func() {
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				p.redraw()
			}
		}
	})
}

// redraw moves the clock of the live lines on. A clock that nobody sees is not
// written: a terminal that is held up for hours would fill the backlog with it, and
// then hold up the command after all.
func (p *Printer) redraw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err, ok := p.options.Err.(interface{ Behind() bool }); ok && err.Behind() {
		return
	}
	p.erase()
	p.draw()
}

// Close stops the live lines and leaves them as they are. It may be called more
// than once.
func (p *Printer) Close() {
	p.mu.Lock()
	stop := p.done
	p.done = nil
	p.live, p.drawn = nil, 0
	p.mu.Unlock()
	if stop != nil {
		close(stop)
		p.idle.Wait()
	}
}
