package redact

import "unicode/utf8"

// MaxSaid bounds what is kept or shown of one thing that a server said, in bytes. A
// webhook words its refusal as it likes, up to megabytes, and is asked again with
// every retry: on a small disk that would end a cleanup.
const MaxSaid = 4 << 10

// Cut shortens a text to MaxSaid bytes at the boundary of a character, and marks it
// with "…". The text must have been redacted before: half of a value is not recognised
// any more.
func Cut(text string) string {
	const mark = "…"
	if len(text) <= MaxSaid {
		return text
	}
	at := MaxSaid - len(mark)
	for at > 0 && !utf8.RuneStart(text[at]) {
		at--
	}
	return text[:at] + mark
}
