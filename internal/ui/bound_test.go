package ui

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// A4.5, A6.9: whatever a server says takes a bounded place on a terminal and in what a
// machine reads; what is to be copied or read whole stays whole. The sentence with
// which a command ends is whole too: what it quotes was cut when it was quoted.
func TestA4_5_WhatAServerSaysIsBounded(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for _, format := range []Format{Text, JSON} {
		for name, say := range map[string]func(p *Printer){
			"Warn": func(p *Printer) { p.Warn(long) },
			"Slot": func(p *Printer) { p.Slot("api", "unreadable", long, Busy) },
		} {
			var shown bytes.Buffer
			say(New(Options{Format: format, Out: &shown, Err: &shown}))
			if n := shown.Len(); n > 10<<10 || !strings.Contains(shown.String(), "…") {
				t.Errorf("%s in %s writes %d bytes", name, format, n)
			}
		}
	}
	var shown bytes.Buffer
	p := New(Options{Format: Text, Out: &shown, Err: &shown})
	p.Log("api", "first\n"+long+"\nlast\n")
	if n := shown.Len(); n > 5<<10 || !strings.Contains(shown.String(), "api | first\n") || !strings.Contains(shown.String(), "api | last\n") {
		t.Errorf("Log writes %d bytes", n)
	}
	for name, say := range map[string]func(p *Printer){
		"Step": func(p *Printer) { p.Step(long) }, "Note": func(p *Printer) { p.Note(long) },
		"Error":   func(p *Printer) { p.Error(errors.New(long), "do this") },
		"Command": func(p *Printer) { p.Command("do", []string{long}) }, "Path": func(p *Printer) { p.Path(long) },
	} {
		var shown bytes.Buffer
		say(New(Options{Format: Text, Out: &shown, Err: &shown}))
		if !strings.Contains(shown.String(), long) {
			t.Errorf("%s is cut to %d bytes", name, shown.Len())
		}
	}
}
