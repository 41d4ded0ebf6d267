package redact

import "io"

// Writer returns a writer that redacts what is written and passes it on to w,
// whatever way the text is cut into writes. It keeps back the last bytes, in
// which a value may just have begun: Close passes them on; it does not close w.
// A private key that never ends is kept back until Close.
func (r *Redactor) Writer(w io.Writer) io.WriteCloser {
	reach := max(r.longest, credentialReach)
	return &writer{redactor: r, w: w, reach: reach, next: 2 * reach}
}

type writer struct {
	redactor *Redactor
	w        io.Writer
	kept     []byte
	// reach is how much of kept may be the beginning of something that cannot
	// be recognised yet.
	reach int
	// next is how long kept must be before it is searched again; it grows with
	// what could not be passed on, so that the work stays linear.
	next int
	err  error
}

// Write redacts and passes on all but the last bytes.
func (w *writer) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	w.kept = append(w.kept, p...)
	if len(w.kept) >= w.next {
		spans := w.redactor.find(w.kept)
		w.pass(spans, cut(spans, len(w.kept)-w.reach))
		w.next = 2 * max(w.reach, len(w.kept))
	}
	if w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}

// cut moves end back until it lies inside no find and between no find and the
// words that make it one.
func cut(spans []span, end int) int {
	for moved := true; moved; {
		moved = false
		for _, s := range spans {
			if s.context < end && end < s.to {
				end, moved = s.context, true
			}
		}
	}
	return end
}

// pass writes the redacted form of the first end bytes and forgets them.
func (w *writer) pass(spans []span, end int) {
	n := 0
	for n < len(spans) && spans[n].to <= end {
		n++
	}
	out := replace(w.kept[:end], spans[:n])
	w.kept = append([]byte(nil), w.kept[end:]...)
	if len(out) > 0 {
		_, w.err = w.w.Write(out)
	}
}

// Close passes on what was kept back.
func (w *writer) Close() error {
	if w.err == nil {
		w.pass(w.redactor.find(w.kept), len(w.kept))
	}
	return w.err
}
