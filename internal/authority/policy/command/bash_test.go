package command_test

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy/command"
	"github.com/remitrun/remit/internal/base/tool"
)

// free is an environment whose policy lists no variables.
var free = tool.Env{Workspace: "/ws", Path: trusted, AnyVariable: true}

// What only bash has, and what is certain about words and variables.
func TestBashScript(t *testing.T) {
	for _, tt := range []struct{ src, want string }{
		{"[[ -f a && $x == b* ]] && ls", "ls"},
		{"[[ -v 'a[$(rm)]' ]]", "?"}, {"[[ -v a ]]", ""}, {"[[ $x -eq 1 ]]", "?"}, {"i=1; [[ $i -eq ${#x} ]]", ""}, {"[[ $(rm) -gt 1 ]]", "?; rm"},
		{"[[ a =~ $(rm) ]]", "rm"}, {"[[ (a == $(rm)) ]]", "rm"},
		{"a=(b $(rm) *); ls ${a[1]} \"${a[@]}\"", "rm; ls $* $*"}, {"a[$(rm)]=1", "rm; ?"}, {"a[x]=1", "?"}, {"a=([$x]=1)", "?"}, {"echo ${a[x]}", "?"}, {"echo ${a[$(rm)]}", "?; rm"},
		{"declare -A m; m[k]=v; echo ${m[k]}", ""}, {"f() { local -A m; m[k]=v; }", "?"}, {"m[k]=v; declare -A m", "?"},
		{"m[0]=1; declare -A m; m[k]=v", "?"}, {"m=(1); declare -A m; m[k]=v", "?"}, {"declare -A m; unset m; m[k]=v", "?"}, {"declare -A m; f() { local m; m[k]=v; }", "?"}, {"declare -A x; x[k]=v", "?"}, {"declare -A m=([k]=v); m[j]=w", "?; ?"},
		{"bash --posix -c 'alias ls=rm\nls'", "bash --posix -c alias ls=rm\nls; ?; ls"}, {"bash -o posix -c 'alias ls=rm'", "bash -o posix -c alias ls=rm; ?"}, {"bash -o pipefail -c '[[ a ]]'", "bash -o pipefail -c [[ a ]]"}, {"set -o posix", "?"},
		{"find -files0-from x -exec sed p {} +", "find -files0-from x -exec sed p {} +; sed p $*; ?"},
		{"for ((i = 0; i < 3; i++)); do ls $i; done", "ls $*"}, {"for ((i = x; i < 3; i++)); do ls; done", "?; ls"}, {"((i = $(rm)))", "?; rm"}, {"let i=1+1", ""}, {"let 'a[$(rm)]=1'", "?"},
		{"for i in {1..3}; do echo $((i + 1)); done", ""},
		{"ls &> out", "w:/ws/out; ls"}, {"ls &>> out", "w:/ws/out; ls"}, {"ls |& wc", "ls; wc"}, {"wc <<< \"$(rm)\"", "rm; wc"},
		{"diff <(ls a) <(ls b)", "ls a; ls b; diff $ $"}, {"ls > >(wc)", "wc; ls"}, {"ls {fd}> out", "?; ls"},
		{"time ls", "ls"}, {"time -p ls", "ls"}, {"function f { ls; }; f", "ls"}, {"function f() { ls; }; f; g", "ls; g"},
		{"case a in b) ls;;& c) wc;& *) rm;; esac", "ls; wc; rm"}, {"coproc ls", "?"},
		{"echo ${x/a/$(rm)} ${x:1:2} ${x^^} ${x@Q} ${!x@} ${!x[@]}", "rm"}, {"echo ${!x}", "?"}, {"echo ${x@P}", "?"}, {"echo ${x:y}", "?"}, {"echo ${x:$(rm)}", "?; rm"},
		{"read -r -p 'Name: ' n; ls \"$n\"", "ls $"}, {"while IFS= read -r f; do ls \"$f\"; done", "ls $"}, {"read PATH", "?"}, {"read -u 3 -ra words", ""}, {"read \"$x\"", "?"},
		{"mapfile -t a < in", "r:/ws/in"}, {"mapfile -C rm a", "?"}, {"printf -v x %s a", ""}, {"printf -v PATH %s a", "?"}, {"printf -v 'a[$(rm)]' x", "?"},
		{"shopt -s nullglob; shopt -u dotglob", ""}, {"shopt -s expand_aliases", "?"}, {"shopt -s lastpipe", "?"},
		{"pushd d; ls; popd", "ls @"}, {"jobs -l; history; hash -r; dirs", ""}, {"jobs -x rm", "?"}, {"hash -p /x ls", "?"}, {"history -w f", "?"}, {"fc -s", "?"}, {"bind -x a", "?"},
		{"unset -f g; unset GIT_DIR", ""}, {"unset PATH", "?"}, {"unset \"$x\"", "?"}, {"declare -n r=PATH", "?"}, {"declare -i n='a[$(rm)]'", "?"}, {"typeset -r n=1", ""}, {"export -f ls", "?"},
		{"declare \"$x\"", "?"}, {"declare \"n=$x\"", ""}, {"export \"PATH=$x\"", "?"}, {"export N=\"$x\" M", ""}, {"declare -x LD_PRELOAD=x", "?"}, {"LD_PRELOAD=x; ls", "?; ls"}, {"CLASSPATH=x; ls", "ls"}, {"CLASSPATH=x ls", "?; ls"},
		{"builtin cd d; ls", "ls @"}, {"builtin eval ls", "ls"}, {"builtin rm", "?"}, {"enable -n ls", "?"}, {"complete -C rm a", "?"},
		{"eval 'f() { rm; }'; f", "?; rm; f"}, {"eval 'cd d'; ls", "ls @"}, {"trap 'rm x' EXIT; ls", "rm x @; ls"}, {"trap 'cd d' DEBUG; ls", "?; ls @"}, {"trap 'cd d && rm x' EXIT; ls", "rm x @; ls"}, {"trap - EXIT; trap '' INT", ""},
		{"exec ls > out", "w:/ws/out; ls"}, {"exec 3> out", "w:/ws/out"}, {"source ./x; ls", "bash ./x; ls @"},
		{"NODE_ENV=test npm test", "npm test"}, {"GIT_PAGER=cat git log", "cat; git log"}, {"GIT_PAGER='rm x' git log", "rm x; git log"}, {"GIT_PAGER=$x git log", "?; git log"}, {"CC=$(which cc) ./c", "which cc; cc; ./c"}, {"which() { echo rm; }; CC=$(which cc) ./c", "?; ./c"}, {"CC=$(which -a cc) ./c", "which -a cc; ?; ./c"},
		{"LC_ALL=C A=$x ls", "ls"}, {"SVN_SSH=x svn up", "?; svn up"}, {"GOCACHEPROG=x go build", "?; go build"}, {"GOOS=js go build", "go build"}, {"GREP='rm x' zgrep a f.gz", "rm x; zgrep a f.gz"}, {"NODE_OPTIONS=x node", "?; node"}, {"GIT_SSH_COMMAND=rm git fetch", "?; git fetch"}, {"MY_PLUGIN_PATH=x ls", "?; ls"},
		{"D=src; find $D -name x", "find src -name x"}, {"D=src; find \"$D/a\" -delete", "find src/a -delete; d:/ws/src/a"}, {"D=src; D=b; find $D", "find $*; ?"}, {"if a; then D=src; fi; find \"$D\"", "a; find $; ?"},
		{"D='a b'; ls $D", "ls $*"}, {"IFS=,; D=a; ls $D", "ls $*"}, {"read D; ls \"$D\"", "ls $"}, {"ls $(( RANDOM % 5 ))", "ls $"}, {"IFS=1; ls $(( RANDOM % 5 ))", "ls $*"}, {"tar czf b-$(date +%Y%m%d).tgz d", "date +%Y%m%d; tar czf $ d"}, {"tar czf $(date +%F).tgz d", "date +%F; tar czf $ d"},
		{"tar czf b-$(date +%Y\\ -I).tgz d", "date +%Y -I; tar czf $* d; ?"}, {"date() { echo a -I rm; }; tar czf b-$(date +%F).tgz d", "?; tar czf $* d"}, {"PATH=$PATH:./b; tar czf b-$(date +%F).tgz d", "date +%F; ?"},
		{"find . -size +`expr 10 \\* 2` -print", "expr 10 * 2; find . -size $ -print"}, {"find . `expr 10 \\* 2` -print", "expr 10 * 2; find . $* -print; ?"}, {"find . -size +`expr $x \\* 2`", "expr $* * 2; find . -size $*; ?"},
		{"for d in /home/*/; do find \"$d\" -name bin; done", "find $ -name bin"}, {"for d in /home/*/; do find $d -name bin; done", "find $* -name bin; ?"}, {"for d in *; do find \"$d\"; done", "find $; ?"}, {"for d in ./a \"$x\"; do find \"$d\"; done", "find $; ?"},
		{"for d in /a; do read d; find \"$d\"; done", "find $; ?"}, {"for d in /a; do :; done; find \"$d\"", "find $; ?"}, {"f() { find \"$d\"; }; for d in /a; do f; done", "find $; ?"}, {"for d in /a; do eval 'd=-delete'; find \"$d\"; done", "find $ @; ?"}, {"for d do find \"$d\"; done", "find $; ?"},
		{"source $(ruby x); ls", "ruby x; bash $*; ls @"}, {"source -p a b", "?"}, {"su - ann", "su - ann; sh"}, {"su ann -c rm", "su ann -c rm; ?"}, {"su -s rm", "su -s rm; ?"}, {"su - \"$x\"", "su - $; ?"},
		{"script -c ./a f", "script -c ./a f; ./a"}, {"script -qc 'rm x' f", "script -qc rm x f; rm x"}, {"script f", "script f; sh"}, {"script -c 'a; b' f", "script -c a; b f; ?"}, {"script f rm", "script f rm; ?"}, {"script \"$x\"", "script $; ?"}, {"script -O f", "script -O f; ?"},
		{"rsync -auve 'ssh -p 22' . h:/x", "rsync -auve ssh -p 22 . h:/x; ssh -p 22 $*"}, {"rsync --rsh=ssh a h:b", "rsync --rsh=ssh a h:b; ssh $*"}, {"rsync -e 'ssh -oProxyCommand=rm' a h:b", "rsync -e ssh -oProxyCommand=rm a h:b; ?"}, {"rsync -e rm a h:b", "rsync -e rm a h:b; ?"}, {"rsync -e ssh -e rm a h:b", "rsync -e ssh -e rm a h:b; ssh $*; ?"}, {"rsync -Te ssh a b", "rsync -Te ssh a b"}, {"rsync -e ssh \"$x\" a", "rsync -e ssh $ a; ssh $*; ?"}, {"rsync -e 'ssh -F x' a h:b", "rsync -e ssh -F x a h:b; ssh -F x $*; ?"},
		{"hg st -R d", "hg st -R d"}, {"hg -R ssh://-oProxyCommand=x st", "hg -R ssh://-oProxyCommand=x st; ?"}, {"hg st -R \"$x\"", "hg st -R $; ?"}, {"hg --cwd -R serve", "hg --cwd -R serve; ?"}, {"for D in a; do :; done; ls \"$D\"", "ls $"}, {"D=a; : ${D:=b}; ls \"$D\"", "ls $"},
		{"D=1; ((D++)); ls \"$D\"", "ls $"}, {"D=a; eval 'D=b'; ls \"$D\"", "ls $"}, {"D=a; . ./x; ls \"$D\"", "bash ./x; ls $ @"}, {"D=a; unset D; ls \"$D\"", "ls $"}, {"D=a; mapfile -t D < in; ls \"$D\"", "r:/ws/in; ls $"}, {"D=a; builtin read D; ls \"$D\"", "ls $"}, {"D=a; command read D; ls \"$D\"", "ls $"}, {"D=a; readarray D; ls \"$D\"", "ls $"}, {"D=a; getopts a: D; ls \"$D\"", "ls $"}, {"ls \"$Z\" $Z; Z=1", "ls $ $*"}, {"ls \"$Z\" $Z b", "ls  b"},
		{"find \"$@\" $1 .", "find ."}, {"set -- a; find $1 .", "find $* .; ?"}, {"f() { find $1; }; f -delete", "find $*; ?"}, {"ls $HOME \"$PWD\"", "ls $* $"}, {"find \"$HOME/x\" -name y", "find $ -name y"}, {"HOME=x; ls", "?; ls"},
		{"tar xf ./*.tar", "tar xf $*"}, {"tar xf *.tar", "tar xf $*; ?"}, {"sort -t$'\\t' f", "sort -t\t f"}, {"sort \"-t$x\" f", "sort $ f"}, {"sort \"-$x\" f", "sort $ f; ?"}, {"sort \"--c$x\" f", "sort $ f; ?"},
		{"find src -name '*.go' -exec sed -i s/a/b/ {} +", "find src -name *.go -exec sed -i s/a/b/ {} +; sed -i s/a/b/ $*"}, {"find \"$x\" -exec sed s/a/b/ {} +", "find $ -exec sed s/a/b/ {} +; ?"}, {"find -- * -execdir sort {} ;", "find -- $* -execdir sort {}; ?"},
		{"sed -n \"/a$/p\" f", "sed -n /a$/p f"}, {"sed \"s:$x:b:\" f", "sed $ f; ?"},
		{"export PATH=$PATH:./bin && tsc", "tsc"}, {"PATH=\"$PATH:$x\" tsc", "?; tsc"}, {"PATH=./bin:$PATH tsc", "?; tsc"}, {"env 'PATH=$PATH:x' tsc", "env PATH=$PATH:x tsc; ?"}, {"PATH=$PATH:a; PATH=$PATH:b; tsc", "?; tsc"}, {"PATH=$PATH: tsc", "?; tsc"},
	} {
		script, err := command.Script(tt.src, free, "/ws", []string{"x", "y"})
		if got := show(script.Actions); err != nil || sorted(got) != sorted(tt.want) {
			t.Errorf("%s\ngot  %s\nwant %s\n%v %v", tt.src, got, tt.want, err, script.Actions)
		}
	}
}

