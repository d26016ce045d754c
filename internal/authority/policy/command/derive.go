package command

import (
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/base/tool"
)

// Bounds on the commands of one call, so that a decision stays cheap.
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

	homeless bool  // HOME may be unset
	repeats  int   // depth within commands that may run again later: functions, loops and traps
	repeated []int // the actions of these
}

func (d *deriver) add(a tool.Action) {
	switch {
	case len(d.actions) < maxActions:
		if a.Kind == tool.Command {
			a.Input, a.Unconfined = d.input, d.env.Foreign
		}
		a.Argv = plainMarkers(a.Argv)
		if d.repeats > 0 {
			d.repeated = append(d.repeated, len(d.actions))
		}
		d.actions = append(d.actions, a)
	case len(d.actions) == maxActions:
		d.actions = append(d.actions, tool.Action{Kind: tool.Command, Unconfined: d.env.Foreign, Unknown: "more commands than a decision can list; split the call"})
	}
}

// unknown records that a part of the current command cannot be determined.
func (d *deriver) unknown(why string) {
	d.add(tool.Action{Kind: tool.Command, Argv: d.argv, Dir: d.dir, Unknown: why})
}

func (d *deriver) unknownStart(name, why string) {
	d.unknown("what " + name + " starts cannot be told: " + why + "; name the command itself, without " + name)
}

// unknownUse records that the effect of a program's own words is unknown.
func (d *deriver) unknownUse(name, why string) {
	d.unknown("what " + name + " does cannot be told: " + why)
}

// command adds one command line and the commands that it starts in turn.
func (d *deriver) command(argv []string) {
	if len(argv) == 0 || argv[0] == "" {
		d.unknown("the command name is missing")
		return
	}
	outer := *d
	d.argv = argv
	defer func() { d.argv, d.dir, d.depth, d.homeless = outer.argv, outer.dir, outer.depth, outer.homeless }()
	if nonLiteral(argv[0]) {
		d.unknown("the command's name is not literal; write it out")
		return
	}
	a := tool.Action{Kind: tool.Command, Argv: argv, Dir: d.dir}
	if a.Unknown = d.searched(&a); a.Unknown != "" {
		d.add(a)
		return
	}
	d.add(a)
	d.depth++
	name := base(argv[0])
	p := lookup(name)
	switch {
	case p == nil:
	case d.depth > maxDepth:
		d.unknownStart(name, "commands are nested too deeply")
	default:
		d.starts(p, name, argv[1:])
	}
}

// lookup returns the description of a program; nil if it is not known.
func lookup(name string) *program {
	if p := programs()[name]; p != nil {
		return p
	}
	return variant(name)
}

// versioned are programs that are also installed under names with a machine or a version.
var versioned = strings.Fields("gcc g++ cc c++ c89 c99 cpp clang clang++ gfortran ld ld.bfd ld.gold ld.lld gold nm objdump readelf ar ranlib strip size objcopy")

// variant recognises names that carry a version or a machine: the dynamic linker,
// which runs the program it is given, and compilers.
func variant(name string) *program {
	if strings.HasPrefix(name, "ld-linux") || strings.HasPrefix(name, "ld-musl") || strings.HasPrefix(name, "ld-2.") {
		return programs()["ld.so"]
	}
	bare := strings.TrimSuffix(strings.TrimRight(name, "0123456789."), "-")
	for _, c := range versioned {
		if bare == c || strings.HasSuffix(bare, "-"+c) {
			return programs()[c]
		}
	}
	return nil
}

// starts derives the files that a known program touches, and the commands that it starts.
func (d *deriver) starts(p *program, name string, args []string) {
	if p.never != "" {
		d.unknownStart(name, p.never)
		return
	}
	r := p.read(args)
	d.files(name, &p.files, r, args)
	switch p.run {
	case byNothing:
		d.certain(name, r)
	case byFind, byShell, byGit, bySed, byJq, byLess, byAwk, byTmux, bySu, byScript, byRsync, byHg, byTar, byGo, byCompiler, byRustc, byIP, byOpenSSL:
		d.follow(p, r, args)
	default:
		r, rest, why := p.scan(args, d.assignable)
		if why != "" {
			d.unknownStart(name, why)
			return
		}
		d.follow(p, r, rest)
	}
}

