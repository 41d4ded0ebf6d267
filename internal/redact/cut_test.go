package redact

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// A6.9: what a server said is kept up to a bound, never half a character of it.
func TestA6_9_Cut(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "at the bound": strings.Repeat("x", MaxSaid),
	} {
		if got := Cut(text); got != text {
			t.Errorf("%s: it is changed to %d bytes", name, len(got))
		}
	}
	for shift := range 4 {
		text := strings.Repeat("x", shift) + strings.Repeat("𝄞", MaxSaid)
		got := Cut(text)
		if len(got) > MaxSaid || len(got) < MaxSaid-4 || !utf8.ValidString(got) || !strings.HasPrefix(text, strings.TrimSuffix(got, "…")) || !strings.HasSuffix(got, "…") {
			t.Errorf("after %d bytes: %d bytes that end in %q", shift, len(got), got[len(got)-8:])
		}
	}
	if got := Cut(strings.Repeat("x", MaxSaid+1)); len(got) != MaxSaid {
		t.Errorf("one byte over: %d bytes", len(got))
	}
	if got := Cut(strings.Repeat("\x80", 2*MaxSaid)); len(got) > MaxSaid {
		t.Errorf("where no character begins anywhere: %d bytes", len(got))
	}
}

// B6.3: what is cut to another bound, an event's note, is cut so too: no character is
// cut, and the last one that is whole stays.
func TestB6_3_CutBetweenCharacters(t *testing.T) {
	const most = 1024
	const kept = most - len("…")
	for name, row := range map[string]struct{ text, want string }{
		"short enough":          {strings.Repeat("a", most), strings.Repeat("a", most)},
		"too long":              {strings.Repeat("a", most+1), strings.Repeat("a", kept) + "…"},
		"a whole last one":      {strings.Repeat("a", kept-3) + "€" + strings.Repeat("a", 9), strings.Repeat("a", kept-3) + "€…"},
		"a cut one":             {strings.Repeat("a", kept-2) + "€" + strings.Repeat("a", 9), strings.Repeat("a", kept-2) + "…"},
		"the first byte of one": {strings.Repeat("a", kept-1) + "€" + strings.Repeat("a", 9), strings.Repeat("a", kept-1) + "…"},
	} {
		if got := CutTo(row.text, most); got != row.want {
			t.Errorf("%s: got %d bytes that end in %q, want %d", name, len(got), got[len(got)-6:], len(row.want))
		}
	}
}
