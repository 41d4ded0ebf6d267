package preflight

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// A4.1: a pipe that nobody reads does not hold up what a command does, in any format;
// what it was told arrives when somebody does, before the command ends.
func TestA4_1_PipeThatNobodyReads(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) {
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			c := newCommand(Env{Stdout: write, Stderr: write, Getenv: func(string) string { return "" }})
			c.printAs(format)
			said := make(chan struct{})
			go func() {
				defer close(said)
				for range 2000 { // twice what a pipe holds
					c.printer.Warn(strings.Repeat("x", 100))
				}
				c.printer.Warn("the last")
			}()
			select {
			case <-said:
			case <-time.After(10 * time.Second):
				t.Error("the command is held up")
			}
			go func() { c.finish(exitIncomplete); _ = write.Close() }()
			if all, err := io.ReadAll(read); err != nil || !strings.Contains(string(all), "the last") {
				t.Errorf("%d bytes arrived: %v", len(all), err)
			}
		})
	}
}

// A4.1: whom a signal ended does not wait for such a pipe.
func TestA4_1_SignalEndsBesideAPipeThatNobodyReads(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = read.Close(), write.Close() }()
	c := newCommand(Env{Stdout: write, Stderr: write, Getenv: func(string) string { return "" }})
	c.printer.Warn(strings.Repeat("x", 1<<17))
	ended := make(chan struct{})
	go func() { c.finish(143); close(ended) }()
	select {
	case <-ended:
	case <-time.After(4 * patience):
		t.Error("the command does not end")
	}
}
