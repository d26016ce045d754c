package command_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/authority/policy/command"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// unknown are variables that scripts may find set, and $1, $2, ….
var unknown = []string{"LANG", "FOO", "x", "y", "f", "d", "o", "opts", "out", "@"}

var env = tool.Env{Workspace: "/ws", Path: trusted, Pass: []string{"LANG", "FOO"}}

// show prints actions shortly: words, "$" and "$*" for what is not literal,
// "?" for what cannot be told, r: and w: for files, @ for another folder.
func show(as []tool.Action) string {
	var out []string
	for _, a := range as {
		s := ""
		switch {
		case a.Argument != tool.NoArgument:
			continue // see TestFileArguments
		case a.Unknown != "":
			s = "?"
		case a.Kind == tool.FileRead:
			s = "r:" + a.Path
		case a.Kind == tool.FileDelete:
			s = "d:" + a.Path
		case a.Kind == tool.FileWrite:
			s = "w:" + a.Path
		default:
			s = strings.Join(a.Argv, " ")
			s = strings.ReplaceAll(strings.ReplaceAll(s, command.NonLiteralMany, "$*"), command.NonLiteral, "$")
			if a.Dir != "/ws" {
				s += " @" + a.Dir
			}
		}
		out = append(out, s)
	}
	return strings.Join(out, "; ")
}

