//go:build !race

package remit_test

import (
	"go/ast"
	"regexp"
	"strconv"
	"testing"
)

// command is a command of Remit in a text.
var command = regexp.MustCompile(`\bremit (init|run|plan|exec|show|runs|report|replay|verify|changes|apply|discard|undo|audit|grant|approvals|tools?|mcp|api|wasm|ext|slash|chat|sessions|agents|capabilit(y|ies)|models|secret|policy|learn|serve|doctor|config)\b`)

// TestModelsAreToldNoCommands: what a call can fail with names commands of Remit by
// ForOperator alone, which a model is not shown, as it cannot run them.
func TestModelsAreToldNoCommands(t *testing.T) {
	for _, s := range sources(t) {
		if !within(s.pkg, "call", "tools", "confine", "record", "agents", "base", "authority/grant", "authority/permit") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !tellsModels(call) {
				return true
			}
			for _, arg := range call.Args {
				lit, ok := arg.(*ast.BasicLit)
				if !ok {
					continue
				}
				if text, err := strconv.Unquote(lit.Value); err == nil && command.MatchString(text) {
					t.Errorf("%s: models are told of a command: %q; use ForOperator", s.fset.Position(lit.Pos()), text)
				}
			}
			return true
		})
	}
}

// tellsModels reports whether a call makes a part of an error that models are shown.
func tellsModels(call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, _ := sel.X.(*ast.Ident)
	return sel.Sel.Name == "WithHint" || pkg != nil && pkg.Name == "fault" && (sel.Sel.Name == "New" || sel.Sel.Name == "Wrap")
}
