package ui

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// Table puts rows on Out, one line each, under a header in capitals. It is data:
// a pipe gets the same text. In JSON it writes nothing, since the same facts are
// in the result that Path names.
func (p *Printer) Table(header []string, rows [][]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.options.Format == JSON {
		return
	}
	p.erase()
	w := tabwriter.NewWriter(p.options.Out, 0, 8, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, strings.ToUpper(strings.Join(header, "\t")))
	for _, cells := range rows {
		escaped := make([]string, len(cells))
		for i, cell := range cells {
			escaped[i] = Escape(cell)
		}
		_, _ = fmt.Fprintln(w, strings.Join(escaped, "\t"))
	}
	_ = w.Flush()
	p.draw()
}