// A variable is literal only where its value is certain, and unquoted only where no option
// of bash can make more of it.
func TestOnlyCertainVariablesAreLiteral(t *testing.T) {
	const unknown = "find . $* touch x ;; ?"
	for src, want := range map[string]string{
		"X=-a\n": "find . -a touch x ;", "declare X=-a\n": "find . -a touch x ;", "export X=-a\n": "find . -a touch x ;", "declare -xr X=-a\n": "find . -a touch x ;", "X=-a; : $((1 + 1))\n": "find . -a touch x ;", "set -u; X=-a\n": "find . -a touch x ;",
		"declare -l X=-A\n": unknown, "declare -u X=-a\n": unknown, "declare -xl X=-A\n": unknown, "declare -a X=-a\n": unknown, "typeset -u X=-a\n": unknown, "local X=-a\n": unknown, "local -l X=-A\n": unknown, "declare -l X; X=-A\n": unknown,
		"X='@(-exec)'\n": unknown, "X='a b'\n": unknown, "X='*'\n": unknown, "X='{a,b}'\n": unknown, "X='~'\n": unknown, "X='!a'\n": unknown, "X='a#'\n": unknown, "X=ä\n": unknown,
		"A=$((1/0)) X=-a\n": unknown, "A=$((1/0)) X=-a; ": unknown, ": $((1/0)); X=-a; ": "find . -a touch x ;", ": $((1/0)); X=-a\n": unknown, ": ${a[-1]}; X=-a\n": unknown, "readonly R=1; R=2; X=-a\n": unknown, "a[-5]=1; X=-a\n": unknown, "f() { : $((1/0)); }; f; X=-a\n": unknown, ": ${Z:=$R}; X=-a\n": unknown,
		"export X=-a > x\n": "w:/ws/x; " + unknown, "X=-a >x\n": "w:/ws/x; " + unknown,
	} {
		script, err := command.Script(src+"find . $X touch x ';'", free, "/ws", []string{"x"})
		if got := show(script.Actions); err != nil || sorted(got) != sorted(want) {
			t.Errorf("%q gives %s, want %s, %v", src, got, want, err)
		}
	}
}

