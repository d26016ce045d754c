package command

import (
	"slices"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/base/tool"
)

// Bounds of one script: bytes of text, and commands of any kind.
const (
	maxScript     = 64 << 10
	maxStatements = 2000
)

// Script says what a POSIX shell script needs: every command in it, also in
// pipes, lists, functions and substitutions, as [Actions] derives it, and
// every redirection as a file action. canonical is the script as the parser
// prints it: that text is what is to run, so that nothing is read in two ways.
// dir is the absolute folder it starts in; passEnv names the variables that
// commands may be given.
//
// Builtins that only concern the shell itself need no rule (cd, echo, test,
// ...). What is denied on principle (eval, traps, ...) becomes an action with
// Unknown set; err, with the code fault.ArgsInvalid, says that the text is no
// POSIX shell script.
func Script(src string, env tool.Env, dir string, passEnv []string) (canonical string, actions []tool.Action, err error) {
	first := newScripter(env, dir, passEnv)
	canonical, ferr := first.script(src)
	if ferr != nil {
		return "", nil, ferr
	}
	again := newScripter(env, dir, passEnv)
	reprint, ferr := again.script(canonical)
	if ferr != nil || reprint != canonical || !slices.EqualFunc(first.actions, again.actions, same) {
		return "", nil, fault.New(fault.ArgsInvalid, "the script can be read in two ways").
			WithHint("write it in simpler shell, or as several calls")
	}
	return canonical, first.actions, nil
}

func same(a, b tool.Action) bool {
	return a.Kind == b.Kind && a.Unknown == b.Unknown && a.Path == b.Path && a.Dir == b.Dir && slices.Equal(a.Argv, b.Argv)
}

// scripter derives a script's actions.
type scripter struct {
	*deriver
	funcs   map[string]bool // functions that are certainly defined by now
	numbers map[string]bool // variables: whether they only ever hold numbers
	moves   bool            // there is a cd somewhere
	nested  int             // depth within compound commands
}

func newScripter(env tool.Env, dir string, pass []string) *scripter {
	return &scripter{deriver: &deriver{env: env, dir: dir, pass: pass}, funcs: map[string]bool{}}
}

// script parses src, derives its actions and gives the canonical text.
func (s *scripter) script(src string) (string, *fault.Error) {
	file, err := parse(src)
	if err != nil {
		return "", err
	}
	if n := statements(file); n > maxStatements {
		return "", fault.New(fault.ArgsInvalid, "the script has more than %d commands", maxStatements).WithHint("split it")
	}
	var b strings.Builder
	if err := syntax.NewPrinter(syntax.Indent(0)).Print(&b, file); err != nil {
		return "", fault.Wrap(fault.ArgsInvalid, err, "the script cannot be printed")
	}
	s.survey(file)
	was := s.dir
	s.stmts(file.Stmts)
	s.dir = was
	return b.String(), nil
}

func statements(file *syntax.File) (n int) {
	syntax.Walk(file, func(node syntax.Node) bool {
		if _, ok := node.(*syntax.Stmt); ok {
			n++
		}
		return n <= maxStatements
	})
	return n
}

func parse(src string) (*syntax.File, *fault.Error) {
	switch {
	case len(src) > maxScript:
		return nil, fault.New(fault.ArgsInvalid, "the script is longer than %d bytes", maxScript)
	case !utf8.ValidString(src):
		return nil, fault.New(fault.ArgsInvalid, "the script is not UTF-8")
	}
	for i := range len(src) {
		if c := src[i]; c < ' ' && c != '\n' && c != '\t' || c == 0x7f {
			return nil, fault.New(fault.ArgsInvalid, "the script contains the control character %q", c).
				WithHint(`lines end with \n alone; make other characters with printf`)
		}
	}
	if depth(src) > 200 {
		return nil, fault.New(fault.ArgsInvalid, "the script is nested too deeply")
	}
	for line := range strings.SplitSeq(src, "\n") {
		if strings.HasSuffix(line, "\\") && strings.Contains(line, "#") {
			// The parser joins the next line to a comment's, which no shell does.
			return nil, fault.New(fault.ArgsInvalid, "a line of the script with a # ends with a backslash").
				WithHint("end the line without it; a comment does not go on")
		}
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(src), "script")
	if err == nil {
		return file, nil
	}
	f := fault.Wrap(fault.ArgsInvalid, err, "the script is not valid POSIX shell: %s", err)
	if strings.Contains(err.Error(), "bash") || bashOnly(src) {
		return nil, f.WithHint("it is written for bash; write it for /bin/sh, or run a program in another language")
	}
	return nil, f
}

