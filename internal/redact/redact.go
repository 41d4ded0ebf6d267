// Package redact takes Secret values and credentials out of any text before it
// is written to a file, a log or a terminal (A3.8, A6.8).
//
// Its invariant: what a Redactor was told of does not leave it, neither raw nor
// in the encodings that programs print. Overlapping finds are joined, so that no
// find can save a part of another.
//
// It works on text alone and must not import a k8s.io client. It does not make
// text safe for a terminal; that is for the one who shows it.
//
// Limits, stated: a value shorter than MinValue bytes is not searched for, since
// its absence from every text would tell more than its presence; a value that a
// program splits, reverses or encrypts is not recognised; of a base64 text that
// holds a value among others, up to four bits at each end of it may stay.
package redact

import (
	"bytes"
	"slices"
)

// Mark stands where something was removed.
const Mark = "[redacted]"

// MinValue is the length in bytes below which a value is not searched for.
const MinValue = 4

// Redactor removes the values that it was given, and whatever looks like a
// credential. The zero value knows only the latter. Add everything first: Add
// must not run beside the other methods, which may run beside each other.
type Redactor struct{ patterns [][]byte }

// Add makes the redactor remove value in every form it knows. It reports
// whether the value is long enough to be searched for.
func (r *Redactor) Add(value []byte) bool {
	if len(value) < MinValue {
		return false
	}
	for _, form := range forms(value) {
		known := slices.ContainsFunc(r.patterns, func(p []byte) bool { return bytes.Equal(p, form) })
		if !known {
			r.patterns = append(r.patterns, form)
		}
	}
	return true
}

// String returns text without what must not be seen.
func (r *Redactor) String(text string) string { return string(r.Bytes([]byte(text))) }

// Bytes returns a copy of text without what must not be seen.
func (r *Redactor) Bytes(text []byte) []byte { return replace(text, r.find(text)) }

// span is a half-open range of bytes that must not be seen.
type span struct{ from, to int }

// find returns every span of text to remove, sorted, joined where they touch.
func (r *Redactor) find(text []byte) []span {
	found := credentials(text)
	for _, p := range r.patterns {
		// A value can overlap itself, so the search goes on one byte later.
		for at := 0; ; at++ {
			i := bytes.Index(text[at:], p)
			if i < 0 {
				break
			}
			at += i
			found = append(found, span{at, at + len(p)})
		}
	}
	return join(found)
}

func join(found []span) []span {
	slices.SortFunc(found, func(a, b span) int { return a.from - b.from })
	joined := found[:0]
	for _, s := range found {
		if n := len(joined); n > 0 && s.from <= joined[n-1].to {
			joined[n-1].to = max(joined[n-1].to, s.to)
			continue
		}
		joined = append(joined, s)
	}
	return joined
}

// replace returns text with one Mark for each span.
func replace(text []byte, spans []span) []byte {
	out, at := make([]byte, 0, len(text)), 0
	for _, s := range spans {
		out = append(append(out, text[at:s.from]...), Mark...)
		at = s.to
	}
	return append(out, text[at:]...)
}
