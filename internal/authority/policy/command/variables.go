package command

import (
	"maps"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/remitrun/remit/internal/base/regex"
)

// variables holds facts about the variables of one script that are certain on
// every path through it. Sourcing a file, eval and trap end all certainty.
type variables struct {
	sets      map[string]int    // how often something sets each
	assigned  map[string]int    // how often that is an assignment of a whole value
	first     map[string]uint   // where in the text something sets it first
	elements  map[string]int    // how often only an element of it is set
	numbers   map[string]bool   // whether each only ever holds numbers
	constants map[string]string // variables that are set once, to a literal text, and are set by now
	assoc     map[string]bool   // arrays that are certainly associative by now
	prefixes  map[string]string // what the variable of a loop begins with, within it
	functions map[string]bool   // names that the script defines
	given     map[string]bool   // variables that the environment may have set
	clean     bool              // nothing else is in the environment: a variable that nothing sets is empty
	arguments bool              // the script may have arguments ($1, …): it sets them, or has functions
	splits    bool              // the script sets IFS
	settled   map[string]bool   // those that certainly got one of the script's values by now
	homeless  bool              // HOME may be unset
	own       bool              // no command could set a variable in its environment
	uncertain bool              // text that is not here may set any
	at        uint              // where the survey is
}

// surveyVariables finds the uses of variables in a script.
func surveyVariables(file *syntax.File, given []string, clean bool) *variables {
	v := &variables{sets: map[string]int{}, assigned: map[string]int{}, first: map[string]uint{}, elements: map[string]int{}, numbers: map[string]bool{}, constants: map[string]string{}, assoc: map[string]bool{}, settled: map[string]bool{}, prefixes: map[string]string{}, functions: map[string]bool{}, given: map[string]bool{}, clean: clean}
	for _, name := range given {
		v.given[name] = true
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		if n != nil {
			v.at = n.Pos().Offset()
			v.node(n)
		}
		return true
	})
	v.splits = v.sets["IFS"] > 0
	return v
}

// set notes that something sets a variable, and whether to a number.
func (v *variables) set(name string, number bool) {
	v.numbers[name] = number && (v.sets[name] == 0 || v.numbers[name])
	if v.sets[name]++; v.sets[name] == 1 {
		v.first[name] = v.at
	}
}

func (v *variables) node(n syntax.Node) {
	switch n := n.(type) {
	case *syntax.Assign:
		if n.Name != nil {
			v.set(n.Name.Value, n.Value != nil && !n.Append && numeric(n.Value))
			if !n.Append && n.Index == nil && n.Array == nil {
				v.assigned[n.Name.Value]++
			}
			if n.Index != nil {
				v.elements[n.Name.Value]++
			}
		}
	case *syntax.ForClause:
		if it, ok := n.Loop.(*syntax.WordIter); ok {
			all := it.InPos.IsValid()
			for _, w := range it.Items {
				all = all && (numeric(w) || numericBraces(w))
			}
			v.set(it.Name.Value, all)
		}
	case *syntax.ParamExp:
		if n.Exp != nil && n.Param != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) {
			v.set(n.Param.Value, false)
		}
	case *syntax.BinaryArithm:
		if assigns(n.Op) {
			v.counted(n.X)
		}
	case *syntax.UnaryArithm:
		if n.Op == syntax.Inc || n.Op == syntax.Dec {
			v.counted(n.X)
		}
	case *syntax.DeclClause:
		for _, a := range n.Args {
			if a.Naked && a.Value != nil {
				name, _, _ := strings.Cut(declared(a.Value), "=")
				v.set(name, false)
			}
		}
	case *syntax.Redirect:
		if n.N != nil && strings.HasPrefix(n.N.Value, "{") {
			v.set(strings.Trim(n.N.Value, "{}"), false)
		}
	case *syntax.FuncDecl:
		v.arguments = true
		if n.Name != nil {
			v.functions[n.Name.Value] = true
		}
	case *syntax.CallExpr:
		v.named(n)
	}
}

// counted notes variables that arithmetic sets: their values are numbers.
func (v *variables) counted(x syntax.ArithmExpr) {
	syntax.Walk(x, func(n syntax.Node) bool {
		if lit, ok := n.(*syntax.Lit); ok {
			v.set(lit.Value, true)
		}
		return true
	})
}

