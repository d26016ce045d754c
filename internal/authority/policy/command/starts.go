package command

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"

	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/base/tool"
)

func runInner(d *deriver, rest []string) {
	if len(rest) > 0 {
		d.command(rest)
	}
}

func runEnv(d *deriver, o *parsed, rest []string) {
	if o.has("i", "u", "ignore-environment", "unset") {
		for _, name := range slices.Sorted(maps.Keys(d.env.Values)) {
			d.keeps(name, NonLiteral)
		}
		d.homeless = true
	}
	switch {
	case o.has("C") && o.has("chdir"):
		d.dir = "" // whichever comes last
	case o.has("C", "chdir"):
		d.move(o.value("C") + o.value("chdir"))
	}
	runInner(d, rest)
}

func runFlock(d *deriver, rest []string) {
	if len(rest) == 0 {
		return
	}
	if rest[0] == "-c" || rest[0] == "--command" {
		if len(rest) != 2 {
			d.unknownStart("flock", "-c needs exactly one script")
			return
		}
		d.inner("flock", rest[1], syntax.LangPOSIX)
		return
	}
	if nonLiteral(rest[0]) || strings.HasPrefix(rest[0], "-") {
		d.unknownStart("flock", "an option stands behind the file")
		return
	}
	d.command(rest)
}

// runWatch: without -x the words are joined and given to a shell.
func runWatch(d *deriver, o *parsed, rest []string) {
	switch {
	case len(rest) == 0:
	case o.has("x", "exec"):
		d.command(rest)
	default:
		d.inner("watch", strings.Join(rest, " "), syntax.LangPOSIX)
	}
}

// runXargs: the input's words go behind the command's, or replace a string.
func runXargs(d *deriver, o *parsed, rest []string) {
	if len(rest) == 0 {
		rest = []string{"echo"}
	}
	argv := append([]string(nil), rest...)
	if !o.has("I", "i", "replace") {
		d.command(append(argv, NonLiteralMany))
		return
	}
	// Any of them may be the one that counts.
	for _, name := range []string{"I", "i", "replace"} {
		if o.has(name) {
			argv = replaced(argv, cmp.Or(o.value(name), "{}"), NonLiteral)
		}
	}
	if o.has("L", "l", "n", "max-lines", "max-args") {
		argv = append(argv, NonLiteralMany) // one that comes later ends the replacing
	}
	d.command(argv)
}

// replaced gives argv with the words that hold token not literal.
func replaced(argv []string, token, marker string) []string {
	out := make([]string, len(argv))
	for i, w := range argv {
		out[i] = w
		switch {
		case nonLiteral(token), nonLiteral(w) && strings.Contains(w, token):
			out[i] = NonLiteral
		case strings.Contains(w, token):
			out[i] = with(w, token, marker)
		}
	}
	return out
}

// The primaries of find that start a command, or write to a file.
var (
	findExec = words("-exec -execdir -ok -okdir")
	findFile = words("-fprint -fprint0 -fprintf -fls")
)

// lazy is words, made at its first use: not every start of the program needs the list.
func lazy(s string) func() map[string]bool {
	return sync.OnceValue(func() map[string]bool { return words(s) })
}

func words(s string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(s) {
		m[w] = true
	}
	return m
}

// findNewer is -newerXY. Y is t where the value is a time.
var findNewer = regex.Lazy(`^-newer[aBcm][aBcmt]$`)

