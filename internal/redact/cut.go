package redact

import "unicode/utf8"

// MaxSaid bounds what is kept or shown of one thing that a server said, in bytes. A
// webhook words its refusal as it likes, up to megabytes, and is asked again with
// every retry: on a small disk that would end a cleanup.
const MaxSaid = 4 << 10

// Cut is CutTo with MaxSaid.
func Cut(text string) string { return CutTo(text, MaxSaid) }

// CutTo shortens a text to most bytes, at least three, at the boundary of a character,
// and marks it with "…". A text that may hold a
// Secret's value must have been redacted before: half of one is not recognised any more.
func CutTo(text string, most int) string {
	const mark = "…"
	if len(text) <= most {
		return text
	}
	at := most - len(mark)
	for at > 0 && !utf8.RuneStart(text[at]) {
		at--
	}
	return text[:at] + mark
}
