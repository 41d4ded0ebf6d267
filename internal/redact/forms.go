package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// minEncoded is the length below which an encoded fragment is too likely to be
// found in text that has nothing to do with the value.
const minEncoded = 6

// minLine is the length below which a line of a value of several lines is not
// searched for by itself.
const minLine = 8

// forms returns the value as programs print it: raw, without surrounding white
// space, line by line, and each of these encoded.
func forms(value []byte) [][]byte {
	plain := [][]byte{value}
	if trimmed := bytes.TrimSpace(value); len(trimmed) >= MinValue {
		plain = append(plain, trimmed)
	}
	if bytes.ContainsRune(value, '\n') {
		for line := range bytes.Lines(value) {
			if line = bytes.TrimSpace(line); len(line) >= minLine {
				plain = append(plain, line)
			}
		}
	}
	var all [][]byte
	for _, p := range plain {
		all = append(all, Encodings(p)...)
	}
	return all
}

// Encodings returns the ways in which programs write the value into another text: as
// it is, in hex, in base64, in a URL, in a string literal. None is shorter than the
// value.
func Encodings(value []byte) [][]byte {
	all := append([][]byte{value}, hexed(value)...)
	all = append(all, based(value)...)
	all = append(all, percent(string(value))...)
	return append(all, quoted(string(value))...)
}

func hexed(p []byte) [][]byte {
	lower := hex.EncodeToString(p)
	return [][]byte{[]byte(lower), []byte(strings.ToUpper(lower))}
}

// based returns the base64 forms: whole, with and without padding, and the
// characters that the value alone determines when it begins one or two bytes
// into a group, as inside a longer encoded text.
func based(p []byte) [][]byte {
	var all [][]byte
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		all = append(all, []byte(encoding.EncodeToString(p)), []byte(encoding.WithPadding(base64.NoPadding).EncodeToString(p)))
		for offset := range 3 {
			shifted := append(make([]byte, offset), p...)
			text := encoding.EncodeToString(shifted)
			// The characters that hold bits of the bytes before, and those that
			// hold bits of the bytes after, are not the value's alone.
			core := text[(offset*8+5)/6 : len(shifted)*8/6]
			if len(core) >= minEncoded {
				all = append(all, []byte(core))
			}
		}
	}
	return all
}

// percent returns the ways in which a URL carries the value.
func percent(s string) [][]byte {
	query := url.QueryEscape(s)
	component := strings.NewReplacer("%21", "!", "%27", "'", "%28", "(", "%29", ")", "%2A", "*").Replace(strings.ReplaceAll(query, "+", "%20"))
	var all [][]byte
	for _, form := range []string{query, strings.ReplaceAll(query, "+", "%20"), component, url.PathEscape(s)} {
		all = append(all, []byte(form), []byte(lowerHex(form)))
	}
	return all
}

// lowerHex turns %2F into %2f and leaves the rest.
func lowerHex(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], bytes.ToLower(b[i+1:i+3]))
		}
	}
	return string(b)
}

// quoted returns the inside of JSON and Go string literals.
func quoted(s string) [][]byte {
	all := [][]byte{inside(strconv.Quote(s)), inside(strconv.QuoteToASCII(s)), inside(fmt.Sprintf("%+q", s))}
	if escaped, err := json.Marshal(s); err == nil {
		all = append(all, inside(string(escaped)))
	}
	var plain strings.Builder
	encoder := json.NewEncoder(&plain)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(s) == nil {
		all = append(all, inside(strings.TrimSuffix(plain.String(), "\n")))
	}
	return all
}

func inside(literal string) []byte { return []byte(literal[1 : len(literal)-1]) }
