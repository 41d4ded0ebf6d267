// Package strictjson reads and writes JSON records that a deletion may rest on.
//
// Its invariant: there is exactly one encoding of a record, and only that one
// is read. [Decode] returns nil only when [Encode] of the result gives the very
// same bytes. So nothing is ever ignored, guessed, defaulted or read in two
// ways, and a digest of the bytes is a digest of the meaning.
//
// It imports nothing but the standard library, and knows no record.
package strictjson

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// maxDepth bounds how deep objects and lists may be nested. A Kubernetes
// manifest needs about fifteen levels; a thousand are an attack on the stack.
const maxDepth = 64

// Encode returns the canonical form of v: fields in their declared order, maps
// sorted, two spaces of indent, "<", ">" and "&" as they are, and a final
// newline. It is what jq prints, so that an operator can recompute a digest.
func Encode(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encoding a record: %w", err)
	}
	return out.Bytes(), nil
}

// Compact is Encode without the white space: the spelling that Canonical accepts.
func Compact(v any) ([]byte, error) {
	text, err := Encode(v)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Compact(&out, text); err != nil {
		return nil, fmt.Errorf("encoding a record: %w", err)
	}
	return out.Bytes(), nil
}

// Sum returns the SHA-256 of data in lower-case hex.
func Sum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// SumOf returns the SHA-256 of v's canonical form in lower-case hex.
func SumOf(v any) (string, error) {
	data, err := Encode(v)
	if err != nil {
		return "", err
	}
	return Sum(data), nil
}

// Decode reads one record of at most maxBytes bytes into v, a pointer to a
// struct. It refuses what A1.5 lists: more than one value or a byte after it,
// an unknown field, a duplicate key at any depth, a wrong type, invalid UTF-8,
// nesting beyond maxDepth, and every spelling but the canonical one. The error
// is a clause that continues the file's name.
func Decode(data []byte, maxBytes int, v any) error {
	if len(data) > maxBytes {
		return fmt.Errorf("is larger than %d bytes", maxBytes)
	}
	if !utf8.Valid(data) {
		return errors.New("is not valid UTF-8")
	}
	if err := checkShape(data); err != nil {
		return err
	}
	if err := decodeKnown(data, v); err != nil {
		return err
	}
	again, err := Encode(v)
	if err != nil {
		return err
	}
	if !bytes.Equal(again, data) {
		return errors.New("is not in its canonical form: a field is missing, or its order, spelling or spacing was changed")
	}
	return nil
}

// decodeKnown decodes into v and refuses fields that v has not.
func decodeKnown(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	err := dec.Decode(v)
	var wrongType *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrongType):
		// The path may name Go structs that are embedded; its end is the field.
		field := wrongType.Field[strings.LastIndex(wrongType.Field, ".")+1:]
		return fmt.Errorf("has a JSON %s in field %q, where a value of type %s belongs", wrongType.Value, field, wrongType.Type)
	case err != nil:
		return fmt.Errorf("is not a record of this version: %w", err)
	}
	return nil
}

// Canonical reports whether raw, read without its white space, is the one
// encoding of its value: keys sorted, no escape that is not needed. It is for
// embedded objects of foreign types, whose spelling Encode would keep.
func Canonical(raw json.RawMessage) error {
	var value map[string]any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&value); err != nil {
		return fmt.Errorf("is not a JSON object: %w", err)
	}
	want, err := Compact(value)
	if err != nil {
		return err
	}
	var got bytes.Buffer
	if err := json.Compact(&got, raw); err != nil {
		return fmt.Errorf("is not JSON: %w", err)
	}
	if !bytes.Equal(want, got.Bytes()) {
		return errors.New("is not in canonical form")
	}
	return nil
}

// level is one open object or list.
type level struct {
	// keys is nil for a list.
	keys map[string]bool
	// wantKey is true where the next token must be a key or the object's end.
	wantKey bool
}

// checkShape reads data as tokens: one object, nothing after it, no key twice,
// no deeper than maxDepth. encoding/json takes the last of two equal keys
// silently, and a reader in another language may take the first.
func checkShape(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var open []level
	for {
		token, err := dec.Token()
		if err != nil {
			return fmt.Errorf("is not complete JSON: %w", noEOF(err))
		}
		if open, err = step(open, token); err != nil {
			return err
		}
		if len(open) == 0 {
			break
		}
	}
	if rest := bytes.TrimLeft(data[dec.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return errors.New("has bytes after its object")
	}
	return nil
}

// step applies one token to the open levels and returns those that remain.
func step(open []level, token json.Token) ([]level, error) {
	if top := len(open) - 1; top >= 0 && open[top].wantKey {
		if key, ok := token.(string); ok {
			return open, open[top].take(key)
		}
	}
	switch token {
	case json.Delim('{'), json.Delim('['):
		return enter(open, token == json.Delim('{'))
	case json.Delim('}'), json.Delim(']'):
		open = open[:len(open)-1]
	default:
		if len(open) == 0 {
			return nil, errNotObject()
		}
	}
	if top := len(open) - 1; top >= 0 {
		open[top].wantKey = open[top].keys != nil
	}
	return open, nil
}

// take accepts the next key of an object.
func (l *level) take(key string) error {
	if l.keys[key] {
		return fmt.Errorf("has the key %q twice in one object", key)
	}
	l.keys[key] = true
	l.wantKey = false
	return nil
}

// enter opens an object or a list.
func enter(open []level, object bool) ([]level, error) {
	switch {
	case len(open) == maxDepth:
		return nil, fmt.Errorf("is nested deeper than %d levels", maxDepth)
	case object:
		return append(open, level{keys: map[string]bool{}, wantKey: true}), nil
	case len(open) == 0:
		return nil, errNotObject()
	}
	return append(open, level{}), nil
}

func errNotObject() error { return errors.New("is not one JSON object") }

// noEOF names the end of a cut-off file as such.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
