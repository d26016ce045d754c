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

// Reading is the result of reading a script.
type Reading struct {
	// Text is the script as the parser prints it. Run this text, so that the
	// shell reads the same script as the parser.
	Text string
	// Actions are every command in it, also in pipes, lists, functions and
	// substitutions, as [Actions] derives it, and every redirection as a file action.
	Actions []tool.Action
	// POSIX says that a POSIX shell reads Text as bash does.
	POSIX bool
}

// Script reads a script of bash, which starts in dir, an absolute folder. given
// names the variables that may be set in its environment.
//
// Builtins that only concern the shell itself need no rule (cd, echo, test, ...).
// A part that cannot be determined (eval of a text that is not literal, ...)
// becomes an action with Unknown set; err, with the code fault.ArgsInvalid, says
// that the text is not a script.
func Script(src string, env tool.Env, dir string, given []string) (Reading, error) {
	first := newScripter(env, dir, given)
	text, ferr := first.script(src)
	if ferr != nil {
		return Reading{}, ferr
	}
	again := newScripter(env, dir, given)
	again.joined = first.joined
	reprint, ferr := again.script(text)
	if ferr != nil || reprint != text || !slices.EqualFunc(first.actions, again.actions, same) {
		return Reading{}, fault.New(fault.ArgsInvalid, "the script can be read in two ways").
			WithHint("write it in simpler shell, or as several calls")
	}
	posix := newScripter(env, dir, given)
	posix.lang, posix.joined = syntax.LangPOSIX, first.joined
	reprint, ferr = posix.script(text)
	return Reading{Text: text, Actions: first.actions,
		POSIX: ferr == nil && reprint == text && slices.EqualFunc(first.actions, posix.actions, same)}, nil
}

func same(a, b tool.Action) bool {
	return a.Kind == b.Kind && a.Unknown == b.Unknown && a.Path == b.Path && a.Argument == b.Argument && a.Entry == b.Entry && a.Dir == b.Dir && slices.Equal(a.Argv, b.Argv) && slices.Equal(a.Search, b.Search) &&
		slices.EqualFunc(a.Input, b.Input, slices.Equal[[]string])
}

// scripter derives a script's actions.
type scripter struct {
	*deriver
	lang      syntax.LangVariant // LangBash or LangPOSIX
	given     []string
	clean     bool            // the environment holds no more than given
	outermost bool            // the call's own script: no command set variables for it
	plain     bool            // the script is ASCII alone
	part      bool            // it is a text that another script's shell runs
	joined    []bool          // which statements stand on the line of the one before, in the original
	funcs     map[string]bool // functions that are certainly defined by now
	vars      *variables
	moves     bool // there is a cd somewhere
	nested    int  // depth within compound commands
}

func newScripter(env tool.Env, dir string, given []string) *scripter {
	return &scripter{deriver: newDeriver(env, dir), lang: syntax.LangBash, given: given, clean: !env.Foreign, outermost: true, funcs: map[string]bool{}}
}

func (s *scripter) bash() bool { return s.lang == syntax.LangBash }

// script parses src, derives its actions and gives the canonical text.
func (s *scripter) script(src string) (string, *fault.Error) {
	file, err := parse(src, s.lang)
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
	s.plain = strings.IndexFunc(src, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
	s.moves = moves(file.Stmts)
	s.vars = surveyVariables(file, s.given, s.clean)
	s.vars.uncertain = s.vars.uncertain || s.part
	s.vars.homeless, s.vars.own = s.homeless, s.outermost
	s.keepsAll()
	if s.joined == nil {
		s.joined = joinedLines(src, file.Stmts)
	}
	if len(s.joined) != len(file.Stmts) {
		return "", fault.New(fault.ArgsInvalid, "the script can be read in two ways").WithHint("write it in simpler shell, or as several calls")
	}
	was := s.dir
	s.lines(file.Stmts, s.joined)
	s.dir = was
	s.searchAgain()
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

func parse(src string, lang syntax.LangVariant) (*syntax.File, *fault.Error) {
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
	file, err := syntax.NewParser(syntax.Variant(lang)).Parse(strings.NewReader(src), "script")
	if err == nil {
		return file, nil
	}
	if lang == syntax.LangPOSIX {
		f := fault.Wrap(fault.ArgsInvalid, err, "the script is not valid POSIX shell: %s", err)
		if _, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(src), "script"); err == nil {
			return nil, f.WithHint("it is written for bash; run it with bash")
		}
		return nil, f
	}
	return nil, fault.Wrap(fault.ArgsInvalid, err, "the script is not valid shell: %s", err)
}

// depth returns a bound on how deep src can nest: the number of opening tokens
// less the closing ones.
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

// apart derives statements whose effects on the shell end with them.
func (s *scripter) apart(list []*syntax.Stmt) {
	was := s.dir
	s.nested++
	s.stmts(list)
	s.nested--
	s.dir = was
}

// perhaps derives statements that may run never, once or many times. If they
// change the shell's folder, it is unknown afterwards.
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
		s.unknown("what a coprocess does cannot be told; use a pipe")
		return
	}
	for _, r := range st.Redirs {
		s.redirect(r)
	}
	if len(st.Redirs) > 0 { // where one fails, the statement does not run
		s.nested++
		defer func(was string) {
			if s.nested--; s.dir != was {
				s.dir = ""
			}
		}(s.dir)
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
		s.again(func() { s.perhaps(slices.Concat(c.Cond, c.Do)) })
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
		s.ofBash(c)
	}
}

