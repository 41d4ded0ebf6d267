package controlplane

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeGo puts a go tool into PATH that notes each call and writes what it is given in
// the source file as the binary, or fails if that says "broken".
func fakeGo(t *testing.T) (calls string) {
	t.Helper()
	dir := t.TempDir()
	calls = filepath.Join(dir, "calls")
	script := `#!/bin/sh
echo "$@" >>` + calls + `
while [ "$1" != -o ]; do shift; done
read -r text <main.go
[ "$text" = broken ] && { echo "does not compile"; exit 1; }
sleep 0.1
echo "$text" >"$2/tool"
`
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	return calls
}

func exampleBuild(t *testing.T, source string) build {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(source+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return build{name: "example", dir: dir, sources: []string{dir}, packages: []string{"."}}
}

func count(t *testing.T, calls string) int {
	t.Helper()
	text, err := os.ReadFile(calls)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Count(string(text), "\n")
}

func TestConcurrentCallersBuildOnce(t *testing.T) {
	calls, cache, b := fakeGo(t), filepath.Join(t.TempDir(), "cache"), exampleBuild(t, "one")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			entry, err := b.ensure(t.Context(), cache)
			if err != nil {
				t.Error(err)
				return
			}
			// An entry is complete when it is there.
			if text, err := os.ReadFile(filepath.Join(entry, "tool")); string(text) != "one\n" {
				t.Errorf("the binary is %q, %v", text, err)
			}
		})
	}
	all.Wait()
	if n := count(t, calls); n != 1 {
		t.Errorf("built %d times", n)
	}
}

func TestSourcesNameTheEntry(t *testing.T) {
	calls, cache, b := fakeGo(t), t.TempDir(), exampleBuild(t, "one")
	first, err := b.ensure(t.Context(), cache)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("main_test.go", "a test does not change the binary")
	if again, err := b.ensure(t.Context(), cache); again != first || err != nil {
		t.Errorf("with another test the entry is %s, %v", again, err)
	}
	write("main.go", "two\n")
	if second, err := b.ensure(t.Context(), cache); second == first || err != nil {
		t.Errorf("with another source the entry is %s, %v", second, err)
	}
	if n := count(t, calls); n != 2 {
		t.Errorf("built %d times, want 2", n)
	}
}

func TestFailedBuildLeavesNoEntry(t *testing.T) {
	fakeGo(t)
	cache, b := t.TempDir(), exampleBuild(t, "broken")
	_, err := b.ensure(t.Context(), cache)
	if err == nil || !strings.Contains(err.Error(), "does not compile") {
		t.Errorf("the error is %v", err)
	}
	left, err := filepath.Glob(filepath.Join(cache, "example*"))
	if err != nil || len(left) != 1 || filepath.Base(left[0]) != "example.lock" {
		t.Errorf("left in the cache: %v, %v", left, err)
	}
}

func TestUnusedEntriesArePruned(t *testing.T) {
	fakeGo(t)
	cache := t.TempDir()
	old, young := filepath.Join(cache, "example-old"), filepath.Join(cache, "example-young")
	other := filepath.Join(cache, "other-old")
	for _, dir := range []string{old, young, other} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	long := time.Now().Add(-2 * unusedFor)
	for _, dir := range []string{old, other} {
		if err := os.Chtimes(dir, long, long); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := exampleBuild(t, "one").ensure(t.Context(), cache); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{old: false, young: true, other: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s: there %v, want %v", dir, err == nil, want)
		}
	}
}

// Who waits for another's build can give up.
func TestWaitingForTheLockEndsWithTheContext(t *testing.T) {
	fakeGo(t)
	cache := t.TempDir()
	unlock, err := lockFile(t.Context(), filepath.Join(cache, "example.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := exampleBuild(t, "one").ensure(ctx, cache); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}

func TestPortsAreTakenOnce(t *testing.T) {
	first, err := newPorts()
	if err != nil {
		t.Fatal(err)
	}
	port, err := first.take()
	if err != nil {
		t.Fatal(err)
	}
	second, err := newPorts()
	if err != nil {
		t.Fatal(err)
	}
	defer second.release()
	if free, err := second.lock(port); free || err != nil {
		t.Errorf("a taken port is given out again: %v, %v", free, err)
	}
	first.release()
	if free, err := second.lock(port); !free || err != nil {
		t.Errorf("a released port is not given out: %v, %v", free, err)
	}
}
