package preflight

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-project/holdfast/internal/cleanup"
	"github.com/holdfast-project/holdfast/internal/evidence"
	run "github.com/holdfast-project/holdfast/internal/preflight"
	"github.com/holdfast-project/holdfast/internal/redact"
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
		"the disk was full":     {errors.New("publishing the cleanup's result: no space left on device"), 1, "no space left on device\n" + ui.Program + ": hint: " + noResult},
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

// A4.1, A6.10: a run whose evidence could not be written ends with 1, also when a
// signal came: 128 plus its number would say that what happened is on the disk. An
// uncertain create that a signal gave up is the signal's.
func TestEndOfARunBesideASignal(t *testing.T) {
	signals := &interrupts{first: t.Context(), second: t.Context(), signal: syscall.SIGINT}
	full := errors.New("no space left on device")
	for name, row := range map[string]struct {
		err  error
		code int
		want string
	}{
		"the signal stopped it":               {run.ErrInterrupted, 130, "interrupted by a signal"},
		"it stopped the cleanup of a failure": {fmt.Errorf("%w; and its cleanup was %w", &run.Failed{Slot: "api", Reason: "exit code 3"}, run.ErrInterrupted), 130, "slot api failed: exit code 3; and its cleanup was interrupted"},
		"the signal gave up a create":         {&run.Uncertain{Slot: "secret", Reason: "given up"}, 130, "unknown outcome"},
		"a receipt was not written":           {&run.NotDurable{Err: full}, 1, "no space left on device"},
		"its cleanup was not recorded":        {&run.Unfinished{Err: full}, 1, "no space left on device"},
	} {
		t.Run(name, func(t *testing.T) {
			var shown bytes.Buffer
			c := &command{printer: ui.New(ui.Options{Format: ui.Text, Out: &shown, Err: &shown})}
			if err := c.endRun(signals, run.Outcome{}, row.err); err != nil {
				t.Fatal(err)
			}
			if c.code != row.code || !strings.Contains(shown.String(), row.want) {
				t.Errorf("exit %d, want %d\n%s", c.code, row.code, shown.String())
			}
		})
	}
}

// A4.1: a run that failed says beside the cleanup command whether anything is left for
// it: its own cleanup may have confirmed that nothing is.
func TestEndOfAFailedRunSaysWhatIsLeft(t *testing.T) {
	signals := &interrupts{first: t.Context(), second: t.Context()}
	const absent = "everything that it created is confirmed absent"
	for name, row := range map[string]struct {
		outcome run.Outcome
		err     error
		says    bool
	}{
		"all of it is gone":     {run.Outcome{ResultPath: "/e/r", Result: evidence.Result{Verdict: evidence.Complete}}, &run.Failed{Slot: "api"}, true},
		"something is left":     {run.Outcome{ResultPath: "/e/r", Inventory: &evidence.Inventory{}}, &run.Unfinished{}, false},
		"a create is uncertain": {run.Outcome{}, &run.Uncertain{Slot: "api"}, false},
		"a signal came":         {run.Outcome{}, run.ErrInterrupted, false},
		"one was reconciled":    {run.Outcome{ResultPath: "/e/r", Inventory: &evidence.Inventory{}, Result: evidence.Result{Verdict: evidence.ReconciledByHand}}, run.ErrReconciled, false},
		"no result was written": {run.Outcome{Result: evidence.Result{Verdict: evidence.Complete}}, &run.NotDurable{Err: errors.New("no")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var shown bytes.Buffer
			c := &command{printer: ui.New(ui.Options{Format: ui.Text, Out: &shown, Err: &shown}), options: options{kubeconfig: "/k"}}
			row.outcome.Directory = "/e"
			if err := c.endRun(signals, row.outcome, row.err); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(shown.String(), absent) != row.says || !strings.Contains(shown.String(), " --cleanup-preflight --kubeconfig /k ") {
				t.Errorf("got\n%s", shown.String())
			}
		})
	}
}

// A4.1, A6.10: a command that was started under nohup goes on when its terminal is
// closed, and still ends at another signal.
func TestIgnoredSignalStaysIgnored(t *testing.T) {
	signal.Ignore(syscall.SIGHUP)
	defer signal.Reset(syscall.SIGHUP)
	i := watch(t.Context())
	defer i.release()
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM} {
		if err := syscall.Kill(syscall.Getpid(), s); err != nil {
			t.Fatal(err)
		}
	}
	<-i.first.Done()
	if code, _ := i.code(); code != 143 {
		t.Errorf("it ends with %d, want that of SIGTERM", code)
	}
}

// A6.10: after the result is durable a signal changes nothing, up to the end of the
// process: it does not end it with a code of its own.
func TestSignalAfterTheEndChangesNothing(t *testing.T) {
	taken := []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM}
	defer func() {
		for _, s := range taken {
			signal.Reset(s)
		}
	}()
	i := watch(t.Context())
	i.release()
	for _, s := range taken {
		if err := syscall.Kill(syscall.Getpid(), s); err != nil {
			t.Fatal(err)
		}
	}
	// This test is red when there is nobody left to say so.
	time.Sleep(50 * time.Millisecond)
	if code, came := i.code(); came {
		t.Errorf("a signal after the end was taken for one that ended it: %d", code)
	}
}

// A3.8: what is wrong with a kubeconfig is said without the passwords in it.
func TestRefusedKubeconfigHidesItsPasswords(t *testing.T) {
	const canary = "s3cr3t-canary"
	for name, row := range map[string]struct{ cluster, user, want string }{
		"a proxy of an unknown scheme":    {`server: "https://h:1", proxy-url: "foo://a:` + canary + `@p:1"`, "", "unsupported scheme"},
		"a proxy that cannot be parsed":   {`server: "https://h:1", proxy-url: "http://a:` + canary + `@p:port"`, "", "proxy-url"},
		"a server that cannot be parsed":  {`server: "https://a:` + canary + `@h:port"`, "", "host must be a URL"},
		"a password that is a YAML alias": {`server: "https://h:1"`, "password: *" + canary, "cannot be decoded"},
	} {
		t.Run(name, func(t *testing.T) {
			kubeconfig := "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {" + row.cluster + "}}]\n" +
				"contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {" + row.user + "}}]\n"
			c := &command{redact: &redact.Redactor{}, options: options{context: "c"}}
			_, err := c.client(protected{path: "/kubeconfig", data: []byte(kubeconfig)})
			if err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), canary) {
				t.Errorf("%v, want %q", err, row.want)
			}
		})
	}
}
