package command

import (
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/remitrun/remit/internal/base/tool"
)

// wordReader builds the known text of a shell word.
type wordReader struct {
	vars  *variables      // the known variables; nil: none
	known []string        // certain texts, each before an unknown part
	text  strings.Builder // the text since the last of them
	bare  strings.Builder // the unquoted text, for braces
	one   bool            // some of it is known only when it runs
	many  bool            // it may become several words, or none, that are not known
	glob  bool            // it is a pattern for names of files
	vague bool            // nothing of it is certain
	there bool            // it is a word even if it is empty
	maybe bool            // a part may turn out to be nothing
	home  string          // the shape of a word that is a folder and a literal text behind it
	cut   int             // of known, how many stand before a [, behind which nothing is read; 0: all
}

// literal gives a word's text; ok is false if it is known only when it runs.
func literal(w *syntax.Word) (text string, ok bool) {
	m := marker(w)
	return m, !nonLiteral(m)
}

// marker returns a word's text, or the known part of it.
func marker(w *syntax.Word) string {
	m, _ := readWord(w, nil)
	return m
}

// readWord returns a word's text, or the known parts of it. A word of unset
// variables alone disappears.
func readWord(w *syntax.Word, vars *variables) (text string, there bool) {
	r := wordReader{vars: vars}
	for i, p := range w.Parts {
		r.part(p, i == 0, i == len(w.Parts)-1)
	}
	return r.word(), r.there || r.many || r.one || r.glob || r.text.Len() > 0
}

func (r *wordReader) word() string {
	bare := r.bare.String()
	braces := strings.IndexByte(bare, '{')
	if braces >= 0 {
		rest := bare[braces:]
		if !strings.Contains(rest, "}") || !strings.Contains(rest, ",") && !strings.Contains(rest, "..") {
			braces = -1
		}
	}
	known := append(slices.Clip(r.known), r.text.String())
	if r.cut > 0 {
		known = append(known[:r.cut], "")
	}
	if r.home != "" && len(known) == 2 && known[1] != "" && known[1][0] != '/' {
		r.home, r.vague = "", true // without a folder, it is the text behind it
	}
	switch {
	case r.many && r.home != "" && len(known) == 2 && known[0] == "/":
		return map[string]string{shapeHome: anyHome, shapeHere: anyHere}[r.home] + known[1]
	case r.many, r.maybe && !r.there && strings.Join(known, "") == "":
		return NonLiteralMany
	case r.vague && (r.glob || braces >= 0):
		return NonLiteralMany
	case r.vague:
		return NonLiteral
	case braces >= 0: // each of the words begins with the text before it
		before, _, _ := strings.Cut(known[0], "{")
		return shaped(shapeGlob, before, "")
	case r.glob:
		return shaped(shapeGlob, known...)
	case !r.one:
		return r.text.String()
	case strings.Join(known, "") == "":
		return NonLiteral
	case r.home != "" && len(known) == 2 && known[0] == "/":
		return r.home + known[1]
	}
	return shaped(shapeOne, known...)
}

// unknown notes a part of the word that is known only at run time.
func (r *wordReader) unknown() {
	r.one = true
	r.gap()
}

// folder notes that the word goes on with an absolute folder that a variable holds.
func (r *wordReader) folder(variable string) {
	if len(r.known) == 0 && r.text.Len() == 0 {
		r.home = map[string]string{"HOME": shapeHome, "PWD": shapeHere}[variable]
	}
	r.text.WriteByte('/')
	r.unknown()
}

func (r *wordReader) gap() {
	r.known = append(r.known, r.text.String())
	r.text.Reset()
}

func (r *wordReader) part(p syntax.WordPart, first, last bool) {
	switch p := p.(type) {
	case *syntax.Lit:
		r.lit(p.Value, first, last)
	case *syntax.SglQuoted:
		r.there = true
		r.bare.WriteByte('q')
		if text, ok := ansi(p.Value); !p.Dollar {
			r.text.WriteString(p.Value)
		} else if ok {
			r.text.WriteString(text)
		} else {
			r.unknown()
		}
	case *syntax.DblQuoted:
		r.there = r.there || !r.noArguments(p)
		r.vague = r.vague || p.Dollar
		r.bare.WriteByte('q')
		for i, q := range p.Parts {
			r.quoted(q, i == len(p.Parts)-1 || plainBehindDollar(p.Parts[i+1]))
		}
	case *syntax.ParamExp:
		value, known := r.vars.value(p)
		switch {
		case known && (value == "" || inert.MatchString(value)):
			r.text.WriteString(value)
			r.many = r.many || r.vars.splits && value != ""
			r.bare.WriteByte('q')
		case r.vars.absolute(p):
			r.folder(p.Param.Value)
			r.many = true
		default:
			r.many, r.home = true, ""
		}
	case *syntax.ProcSubst:
		r.text.WriteString("/dev/fd/")
		r.unknown()
	case *syntax.ArithmExp:
		r.number(r.vars.plainFields())
	case *syntax.CmdSubst:
		r.maybe = true
		r.number(r.vars.plainOutput(p))
	default:
		r.many, r.home = true, ""
	}
}

