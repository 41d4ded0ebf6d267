package preflight

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// A4.6: the registry is asked only when a node reports another digest, and only
// what it lists makes that the candidate.
func TestImageOfAnIndex(t *testing.T) {
	other := "sha256:" + strings.Repeat("1", 64)
	for _, row := range []struct {
		name   string
		ran    string
		listed []string
		err    error
		asked  int
		passes bool
	}{
		{name: "the candidate itself", ran: digest, asked: 0, passes: true},
		{name: "a manifest that it lists", ran: other, listed: []string{other}, asked: 1, passes: true},
		{name: "something that it does not list", ran: other, listed: []string{digest}, asked: 1},
		{name: "no answer of the registry", ran: other, err: errors.New("no such host"), asked: 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			asked := 0
			one := try(t, exampleProfile(t), func(one *trial) {
				one.model.ran = row.ran
				one.config.Index = func(context.Context, string, string) ([]string, error) {
					asked++
					return row.listed, row.err
				}
			})
			var failed *Failed
			if row.passes != (one.err == nil) || (!row.passes && !errors.As(one.err, &failed)) || asked != row.asked {
				t.Errorf("ended with %v after %d questions", one.err, asked)
			}
			if left := one.model.left(); len(left) > 0 {
				t.Errorf("left %v", left)
			}
		})
	}
}