// certain refuses a program with an option that is not known, or may be one.
func (d *deriver) certain(name string, r *parsed) bool {
	if r.problem != "" {
		d.unknownUse(name, r.problem)
	}
	return r.problem == ""
}

func (d *deriver) follow(p *program, r *parsed, rest []string) {
	switch p.run {
	case byEnv:
		runEnv(d, r, rest)
	case byFlock:
		runFlock(d, rest)
	case byWatch:
		runWatch(d, r, rest)
	case byXargs:
		runXargs(d, r, rest)
	case byFind:
		runFind(d, &p.grammar, rest)
	case byShell:
		runShell(d, rest)
	case byGit:
		runGit(d, rest)
	case byGdb:
		runGdb(d, r, rest)
	case bySed:
		runSed(d, r)
	case byJq:
		runJq(d, r)
	case byLess:
		runLess(d, r)
	case byAwk:
		runAwk(d, rest)
	case byTmux:
		runTmux(d, rest)
	case bySu:
		runSu(d, rest)
	case byScript:
		runScript(d, r)
	case byRsync:
		runRsync(d, r)
	case byHg:
		runHg(d, r)
	case byTar:
		runTar(d, r)
	case byGo:
		runGo(d, &p.grammar, rest)
	case byCompiler:
		runCompiler(d, r, rest)
	case byRustc:
		runRustc(d, r, rest)
	case byIP:
		runIP(d, r)
	case byOpenSSL:
		runOpenSSL(d, rest)
	default:
		runInner(d, rest)
	}
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

// ownFolder matches the folders that every sandbox has of its own, and files in them. ownDevice matches its own devices.
var (
	ownFolder = regex.Lazy(`^/(?:tmp|var/tmp|dev/shm)(?:/|$)`)
	ownDevice = regex.Lazy(`^/dev/(?:zero|full|u?random|tty|std(?:in|out|err)|fd/[0-9]+)$`)
)

// InOwnFolder reports whether a clean path is in a folder that every sandbox has of its own.
func InOwnFolder(path string) bool { return ownFolder.MatchString(path) }

// loopback matches the names for which bash connects to the machine itself.
var loopback = regex.Lazy(`^/dev/(?:tcp|udp)/(?:127\.0\.0\.1|localhost)/[0-9]+$`)

// file adds a file action for a path as a command line spells it. A path that is not certain, and one in a folder that
// sandboxes have of their own, is left to the sandbox, where there is one.
func (d *deriver) file(kind tool.ActionKind, p string) {
	full := join(d.dir, p)
	switch {
	case full == "/dev/null":
	case !d.env.Foreign && loopback.MatchString(full): // in the sandbox's own network
	case strings.HasPrefix(full, "/dev/tcp/"), strings.HasPrefix(full, "/dev/udp/"):
		d.add(tool.Action{Kind: kind, Unknown: "some shells open a network connection for " + full + "; use curl, or a tool that fetches URLs"})
	case full != "" && (d.env.Foreign || !InOwnFolder(full) && !ownDevice.MatchString(full) || kind == tool.FileWrite && p[0] != '/' && d.beside(full)):
		d.add(tool.Action{Kind: kind, Path: full})
	case full != "":
		d.add(tool.Action{Kind: kind, Path: full, Argument: tool.FileArgument})
	case !d.env.Foreign && inHome(p):
		d.argument(map[tool.ActionKind]use{tool.FileRead: reads, tool.FileWrite: writes, tool.FileDelete: deletes}[kind], p, tool.HomeArgument)
	case !d.env.Foreign:
	case nonLiteral(p):
		d.add(tool.Action{Kind: kind, Unknown: "the file's name is not literal; write it out"})
	case climbs(p):
		d.add(tool.Action{Kind: kind, Unknown: "the file's path climbs out of a folder that may be a link; write it without .."})
	default:
		d.add(tool.Action{Kind: kind, Unknown: "the folder that the file's path starts from is not certain; write an absolute path, or `cd DIR && …`"})
	}
}
