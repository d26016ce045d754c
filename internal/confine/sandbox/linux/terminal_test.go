//go:build linux && (amd64 || arm64)

package linux_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/confine/sandbox"
)

// reply is what is typed once something is seen.
type reply struct{ seen, typed string }

// onTerminal runs a script on a terminal and gives what was seen there.
func (w *world) onTerminal(script string, replies ...reply) string {
	w.t.Helper()
	seen := make(chan string, 1)
	stdio := &sandbox.Stdio{Terminal: &sandbox.Terminal{Columns: 93, Rows: 31, Opened: func(f *os.File) {
		must(w.t, f.SetDeadline(time.Now().Add(time.Minute)))
		go func() {
			defer func() { _ = f.Close() }()
			var all strings.Builder
			for buf := make([]byte, 4096); ; {
				for len(replies) > 0 && strings.Contains(all.String(), replies[0].seen) {
					_, _ = f.WriteString(replies[0].typed) // what is missing is missed in the answer
					replies = replies[1:]
				}
				n, err := f.Read(buf)
				all.Write(buf[:n])
				if err != nil { // the command is gone
					seen <- all.String()
					return
				}
			}
		}()
	}}}
	out, err := w.run(sandbox.Command{Argv: []string{"/bin/sh", "-c", script}, Shell: true, Timeout: time.Minute, Stdio: stdio})
	if err != nil || out.ExitCode != 0 {
		w.t.Errorf("got exit %d, %v, %s", out.ExitCode, err, <-seen)
		return ""
	}
	return <-seen
}

func TestACommandOnATerminal(t *testing.T) {
	w := newWorld(t, openPolicy)
	w.sh("true")
	tests := map[string]struct {
		needs, script string
		replies       []reply
		want          string
	}{
		"its name":                {"tty", "tty", nil, "/dev/pts/0\r\n"},
		"its size":                {"stty", "stty size", nil, "31 93\r\n"},
		"what is typed":           {"cat", "read x; echo got:$x", []reply{{"", "hello\n"}}, "got:hello"},
		"the controlling one":     {"sh", "read x </dev/tty; echo re''ply:$x >/dev/tty", []reply{{"", "hello\n"}}, "reply:hello"},
		"another one beside it":   {"script", "script -qc tty /dev/null", nil, "/dev/pts/1"},
		"the host's is not there": {"ls", "ls /dev/pts | tr '\\n' .", nil, "0.ptmx."},
		"a question of git's": {"git", "git credential fill <<E\nprotocol=https\nhost=h.test\nE\n",
			[]reply{{"Username", "me\n"}, {"Password", "pw\n"}}, "password=pw"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(tc.needs); err != nil {
				t.Skipf("NOT TESTED: %v", err)
			}
			w := &world{t: t, dir: w.dir, box: w.box, p: w.p}
			if got := w.onTerminal(tc.script, tc.replies...); !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// Without a terminal of its own a command can still make some.
func TestTerminalsInside(t *testing.T) {
	w := newWorld(t, openPolicy)
	tests := map[string]struct{ needs, script, want string }{
		"script":             {"script", "script -qc 'tty; stty size' /dev/null </dev/null | tr -d '\\r' | head -1", "/dev/pts/0\n"},
		"python":             {"python3", `python3 -c 'import pty; pty.spawn(["tty"])' </dev/null | tr -d '\r'`, "/dev/pts/0\n"},
		"no controlling one": {"sh", "(: </dev/tty) 2>/dev/null && echo there || echo none", "none\n"},
		"not without bound": {"python3", `exec python3 -c '
import pty
n=[]
try:
    while len(n) < 100: n.append(pty.openpty())
except OSError: print(len(n))'`, "32\n"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(tc.needs); err != nil {
				t.Skipf("NOT TESTED: %v", err)
			}
			w := &world{t: t, dir: w.dir, box: w.box, p: w.p}
			if out := w.sh(tc.script); string(out.Stdout.Data) != tc.want {
				t.Errorf("got %q, %q, want %q", out.Stdout.Data, out.Stderr.Data, tc.want)
			}
		})
	}
}

// Where no sandbox can be made, nobody is told of a terminal, and nothing waits.
func TestATerminalWithoutASandbox(t *testing.T) {
	w := newWorld(t, openPolicy)
	w.sh("true")
	opened := false
	stdio := &sandbox.Stdio{Terminal: &sandbox.Terminal{Opened: func(f *os.File) { opened = true; _ = f.Close() }}}
	if _, err := w.run(sandbox.Command{Argv: []string{"no-such-command"}, Stdio: stdio}); err == nil || opened {
		t.Errorf("got %v, opened %v", err, opened)
	}
}