// A function, a folder and a number count only where what makes them certainly ran.
func TestOnlyCertainStateCounts(t *testing.T) {
	for src, want := range map[string]string{
		": $((1/0)); tool() { :; }\ntool x": "tool x", "tool() { :; }; : $((1/0))\ntool x": "", ": $((1/0)); cd d || exit\nls": "ls @", "cd d || exit; : $((1/0))\nls": "ls @/ws/d",
		"cd d || exit $((1/0))\nls": "ls @", "{ cd d || exit; } > x\nls": "w:/ws/x; ls @", "cd d 2>/dev/null || exit 1\nls": "ls @/ws/d",
		"z='a[$(rm)]'; eval 'false && z=1; ((z))'": "?", "bash -c 'false && z=1; ((z))'": "bash -c false && z=1; ((z)); ?", "bash -c 'z=1; ((z))'": "bash -c z=1; ((z))", "bash -c 'for z in 1 2; do ls $((z)); done'": "bash -c for z in 1 2; do ls $((z)); done; ls $*",
		"bash -c 'for ((z = 0; z < 3; z++)); do ls; done'": "bash -c for ((z = 0; z < 3; z++)); do ls; done; ls",
		"builtin set -- -exec; find . $1 a":                "find . $* a; ?", "command set -- -exec; find . $1 a": "find . $* a; ?",
		"env -u HOME sh -c 'find . \"$HOME/x\"'": "env -u HOME sh -c find . \"$HOME/x\"; sh -c find . \"$HOME/x\"; find . $", "env -u HOME sh -c 'find . \"$HOME\"'": "env -u HOME sh -c find . \"$HOME\"; sh -c find . \"$HOME\"; find . $; ?", "find \"$HOME-exec\"": "find $; ?", "find \"$HOME/x\"": "find $",
		"RANDOM='a[$(rm)]'": "?", "RANDOM=42; SECONDS=0": "", "read SECONDS": "?", "printf -v RANDOM %s \"$x\"": "?", "export RANDOM=$x": "?", "for RANDOM in $x; do :; done": "?",
		"((PATH=0)); git status": "?; git status", "let PATH=0": "?", ": $((HOME = 1))": "?", "for ((IFS = 0; IFS < 2; IFS++)); do :; done": "?; ?", "echo ${x:PATH=0}": "?", "a[PATH=0]=1": "?", "((n += 1)); ((n++))": "",
		"export LC_ALL=zh_TW.BIG5\necho 'ä'": "?", "LANG=$x\necho 'ä'": "?", "export LC_ALL=C LANG=de_DE.UTF-8\necho 'ä'": "", "export LC_ALL=zh_TW.BIG5\necho a": "",
		"shopt -s nocaseglob": "?", "shopt -s failglob": "?",
	} {
		script, err := command.Script(src, free, "/ws", []string{"x"})
		if got := show(script.Actions); err != nil || sorted(got) != sorted(want) {
			t.Errorf("%q gives %s, want %s, %v", src, got, want, err)
		}
	}
}

