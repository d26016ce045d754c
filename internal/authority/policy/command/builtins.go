package command

import (
	"slices"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"

	"github.com/remitrun/remit/internal/base/regex"
)

// builtin says what a shell's own command does. The zero kind is denied.
type builtin uint8

const (
	denied    builtin = iota
	harmless          // concerns the shell alone, whatever its arguments
	moving            // cd
	testing           // test and [
	printing          // printf
	setting           // set
	declaring         // export, readonly, local: NAME or NAME=VALUE
	naming            // read, unset: names
	counting          // exit, shift: numbers
	prefixing         // command
)

// builtins are the shells' own commands. One that is not listed is started as a
// program, so the list names all of dash, ash, bash and ksh.
var builtins = sync.OnceValue(func() map[string]builtin {
	m := map[string]builtin{"cd": moving, "test": testing, "[": testing, "printf": printing, "set": setting, "command": prefixing}
	for names, kind := range map[string]builtin{
		": true false echo pwd":            harmless,
		"export readonly local":            declaring,
		"read unset":                       naming,
		"break continue exit return shift": counting,
		"wait umask type times":            counting,
		`. source eval exec trap alias unalias hash ulimit jobs fg bg disown enable builtin declare typeset let
		 mapfile readarray compgen complete compopt dirs pushd popd shopt suspend logout history fc caller bind help
		 getopts coproc chdir nameref integer float autoload whence print setenv global redirect`: denied,
	} {
		for n := range words(names) {
			m[n] = kind
		}
	}
	return m
})

// reserved are the words that some shells read as syntax where a command
// stands, and POSIX ones as a name.
var reserved = words("[[ ]] function select coproc foreach end namespace repeat")

// commandName is what a script may call a command: other characters make
// an assignment, an expansion or syntax of it in one shell or another.
var commandName = regex.Lazy(`^[A-Za-z0-9_./+@:,\-]+$`)

// call derives a simple command.
func (s *scripter) call(c *syntax.CallExpr) {
	for _, a := range c.Assigns {
		s.assign(a, len(c.Args) > 0)
	}
	for _, w := range c.Args {
		s.substitutions(w)
	}
	if len(c.Args) == 0 {
		return
	}
	argv := s.argv(c.Args)
	if builtins()[argv[0]] == declaring {
		for i, w := range c.Args[1:] {
			argv[i+1] = declared(w)
		}
	}
	if argv[0] == "wait" { // bash's has options, one of which can start commands
		for i, w := range c.Args[1:] {
			if s.number(w) {
				argv[i+1] = "0"
			} else if nonLiteral(argv[i+1]) {
				argv[i+1] = "-p"
			}
		}
	}
	was := s.deriver.argv
	s.deriver.argv = argv
	defer func() { s.deriver.argv = was }()
	s.named(argv)
}

func (s *scripter) named(argv []string) {
	name := argv[0]
	kind, known := builtins()[name]
	if _, perhaps := s.funcs[name]; perhaps && s.moves {
		s.dir = ""
	}
	switch {
	case nonLiteral(name):
		s.unknown("the command's name is not literal; write it out")
	case reserved[name]:
		s.unknown(name + " is bash-only syntax; write it for /bin/sh")
	case name != "[" && !commandName.MatchString(name):
		s.unknown("the command's name contains characters that shells read differently")
	case s.funcs[name]:
	case known:
		if why := s.builtin(kind, argv); why != "" {
			s.unknown(why)
		}
	default:
		s.command(argv)
	}
}

// builtin gives why a builtin is refused, or "".
func (s *scripter) builtin(kind builtin, argv []string) string {
	args := argv[1:]
	switch kind {
	case harmless:
		return ""
	case moving:
		if to := cdTarget(s.dir, argv); to != s.dir {
			s.dir = "" // it may fail; only && tells
		}
		return ""
	case testing:
		return testArgs(args)
	case printing:
		return printfArgs(args)
	case setting:
		return setArgs(args)
	case declaring:
		return s.declare(argv[0], args)
	case naming:
		return s.names(argv[0], args)
	case counting:
		return countArgs(argv[0], args)
	case prefixing:
		return s.prefix(args)
	}
	return "the shell's " + argv[0] + " is denied: it can start commands, or change what others mean, out of sight; write the commands themselves"
}

// Assignable gives why a call must not set a variable for a command, or "".
// passEnv names those that the policy lets commands have; some are refused all
// the same, since they can make an allowed command run something else.
func Assignable(name string, passEnv []string) string {
	why := settable(name)
	if why != "" || slices.Contains(passEnv, name) {
		return why
	}
	return "the variable " + name + " is not listed in commands.env"
}

// special variables steer the shell, the loader or an interpreter: they can
// make an allowed command run something else.
var special = regex.Lazy(`^(PATH|IFS|ENV|HOME|CDPATH|PS[0-4]|SHELLOPTS|OPTIND|OPTARG|PWD|OLDPWD|SHELL|FPATH|PAGER|EDITOR|VISUAL|BROWSER|` +
	`LESS.*|MAN.*|LD_.*|DYLD_.*|BASH.*|GIT_.*|SSH_.*|NODE_.*|NPM_.*|npm_.*|PYTHON.*|PERL.*|RUBY.*|GEM_.*|JAVA_.*|JDK_.*|_JAVA_.*|LUA_.*|PHP.*|` +
	`GOFLAGS|GOROOT|GOPATH|GOENV|GOTOOLDIR|GOPROXY|CC|CXX|AR|RUSTC.*|RUSTFLAGS|CARGO_.*|MAKE.*|MFLAGS|TAR_OPTIONS|RSYNC_.*|GCONV_PATH|` +
	`GLIBC_.*|MALLOC_.*|LOCPATH|NLSPATH|TERMINFO.*|TERMCAP|XDG_.*|TMPDIR|EXECIGNORE|GLOBIGNORE|HISTFILE|PROMPT_COMMAND|POSIXLY_CORRECT|_)$`)

