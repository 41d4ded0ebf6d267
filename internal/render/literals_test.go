package render

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
)

// A3.3, A6.8: a plan is written to disk, so that a Secret's value may stand in no
// literal of it, in none of the ways in which a template or a chart writes one into
// another text.
func TestA6_8_LiteralsInEveryForm(t *testing.T) {
	const long, short, file, binary = "p@ss/word:1 & \"more\"", "hun/ter", "trimmed-value\n", "\xff\x00\x10"
	quoted, err := json.Marshal(long)
	if err != nil {
		t.Fatal(err)
	}
	secrets := [][]byte{[]byte(long), []byte(short), []byte(file), []byte(binary)}
	for name, literal := range map[string]string{
		"raw":                               "postgres://u:" + long + "@db/x",
		"for a URL's query":                 "postgres://u:" + url.QueryEscape(long) + "@db/x",
		"for a URL's path":                  "postgres://u:" + url.PathEscape(long) + "@db/x",
		"in hex":                            "key=" + hex.EncodeToString([]byte(long)),
		"in upper-case hex":                 strings.ToUpper(hex.EncodeToString([]byte(long))),
		"in base64":                         "Basic " + base64.StdEncoding.EncodeToString([]byte(long)),
		"in base64 without padding":         base64.RawURLEncoding.EncodeToString([]byte(long)),
		"in base64 beside a user name":      base64.StdEncoding.EncodeToString([]byte("u:" + long)),
		"in JSON":                           `{"password":` + string(quoted) + `}`,
		"without its line break":            "token=trimmed-value",
		"short, as a password":              "postgres://u:" + short + "@db/x",
		"short, as an escaped password":     "postgres://u:" + url.QueryEscape(short) + "@db/x",
		"short, as a password without user": "redis://:" + short + "@db",
		"short and no text, in hex":         "redis://:" + hex.EncodeToString([]byte(binary)) + "@db",
	} {
		if !holdsSecret(literal, secrets) {
			t.Errorf("%s: let through", name)
		}
	}
	// A refusal of these could not be got rid of.
	for name, literal := range map[string]string{
		"a short value as a word":        "run " + short,
		"a short value as a user":        "postgres://" + short + ":other@db",
		"a short value in a password":    "postgres://u:" + short + "-other@db",
		"a short value as a port":        "http://" + short + ":80/x@y",
		"a reference to a variable":      "postgres://$(USER):$(PASSWORD)@db",
		"half a value":                   long[:len(long)-1],
		"what a longer value would trim": "trimmed",
		"nothing":                        "",
	} {
		if holdsSecret(literal, secrets) {
			t.Errorf("%s: refused", name)
		}
	}
}
