package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// edit replaces the bytes from start to end of a file.
type edit struct {
	start, end int
	text, what string
}

// generate makes every small change of the package in dir, one fault each. Its
// own tests must notice them.
func generate(dir string) ([]fault, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", dir, err)
	}
	var faults []fault
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		list, err := generateFile(dir, path)
		if err != nil {
			return nil, err
		}
		faults = append(faults, list...)
	}
	if len(faults) == 0 {
		return nil, fmt.Errorf("nothing to change in %s: is it a package directory?", dir)
	}
	return faults, nil
}

func generateFile(dir, path string) ([]fault, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the file to change: %w", err)
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, source, 0)
	if err != nil {
		return nil, fmt.Errorf("parsing %s: %w", path, err)
	}
	var faults []fault
	for _, decl := range file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		seen := map[string]int{}
		for _, e := range edits(set, source, fn.Body) {
			// Names hold no line number: an unrelated change above must not
			// make an explained survivor a new one.
			key := fmt.Sprintf("%s %s: %s", filepath.ToSlash(path), fn.Name.Name, e.what)
			seen[key]++
			name := fmt.Sprintf("%s #%d", key, seen[key])
			changed := string(source[:e.start]) + e.text + string(source[e.end:])
			line := set.Position(set.File(file.Pos()).Pos(e.start)).Line
			faults = append(faults, fault{name: name, file: path, changed: []byte(changed), tests: []string{"./" + filepath.ToSlash(dir)},
				original: fmt.Sprintf("line %d: %s", line, firstLine(string(source[e.start:e.end])))})
		}
	}
	return faults, nil
}

// edits lists the changes of one function body, in source order.
func edits(set *token.FileSet, source []byte, body *ast.BlockStmt) (list []edit) {
	at := func(p token.Pos) int { return set.Position(p).Offset }
	text := func(n ast.Node) string { return string(source[at(n.Pos()):at(n.End())]) }
	replace := func(n ast.Node, with, what string) {
		list = append(list, edit{start: at(n.Pos()), end: at(n.End()), text: with, what: what})
	}
	condition := func(cond ast.Expr) {
		if cond != nil {
			replace(cond, "!("+text(cond)+")", "negate "+short(text(cond)))
		}
	}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			for _, op := range otherOperators(n.Op) {
				list = append(list, edit{start: at(n.OpPos), end: at(n.OpPos) + len(n.Op.String()), text: op.String(),
					what: fmt.Sprintf("%s for %s in %s", op, n.Op, short(text(n)))})
			}
		case *ast.IfStmt:
			condition(n.Cond)
		case *ast.ForStmt:
			condition(n.Cond)
		case *ast.CaseClause:
			if len(n.Body) > 0 && len(n.List) > 0 {
				list = append(list, edit{start: at(n.Body[0].Pos()), end: at(n.Body[len(n.Body)-1].End()), text: "", what: "empty case " + short(text(n.List[0]))})
			}
		case *ast.Ident:
			if n.Name == "true" {
				replace(n, "false", "false for true")
			} else if n.Name == "false" {
				replace(n, "true", "true for false")
			}
		case *ast.ExprStmt:
			replace(n, "", "leave out "+short(text(n)))
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				replace(n, "", "leave out "+short(text(n)))
			}
		case *ast.BranchStmt:
			if n.Tok == token.CONTINUE || n.Tok == token.BREAK {
				replace(n, "", "leave out "+n.Tok.String())
			}
		}
		return true
	})
	return list
}

// otherOperators are the operators that a slip of the hand would have written.
func otherOperators(op token.Token) []token.Token {
	switch op {
	case token.EQL:
		return []token.Token{token.NEQ}
	case token.NEQ:
		return []token.Token{token.EQL}
	case token.LSS:
		return []token.Token{token.LEQ, token.GEQ}
	case token.LEQ:
		return []token.Token{token.LSS, token.GTR}
	case token.GTR:
		return []token.Token{token.GEQ, token.LEQ}
	case token.GEQ:
		return []token.Token{token.GTR, token.LSS}
	case token.LAND:
		return []token.Token{token.LOR}
	case token.LOR:
		return []token.Token{token.LAND}
	case token.ADD:
		return []token.Token{token.SUB}
	case token.SUB:
		return []token.Token{token.ADD}
	}
	return nil
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