// named notes variables that a builtin's arguments name.
func (v *variables) named(c *syntax.CallExpr) {
	if len(c.Args) == 0 {
		return
	}
	switch name, plain := literal(c.Args[0]); {
	case !plain, name == "eval", name == "source", name == ".", name == "trap":
		v.uncertain = true
	case name == "set":
		v.arguments = true
	case setsVariables(name):
		for _, w := range c.Args[1:] {
			name, _, _ := strings.Cut(declared(w), "=")
			v.set(name, false)
			v.arguments = v.arguments || name == "set" // behind command or builtin
			v.uncertain = v.uncertain || name == "eval" || name == "source" || name == "." || name == "trap"
		}
	}
}

// setsVariables reports whether a builtin may set variables that its arguments name.
func setsVariables(name string) bool {
	kind, known := builtins()[name]
	return known && kind != harmless && kind != moving && kind != testing
}

// makeAssociative notes that declare -A certainly ran for a. The array is associative
// only if nothing was there before, and nothing but that makes or removes it: else
// bash leaves it as it was.
func (v *variables) makeAssociative(a *syntax.Assign) {
	name := a.Name.Value
	v.assoc[name] = a.Index == nil && v.sets[name] == 1+v.elements[name] && v.first[name] == a.Pos().Offset() && !v.given[name] && !SetsItself(name)
}

// ofShell are the variables that the shell or the sandbox sets by itself.
var ofShell = regex.Lazy(`^(_|BASH.*|COLORTERM|COLUMNS|COMP.*|COPROC.*|DIRSTACK|EPOCH.*|EUID|FUNCNAME|GIT_.*|GROUPS|HIST.*|HOME|HOST.*|IFS|LANG|LC_.*|` +
	`LINENO|LINES|LOGNAME|MACHTYPE|MAIL.*|MAPFILE|OLDPWD|OPT.*|OSTYPE|PATH|PIPESTATUS|PPID|PS[0-4]|PWD|RANDOM|READLINE.*|REMIT_.*|REPLY|SECONDS|` +
	`SHELL.*|SHLVL|SRANDOM|TERM.*|TIMEFORMAT|TMOUT|TMPDIR|UID|USER|.*_PROXY|.*_proxy|.*CERT.*|.*_CA_.*|.*CAINFO.*)$`)

// SetsItself reports whether the shell or the sandbox may set a variable by itself,
// so that one that no script sets need not be empty.
func SetsItself(name string) bool { return ofShell.MatchString(name) }

// value returns the text that $x or ${x} certainly holds.
func (v *variables) value(p *syntax.ParamExp) (value string, known bool) {
	if v == nil || v.uncertain || !simple(p) {
		return "", false
	}
	name := p.Param.Value
	if !functionName.MatchString(name) {
		argument := name == "@" || name == "*" || strings.Trim(name, "123456789") == ""
		return "", argument && v.clean && !v.arguments && !v.given["@"]
	}
	if value, known = v.constants[name]; known {
		return value, true
	}
	return "", v.clean && v.sets[name] == 0 && !v.given[name] && !SetsItself(name)
}

// prefix returns the certain beginning of the loop variable $x, or "".
func (v *variables) prefix(p *syntax.ParamExp) string {
	if v == nil || v.uncertain || !simple(p) {
		return ""
	}
	return v.prefixes[p.Param.Value]
}

// plainFields reports whether a number or date is one word where it is inserted: nothing sets IFS.
func (v *variables) plainFields() bool { return v != nil && v.clean && !v.uncertain && !v.splits }

// substituted gives the words of a command substitution that is one literal command, which
// certainly means the program of that name; nil for any other part of a word.
func (v *variables) substituted(part syntax.WordPart) []string {
	c, ok := part.(*syntax.CmdSubst)
	if !ok || v == nil || v.uncertain || v.sets["PATH"] > 0 || len(c.Stmts) != 1 || c.TempFile || c.ReplyVar {
		return nil
	}
	st := c.Stmts[0]
	call, ok := st.Cmd.(*syntax.CallExpr)
	if !ok || st.Negated || st.Background || len(st.Redirs) > 0 || len(call.Assigns) > 0 {
		return nil
	}
	var argv []string
	for _, w := range call.Args {
		text, plain := literal(w)
		if !plain {
			return nil
		}
		argv = append(argv, text)
	}
	if len(argv) == 0 || v.functions[argv[0]] {
		return nil
	}
	return argv
}

