package kube

import (
	"strings"
	"testing"
)

// B6.3: an event's note is cut at the API's bound, and no character with it: the last
// one that is whole stays.
func TestB6_3_ANoteIsCutBetweenCharacters(t *testing.T) {
	const kept = maxNote - len("…")
	for name, row := range map[string]struct{ text, want string }{
		"short enough":          {strings.Repeat("a", maxNote), strings.Repeat("a", maxNote)},
		"too long":              {strings.Repeat("a", maxNote+1), strings.Repeat("a", kept) + "…"},
		"a whole last one":      {strings.Repeat("a", kept-3) + "€" + strings.Repeat("a", 9), strings.Repeat("a", kept-3) + "€…"},
		"a cut one":             {strings.Repeat("a", kept-2) + "€" + strings.Repeat("a", 9), strings.Repeat("a", kept-2) + "…"},
		"the first byte of one": {strings.Repeat("a", kept-1) + "€" + strings.Repeat("a", 9), strings.Repeat("a", kept-1) + "…"},
	} {
		if got := cut(row.text); got != row.want {
			t.Errorf("%s: got %d bytes that end in %q, want %d", name, len(got), got[len(got)-6:], len(row.want))
		}
	}
}
