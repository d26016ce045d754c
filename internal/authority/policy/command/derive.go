package command

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/remitrun/remit/internal/base/tool"
)

// Bounds on what one call may start, so that a decision stays cheap.
const (
	maxDepth   = 8
	maxActions = 1000
)

// Actions returns the actions that a command line needs: the command itself and
// any commands that its arguments make it start, at any depth. A part that cannot
// be determined becomes an action with Unknown set, which every policy denies.
// dir is the absolute folder that the command starts in; "" if unknown.
func Actions(argv []string, env tool.Env, dir string) []tool.Action {
	d := newDeriver(env, dir)
	d.command(argv)
	return d.actions
}

func newDeriver(env tool.Env, dir string) *deriver { return &deriver{env: env, dir: dir} }

// deriver collects actions.
type deriver struct {
	env     tool.Env
	dir     string     // where the command starts; "" if unknown
	search  []string   // folders behind the trusted PATH that a script has named, absolute
	input   [][]string // the commands whose output the command reads
	depth   int
	argv    []string // the command being looked at
	actions []tool.Action
}

func (d *deriver) add(a tool.Action) {
	switch {
	case len(d.actions) < maxActions:
		if a.Kind == tool.Command {
			a.Input = d.input
		}
		a.Argv = plainMarkers(a.Argv)
		d.actions = append(d.actions, a)
	case len(d.actions) == maxActions:
		d.actions = append(d.actions, tool.Action{Kind: tool.Command, Unknown: "more commands than a decision can list; split the call"})
	}
}

// unknown records that a part of the current command cannot be determined.
func (d *deriver) unknown(why string) {
	d.add(tool.Action{Kind: tool.Command, Argv: d.argv, Dir: d.dir, Unknown: why})
}

func (d *deriver) unknownStart(name, why string) {
	d.unknown("what " + name + " starts cannot be told: " + why + "; name the command itself, without " + name)
}

// command adds one command line and the commands that it starts in turn.
func (d *deriver) command(argv []string) {
	if len(argv) == 0 || argv[0] == "" {
		d.unknown("the command name is missing")
		return
	}
	outer := *d
	d.argv = argv
	defer func() { d.argv, d.dir, d.depth = outer.argv, outer.dir, outer.depth }()
	if nonLiteral(argv[0]) {
		d.unknown("the command's name is not literal; write it out")
		return
	}
	a := tool.Action{Kind: tool.Command, Argv: argv, Dir: d.dir}
	if !strings.Contains(argv[0], "/") {
		for _, dir := range d.search {
			if dir = join(d.dir, dir); dir == "" {
				d.unknown("PATH holds a relative folder, and the folder that it starts from is not certain; add an absolute one")
				return
			}
			a.Search = append(a.Search, dir)
		}
	}
	d.add(a)
	d.depth++
	name := base(argv[0])
	d.files(name, argv[1:])
	p := programs()[name]
	if p == nil {
		p = variant(name)
	}
	switch {
	case p == nil:
	case d.depth > maxDepth:
		d.unknownStart(name, "commands are nested too deeply")
	default:
		d.starts(p, name, argv[1:])
	}
}

// variant recognises names that carry a version or a machine: the dynamic linker,
// which runs the program it is given, and compilers.
func variant(name string) *program {
	if strings.HasPrefix(name, "ld-linux") || strings.HasPrefix(name, "ld-musl") || strings.HasPrefix(name, "ld-2.") {
		return programs()["ld.so"]
	}
	bare := strings.TrimSuffix(strings.TrimRight(name, "0123456789."), "-")
	for _, c := range strings.Fields(compilers) {
		if bare == c || strings.HasSuffix(bare, "-"+c) {
			return programs()[c]
		}
	}
	return nil
}

// starts derives the commands that a known program starts.
func (d *deriver) starts(p *program, name string, args []string) {
	switch {
	case p.never != "":
		d.unknownStart(name, p.never)
	case p.hooks != nil || p.words != nil:
		d.hooks(p, name, args)
	case p.free:
		d.follow(p.run, nil, args)
	default:
		o, rest, why := p.scan(args, d.assignable)
		if why != "" {
			d.unknownStart(name, why)
			return
		}
		d.follow(p.run, o, rest)
	}
}

