package ui

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// A7.1: whatever a Pod or a webhook says, nothing of it reaches a terminal as a
// control, and what is safe is shown as it is.
func FuzzEscape(f *testing.F) {
	for _, text := range []string{"plain", "ä ✓ 漢", "a\tb\r\n", "\x1b[2J", "\u202egnp.exe", "\xff\xfe", "\u2028", "\\x1b", "\ufffd", "a\x00"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		shown := Escape(text)
		if !utf8.ValidString(shown) || strings.ContainsFunc(shown, unsafeRune) {
			t.Fatalf("%q is shown as %q", text, shown)
		}
		if again := Escape(shown); again != shown {
			t.Fatalf("%q is escaped again to %q", shown, again)
		}
		if !strings.ContainsFunc(text, unsafeRune) && shown != text {
			t.Fatalf("%q is safe and shown as %q", text, shown)
		}
	})
}

// A4.1: whatever the operator's paths hold, a shell splits the printed command
// into exactly these arguments.
func FuzzQuote(f *testing.F) {
	f.Add("--kubeconfig", "/it's here/config")
	f.Add("", "a b")
	f.Add("$(id)", "`id`;\n")
	f.Add("\\", "'\\''")
	f.Fuzz(func(t *testing.T, first, second string) {
		line := Quote([]string{first, second})
		got := split(t, line)
		if len(got) != 2 || got[0] != first || got[1] != second {
			t.Fatalf("%q and %q are printed as %s and read as %q", first, second, line, got)
		}
	})
}

// split is what a POSIX shell makes of a line of plain and single-quoted words.
func split(t *testing.T, line string) (words []string) {
	t.Helper()
	word, quoted, started := []byte{}, false, false
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quoted && c != '\'':
			word = append(word, c)
		case c == '\'':
			quoted, started = !quoted, true
		case c == '\\' && i+1 < len(line):
			i++
			word, started = append(word, line[i]), true
		case c == ' ':
			if started {
				words = append(words, string(word))
			}
			word, started = word[:0], false
		case !strings.ContainsRune(shellSafe, rune(c)):
			t.Fatalf("%q stands unquoted in %s", c, line)
		default:
			word, started = append(word, c), true
		}
	}
	if quoted {
		t.Fatalf("a quote is open at the end of %s", line)
	}
	return append(words, string(word))
}
