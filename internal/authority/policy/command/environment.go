package command

import (
	"maps"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/base/tool"
)

// Assignable returns why a call must not set a variable for a command, or "". env
// holds the policies' rule: if no policy lists variables (commands.env), every
// harmless one may be set, otherwise only those that all policies list. Some are
// always refused, since they can make an allowed command run something else.
func Assignable(name string, env tool.Env) string {
	switch {
	case !functionName.MatchString(name):
		return "a variable's name is not literal or not a name"
	case special(name, env):
		return "the variable " + name + " can change what commands do or which are found; it must not be set"
	case !env.AnyVariable && !slices.Contains(env.Pass, name):
		return "the variable " + name + " is not listed in commands.env"
	}
	return ""
}

// keeps adds an action that policies deny if they give a variable another value.
func (d *deriver) keeps(name, value string) {
	if v, ok := d.env.Values[name]; ok && v != value {
		d.add(Reassigned(name, d.argv, d.dir))
	}
}

// keepsAll does so for variables that a script sets in other ways than by an assignment,
// such as arithmetic: the values are not known.
func (s *scripter) keepsAll() {
	for _, name := range slices.Sorted(maps.Keys(s.env.Values)) {
		if s.vars.sets[name] > s.vars.assigned[name] {
			s.keeps(name, NonLiteral)
		}
	}
}

// Reassigned is the action of a command line that gives a variable another value than
// the policies (commands.env) do.
func Reassigned(name string, argv []string, dir string) tool.Action {
	return tool.Action{Kind: tool.Command, Argv: argv, Dir: dir, Variable: name,
		Unknown: "the variable " + name + " has the value that commands.env gives it; it must not be given another"}
}

// A sway is the effect that a variable can have on the commands of a script.
type sway uint8

const (
	shows    sway = 1 << iota // it only controls how something is shown, named or counted: an exception from the others
	steers                    // it steers the shell, the loader, an interpreter or a known program: never set
	loads                     // a known program finds by it what it loads, starts or trusts; a policy may list it
	hints                     // its name suggests a program, a file to load or options; a policy may list it
	ofItself                  // it controls the shell itself, also where it is not exported
)

// variableNames are the known names of variables and their effects. A * stands for any text. If a
// name is in several rows, all of them apply.
var variableNames = []struct {
	is    sway
	names string
}{
	{shows, `NODE_ENV NODE_NO_WARNINGS PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONIOENCODING PYTHONHASHSEED PYTHONUTF8
		GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_COMMITTER_DATE GIT_TERMINAL_PROMPT GIT_OPTIONAL_LOCKS
		GOOS GOARCH GOARM GOARM64 GOAMD64 GO386 GOMIPS GOWASM GO111MODULE GOEXPERIMENT GODEBUG GOGC GOMEMLIMIT GOMAXPROCS GOTRACEBACK GOWORK GOPRIVATE HGPLAIN
		GOOGLE_API_KEY GOOGLE_CLOUD_PROJECT GOOGLE_GENAI_USE_GCA GOOGLE_GEMINI_BASE_URL
		CARGO_TERM_COLOR PIP_NO_INPUT PIP_DISABLE_PIP_VERSION_CHECK MANWIDTH LESSCHARSET`},
	{steers | ofItself, `PATH IFS ENV HOME CDPATH PS0 PS1 PS2 PS3 PS4 SHELLOPTS OPTIND OPTARG PWD OLDPWD SHELL FPATH BASH* LD_* EXECIGNORE
		GLOBIGNORE HISTFILE PROMPT_COMMAND POSIXLY_CORRECT TMPDIR _`},
	{ofItself, `INPUTRC FUNCNEST TIMEFORMAT COMP_* READLINE_*`},
	{steers, `PAGER EDITOR VISUAL BROWSER LESS* MAN* DYLD_* GIT_* SSH_* NODE_* NPM_* npm_* PYTHON* PERL* RUBY* GEM_* JAVA_* JDK_* _JAVA_*
		LUA_* PHP* GOFLAGS GOROOT GOPATH GOENV GOTOOLDIR GOPROXY GOCACHEPROG GOAUTH GCCGO FC GREP DIFF CMP SVN_* HG* CC CXX AR RUSTC* RUSTFLAGS CARGO_* MAKE* MFLAGS TAR_OPTIONS RSYNC_*
		GCONV_PATH GLIBC_* MALLOC_* LOCPATH NLSPATH TERMINFO* TERMCAP XDG_* HOSTALIASES RES_OPTIONS`},
	{loads, `AS LD NM CPP DOCKER_* KUBE* AWS_* TF_* ANSIBLE_* R_* JULIA_* DENO_* BUN_* PIP_* UV_* DOTNET_* COR_* MONO_* GTK_* QT_* GIO_* GST_*
		ERL_* ELIXIR_* MIX_* GNUPGHOME ZDOTDIR WGETRC SYSTEM_WGETRC CURL_HOME SSLKEYLOGFILE DEPENDENCIES_OUTPUT SUNPRO_DEPENDENCIES GO* INPUTRC SCREENRC PSQLRC NETRC VIMINIT EXINIT MYVIMRC OPENSSL_* SSL_* CLASSPATH CMAKE_*
		PKG_CONFIG* SUDO_* SYSTEMD_* GCC_* COMPILER_* CPATH C_INCLUDE_PATH LIBRARY_PATH BAT_* RIPGREP_* FZF_* ELECTRON_* VSCODE_* *_proxy *_PROXY`},
	{hints, `*PATH *OPT *OPTS *OPTION *OPTIONS *FLAGS *PRELOAD* *PLUGIN* *PAGER* *EDITOR* *ASKPASS* *_RSH *_SHELL *COMMAND* *_CMD *WRAPPER*
		*LAUNCHER* *HOOK* *STARTUP* *PRELUDE* *LOADER* *INIT *_EXEC* *CONFIG *CONFIG_FILE* *_RC *RCFILE*`},
}

