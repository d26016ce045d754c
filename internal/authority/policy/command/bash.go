package command

import (
	"maps"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// ofBash derives the actions of constructs that only bash has.
func (s *scripter) ofBash(c syntax.Command) {
	switch c := c.(type) {
	case *syntax.TestClause:
		s.test(c.X)
	case *syntax.ArithmCmd:
		s.count(c.X)
	case *syntax.LetClause:
		s.count(c.Exprs...)
	case *syntax.TimeClause:
		if c.Stmt != nil {
			s.nested++
			s.stmt(c.Stmt)
			s.nested--
		}
	case *syntax.DeclClause:
		s.declaration(c)
	default:
		s.unknown("this is not syntax of a plain script; write it without")
	}
}

// count judges an arithmetic command.
func (s *scripter) count(list ...syntax.ArithmExpr) {
	for _, x := range list {
		if x != nil {
			s.substitutions(x)
			s.number(x)
		}
	}
}

// test judges the expression within [[ and ]].
func (s *scripter) test(x syntax.TestExpr) {
	switch x := x.(type) {
	case *syntax.Word:
		s.substitutions(x)
	case *syntax.ParenTest:
		s.test(x.X)
	case *syntax.UnaryTest:
		if w, ok := x.X.(*syntax.Word); ok && (x.Op == syntax.TsVarSet || x.Op == syntax.TsRefVar) {
			if lit, plain := literal(w); !plain || !functionName.MatchString(lit) {
				s.unknown("[[ " + x.Op.String() + " … ]] evaluates an index; write [[ -n ${x+set} ]]")
			}
		}
		s.test(x.X)
	case *syntax.BinaryTest:
		switch x.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			s.compared(x.X)
			s.compared(x.Y)
		}
		s.test(x.X)
		s.test(x.Y)
	}
}

// compared judges an operand of [[ … -eq … ]], which is arithmetic.
func (s *scripter) compared(x syntax.TestExpr) {
	w, ok := x.(*syntax.Word)
	if !ok || s.vars.onlyNumber(w) {
		return
	}
	if len(w.Parts) == 1 {
		part := w.Parts[0]
		if q, ok := part.(*syntax.DblQuoted); ok && len(q.Parts) == 1 {
			part = q.Parts[0]
		}
		if p, ok := part.(*syntax.ParamExp); ok && p.Length && (p.Index == nil || allOf(p.Index)) {
			return
		}
	}
	s.unknown("[[ … -eq … ]] evaluates its operands, which may start commands; use [ … ], which does not")
}

// declaration derives declare, export and their like as bash reads them.
func (s *scripter) declaration(c *syntax.DeclClause) {
	builtin, exported := c.Variant.Value, c.Variant.Value == "export"
	s.deriver.argv = []string{builtin}
	assoc, unchanged := false, true
	for _, a := range c.Args {
		s.assigned(a)
		if !a.Naked || a.Value == nil {
			continue
		}
		flags, plain := literal(a.Value)
		if !plain || len(flags) < 2 || flags[0] != '-' && flags[0] != '+' {
			continue
		}
		if builtin == "nameref" || strings.Trim(flags[1:], declareFlags[builtin]) != "" {
			s.unknown(builtin + " takes only the flags " + declareFlags[builtin] + " here; others evaluate what they are given, or give a variable another name")
			return
		}
		exported = exported || strings.Contains(flags, "x") && flags[0] == '-'
		assoc = assoc || strings.Contains(flags, "A")
		unchanged = unchanged && flags[0] == '-' && strings.Trim(flags[1:], "gxr") == ""
	}
	for _, a := range c.Args {
		if why := s.declared(builtin, a, exported, unchanged); why != "" {
			s.unknown(why)
		} else if assoc && a.Name != nil && s.nested == 0 {
			s.vars.makeAssociative(a)
		}
	}
}

// declareFlags are the flags that neither evaluate a value nor make a reference.
var declareFlags = map[string]string{"declare": "aAgrxlupfF", "typeset": "aAgrxlupfF", "local": "aArxlup", "export": "pn", "readonly": "aAp"}

// declared judges one argument of declare and its like. plain: no attribute changes the value.
func (s *scripter) declared(builtin string, a *syntax.Assign, exported, plain bool) string {
	if a.Name != nil {
		value := s.value(a)
		why := s.set(a.Name.Value, value, exported)
		if why == "" && plain && builtin != "local" && s.nested == 0 && a.Index == nil && a.Array == nil && !a.Append && !a.Naked {
			s.vars.constant(a.Name.Value, a.Value)
		}
		return why
	}
	w := declared(a.Value)
	if strings.HasPrefix(w, "-") || strings.HasPrefix(w, "+") {
		return ""
	}
	name, _, ok := strings.Cut(w, "=")
	if !ok || nonLiteral(w) {
		return builtin + " of a word that is not literal; assign first, then name the variable alone"
	}
	return s.set(name, NonLiteral, exported)
}

// assigned derives the commands that an assignment's value and index start.
func (s *scripter) assigned(a *syntax.Assign) {
	if a.Value != nil {
		s.substitutions(a.Value)
	}
	if a.Index != nil {
		s.substitutions(a.Index)
		s.index(a.Name.Value, a.Index)
	}
	if a.Array == nil {
		return
	}
	for _, e := range a.Array.Elems {
		if e.Index != nil {
			s.substitutions(e.Index)
			s.index(a.Name.Value, e.Index)
		}
		if e.Value != nil {
			s.substitutions(e.Value)
		}
	}
}