func bashOnly(src string) bool {
	_, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(src), "script")
	return err == nil
}

// depth bounds how deep src can nest: what opens something, less what closes it.
func depth(src string) int {
	n := 0
	for _, open := range []string{"(", "{", "`", "if", "do", "case"} {
		n = max(n, strings.Count(src, open))
	}
	if n <= 200 {
		return n
	}
	cur, most := 0, 0
	for i := range len(src) {
		switch src[i] {
		case '(', '{':
			cur++
		case ')', '}':
			cur--
		}
		most = max(most, cur)
	}
	return most
}

// stmts derives a list of statements that run one after the other.
func (s *scripter) stmts(list []*syntax.Stmt) {
	for _, st := range list {
		s.stmt(st)
	}
}

// apart derives statements whose effect on the shell itself ends with them.
func (s *scripter) apart(list []*syntax.Stmt) {
	was := s.dir
	s.nested++
	s.stmts(list)
	s.nested--
	s.dir = was
}

// perhaps derives statements that may run never, once or many times, so that
// nobody can say where the shell is if they move it.
func (s *scripter) perhaps(list []*syntax.Stmt) {
	was := s.dir
	if s.unsure(list...) {
		s.dir = ""
	}
	s.nested++
	s.stmts(list)
	s.nested--
	if was != s.dir {
		s.dir = ""
	}
}

func (s *scripter) stmt(st *syntax.Stmt) {
	if st.Coprocess || st.Disown {
		s.unknown("a coprocess is not POSIX shell")
		return
	}
	for _, r := range st.Redirs {
		s.redirect(r)
	}
	if st.Background { // in a shell of its own, so that what it defines ends there
		s.nested++
		defer func(was string) { s.dir = was; s.nested-- }(s.dir)
	}
	s.cmd(st.Cmd)
}

func (s *scripter) cmd(c syntax.Command) {
	switch c := c.(type) {
	case nil:
	case *syntax.CallExpr:
		s.call(c)
	case *syntax.BinaryCmd:
		s.binary(c)
	case *syntax.Block:
		s.nested++
		s.stmts(c.Stmts)
		s.nested--
	case *syntax.Subshell:
		s.apart(c.Stmts)
	case *syntax.IfClause:
		for ; c != nil; c = c.Else {
			s.perhaps(slices.Concat(c.Cond, c.Then))
		}
	case *syntax.WhileClause:
		s.perhaps(slices.Concat(c.Cond, c.Do))
	case *syntax.ForClause:
		s.loop(c)
	case *syntax.CaseClause:
		s.substitutions(c.Word)
		for _, item := range c.Items {
			for _, p := range item.Patterns {
				s.substitutions(p)
			}
			s.perhaps(item.Stmts)
		}
	case *syntax.FuncDecl:
		s.function(c)
	default:
		s.unknown("this is bash-only syntax; write it for /bin/sh")
	}
}

// binary: what stands behind `cd DIR &&` is certainly in DIR.
func (s *scripter) binary(c *syntax.BinaryCmd) {
	if c.Op != syntax.AndStmt && c.Op != syntax.OrStmt {
		s.apart([]*syntax.Stmt{c.X})
		s.apart([]*syntax.Stmt{c.Y})
		if s.unsure(c.Y) {
			s.dir = "" // some shells run the end of a pipe themselves
		}
		return
	}
	was := s.dir
	s.nested++
	defer func() { s.nested-- }()
	s.stmt(c.X)
	to, plain := s.plainMove(c.X, was)
	leaves := c.Op == syntax.OrStmt && exits(c.Y)
	if plain && c.Op == syntax.AndStmt {
		s.dir = to
	}
	if plain && c.Op == syntax.OrStmt {
		s.dir = was
	}
	s.stmt(c.Y)
	switch {
	case plain && leaves:
		s.dir = to
	case s.dir != was, plain && to != was:
		s.dir = ""
	}
}