// swayOf gives all that the table says of a variable's name.
func swayOf(name string) (out sway) {
	for _, row := range variableNames {
		if row.is&^out == 0 {
			continue // nothing more
		}
		for pattern := range strings.FieldsSeq(row.names) {
			if nameMatches(pattern, name) {
				out |= row.is
				break
			}
		}
	}
	return out
}

// nameMatches matches a name with a pattern that may begin and end with *.
func nameMatches(pattern, name string) bool {
	text, end := strings.CutSuffix(pattern, "*")
	text, begin := strings.CutPrefix(text, "*")
	switch {
	case begin && end:
		return strings.Contains(name, text)
	case begin:
		return strings.HasSuffix(name, text)
	case end:
		return strings.HasPrefix(name, text)
	}
	return name == text
}

func special(name string, env tool.Env) bool {
	is := swayOf(name)
	return is&shows == 0 && (is&steers != 0 || !slices.Contains(env.Pass, name) && is&(loads|hints) != 0)
}

// commands are variables whose value is a command line, which is judged like one.
var commands = words("PAGER GIT_PAGER MANPAGER EDITOR VISUAL GIT_EDITOR GIT_SEQUENCE_EDITOR CC CXX AR LD GREP DIFF CMP")

// settable returns why a script must not set a shell variable that is not
// exported to commands, or "". If commands already have the variable, the new
// value reaches them too.
func (s *scripter) settable(name string) string { return s.settableTo(name, NonLiteral) }

// settableTo is settable for a value that is known.
func (s *scripter) settableTo(name, value string) string {
	s.keeps(name, value)
	switch {
	case locales[name] && !s.plain && !plainLocale.MatchString(value):
		return "in the encoding of some locales bash reads the rest of the script in another way; set " + name + " to C or to a locale of UTF-8"
	case evaluated[name] && !wholeNumber.MatchString(value):
		return "the shell evaluates what the variable " + name + " is set to, which may start commands; give it a literal number"
	case !functionName.MatchString(name):
		return "a variable's name is not literal or not a name"
	case swayOf(name)&ofItself != 0, special(name, s.env) && (!s.clean || SetsItself(name) || s.vars.given[name]):
		return "the variable " + name + " can change what commands do or which are found; it must not be set"
	}
	return ""
}

// assignable is [Assignable] for a command that is given a variable; a value that
// names a command is judged like one.
func (d *deriver) assignable(name, value string) string {
	d.keeps(name, value)
	switch {
	case name == "PATH":
		return d.path(value)
	case commands[name] && !nonLiteral(value):
		d.inner("the variable "+name, value, syntax.LangPOSIX)
		return ""
	}
	return Assignable(name, d.env)
}

// locales are variables that change the encoding in which bash reads on; plainLocale is a
// value with which it stays the same.
var (
	locales     = words("LC_ALL LC_CTYPE LANG")
	plainLocale = regex.Lazy(`^(|C|POSIX|C\.(UTF-8|utf8)|[a-z]{2,3}_[A-Z]{2}\.(UTF-8|utf8))$`)
)

// evaluated are variables of the shell's own whose new value is an arithmetic expression.
var evaluated = words("RANDOM SRANDOM SECONDS LINENO HISTCMD OPTIND BASHPID EPOCHSECONDS EPOCHREALTIME")

// set gives why a script must not set a variable to a value, or "".
func (s *scripter) set(name, value string, exported bool) string {
	switch {
	case name == "IFS" && !exported && s.bash():
		return "" // a non-literal part counts as any words in any case
	case (exported || name == "PATH" || commands[name]) && !evaluated[name]:
		if locales[name] {
			if why := s.settableTo(name, value); why != "" {
				return why
			}
		}
		return s.assignable(name, value)
	}
	return s.settableTo(name, value)
}

func (s *scripter) assign(a *syntax.Assign, exported bool) {
	if a.Name == nil || a.Naked || (a.Append || a.Index != nil || a.Array != nil) && (exported || !s.bash()) {
		s.unknown("this assignment is not one that a command can be given; set the variable before it")
		return
	}
	s.assigned(a)
	value := s.value(a)
	if why := s.set(a.Name.Value, value, exported); why != "" {
		s.unknown(why)
	} else if !exported && s.nested == 0 && a.Index == nil && a.Array == nil && !a.Append {
		s.vars.constant(a.Name.Value, a.Value)
	}
}

// value returns the value that an assignment sets, as far as it is known.
func (s *scripter) value(a *syntax.Assign) string {
	switch {
	case a.Append, a.Array != nil, a.Naked:
		return NonLiteral
	case a.Value == nil:
		return ""
	case a.Name.Value == "PATH":
		return pathValue(a.Value)
	}
	text, _ := readWord(a.Value, s.vars)
	if name := s.found(a.Value); name != "" && commands[a.Name.Value] {
		return name
	}
	return text
}

// found gives the program whose path a word is that is $(which NAME) alone, or "".
func (s *scripter) found(w *syntax.Word) string {
	if len(w.Parts) != 1 {
		return ""
	}
	argv := s.vars.substituted(w.Parts[0])
	if len(argv) == 2 && argv[0] == "which" && functionName.MatchString(argv[1]) {
		return argv[1]
	}
	return ""
}
