package ui

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// heldUp is a terminal that takes nothing until it is let go.
type heldUp struct {
	letGo chan struct{}
	taken *bytes.Buffer
}

func (h *heldUp) Write(data []byte) (int, error) {
	<-h.letGo
	return h.taken.Write(data)
}

// A4.1, A6.10: whatever a command says, a terminal that is held up does not keep it
// from going on. Nothing is lost, and the order stays, across both outputs.
func TestA4_1_HeldUpTerminalHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var taken bytes.Buffer
		terminal, backlog := &heldUp{make(chan struct{}), &taken}, NewBacklog()
		defer close(backlog.pieces)
		p := New(Options{Format: Text, Out: backlog.Writer(terminal), Err: backlog.Writer(terminal), Terminal: true})
		p.Step("step")
		p.Warn("warned")
		p.Slot("api", "running", "", Busy)
		p.Log("api", "printed")
		p.Path("/result")
		p.Error(errors.New("failed"), "hint")
		p.Note("note")
		p.Command("purpose", []string{"argv"})
		time.Sleep(25 * time.Hour) // the clock of the live lines goes on, and is not kept
		if waiting := len(backlog.pieces); waiting > 100 {
			t.Errorf("%d pieces wait", waiting)
		}
		p.Close()

		// Whom a signal ended waits for a while only.
		bounded, done := context.WithTimeout(context.Background(), time.Minute)
		defer done()
		backlog.Flush(bounded)
		if bounded.Err() == nil || taken.Len() > 0 {
			t.Errorf("flushed %q", taken.String())
		}
		close(terminal.letGo)
		backlog.Flush(context.Background())
		at := 0
		for _, word := range []string{"step", "warned", "api", "printed", "/result", "failed", "hint", "note", "purpose", "argv"} {
			i := strings.Index(taken.String()[at:], word)
			if i < 0 {
				t.Fatalf("%q is not there, or too early:\n%s", word, taken.String())
			}
			at += i
		}
	})
}

// A full backlog does not hold up the end of whom a signal ended.
func TestA4_1_FlushOfAFullBacklogEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		terminal, backlog := &heldUp{make(chan struct{}), &bytes.Buffer{}}, NewBacklog()
		defer close(backlog.pieces)
		defer close(terminal.letGo)
		for range backlogLines + 1 {
			_, _ = io.WriteString(backlog.Writer(terminal), "x")
		}
		bounded, done := context.WithTimeout(context.Background(), time.Minute)
		defer done()
		backlog.Flush(bounded)
		if bounded.Err() == nil {
			t.Error("flushed")
		}
	})
}