func TestActions(t *testing.T) {
	// In the command lines | separates words.
	tests := []struct{ argv, want string }{
		{"git|status", "git status"},
		{"rm|a b", "rm a b"},
		{"env", "env"},
		{"env|FOO=1|rm|x", "env FOO=1 rm x; rm x"},
		{"env|-i|-u|X|rm|x", "env -i -u X rm x; rm x"},
		{"env|-uX|rm", "env -uX rm; rm"},
		{"env|--unset=X|rm", "env --unset=X rm; rm"},
		{"env|--uns=X|rm", "env --uns=X rm; ?"},
		{"env|-S|rm x", "env -S rm x; ?"},
		{"env|-vS|rm x", "env -vS rm x; ?"},
		{"env|PATH=.|rm", "env PATH=. rm; ?"},
		{"env|LD_PRELOAD=x|rm", "env LD_PRELOAD=x rm; ?"},
		{"env|UNLISTED=x|rm", "env UNLISTED=x rm; ?"},
		{"env|-C|/d|rm", "env -C /d rm; rm @/d"},
		{"env|env|env|rm", "env env env rm; env env rm; env rm; rm"},
		{"/usr/bin/env|rm", "/usr/bin/env rm; rm"},
		{"nice|-n|5|rm", "nice -n 5 rm; rm"},
		{"nice|-5|rm", "nice -5 rm; rm"},
		{"ionice|-c2|-n|7|rm", "ionice -c2 -n 7 rm; rm"},
		{"nohup|rm", "nohup rm; rm"},
		{"timeout|-k|5|10|rm|x", "timeout -k 5 10 rm x; rm x"},
		{"timeout|--signal=KILL|10|rm", "timeout --signal=KILL 10 rm; rm"},
		{"timeout|10", "timeout 10"},
		{"time|-p|rm", "time -p rm; rm"},
		{"time|-o|f|rm", "time -o f rm; ?"},
		{"stdbuf|-oL|rm", "stdbuf -oL rm; rm"},
		{"setsid|-f|rm", "setsid -f rm; rm"},
		{"chrt|-f|10|rm", "chrt -f 10 rm; rm"},
		{"taskset|-c|0|rm", "taskset -c 0 rm; rm"},
		{"unshare|-r|rm", "unshare -r rm; rm"},
		{"unshare|--root=/x|rm", "unshare --root=/x rm; ?"},
		{"strace|-f|rm", "strace -f rm; rm"},
		{"strace|-o|!rm|ls", "strace -o !rm ls; ?"},
		{"gdb|--args|rm|x", "gdb --args rm x; rm x"},
		{"sudo|-u|root|rm", "sudo -u root rm; rm"},
		{"sudo|-s", "sudo -s; ?"},
		{"su|-c|rm", "su -c rm; ?"},
		{"chroot|/x|rm", "chroot /x rm; ?"},
		{"nsenter|-t|1|rm", "nsenter -t 1 rm; ?"},
		{"busybox|rm|x", "busybox rm x; rm x"},
		{"busybox|sh|-c|rm x", "busybox sh -c rm x; sh -c rm x; rm x"},
		{"command|rm", "command rm; rm"},
		{"flock|/l|rm|x", "flock /l rm x; rm x"},
		{"flock|/l|-c|rm x", "flock /l -c rm x; rm x"},
		{"watch|-n|1|rm x; ls", "watch -n 1 rm x; ls; rm x; ls"},
		{"watch|-x|rm|x y", "watch -x rm x y; rm x y"},
		{"xargs", "xargs; echo $*"},
		{"xargs|-0|-n|1|rm|-f", "xargs -0 -n 1 rm -f; rm -f $*"},
		{"xargs|-I|{}|rm|{}|b", "xargs -I {} rm {} b; rm $ b"},
		{"xargs|-I{}|{}|b", "xargs -I{} {} b; ?"},
		{"xargs|-i|cp|{}|d", "xargs -i cp {} d; cp $ d"},
		{"xargs|sh|-c|rm \"$@\"|_", "xargs sh -c rm \"$@\" _; sh -c rm \"$@\" _ $*; rm $*"},
		{"xargs|sh|-c", "xargs sh -c; sh -c $*; ?"},
		{"xargs|env", "xargs env; env $*; ?"},
		{"find|.|-name|*.go", "find . -name *.go"},
		{"find|.|-exec|rm|-f|{}|;", "find . -exec rm -f {} ;; rm -f $"},
		{"find|.|-exec|rm|{}|+", "find . -exec rm {} +; rm $*"},
		{"find|.|-execdir|rm|{}|;|-ok|ls|;", "find . -execdir rm {} ; -ok ls ;; rm $ @; ls"},
		{"find|.|-exec|{}|;", "find . -exec {} ;; ?"},
		{"find|.|-exec|sh|-c|rm {}|;", "find . -exec sh -c rm {} ;; sh -c $; ?"},
		{"find|.|-exec|rm", "find . -exec rm; ?"},
		{"find|a|/b|-delete", "find a /b -delete; d:/ws/a; d:/b"},
		{"find|-delete", "find -delete; d:/ws"},
		{"find|.|-fprint|out|-fprintf|o2|%p|-fls|o3", "find . -fprint out -fprintf o2 %p -fls o3; w:/ws/out; w:/ws/o2; w:/ws/o3"},
		{"find|.|-name|-exec|-name|;", "find . -name -exec -name ;"},
		{"sh|-c|rm x; ls", "sh -c rm x; ls; rm x; ls"},
		{"bash|-c|sh -c 'rm x'", "bash -c sh -c 'rm x'; sh -c rm x; rm x"},
		{"bash|-ec|rm x|a|b", "bash -ec rm x a b; rm x"},
		{"bash|-o|pipefail|-c|rm", "bash -o pipefail -c rm; rm"},
		{"bash|-lc|rm", "bash -lc rm; rm"},
		{"bash|-ic|rm", "bash -ic rm; ?"},
		{"bash|--rcfile|f|-c|rm", "bash --rcfile f -c rm; ?"},
		{"bash|-s", "bash -s; ?"},
		{"bash|script.sh", "bash script.sh"},
		{"bash|-c|[[ -v 'a[$(rm)]' ]]", "bash -c [[ -v 'a[$(rm)]' ]]; ?"},
		{"bash|-c|((a=1))", "bash -c ((a=1))"},
		{"bash|-c|a['$(rm)']=1", "bash -c a['$(rm)']=1; ?"},
		{"bash|-c|rm {a,b}", "bash -c rm {a,b}; rm $*"},
		{"bash|-c|rm $'x'", "bash -c rm $'x'; rm x"}, {"sh|-c|rm $'x'", "sh -c rm $'x'; rm $"}, {"sh|-c|((a=1))", "sh -c ((a=1)); ?"}, {"sh|-c|ls <(rm)", "sh -c ls <(rm); ?"},
		{"sh|-c|[[ a ]]", "sh -c [[ a ]]; ?"},
		{"bash|-c|ls <(rm)", "bash -c ls <(rm); rm; ls $"},
		{"zsh|-c|rm", "zsh -c rm; ?"},
		{"parallel|rm", "parallel rm; ?"},
		{"ssh|h|rm", "ssh h rm"},
		{"ssh|-oProxyCommand=rm|h", "ssh -oProxyCommand=rm h; ?"},
		{"tar|xf|a.tar", "tar xf a.tar"},
		{"tar|--to-command=rm|-xf|a", "tar --to-command=rm -xf a; ?"},
		{"tar|--checkpoint=1|--checkpoint-action=exec=rm|-cf|a", "tar --checkpoint=1 --checkpoint-action=exec=rm -cf a; ?"},
		{"tar|--checkpoint-a=exec=rm", "tar --checkpoint-a=exec=rm; ?"},
		{"tar|xIf|rm|a", "tar xIf rm a; ?"},
		{"tar|-x|-I|rm", "tar -x -I rm; ?"},
		{"tar|--use-compress-prog|rm", "tar --use-compress-prog rm; ?"},
		{"rsync|-avze|rm|a|b", "rsync -avze rm a b; ?"},
		{"rsync|-av|a|b", "rsync -av a b"},
		{"sort|--compress-program=rm|f", "sort --compress-program=rm f; ?"},
		{"go|test|-exec|rm", "go test -exec rm; ?"},
		{"go|test|./...", "go test ./..."},
		{"rg|--pre|rm|x", "rg --pre rm x; ?"},
		{"git|-c|alias.x=!rm|x", "git -c alias.x=!rm x; ?"},
		{"git|-c|core.pager=rm|log", "git -c core.pager=rm log; ?"},
		{"git|-c|core.pager=cat|log", "git -c core.pager=cat log"},
		{"git|-c|user.name=a|commit", "git -c user.name=a commit"},
		{"git|--exec-path=/x|log", "git --exec-path=/x log; ?"},
		{"git|--config-env=a=b|log", "git --config-env=a=b log; ?"},
		{"git|--git-dir=x|log", "git --git-dir=x log; ?"},
		{"git|-C|d|log", "git -C d log"},
		{"git|bisect|run|rm|x", "git bisect run rm x; rm x"},
		{"git|rebase|-x|rm|m", "git rebase -x rm m; ?"},
		{"git|rebase|main", "git rebase main"},
		{"git|grep|-Orm|x", "git grep -Orm x; ?"},
		{"git|push|origin", "git push origin"},
		{"git|push|--receive-pack=rm|o", "git push --receive-pack=rm o; ?"},
		{"git|fetch|--upload-pack|rm|o", "git fetch --upload-pack rm o; ?"},
		{"git|clone|ext::sh -c rm", "git clone ext::sh -c rm; ?"},
		{"git|submodule|foreach|rm x; ls", "git submodule foreach rm x; ls; rm x @; ls @"},
		{"crontab|f", "crontab f; ?"},
		{"sed|-n|1,20p|f", "sed -n 1,20p f"},
		{"sed|-i|s/a/b/g;s,/x,y,|f", "sed -i s/a/b/g;s,/x,y, f"},
		{"sed|-E|-e|/^a/!{s/[a-z]+[[:space:]]*/x/2g;p};$d|-e|s|/x|f", "sed -E -e /^a/!{s/[a-z]+[[:space:]]*/x/2g;p};$d -e s /x f; ?"},
		{"sed|-E|/^a/!{s/[a-z]+[[:space:]]*/x/2g;p};$d|f", "sed -E /^a/!{s/[a-z]+[[:space:]]*/x/2g;p};$d f"},
		{"sed|:a;N;$!ba;s/\\n/ /g|f", "sed :a;N;$!ba;s/\\n/ /g f"},
		{"sed|1e id", "sed 1e id; ?"}, {"sed|e", "sed e; ?"}, {"sed|s/x/id/e|f", "sed s/x/id/e f; ?"}, {"sed|s/x/id/ge|f", "sed s/x/id/ge f; ?"},
		{"sed|p;e id", "sed p;e id; ?"}, {"sed|-n|-e|bx;e id|-e|:x", "sed -n -e bx;e id -e :x; ?"}, {"sed|-f|x|f", "sed -f x f; ?"}, {"sed|-nfx|f", "sed -nfx f; ?"},
		{"sed|-ne|1e id|f", "sed -ne 1e id f; ?"}, {"sed|--expression=1e id|f", "sed --expression=1e id f; ?"}, {"sed|--expr=1e id|f", "sed --expr=1e id f; ?"},
		{"sed|s/[]/]/w f/e", "sed s/[]/]/w f/e; ?"}, {"sed|s/a/b\\|-e|c/e", "sed s/a/b\\ -e c/e"}, {"sed|-e|s/a/b\\|-e|c/e", "sed -e s/a/b\\ -e c/e; ?"},
		{"sed|\\%x%e id", "sed \\%x%e id; ?"}, {"sed|--sandbox|1e id", "sed --sandbox 1e id"}, {"busybox|sed|1e id", "busybox sed 1e id; sed 1e id; ?"},
		{"sed|p|--|f", "sed p -- f"}, {"sed|w out", "sed w out"}, {"sed|$a x;e id", "sed $a x;e id"},
		{"awk|{print $1}|f", "awk {print $1} f"},
		{"awk|BEGIN{system(\"id\")}", "awk BEGIN{system(\"id\")}; ?"}, {"awk|BEGIN{f=\"sys\" \"tem\";@f(\"id\")}", "awk BEGIN{f=\"sys\" \"tem\";@f(\"id\")}; ?"},
		{"awk|-f|x", "awk -f x; ?"}, {"awk|--file=x", "awk --file=x; ?"}, {"gawk|-i|x|1", "gawk -i x 1; ?"}, {"gawk|-S|BEGIN{system(1)}", "gawk -S BEGIN{system(1)}"},
		{"mawk|-S|BEGIN{system(1)}", "mawk -S BEGIN{system(1)}; ?"}, {"mawk|-W|exec|x", "mawk -W exec x; ?"}, {"awk|--|{print}|-f", "awk -- {print} -f"},
		{"install|--strip-program=./x|-s|a|b", "install --strip-program=./x -s a b; ?"}, {"install|-m|755|a|b", "install -m 755 a b"},
		{"diff3|--diff-program=./x|a|b|c", "diff3 --diff-program=./x a b c; ?"}, {"diff3|a|b|c", "diff3 a b c"},
		{"m4|x", "m4 x; ?"}, {"gcc|-wrapper|./x|a.c", "gcc -wrapper ./x a.c; ?"}, {"x86_64-linux-gnu-gcc-12|-wrapper|./x|a.c", "x86_64-linux-gnu-gcc-12 -wrapper ./x a.c; ?"},
		{"rustc|-C|linker=./x|a.rs", "rustc -C linker=./x a.rs; ?"}, {"rustc|-Copt-level=3|linker.rs", "rustc -Copt-level=3 linker.rs"}, {"zic|-y|./x|f", "zic -y ./x f; ?"},
		{"yt-dlp|--exec|id|u", "yt-dlp --exec id u; ?"}, {"wireshark|-X|lua_script:x", "wireshark -X lua_script:x; ?"}, {"wg-quick|up|x", "wg-quick up x; ?"},
		{"gcc|@args", "gcc @args; ?"}, {"gcc|-B.|a.c", "gcc -B. a.c; ?"}, {"cc|-O2|-o|a|a.c", "cc -O2 -o a a.c"}, {"clang++-17|-fplugin=x|a", "clang++-17 -fplugin=x a; ?"},
		{"man|-P|./x|ls", "man -P ./x ls; ?"}, {"man|--pag=./x|ls", "man --pag=./x ls; ?"}, {"man|ls", "man ls"}, {"nc|-e|sh|h|1", "nc -e sh h 1; ?"},
		{"scp|-S|./x|a|b:", "scp -S ./x a b:; ?"}, {"ssh-keygen|-D|./x.so", "ssh-keygen -D ./x.so; ?"}, {"ip|netns|exec|x|id", "ip netns exec x id; ?"}, {"ip|addr", "ip addr"},
		{"pdflatex|--shell-escape|x", "pdflatex --shell-escape x; ?"}, {"hg|--config|alias.x=!id|x", "hg --config alias.x=!id x; ?"}, {"socat|-|EXEC:id", "socat - EXEC:id; ?"},
		{"git|help|log", "git help log; ?"}, {"tcpdump|-z|./x", "tcpdump -z ./x; ?"}, {"ccache|gcc|a.c", "ccache gcc a.c; ?"},
		{"/lib64/ld-linux-x86-64.so.2|/bin/rm", "/lib64/ld-linux-x86-64.so.2 /bin/rm; ?"},
		{"", "?"},
	}
	for _, tt := range tests {
		t.Run(tt.argv, func(t *testing.T) {
			if got := show(command.Actions(strings.Split(tt.argv, "|"), env, "/ws")); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// A program of awk starts commands by pipes, too; | also stands for other things.
func TestPipesOfAwk(t *testing.T) {
	for src, harmless := range map[string]bool{
		`$1 ~ /a|b/ || x {print $2}`:                           true,
		`{split($0, a, "|"); print a[1]}`:                      true,
		`{while ((getline l < "f") > 0) print l}`:              true,
		`{print a || b}`:                                       true,
		`{if ($0 ~ /a b/) {print strftime()"|"$0} else print}`: true,
		`{print $1/2 "|" $2/n}`:                                true,
		`!/^x/ {print "\"|" $1} # | "`:                         true,
		`{if (x) /"/; print y | "sh"; z=""}`:                   false,
		`{print x++ /"/ | "sh" #"` + "\n}":                     false,
		`{print length /"/ | "sh" #"` + "\n}":                  false,
		`{print "\"" | "sh"}`:                                  false,
		`{exit /"/; print 1 | "sh" #"` + "\n}":                 false,
		`BEGIN{print 1 | "sh"}`:                                false,
		`BEGIN{printf "x" |& "sh"}`:                            false,
		`BEGIN{"id" | getline x}`:                              false,
		`BEGIN{print /"/ | "sh" #"` + "\n}":                    false,
		"BEGIN{sys\\\ntem(1)}":                                 false,
		`BEGIN{print 1 ||| "sh"}`:                              false,
	} {
		got := show(command.Actions([]string{"awk", src}, env, "/ws"))
		if strings.HasSuffix(got, "; ?") == harmless {
			t.Errorf("%q gives %s", src, got)
		}
	}
	for src, want := range map[string]string{
		`sed "s/a/$x/" f`: "?", `sed -n 1p "$f"`: "?", `sed -n 1p -- "$f"`: "sed -n 1p -- $", `clang -- "$f"`: "?", `gcc -o "$out" a.c`: "?", `tar -cf x -- "$f"`: "tar -cf x -- $", `sed --sandbox "s/a/$x/" "$f"`: "sed --sandbox $ $",
		`awk "{print $1}" f`: "?", `awk '{print $1}' "$f" *.c`: "awk {print $1} $ $*", `awk -v x="$y" '{print x}'`: "awk -v $ {print x}", `awk $opts '{print}'`: "?",
	} {
		script, err := command.Script(src, env, "/ws", unknown)
		as := script.Actions
		if got := show(as); err != nil || got != want && !strings.HasSuffix(got, "; "+want) {
			t.Errorf("%s gives %s, %v, want %s", src, got, err, want)
		}
	}
}

func TestActionsNestTooDeeply(t *testing.T) {
	argv := append(slices.Repeat([]string{"env"}, 50), "rm")
	as := command.Actions(argv, env, "/ws")
	if last := as[len(as)-1]; last.Unknown == "" || len(as) > 20 {
		t.Errorf("%d actions, the last %v", len(as), last)
	}
}

func TestScript(t *testing.T) {
	tests := []struct{ src, want string }{
		{"ls -l", "ls -l"},
		{"a; b && c || d | e", "a; b; c; d; e"},
		{"a & b", "a; b"},
		{"(a; b)", "a; b"},
		{"{ a; b; }", "a; b"},
		{"! a", "a"},
		{"if a; then b; elif c; then d; else e; fi", "a; b; c; d; e"},
		{"while a; do b; done; until c; do d; done", "a; b; c; d"},
		{"for i in 1 $(a); do b \"$i\"; done", "a; b $"},
		{"case $(a) in b) c;; *) d;; esac", "a; c; d"},
		{"f() { a; }; f; f x", "a"},
		{"f; f() { a; }", "f; a"},
		{"if a; then git() { b; }; fi; git", "a; ?; git"},
		{"if a; then g() { b; }; fi; g push", "a; b; g push"},
		{"env() { a; }", "?"}, {"g() { a; } | g", "?"}, {"g() { a; } || g", "?"}, {"g() { a; } > f; g", "w:/ws/f; a"},
		{"echo $(a $(b))", "a $*; b"},
		{"echo `a`", "a"},
		{"echo \"x$(a)\"", "a"},
		{"echo ${x:-$(a)}", "a"},
		{"x=$(a)", "a"},
		{"echo $((1 + 2))", ""},
		{"i=0; while [ $i -lt 3 ]; do i=$((i + 1)); done", "?"},
		{"i=0; while [ \"$i\" -lt 3 ]; do i=$((i + 1)); done", ""},
		{"x='a[$(rm)]'; echo $((x))", "?"},
		{"read x; echo $((x))", "?"},
		{"echo $((FOO))", "?"}, {"echo $((FOO)); FOO=1", "?"}, {"echo $((z)); z=1", ""},
		{"cat <<E\n$(a)\nE", "cat; a"},
		{"cat <<'E'\n$(a)\nE", "cat"},
		{"cat <<-E\n\t`a`\n\tE", "cat; a"},
		{"a > out/f 2>&1", "w:/ws/out/f; a"},
		{"a >> /x < in 2> /dev/null", "w:/x; r:/ws/in; a"},
		{"a > \"$f\"", "a"},
		{"a > d/../f", "a"},
		{"a >& f", "?; a"},
		{"echo x > /dev/tcp/1.2.3.4/80", "?"},
		{"> f", "w:/ws/f"},
		{"for i in a; do b; done > f", "w:/ws/f; b"},
		{"$x a", "?"},
		{"\"$x\"", "?"},
		{"r'm' -rf", "rm -rf"},
		{"r\\m x", "rm x"},
		{"\"rm\" x", "rm x"},
		{"'rm' \"a b\"'c'", "rm a bc"},
		{"rm a\\ b \"c\\\"d\" 'e\\f'", "rm a b c\"d e\\f"},
		{"rm *.go", "rm $*"},
		{"rm '*.go'", "rm *.go"},
		{"rm $x \"$x\" \"$@\" ~/a {a,b} {} a?b", "rm $* $ $* $ $* {} $*"},
		{"rm \"${x-\"$@\"}\"", "rm $*"},
		{"echo hi; test -f x; [ -n \"$x\" ]; true; :; pwd", ""},
		{"[ -v 'a[$(rm)]' ]", "?"},
		{"[ \"$o\" 'a[$(rm)]' ]", "?"},
		{"[ $x = 1 ]", "?"},
		{"printf -v 'a[$(rm)]' x", "?"},
		{"printf \"$f\" x", "?"},
		{"printf '%s\\n' \"$x\"", ""},
		{"unset 'a[$(rm)]'", "?"},
		{"set -eu; set -o pipefail", ""},
		{"set -a", "?"},
		{"eval rm", "rm"}, {"eval \"$x\"", "?"}, {". ./x", "bash ./x"}, {"source x", "bash x"}, {"source \"$x\"", "bash $*"}, {"source ./\"$x\"", "bash $"}, {"exec rm", "rm"}, {"exec -a x rm", "?"}, {"trap rm EXIT", "rm @"}, {"trap \"$x\" EXIT", "?"},
		{"alias ls=rm", ""}, {"hash -p /x ls", "?"}, {"ulimit -n 1", ""}, {"fg", ""}, {"enable -f x y", "?"},
		{"command rm x", "rm x"}, {"command -v rm", ""}, {"command -p rm", "?"}, {"command eval rm", "rm"},
		{"\\eval rm", "rm"}, {"e\"val\" rm", "rm"},
		{"x=1; y=$x", ""},
		{"PATH=. ls", "?; ls"}, {"PATH=.; ls", "?; ls"}, {"export PATH=.", "?"}, {"LD_PRELOAD=x ls", "?; ls"},
		{"GIT_SSH_COMMAND=rm git fetch", "?; git fetch"}, {"IFS=x", ""}, {"export IFS=x", "?"}, {": ${IFS:=x}", "?"}, {"read PATH", "?"},
		{"for PATH in .; do ls; done", "?; ls"}, {"FOO=1 ls", "ls"}, {"BAR=1 ls", "?; ls"}, {"export FOO=1", ""}, {"export \"$x\"", "?"},
		{"f() { local x=\"$1\"; }; export FOO=\"$x\"", ""}, {"export PATH=\"$x\"", "?"}, {"local x=$1", ""},
		{"local x=\"$1\"; x=5; echo $((x))", "?"},
		{"cd d && a > f", "a @/ws/d; w:/ws/d/f"},
		{"cd d; a > f", "a @"},
		{"cd d || exit 1; a > f", "w:/ws/d/f; a @/ws/d"},
		{"cd d && a || b > f", "a @/ws/d; b @"},
		{"cd d && cd e || b > f", "b @"},
		{"cd d && a || exit 1; b > f", "a @/ws/d; w:/ws/d/f; b @/ws/d"},
		{"cd d || a; b > f", "a; b @"},
		{"cd d && cd e && a", "a @/ws/d/e"},
		{"cd \"$d\" && a", "a @"},
		{"(cd d && a); b", "a @/ws/d; b"},
		{"if a; then cd d; fi; b > f", "a @; b @"},
		{"f() { cd d; }; f && a > f", "a @"},
		{"echo a | xargs rm", "xargs rm; rm $*"},
		{"find . -exec rm {} \\;", "find . -exec rm {} ;; rm $"},
		{"find . -name *.go", "find . -name $*"}, {"find . -name *", "find . -name $*; ?"}, {"find . -name -ex*", "find . -name $*; ?"}, {"find . $x", "find . $*; ?"},
		{"find . -name \"$x\"", "find . -name $"},
		{"sh -c \"$x\"", "sh -c $; ?"},
		{"env FOO=1 rm x", "env FOO=1 rm x; rm x"},
		{"tar xf $x", "tar xf $*; ?"},
		{"a=b[c]=d; a[1]=2", ""},
		{"a+=b", ""},
		{"[[ -n x ]]", ""},
		{"true && false", ""},
		{"a 12>f", "?; a"}, {"a >&12", "?; a"}, {"a 3>f", "w:/ws/f; a"},
		{"echo \"${x:-'$(rm h)'}\"", "?"}, {"cat <<E\n${x:-'$(rm h)'}\nE", "?; cat"}, {"echo ${x:-'$(rm h)'}", ""},
		{"echo $[x]", "?"}, {"echo \"$[x]\"", "?"}, {"echo \\$[x]", ""},
		{"p=$!; wait $p; wait \"$!\" 12", ""}, {"wait $x", "?"}, {"wait -p 'a[$(rm)]'", "?"},
		{"f() { a; } & f", "a; f"}, {"f() { a; }; unset f; f", "a; ?"},
		{"if a; then ls() { cd /x; }; fi; ls; b", "a @; ls @; b @"},
		{"cd d || exit 1 2; a > f", "a @"}, {"cd d || exit $x; a > f", "a @"},
		{"echo rm | xargs -I A -iecho sh -c echo", "xargs -I A -iecho sh -c echo; sh -c $; ?"},
		{"echo rm | xargs -I A -L1 env", "xargs -I A -L1 env; env $*; ?"},
		{"sh -o $x script", "sh -o $* script; ?"},
		{"env --chdir=/x -C /ws a", "env --chdir=/x -C /ws a; a @"},
	}
	for _, tt := range tests {
		t.Run(tt.src, func(t *testing.T) {
			script, err := command.Script(tt.src, env, "/ws", unknown)
			as := script.Actions
			if got := show(as); err != nil || sorted(got) != sorted(tt.want) {
				t.Errorf("got  %s\nwant %s\n%v %v", got, tt.want, err, as)
			}
		})
	}
}

func sorted(s string) string {
	parts := strings.Split(s, "; ")
	slices.Sort(parts)
	return strings.Join(parts, "; ")
}

func TestScriptRefuses(t *testing.T) {
	for name, src := range map[string]string{
		"NUL": "a\x00b", "not UTF-8": "a\xff", "carriage return": "a\r\nb", "comment that goes on": "echo # \\\nrm x", "extended pattern": "rm !(b)", "coprocess": "coproc a",
		"open quote": "a 'b", "select": "select x in a; do b; done", "no end": "if a; then b", "too long": strings.Repeat("a ", 200000),
		"too deep": strings.Repeat("(", 5000) + strings.Repeat(")", 5000),
	} {
		t.Run(name, func(t *testing.T) {
			if script, err := command.Script(src, env, "/ws", nil); !errors.Is(err, fault.ArgsInvalid) && !strings.Contains(show(script.Actions), "?") {
				t.Errorf("gave %q, %v, %v", script.Text, show(script.Actions), err)
			}
		})
	}
}

func TestScriptTimeIsBounded(t *testing.T) {
	for name, src := range map[string]string{
		"list": strings.Repeat("a&&", 1900) + "a", "cd": strings.Repeat("cd a&&", 1900) + "a", "functions": strings.Repeat("f(){ cd x; };", 900),
		"nested":        strings.Repeat("if a;then cd b\n", 190) + "a\n" + strings.Repeat("fi\n", 190),
		"deep":          strings.Repeat("if a;then\n", 6000) + "a\n" + strings.Repeat("fi\n", 6000),
		"substitutions": strings.Repeat("$(", 190) + "a" + strings.Repeat(")", 190), "many": strings.Repeat("a;", 30000),
		"backquotes": strings.Repeat("`", 60000), "expansions": "a " + strings.Repeat("${x-", 10000),
	} {
		start := time.Now()
		_, err := command.Script(src, env, "/ws", nil)
		if d := time.Since(start); d > 20*time.Second {
			t.Errorf("%s took %v, %v", name, d, err)
		}
	}
}

func TestUnknownNamesTheWayOut(t *testing.T) {
	for _, a := range command.Actions([]string{"env", "-S", "rm x"}, env, "/ws") {
		if a.Unknown != "" && !strings.Contains(a.Unknown, "name the command itself") {
			t.Error(a.Unknown)
		}
	}
	for _, a := range command.Actions([]string{"sh", "-c", "a <(b)"}, env, "/ws") {
		if a.Unknown != "" && !strings.Contains(a.Unknown, "POSIX") {
			t.Error(a.Unknown)
		}
	}
}

func FuzzScript(f *testing.F) {
	for _, s := range []string{"a | b && c > d", "x=$(a `b`)", "cat <<E\n$(a)\nE\n", "cd a && b; f() { c; }; f", "for i in *; do a \"$i\"; done",
		"case $x in a) b;; esac", "sh -c 'find . -exec rm {} \\;'", "echo $((1+2)) ${x:-y}", "((a))", "a\\\nb", "{ a; } 2>&1 | b &", "a <<-'E'\n\tb\n\tE"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		first, err := command.Script(src, env, "/ws", env.Pass)
		if err != nil {
			return
		}
		second, err := command.Script(first.Text, env, "/ws", env.Pass)
		canon, again, as, as2 := first.Text, second.Text, first.Actions, second.Actions
		if err != nil || again != canon || fmt.Sprint(as) != fmt.Sprint(as2) {
			t.Fatalf("%q prints as %q, which gives %q, %v\n%v\n%v", src, canon, again, err, as, as2)
		}
		if strings.ContainsAny(canon, "\x00\r") {
			t.Fatalf("%q holds a control character", canon)
		}
	})
}

// A file that is not certain is left to the sandbox. Without one it is denied.
func TestUncertainFiles(t *testing.T) {
	foreign := env
	foreign.Foreign = true
	for _, src := range []string{`a > "$f"`, "a < $f", "a >> d/../f", "cd d; a > f", "cd d; a 2> f", `for f in a b; do b > "o_$f"; done`, `find . -fprint "$x"`, "find d/.. -delete",
		"a > /dev/tcp/127.0.0.1/80", "a 3<> /dev/udp/localhost/53", "a > ~/x", `a > "$HOME/x"`, "a < ~/.ssh/id"} {
		inside, err := command.Script(src, env, "/ws", unknown)
		outside, err2 := command.Script(src, foreign, "/ws", unknown)
		isFile := func(a tool.Action) bool { return a.Kind != tool.Command && a.Argument == tool.NoArgument }
		if err != nil || err2 != nil || slices.ContainsFunc(inside.Actions, isFile) || !slices.ContainsFunc(outside.Actions, func(a tool.Action) bool { return isFile(a) && a.Unknown != "" }) {
			t.Errorf("%s: %v, without a sandbox %v; %v, %v", src, inside.Actions, outside.Actions, err, err2)
		}
	}
	for _, src := range []string{"a > /tmp/x", "a > /dev/stderr", "a >> /var/tmp/x"} {
		inside, err := command.Script(src, env, "/ws", unknown)
		outside, err2 := command.Script(src, foreign, "/ws", unknown)
		file := func(script command.Reading, as tool.Argument) bool {
			return slices.ContainsFunc(script.Actions, func(a tool.Action) bool { return a.Kind == tool.FileWrite && a.Argument == as })
		}
		if err != nil || err2 != nil || !file(inside, tool.FileArgument) || !file(outside, tool.NoArgument) {
			t.Errorf("%s: %v, without a sandbox %v; %v, %v", src, inside.Actions, outside.Actions, err, err2)
		}
	}
	for _, src := range []string{"a > /dev/tcp/x.test/1", "a > /dev/tcp/127.0.0.1.x.test/1", "a > /dev/tcp/127.0.0.1/80/x", "a > /dev/sda", "a > /dev", "a > /dev/zero/x", "a > /tmpx"} {
		script, err := command.Script(src, env, "/ws", unknown)
		if err != nil || !slices.ContainsFunc(script.Actions, func(a tool.Action) bool { return a.Kind == tool.FileWrite && a.Argument == tool.NoArgument }) {
			t.Errorf("%s: %v, %v", src, script.Actions, err)
		}
	}
}
