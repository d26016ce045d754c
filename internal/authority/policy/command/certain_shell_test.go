package command_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/authority/policy/command"
	"github.com/remitrun/remit/internal/base/tool"
)

// What bash starts is compared with what was derived, over scripts that change variables,
// options, folders and the meaning of names in every way that bash has.

// recorder writes its folder and its words down.
const recorder = `#!/bin/sh
printf '%s\0' "$PWD" "${0##*/}" "$@" '` + "\x01" + `' >>"$LOG"
echo -exec
`

type stateWorld struct {
	shellWorld
	bash string
}

func newStateWorld(t *testing.T) stateWorld {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash here")
	}
	w := stateWorld{newShellWorld(t), bash}
	for _, name := range append([]string{"tool"}, stubs...) {
		if err := os.WriteFile(filepath.Join(w.bin, name), []byte(recorder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"d/e", "bin", "0"} {
		if err := os.MkdirAll(filepath.Join(w.work, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"-exec", "-EXEC", "a", "d/-delete"} { // what globs find
		if err := os.WriteFile(filepath.Join(w.work, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(w.work, "bin", "planted"), []byte(recorder), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range stubs { // found where PATH is 0
		if err := os.Symlink(filepath.Join(w.work, "bin", "planted"), filepath.Join(w.work, "0", name)); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// start gives the folders and command lines that a script starts. No process outlives it.
func (w stateWorld) start(t *testing.T, argv ...string) (out [][]string) {
	t.Helper()
	log := filepath.Join(w.dir, strconv.FormatUint(rand.Uint64(), 36))
	defer func() { _ = os.Remove(log) }()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, w.bash, argv...)
	c.Dir, c.Env = w.work, []string{"PATH=" + w.bin, "LOG=" + log, "HOME=/nonexistent"}
	c.Stdout, c.Stderr, c.WaitDelay = &bytes.Buffer{}, &bytes.Buffer{}, time.Second
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	_ = c.Run() // how a random script ends says nothing
	if c.Process != nil {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // with what it left behind
	}
	b, _ := os.ReadFile(log)
	for line := range bytes.SplitSeq(b, []byte("\x01\x00")) {
		if len(line) > 0 {
			out = append(out, strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00"))
		}
	}
	return out
}

// derived reports whether an action may be a command that started in a folder.
func (w stateWorld) derived(a *tool.Action, started []string) bool {
	if a.Kind != tool.Command || a.Dir != "" && a.Dir != started[0] {
		return false
	}
	if started[1] == "planted" { // which is in no folder of the trusted PATH
		return len(a.Search) > 0 && a.Argv[0] == "planted" && covers(a.Argv[1:], started[2:])
	}
	return covers(a.Argv, started[1:])
}

// stateMaker makes scripts of a few statements.
type stateMaker struct{ *rand.Rand }

func (r stateMaker) of(list ...string) string { return list[r.IntN(len(list))] }

func (r stateMaker) name() string { return r.of("X", "X", "X", "X", "X", "Y", "N") }

func (r stateMaker) value() string {
	return r.of("a", "a", "-exec", "-EXEC", "1", "''", "'a b'", "'@(-exec)'", "'*'", "'-E*'", "'{-exec,b}'", "'~'", "'a[$(rm p)]'", "d", "$((1/0))", "$Y", "$(cb)")
}

func (r stateMaker) word() string {
	x := r.name()
	if r.IntN(2) == 0 {
		return r.of("$X", "$X", `"$X"`, "$X-exec", "$Y")
	}
	return r.of("a", "$"+x, `"$`+x+`"`, "${"+x+"}", "$"+x+"-exec", `"$`+x+`-exec"`, "-$"+x, "${"+x+"@U}", "${"+x+",,}", "${"+x+"^^}", "${!"+x+"}", "${"+x+":-"+r.value()+"}", "${"+x+"[0]}",
		"$X$Y", "$1", `"$@"`, "$((N))", "*", "-E*", "@(-exec)", `"$HOME-exec"`, "~/a", "$(cb $X)", `"$(cb "$Y")"`, "<(cb $X)", "{a,$X}", "$_", "$RANDOM", "$OLDPWD", "${PIPESTATUS[0]}")
}

func (r stateMaker) use() string {
	return r.of("ca ", "ca ", "cc ", "env A=1 ca ", "xargs ca <<< ", "command ca ", "exec ca ", "f ", "tool ", "planted ", "find . -maxdepth 0 -name ", "rm ") + r.word() + r.of("", "", " "+r.word())
}

// sets is a statement that sets a variable, or seems to.
func (r stateMaker) sets() string {
	x, v := r.name(), r.value()
	if r.IntN(10) == 0 { // mostly refused
		return r.of("declare -"+r.of("i", "n", "ai", "c")+" "+x+"="+v, "declare -l $Y", "select "+x+" in a; do break; done <<< 1", "coproc "+x+" { :; }", "printf -v"+x+" %s "+v, "RANDOM="+v, "SECONDS="+v, "OPTIND="+v, "let "+x+"="+v, "read RANDOM <<< "+v)
	}
	return r.of(x+"="+v, x+"="+v, x+"="+v, x+"="+v, x+"="+v+" "+r.name()+"="+r.value(), "Z=$((1/0)) "+x+"="+v, ": $((1/0)); "+x+"="+v, x+"+="+v, x+"[0]="+v, "declare -"+r.of("l", "u", "a", "A", "x", "r", "g", "xl", "xr")+" "+x+"="+v,
		"declare -"+r.of("l", "u", "a")+" "+r.of(x, `"`+x+`"`), "declare "+x+"="+v, "typeset -u "+x+"="+v, "local "+x+"="+v, "local -l "+x, "readonly "+x+r.of("", "="+v), "export "+x+r.of("", "="+v, "="+v+" > /nonexistent/x"), x+"="+v+" ca",
		"read "+x+" <<< "+v, "read -ra "+x+" <<< "+v, "mapfile "+x+" <<< "+v, "printf -v "+x+" %s "+v, "getopts a "+x, "let "+x+"=1", "(( "+x+" = 1 ))", ": ${"+x+":="+v+"}",
		"for "+x+" in "+v+" a; do :; done", "unset "+x, "unset -v "+x, "{ "+x+"="+v+"; } > /nonexistent/x", "false && "+x+"="+v, ": | "+x+"="+v, "( "+x+"="+v+" )", "f() { "+x+"="+v+"; }; f", "f() { local -u "+x+"; "+x+"="+v+"; ca $"+x+"; }; f",
		"trap '"+x+"=-exec' DEBUG", "trap 'cd d' ERR", "trap 'ca $X' EXIT", "eval '"+x+"=-exec'", "eval 'false && N=1; ((N))'", `eval "`+x+`=b"`)
}

// state is a statement that changes something else.
func (r stateMaker) state() string {
	if r.IntN(10) == 0 { // mostly refused
		return r.of("set +B", "set -k", "set -o posix", "set -a", "hash -p /bin/sh ca", "enable -n echo", "BASH_CMDS[ca]=/bin/true", "BASH_ALIASES[ca]=rm", "PS4='$(rm p)'; set -x", "PROMPT_COMMAND='rm p'", "PATH=./bin:$PATH", "readonly f", "trap 'cd d' DEBUG", ": ${!Y}", "unset -f f tool",
			"shopt -s "+r.of("failglob", "nocaseglob", "expand_aliases", "compat44", "lastpipe", "assoc_expand_once"))
	}
	return r.of("IFS=a", "IFS=", "local IFS=x", "set -- "+r.value()+" b", "builtin set -- -exec", "command set -- -exec", "set -f", "set -u", "set -e", "set -x", "set -o noglob", "shopt -s "+r.of("extglob", "nullglob", "dotglob", "globstar", "nocasematch"),
		"alias ca='rm x'", "alias a=-exec", "unalias -a", "f() { ca $X; }", "f() { X=-exec; }", "tool() { ca own; }", ": $((1/0)); tool() { ca own; }", "ca() { rm own; }", "pwd() { rm own; }",
		"cd d", "cd d || exit", "cd nonexistent || exit", "cd nonexistent || exit $((1/0))", ": $((1/0)); cd d || exit", "{ cd d || exit; } > /nonexistent/x", "pushd d", "PATH=$PATH:./bin", "export PATH=$PATH:./bin", "f() { planted; }; PATH=$PATH:./bin; f", "PATH=$PATH:bin cc", "readonly X",
		": $((1/0))", ": ${a[-1]}", "a[-5]=1", "(( 1/0 ))", "(( "+r.of("PATH", "PATH", "HOME", "N")+" = 0 ))", ": ${X:PATH=0}", "let PATH=0", "for (( N = 0; N < 2; N++ )); do ca $N; done", "[[ a == a ]]", "false", "true", "f", "return", "break", "exec 3>&1", "shift", "wait", ": <<E\n$(cb $X)\nE")
}

func (r stateMaker) wrapped() string {
	return r.of("find . -maxdepth 0 "+r.word()+" cb ';'", "find . -maxdepth 0 -exec ca "+r.word()+" ';'", "find "+r.word()+" -maxdepth 0 -exec ca {} +", "X='a[$(rm p)]' bash -c 'false && X=1; ((X)); ca'",
		"export N='a[$(rm p)]'; bash -c 'false && N=1; ca $((N))'", `env -u HOME bash -c 'find . -maxdepth 0 "$HOME-exec" cb ";"'`, `env - PATH="$PATH" LOG="$LOG" bash -c 'ca "$HOME/x"'`, "bash -c 'ca $0 $1' "+r.word(), `bash -c "ca `+r.word()+`"`, "timeout 5 ca "+r.word(), "nice ca "+r.word())
}

func (r stateMaker) statement(depth int) string {
	switch n := r.IntN(20); {
	case n < 6:
		return r.sets()
	case n < 10:
		return r.state()
	case n < 15:
		return r.use()
	case n < 17 || depth == 0:
		return r.wrapped()
	}
	inner, h := r.script(depth-1), "h"+strconv.Itoa(depth) // not the name within: no recursion
	return r.of("{ "+inner+"\n}", "( "+inner+"\n)", "if true; then "+inner+"\nfi", "for N in 1 2; do "+inner+"\ndone", "while true; do "+inner+"\nbreak; done", h+"() { "+inner+"\n}; "+h, "case a in a) "+inner+"\n;; esac", "ca \"$( "+inner+"\n)\"", h+"() ( "+inner+"\n)\n"+h)
}

func (r stateMaker) script(depth int) string {
	s := r.statement(depth)
	for range r.IntN(4) {
		s += r.of("; ", "; ", "\n", "\n", "\n", " && ", " || ", " | ") + r.statement(depth)
	}
	return s
}

func TestBashStartsOnlyWhatWasDerived(t *testing.T) {
	n, seed := 200, uint64(11)
	if os.Getenv("REMIT_SOAK") != "" {
		n, seed = 20000, uint64(time.Now().UnixNano())
	}
	w := newStateWorld(t)
	own, foreign := w.env(), w.env()
	foreign.Foreign = true
	r := stateMaker{rand.New(rand.NewPCG(seed, 3))}
	told, ran := 0, 0
	for range n {
		src := r.script(2) + "\n" + r.use()
		env, hook := own, r.IntN(2) == 0
		if hook {
			env = foreign
		}
		read, err := command.Script(src, env, w.work, []string{"LOG", "PATH"})
		if err != nil || slices.ContainsFunc(read.Actions, func(a tool.Action) bool { return a.Unknown != "" }) {
			continue
		}
		told++
		argv := []string{"-c", read.Text}
		if hook { // as an agent's shell runs it: the text itself, with aliases
			argv = []string{"-O", "expand_aliases", "-c", r.of(`eval "$0"`, `shopt -u expand_aliases; eval "$0"`), src}
		}
		lines := w.start(t, argv...)
		for _, line := range lines {
			if !slices.ContainsFunc(read.Actions, func(a tool.Action) bool { return w.derived(&a, line) }) {
				t.Errorf("bash ran %q in %s, which was not derived (hook: %v)\nscript: %q\nderived: %v", line[1:], line[0], hook, src, read.Actions)
			}
		}
		if len(lines) > 0 {
			ran++
		}
		if t.Failed() && os.Getenv("REMIT_SHELL_ALL") == "" {
			return
		}
	}
	t.Logf("seed %d: of %d scripts %d are told, of which %d started programs", seed, n, told, ran)
	if told < n/4 || ran < n/6 {
		t.Errorf("of %d scripts only %d are told, and %d started programs", n, told, ran)
	}
}
