package command

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// oldArithmetic refuses an unescaped $[, which bash reads as $((…)).
func (s *scripter) oldArithmetic(parts []syntax.WordPart) {
	dollar := false
	for _, p := range parts {
		lit, ok := p.(*syntax.Lit)
		if !ok {
			dollar = false
			continue
		}
		for i := 0; i < len(lit.Value); i++ {
			switch c := lit.Value[i]; {
			case c == '[' && dollar:
				s.unknown(`$[…] is arithmetic in some shells, which may start commands; write \$[ for the characters`)
				return
			case c == '\\':
				i++
				dollar = false
			default:
				dollar = c == '$'
			}
		}
	}
}

// index judges an array's index, which is arithmetic unless the array is associative.
func (s *scripter) index(name string, index syntax.ArithmExpr) {
	if !allOf(index) && !s.vars.associative(name) {
		s.number(index)
	}
}

func (s *scripter) arithmetic(a *syntax.ArithmExp) { s.number(a.X) }

// number judges an arithmetic expression; nil is none. A variable in it is
// evaluated as an expression, which may hold a command substitution. So each must
// have been given numbers only.
func (s *scripter) number(x syntax.ArithmExpr) {
	if x == nil {
		return
	}
	bad := ""
	syntax.Walk(x, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.UnaryArithm:
			if n.Op == syntax.Inc || n.Op == syntax.Dec {
				s.counts(n.X)
			}
		case *syntax.BinaryArithm:
			if assigns(n.Op) {
				s.counts(n.X)
			}
			if n.Op == syntax.Assgn && plainName(n.X) { // its old value is not evaluated
				s.number(n.Y)
				return false
			}
		case *syntax.CmdSubst:
			bad = "$(…)"
		case *syntax.ParamExp:
			switch {
			case n.Param != nil && n.Length && (n.Index == nil || allOf(n.Index)):
				return false
			case n.Param != nil && len(n.Param.Value) == 1 && strings.Contains("?#$!", n.Param.Value):
			case n.Param == nil || !simple(n) || !s.vars.numeric(n.Param.Value):
				bad = "$" + paramName(n)
			}
		case *syntax.Word:
			if lit := n.Lit(); functionName.MatchString(lit) && !s.vars.numeric(lit) {
				bad = lit
			} else if strings.ContainsAny(lit, "[]'\"`\\") || len(n.Parts) > 1 {
				bad = "an expression in parts"
			}
		case *syntax.SglQuoted, *syntax.DblQuoted:
			bad = "a quoted word"
		}
		return true
	})
	if bad != "" {
		s.unknown("arithmetic with " + bad + " may start commands; use only variables that the script gives numbers to, or expr and [ … ], which do not evaluate what a variable holds")
	}
}

// counts judges a variable that arithmetic gives a number.
func (s *scripter) counts(x syntax.ArithmExpr) {
	if w, ok := x.(*syntax.Word); ok && plainName(x) {
		if why := s.settableTo(w.Lit(), "0"); why != "" {
			s.unknown(why)
		}
	}
}

// assigns reports whether an operator of arithmetic sets its left side.
func assigns(op syntax.BinAritOperator) bool {
	return strings.HasSuffix(op.String(), "=") && op != syntax.Eql && op != syntax.Neq && op != syntax.Leq && op != syntax.Geq
}

func plainName(x syntax.ArithmExpr) bool {
	w, ok := x.(*syntax.Word)
	return ok && functionName.MatchString(w.Lit())
}

func paramName(p *syntax.ParamExp) string {
	if p.Param == nil {
		return "{…}"
	}
	return p.Param.Value
}
