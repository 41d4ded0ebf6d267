package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// verdict is what became of a fault.
type verdict int

const (
	lived verdict = iota
	killed
	notViable
)

// patience bounds a run of tests. The time on the clock is generous, since the
// machine may be busy with something else; the time on the processor is not.
type patience struct{ clock, processor time.Duration }

// baselinePatience is for a run that nothing is known of yet.
func baselinePatience() patience { return patience{clock: 20 * time.Minute, processor: time.Hour} }

// trial runs tests with faults compiled in.
type trial struct {
	workshop
	jobs int
	// report is told each verdict, by which tests a fault was killed or why those
	// that are red do not count, and how long that took. Calls do not overlap.
	report func(f fault, v verdict, by string, took time.Duration)
	// programs holds the test program of each package with all woven faults, and
	// patience what a run of it may last: a fault may make a loop endless.
	programs map[string]string
	patience map[string]patience
}

// run tries the faults side by side and returns their verdicts in order.
func (t *trial) run(ctx context.Context, faults []fault) ([]verdict, error) {
	w, overlay, refused, err := t.weaveAll(ctx, faults)
	if err != nil {
		return nil, err
	}
	if err := t.baseline(ctx, faults, overlay); err != nil {
		return nil, err
	}
	verdicts := make([]verdict, len(faults))
	problems := make([]error, len(faults))
	var mu sync.Mutex
	var workers sync.WaitGroup
	next := make(chan int)
	for range t.jobs {
		workers.Go(func() {
			for i := range next {
				began := time.Now()
				v, by, err := t.try(ctx, faults[i], i, w.in[i])
				mu.Lock()
				verdicts[i], problems[i] = v, err
				t.report(faults[i], v, by, time.Since(began))
				mu.Unlock()
			}
		})
	}
	for i := range faults {
		if refused[i] {
			verdicts[i] = notViable
			continue
		}
		next <- i
	}
	close(next)
	workers.Wait()
	return verdicts, errors.Join(problems...)
}

// baseline builds every test program and runs, with no fault switched on, all
// tests that a fault relies on. A test that is red by itself would catch
// everything.
func (t *trial) baseline(ctx context.Context, faults []fault, overlay string) error {
	t.programs, t.patience = map[string]string{}, map[string]patience{}
	patterns, short := map[string][]string{}, map[string]bool{}
	for _, f := range faults {
		for _, pkg := range f.tests {
			if _, met := patterns[pkg]; !met {
				short[pkg] = true
			}
			short[pkg] = short[pkg] && f.short
			if !slices.Contains(patterns[pkg], f.run) {
				patterns[pkg] = append(patterns[pkg], f.run)
			}
		}
	}
	for pkg, runs := range patterns {
		program, err := t.tests(ctx, overlay, pkg)
		if err != nil {
			return err
		}
		t.programs[pkg] = program
		run := strings.Join(runs, "|")
		if slices.Contains(runs, "") {
			run = ""
		}
		began := time.Now()
		cmd := command(ctx, program, fault{run: run, short: short[pkg]}, pkg, 0, baselinePatience())
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("the tests of %s fail without any fault: %w\n%s", pkg, err, out)
		}
		t.patience[pkg] = patience{
			clock:     time.Minute + 5*time.Since(began),
			processor: 5*time.Second + 3*(cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()),
		}
	}
	return nil
}

// try switches fault i on, or builds it alone, and runs what must notice it.
func (t *trial) try(ctx context.Context, f fault, i int, wovenIn bool) (verdict, string, error) {
	objections := ""
	for _, pkg := range f.tests {
		program, number := t.programs[pkg], i+1
		if !wovenIn {
			var err error
			if program, err = t.buildAlone(ctx, f, i, pkg); errors.Is(err, errNotViable) {
				return notViable, "", nil
			} else if err != nil {
				return lived, "", err
			}
			number = 0
		}
		out, err := command(ctx, program, f, pkg, number, t.patience[pkg]).CombinedOutput()
		var ended *exec.ExitError
		switch {
		case ctx.Err() != nil:
			return lived, "", ctx.Err()
		case errors.As(err, &ended):
			objection := f.objection(out, ended)
			if objection == "" {
				return killed, redTests(out), nil
			}
			objections += fmt.Sprintf("\n       %s %s", pkg, objection)
		case err != nil:
			return lived, "", fmt.Errorf("running the tests of %s: %w", pkg, err)
		}
	}
	return lived, objections, nil
}

// objection says why tests that ended red are no proof that they noticed the fault,
// or returns "". A planted fault is about one promise, and must be caught by what
// tests that promise: not by anything else that its tests assert, by the end of
// their time, or by what ends the process. Of generated ones many are endless loops.
func (f fault) objection(out []byte, ended *exec.ExitError) string {
	said := slices.Concat(out, []byte(ended.Error()))
	status, _ := ended.Sys().(syscall.WaitStatus)
	switch {
	case f.says != nil && f.says.Match(said):
		return ""
	case f.says != nil:
		return fmt.Sprintf("did not say %q, but\n%s", f.says, firstLines(said, 20))
	case f.planted && (status.Signaled() || bytes.Contains(out, []byte("panic: test timed out"))):
		return fmt.Sprintf("did not end by itself, and the list does not say that it would not:\n%s", firstLines(said, 20))
	default:
		return ""
	}
}

// firstLines cuts long output short.
func firstLines(text []byte, n int) string {
	lines := strings.SplitN(string(text), "\n", n+1)
	return strings.Join(lines[:min(n, len(lines))], "\n")
}

func (t *trial) buildAlone(ctx context.Context, f fault, i int, pkg string) (string, error) {
	w, err := alone(f)
	if err != nil {
		return "", err
	}
	own, err := os.MkdirTemp(t.dir, strconv.Itoa(i)+"-")
	if err != nil {
		return "", err
	}
	bench := workshop{dir: own}
	overlay, err := bench.overlay(w)
	if err != nil {
		return "", err
	}
	return bench.tests(ctx, overlay, pkg)
}

// command runs those of a package's tests that must notice a fault where "go test"
// would: in its directory.
func command(ctx context.Context, program string, f fault, pkg string, number int, bound patience) *exec.Cmd {
	args := []string{"-c", `ulimit -t "$0" && exec "$@"`, strconv.Itoa(int(bound.processor.Seconds())),
		program, "-test.failfast", "-test.timeout", bound.clock.String()}
	if f.run != "" {
		args = append(args, "-test.run", f.run)
	}
	if f.short {
		args = append(args, "-test.short")
	}
	cmd := exec.CommandContext(ctx, "sh", args...)
	cmd.Dir = filepath.FromSlash(pkg)
	cmd.Env = append(os.Environ(), selector+"="+strconv.Itoa(number))
	return cmd
}

// redTests names the tests that failed, for people.
func redTests(out []byte) string {
	var names []string
	for _, found := range regexp.MustCompile(`(?m)^--- FAIL: (\S+)`).FindAllSubmatch(out, -1) {
		names = append(names, string(found[1]))
	}
	if len(names) > 0 {
		return strings.Join(names, ", ")
	}
	line, _, _ := bytes.Cut(out, []byte("\n"))
	return string(line)
}
