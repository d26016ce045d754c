package remit_test

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"testing"
)

// TestLazyExpressionsCompile compiles every regular expression that the program
// compiles on first use, as a wrong one would panic only then.
func TestLazyExpressionsCompile(t *testing.T) {
	found := 0
	for _, s := range sources(t) {
		names := uses(s)
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || names[call.Fun.Pos()] != "github.com/remitrun/remit/internal/base/regex.Lazy" {
				return true
			}
			found++
			text, ok := literal(call.Args[0])
			if !ok {
				t.Errorf("%s: the expression must be a literal, so that it can be checked here", s.fset.Position(call.Pos()))
			} else if _, err := regexp.Compile(text); err != nil {
				t.Errorf("%s: %v", s.fset.Position(call.Pos()), err)
			}
			return true
		})
	}
	if found < 40 {
		t.Errorf("only %d expressions found: the test shows little", found)
	}
}

// literal gives the value of a string literal, or of several that are added.
func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		left, lok := literal(e.X)
		right, rok := literal(e.Y)
		return left + right, lok && rok && e.Op == token.ADD
	}
	return "", false
}
