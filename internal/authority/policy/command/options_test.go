package command_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/policy/command"
	"github.com/remitrun/remit/internal/base/tool"
)

// determined reports whether nothing of a command line is unknown.
func determined(argv ...string) bool {
	return !slices.ContainsFunc(command.Actions(argv, free, "/ws"), func(a tool.Action) bool { return a.Unknown != "" })
}

// commandsOf are the commands that a command line needs.
func commandsOf(argv []string) []tool.Action {
	return slices.DeleteFunc(command.Actions(argv, free, "/ws"), func(a tool.Action) bool { return a.Kind != tool.Command })
}

// Every program that is looked through refuses options that it does not list: long ones, short
// ones, the beginnings of listed long ones, and listed ones with a letter more.
func TestUnknownOptionsAreUndetermined(t *testing.T) {
	for _, p := range command.Programs() {
		if p.Free {
			continue // its words are no options: tmux, su
		}
		argv := func(option string) []string { return append(append([]string{p.Name}, p.Before...), option) }
		for _, option := range []string{"--remit-unknown", "--remit-unknown=x"} {
			if determined(append(argv(option), "x")...) {
				t.Errorf("%q is determined", argv(option))
			}
		}
		for _, c := range strings.Split("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "") {
			if option := "-" + c; !p.Knows(option) && determined(append(argv(option), "x")...) {
				t.Errorf("%q is determined", argv(option))
			}
		}
		for _, long := range p.Long() {
			for _, n := range []int{4, len(long) / 2, len(long) - 1} {
				if short := long[:max(n, 3)]; short != "--" && !p.Knows(short) && determined(append(argv(short), "x")...) {
					t.Errorf("%q is determined, a beginning of %s", argv(short), long)
				}
			}
			if option := long + "x"; !p.Knows(option) && determined(append(argv(option), "x")...) {
				t.Errorf("%q is determined", argv(option))
			}
		}
	}
}

