//go:build linux && (amd64 || arm64)

package linux_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

const standardPolicy = `
version: 1
name: test
files:
  read:  {allow: ["**"]}
  write: {allow: ["**"]}
commands:
  allow: ["**"]
  path: [/usr/local/go/bin]
  timeout: 5m
  processes: 512
system: standard
`

// What people use every day just works in a standard system.
func TestProgramsJustWork(t *testing.T) {
	if racetest.On() {
		t.Skip("other people's programs: the race detector sees nothing new in them")
	}
	tests := map[string]struct{ needs, script, want string }{
		"git": {"git", `git init -q . && git config user.email a@b.test && git config user.name a && echo x > f &&
			git add f && git commit -qm first && git log --oneline | grep -c first`, "1"},
		"go": {"/usr/local/go/bin/go", `mkdir -p p && cd p && printf 'module p\ngo 1.21\n' > go.mod &&
			printf 'package main\nimport "syscall"\nfunc main(){syscall.Write(1,[]byte("built"))}\n' > m.go && GOTOOLCHAIN=local GOFLAGS=-mod=mod go run .`, "built"},
		"node":   {"node", `node -e 'const fs=require("fs"),os=require("os");fs.writeFileSync("n","x");console.log(os.homedir()+fs.readFileSync("n"))'`, "/tmp/homex"},
		"python": {"python3", `/usr/bin/python3 -c 'import ssl,tempfile,multiprocessing,mimetypes; multiprocessing.Lock(); print(mimetypes.guess_type("a.html")[0])'`, "text/html"},
		"npm":    {"npm", `mkdir -p np && cd np && npm init -y >out 2>&1 && npm pkg set scripts.hi='echo from npm' && npm run -s hi`, "from npm"},
		"npm packs and installs": {"npm", `mkdir -p lib app && cd lib && printf '{"name":"lib","version":"1.0.0"}' > package.json && echo 'module.exports="from lib"' > index.js &&
			npm pack --silent >out && cd ../app && npm init -y >out 2>&1 && npm install --offline --no-audit --no-fund ../lib/lib-1.0.0.tgz >out 2>&1 && node -p 'require("lib")'`, "from lib"},
		"pip installs": {"python3", `/usr/bin/python3 -m venv v >&2 && /usr/bin/python3 -c '
import zipfile
with zipfile.ZipFile("lib-1.0-py3-none-any.whl","w") as z:
    z.writestr("lib.py","said=\"from lib\"\n")
    z.writestr("lib-1.0.dist-info/METADATA","Metadata-Version: 2.1\nName: lib\nVersion: 1.0\n")
    z.writestr("lib-1.0.dist-info/WHEEL","Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    z.writestr("lib-1.0.dist-info/RECORD","")
' && v/bin/pip install -q --no-index ./lib-1.0-py3-none-any.whl >&2 && v/bin/python -c 'import lib; print(lib.said)'`, "from lib"},
		"tmux":       {"tmux", `tmux -L t new -d 'tty > seen; mv seen tmuxed' && for i in $(seq 600); do test -f tmuxed && break; sleep 0.1; done; cat tmuxed`, "/dev/pts/0"},
		"git clones": {"git", `git init -q a && cd a && git -c user.name=a -c user.email=a@b.test commit -q --allow-empty -m one && cd .. && git clone -q a b && git -C b log --format=%s`, "one"},
		"pip":        {"pip3", `/usr/bin/python3 -m pip --version | cut -d' ' -f1`, "pip"},
		"curl to a local server": {"curl", `/usr/bin/python3 -c '
import http.server,threading,subprocess
s=http.server.HTTPServer(("127.0.0.1",0),http.server.SimpleHTTPRequestHandler)
threading.Thread(target=s.serve_forever,daemon=True).start()
print(subprocess.run(["curl","-sS","-o","/tmp/x","-w","%{http_code}","http://localhost:%d/"%s.server_port],capture_output=True,text=True).stdout)'`, "200"},
		"make":         {"make", `printf 'all:\n\t@echo made\n' > Makefile && make -s -j2`, "made"},
		"the locale":   {"locale", `locale charmap`, "UTF-8"},
		"the services": {"getent", `getent services https | cut -d' ' -f1`, "https"},
		"compilers":    {"cc", `printf 'int main(){return 7;}' > c.c && cc c.c -o c && ./c; echo $?`, "7"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(tc.needs); err != nil {
				t.Skipf("NOT TESTED: %v", err)
			}
			w := newWorld(t, standardPolicy)
			w.sh("true")
			out, err := w.box.Run(context.Background(), w.p, sandbox.Command{Argv: []string{"/bin/sh", "-c", tc.script}, Shell: true, Dir: w.dir, Timeout: 5 * time.Minute})
			if err != nil || strings.TrimSpace(string(out.Stdout.Data)) != tc.want {
				t.Errorf("got %q, %v, want %q\n%s", out.Stdout.Data, err, tc.want, out.Stderr.Data)
			}
		})
	}
}

func TestLimitsAreKeptAndNamed(t *testing.T) {
	tests := map[string]struct{ limit, script, want string }{
		"processor time": {"cpu: 1s", "while :; do :; done", "processor time limit 1s reached"},
		"open files":     {"files: 20", `i=3; while [ $i -lt 10 ]; do eval "exec $i</etc/passwd"; i=$((i+1)); done; for n in 10 20 30; do sh -c "ulimit -n"; done; exec /usr/bin/python3 -c 'import os; [os.open("/etc/passwd", 0) for _ in range(30)]'`, ""},
		"disk":           {"disk: 1MiB", "head -c 3000000 /dev/zero > /tmp/x", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, openPolicy+"  "+tc.limit+"\n")
			out := w.sh(tc.script)
			if out.ExitCode == 0 || out.Limit != tc.want {
				t.Errorf("got %+v, want %q", out, tc.want)
			}
		})
	}
}