// binary: a command behind `cd DIR &&` certainly runs in DIR.
func (s *scripter) binary(c *syntax.BinaryCmd) {
	if c.Op != syntax.AndStmt && c.Op != syntax.OrStmt {
		was, from := s.input, len(s.actions)
		s.apart([]*syntax.Stmt{c.X})
		for _, a := range s.actions[from:] {
			if a.Kind == tool.Command && len(a.Argv) > 0 {
				s.input = append(slices.Clip(s.input), a.Argv)
			}
		}
		s.apart([]*syntax.Stmt{c.Y})
		s.input = was
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
		if _, alone := c.X.Cmd.(*syntax.CallExpr); !alone && s.unsure(c.X) {
			s.dir = "" // in cd DIR && a, either may have failed
		}
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
			if len(argv) > 0 && argv[0] == "cd" {
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
	return ok && !st.Negated && !st.Background && len(st.Redirs) == 0 && !new(variables).mayAbort(st) &&
		(len(c.Args) == 1 || len(c.Args) == 2 && countArgs("exit", []string{marker(c.Args[1])}) == "" && !isMany(marker(c.Args[1]))) &&
		c.Args[0].Lit() == "exit"
}

func (s *scripter) loop(c *syntax.ForClause) {
	switch it := c.Loop.(type) {
	case *syntax.WordIter:
		for _, w := range it.Items {
			s.substitutions(w)
		}
		if why := s.settable(it.Name.Value); why != "" {
			s.unknown(why)
		}
	case *syntax.CStyleLoop:
		s.count(it.Init)
		defer s.vars.settleLoop(c)()
		s.count(it.Cond, it.Post)
	}
	if c.Select {
		s.unknown("select waits for a person; use for")
	}
	if it, ok := c.Loop.(*syntax.WordIter); ok && it.InPos.IsValid() && s.vars.sets[it.Name.Value] == 1 && !SetsItself(it.Name.Value) {
		s.vars.prefixes[it.Name.Value] = begins(common(s.argv(it.Items)))
		defer delete(s.vars.prefixes, it.Name.Value)
	}
	defer s.vars.settleLoop(c)()
	s.again(func() { s.perhaps(c.Do) })
}

// again derives commands that may run several times: a later change of PATH affects them too.
func (s *scripter) again(derive func()) {
	s.repeats++
	derive()
	s.repeats--
}

var functionName = regex.Lazy(`^[A-Za-z_][A-Za-z0-9_]*$`)

// plainNames are known programs whose names scripts also give to functions. None of them starts another program.
var plainNames = lazy("csplit date du file iconv jq look patch pr ptx shuf sponge tree tsort yq zstd")

// function derives a function's body. A call of it counts as such only behind
// a definition that certainly runs; elsewhere it counts as a command, too.
func (s *scripter) function(c *syntax.FuncDecl) {
	if c.Name == nil || !functionName.MatchString(c.Name.Value) {
		s.unknown("the function's name is not a plain one; write name() { …; }")
		return
	}
	switch c.Body.Cmd.(type) {
	case *syntax.Block, *syntax.Subshell, *syntax.IfClause, *syntax.WhileClause, *syntax.ForClause, *syntax.CaseClause, *syntax.TestClause, *syntax.ArithmCmd:
	default:
		// The parser takes a pipe behind the body for a part of it, and no shell does.
		s.unknown("a function's definition must stand alone; end it with ; or a new line")
		return
	}
	name := c.Name.Value
	if _, known := builtins()[name]; known || programs()[name] != nil && !plainNames()[name] || reserved[name] {
		s.unknown("a function must not be called " + name + " like a known command; rename it")
		return
	}
	was, had := s.dir, s.funcs[name]
	if s.moves {
		s.dir = "" // it may be called from anywhere
	}
	s.funcs[name] = true
	s.nested++
	s.again(func() { s.stmt(c.Body) })
	s.nested--
	s.dir = was
	s.funcs[name] = had || s.nested == 0
}

func moves(list []*syntax.Stmt) bool { return slices.ContainsFunc(list, movesStmt) }

// movesStmt reports whether there is a cd in a statement, or anything whose
// name is not plain enough to know.
func movesStmt(st *syntax.Stmt) bool {
	found := false
	syntax.Walk(st, func(n syntax.Node) bool {
		if c, ok := n.(*syntax.CallExpr); ok && len(c.Args) > 0 {
			switch lit, one := literal(c.Args[0]); {
			case !one, movers[lit]:
				found = true
			}
		}
		return !found
	})
	return found
}

// movers are commands behind which the shell may be in another folder.
var movers = words("cd command builtin pushd popd eval source . trap")