func (d *deriver) follow(w way, o *options, rest []string) {
	switch w {
	case byEnv:
		runEnv(d, o, rest)
	case byFlock:
		runFlock(d, rest)
	case byWatch:
		runWatch(d, o, rest)
	case byXargs:
		runXargs(d, o, rest)
	case byFind:
		runFind(d, rest)
	case byShell:
		runShell(d, rest)
	case byGit:
		runGit(d, rest)
	case byGdb:
		runGdb(d, rest)
	case bySed:
		runSed(d, rest)
	case byAwk:
		runAwk(d, rest)
	case byTmux:
		runTmux(d, rest)
	case bySu:
		runSu(d, rest)
	case byScript:
		runScript(d, rest)
	case byRsync:
		runRsync(d, rest)
	case byHg:
		runHg(d, rest)
	default:
		runInner(d, rest)
	}
}

// hooks refuses options that name a program. A non-literal word could be one,
// unless it stands behind "--"; a file of options (@FILE) is read behind it too.
func (d *deriver) hooks(p *program, name string, args []string) {
	if h := p.hooked(args); h != "" {
		d.unknown("its word " + h + " can start a program; leave it out, or name that program in a call of its own")
		return
	}
	ends, way := !slices.Contains(p.words, "@"), "put -- before it"
	if !ends {
		way = "write it out"
	}
	for i, w := range args {
		if w == "--" && ends {
			return
		}
		if h := p.couldHook(w, i == 0); h != "" {
			d.unknown("a word of " + name + " is not literal and could be its option " + h + ", which starts a program; " + way)
			return
		}
	}
}

// couldHook returns the option or word that a non-literal word could turn out to
// be and that makes the program start another one, or "".
func (p *program) couldHook(w string, first bool) string {
	if !nonLiteral(w) {
		return ""
	}
	b := begins(w)
	for _, h := range p.words {
		if strings.HasPrefix(h, b) || strings.HasPrefix(b, h) {
			return h
		}
	}
	for _, h := range p.hooks {
		switch {
		case b == "", first && (h == "-I" || h == "-F"):
			return h
		case !strings.HasPrefix(b, "-"):
		case strings.HasPrefix(h, "--") && (strings.HasPrefix(h, b) || strings.HasPrefix(b, h) || !strings.HasPrefix(b, "--") && strings.HasPrefix(h[1:], b)):
			return h
		case !strings.HasPrefix(h, "--") && !strings.HasPrefix(b, "--"):
			return h
		}
	}
	return ""
}

// inner derives a shell script that a program is given.
func (d *deriver) inner(name, src string, lang syntax.LangVariant) {
	if nonLiteral(src) {
		d.unknownStart(name, "its script is not literal")
		return
	}
	if lang == syntax.LangPOSIX && strings.Contains(strings.ReplaceAll(src, "$((", ""), "((") {
		d.unknownStart(name, "(( means different things to different shells")
		return
	}
	s := &scripter{deriver: d, lang: lang, funcs: map[string]bool{}}
	if _, err := s.script(src); err != nil {
		d.unknownStart(name, err.Msg)
	}
}

// move changes the folder for the commands that follow.
func (d *deriver) move(to string) { d.dir = join(d.dir, to) }

// join resolves a path; "" if that cannot be done by looking at it: .. behind
// a name may leave a symbolic link's target.
func join(dir, p string) string {
	if nonLiteral(p) || p == "" || climbs(p) {
		return ""
	}
	if p[0] == '/' {
		return path.Clean(p)
	}
	if dir == "" {
		return ""
	}
	return path.Join(dir, p)
}

func climbs(p string) bool {
	named := false
	for _, c := range strings.Split(p, "/") {
		switch c {
		case "", ".":
		case "..":
			if named {
				return true
			}
		default:
			named = true
		}
	}
	return false
}

// file adds a file action for a path as a command line spells it.
func (d *deriver) file(kind tool.ActionKind, p string) {
	full := join(d.dir, p)
	switch {
	case full == "/dev/null":
	case strings.HasPrefix(full, "/dev/tcp/"), strings.HasPrefix(full, "/dev/udp/"):
		d.add(tool.Action{Kind: kind, Unknown: "some shells open a network connection for " + full + "; use http.get"})
	case full != "":
		d.add(tool.Action{Kind: kind, Path: full})
	case nonLiteral(p):
		d.add(tool.Action{Kind: kind, Unknown: "the file's name is not literal; write it out"})
	case climbs(p):
		d.add(tool.Action{Kind: kind, Unknown: "the file's path climbs out of a folder that may be a link; write it without .."})
	default:
		d.add(tool.Action{Kind: kind, Unknown: "the folder that the file's path starts from is not certain; write an absolute path, or `cd DIR && …`"})
	}
}