// unsure reports whether statements may change the shell's folder.
func (s *scripter) unsure(list ...*syntax.Stmt) bool {
	return moves(list) || s.moves && len(s.funcs) > 0
}

// plainMove gives where a statement goes that is `cd DIR`, or a chain of && that
// ends in it, provided that it succeeds.
func (s *scripter) plainMove(st *syntax.Stmt, from string) (string, bool) {
	if st.Negated || st.Background {
		return "", false
	}
	switch c := st.Cmd.(type) {
	case *syntax.CallExpr:
		if len(c.Assigns) == 0 && len(c.Args) > 0 {
			argv := s.argv(c.Args)
			if argv[0] == "cd" {
				return cdTarget(from, argv), true
			}
		}
	case *syntax.BinaryCmd:
		if c.Op == syntax.AndStmt {
			if mid, ok := s.plainMove(c.X, from); ok {
				return s.plainMove(c.Y, mid)
			}
		}
	}
	return from, !s.unsure(st)
}

func cdTarget(from string, argv []string) string {
	if len(argv) == 3 && argv[1] == "--" {
		argv = argv[1:]
	}
	if len(argv) != 2 || strings.HasPrefix(argv[1], "-") {
		return ""
	}
	return join(from, argv[1])
}

// exits reports whether a statement certainly ends the script.
func exits(st *syntax.Stmt) bool {
	c, ok := st.Cmd.(*syntax.CallExpr)
	return ok && !st.Negated && !st.Background && len(st.Redirs) == 0 &&
		(len(c.Args) == 1 || len(c.Args) == 2 && countArgs("exit", []string{marker(c.Args[1])}) == "" && marker(c.Args[1]) != NonLiteralMany) &&
		c.Args[0].Lit() == "exit"
}

func (s *scripter) loop(c *syntax.ForClause) {
	it, ok := c.Loop.(*syntax.WordIter)
	if !ok || c.Select {
		s.unknown("this loop is bash-only syntax; write it for /bin/sh")
		return
	}
	for _, w := range it.Items {
		s.substitutions(w)
	}
	if why := settable(it.Name.Value); why != "" {
		s.unknown(why)
	}
	s.perhaps(c.Do)
}

var functionName = regex.Lazy(`^[A-Za-z_][A-Za-z0-9_]*$`)

// function derives a function's body. A call of it counts as such only behind
// a definition that certainly runs; elsewhere it counts as a command, too.
func (s *scripter) function(c *syntax.FuncDecl) {
	if c.Name == nil || c.RsrvWord || !functionName.MatchString(c.Name.Value) {
		s.unknown("this function is bash-only syntax; write name() { …; }")
		return
	}
	name := c.Name.Value
	if _, known := builtins()[name]; known || programs()[name] != nil || reserved[name] {
		s.unknown("a function must not be called " + name + " like a known command; rename it")
		return
	}
	was, had := s.dir, s.funcs[name]
	if s.moves {
		s.dir = "" // it may be called from anywhere
	}
	s.funcs[name] = true
	s.nested++
	s.stmt(c.Body)
	s.nested--
	s.dir = was
	s.funcs[name] = had || s.nested == 0
}

// survey notes what holds for the script as a whole.
func (s *scripter) survey(file *syntax.File) {
	s.moves = moves(file.Stmts)
	s.numbers = numbers(file)
	for _, name := range s.pass {
		delete(s.numbers, name) // the environment may have given it anything
	}
}

func moves(list []*syntax.Stmt) bool { return slices.ContainsFunc(list, movesStmt) }

// movesStmt reports whether there is a cd in a statement, or anything whose
// name is not plain enough to know.
func movesStmt(st *syntax.Stmt) bool {
	found := false
	syntax.Walk(st, func(n syntax.Node) bool {
		if c, ok := n.(*syntax.CallExpr); ok && len(c.Args) > 0 {
			switch lit, one := literal(c.Args[0]); {
			case !one, lit == "cd", lit == "command", lit == "pushd", lit == "popd":
				found = true
			}
		}
		return !found
	})
	return found
}