// What follows an option that is not known, or that is known without a value, is read all the
// same: a command behind it is found, or the command line is undetermined.
func TestNoWordsHideACommand(t *testing.T) {
	for _, argv := range [][]string{
		{"find", ".", "-neweraa", "-fprint", "-exec", "touch", "pwned", ";"}, {"find", ".", "-newerXY", "-fprint", "-exec", "touch", "pwned", ";"},
		{"sed", "-ee", "cmds"}, {"sed", "-nee", "cmds"}, {"sed", "-Ef", "cmds"}, {"sed", "-Eef", "cmds"}, {"script", "-qcc", "ls"}, {"bash", "-coo", "pipefail", "history", "touch pwned"}, {"bash", "-cO", "extglob", "touch pwned"}, {"bash", "-Oc", "extglob", "touch pwned"},
		{"git", "config", "core.fsmonitor", "touch pwned", "-l"}, {"git", "config", "alias.x", "push", "--get"}, {"git", "config", "set", "--append", "alias.x", "push"}, {"git", "log", "-p", "-U", "--ext-diff", "-1"}, {"git", "show", "--unified", "--ext-diff", "HEAD"},
		{"openssl", "x509", "-in", "org.openssl.engine:/x.so:k"}, {"openssl", "pkey", "-in", "pkcs11:token=x"}, {"gpg", "--homedir", "h", "-K"}, {"zip", "x.zip", "f", "-lf", "-P", "-TT", "touch pwned"}, {"go", "build", "-ldflags=-extld=/x= -s"}, {"slogin", "-o", "ProxyCommand=x", "h"},
		{"gold", "--plugin", "x.so"}, {"gpg-agent", "--daemon", "touch", "pwned"}, {"memusage", "touch"}, {"prove", "-e", "touch"}, {"rpmspec", "-E", "%(touch pwned)"},
		{"xargs", "--process-slot-var=PATH", "ls"}, {"gdb", "-batch", "-ex", "shell touch pwned"}, {"gdb", "-ex", "!touch pwned"}, {"gdb", "--batch", "-x", "cmds"}, {"ltrace", "-F", "conf", "ls"}, {"tar", "-cf", "a.tar", "-T", "list"}, {"tar", "cTf", "list", "a.tar"}, {"tar", "-c", "--files-from=list"},
		{"nm", "--plugin", "./evil.so", "a.o"}, {"ar", "--plugin=./evil.so", "t", "a"}, {"gcc", "a.c", "-Wl,-z,now,-plugin,./evil.so"}, {"gcc", "a.c", "-Xlinker", "-plugin", "-Xlinker", "./evil.so"}, {"gcc", "-Wl,@opts", "a.c"}, {"gcc", "-o", "@opts", "a.c"}, {"clang", "--sysroot=x", "a.c"},
		{"openssl", "req", "-engine", "./evil.so"}, {"openssl", "list", "-provider-path", ".", "-provider", "evil"}, {"openssl", "engine", "./evil.so"}, {"gpg", "--photo-viewer", "touch pwned", "--list-keys"}, {"gpg", "--agent-program", "./x", "-d", "f"}, {"rsync", "--daemon", "--config=./r.conf"},
		{"go", "build", "-ldflags=-linkmode=external -extld=./evil", "."}, {"go", "build", "-ldflags", "-extld ./evil", "."}, {"go", "env", "-w", "CC=./evil"}, {"go", "test", "-exec=./x", "."}, {"go", "tool", "link", "-extld=./x"}, {"go", "foo"}, {"go", "-toolexec=./x", "build"},
		{"ag", "--pager=touch pwned", "x"}, {"ack", "--pager=touch pwned", "x"}, {"curl", "-K", "conf"}, {"curl", "--engine", "./x.so", "u"}, {"curl", "-sKconf"}, {"ssh", "h", "-oProxyCommand=x", "ls"}, {"strip", "--plugin=./x", "a"},
		{"wget", "-e", "use_askpass=./x", "u"}, {"wget", "-qe", "use_askpass=./x", "u"}, {"scp", "-s", "-S./x", "a", "b:"}, {"ssh", "--", "h", "-oProxyCommand=x"}, {"tcpdump", "-I", "-z./x"}, {"gcc", "-undefined", "-wrapper", "./x", "a.c"}, {"dvips", "-A", "-R0", "f"}, {"enscript", "-e", "-I./x", "f"}, {"groff", "-F.", "-Tx", "f"}, {"sysctl", "-n", "-p./x"}, {"borg", "-v", "--rsh=./x", "list"},
		{"go", "get", "-tool", "-toolexec=./x", "p"}, {"git", "cherry-pick", "-e", "--strategy=evil", "a"},
		{"git", "config", "--global", "alias.x", "!touch pwned"}, {"git", "config", "alias.p", "push"}, {"git", "config", "set", "core.editor", "x"}, {"git", "config", "core.hooksPath", "x"}, {"git", "config", "--add", "user.name", "x", "y"}, {"git", "config", "-f", "x", "alias.y", "!x"}, {"git", "config", "-e"}, {"git", "config", "remote.o.uploadpack", "x"}, {"git", "config", "url.ext::x.insteadof", "y"},
		{"git", "x"}, {"git", "p", "origin", "main"}, {"git", "foo"}, {"git", "merge-index", "touch", "-a"}, {"git", "submodule--helper", "foreach", "touch pwned"}, {"git", "merge", "-s", "evil", "b"}, {"git", "merge", "-sevil", "b"}, {"git", "pull", "--strategy=evil"}, {"git", "rebase", "--exe", "x"}, {"git", "fetch", "--upload-p=x", "o"}, {"git", "archive", "--format=tar.evil", "HEAD"}, {"git", "bisect", "visualize", "x"}, {"git", "log", "--ext-diff"}, {"git", "clone", "--templ=x", "u"}, {"git", "--exec-path=x", "status"}, {"git", "lfs", "push", "o"},
	} {
		if as := commandsOf(argv); determined(argv...) && len(as) == 1 {
			t.Errorf("%q is determined and starts nothing", argv)
		}
	}
	script, err := command.Script("PATH=$PATH:./bin git merge -s ours \"$x\"", free, "/ws", []string{"x"})
	if err != nil || !slices.ContainsFunc(script.Actions, func(a tool.Action) bool { return a.Unknown != "" }) {
		t.Errorf("a merge with a PATH of the workspace: %v, %v", script.Actions, err)
	}
}