// dateFormat is a format of date that gives digits and plain characters; wholeNumber and
// arithmetic are the words of a calculation of expr.
var (
	dateFormat  = regex.Lazy(`^\+([A-Za-z0-9_.:-]|%[YmdHMSsjuVFTyN])+$`)
	wholeNumber = regex.Lazy(`^[0-9]+$`)
	arithmetic  = words("+ - * / %")
)

// plainOutput reports whether a command substitution certainly inserts one word of plain
// characters, or nothing.
func (v *variables) plainOutput(c *syntax.CmdSubst) bool {
	argv := v.substituted(c)
	switch {
	case argv == nil || !v.plainFields():
		return false
	case argv[0] == "date":
		return len(argv) == 2 && dateFormat.MatchString(argv[1])
	case argv[0] == "expr":
		for i, w := range argv[1:] {
			if i%2 == 0 && !wholeNumber.MatchString(w) || i%2 == 1 && !arithmetic[w] {
				return false
			}
		}
		return len(argv) > 1
	}
	return false
}

// constant notes that a variable has certainly been set to a word by now.
func (v *variables) constant(name string, w *syntax.Word) {
	v.settled[name] = true
	if v.sets[name] != 1 || SetsItself(name) {
		return
	}
	text := ""
	if w != nil {
		text, _ = readWord(&syntax.Word{Parts: w.Parts}, nil)
	}
	if !nonLiteral(text) {
		v.constants[name] = text
	}
}

// inert is a text of characters that no option of a shell gives a meaning behind an
// expansion: nothing splits or globs it, nor takes it for a brace or a home folder.
var inert = regex.Lazy(`^[A-Za-z0-9_./:=,+@%-]+$`)

// counters are variables of the shell's own that hold numbers.
var counters = words("RANDOM SECONDS LINENO UID EUID PPID BASHPID")

// numeric reports whether a variable only ever holds numbers.
func (v *variables) numeric(name string) bool {
	if v.uncertain || v.given[name] {
		return false
	}
	return v.numbers[name] && (v.own || v.settled[name]) || counters[name] && v.sets[name] == 0
}

// settleLoop notes that the variables of a loop have its values within it; undo ends that.
func (v *variables) settleLoop(c *syntax.ForClause) (undo func()) {
	was := maps.Clone(v.settled)
	switch it := c.Loop.(type) {
	case *syntax.WordIter:
		v.settled[it.Name.Value] = true
	case *syntax.CStyleLoop:
		if a, ok := it.Init.(*syntax.BinaryArithm); ok && a.Op == syntax.Assgn {
			if w, ok := a.X.(*syntax.Word); ok {
				v.settled[w.Lit()] = true
			}
		}
	}
	return func() { v.settled = was }
}

// associative reports whether an array is certainly an associative one, whose
// index is a text and is not evaluated.
func (v *variables) associative(name string) bool { return !v.uncertain && v.assoc[name] }

// onlyNumber: a word that is numeric, or a variable that only ever is, quoted or not.
func (v *variables) onlyNumber(w *syntax.Word) bool {
	if len(w.Parts) != 1 {
		return false
	}
	part := w.Parts[0]
	if q, ok := part.(*syntax.DblQuoted); ok && len(q.Parts) == 1 && !q.Dollar {
		part = q.Parts[0]
	}
	p, ok := part.(*syntax.ParamExp)
	return ok && simple(p) && v.numeric(p.Param.Value) || numeric(&syntax.Word{Parts: []syntax.WordPart{part}})
}

// numeric: digits, numbers that the shell sets ($!, $?, …), or arithmetic, which
// is judged by itself.
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

var rangeOfNumbers = regex.Lazy(`^\{-?[0-9]+\.\.-?[0-9]+(\.\.-?[0-9]+)?\}$`)

// numericBraces: {1..3}, which a shell without braces takes as a text.
func numericBraces(w *syntax.Word) bool { return rangeOfNumbers.MatchString(w.Lit()) }
