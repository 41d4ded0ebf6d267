package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"strings"
	"testing"
)

// A3.8, A6.8: whatever stands around a value, in whatever pieces it is written,
// the value does not come out, neither raw nor encoded.
func FuzzRedact(f *testing.F) {
	f.Add([]byte("example-password"), []byte("postgres://demo:"), []byte("@db/demo"), 3)
	f.Add([]byte("aaaa"), []byte("aaa"), []byte("a"), 1)
	f.Add([]byte("line one\nline two"), []byte("Authorization: Bearer "), []byte("\n"), 7)
	f.Add([]byte("[redacted]"), []byte("[reda"), []byte("cted]"), 2)
	f.Add([]byte{0, 0xff, '%', '+'}, []byte("x"), []byte{}, 1)
	f.Fuzz(func(t *testing.T, value, before, after []byte, piece int) {
		// A value that the mark itself or its surroundings spell by chance is not
		// told apart from them by anybody.
		if len(value) < MinValue || bytes.Contains([]byte(Mark), value) || len(value) > 1<<10 || len(before)+len(after) > 1<<12 {
			return
		}
		var r Redactor
		r.Add(value)
		raw := string(value)
		for form, text := range map[string]string{
			"raw": raw, "hex": hex.EncodeToString(value), "base64": base64.StdEncoding.EncodeToString(value),
			"query": url.QueryEscape(raw), "path": url.PathEscape(raw),
		} {
			whole := append(append(bytes.Clone(before), text...), after...)
			shown := r.Bytes(whole)
			// What remains may spell the value only by joining over a mark.
			for _, part := range strings.Split(string(shown), Mark) {
				if strings.Contains(part, raw) || strings.Contains(part, text) {
					t.Fatalf("%q as %s in %q comes out: %q", value, form, whole, shown)
				}
			}
			if written := inPieces(t, &r, whole, piece); written != string(shown) {
				t.Fatalf("in pieces of %d %q becomes %q, not %q", piece, whole, written, shown)
			}
		}
	})
}

func inPieces(t *testing.T, r *Redactor, text []byte, piece int) string {
	t.Helper()
	if piece < 1 || piece > len(text) {
		piece = len(text)
	}
	var out bytes.Buffer
	w := r.Writer(&out)
	for at := 0; at < len(text); at += piece {
		if _, err := w.Write(text[at:min(at+piece, len(text))]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
