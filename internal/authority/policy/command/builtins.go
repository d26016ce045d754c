package command

import (
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"

	"github.com/remitrun/remit/internal/base/regex"
)

// builtin is the kind of a shell's own command. The zero kind is denied: such a
// command can start commands, or change the meaning of others, in ways that this
// package does not read.
type builtin uint8

const (
	denied     builtin = iota
	harmless           // concerns the shell alone, whatever its arguments
	moving             // cd, pushd, popd
	testing            // test and [
	printing           // printf
	setting            // set
	declaring          // export, readonly, local: NAME or NAME=VALUE
	naming             // read, unset: names
	counting           // exit, shift: numbers
	prefixing          // command, builtin
	executing          // exec: the following command replaces the shell
	sourcing           // . and source: the shell runs a file
	evaluating         // eval: the shell runs its arguments
	trapping           // trap: the shell runs its first argument later
	reading            // mapfile, readarray
	optioning          // shopt
	aliasing           // alias: expanded only by a shell that is not Remit's own
	listing            // jobs, history, hash, dirs, bind: without arguments that do more
)

// builtins are the shells' own commands. One that is not listed is started as a
// program, so the list names all of dash, ash, bash and ksh.
var builtins = sync.OnceValue(func() map[string]builtin {
	m := map[string]builtin{"cd": moving, "test": testing, "[": testing, "printf": printing, "set": setting, "command": prefixing}
	for names, kind := range map[string]builtin{
		": true false echo pwd":            harmless,
		"export readonly local":            declaring,
		"read unset getopts":               naming,
		"break continue exit return shift": counting,
		"wait umask type times":            counting,
		"exec":                             executing,
		". source":                         sourcing,
		"eval":                             evaluating,
		"trap":                             trapping,
		`alias unalias hash ulimit jobs fg bg disown enable builtin declare typeset let
		 mapfile readarray compgen complete compopt dirs pushd popd shopt suspend logout history fc caller bind help
		 coproc chdir nameref integer float autoload whence print setenv global redirect`: denied,
	} {
		for n := range words(names) {
			m[n] = kind
		}
	}
	return m
})

// ofBash are the builtins that only bash is known to have. Others deny them, or
// start a program of that name.
var ofBash = sync.OnceValue(func() map[string]builtin {
	m := map[string]builtin{"builtin": prefixing, "shopt": optioning}
	for names, kind := range map[string]builtin{
		"unalias caller help suspend logout ulimit fg bg disown": harmless,
		"alias": aliasing, "pushd popd": moving, "mapfile readarray": reading, "jobs history hash dirs bind": listing,
	} {
		for n := range words(names) {
			m[n] = kind
		}
	}
	return m
})

// kind returns the kind of the builtin with a name, if there is one.
func (s *scripter) kind(name string) (builtin, bool) {
	if k, ok := ofBash()[name]; ok && s.bash() {
		return k, true
	}
	k, ok := builtins()[name]
	return k, ok
}

// reserved are the words that some shells read as syntax where a command
// stands, and POSIX ones as a name.
var reserved = words("[[ ]] function select coproc foreach end namespace repeat")

// commandName matches the command names that a script may use. Other characters
// make the word an assignment, an expansion or syntax in some shell.
var commandName = regex.Lazy(`^[A-Za-z0-9_./+@:,\-]+$`)

