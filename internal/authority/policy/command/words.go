package command

import (
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/remitrun/remit/internal/base/tool"
)

// wordReader puts together what a shell word says.
type wordReader struct {
	text strings.Builder
	bare strings.Builder // the unquoted text, for braces
	one  bool            // some of it is known only when it runs
	many bool            // it may become several words, or none
}

// literal gives a word's text; ok is false if it is known only when it runs.
func literal(w *syntax.Word) (text string, ok bool) {
	m := marker(w)
	return m, !nonLiteral(m)
}

// marker gives a word's text, [NonLiteral] or [NonLiteralMany].
func marker(w *syntax.Word) string {
	var r wordReader
	for i, p := range w.Parts {
		r.part(p, i == 0, i == len(w.Parts)-1)
	}
	bare := r.bare.String()
	if i := strings.IndexByte(bare, '{'); i >= 0 && strings.Contains(bare[i:], "}") &&
		(strings.Contains(bare[i:], ",") || strings.Contains(bare[i:], "..")) {
		r.many = true // some shells expand braces
	}
	switch {
	case r.many:
		return NonLiteralMany
	case r.one:
		return NonLiteral
	}
	return r.text.String()
}

func (r *wordReader) part(p syntax.WordPart, first, last bool) {
	switch p := p.(type) {
	case *syntax.Lit:
		r.lit(p.Value, first, last)
	case *syntax.SglQuoted:
		r.one = r.one || p.Dollar
		r.text.WriteString(p.Value)
		r.bare.WriteByte('q')
	case *syntax.DblQuoted:
		r.one = r.one || p.Dollar
		r.bare.WriteByte('q')
		for i, q := range p.Parts {
			r.quoted(q, i == len(p.Parts)-1)
		}
	case *syntax.ArithmExp:
		r.one = true
		r.many = true // IFS may hold digits, but is never set: kept strict all the same
	default:
		r.many = true
	}
}

// lit reads unquoted text.
func (r *wordReader) lit(s string, first, last bool) {
	if first && strings.HasPrefix(s, "~") || strings.Contains(s, "=~") || strings.Contains(s, ":~") {
		r.one = true
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s):
			i++
			if s[i] == '\n' {
				continue
			}
			r.bare.WriteByte('q')
		case c == '\\':
			r.one = true
		case c == '*', c == '?', c == '[' && s != "[":
			r.many = true
		case c == '$' && (i+1 < len(s) || !last):
			r.one = true
		default:
			r.bare.WriteByte(c)
		}
		r.text.WriteByte(s[i])
	}
}

// quoted reads a part within double quotes.
func (r *wordReader) quoted(p syntax.WordPart, last bool) {
	switch p := p.(type) {
	case *syntax.Lit:
		s := p.Value
		for i := 0; i < len(s); i++ {
			if s[i] == '\\' && i+1 < len(s) && strings.IndexByte("$`\"\\\n", s[i+1]) >= 0 {
				i++
				if s[i] == '\n' {
					continue
				}
			} else if s[i] == '$' && i+1 == len(s) && !last || s[i] == '`' {
				r.one = true
			}
			r.text.WriteByte(s[i])
		}
	case *syntax.ParamExp:
		r.one = true
		if p.Param == nil || p.Param.Value == "@" || p.Index != nil || p.Exp != nil {
			r.many = true // "$@" is many words, also within ${x-"$@"}
		}
	default:
		r.one = true
	}
}

// argv reads the words of a simple command.
func (s *scripter) argv(ws []*syntax.Word) []string {
	out := make([]string, len(ws))
	for i, w := range ws {
		out[i] = marker(w)
	}
	return out
}

// substitutions derives the commands within a word, and refuses expansions
// that do more than insert a value.
func (s *scripter) substitutions(w *syntax.Word) {
	if w == nil {
		return
	}
	syntax.Walk(w, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst:
			if n.TempFile || n.ReplyVar {
				s.unknown("this substitution is not POSIX shell")
			}
			s.apart(n.Stmts)
			return false
		case *syntax.ProcSubst, *syntax.ExtGlob:
			s.unknown("this is bash-only syntax; write it for /bin/sh")
			return false
		case *syntax.ArithmExp:
			s.arithmetic(n)
		case *syntax.ParamExp:
			s.expansion(n)
		case *syntax.Word:
			s.oldArithmetic(n.Parts)
		case *syntax.DblQuoted:
			s.oldArithmetic(n.Parts)
			s.quotesWithin(n)
		}
		return true
	})
}

// quotesWithin refuses single quotes in an expansion that is itself quoted, as in
// "${x-'y'}": shells disagree on whether they quote anything there.
func (s *scripter) quotesWithin(quoted syntax.Node) {
	syntax.Walk(quoted, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst:
			return false // a context of its own
		case *syntax.ParamExp:
			if n.Exp != nil && n.Exp.Word != nil && hasQuotes(n.Exp.Word) {
				s.unknown("single quotes in an expansion that is quoted mean different things to different shells; assign the value to a variable first")
			}
		}
		return true
	})
}

func hasQuotes(w *syntax.Word) bool {
	found := false
	syntax.Walk(w, func(n syntax.Node) bool {
		switch n.(type) {
		case *syntax.CmdSubst:
			return false
		case *syntax.SglQuoted:
			found = true
		}
		return true
	})
	return found
}

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

// expansion: ${x:=word} assigns.
func (s *scripter) expansion(p *syntax.ParamExp) {
	switch {
	case p.Excl, p.Index != nil, p.Slice != nil, p.Repl != nil, p.Names != 0, p.NestedParam != nil, p.Width:
		s.unknown("this expansion is bash-only syntax; write it for /bin/sh")
	case p.Exp != nil && (p.Exp.Op == syntax.AssignUnset || p.Exp.Op == syntax.AssignUnsetOrNull):
		if why := settable(p.Param.Value); why != "" {
			s.unknown(why)
		}
	}
}