func runFind(d *deriver, known *grammar, args []string) {
	roots, inPaths, deletes := []string{}, true, false
	args = d.hereInFull(args)
	d.findLists(args)
	for i := 0; i < len(args); i++ {
		w := args[i]
		switch {
		case nonLiteral(w) && couldFind(w):
			d.unknownStart("find", "a word is not literal and could be -exec; quote patterns, and write paths out or begin them with ./")
			return
		case findExec[w]:
			found := common(roots)
			switch {
			case slices.Contains(args, "-files0-from"):
				found = NonLiteral
			case len(roots) == 0:
				found = shaped(shapeOne, ".", "")
			}
			n, ok := d.findExec(w, args[i+1:], found)
			if !ok {
				return
			}
			i += n
		case w == "-delete":
			deletes = true
		case findFile[w] && i+1 < len(args):
			i++
			d.file(tool.FileWrite, args[i])
			if w == "-fprintf" {
				i++
			}
		case findTakesValue(known, w):
			i++
			if i < len(args) && isMany(args[i]) && (couldFind(args[i]) || i+1 < len(args) && mayBeOption(args[i+1]) && (nonLiteral(args[i+1]) || known.options().kinds[args[i+1]] != flagOnly)) {
				d.unknownStart("find", "the value of "+w+" may be several words, or none; quote it")
				return
			}
		case !nonLiteral(w) && len(w) > 1 && w[0] == '-' && known.options().kinds[w] == unlisted && !known.prefixOf(w) && w != "--":
			d.unknownUse("find", unknownOption(w))
			return
		}
		if strings.HasPrefix(w, "-") && len(w) > 2 || w == "(" || w == "!" {
			inPaths = false
		} else if inPaths && !strings.HasPrefix(w, "-") {
			roots = append(roots, w)
		}
	}
	for _, r := range roots {
		d.argument(reads, r, tool.TreeArgument)
	}
	if !deletes {
		return
	}
	if len(roots) == 0 {
		roots = []string{"."}
	}
	for _, r := range roots {
		d.file(tool.FileDelete, r)
	}
}

// findLists adds the files that list where to start.
func (d *deriver) findLists(args []string) {
	for i, w := range args {
		if w == "-files0-from" && i+1 < len(args) {
			d.argument(reads, args[i+1], tool.FileArgument)
		}
	}
}

// findTakesValue reports whether the word behind a primary is its value.
func findTakesValue(known *grammar, w string) bool {
	return known.options().kinds[w] == valued || findNewer.MatchString(w)
}

// couldFind reports whether a word of find could be one of those that start or
// write something.
func couldFind(w string) bool {
	if w == NonLiteral || w == NonLiteralMany {
		return true
	}
	for _, list := range []map[string]bool{findExec, findFile, {"-delete": true}} {
		for name := range list {
			if mayBe(w, name) {
				return true
			}
		}
	}
	return false
}

// hereInFull gives words with $PWD, without quotes, as one word, where the name of that
// folder certainly has nothing that a shell splits or takes for a pattern, nor a dash.
func (d *deriver) hereInFull(args []string) []string {
	if d.env.Foreign || !plainFolder.MatchString(d.dir) {
		return args
	}
	out := slices.Clone(args)
	for i, w := range out {
		if rest, ok := strings.CutPrefix(w, anyHere); ok {
			out[i] = shapeHere + rest
		}
	}
	return out
}

var plainFolder = regex.Lazy(`^(/[0-9A-Za-z_.]+)+$`)

// runTmux: only the variables that tmux gives to new windows can be set. A semicolon
// would begin another command of tmux.
func runTmux(d *deriver, args []string) {
	ok := len(args) > 1 && args[0] == "set-environment"
	for _, w := range args {
		ok = ok && !nonLiteral(w) && !strings.Contains(w, ";") && (w[:min(1, len(w))] != "-" || strings.Trim(w[1:], "ghrtu") == "")
	}
	if !ok {
		d.unknownStart("tmux", readsCmds)
	}
}

// findExec derives the command behind -exec; n is the number of its words.
// found is the common part of the paths that find prints.
func (d *deriver) findExec(primary string, args []string, found string) (n int, ok bool) {
	if strings.HasSuffix(primary, "dir") {
		found = shaped(shapeOne, "./", "")
	}
	for n = range args {
		plus := args[n] == "+" && n > 0 && args[n-1] == "{}"
		if args[n] != ";" && !plus {
			continue
		}
		argv := replaced(args[:n], "{}", found)
		if plus {
			argv[n-1] = manyOf(found)
		}
		was := d.dir
		if strings.HasSuffix(primary, "dir") {
			d.dir = ""
		}
		d.command(argv)
		d.dir = was
		return n + 1, true
	}
	if last := len(args) - 1; strings.HasPrefix(primary, "-ok") && last > 0 && args[last] == "+" && !slices.ContainsFunc(args, nonLiteral) {
		d.command(args[:last]) // find reports an error; if one should not, it starts this
		return len(args), true
	}
	d.unknownStart("find", primary+" has no end; write \\; behind its command")
	return 0, false
}

