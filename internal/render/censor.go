package render

import (
	"cmp"
	"fmt"
	"io"
	"log"
	"log/slog"
	"slices"
	"strings"
)

// minCensored is the shortest value that is taken out of an error. Shorter ones
// are words like "true" and "443", whose removal would eat the message.
const minCensored = 5

// censor takes the values of a private file out of what Helm says about it: a
// schema's complaint and a template's fail quote them freely, and at that point
// nobody knows yet which of them are Secret values.
type censor struct{ values []string }

// Quiet takes what Helm logs by itself off this process's standard error. It warns of
// values that do not fit together and quotes them, and there is no other way to keep
// that from it. A command calls it once, before it renders.
func Quiet() {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	log.SetOutput(io.Discard)
}

func newCensor(values map[string]any) censor {
	var c censor
	c.collect(values)
	// Longest first, so that a value inside another one does not split it and
	// leave the rest standing.
	slices.SortFunc(c.values, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return c
}

func (c *censor) collect(value any) {
	switch v := value.(type) {
	case map[string]any:
		for _, inner := range v {
			c.collect(inner)
		}
	case []any:
		for _, inner := range v {
			c.collect(inner)
		}
	case nil, bool:
	default:
		if s := fmt.Sprint(v); len(s) >= minCensored {
			c.values = append(c.values, s)
		}
	}
}

func (c *censor) text(err error) string {
	text := err.Error()
	for _, value := range c.values {
		text = strings.ReplaceAll(text, value, "[value]")
		// %q and the JSON of a schema error escape what they quote.
		quoted := strings.Trim(fmt.Sprintf("%q", value), `"`)
		text = strings.ReplaceAll(text, quoted, "[value]")
	}
	return text
}