// number reads a part that is inserted without quotes: into one word, or into text that IFS may split.
func (r *wordReader) number(one bool) {
	if one {
		r.unknown()
		return
	}
	r.many, r.home = true, ""
}

// noArguments reports whether a word is "$@" where there certainly are none.
func (r *wordReader) noArguments(q *syntax.DblQuoted) bool {
	if len(q.Parts) != 1 {
		return false
	}
	p, ok := q.Parts[0].(*syntax.ParamExp)
	if !ok || !simple(p) || p.Param.Value != "@" {
		return false
	}
	_, known := r.vars.value(p)
	return known
}

// plainBehindDollar reports whether a $ before a part of a word is only that character.
func plainBehindDollar(p syntax.WordPart) bool {
	lit, ok := p.(*syntax.Lit)
	return ok && lit.Value != "" && strings.IndexByte(" .:;,/|%^)]}=+~\\<>", lit.Value[0]) >= 0
}

// ansi reads the text of $'…', if it holds only escapes that are plain to read.
func ansi(s string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		i++
		if i == len(s) {
			return "", false
		}
		switch s[i] {
		case 'n':
			b.WriteByte('\n')
		case 't':
			b.WriteByte('\t')
		case '\\', '\'', '"':
			b.WriteByte(s[i])
		default:
			return "", false
		}
	}
	return b.String(), true
}

// absolute reports whether an expansion is a variable that holds an absolute path:
// the sandbox and the shell set these, and no script may.
func (v *variables) absolute(p *syntax.ParamExp) bool {
	return simple(p) && (p.Param.Value == "PWD" || p.Param.Value == "HOME" && (v == nil || !v.homeless))
}

// simple reports whether an expansion is $x or ${x}.
func simple(p *syntax.ParamExp) bool {
	return p.Param != nil && !p.Excl && !p.Length && !p.Width && p.Index == nil && p.Slice == nil && p.Repl == nil && p.Exp == nil &&
		p.Names == 0 && p.NestedParam == nil && p.Flags == nil && !p.IsSet
}

// lit reads unquoted text.
func (r *wordReader) lit(s string, first, last bool) {
	if strings.Contains(s, "=~") || strings.Contains(s, ":~") {
		r.vague = true
	}
	if first && strings.HasPrefix(s, "~") {
		if s == "~" && last || strings.HasPrefix(s, "~/") { // the home folder
			r.folder("HOME")
			s = s[1:]
		} else {
			r.vague = true
		}
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s):
			i++
			if s[i] == '\n' {
				continue
			}
			r.there = true
			r.bare.WriteByte('q')
		case c == '\\':
			r.vague = true
		case c == '*', c == '?':
			r.glob = true
			r.gap()
			continue
		case c == '[' && s != "[":
			r.glob, r.vague = true, r.vague || strings.HasPrefix(s, "-")
			r.gap()
			if r.cut == 0 {
				r.cut = len(r.known)
			}
			continue
		case c == '$' && (i+1 < len(s) || !last):
			r.vague = true
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
				r.vague = true
			}
			r.text.WriteByte(s[i])
		}
	case *syntax.ParamExp:
		if value, known := r.vars.value(p); known {
			r.text.WriteString(value)
			return
		}
		if r.vars.absolute(p) {
			r.folder(p.Param.Value)
		} else {
			r.text.WriteString(r.vars.prefix(p))
			r.unknown()
		}
		if p.Param == nil || p.Param.Value == "@" || p.Index != nil || p.Exp != nil || p.Slice != nil || p.Names != 0 || p.Excl || p.Repl != nil {
			r.many = true // "$@" is many words, also within ${x-"$@"}
		}
	default:
		r.unknown()
	}
}

// argv reads the words of a simple command.
func (s *scripter) argv(ws []*syntax.Word) []string {
	out := make([]string, 0, len(ws))
	for _, w := range ws {
		text, there := readWord(w, s.vars)
		if here, ok := s.printsFolder(w); ok {
			text, there = here, true
		}
		if there {
			out = append(out, text)
		}
	}
	return out
}

