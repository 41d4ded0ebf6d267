package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// verdict is what became of a fault.
type verdict int

const (
	lived verdict = iota
	killed
	// notViable faults do not compile: the compiler is not a test.
	notViable
)

// trial runs tests with faults compiled in.
type trial struct {
	jobs   int
	report func(fault, verdict)
}

// baseline runs every test that a fault relies on, without any fault. A test
// that is red by itself would catch everything.
func (t trial) baseline(ctx context.Context, faults []fault) error {
	type selection struct{ packages, run string }
	seen := map[selection]bool{}
	for _, f := range faults {
		s := selection{strings.Join(f.tests, " "), f.run}
		if seen[s] {
			continue
		}
		seen[s] = true
		if out, err := command(ctx, f, "").CombinedOutput(); err != nil {
			return fmt.Errorf("the tests of %s fail without any fault: %w\n%s", f.name, err, out)
		}
	}
	return nil
}

// run tries the faults side by side and returns their verdicts in order.
func (t trial) run(ctx context.Context, faults []fault) []verdict {
	verdicts := make([]verdict, len(faults))
	var mu sync.Mutex
	var workers sync.WaitGroup
	next := make(chan int)
	for range t.jobs {
		workers.Go(func() {
			for i := range next {
				v := try(ctx, faults[i])
				mu.Lock()
				verdicts[i] = v
				t.report(faults[i], v)
				mu.Unlock()
			}
		})
	}
	for i := range faults {
		next <- i
	}
	close(next)
	workers.Wait()
	return verdicts
}

func try(ctx context.Context, f fault) verdict {
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return lived
	}
	defer os.RemoveAll(dir)
	overlay, err := writeOverlay(dir, f)
	if err != nil {
		return lived
	}
	var out bytes.Buffer
	cmd := command(ctx, f, overlay)
	cmd.Stdout, cmd.Stderr = &out, &out
	switch err := cmd.Run(); {
	case err == nil:
		return lived
	case bytes.Contains(out.Bytes(), []byte("[build failed]")) || bytes.Contains(out.Bytes(), []byte("[setup failed]")):
		return notViable
	case ctx.Err() != nil, !errors.As(err, new(*exec.ExitError)):
		return lived
	}
	return killed
}

// command tests what f relies on. A fault may make a loop endless, so the tests
// get a minute or, where they start a control plane, ten.
func command(ctx context.Context, f fault, overlay string) *exec.Cmd {
	timeout := "60s"
	if slices.ContainsFunc(f.tests, func(p string) bool { return strings.HasPrefix(p, "./test/") }) {
		timeout = "10m"
	}
	args := []string{"test", "-count=1", "-vet=off", "-failfast", "-timeout", timeout}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	if f.run != "" {
		args = append(args, "-run", f.run)
	}
	return exec.CommandContext(ctx, "go", append(args, f.tests...)...)
}

func writeOverlay(dir string, f fault) (string, error) {
	original, err := filepath.Abs(f.file)
	if err != nil {
		return "", err
	}
	changed := filepath.Join(dir, filepath.Base(f.file))
	data, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, errors.Join(os.WriteFile(changed, f.changed, 0o600), os.WriteFile(overlay, data, 0o600))
}
