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

// What real shells do with a script is compared with what was derived from it:
// every program that ran must have been listed, and every file that a
// redirection made, or the script must have been refused.

// stubs are the programs of these tests: each writes down its words and prints
// one of its own names, so that substitutions have something to give.
var stubs = []string{"ca", "cb", "cc", "rm"}

const stub = `#!/bin/sh
printf '%s\0' "${0##*/}" "$@" '` + "\x01" + `' >>"$LOG"
echo rm
`

type shellWorld struct{ dir, bin, work string }

func newShellWorld(t *testing.T) shellWorld {
	t.Helper()
	dir := t.TempDir()
	w := shellWorld{dir, filepath.Join(dir, "bin"), filepath.Join(dir, "work")}
	if err := os.Mkdir(w.bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, s := range stubs {
		if err := os.WriteFile(filepath.Join(w.bin, s), []byte(stub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range slices.Concat(wrappers, []string{"bash", "dash"}) {
		if p, err := exec.LookPath(s); err == nil {
			if err := os.Symlink(p, filepath.Join(w.bin, s)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return w
}

// wrappers are real programs that start others.
var wrappers = []string{"env", "xargs", "sh", "find", "nice", "timeout", "nohup", "setsid", "stdbuf", "ionice", "taskset", "chrt", "flock"}

// run gives the command lines that ran and the files that were made.
func (w shellWorld) run(t *testing.T, shell, script string) (ran [][]string, made []string) {
	t.Helper()
	log := filepath.Join(w.dir, strconv.FormatUint(rand.Uint64(), 36)) // of its own: a killed script may leave processes behind
	defer func() { _ = os.Remove(log) }()
	if err := os.MkdirAll(filepath.Join(w.work, "d", "e"), 0o755); err != nil {
		t.Fatal(err)
	}
	defer func() { // what a script left behind goes on in a folder that nothing looks at
		old := log + ".work"
		if err := os.Rename(w.work, old); err != nil {
			t.Fatal(err)
		}
		_ = os.RemoveAll(old)
	}()
	for _, s := range []string{"ca", "d/ca", "d/e/ca"} {
		if err := os.WriteFile(filepath.Join(w.work, s), []byte(strings.Replace(stub, `"${0##*/}"`, `"$PWD/`+filepath.Base(s)+`"`, 1)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, shell, "-c", script)
	c.Dir, c.Env = w.work, []string{"PATH=" + w.bin, "LOG=" + log, "HOME=/nonexistent"}
	c.Stdout, c.WaitDelay = &bytes.Buffer{}, time.Second // Run waits for what is in the background, too
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	_ = c.Run() // how a random script ends says nothing
	if c.Process != nil {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // with what it left behind
	}
	b, _ := os.ReadFile(log)
	for line := range bytes.SplitSeq(b, []byte("\x01\x00")) {
		if len(line) > 0 {
			ran = append(ran, strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00"))
		}
	}
	_ = filepath.Walk(w.work, func(p string, i os.FileInfo, err error) error {
		if err == nil && !i.IsDir() && filepath.Base(p) != "ca" {
			made = append(made, p)
		}
		return nil
	})
	return ran, made
}

// covers reports whether a derived command line may be the one that ran.
func covers(derived, ran []string) bool {
	switch {
	case len(derived) == 0:
		return len(ran) == 0
	case derived[0] == command.NonLiteralMany:
		return covers(derived[1:], ran) || len(ran) > 0 && covers(derived, ran[1:])
	case len(ran) == 0:
		return false
	case derived[0] == command.NonLiteral:
		return covers(derived[1:], ran[1:])
	}
	return derived[0] == ran[0] && covers(derived[1:], ran[1:])
}

func (w shellWorld) check(t *testing.T, shell, script string, derive func(string) (string, []tool.Action)) (ran bool) {
	t.Helper()
	text, actions := derive(script)
	refused := func(a tool.Action) bool {
		// The second step of a decision refuses a path from a folder that is not known.
		return a.Unknown != "" || a.Kind == tool.Command && a.Dir == "" && strings.Contains(a.Argv[0], "/") && a.Argv[0][0] != '/'
	}
	if text == "" || slices.ContainsFunc(actions, refused) {
		return false
	}
	lines, made := w.run(t, shell, text)
	for _, line := range lines {
		if !slices.ContainsFunc(actions, func(a tool.Action) bool {
			if len(a.Argv) > 1 && (a.Argv[0] == "sh" || a.Argv[0] == "bash") { // a program that the shell itself read
				// The name of a file that it sources may be known only when it runs.
				if name := filepath.Base(line[0]); name == filepath.Base(shell) || name == filepath.Base(a.Argv[1]) || strings.HasPrefix(a.Argv[1], "\x00") {
					return true
				}
			}
			argv := slices.Clone(a.Argv)
			if len(argv) > 0 && strings.Contains(argv[0], "/") { // by the folder it was thought to start in
				argv[0] = filepath.Join(a.Dir, argv[0])
				if filepath.IsAbs(a.Argv[0]) {
					argv[0] = a.Argv[0]
				}
				rest := slices.Clone(line)
				if !strings.Contains(rest[0], "/") {
					return false
				}
				// The stub tells the folder it ran in, which for d/ca is not where it lies.
				rest[0] = filepath.Join(a.Dir, a.Argv[0])
				return a.Dir != "" && filepath.Dir(line[0]) == a.Dir && covers(argv, rest)
			}
			return a.Kind == tool.Command && covers(argv, line)
		}) {
			t.Errorf("%s ran %q, which was not derived\nscript: %q\nas run: %q\nderived: %v", shell, line, script, text, actions)
		}
	}
	for _, f := range made {
		if !slices.ContainsFunc(actions, func(a tool.Action) bool { return a.Kind == tool.FileWrite && a.Path == f }) {
			t.Errorf("%s made %q, which was not derived\nscript: %q\nas run: %q\nderived: %v", shell, f, script, text, actions)
		}
	}
	return len(lines) > 0
}

func (w shellWorld) env() tool.Env {
	return tool.Env{Workspace: w.work, Path: []string{w.bin}, AnyVariable: true}
}

// whole derives a script as it is run by shell.run, inner one behind sh -c.
func (w shellWorld) whole(shell string) func(string) (string, []tool.Action) {
	return func(src string) (string, []tool.Action) {
		script, err := command.Script(src, w.env(), w.work, []string{"LOG"})
		if err != nil || shell != "bash" && !script.POSIX {
			return "", nil
		}
		foreign, _ := command.Script(src, w.foreign(), w.work, []string{"LOG"}) // with the same errors
		return script.Text, append(script.Actions, uncertainFiles(foreign.Actions)...)
	}
}

// foreign is an environment without a sandbox, in which no file is left to one.
func (w shellWorld) foreign() tool.Env {
	env := w.env()
	env.Foreign = true
	return env
}

func uncertainFiles(actions []tool.Action) []tool.Action {
	return slices.DeleteFunc(slices.Clone(actions), func(a tool.Action) bool { return a.Kind == tool.Command || a.Unknown == "" })
}

func (w shellWorld) inner(shell string) func(string) (string, []tool.Action) {
	return func(src string) (string, []tool.Action) {
		argv := []string{shell, "-c", src}
		return src, append(command.Actions(argv, w.env(), w.work), uncertainFiles(command.Actions(argv, w.foreign(), w.work))...)
	}
}

// scriptMaker makes random scripts, mostly of what shells are known to differ in.
type scriptMaker struct {
	*rand.Rand
	bash bool // also what only bash has
}

func (r scriptMaker) of(list ...string) string { return list[r.IntN(len(list))] }

// bashWord is a word that only bash reads as more than text.
func (r scriptMaker) bashWord(depth int) string {
	return r.of("<("+r.list(depth-1)+")", ">("+r.list(depth-1)+")", "${a[0]}", "${a[@]}", `"${a[@]}"`, "${a[x]}", "${a["+r.word(depth-1)+"]}", "${x/a/"+r.word(depth-1)+"}",
		"${x:1:2}", "${x:"+r.word(depth-1)+"}", "${x^^}", "${x@Q}", "${x@P}", "${!x}", "${!x@}", "${#a[@]}", "$'\\n'", "$'a\\'b'", "{1..3}", "{ca,cb}", "$[1]", "@(a|b)", "!(a)", "a=(b)", "$((x++))", "a$(expr 1 + 2)", "-$(date +%F)", "a$((x))",
		"*", "./*", "d/*", "~/a", "$HOME/a", `"$PWD/a"`, "$z", `"$z"`, "$1", `"$@"`, "$RANDOM")
}

// bashCommand is a command that only bash has.
func (r scriptMaker) bashCommand(depth int) string {
	w := func() string { return r.word(depth - 1) }
	switch r.IntN(12) {
	case 0:
		return "[[ " + r.of("-f a", "-n "+w(), w()+" == "+w(), w()+" -eq 1", "-v "+w(), "! -z $x", "a =~ "+w(), "( a && b )", "$(rm) -gt 1") + " ]]" + r.of("", " && "+r.simple(depth))
	case 1:
		return r.of("a=("+w()+" "+w()+")", "a[0]="+w(), "a["+w()+"]=1", "a+=("+w()+")", "x+="+w(), "declare -A m; m[k]="+w(), "declare x="+w(), "local -a a", "declare -i x="+w(), "typeset "+w())
	case 2:
		return "(( " + r.of("x++", "x = 1", "1 + "+w(), "a[0]++", "a["+w()+"]", "x > 2") + " ))"
	case 3:
		return "for (( x = 0; x < " + r.of("2", w()) + "; x++ )); do " + r.list(depth-1) + "; done"
	case 4:
		return "function " + r.of("f", "g", "cb") + r.of("", "()") + " { " + r.list(depth-1) + "; }"
	case 5:
		return r.simple(depth) + r.of(" &> o1", " &>> d/o2", " <<< "+w(), " |& cb", " {fd}> o3", " >& o4", " > >(cb)", " < <(ca)")
	case 6:
		return r.of("eval ", "eval -- ", "trap ", "exec ", "source ", ". ", "builtin ", "command ", "pushd ", "popd ", "shopt -s ", "mapfile ", "printf -v x ", "read -r ", "IFS= read -ra ", "jobs ", "history ", "alias ", "hash ", "unset -f ", "let ", "export ", "declare -x ", "time ", "coproc ", "readarray -t ") +
			r.of("ca", "'ca a'", "'cd d'", "'f() { rm; }'", "'rm b' EXIT", "'rm b' DEBUG", "./ca", "cd d", "nullglob", "extglob", "x", "x=1", "-n r=x", "a", "-C rm a", w(), w()+" "+w())
	case 7:
		return "case a in " + r.of("a", "*", w()) + ") " + r.list(depth-1) + r.of(";&", ";;&", ";;") + " *) " + r.simple(depth) + ";; esac"
	case 8:
		return r.of("z=ca; $z a", "z=a; ca $z \"$z\"", "z=1; z=2; ca $z", "z='a b'; ca $z", "IFS=b; z=abc; ca $z", "ca \"$y\" $y", "z=a; { z=b; }; ca $z", "z=a; f() { z=b; }; f; ca $z", "z=a & ca $z", "z=a | ca $z", "set -- rm a; ca $1 \"$@\"", "read z <<< rm; cb $z",
			"PATH=$PATH:./d; ca", "PATH=$PATH:d; cd d; ca", "PATH=./d:$PATH; ca", "export PATH=$PATH:$PWD/d; cb", "A=1 B=$x ca", "env A=1 ca", "CC=cc ca", "PAGER='rm a' ca", "for w in ./ca ./d/ca; do env \"$w\" a; done", "for w in d/*; do find \"$w\" -maxdepth 0 -exec ca {} +; done", "for w in d/c?; do w=$(rm); find \"$w\"; done", ". $(rm)", "source $x")
	case 9:
		return "find . " + r.of("-name *", "-name *.x", `"$x"`, "-maxdepth 1 -exec ca {} \\;", "d -maxdepth 0 -exec sh -c 'cb {}' \\;", "-maxdepth 1 -name ca -execdir ca {} +", `-maxdepth 0 -exec ca "$x" {} +`)
	}
	return "ca " + r.bashWord(depth) + " " + r.bashWord(depth)
}

func (r scriptMaker) word(depth int) string {
	if r.bash && depth > 0 && r.IntN(6) == 0 {
		return r.bashWord(depth)
	}
	switch n := r.IntN(30); {
	case n < 8 || depth <= 0:
		return r.of("a", "b", "rm", "x=1", "-n", "f", "1", "-c", "--")
	case n < 10:
		return "'" + r.of("a b", "$x", "`rm`", `\`, "", "$(rm)", "#") + "'"
	case n < 13:
		return `"` + r.of("a b", "$x", "${x}", `\"`, `\$x`, "\\\n", `\\`, "'", "#", "$", "$[1]", "$[$(rm a)]", "`", "$@") + r.of("", r.subst(depth)) + `"`
	case n < 16:
		return r.subst(depth)
	case n < 19:
		return r.of("$x", "${x}", "${x:-rm}", "${x:="+r.word(depth-1)+"}", "${x#a}", "${x%%*}", "${#x}", "$#", "$@", "$*", "$1", "${y:-"+r.word(depth-1)+"}", "${y+"+r.word(depth-1)+"}", "${x:-'a}'}", `"${x:-'}"`, `"${x:-"}"}"`, "$PWD", `"$(pwd)"`, "$(pwd)", "`pwd`")
	case n < 20:
		return r.of("$((1+1))", "$((x))", "$(( (1) ))", "$((1+(2)))", "$(((1)))", "$((x=1))", "$((1#2))", "$((1<<2))")
	case n < 22:
		return r.of(`\a`, `\ `, "\\\n", `a\`+"\n"+"b", `a#b`, `\#`, "~", "*", "[a]", "?", "{a,b}", "{a..c}", "$'a\\'b'", `$"a"`, "a=~", "!", "[", "]", "a$", "$", `\$x`)
	case n < 24:
		return r.word(depth-1) + r.word(depth-1)
	}
	return r.of("do", "done", "if", "then", "fi", "in", "esac", "case", "{", "}", "!", "time", "function", "ca", "for", "#x", "a#", "select", "[[", "]]")
}

func (r scriptMaker) subst(depth int) string {
	s := r.list(depth - 2)
	switch r.IntN(8) {
	case 0, 1, 2:
		return "$(" + s + ")"
	case 3:
		return "$( " + s + "\n)"
	case 4:
		return "`" + strings.NewReplacer("`", "\\`", "\\", "\\\\", "$", "\\$").Replace(s) + "`"
	case 5:
		return "`" + s + "`"
	case 6:
		return "$((" + s + "))"
	}
	return "$((" + s + ") )"
}

func (r scriptMaker) redirect(depth int) string {
	switch r.IntN(12) {
	case 0:
		return " >" + r.of("o1", "d/o2", "'o 3'", "/dev/null", "./o4", "&1", "&2", "|o5", ">o6", r.word(depth-1))
	case 1:
		return " 2>&1"
	case 2:
		return " <" + r.of("o1", "/dev/null", ">o7", "&0", "&-")
	case 3:
		return " " + r.of("1", "2", "3", "12", "x", "-") + ">o8"
	case 4, 5:
		end := r.of("E", "'E'", `"E"`, `\E`, "-E", "-'E'", `E""`, "$E", "E$x", `"E F"`)
		body := r.of("a\n", "$(rm h)\n", "`rm h`\n", "\\\n", "\\$(rm h)\n", "\tE\n", "E \n", "$x\n", "\\", "'\n", "\"\n", "${x:-$(rm h)}\n", "${x:-'$(rm h)'}\n", "a\\\nE\n", "\\`rm h\\`\n")
		word := strings.Trim(strings.TrimPrefix(end, "-"), `'"\`)
		word = strings.TrimSuffix(word, `"`)
		return " <<" + end + "\n" + body + r.of("", "\t") + word + "\n"
	}
	return ""
}

func (r scriptMaker) simple(depth int) string {
	var b strings.Builder
	for r.IntN(8) == 0 {
		b.WriteString(r.of("x", "y", "x", "y", "x", "y", "rm", "PATH", "IFS") + "=" + r.of("1", "rm", "", "'a b'", r.word(depth-1)) + " ")
	}
	if r.IntN(3) > 0 { // mostly what may run
		b.WriteString(r.of("ca", "cb", "cc", "rm", "f", "g", "./ca", "cd d", "cd d &&", "true &&", "false ||", "set --", "env ca", "command rm", "sh -c", "xargs cb"))
		for range r.IntN(4) {
			b.WriteString(" " + r.of("a", "b", "'a b'", `"$x"`, "$x", `"${x}"`, "1", r.word(depth-1)))
		}
		b.WriteString(r.redirect(depth))
		return b.String()
	}
	b.WriteString(r.of("ca", "ca", "cb", "cc", "rm", "./ca", "d/ca", "cd d", "cd", "cd ..", "cd d/e", "f", "f", "g", "set --", "shift", "read x", "export x", "unset x", "unset f",
		"command rm", "command -v", "exit", "return", "eval", ":", "true", "false", "test", "[", "env", "xargs", "sh -c", "nice", "timeout 1", "local x",
		"break", "wait", "printf", "readonly y", "find . -exec", r.word(depth-1), `\rm`, `r\m`, `'rm'`, `"rm"`, `r""m`, "$x", "exec", ".", "alias", "builtin", "umask", "xargs -I A -iB", "type", "pwd", "bind -p", "find $PWD -exec", "find $(pwd) -ok"))
	for range r.IntN(4) {
		b.WriteString(r.of(" ", " ", "\t", "  ", " \\\n") + r.word(depth-1))
	}
	b.WriteString(r.redirect(depth))
	return b.String()
}

func (r scriptMaker) command(depth int) string {
	if depth <= 0 {
		return r.simple(0)
	}
	if r.bash && r.IntN(3) == 0 {
		return r.bashCommand(depth)
	}
	switch r.IntN(16) {
	case 0:
		return "(" + r.list(depth-1) + ")" + r.redirect(depth)
	case 1:
		return "{ " + r.list(depth-1) + r.of("; }", "\n}") + r.redirect(depth)
	case 2:
		return "if " + r.list(depth-1) + "; then " + r.list(depth-1) + r.of("", "; else "+r.list(depth-1), "; elif "+r.list(depth-2)+"; then "+r.list(depth-2)) + "; fi"
	case 3:
		return "for x in " + r.word(depth-1) + " " + r.word(depth-1) + "; do " + r.list(depth-1) + "; done"
	case 4:
		return r.of("while ", "until ") + r.list(depth-1) + "; do " + r.list(depth-1) + "; break; done"
	case 5:
		return "case " + r.word(depth-1) + " in " + r.of("", "(") + r.word(depth-1) + r.of("", "|"+r.word(depth-1)) + ") " + r.list(depth-1) + r.of(";;", ";;\n") + r.of("", " *) "+r.list(depth-1)+";;") + " esac"
	case 6, 7:
		return r.of("f", "g", "cb", "cc", "pwd") + r.of("()", " ( )", "()\n") + r.of(" { "+r.list(depth-1)+"; }", " ("+r.list(depth-1)+")", " if true; then "+r.list(depth-1)+"; fi")
	case 8:
		return r.of("! ", "!\n", "# comment\n", "#\\\n", "# it's `\n") + r.command(depth-1)
	}
	return r.simple(depth)
}

func (r scriptMaker) list(depth int) string {
	s := r.command(depth)
	for r.IntN(5) < 2 {
		s += r.of("; ", "\n", " && ", " || ", " | ", " & ", "&&\n", "|\n", " &\n", ";") + r.command(depth-1)
	}
	return s
}

func TestShellsRunOnlyWhatWasDerived(t *testing.T) {
	n, seed := 400, uint64(1)
	if s := os.Getenv("REMIT_SHELL_RUNS"); s != "" {
		n, _ = strconv.Atoi(s)
		seed = uint64(time.Now().UnixNano())
	}
	w := newShellWorld(t)
	for _, shell := range []string{"dash", "bash"} {
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("there is no %s here", shell)
			continue
		}
		r := scriptMaker{rand.New(rand.NewPCG(seed, 7)), shell == "bash"}
		ran := 0
		if lines, _ := w.run(t, path, "ca"); len(lines) != 1 {
			t.Fatalf("%s ran %q", shell, lines)
		}
		for range n {
			src := r.list(3)
			for name, derive := range map[string]func(string) (string, []tool.Action){"whole": w.whole(shell), "inner": w.inner(shell)} {
				if w.check(t, path, src, derive) {
					ran++
				}
				_ = name
			}
			if t.Failed() && os.Getenv("REMIT_SHELL_ALL") == "" {
				return
			}
		}
		t.Logf("%s: %d scripts ran commands, seed %d", shell, ran, seed)
		if ran < n/20 {
			t.Errorf("%s: only %d of %d scripts ran anything; the test shows nothing", shell, ran, n)
		}
	}
}
