// Command fuzz runs every fuzz target of this module for a given time each, as many
// side by side as there are cores, each with one worker: a target that waits for a
// file or a lock leaves its core to another.
//
// Its invariant: the targets are those that the source holds, found by parsing
// it, so that a new one is run without being listed anywhere. It exits with 1 when
// a target crashed; the input is then in that package's testdata/fuzz, to be kept
// as a test. It must not import anything of the product.
package main

import (
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// target is one fuzz function.
type target struct{ dir, name string }

func main() {
	each := flag.Duration("time", time.Minute, "how long each target is run")
	only := flag.String("only", ".", "a regular expression for the targets' names")
	beside := flag.Int("beside", runtime.NumCPU(), "how many targets are run side by side")
	list := flag.Bool("list", false, "name the targets and run none")
	flag.Parse()
	if err := run(*each, *only, *beside, *list); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(each time.Duration, only string, beside int, list bool) error {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("reading -only: %w", err)
	}
	targets, err := find(".")
	if err != nil {
		return err
	}
	targets = slices.DeleteFunc(targets, func(one target) bool { return !wanted.MatchString(one.name) })
	if list {
		for _, one := range targets {
			fmt.Printf("./%s %s\n", one.dir, one.name)
		}
		beside = 0
	}
	crashed := fuzzAll(targets, each, beside)
	fmt.Printf("fuzz: targets=%d time=%s crashes=%d\n", len(targets), each, crashed)
	if len(targets) == 0 || crashed > 0 {
		return errors.New("fuzz: not every target ran without a crash")
	}
	return nil
}

// fuzzAll returns how many of the targets crashed. With none side by side none runs.
func fuzzAll(targets []target, each time.Duration, beside int) int {
	var crashed atomic.Int64
	var workers sync.WaitGroup
	next := make(chan target, len(targets))
	for _, one := range targets {
		next <- one
	}
	close(next)
	for range beside {
		workers.Go(func() {
			for one := range next {
				if err := one.fuzz(each); err != nil {
					fmt.Printf("%s in ./%s: %v\n", one.name, one.dir, err)
					crashed.Add(1)
				}
			}
		})
	}
	workers.Wait()
	return int(crashed.Load())
}

// fuzz shows the last line of progress, which counts the executions, and all of
// the output when the target crashed. Inputs are hardly minimised: with Go's
// default of a minute for each that is new, records of a kilobyte leave no time
// for anything else (3 executions in 9 s, and 70,000 without).
func (one target) fuzz(each time.Duration) error {
	cmd := exec.Command("go", "test", "-run", "^$", "-fuzz", "^"+one.name+"$", "-fuzztime", each.String(), "-fuzzminimizetime", "10x",
		"-parallel", "1", "./"+one.dir)
	out, err := cmd.CombinedOutput()
	if err != nil && !timeWasOver(string(out)) {
		return fmt.Errorf("%w\n%s", err, out)
	}
	last := ""
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "execs:") {
			last = strings.TrimSpace(line)
		}
	}
	fmt.Printf("%s: %s\n", one.name, last)
	return nil
}

// timeWasOver tells the end of the time from a crash. Go's coordinator can take its
// own deadline for a failure (golang/go#75804); a crash always leaves its input.
func timeWasOver(output string) bool {
	return strings.Contains(output, "\n    context deadline exceeded\n") &&
		!strings.Contains(output, "Failing input written to") && !strings.Contains(output, "panic")
}

// find parses every test file of the module in root. What a nested module holds
// belongs to that one.
func find(root string) (targets []target, err error) {
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || nested(path)):
			return fs.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return fmt.Errorf("looking for fuzz targets: %w", err)
		}
		names, err := declared(path)
		for _, name := range names {
			targets = append(targets, target{dir: dir, name: name})
		}
		return err
	})
	return targets, err
}

// declared are the fuzz functions of one file.
func declared(path string) (names []string, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("looking for fuzz targets: %w", err)
	}
	for _, declaration := range file.Decls {
		if f, ok := declaration.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Fuzz") {
			names = append(names, f.Name.Name)
		}
	}
	return names, nil
}

func nested(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}