// call derives a simple command.
func (s *scripter) call(c *syntax.CallExpr) {
	for _, w := range c.Args {
		s.substitutions(w)
	}
	argv := s.argv(c.Args)
	reads := len(argv) > 0 && argv[0] == "read"
	for _, a := range c.Assigns {
		if a.Name != nil && a.Name.Value == "IFS" && reads {
			s.substitutions(a.Value) // for read alone
			continue
		}
		s.assign(a, len(argv) > 0)
	}
	if len(argv) == 0 {
		return
	}
	if builtins()[argv[0]] == declaring && len(argv) == len(c.Args) {
		for i, w := range c.Args[1:] {
			argv[i+1] = declared(w)
		}
	}
	if argv[0] == "wait" && len(argv) == len(c.Args) { // bash's has options, one of which can start commands
		for i, w := range c.Args[1:] {
			if s.vars.onlyNumber(w) {
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
	kind, known := s.kind(name)
	if _, perhaps := s.funcs[name]; perhaps && s.moves {
		s.dir = ""
	}
	switch {
	case nonLiteral(name):
		s.unknown("the command's name is not literal; write it out")
	case reserved[name]:
		s.unknown(name + " is syntax in some shells; quote it, or leave it out")
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

// builtin returns why a builtin is refused, or "".
func (s *scripter) builtin(kind builtin, argv []string) string {
	args := argv[1:]
	switch kind {
	case harmless:
		return ""
	case moving:
		if to := cdTarget(s.dir, argv); to != s.dir || argv[0] != "cd" {
			s.dir = "" // it may fail; only && tells
		}
		return ""
	case testing:
		return testArgs(args)
	case printing:
		return s.printf(args)
	case setting:
		return setArgs(args)
	case declaring:
		return s.declare(argv[0], args)
	case naming:
		return s.names(argv[0], args)
	case counting:
		return countArgs(argv[0], args)
	case prefixing:
		return s.prefix(argv[0], args)
	case executing, sourcing, evaluating, trapping:
		return s.runs(kind, argv)
	case reading, optioning, aliasing, listing:
		return s.ofBashBuiltin(kind, argv)
	}
	return "the shell's " + argv[0] + " is denied: it can start commands, or change what others mean, out of sight; write the commands themselves"
}

// testArgs: where /bin/sh is bash, -v evaluates its operand.
func testArgs(args []string) string {
	for i, w := range args {
		switch {
		case isMany(w):
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

// printf: bash's printf -v sets a variable.
func (s *scripter) printf(args []string) string {
	if len(args) > 2 && args[0] == "-v" && s.bash() {
		if why := s.settable(args[1]); why != "" {
			return "printf -v: " + why
		}
		args = args[2:]
	}
	if len(args) > 0 && args[0] == "--" {
		return ""
	}
	switch {
	case len(args) == 0:
	case strings.HasPrefix(args[0], "-"), isMany(args[0]), len(args) > 1 && nonLiteral(args[0]) && mayBeOption(args[0]):
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
	for _, w := range args {
		if w == "-p" && len(args) == 1 {
			return ""
		}
		name, value, given := strings.Cut(w, "=")
		if nonLiteral(w) {
			return builtin + " of a word that is not literal; assign first, then name the variable alone"
		}
		if !given || value == "" {
			value = NonLiteral
		}
		if why := s.set(name, value, builtin == "export"); why != "" {
			return why
		}
	}
	return ""
}

func (s *scripter) names(builtin string, args []string) string {
	switch builtin {
	case "read":
		args = readOperands(args, s.bash())
	case "getopts":
		if len(args) < 2 || nonLiteral(args[0]) {
			return "getopts needs its options and a name, both literal"
		}
		args = args[1:2]
	}
	for i, w := range args {
		if builtin == "unset" && i == 0 && (w == "-v" || w == "-f") {
			continue
		}
		if builtin == "unset" {
			s.keeps(w, NonLiteral)
		}
		if builtin == "unset" && functionName.MatchString(w) && !kept[w] {
			if _, perhaps := s.funcs[w]; perhaps {
				return "unset of " + w + " ends a function in some shells; rename the variable"
			}
			continue
		}
		if builtin == "unset" && i > 0 && args[0] == "-f" && !nonLiteral(w) && !s.funcs[w] {
			continue
		}
		if why := s.settable(w); why != "" && (builtin != "read" || w != "REPLY") {
			return builtin + ": " + why
		}
	}
	return ""
}

// kept are variables that a script must not take away.
var kept = words("PATH HOME IFS ENV BASH_ENV TMPDIR OPTIND OPTARG")

// readOperands returns the names among the arguments of read. An unknown option
// stays among them and is not a valid name.
func readOperands(args []string, bash bool) (names []string) {
	for len(args) > 0 {
		w := args[0]
		switch {
		case w == "-r" || bash && (w == "-s" || w == "-e" || w == "-rs" || w == "-sr" || w == "-er" || w == "-re"):
		case bash && len(w) > 2 && w[0] == '-' && strings.IndexByte("dnNtp", w[1]) >= 0 && !nonLiteral(w):
		case bash && len(w) > 2 && strings.HasPrefix(w, "-r") && strings.IndexByte("dnNtp", w[len(w)-1]) >= 0 && len(args) > 1 && !isMany(args[1]):
			args = args[1:]
		case bash && len(w) == 2 && w[0] == '-' && strings.IndexByte("dnNtpiu", w[1]) >= 0 && len(args) > 1 && !isMany(args[1]):
			args = args[1:]
		case bash && (w == "-a" || w == "-ra"):
		case bash && w == "--":
			return append(names, args[1:]...)
		default:
			names = append(names, w)
		}
		args = args[1:]
	}
	return names
}

func countArgs(builtin string, args []string) string {
	if builtin == "wait" && len(args) > 0 && args[0] == "-n" || builtin == "umask" && len(args) > 0 && (args[0] == "-S" || args[0] == "-p") {
		args = args[1:]
	}
	for _, w := range args {
		if builtin == "type" {
			return ""
		}
		if !nonLiteral(w) && strings.Trim(w, "0123456789") != "" {
			return "the argument of " + builtin + " is not a number"
		}
	}
	return ""
}

// prefix: `command -v x` only looks; `command x` starts x, past functions.
func (s *scripter) prefix(builtin string, args []string) string {
	switch {
	case len(args) == 0 || builtin == "command" && (args[0] == "-v" || args[0] == "-V"):
		return ""
	case nonLiteral(args[0]) || strings.HasPrefix(args[0], "-"):
		return builtin + "'s own options are denied except -v"
	}
	if kind, known := s.kind(args[0]); known {
		if kind == moving {
			s.dir = ""
			return ""
		}
		return s.builtin(kind, args)
	}
	if builtin != "command" {
		return "builtin takes the name of one of the shell's own commands"
	}
	if !commandName.MatchString(args[0]) {
		return "the command's name contains characters that shells read differently"
	}
	s.command(args)
	return ""
}