// What people and agents write every day is determined.
func TestOrdinaryOptionsAreDetermined(t *testing.T) {
	for _, line := range []string{
		"git status -sb", "zip -qr a.zip src", "zip -9 a.zip b -x c", "openssl s_client -connect localhost:443", "openssl x509 -in c.pem -noout -text", "openssl pkey -in k.pem -passin pass:x", "git config --global user.name x", "git config --local -l", "git diff -U3", "git log -p -U5", "git log --oneline -5", "git log -n 3 --stat", "git log --since=1.week --author=x --pretty=format:%h", "git diff --cached --stat", "git diff -U3 HEAD~1 -- a.go", "git diff --name-only main...HEAD", "git show --stat HEAD", "git show HEAD:a.go",
		"git add -A", "git add -p", "git commit -qm x", "git commit -am x", "git commit --amend --no-edit", "git commit -m x -m y --no-verify", "git checkout -b x", "git checkout -- a", "git switch -c x", "git restore --staged a", "git stash push -m x -- a", "git stash pop", "git stash -u", "git branch -vv",
		"git branch --show-current", "git push -u origin HEAD", "git push --force-with-lease", "git pull --rebase", "git pull --ff-only origin main", "git fetch --all --prune", "git fetch origin pull/1/head:x", "git clone --depth 1 https://x.test/y", "git clone --filter=blob:none -b main https://x.test/y z", "git rebase -i HEAD~3", "git rebase --onto a b c",
		"git merge --no-ff x", "git merge-base a b", "git cherry-pick -x a", "git revert --no-edit a", "git reset --hard HEAD~1", "git rev-parse --short HEAD", "git rev-parse --abbrev-ref HEAD", "git rev-parse --show-toplevel", "git rev-list --count HEAD", "git ls-files -o --exclude-standard", "git grep -n x", "git grep -il x -- src",
		"git blame -L 1,5 a", "git tag -a v1 -m x", "git tag -l v*", "git remote -v", "git remote add o https://x.test", "git config --get user.name", "git config user.email a@b", "git config --global --list", "git config --global init.defaultBranch main", "git worktree add ../x -b y", "git clean -nd", "git clean -fdx", "git describe --tags --always", "git shortlog -sn",
		"git -C sub log", "git --no-pager diff", "git -c user.name=x -c user.email=y commit -m z", "git submodule update --init --recursive", "git init -q", "git init --bare x", "git apply --check p", "git format-patch -1", "git reflog", "git bisect start", "git archive -o a.tar HEAD", "git for-each-ref --sort=-committerdate --format=%(refname)", "git ls-remote --heads origin",
		"find . -type f -name x -not -path y", "find . -newermt 2024-01-01 -print0", "find . ( -name a -o -name b ) -prune -o -print", "find src -maxdepth 2 -mmin -5 -size +1k -printf %p", "sed -n 1,5p a", "sed -E -i.bak -e s/a/b/ a", "sed -i -e s/a/b/g a b", "grep -rnE --include=*.go x .", "grep -rlI x .", "grep -oP x a", "grep -c ^ a", "grep -A3 -B3 x a",
		"rg -n --hidden -g !x y", "rg -tgo x", "rg --files -g *.go", "rg -C 3 -i x", "rg -l x", "tar czf a.tgz b", "tar -xzf a.tgz -C b --strip-components=1", "tar tf a.tar", "sort -t, -k2,2nr a", "sort -u a", "xargs -0 -r -n 1 -P 4 ls", "xargs -I{} ls {}", "awk -F: {print} a", "head -n 5 a", "head -20 a", "tail -n +5 a", "tail -f a", "wc -l a", "cut -d: -f1 a", "diff -ru a b", "cp -a a b", "mkdir -p a", "rm -rf a", "ln -sfn a b", "chmod +x a", "chmod -x a",
		"go test ./... -run X -count=1 -v -race", "go build -o x -ldflags -s ./cmd/x", "go vet ./...", "go test -cover ./... -coverprofile=c.out", "go tool cover -func=c.out", "go list -f {{.Dir}} ./...", "go mod tidy", "go env GOPATH", "go run ./cmd/x -flag", "go doc fmt.Println", "go test ./docs -update", "go get x@v1", "go install x@latest", "go fmt ./...", "go version", "go -C x test", "go work use .", "go build -buildvcs=false ./...", "go test -bench=. -benchmem ./x",
		"gcc -O2 -Wall -Wextra -std=c11 -o a a.c -lm", "g++ -std=c++20 -I include -fPIC -shared -o a.so a.cc", "gcc -c -g -MMD -MP a.c", "cc -Wl,-rpath,/x -Wl,--as-needed a.c", "nm -D a.so", "objdump -d a", "readelf -h a", "ar rcs a.a a.o", "strip a", "clang -fsanitize=address a.c",
		"curl -fsSL https://x.test", "curl -sS -X POST -H a:b -d x https://x.test", "curl -s -o /dev/null -w %{http_code} http://localhost", "curl -I https://x.test", "curl --max-time 5 -k https://x.test", "wget -q -O a https://x.test", "ssh h ls -la", "ssh -p 22 -i k u@h uptime", "scp -r a h:b", "rsync -avz --delete --exclude x a b", "nc -z localhost 80",
		"env FOO=1 ls", "timeout 10s ls", "nice -n 5 ls", "bash -lc ls", "sh -ec ls", "bash -o pipefail -c ls", "openssl rand -hex 16", "openssl x509 -in c -noout -text", "openssl req -x509 -newkey rsa:2048 -nodes -keyout k -out c -days 1 -subj /CN=x", "openssl s_client -connect h:443 -servername h", "gpg --verify a.sig a", "gpg --list-keys", "zip -r a.zip b", "unzip -o a.zip -d b", "gzip -k a", "base64 -d a", "xxd -l 16 a", "less -R a", "cat -n a", "tee -a a", "touch -d yesterday a", "man ls", "ip addr show", "strace -f -e trace=open ls",
	} {
		if argv := strings.Fields(line); !determined(argv...) {
			t.Errorf("%s: %s", line, command.Actions(argv, free, "/ws"))
		}
	}
}