// Nothing is certain about the variables of an environment that is not Remit's own.
func TestVariablesOfAnotherEnvironment(t *testing.T) {
	foreign := free
	foreign.Foreign = true
	for src, want := range map[string]string{
		"alias ls='rm x'": "?", "unalias ls; alias": "", `find $x . "$1" $@`: "find $* . $ $*; ?", `find "$HOME/x" -name y`: "find $ -name y", "D=src; find $D": "find src", "CLASSPATH=x; ls": "?; ls", "A=1; ls": "ls",
	} {
		script, err := command.Script(src, foreign, "/ws", nil)
		if got := show(script.Actions); err != nil || sorted(got) != sorted(want) {
			t.Errorf("%s gives %s, want %s, %v", src, got, want, err)
		}
	}
}

// A program in a folder that a script added to PATH is judged by its path.
func TestAddedFoldersOfPATH(t *testing.T) {
	script, err := command.Script("PATH=$PATH:./bin; tsc", free, "/ws", nil)
	if err != nil || len(script.Actions) != 1 || strings.Join(script.Actions[0].Search, ":") != "/ws/bin" {
		t.Fatalf("%v, %v", script.Actions, err)
	}
	bare, place := pattern(t, "tsc").Bind("/ws"), pattern(t, "./bin/tsc").Bind("/ws")
	a := script.Actions[0]
	if !place.Match(&a, trusted) {
		t.Error("as asked, it may be the one in ./bin")
	}
	a.Exe = "/ws/bin/tsc"
	if bare.Match(&a, trusted) || !place.Match(&a, trusted) {
		t.Error("found in ./bin, it must be allowed by its path alone")
	}
	a.Exe = trusted[0] + "/tsc"
	if !bare.Match(&a, trusted) || place.Match(&a, trusted) {
		t.Error("found on the trusted PATH, it must be allowed by its name alone")
	}
}

