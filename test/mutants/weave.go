package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// selector is the environment variable that switches one fault on in a program
// that has all of them compiled in. Unset or 0 is the code as it is written.
const selector = "HOLDFAST_MUTANT"

// selectorFile gives each changed package the number of the fault.
const selectorFile = `package %s

import (
	"os"
	"strconv"
)

var mutantSelected, _ = strconv.Atoi(os.Getenv(%q))
`

// woven is a set of files to be compiled in place of those in the tree.
type woven struct {
	// files maps a path in the tree to what is compiled instead.
	files map[string][]byte
	// packages are the directories of the changed files.
	packages []string
	// in holds the faults (by their index) that can be switched on. The others
	// lie outside functions, in a constant or a table, and need a build each.
	in map[int]bool
}

// weave compiles every fault with a place in a function into one program: the
// function asks the selector, and runs a copy of its body with that one change.
// A build for each of a thousand faults would take hours; this takes one. The
// copies are literally the edited text, so any edit can be woven, and what the
// compiler refuses it refuses at that copy's line.
func weave(faults []fault, skip map[int]bool) (woven, error) {
	byFile := map[string][]int{}
	for i, f := range faults {
		if !skip[i] {
			byFile[f.file] = append(byFile[f.file], i)
		}
	}
	w := woven{files: map[string][]byte{}, in: map[int]bool{}}
	for path, indices := range byFile {
		source, name, err := w.weaveFile(path, faults, indices)
		if err != nil {
			return woven{}, err
		}
		if source == nil {
			continue
		}
		w.files[path] = source
		dir := filepath.Dir(path)
		w.files[filepath.Join(dir, "zz_mutant_selector.go")] = fmt.Appendf(nil, selectorFile, name, selector)
		if !slices.Contains(w.packages, "./"+filepath.ToSlash(dir)) {
			w.packages = append(w.packages, "./"+filepath.ToSlash(dir))
		}
	}
	slices.Sort(w.packages)
	return w, nil
}

// weaveFile returns the file with its faults and the name of its package; nil
// when none of them is in a function.
func (w *woven) weaveFile(path string, faults []fault, indices []int) (changed []byte, pkg string, err error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, "", fmt.Errorf("reading the file to change: %w", err)
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, source, 0)
	if err != nil {
		return nil, "", fmt.Errorf("parsing %s: %w", path, err)
	}
	at := func(p token.Pos) int { return set.Position(p).Offset }
	var out strings.Builder
	written := 0
	for _, decl := range file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		start, end := at(fn.Body.Lbrace)+1, at(fn.Body.Rbrace)
		var copies strings.Builder
		for _, i := range indices {
			if f := faults[i]; f.start >= start && f.end <= end {
				w.in[i] = true
				copies.WriteString(branch(i, resultsOf(fn, source, at), string(source[start:f.start])+f.text+string(source[f.end:end])))
			}
		}
		if copies.Len() == 0 {
			continue
		}
		out.Write(source[written:start])
		fmt.Fprintf(&out, "\nswitch mutantSelected {\n%s}\n//line %s:%d\n", copies.String(), filepath.Base(path), set.Position(fn.Body.Lbrace).Line)
		written = start
	}
	if written == 0 {
		return nil, "", nil
	}
	out.Write(source[written:])
	return []byte(out.String()), file.Name.Name, nil
}

// branch is one changed copy of a body. It is a function of its own, so that its
// labels, its deferred calls and a missing return are its own too.
func branch(i int, results, body string) string {
	call, after := "return ", ""
	if results == "" {
		call, after = "", "\nreturn"
	}
	return fmt.Sprintf("case %d:\n//line mutant%d:1\n%sfunc() %s {%s}()%s\n", i+1, i+1, call, results, body, after)
}

func resultsOf(fn *ast.FuncDecl, source []byte, at func(token.Pos) int) string {
	if fn.Type.Results == nil {
		return ""
	}
	return string(source[at(fn.Type.Results.Pos()):at(fn.Type.Results.End())])
}

// alone is the tree with one fault in it.
func alone(f fault) (woven, error) {
	source, err := os.ReadFile(f.file)
	if err != nil {
		return woven{}, fmt.Errorf("reading the file to change: %w", err)
	}
	changed := string(source[:f.start]) + f.text + string(source[f.end:])
	return woven{files: map[string][]byte{f.file: []byte(changed)}}, nil
}
