package command

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/base/tool"
)

// plainWords is a command line that all shells, and programs that split it at its spaces, read
// alike.
var plainWords = regex.Lazy(`^[A-Za-z0-9_./@:+-]+( +[A-Za-z0-9_./@:+-]+)*$`)

// runSu: without a command it starts a person's shell, which reads standard input.
func runSu(d *deriver, args []string) {
	users := 0
	for _, w := range args {
		if w == "-" || w == "-l" || w == "--login" {
			continue
		}
		if users++; users > 1 || nonLiteral(w) || strings.HasPrefix(w, "-") {
			d.unknownStart("su", otherRoot)
			return
		}
	}
	d.command([]string{"sh"})
}

// runScript: it records a shell, or the command behind -c, which the person's own shell reads.
func runScript(d *deriver, args []string) {
	line, given, files := "", false, 0
	for i := 0; i < len(args); i++ {
		w := args[i]
		name, value, attached := strings.Cut(w, "=")
		switch {
		case nonLiteral(w) && mayBeOption(w):
			d.unknownStart("script", "an option is not literal")
			return
		case name == "--command" && attached:
			line, given = value, true
		case w == "--command" || isBundle(w, "c", "aefq") && strings.HasSuffix(w, "c"):
			if i++; i < len(args) {
				line, given = args[i], true
			}
		case strings.HasPrefix(w, "-") && !isBundle(w, "", "aefq") && w != "--append" && w != "--flush" && w != "--quiet" && w != "--return":
			d.unknownStart("script", "its option "+w+" is not one that is known to be harmless")
			return
		case !strings.HasPrefix(w, "-"):
			files++
		}
	}
	switch {
	case files > 1:
		d.unknownStart("script", "on some systems the words behind its file are a command")
	case !given:
		d.command([]string{"sh"})
	case !plainWords.MatchString(line):
		d.unknownStart("script", "shells may read its command in different ways")
	default:
		d.inner("script", line, syntax.LangPOSIX)
	}
}

var rsyncHooks = &program{hooks: []string{"-e", "-M", "--rsh", "--rsync-path", "--remote-option"}, plain: []string{"--rsync", "--remote"}}

// runRsync: -e names the command that reaches the other host; rsync adds the host and its own
// command to it. Plain options of ssh can be told.
func runRsync(d *deriver, args []string) {
	rest := slices.Clone(args)
	for i := 0; i < len(rest); i++ {
		w := rest[i]
		if nonLiteral(w) || w == "--" {
			break // what follows is judged as words
		}
		value, ok := strings.CutPrefix(w, "--rsh=")
		last := i
		if !ok && i+1 < len(rest) && (w == "--rsh" || len(w) > 1 && w[0] == '-' && w[1] != '-' && strings.IndexAny(w, "BfTM@e") == len(w)-1 && w[len(w)-1] == 'e') {
			value, ok, last = rest[i+1], true, i+1
		}
		if !ok {
			continue
		}
		if !d.remoteShell(value) {
			break
		}
		rest = slices.Delete(rest, i, last+1)
		i--
	}
	d.hooks(rsyncHooks, "rsync", rest)
}

// remoteShell derives the command line of ssh that a program adds words to. It reports false
// if it cannot be told.
func (d *deriver) remoteShell(line string) bool {
	words := strings.Fields(line)
	if !plainWords.MatchString(line) || words[0] != "ssh" {
		return false
	}
	d.hooks(programs()["ssh"], "ssh", words[1:])
	d.add(tool.Action{Kind: tool.Command, Argv: append(words, NonLiteralMany), Dir: d.dir})
	return true
}

var hgHooks = &program{words: []string{"--config", "-R", "--repository", "--debugger", "serve"}}

// runHg: a folder behind -R is like starting there. An address can name a program.
func runHg(d *deriver, args []string) {
	rest := slices.Clone(args)
	for i := 0; i+1 < len(rest); i++ {
		if folder := rest[i+1]; rest[i] == "-R" && !nonLiteral(folder) && !strings.ContainsAny(folder, ":-") && hgHooks.hooked([]string{folder}) == "" {
			rest = slices.Delete(rest, i, i+2)
			i--
		}
	}
	d.hooks(hgHooks, "hg", rest)
}
