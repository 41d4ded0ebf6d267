package ui

import (
	"os"

	"golang.org/x/term"
)

// Detect returns the options for the process's own stdout and stderr. environ
// is os.Getenv: NO_COLOR turns colours off, TERM=dumb the live lines too.
func Detect(stdout, stderr *os.File, format Format, environ func(string) string) Options {
	options := Options{Format: format, Out: stdout, Err: stderr}
	if !term.IsTerminal(int(stderr.Fd())) || environ("TERM") == "dumb" {
		return options
	}
	options.Terminal = true
	options.Color = environ("NO_COLOR") == ""
	if width, _, err := term.GetSize(int(stderr.Fd())); err == nil {
		options.Width = width
	}
	return options
}