// A command with options before its subcommand is decided at least as strictly as without.
func TestOptionsBeforeASubcommand(t *testing.T) {
	patterns := func(sub string) []*command.Pattern {
		return []*command.Pattern{pattern(t, sub+" **"), pattern(t, sub), pattern(t, sub+" * **")}
	}
	for _, tt := range []struct{ program, sub string }{
		{"git", "push"}, {"git", "remote add"}, {"npm", "publish"}, {"pnpm", "publish"}, {"yarn", "publish"}, {"docker", "rm"}, {"docker", "push"}, {"podman", "run"}, {"kubectl", "delete"}, {"helm", "uninstall"}, {"terraform", "destroy"}, {"tofu", "apply"},
		{"cargo", "publish"}, {"gh", "pr merge"}, {"aws", "s3 rm"}, {"gcloud", "compute instances"}, {"systemctl", "stop"}, {"pip", "install"}, {"apt-get", "install"}, {"hg", "push"}, {"go", "run"},
	} {
		deny := patterns(tt.program + " " + tt.sub)
		for _, option := range append(command.Globals(tt.program), "--remit-unknown", "--remit-unknown x") {
			plain := append([]string{tt.program}, append(strings.Fields(tt.sub), "a")...)
			given := append(append([]string{tt.program}, strings.Fields(option)...), plain[1:]...)
			for _, p := range deny {
				if (p.MatchAsk(cmd(plain...), trusted) && !p.MatchAsk(cmd(given...), trusted)) || (p.MatchDeny(cmd(plain...), trusted) && !p.MatchDeny(cmd(given...), trusted)) {
					t.Errorf("%q covers %q, and not %q", p, plain, given)
				}
			}
		}
	}
}

