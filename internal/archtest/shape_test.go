package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Budgets of this house. A file over the first is allowed to say why in a
// comment that starts with "Long because"; nothing is allowed over the second, which
// is also that of a file of tests.
const (
	fileLines     = 350
	longFileLines = 600
	functionLines = 80
)

func TestEveryPackageIntroducesItself(t *testing.T) {
	for path, p := range load(t) {
		if len(p.GoFiles) > 0 && p.Doc == "" {
			t.Errorf("%s has no package comment: say what it owns, its invariant and what it must not import", path)
		}
	}
}

func TestShapeOfTheCode(t *testing.T) {
	for _, p := range load(t) {
		for _, name := range p.GoFiles {
			path := filepath.Join(p.Dir, name)
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			for _, problem := range shape(set, file, p) {
				t.Errorf("%s/%s: %s", strings.TrimPrefix(p.ImportPath, module), name, problem)
			}
		}
	}
}

// A test names the requirement that it proves, in one way: -run A6_1_ finds the tests
// of A6.1 and no other.
func TestShapeOfTheTests(t *testing.T) {
	for _, p := range load(t) {
		for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, problem := range testShape(set, file) {
				t.Errorf("%s/%s: %s", strings.TrimPrefix(p.ImportPath, module), name, problem)
			}
		}
	}
	// It must be able to fail.
	for planted, source := range map[string]string{
		"long file":        "package p\n" + strings.Repeat("//\n", longFileLines),
		"number run in":    "package p\nfunc TestA612Role() {}\n",
		"number not ended": "package p\nfunc TestB3_2Answers() {}\n",
	} {
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, "p_test.go", source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if len(testShape(set, file)) == 0 {
			t.Errorf("%s is not caught", planted)
		}
	}
}

func testShape(set *token.FileSet, file *ast.File) (problems []string) {
	if lines := set.File(file.Pos()).LineCount(); lines > longFileLines {
		problems = append(problems, fmt.Sprintf("%d lines; the budget of a file of tests is %d", lines, longFileLines))
	}
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if ok && numbered.MatchString(f.Name.Name) && !numberedWell.MatchString(f.Name.Name) {
			problems = append(problems, f.Name.Name+": the number of a requirement is written as in TestA6_12_Name")
		}
	}
	return problems
}

var (
	numbered     = regexp.MustCompile(`^(Test|Fuzz|Benchmark)[AB][0-9]`)
	numberedWell = regexp.MustCompile(`^(Test|Fuzz|Benchmark)[AB][0-9]+(_[0-9]+[a-z]?)?_[A-Z]`)
)

// The checks above must be able to fail.
func TestShapeCanFail(t *testing.T) {
	for name, source := range map[string]string{
		"mutable state":   "package p\nvar counter int\n",
		"mutable map":     "package p\nvar seen = map[string]bool{}\n",
		"context.TODO":    "package p\nfunc f() { g(context.TODO()) }\n",
		"exit":            "package p\nfunc f() { os.Exit(1) }\n",
		"long function":   "package p\nfunc f() {\n" + strings.Repeat("\n", functionLines) + "}\n",
		"long file":       "package p\n" + strings.Repeat("//\n", fileLines),
		"very long file":  "package p\n// Long because of this.\n" + strings.Repeat("//\n", longFileLines),
		"undocumented":    "package p\nfunc F() {}\n",
		"undocumented ty": "package p\ntype T struct{}\n",
	} {
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, "p.go", source, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if len(shape(set, file, pkg{})) == 0 {
			t.Errorf("%s is not caught", name)
		}
	}
	for _, name := range clock() {
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, "p.go", "package decide\nfunc f() { g(time."+name+") }\n", 0)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(shape(set, file, pkg{ImportPath: module + "internal/planted/decide"}), "time."+name+": a decision is given the time") {
			t.Errorf("time.%s in a decision is not caught", name)
		}
	}
}

func shape(set *token.FileSet, file *ast.File, p pkg) (problems []string) {
	isMain := p.Name == "main"
	lines := set.File(file.Pos()).LineCount()
	if lines > longFileLines || lines > fileLines && !givesReason(file) {
		problems = append(problems, fmt.Sprintf("%d lines; the budget is %d, or %d with a comment \"Long because …\"", lines, fileLines, longFileLines))
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if n := set.Position(d.End()).Line - set.Position(d.Pos()).Line; n >= functionLines {
				problems = append(problems, fmt.Sprintf("function %s has %d lines; the budget is %d", d.Name.Name, n, functionLines))
			}
			if d.Name.IsExported() && d.Doc == nil && d.Recv == nil && !isMain {
				problems = append(problems, "exported function "+d.Name.Name+" is not documented")
			}
		case *ast.GenDecl:
			problems = append(problems, generalShape(d, isMain)...)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok {
				switch {
				case x.Name == "context" && sel.Sel.Name == "TODO":
					problems = append(problems, "context.TODO cannot be cancelled")
				case x.Name == "os" && sel.Sel.Name == "Exit" && !isMain:
					problems = append(problems, "os.Exit skips deferred work; only main exits")
				case x.Name == "time" && slices.Contains(clock(), sel.Sel.Name) && strings.HasSuffix(p.ImportPath, "/decide"):
					problems = append(problems, "time."+sel.Sel.Name+": a decision is given the time")
				}
			}
		}
		return true
	})
	return problems
}

// clock is what of package time asks a clock.
func clock() []string {
	return []string{"Now", "Since", "Until", "After", "Tick", "Sleep", "NewTimer", "NewTicker", "AfterFunc"}
}

func generalShape(d *ast.GenDecl, isMain bool) (problems []string) {
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() && d.Doc == nil && s.Doc == nil && !isMain {
				problems = append(problems, "exported type "+s.Name.Name+" is not documented")
			}
		case *ast.ValueSpec:
			if d.Tok == token.VAR && !isMain && mutable(d, s) {
				problems = append(problems, "package-level variable "+s.Names[0].Name+" is mutable state")
			}
		}
	}
	return problems
}

// mutable reports whether a package variable is anything but a sentinel error,
// a compiled pattern, an embedded file or an interface assertion: values that
// are set once by the compiler or at start and that nobody writes again.
func mutable(d *ast.GenDecl, s *ast.ValueSpec) bool {
	if s.Names[0].Name == "_" || embedded(d) || embeddedSpec(s) {
		return false
	}
	for _, value := range s.Values {
		call, ok := value.(*ast.CallExpr)
		if !ok {
			return true
		}
		if !slices.Contains([]string{"errors.New", "fmt.Errorf", "regexp.MustCompile"}, selector(call.Fun)) {
			return true
		}
	}
	return len(s.Values) == 0
}

func embedded(d *ast.GenDecl) bool       { return hasEmbed(d.Doc) }
func embeddedSpec(s *ast.ValueSpec) bool { return hasEmbed(s.Doc) }
func hasEmbed(group *ast.CommentGroup) bool {
	return group != nil && slices.ContainsFunc(group.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:embed ") })
}

func selector(fun ast.Expr) string {
	if sel, ok := fun.(*ast.SelectorExpr); ok {
		if x, ok := sel.X.(*ast.Ident); ok {
			return x.Name + "." + sel.Sel.Name
		}
	}
	return ""
}

func givesReason(file *ast.File) bool {
	return slices.ContainsFunc(file.Comments, func(g *ast.CommentGroup) bool { return strings.Contains(g.Text(), "Long because ") })
}