// modes are options by name that do not change how bash reads a script.
var modes = words("pipefail errexit nounset xtrace noglob noexec verbose")

// shellReader reads a shell's own options.
type shellReader struct {
	d       *deriver
	name    string
	args    []string
	script  bool // -c: the first operand is a script
	posix   bool // in its POSIX mode bash expands aliases
	problem string
}

// option reads a word that begins with - or +. Each o and O in it takes a word behind it, in
// their order, as bash does.
func (s *shellReader) option(w string) {
	for _, c := range w[1:] {
		switch {
		case c == 'c' && w[0] == '-':
			s.script = true
		case strings.ContainsRune("elufnvx", c):
		case (c == 'o' || c == 'O' && s.name == "bash") && len(s.args) > 0:
			mode := s.args[0]
			s.args = s.args[1:]
			switch {
			case nonLiteral(mode):
				s.problem = "the name of an option is not literal"
			case c == 'O' && !shellOptions()[mode]:
				s.problem = "its option " + w + " " + mode + " is not one that is known to be harmless"
			case c == 'o':
				s.posix = s.posix || !modes[mode]
			}
		default:
			s.problem = "its options " + w + " are not all known to be harmless"
		}
	}
}

// runShell reads a shell's own options. Only -c has the commands to run; a
// script file, standard input or (with -l) a start-up file is read by the shell
// itself, inside the sandbox.
func runShell(d *deriver, args []string) {
	s := &shellReader{d: d, name: base(d.argv[0]), args: args}
options:
	for len(s.args) > 0 && s.problem == "" {
		w := s.args[0]
		switch {
		case nonLiteral(w) && s.script:
			s.problem = "its script holds a text that is known only when it runs, which could be any command; hand that over as an argument: " + s.name + " -c 'mv \"$1\" …' " + s.name + " {}"
		case nonLiteral(w) && mayBeOption(w):
			s.problem = "an option is not literal"
		case w == "--" || w == "-":
			s.args = s.args[1:]
			break options
		case w == "--posix", w == "--norc", w == "--noprofile", w == "--login":
			s.posix = s.posix || w == "--posix"
			s.args = s.args[1:]
		case strings.HasPrefix(w, "--"):
			s.problem = unknownOption(w)
		case len(w) > 1 && (w[0] == '-' || w[0] == '+'):
			s.args = s.args[1:]
			s.option(w)
		default:
			break options
		}
	}
	if s.problem == "" && s.script && len(s.args) == 0 {
		s.problem = "-c lacks its script"
	}
	if s.problem != "" {
		d.unknownStart(s.name, s.problem)
		return
	}
	if !s.script {
		return
	}
	lang := syntax.LangPOSIX
	if (s.name == "bash" || s.name == "rbash") && !s.posix {
		lang = syntax.LangBash
	}
	d.inner(s.name, s.args[0], lang)
}

// debugs are commands of gdb that start nothing but the program to debug.
var debugs = regex.Lazy(`^(r|run|start|c|continue|q|quit|bt|bt full|backtrace|where|thread apply all bt( full)?|info [a-z ]+|set (pagination|confirm) off)$`)

// runGdb: behind --args stands the program to debug.
func runGdb(d *deriver, r *parsed, rest []string) {
	inferior := false
	for _, g := range r.given {
		switch g.option {
		case "ex", "eval-command":
			if nonLiteral(g.text) || !debugs.MatchString(g.text) {
				d.unknownStart("gdb", "its command "+showWord(g.text)+" is not one that is known to start nothing")
				return
			}
		case "args":
			inferior = true
		}
	}
	switch {
	case inferior && len(rest) > 0:
		d.command(rest)
	case len(rest) > 0 && slices.ContainsFunc(rest[1:], mayBeOption):
		d.unknownStart("gdb", "an option stands behind the program; write gdb OPTIONS --args PROGRAM …")
	}
}

// showWord is a word for a message.
func showWord(w string) string {
	if nonLiteral(w) {
		return "that is not literal"
	}
	return w
}
