package main

import (
	"os/exec"
	"strings"
	"testing"
	"time"
)

// What the tool finds is what a search of the text finds, and each name is that
// of one package only, so that -only can mean one target.
func TestEveryTargetIsFound(t *testing.T) {
	targets, err := find("../..")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("grep", "-rhoE", `^func Fuzz[A-Z][A-Za-z]*`, "--include=*_test.go", "../../internal", "../../test", "../../cmd").Output()
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(out), "func Fuzz"); n != len(targets) || n < 30 {
		t.Errorf("%d targets are found, and %d stand in the source", len(targets), n)
	}
	seen := map[string]bool{}
	for _, one := range targets {
		if seen[one.name] {
			t.Errorf("two targets are called %s", one.name)
		}
		seen[one.name] = true
	}
}

// A run that runs nothing is no success.
func TestNothingIsNoSuccess(t *testing.T) {
	if err := run(time.Second, "^Fuzz$", 1, true); err == nil {
		t.Error("no target ran, and nothing was said")
	}
}

// Only the end of the time is no crash.
func TestTimeWasOver(t *testing.T) {
	over := "fuzz: elapsed: 45s, execs: 1\n--- FAIL: FuzzX (45.05s)\n    context deadline exceeded\nFAIL\n"
	for output, want := range map[string]bool{
		over: true,
		over + "    Failing input written to testdata/fuzz/FuzzX/0\n":                      false,
		"--- FAIL: FuzzX (0.1s)\n    --- FAIL: FuzzX (0.0s)\n        x_test.go:1: got x\n": false,
		"panic: deadlock\n" + over: false,
		"build failed":             false,
	} {
		if timeWasOver(output) != want {
			t.Errorf("%q: %v", output, !want)
		}
	}
}
