package command

import (
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
func runScript(d *deriver, r *parsed) {
	line := r.value("c")
	if r.has("command") {
		line = r.value("command")
	}
	switch {
	case r.problem != "":
		d.unknownStart("script", r.problem)
	case r.has("c") && r.has("command"):
		d.unknownStart("script", "it has two commands")
	case len(r.operands()) > 1:
		d.unknownStart("script", "on some systems the words behind its file are a command")
	case !r.has("c", "command"):
		d.command([]string{"sh"})
	case !plainWords.MatchString(line):
		d.unknownStart("script", "shells may read its command in different ways")
	default:
		d.inner("script", line, syntax.LangPOSIX)
	}
}

// runRsync: -e names the command that reaches the other host; rsync adds the host and its own
// command to it. Plain options of ssh can be told.
func runRsync(d *deriver, r *parsed) {
	certain := d.certain("rsync", r)
	for _, g := range r.given {
		if (g.option == "e" || g.option == "rsh") && !d.remoteShell(g.text) && certain {
			d.unknownStart("rsync", "the command of its option "+g.option+" is not ssh with plain options")
			return
		}
	}
}

// remoteShell derives the command line of ssh that a program adds words to. It reports false
// if it cannot be told.
func (d *deriver) remoteShell(line string) bool {
	words := strings.Fields(line)
	if !plainWords.MatchString(line) || words[0] != "ssh" {
		return false
	}
	d.certain("ssh", programs()["ssh"].read(words[1:]))
	d.add(tool.Action{Kind: tool.Command, Argv: append(words, NonLiteralMany), Dir: d.dir})
	return true
}

// runHg: a folder behind -R is like starting there. An address can name a program.
func runHg(d *deriver, r *parsed) {
	if !d.certain("hg", r) {
		return
	}
	for _, g := range r.given {
		switch {
		case g.option == "R" && (nonLiteral(g.text) || strings.ContainsAny(g.text, ":-")), g.option == "" && strings.HasPrefix("serve", g.text) && g.text != "" && len(g.text) > 2:
			d.unknownUse("hg", "its word "+showWord(g.text)+" can be an address that names a program, or a server")
			return
		}
	}
}

// runTar: names that it reads from a file are options too, unless it is told otherwise before.
func runTar(d *deriver, r *parsed) {
	if !d.certain("tar", r) {
		return
	}
	verbatim := false
	for _, g := range r.given {
		switch g.option {
		case "verbatim-files-from", "null":
			verbatim = true
		case "no-verbatim-files-from", "no-null":
			verbatim = false
		case "T", "files-from":
			if !verbatim {
				d.unknownUse("tar", "a file that lists files can also have options; write --verbatim-files-from before its option -T")
				return
			}
		case "f", "file":
			if otherHost(g.text) && !r.has("force-local") {
				d.unknownStart("tar", "its archive "+showWord(g.text)+" is on another host, which it reaches by a program; add --force-local for a file of that name")
				return
			}
		}
	}
}

// runIP: netns and vrf start commands, and -b reads some.
func runIP(d *deriver, r *parsed) {
	switch {
	case r.problem != "":
		d.unknownUse("ip", r.problem)
	case len(r.rest) > 0 && !ipObjects()[r.rest[0]]:
		d.unknownUse("ip", "its object "+showWord(r.rest[0])+" is not one that is known to start nothing")
	}
}

var ipObjects = lazy("a addr address l link r ro route rule n neigh neighbor neighbour maddress mroute tunnel ntable tcp_metrics token nexthop monitor xfrm help")
