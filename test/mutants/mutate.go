package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"strconv"
	"strings"
)

// edit replaces the bytes from start to end of a file.
type edit struct {
	start, end int
	text, what string
}

// mutator lists the changes of one declaration, in source order. What does not
// compile is found out later, so it need not know types.
type mutator struct {
	set      *token.FileSet
	source   []byte
	siblings map[string]string
	list     []edit
}

func (m *mutator) at(p token.Pos) int { return m.set.Position(p).Offset }

func (m *mutator) text(n ast.Node) string { return string(m.source[m.at(n.Pos()):m.at(n.End())]) }

func (m *mutator) replace(n ast.Node, with, what string) {
	m.list = append(m.list, edit{start: m.at(n.Pos()), end: m.at(n.End()), text: with, what: what})
}

func (m *mutator) leaveOut(n ast.Node) { m.replace(n, "", "leave out "+short(m.text(n))) }

func (m *mutator) visit(root ast.Node) {
	ast.Inspect(root, func(n ast.Node) bool {
		switch n := n.(type) {
		case ast.Stmt:
			m.statement(n)
		case *ast.CompositeLit:
			m.elements(n.Elts)
		case *ast.CallExpr:
			m.elements(n.Args)
		case ast.Expr:
			m.expression(n)
		}
		switch n := n.(type) {
		case *ast.SelectorExpr:
			// A field's name is not a constant's.
			m.visit(n.X)
			return false
		case *ast.Field:
			// Nor is a tag a word that is compared: a letter after it changes nothing.
			m.visit(n.Type)
			return false
		}
		return true
	})
}

// visitValues changes the words and numbers that constants and tables are made of.
func (m *mutator) visitValues(spec *ast.ValueSpec) {
	for i, value := range spec.Values {
		before := len(m.list)
		m.visit(value)
		for k := range m.list[before:] {
			m.list[before+k].what = spec.Names[min(i, len(spec.Names)-1)].Name + ": " + m.list[before+k].what
		}
	}
}

func (m *mutator) statement(n ast.Stmt) {
	switch n := n.(type) {
	case *ast.IfStmt:
		m.condition(n.Cond)
		m.replace(n.Cond, "true || "+group(m.text(n.Cond)), "always "+short(m.text(n.Cond)))
		m.replace(n.Cond, "false && "+group(m.text(n.Cond)), "never "+short(m.text(n.Cond)))
	case *ast.ForStmt:
		if n.Cond != nil {
			m.condition(n.Cond)
		}
	case *ast.CaseClause:
		m.caseClause(n)
	case *ast.ExprStmt, *ast.IncDecStmt, *ast.ReturnStmt:
		m.leaveOut(n)
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			m.leaveOut(n)
		}
	case *ast.BranchStmt:
		m.leaveOut(n)
	}
}

func (m *mutator) condition(cond ast.Expr) {
	m.replace(cond, "!"+group(m.text(cond)), "negate "+short(m.text(cond)))
}

// caseClause empties the body, and leaves out each alternative.
func (m *mutator) caseClause(n *ast.CaseClause) {
	if len(n.Body) > 0 {
		what := "default"
		if len(n.List) > 0 {
			what = "case " + short(m.text(n.List[0]))
		}
		m.list = append(m.list, edit{start: m.at(n.Body[0].Pos()), end: m.at(n.Body[len(n.Body)-1].End()), what: "empty " + what})
	}
	if len(n.List) > 1 {
		m.elements(n.List)
	}
}

// elements leaves out one of a list. Most arguments of a call cannot be, and the
// compiler says so; of a variadic call they can.
func (m *mutator) elements(list []ast.Expr) {
	for i, e := range list {
		start, end := m.at(e.Pos()), m.at(e.End())
		if i+1 < len(list) {
			end = m.at(list[i+1].Pos())
		} else if i > 0 {
			start = m.at(list[i-1].End())
		}
		m.list = append(m.list, edit{start: start, end: end, what: "leave out element " + short(m.text(e))})
	}
}

func (m *mutator) expression(n ast.Expr) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		for _, op := range otherOperators(n.Op) {
			m.list = append(m.list, edit{start: m.at(n.OpPos), end: m.at(n.OpPos) + len(n.Op.String()), text: op.String(),
				what: fmt.Sprintf("%s for %s in %s", op, n.Op, short(m.text(n)))})
		}
		if n.Op == token.LAND || n.Op == token.LOR {
			m.replace(n, group(m.text(n.X)), fmt.Sprintf("without the right of %s", short(m.text(n))))
			m.replace(n, group(m.text(n.Y)), fmt.Sprintf("without the left of %s", short(m.text(n))))
		}
	case *ast.UnaryExpr:
		if n.Op == token.NOT || n.Op == token.SUB {
			m.replace(n, m.text(n.X), "no "+n.Op.String()+" in "+short(m.text(n)))
		}
	case *ast.Ident:
		m.ident(n)
	case *ast.BasicLit:
		m.literal(n)
	}
}

func (m *mutator) ident(n *ast.Ident) {
	other := map[string]string{"true": "false", "false": "true"}[n.Name]
	if other == "" {
		other = m.siblings[n.Name]
	}
	if other != "" {
		m.replace(n, other, other+" for "+n.Name)
	}
}

// literal changes numbers, and words that something is decided by. Sentences for
// people are left alone: to pin their wording proves nothing.
func (m *mutator) literal(n *ast.BasicLit) {
	switch n.Kind {
	case token.INT:
		if v, err := strconv.ParseInt(n.Value, 0, 64); err == nil {
			m.replace(n, strconv.FormatInt(v+1, 10), fmt.Sprintf("%d for %d", v+1, v))
		}
	case token.STRING:
		if v, err := strconv.Unquote(n.Value); err == nil && !strings.ContainsAny(v, " \n") {
			m.replace(n, strconv.Quote(v+"x"), "another word than "+short(n.Value))
		}
	}
}

// group keeps an expression together where it becomes an operand.
func group(expr string) string { return "(" + expr + ")" }

// otherOperators are the operators that a slip of the hand would have written.
func otherOperators(op token.Token) []token.Token { //nolint:gocyclo // a table
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
	case token.MUL:
		return []token.Token{token.QUO}
	case token.QUO:
		return []token.Token{token.MUL}
	}
	return nil
}
