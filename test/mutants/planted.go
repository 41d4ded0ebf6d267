package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// fault is one change of one file, and the tests that must notice it.
type fault struct {
	name     string
	planted  bool
	file     string
	original string
	// The bytes from start to end of the file become text.
	start, end int
	text       string
	tests      []string
	run        string
	// says is what a planted fault's red tests must print, if it names any: that they
	// are red for another reason proves nothing.
	says *regexp.Regexp
	// short leaves out what a test does not do under -short.
	short bool
}

func (f fault) describe() string {
	if f.original == "" {
		return f.name
	}
	return f.name + "\n       " + f.original
}

// entry is a planted fault as it is written down.
type entry struct {
	// Name says what is broken, in a few words with dashes.
	Name string `json:"name"`
	// Requirement is the number that the fault violates.
	Requirement string `json:"requirement"`
	// File is changed: Replace, found in it exactly once, becomes With.
	File    string `json:"file"`
	Replace string `json:"replace"`
	With    string `json:"with"`
	// Tests are the packages whose tests must fail; Run narrows them.
	Tests []string `json:"tests"`
	Run   string   `json:"run,omitempty"`
	// Says is a regular expression that their output must match, for tests that are
	// red for more than one reason.
	Says string `json:"says,omitempty"`
}

// readPlanted reads every list in dir.
func readPlanted(dir string) ([]fault, error) {
	lists, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", dir, err)
	}
	var faults []fault
	for _, list := range lists {
		data, err := os.ReadFile(list)
		if err != nil {
			return nil, fmt.Errorf("reading planted faults: %w", err)
		}
		var entries []entry
		if err := yaml.UnmarshalStrict(data, &entries); err != nil {
			return nil, fmt.Errorf("reading %s: %w", list, err)
		}
		if err := counted(data, len(entries)); err != nil {
			return nil, fmt.Errorf("reading %s: %w", list, err)
		}
		for _, e := range entries {
			f, err := e.plant()
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", list, e.Name, err)
			}
			faults = append(faults, f)
		}
	}
	return faults, nil
}

// counted holds a list to the number that it says of itself, so that a fault which
// is lost, by a merge for example, is missed.
func counted(list []byte, found int) error {
	said := regexp.MustCompile(`(?m)^# faults: (\d+)$`).FindSubmatch(list)
	if said == nil || string(said[1]) != strconv.Itoa(found) {
		return fmt.Errorf("it holds %d faults and does not say \"# faults: %d\": see that none is lost, and correct the number", found, found)
	}
	return nil
}

func (e entry) plant() (fault, error) {
	if e.Name == "" || e.Requirement == "" || len(e.Tests) == 0 || e.Replace == e.With {
		return fault{}, fmt.Errorf("a fault needs a name, a requirement, tests and a change")
	}
	source, err := os.ReadFile(e.File)
	if err != nil {
		return fault{}, fmt.Errorf("reading the file to change: %w", err)
	}
	if n := strings.Count(string(source), e.Replace); n != 1 {
		return fault{}, fmt.Errorf("the text to replace is %d times in %s, want once: bring the list up to date", n, e.File)
	}
	f := fault{name: e.Requirement + " " + e.Name, planted: true, file: e.File, text: e.With, tests: e.Tests, run: e.Run}
	if e.Says != "" {
		if f.says, err = regexp.Compile(e.Says); err != nil {
			return fault{}, fmt.Errorf("reading what its tests must say: %w", err)
		}
	}
	f.start = strings.Index(string(source), e.Replace)
	f.end = f.start + len(e.Replace)
	// What both have in front stays: often it is the line that begins a function,
	// and without it the change lies in the body.
	for len(f.text) > 0 && f.start < f.end && f.text[0] == source[f.start] {
		f.start, f.text = f.start+1, f.text[1:]
	}
	return f, nil
}

// survivor is a generated fault that no test can notice, and why.
type survivor struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

func readSurvivors(path string) (map[string]string, error) {
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the explained survivors: %w", err)
	}
	var list []survivor
	if err := yaml.UnmarshalStrict(data, &list); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	excused := map[string]string{}
	for _, s := range list {
		if s.Reason == "" {
			return nil, fmt.Errorf("reading %s: %s has no reason", path, s.Name)
		}
		excused[s.Name] = s.Reason
	}
	return excused, nil
}
