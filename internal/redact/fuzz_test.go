package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"strings"
	"testing"
)

// A3.8, A6.8: whatever stands around a value, it does not come out, neither raw nor
// encoded.
func FuzzRedact(f *testing.F) {
	f.Add([]byte("example-password"), []byte("postgres://demo:"), []byte("@db/demo"))
	f.Add([]byte("aaaa"), []byte("aaa"), []byte("a"))
	f.Add([]byte("line one\nline two"), []byte("Authorization: Bearer "), []byte("\n"))
	f.Add([]byte("[redacted]"), []byte("[reda"), []byte("cted]"))
	f.Add([]byte{0, 0xff, '%', '+'}, []byte("x"), []byte{})
	f.Fuzz(func(t *testing.T, value, before, after []byte) {
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
		}
	})
}