// arithmetic: where /bin/sh is bash or ksh, a variable in it is evaluated as an
// expression, which may hold a command substitution. So each must have been
// given numbers only.
func (s *scripter) arithmetic(a *syntax.ArithmExp) {
	bad := ""
	syntax.Walk(a, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst:
			bad = "$(…)"
		case *syntax.ParamExp:
			if n.Param == nil || !s.numbers[n.Param.Value] && !strings.Contains("?#$", n.Param.Value) {
				bad = "$" + paramName(n)
			}
		case *syntax.Word:
			if lit := n.Lit(); functionName.MatchString(lit) && !s.numbers[lit] {
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
		s.unknown("arithmetic with " + bad + " may start commands in some shells; use only variables that the script gives numbers to, or expr")
	}
}

func paramName(p *syntax.ParamExp) string {
	if p.Param == nil {
		return "{…}"
	}
	return p.Param.Value
}

// numbers tells which variables only ever get numbers, for [scripter.arithmetic].
func numbers(file *syntax.File) map[string]bool {
	m := map[string]bool{}
	set := func(name string, ok bool) {
		if was, seen := m[name]; seen {
			ok = ok && was
		}
		m[name] = ok
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Assign:
			if n.Name != nil {
				set(n.Name.Value, n.Value != nil && !n.Append && numeric(n.Value))
			}
		case *syntax.ForClause:
			if it, ok := n.Loop.(*syntax.WordIter); ok {
				all := it.InPos.IsValid()
				for _, w := range it.Items {
					all = all && numeric(w)
				}
				set(it.Name.Value, all)
			}
		case *syntax.ParamExp:
			if n.Exp != nil && n.Param != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) {
				set(n.Param.Value, false)
			}
		case *syntax.CallExpr:
			named(n, set)
		}
		return true
	})
	return m
}

// named notes variables that a builtin's arguments name.
func named(c *syntax.CallExpr, set func(string, bool)) {
	if len(c.Args) == 0 {
		return
	}
	switch name, _ := literal(c.Args[0]); name {
	case "read", "export", "readonly", "local", "getopts", "command", "unset":
		for _, w := range c.Args[1:] {
			name, _, _ := strings.Cut(declared(w), "=")
			set(name, false)
		}
	}
}

// declared is marker for an argument of export and its like: of NAME="$x" it
// gives NAME=, as long as that stays one word.
func declared(w *syntax.Word) string {
	m := marker(w)
	if m != NonLiteral || len(w.Parts) == 0 {
		return m
	}
	if lit, ok := w.Parts[0].(*syntax.Lit); ok {
		if name, _, ok := strings.Cut(lit.Value, "="); ok && functionName.MatchString(name) {
			return name + "="
		}
	}
	return m
}

// number: a word that is numeric, or a variable that only ever is, quoted or not.
func (s *scripter) number(w *syntax.Word) bool {
	if len(w.Parts) != 1 {
		return false
	}
	part := w.Parts[0]
	if q, ok := part.(*syntax.DblQuoted); ok && len(q.Parts) == 1 && !q.Dollar {
		part = q.Parts[0]
	}
	p, ok := part.(*syntax.ParamExp)
	return ok && p.Short && p.Param != nil && s.numbers[p.Param.Value] || numeric(&syntax.Word{Parts: []syntax.WordPart{part}})
}

// numeric: digits, what the shell itself counts ($!, $?, …), or arithmetic, which is judged by itself.
func numeric(w *syntax.Word) bool {
	if len(w.Parts) != 1 {
		return false
	}
	switch p := w.Parts[0].(type) {
	case *syntax.ArithmExp:
		return true
	case *syntax.ParamExp:
		return p.Short && p.Param != nil && len(p.Param.Value) == 1 && strings.Contains("!?#$", p.Param.Value)
	}
	lit := strings.TrimPrefix(w.Lit(), "-")
	return lit != "" && strings.Trim(lit, "0123456789") == ""
}

// redirect derives what a redirection opens.
func (s *scripter) redirect(r *syntax.Redirect) {
	if r.N != nil && (len(r.N.Value) != 1 || r.N.Value[0] < '0' || r.N.Value[0] > '9') {
		// Of 12>f some shells make the word 12 and >f.
		s.unknown("the redirection of " + strconv.Quote(r.N.Value) + " means different things to different shells; use a number from 0 to 9")
		return
	}
	s.substitutions(r.Word)
	s.substitutions(r.Hdoc)
	if r.Hdoc != nil {
		s.quotesWithin(r.Hdoc)
	}
	target := marker(r.Word)
	switch r.Op {
	case syntax.RdrOut, syntax.AppOut, syntax.RdrClob:
		s.file(tool.FileWrite, target)
	case syntax.RdrIn:
		s.file(tool.FileRead, target)
	case syntax.RdrInOut:
		s.file(tool.FileRead, target)
		s.file(tool.FileWrite, target)
	case syntax.DplIn, syntax.DplOut:
		if target != "-" && (len(target) != 1 || target[0] < '0' || target[0] > '9') {
			s.unknown("the redirection to " + r.Op.String() + " needs a literal number from 0 to 9; write > FILE 2>&1")
		}
	case syntax.Hdoc, syntax.DashHdoc:
	default:
		s.unknown("the redirection " + r.Op.String() + " is bash-only syntax; write it for /bin/sh")
	}
}