// printsFolder reads a word that is $(pwd) alone, with or without quotes, as $PWD. The
// name must mean the builtin.
func (s *scripter) printsFolder(w *syntax.Word) (text string, ok bool) {
	if !s.clean || s.vars == nil || s.vars.arguments || s.vars.uncertain || len(w.Parts) != 1 {
		return "", false
	}
	text, part := anyHere, w.Parts[0]
	if q, quoted := part.(*syntax.DblQuoted); quoted && !q.Dollar && len(q.Parts) == 1 {
		text, part = shapeHere, q.Parts[0]
	}
	c, ok := part.(*syntax.CmdSubst)
	if !ok || len(c.Stmts) != 1 || len(c.Stmts[0].Redirs) > 0 || c.Stmts[0].Negated || c.Stmts[0].Background {
		return "", false
	}
	call, ok := c.Stmts[0].Cmd.(*syntax.CallExpr)
	return text, ok && len(call.Assigns) == 0 && len(call.Args) == 1 && call.Args[0].Lit() == "pwd"
}

// substitutions derives the commands within a word. It refuses expansions that do
// more than insert a value.
func (s *scripter) substitutions(n syntax.Node) {
	if w, ok := n.(*syntax.Word); ok && w == nil {
		return
	}
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst:
			if n.TempFile || n.ReplyVar {
				s.unknown("this substitution is not POSIX shell")
			}
			s.apart(n.Stmts)
			return false
		case *syntax.ProcSubst:
			s.apart(n.Stmts)
			return false
		case *syntax.ExtGlob:
			s.unknown("the pattern " + n.Op.String() + "…) means different things, as shopt extglob says; write a plain pattern, or several")
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

// expansion: ${x:=word} assigns; ${!x} and ${x@P} evaluate what a variable holds;
// an index and an offset are arithmetic.
func (s *scripter) expansion(p *syntax.ParamExp) {
	switch {
	case p.NestedParam != nil, p.Width, p.Flags != nil, p.IsSet:
		s.unknown("this expansion is not one of bash")
	case p.Excl && p.Names == 0 && !allOf(p.Index):
		s.unknown("${!…} expands a variable that another one names; name it, or use case")
	case p.Exp != nil && p.Exp.Op == syntax.OtherParamOps && p.Exp.Word.Lit() != "Q" && p.Exp.Word.Lit() != "U" && p.Exp.Word.Lit() != "L" && p.Exp.Word.Lit() != "u":
		s.unknown("${…@…} evaluates what the variable holds; leave it out")
	case p.Exp != nil && (p.Exp.Op == syntax.AssignUnset || p.Exp.Op == syntax.AssignUnsetOrNull):
		if why := s.settable(p.Param.Value); why != "" {
			s.unknown(why)
		}
	}
	if p.Index != nil {
		s.index(p.Param.Value, p.Index)
	}
	if p.Slice != nil {
		s.number(p.Slice.Offset)
		s.number(p.Slice.Length)
	}
}

// allOf reports whether an index is @ or *.
func allOf(index syntax.ArithmExpr) bool {
	w, ok := index.(*syntax.Word)
	return ok && (w.Lit() == "@" || w.Lit() == "*")
}

// declared is marker for an argument of export and its like: of NAME="$x" it
// gives NAME=, as long as that stays one word.
func declared(w *syntax.Word) string {
	m := marker(w)
	if !nonLiteral(m) || isMany(m) {
		return m
	}
	if name, _, ok := strings.Cut(begins(m), "="); ok && functionName.MatchString(name) {
		return name + "="
	}
	return m
}

// redirect derives the file that a redirection opens.
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
	target, there := readWord(r.Word, s.vars)
	if !there {
		target = NonLiteral // an error of the shell's
	}
	if len(r.Word.Parts) == 1 {
		if _, ok := r.Word.Parts[0].(*syntax.ProcSubst); ok && r.Op != syntax.Hdoc && r.Op != syntax.DashHdoc {
			return // a pipe of the shell's own
		}
	}
	switch r.Op {
	case syntax.RdrOut, syntax.AppOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll:
		s.file(tool.FileWrite, target)
	case syntax.RdrIn:
		s.file(tool.FileRead, target)
	case syntax.RdrInOut:
		s.file(tool.FileRead, target)
		s.file(tool.FileWrite, target)
	case syntax.WordHdoc:
	case syntax.DplIn, syntax.DplOut:
		if target != "-" && (len(target) != 1 || target[0] < '0' || target[0] > '9') {
			s.unknown("the redirection to " + r.Op.String() + " needs a literal number from 0 to 9; write > FILE 2>&1")
		}
	case syntax.Hdoc, syntax.DashHdoc:
	default:
		s.unknown("the redirection " + r.Op.String() + " is not one of bash")
	}
}
