package preflight

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-project/holdfast/internal/cleanup"
	"github.com/holdfast-project/holdfast/internal/ui"
)

// A6.10: a result that could not be made durable is exit 1 and says so, also when
// a signal came while it was tried. Only what the signal stopped is 128 plus its
// number.
func TestEndOfACleanupBesideASignal(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	signals := &interrupts{first: ctx, second: t.Context(), signal: syscall.SIGTERM}
	for name, row := range map[string]struct {
		err  error
		code int
		want string
	}{
		"the signal stopped it": {fmt.Errorf("cleaning up: interrupted: %w", context.Cause(ctx)), 143, "no result was written"},
		"the disk was full":     {errors.New("publishing the cleanup's result: no space left on device"), 1, "no space left on device"},
	} {
		t.Run(name, func(t *testing.T) {
			var shown bytes.Buffer
			c := &command{printer: ui.New(ui.Options{Format: ui.Text, Out: &shown, Err: &shown})}
			if err := c.endCleanup(signals, nil, cleanup.Outcome{}, row.err); err != nil {
				t.Fatal(err)
			}
			if c.code != row.code || !strings.Contains(shown.String(), row.want) {
				t.Errorf("exit %d, want %d\n%s", c.code, row.code, shown.String())
			}
		})
	}
}