// A program that looks for others in PATH is undetermined where a folder was added that calls
// can write, and so is what runs again behind the addition.
func TestProgramsThatSearchPATH(t *testing.T) {
	for src, want := range map[string]string{
		"PATH=$PATH:./bin git foo": "?", "export PATH=$PATH:./bin; git status": "?", "env PATH=$PATH:./bin git foo": "env $* git foo; ?", "f() { git foo; }; PATH=$PATH:./bin; f": "?; ?", "for i in 1 2; do git foo; PATH=$PATH:./bin; done": "?; ?", "PATH=$PATH:/tmp/b; /usr/bin/git x": "?",
		"git pull; PATH=$PATH:./bin; tsc": "git pull; tsc", "PATH=$PATH:/usr/local/go/bin git status": "git status", "PATH=$PATH:./bin; sort a | timeout 5 tsc": "sort a; timeout 5 tsc; tsc",
	} {
		script, err := command.Script(src, free, "/ws", nil)
		if got := show(script.Actions); err != nil || sorted(got) != sorted(want) {
			t.Errorf("%q gives %s, want %s, %v", src, got, want, err)
		}
	}
	script, err := command.Script("f() { mytool; }; PATH=$PATH:./bin; f", free, "/ws", nil)
	if err != nil || len(script.Actions) != 1 || !slices.Equal(script.Actions[0].Search, []string{"/ws/bin"}) {
		t.Errorf("a function called behind the change gives %v, %v", script.Actions, err)
	}
}