// runs derives builtins that run commands in the shell itself.
func (s *scripter) runs(kind builtin, argv []string) string {
	name, args := argv[0], argv[1:]
	if s.bash() && len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	switch {
	case len(args) == 0:
		return ""
	case kind == executing && (strings.HasPrefix(args[0], "-") || nonLiteral(args[0])):
		return "exec needs the name of a command; its options are denied"
	case kind == executing:
		s.command(args)
		return ""
	case kind == sourcing && nonLiteral(args[0]) && mayBeOption(args[0]):
		s.add(tool.Action{Kind: tool.Command, Argv: []string{s.shell(), NonLiteralMany}, Dir: s.dir}) // some file: no option of source names anything else
		s.dir = ""
		return ""
	case kind == sourcing && mayBeOption(args[0]):
		return name + " needs the file that it reads, literal or beginning with ./"
	case kind == sourcing:
		s.command(append([]string{s.shell()}, args...)) // sourcing needs the same permission as running the file with that shell
		s.dir = ""
		return ""
	case kind == trapping && (args[0] == "" || args[0] == "-" || args[0] == "-l" || args[0] == "-p"):
		return ""
	case kind == trapping:
		return s.trap(args)
	}
	for _, w := range args {
		if nonLiteral(w) {
			return "what eval runs is not literal; write the command itself"
		}
	}
	return s.within(name, strings.Join(args, " "), false)
}

// trap derives a text that the shell runs on signals and at other moments. From one that goes
// to another folder, all later commands may start elsewhere, unless it runs at the end alone.
func (s *scripter) trap(args []string) string {
	was := s.dir
	if why := s.within("trap", args[0], true); why != "" {
		return why
	}
	atEnd := len(args) > 1
	for _, w := range args[1:] {
		atEnd = atEnd && (strings.EqualFold(w, "EXIT") || w == "0")
	}
	if parsed, err := parse(args[0], s.lang); err == nil && moves(parsed.Stmts) && !atEnd {
		return "what trap runs may change the folder of every command; only a trap on EXIT may"
	}
	if atEnd {
		s.dir = was
	}
	return ""
}

// shell is the name of the shell that reads the script.
func (s *scripter) shell() string {
	if s.bash() {
		return "bash"
	}
	return "sh"
}

// within derives a text that the shell itself runs, now or later.
func (s *scripter) within(name, text string, later bool) string {
	if nonLiteral(text) {
		return "what " + name + " runs is not literal; write the command itself"
	}
	if s.depth > maxDepth {
		return "commands are nested too deeply"
	}
	sub := &scripter{deriver: s.deriver, lang: s.lang, funcs: maps.Clone(s.funcs), nested: 1, part: true}
	var err *fault.Error
	was := s.dir
	if later {
		s.dir = ""
	}
	s.depth++
	sub.again(func() { _, err = sub.script(text) })
	s.depth--
	s.dir = was
	switch {
	case err != nil:
		return "what " + name + " runs cannot be read: " + err.Msg
	case len(sub.funcs) > len(s.funcs):
		return "what " + name + " runs defines a function; define it in the script itself"
	case sub.moves:
		s.dir = ""
	}
	return ""
}

// shellOptions are the options that shopt may set. None changes how bash reads a script
// that is accepted here: the patterns that extglob adds are refused. With nocaseglob a glob's
// letters are not certain, and with failglob it is not certain which commands run.
var shellOptions = lazy("nullglob dotglob globstar nocasematch globasciiranges inherit_errexit lithist cmdhist checkwinsize huponexit extglob")

// ofBashBuiltin returns why a builtin of bash is refused, or "".
func (s *scripter) ofBashBuiltin(kind builtin, argv []string) string {
	name, args := argv[0], argv[1:]
	switch kind {
	case optioning:
		for _, w := range args {
			if !shellOptions()[w] && w != "-s" && w != "-u" && w != "-q" && w != "-p" {
				return "shopt takes only options here that do not change how commands are read: " + strings.Join(slices.Sorted(maps.Keys(shellOptions())), ", ")
			}
		}
	case aliasing:
		for _, w := range args {
			if s.env.Foreign && (nonLiteral(w) || strings.Contains(w, "=")) {
				return "the agent's shell may expand the alias " + strings.TrimSuffix(begins(w), "=") + "; write the command itself"
			}
		}
	case listing:
		for _, w := range args {
			if name == "bind" && (len(w) < 2 || w[0] != '-' || strings.Trim(w[1:], "lpsvPSVX") != "") || name == "jobs" && strings.Trim(w, "-lprns%0123456789") != "" || name == "hash" && w != "-r" ||
				name == "history" && w != "-c" && w != "-n" && strings.Trim(w, "0123456789") != "" || name == "dirs" && w != "-c" && w != "-v" && w != "-p" && w != "-l" {
				return "the argument " + show(w) + " of " + name + " is not one that is known to be harmless"
			}
		}
	case reading:
		return s.mapfile(args)
	}
	return ""
}

// mapfile reads lines into an array; with -C it starts a command.
func (s *scripter) mapfile(args []string) string {
	for i := 0; i < len(args); i++ {
		w := args[i]
		switch w {
		case "-t":
		case "-d", "-n", "-O", "-s", "-u":
			if i++; i < len(args) && isMany(args[i]) {
				return "a word of mapfile may be several words"
			}
		default:
			if why := s.settable(w); why != "" {
				return "mapfile: " + why
			}
		}
	}
	return ""
}