func TestFormsOfACommand(t *testing.T) {
	for _, tt := range []struct {
		pattern, line         string
		allow, ask, forbidden bool
	}{
		{"git push **", "git -C . push origin main", true, true, true}, {"git push **", "git --no-pager push", true, true, true}, {"git push **", "git -P push", true, true, true}, {"git push **", "git -c k=v push", false, true, true}, {"git push **", "git --git-dir=x push", false, true, true}, {"git push **", "git --git-dir x push", false, true, true},
		{"git push **", "git -C a -C b -P push x", true, true, true}, {"git push **", "git subtree push --prefix=a o main", false, true, true}, {"git push **", "git -C x send-pack h:r main", false, true, true}, {"git push **", "git --frobnicate push", false, true, true}, {"git push **", "git --frobnicate x push", false, true, true}, {"git push **", "git -C push status", false, false, false},
		{"git push **", "git commit -m push", false, false, false}, {"git push **", "git -c user.name=push commit -m push", false, false, false}, {"git push --force **", "git -C x push origin -f", true, true, true}, {"git status **", "git -C sub status -s", true, true, true}, {"git status **", "git -c core.fsmonitor=x status", false, true, true}, {"git status **", "git --exec-path=x status", false, true, true},
		{"git status **", "git --work-tree=/ status", false, true, true}, {"git -C * **", "git -C x push", true, true, true}, {"git remote add **", "git remote -v add evil u", false, true, true}, {"git remote add **", "git remote add evil u", true, true, true}, {"git **", "git -C x push", true, true, true},
		{"npm publish **", "npm --prefix p publish", true, true, true}, {"npm publish **", "npm --registry=x publish", false, true, true}, {"npm publish **", "npm publi", false, true, true}, {"npm publish **", "npm -- publish", false, true, true}, {"npm install **", "npm --prefix x i y", false, true, true}, {"npm test **", "npm --prefix x run build", false, false, false},
		{"terraform destroy **", "terraform -chdir=prod destroy -auto-approve", true, true, true}, {"terraform destroy **", "terraform apply -destroy=true -auto-approve", false, true, true}, {"tofu destroy **", "tofu -chdir=x apply --destroy=T", false, true, true}, {"terraform destroy **", "terraform apply -destroy=false", false, false, false}, {"terraform destroy **", "terraform apply -auto-approve -var x=1 -destroy", false, true, true}, {"terraform destroy **", "terraform apply -auto-approve --destroy=1 plan", false, true, true}, {"terragrunt destroy **", "terragrunt run-all destroy", false, true, true}, {"kubectl delete **", "kubectl -n x delete pod y", false, true, true}, {"kubectl delete **", "kubectl --context=x -n y delete pod z", false, true, true}, {"kubectl delete **", "kubectl get pods -n delete", false, false, false}, {"kubectl get **", "kubectl --kubeconfig x get pods", false, true, true},
		{"docker rm **", "docker --context x rm y", false, true, true}, {"docker rm **", "docker -H tcp://x container rm y", false, true, true}, {"docker push **", "docker image push x", false, true, true}, {"docker rm **", "docker run rm", false, false, false}, {"/usr/bin/git push **", "/usr/bin/git -C x push", true, true, true}, {"* push **", "git -C x push", true, true, true},
	} {
		p, a := pattern(t, tt.pattern), cmd(strings.Fields(tt.line)...)
		if allow, ask, deny := p.Match(a, trusted), p.MatchAsk(a, trusted), p.MatchDeny(a, trusted); allow != tt.allow || ask != tt.ask || deny != tt.forbidden {
			t.Errorf("%q on %q: allow %v, ask %v, deny %v", tt.pattern, tt.line, allow, ask, deny)
		}
	}
}

// What is said of two patterns holds in all forms of a command.
func TestProofsOfPatternsWithForms(t *testing.T) {
	texts := rapid.SampledFrom([]string{"git **", "git push **", "git -C * **", "git -C x push **", "git subtree push **", "git subtree **", "git send-pack *", "git status", "git * x", "git remote add **", "git remote **", "git push -f **", "npm publish **", "npm i **", "npm install **", "npm -s **", "** x **"})
	words := rapid.SliceOfN(rapid.SampledFrom([]string{"-C", "x", "-P", "push", "subtree", "status", "remote", "add", "-v", "send-pack", "-c", "publish", "publi", "i", "install", "-s", "--", "-f", "$", "--odd"}), 0, 6)
	rapid.Check(t, func(t *rapid.T) {
		p, q := command.MustParse(texts.Draw(t, "one")), command.MustParse(texts.Draw(t, "other"))
		a := cmd(append([]string{rapid.SampledFrom([]string{"git", "npm"}).Draw(t, "program")}, words.Draw(t, "words")...)...)
		for i, w := range a.Argv {
			if w == "$" {
				a.Argv[i] = command.NonLiteral
			}
		}
		if q.Match(a, trusted) && !p.Match(a, trusted) && p.Includes(q) {
			t.Fatalf("%q is said to include %q, and only the latter matches %q", p, q, a.Argv)
		}
		if p.MatchAsk(a, trusted) && q.MatchAsk(a, trusted) && p.Apart(q) {
			t.Fatalf("%q and %q are said to be apart, and both match %q", p, q, a.Argv)
		}
		if p.Match(a, trusted) && !p.MatchAsk(a, trusted) || p.MatchAsk(a, trusted) && !p.MatchDeny(a, trusted) {
			t.Fatalf("%q: an entry of allow matches %q, and a stricter one does not", p, a.Argv)
		}
	})
}
