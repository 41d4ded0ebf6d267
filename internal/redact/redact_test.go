package redact

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

const canary = "S3cr3t/+\"<&>'é pass\tword~canary"

func knowing(values ...string) *Redactor {
	var r Redactor
	for _, v := range values {
		r.Add([]byte(v))
	}
	return &r
}

// A6.8, A3.8: every encoding in which a program could print a value.
func TestA6_8_EveryFormIsRemoved(t *testing.T) {
	marshalled, err := json.Marshal(map[string]string{"k": canary})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"raw":             "x" + canary + "y",
		"base64":          base64.StdEncoding.EncodeToString([]byte(canary)),
		"base64 raw":      base64.RawStdEncoding.EncodeToString([]byte(canary)),
		"base64 url":      base64.URLEncoding.EncodeToString([]byte(canary)),
		"base64 url raw":  base64.RawURLEncoding.EncodeToString([]byte(canary)),
		"base64 within 0": base64.StdEncoding.EncodeToString([]byte("abc" + canary + "tail")),
		"base64 within 1": base64.StdEncoding.EncodeToString([]byte("abcd" + canary + "tail")),
		"base64 within 2": base64.URLEncoding.EncodeToString([]byte("abcde" + canary + "tail")),
		"hex":             hex.EncodeToString([]byte(canary)),
		"HEX":             strings.ToUpper(hex.EncodeToString([]byte(canary))),
		"query":           url.QueryEscape(canary),
		"path":            url.PathEscape(canary),
		"percent 20":      strings.ReplaceAll(url.QueryEscape(canary), "+", "%20"),
		"percent lower":   lowerHex(url.QueryEscape(canary)),
		"json":            string(marshalled),
		"go":              strconv.Quote(canary),
		"go ascii":        fmt.Sprintf("%+q", canary),
	} {
		t.Run(name, func(t *testing.T) {
			out := knowing(canary).String("before " + text + " after")
			if !strings.Contains(out, Mark) || !strings.HasPrefix(out, "before ") || !strings.HasSuffix(out, " after") {
				t.Fatalf("%q becomes %q", text, out)
			}
			// Nothing of it may be left but its neighbours in an encoded text.
			if left := strings.NewReplacer("before ", "", " after", "", Mark, "").Replace(out); len(left) > 14 {
				t.Errorf("%q leaves %q", text, left)
			}
		})
	}
}

// Control: without the value the same text passes unchanged, so the finds above
// are the value's.
func TestOtherTextIsLeftAlone(t *testing.T) {
	text := "reading Job ns/name: 403 Forbidden: basic constraints; invalid bearer token: authentication failed at https://10.0.0.1:6443/api"
	if out := knowing(canary).String(text); out != text {
		t.Errorf("becomes %q", out)
	}
}

func TestOverlappingValuesLeaveNothing(t *testing.T) {
	out := knowing("abcdef", "defghij", "aaaa").String("x abcdefghij y aaaaaaa z")
	if out != "x [redacted] y [redacted] z" {
		t.Errorf("got %q", out)
	}
}

func TestShortValuesAreNotSearchedFor(t *testing.T) {
	var r Redactor
	if r.Add([]byte("abc")) || r.Add(nil) {
		t.Error("a value of fewer than 4 bytes is said to be searched for")
	}
	if !r.Add([]byte("abcd")) || r.String("abc abcd") != "abc [redacted]" {
		t.Errorf("got %q", r.String("abc abcd"))
	}
}

func TestValuesOfSeveralLines(t *testing.T) {
	r := knowing("first-line-of-it\nsecond-line-of-it\n")
	if out := r.String("pod: first-line-of-it\npod: second-line-of-it\n"); strings.Contains(out, "line-of-it") {
		t.Errorf("got %q", out)
	}
	if out := knowing("trailing-newline\n").String("it is trailing-newline."); out != "it is [redacted]." {
		t.Errorf("got %q", out)
	}
}

// A3.8: credentials that nobody told the redactor of.
func TestA3_8_Credentials(t *testing.T) {
	key := "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAK\n-----END RSA PRIVATE KEY-----"
	for _, row := range []struct{ text, want string }{
		{"Authorization: Bearer abcdefgh.ijklmnop.q", "Authorization: Bearer [redacted]"},
		{"authorization: basic dXNlcjpwYXNz", "authorization: basic [redacted]"},
		{`{"Authorization":["Basic dXNlcjpwYXNz"]}`, `{"Authorization":["Basic [redacted]"]}`},
		{"dial https://user:pa%20ss@proxy:3128/x", "dial https://[redacted]@proxy:3128/x"},
		{"a " + key + " b", "a [redacted] b"},
		{"cut " + key[:50], "cut [redacted]"},
		{"json " + strings.ReplaceAll(key, "\n", `\n`) + ".", "json [redacted]."},
		{"sa eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln-_ end", "sa [redacted] end"},
		{"client-key-data: LS0tLS1CRUdJTg==", "client-key-data: [redacted]"},
		{`{"status":{"token":"abcdef"}}`, `{"status":{"token":"[redacted]"}}`},
		{"PASSWORD=hunter22 x", "PASSWORD=[redacted] x"},
	} {
		if got := knowing().String(row.text); got != row.want {
			t.Errorf("%q becomes %q, want %q", row.text, got, row.want)
		}
	}
}