// A script that a POSIX shell reads alike can run without bash.
func TestScriptsForAnyShell(t *testing.T) {
	for src, want := range map[string]bool{
		"ls | wc -l > out": true, "for i in a b; do ls \"$i\"; done": true, "export A=1; ls": true,
		"[[ -f a ]]": false, "a=(b)": false, "ls &> out": false, "source x": false, "ls $'a'": false, "shopt -s nullglob": false,
	} {
		script, err := command.Script(src, free, "/ws", nil)
		if err != nil || script.POSIX != want {
			t.Errorf("%q: POSIX %v, %v", src, script.POSIX, err)
		}
	}
}

// judged counts the command lines of which everything can be told, and those that a
// policy decides which allows every command: of these only the commands are open.
func judged(t *testing.T, lines []string) (told, decided int) {
	t.Helper()
	for _, line := range lines {
		script, err := command.Script(line, free, "/ws", nil)
		open := func(a tool.Action) bool { return a.Unknown != "" }
		switch {
		case err == nil && !slices.ContainsFunc(script.Actions, open):
			told++
			decided++
			continue
		case err == nil && !slices.ContainsFunc(script.Actions, func(a tool.Action) bool { return open(a) && a.Kind != tool.Command }):
			decided++
		}
		t.Logf("not judged: %q", line)
	}
	return told, decided
}

func TestCommandsOfAgentsAreJudged(t *testing.T) {
	var lines []string
	thirdParty(t, "shell/agent_commands.json", &lines)
	if told, _ := judged(t, lines); told != len(lines) {
		t.Errorf("%d of %d", told, len(lines))
	}
}

func TestCommandsOfPeopleAreJudged(t *testing.T) {
	dir := os.Getenv("REMIT_TESTDATA")
	if dir == "" {
		t.Skip("REMIT_TESTDATA is not set: it names the folder of third-party cases")
	}
	f, err := os.Open(filepath.Join(dir, "shell", "one_liners_dev_sample.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var lines []string
	for s := bufio.NewScanner(f); s.Scan(); {
		lines = append(lines, s.Text())
	}
	told, decided := judged(t, lines)
	t.Logf("of %d lines %d are told, and %d are decided where every command is allowed", len(lines), told, decided)
	if told < 660 || decided < len(lines)*96/100 {
		t.Errorf("of %d lines %d are told, and %d are decided where every command is allowed", len(lines), told, decided)
	}
}