func (d *deriver) assignable(name string) string { return Assignable(name, d.pass) }

// settable gives why the shell's own variable must not be set, or "".
func settable(name string) string {
	switch {
	case !functionName.MatchString(name):
		return "a variable's name is not literal or no name"
	case special.MatchString(name):
		return "the variable " + name + " can change what commands do or which are found; it must not be set"
	}
	return ""
}

func (s *scripter) assign(a *syntax.Assign, exported bool) {
	if a.Append || a.Naked || a.Index != nil || a.Array != nil || a.Name == nil {
		s.unknown("this assignment is bash-only syntax; write it for /bin/sh")
		return
	}
	s.substitutions(a.Value)
	check := settable
	if exported {
		check = s.assignable
	}
	if why := check(a.Name.Value); why != "" {
		s.unknown(why)
	}
}

// testArgs: where /bin/sh is bash, -v evaluates its operand.
func testArgs(args []string) string {
	for i, w := range args {
		switch {
		case w == NonLiteralMany:
			return `an operand of test may be several words; quote it: "$x"`
		case w == "-v" || w == "-R":
			return "test -v is bash-only; use [ -n \"${x+set}\" ]"
		case nonLiteral(w) && i+1 < len(args) && !testAfter[args[i+1]] && !binaryBefore(args, i):
			return "an operator of test is not literal; write it out"
		}
	}
	return ""
}

var testAfter = words("= == != < > -eq -ne -lt -le -gt -ge -nt -ot -ef -a -o ) ]")

func binaryBefore(args []string, i int) bool {
	return i > 0 && testAfter[args[i-1]] && args[i-1] != ")"
}

// printfArgs: bash's printf -v sets a variable.
func printfArgs(args []string) string {
	if len(args) > 0 && args[0] == "--" {
		return ""
	}
	if len(args) > 0 && strings.HasPrefix(args[0], "-") || len(args) > 1 && nonLiteral(args[0]) || len(args) == 1 && args[0] == NonLiteralMany {
		return "the format of printf is not literal or an option; write printf '%s' …"
	}
	return ""
}

// setArgs: -e, -u, -x, -f and pipefail; positional parameters behind --.
func setArgs(args []string) string {
	for i := 0; i < len(args); i++ {
		w := args[i]
		switch {
		case w == "--":
			return ""
		case (w == "-o" || w == "+o" || w == "-eo" || w == "-euo" || w == "-euxo" || w == "-ueo") && i+1 < len(args) &&
			words("pipefail errexit nounset xtrace noglob")[args[i+1]]:
			i++
		case len(w) > 1 && (w[0] == '-' || w[0] == '+') && strings.Trim(w[1:], "euxf") == "":
		default:
			return "set takes only -e, -u, -x, -f, -o pipefail and words behind -- here"
		}
	}
	return ""
}

// declare: export gives a variable to every command behind it.
func (s *scripter) declare(builtin string, args []string) string {
	check := settable
	if builtin == "export" {
		check = s.assignable
	}
	for _, w := range args {
		if w == "-p" && len(args) == 1 {
			return ""
		}
		name, _, _ := strings.Cut(w, "=")
		if nonLiteral(w) {
			return builtin + " of a word that is not literal; assign first, then name the variable alone"
		}
		if why := check(name); why != "" {
			return why
		}
	}
	return ""
}

func (s *scripter) names(builtin string, args []string) string {
	for _, w := range args {
		if builtin == "read" && w == "-r" || builtin == "unset" && w == "-v" {
			continue
		}
		if why := settable(w); why != "" {
			return builtin + ": " + why
		}
		if _, perhaps := s.funcs[w]; perhaps && builtin == "unset" {
			return "unset of " + w + " ends a function in some shells; rename the variable"
		}
	}
	return ""
}

func countArgs(builtin string, args []string) string {
	for _, w := range args {
		if !nonLiteral(w) && strings.Trim(w, "0123456789") != "" {
			return "the argument of " + builtin + " is not a number"
		}
	}
	return ""
}

// prefix: `command -v x` only looks; `command x` starts x, past functions.
func (s *scripter) prefix(args []string) string {
	switch {
	case len(args) == 0 || args[0] == "-v" || args[0] == "-V":
		return ""
	case nonLiteral(args[0]) || strings.HasPrefix(args[0], "-"):
		return "command's own options are denied except -v"
	case args[0] == "cd":
		s.dir = ""
		return ""
	}
	if kind, known := builtins()[args[0]]; known {
		return s.builtin(kind, args)
	}
	if !commandName.MatchString(args[0]) {
		return "the command's name contains characters that shells read differently"
	}
	s.command(args)
	return ""
}
