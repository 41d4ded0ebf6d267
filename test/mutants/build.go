package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// workshop is a directory outside the tree where changed programs are built.
type workshop struct {
	dir    string
	builds int
}

// overlay writes what the Go tool is to compile instead of the tree's files.
func (s *workshop) overlay(w woven) (string, error) {
	s.builds++
	dir := filepath.Join(s.dir, strconv.Itoa(s.builds))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	replace := map[string]string{}
	for path, content := range w.files {
		original, err := filepath.Abs(path)
		if err != nil {
			return "", err
		}
		changed := filepath.Join(dir, fmt.Sprintf("%d_%s", len(replace), filepath.Base(path)))
		if err := os.WriteFile(changed, content, 0o600); err != nil {
			return "", err
		}
		replace[original] = changed
	}
	data, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, data, 0o600)
}

// weaveAll weaves all faults that compile, and returns the overlay with them.
// The compiler is asked for all its errors, and each names the copy that it is
// in: those faults are not viable, and what is left is tried again.
func (s *workshop) weaveAll(ctx context.Context, faults []fault) (w woven, overlay string, refused map[int]bool, err error) {
	refused = map[int]bool{}
	for {
		if w, err = weave(faults, refused); err != nil {
			return woven{}, "", nil, err
		}
		if overlay, err = s.overlay(w); err != nil || len(w.packages) == 0 {
			return w, overlay, refused, err
		}
		args := append([]string{"build", "-gcflags=-e", "-overlay", overlay}, w.packages...)
		out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput()
		if err == nil {
			return w, overlay, refused, nil
		}
		before := len(refused)
		for _, found := range regexp.MustCompile(`mutant(\d+):\d+`).FindAllSubmatch(out, -1) {
			n, _ := strconv.Atoi(string(found[1]))
			refused[n-1] = true
		}
		if len(refused) == before {
			return woven{}, "", nil, fmt.Errorf("building with every fault: %w\n%s", err, out)
		}
	}
}

// errNotViable: the compiler refuses the fault, and the compiler is not a test.
var errNotViable = errors.New("does not compile")

// tests builds the test program of a package with an overlay.
func (s *workshop) tests(ctx context.Context, overlay, pkg string) (string, error) {
	s.builds++
	program := filepath.Join(s.dir, fmt.Sprintf("%d.test", s.builds))
	out, err := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", program, pkg).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %w\n%s", errNotViable, err, out)
	}
	if _, err := os.Stat(program); err != nil {
		return "", fmt.Errorf("%s has no tests: %w", pkg, err)
	}
	return program, nil
}
