package ui

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// Table shows a summary on Err, one line a row, under a header in capitals. In JSON
// it is one event with the rows as text.
func (p *Printer) Table(header []string, rows [][]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 8, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, strings.ToUpper(strings.Join(header, "\t")))
	for _, cells := range rows {
		escaped := make([]string, len(cells))
		for i, cell := range cells {
			escaped[i] = Escape(cell)
		}
		_, _ = fmt.Fprintln(w, strings.Join(escaped, "\t"))
	}
	_ = w.Flush()
	if p.options.Format == JSON {
		p.emit(event{Event: "summary", Message: text.String()})
		return
	}
	for line := range strings.Lines(text.String()) {
		p.say(strings.TrimRight(line, " \n"))
	}
}
