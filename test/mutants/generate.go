package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// generate makes every small change of a package, or of one of its files, one fault
// each. The package's own tests must notice them.
func generate(place string) ([]fault, error) {
	dir, only := place, ""
	if strings.HasSuffix(place, ".go") {
		dir, only = filepath.Dir(place), filepath.Clean(place)
	}
	set := token.NewFileSet()
	files, sources, err := parsed(set, dir)
	if err != nil {
		return nil, err
	}
	siblings := siblingsIn(files)
	var faults []fault
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if only == "" || only == path {
			list := generateFile(set, files[path], sources[path], siblings)
			for _, f := range list {
				f.file, f.tests = path, []string{"./" + filepath.ToSlash(dir)}
				f.name = filepath.ToSlash(path) + " " + f.name
				faults = append(faults, f)
			}
		}
	}
	if len(faults) == 0 {
		return nil, fmt.Errorf("nothing to change in %s: is it a package directory or one of its files?", place)
	}
	return faults, nil
}

// parsed reads the files of a package, without its tests.
func parsed(set *token.FileSet, dir string) (map[string]*ast.File, map[string][]byte, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, nil, fmt.Errorf("listing %s: %w", dir, err)
	}
	files, sources := map[string]*ast.File{}, map[string][]byte{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		if sources[path], err = os.ReadFile(path); err != nil {
			return nil, nil, fmt.Errorf("reading the file to change: %w", err)
		}
		if files[path], err = parser.ParseFile(set, path, sources[path], 0); err != nil {
			return nil, nil, fmt.Errorf("parsing %s: %w", path, err)
		}
	}
	return files, sources, nil
}

func generateFile(set *token.FileSet, file *ast.File, source []byte, siblings map[string]string) (faults []fault) {
	// Names hold no line number: an unrelated change above must not make an
	// explained survivor a new one.
	seen := map[string]int{}
	for _, decl := range file.Decls {
		where, m := "", mutator{set: set, source: source, siblings: siblings}
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if where = d.Name.Name + ": "; d.Body != nil {
				m.visit(d.Body)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok {
					m.visitValues(v)
				}
			}
		}
		for _, e := range m.list {
			key := where + e.what
			seen[key]++
			name := fmt.Sprintf("%s #%d", key, seen[key])
			line := set.Position(set.File(file.Pos()).Pos(e.start)).Line
			faults = append(faults, fault{name: name, start: e.start, end: e.end, text: e.text,
				original: fmt.Sprintf("line %d: %s", line, firstLine(string(source[e.start:e.end])))})
		}
	}
	return faults
}

// siblingsIn maps each constant to the next one of its type in the same
// declaration: the value that a slip would have taken in its place.
func siblingsIn(files map[string]*ast.File) map[string]string {
	siblings := map[string]string{}
	for _, file := range files {
		for _, decl := range file.Decls {
			if d, ok := decl.(*ast.GenDecl); ok && d.Tok == token.CONST {
				for _, names := range constantsByType(d) {
					for i, name := range names {
						if next := names[(i+1)%len(names)]; next != name {
							siblings[name] = next
						}
					}
				}
			}
		}
	}
	return siblings
}

func constantsByType(d *ast.GenDecl) map[string][]string {
	groups, kind := map[string][]string{}, ""
	for _, spec := range d.Specs {
		v := spec.(*ast.ValueSpec)
		if v.Type != nil || len(v.Values) > 0 {
			kind = ""
		}
		if named, ok := v.Type.(*ast.Ident); ok {
			kind = named.Name
		}
		for _, name := range v.Names {
			groups[kind] = append(groups[kind], name.Name)
		}
	}
	return groups
}

func short(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 60 {
		s = s[:57] + "..."
	}
	return s
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
