package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const tested = `package p

// Least is the smallest number there is.
const Least = 0

// Larger returns the larger of two.
func Larger(a, b int) int {
	if a > b {
		return a
	}
	return b
}
`

const goodTest = `package p

import "testing"

func TestLarger(t *testing.T) {
	for _, row := range [][3]int{{1, 2, 2}, {2, 1, 2}} {
		if got := Larger(row[0], row[1]); got != row[2] {
			t.Errorf("Larger(%d, %d) = %d", row[0], row[1], got)
		}
	}
	if Least != 0 {
		t.Error(Least)
	}
}
`

// dies is a test program that does not live to tell.
const dies = `package p

import (
	"os"
	"testing"
)

func TestLarger(t *testing.T) {
	if Larger(1, 2) != 2 || Larger(2, 1) != 2 || Least != 0 {
		me, _ := os.FindProcess(os.Getpid())
		_ = me.Kill()
		select {}
	}
}
`

const plantedList = `# faults: 1
- name: take-the-smaller
  requirement: T1
  file: p/p.go
  replace: "if a > b {"
  with: "if a < b {"
  tests: ["./p"]
`

// The lists in the tree name what is in the tree: every planted fault its text,
// every explained survivor a change that is still made. Each list says how many it
// holds, and the Makefile how many generated faults there are at least, which must
// keep up with what is generated: some thirty of a hundred do not compile. Whether
// tests notice them is what "make mutants" says.
func TestTheListsAreUpToDate(t *testing.T) {
	t.Chdir("../..")
	planted, err := readPlanted("test/mutants/planted")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, f := range planted {
		if names[f.name] {
			t.Errorf("%s is planted twice", f.name)
		}
		names[f.name] = true
	}
	generated, err := generateAll(fromMakefile(t, "generate")+","+fromMakefile(t, "generate-short"), false)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range generated {
		names[f.name] = true
	}
	least, err := strconv.Atoi(fromMakefile(t, "least"))
	if err != nil || least < len(generated)*6/10 || least > len(generated) {
		t.Errorf("-least is %d (%v), and %d are generated", least, err, len(generated))
	}
	explained, err := readSurvivors("test/mutants/survivors.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name := range explained {
		if !names[name] {
			t.Errorf("%s is explained, and no such change is made", name)
		}
	}
}

// fromMakefile is what "make mutants" gives with a flag.
func fromMakefile(t *testing.T, flag string) string {
	t.Helper()
	text, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`go run ./test/mutants(?:.|\\\n)* -` + flag + ` (\S+)`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("make mutants gives no -%s", flag)
	}
	return string(found[1])
}

// A tool that reports must itself be able to report both ways: every fault of a
// tested package is caught but the one that changes nothing, a test that asserts
// nothing is found out, and so is a list that is out of date.
func TestFaultsAreCaughtByTestsAndOnlyByTests(t *testing.T) {
	const excuse = "- name: 'p/p.go Larger: >= for > in a > b #1'\n  reason: for equal numbers both are right\n"
	for name, tc := range map[string]struct{ test, list, excuse, want, problem string }{
		"a good test catches": {goodTest, plantedList, excuse, "mutants: planted=1 caught=1 generated=7 killed=6", ""},
		"an unexplained survivor is a problem": {goodTest, plantedList, "[]",
			"mutants: planted=1 caught=1 generated=7 killed=6", "p/p.go Larger: >= for > in a > b #1 lived and is not explained"},
		"an explanation of a killed one is stale": {goodTest, plantedList, excuse + strings.ReplaceAll(excuse, ">= for", "<= for"),
			"mutants: planted=1 caught=1 generated=7 killed=6", "<= for > in a > b #1 is explained, and no such fault lived"},
		"an explanation of none is stale": {goodTest, plantedList, excuse + strings.ReplaceAll(excuse, "a > b", "a > c"),
			"mutants: planted=1 caught=1 generated=7 killed=6", "a > c #1 is explained, and no such fault lived"},
		"a test without assertions catches nothing": {"package p\n\nimport \"testing\"\n\nfunc TestLarger(*testing.T) { Larger(1, 2) }\n", plantedList, "[]",
			"mutants: planted=1 caught=0 generated=7 killed=0", "planted faults were not caught"},
		"a fault that does not compile proves nothing": {goodTest, strings.Replace(plantedList, "if a < b {", "if a < c {", 1), excuse,
			"mutants: planted=1 caught=0 generated=7 killed=6", "does not compile"},
		"a test that says it catches": {goodTest, plantedList + "  says: 'Larger\\(1, 2\\) = 1'\n", excuse, "mutants: planted=1 caught=1 generated=7 killed=6", ""},
		"a test that says something else does not": {goodTest, plantedList + "  says: Smaller\n", excuse,
			"mutants: planted=1 caught=0 generated=7 killed=6", "./p did not say \"Smaller\", but\n--- FAIL: TestLarger"},
		"a process that is killed has noticed nothing": {dies, plantedList, excuse,
			"mutants: planted=1 caught=0 generated=7 killed=6", "./p did not end by itself"},
		"unless its death is what is asked for": {dies, plantedList + "  says: 'signal: killed'\n", excuse, "mutants: planted=1 caught=1 generated=7 killed=6", ""},
		"what must be said is an expression":    {goodTest, plantedList + "  says: '('\n", "[]", "", "list.yaml: take-the-smaller: reading what its tests must say"},
		"a red test is no judge":                {strings.Replace(goodTest, "1, 2, 2", "1, 2, 1", 1), plantedList, "[]", "", "fail without any fault"},
		"a lost fault is an error":              {goodTest, strings.Replace(plantedList, "faults: 1", "faults: 2", 1), "[]", "", "holds 1 faults"},
		"a stale list is an error":              {goodTest, strings.Replace(plantedList, "a > b", "a > c", 1), "[]", "", "0 times"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			for file, content := range map[string]string{"go.mod": "module p\n\ngo 1.26\n", "p/p.go": tested, "p/p_test.go": tc.test, "planted/list.yaml": tc.list, "survivors.yaml": tc.excuse} {
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var out strings.Builder
			err := run(t.Context(), []string{"-planted", "planted", "-survivors", "survivors.yaml", "-generate", "p", "-percent", "60"}, &out)
			if !strings.Contains(out.String(), tc.want) {
				t.Errorf("printed %q, want %q in it", out.String(), tc.want)
			}
			said := out.String()
			if err != nil {
				said += err.Error()
			}
			if (err != nil) != (tc.problem != "") || !strings.Contains(said, tc.problem) {
				t.Errorf("said %q, want %q in it", said, tc.problem)
			}
		})
	}
}
