package render

import (
	"fmt"
	"strings"
)

// InputError is an input that cannot be used, told in one sentence. Everything
// that this package refuses is one: the caller ends with exit 2 (A4.2).
type InputError struct {
	// Input names what was refused, as an operator knows it: "profile",
	// "chart", "values", "image", "release".
	Input string
	// Reason is one lower-case clause; it holds no Secret value.
	Reason string
}

// Error returns "using the <input>: <reason>".
func (e *InputError) Error() string { return fmt.Sprintf("using the %s: %s", e.Input, e.Reason) }

// refuse puts the reason on one line: what parsers say often has several.
func refuse(input, format string, args ...any) error {
	return &InputError{Input: input, Reason: strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")}
}
