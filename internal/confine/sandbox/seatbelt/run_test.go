//go:build unix

package seatbelt_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/egress"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/seatbelt"
)

// standIn executes the command as sandbox-exec does, without a sandbox, and refuses what
// sandbox-exec would not understand.
const standIn = `#!/bin/bash
[ "$1" = -p ] && [[ "$2" == "(version 1)"* ]] || { echo "no profile" >&2; exit 65; }
shift 2
while [ "$1" = -D ]; do [[ "$2" == P[0-9]*=/* ]] || exit 65; shift 2; done
exec "$@"
`

type world struct {
	t   *testing.T
	dir string
	box *seatbelt.Box
	p   permit.Permit
}

const runPolicy = "commands: {allow: ['**'], env: [GIVEN]}\nfiles: {read: {allow: ['**']}, write: {allow: ['out/**']}}\n"

func newWorld(t *testing.T, program, src string) *world {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	at := filepath.Join(t.TempDir(), "sandbox-exec")
	must(t, os.WriteFile(at, []byte(program), 0o755))
	pol, err := policy.Parse("test.yaml", []byte("version: 1\nname: test\n"+src))
	must(t, err)
	rules, err := pol.Bind(policy.Env{Workspace: dir, Path: []string{"/usr/local/bin", "/usr/bin", "/bin"}})
	must(t, err)
	chain := policy.Chain{rules}
	w := &world{t: t, dir: dir, p: permit.Mint(permit.Terms{Chain: chain, Limits: chain.Limits(), Env: tool.Env{Workspace: dir}})}
	w.box = seatbelt.New(seatbelt.Config{Program: at, State: filepath.Join(dir, "state"), Getenv: func(name string) (string, bool) { return "value", name == "GIVEN" || name == "HIDDEN" },
		Egress: func(p permit.Permit, c sandbox.Command) (sandbox.Proxy, error) {
			return egress.New(egress.Options{Permit: p, TrustFile: sandbox.TrustFile, Notice: c.Notice}), nil
		}})
	return w
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) sh(script string, change func(*sandbox.Command)) (sandbox.Outcome, error) {
	c := sandbox.Command{Argv: []string{sandbox.Bash, "-c", script}, Shell: true, Dir: w.dir, Timeout: time.Minute}
	if change != nil {
		change(&c)
	}
	return w.box.Run(context.Background(), w.p, c)
}

func TestACommandRuns(t *testing.T) {
	w := newWorld(t, standIn, "isolation: landlock\n"+runPolicy)
	out, err := w.sh(`echo "$0 $GIVEN$HIDDEN $HOME $TMPDIR"; cat; cat /dev/fd/9 2>/dev/null; echo err >&2; ulimit -n; exit 3`, func(c *sandbox.Command) { c.Stdin = []byte("in\n") })
	must(t, err)
	lines := strings.Split(string(out.Stdout.Data), "\n")
	first := strings.Fields(lines[0])
	if out.ExitCode != 3 || string(out.Stderr.Data) != "err\n" || lines[1] != "in" || out.Isolation != "seatbelt" || len(first) != 4 || first[0] != sandbox.Bash || first[1] != "value" || first[2] != first[3]+"/home" {
		t.Errorf("got %+v\n%s", out, out.Stdout.Data)
	}
	if _, err := os.Stat(first[3]); !os.IsNotExist(err) {
		t.Errorf("the private folder %q is left: %v", first[3], err)
	}
}

func TestNoMoreThanItMay(t *testing.T) {
	w := newWorld(t, standIn, "isolation: landlock\n"+runPolicy)
	out, err := w.sh(`head -c 100000 /dev/zero; sleep 600 & echo $! >&2`, func(c *sandbox.Command) { c.MaxOutput = 10 })
	must(t, err)
	pid, perr := strconv.Atoi(strings.TrimSpace(string(out.Stderr.Data)))
	if len(out.Stdout.Data) != 10 || out.Stdout.Total != 100000 || !out.Stdout.Truncated || perr != nil {
		t.Errorf("got %d bytes of %d, %v", len(out.Stdout.Data), out.Stdout.Total, perr)
	}
	if out.Duration > time.Minute {
		t.Errorf("it took %v", out.Duration)
	}
	if state, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); err == nil && !strings.Contains(string(state), ") Z ") {
		t.Errorf("process %d is left: %s", pid, state)
	}
	out, err = w.sh("sleep 600", func(c *sandbox.Command) { c.Timeout = 50 * time.Millisecond })
	if err != nil || !out.TimedOut || out.Signal != "SIGKILL" {
		t.Errorf("got %+v, %v", out, err)
	}
}

// Without the sandbox nothing has run, and what it said is not a command's output.
func TestASandboxThatDoesNotStart(t *testing.T) {
	w := newWorld(t, "#!/bin/sh\necho 'sandbox-exec: bad profile' >&2\nexit 65\n", "isolation: landlock\n"+runPolicy)
	if _, err := w.sh("true", nil); !errors.Is(err, fault.SandboxMissing) || !strings.Contains(err.Error(), "bad profile") {
		t.Errorf("got %v", err)
	}
}

func TestWhatSeatbeltCannotDoIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		src    string
		change func(*sandbox.Command)
	}{
		"no word of isolation": {runPolicy, nil},
		"full isolation":       {"isolation: full\n" + runPolicy, nil},
		"an image":             {"isolation: landlock\nwhere: [container, local]\nimage: sha256:2f235778d9b631852177b007e0e9c14bb8409f186ef3be0ba53c39c7f8185411\n" + runPolicy, nil},
		"a service":            {"isolation: landlock\n" + runPolicy, func(c *sandbox.Command) { c.Services = []sandbox.Service{{At: "/run/x"}} }},
		"a published port":     {"isolation: landlock\n" + runPolicy, func(c *sandbox.Command) { c.Publish = []sandbox.Port{{Host: 1, Inside: 1}} }},
		"observing":            {"isolation: landlock\n" + runPolicy, func(c *sandbox.Command) { c.Observe = true }},
		"a folder":             {"isolation: landlock\n" + runPolicy, func(c *sandbox.Command) { c.Folder = &sandbox.Folder{} }},
		"a terminal":           {"isolation: landlock\n" + runPolicy, func(c *sandbox.Command) { c.Stdio = &sandbox.Stdio{Terminal: &sandbox.Terminal{}} }},
		"an open proxy":        {"isolation: landlock\n" + runPolicy, func(c *sandbox.Command) { c.Proxy = egress.New(egress.Options{OneProgram: true}) }},
	} {
		w := newWorld(t, standIn, c.src)
		if _, err := w.sh("touch out/ran", c.change); !errors.Is(err, fault.SandboxMissing) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Whoever finds the proxy's port has no way out by it without the command's password.
func TestTheProxyServesItsCommandAlone(t *testing.T) {
	reached := make(chan struct{}, 1)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	w := newWorld(t, standIn, "isolation: landlock\nnetwork: {allow: ['http://"+l.Addr().String()+"']}\n"+runPolicy)
	go func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			reached <- struct{}{}
			_ = conn.Close()
		}
	}()
	defer func() { _ = l.Close() }()
	script := `at=${HTTP_PROXY#*@}; host=${at%:*}; port=${at#*:}; [ "$HTTP_PROXY" != "http://$at" ] || exit 9
for to in "$host" "::1"; do exec 5<>"/dev/tcp/$to/$port" || continue
printf 'GET http://` + l.Addr().String() + `/ HTTP/1.1\r\nHost: ` + l.Addr().String() + `\r\nProxy-Authorization: Basic cmVtaXQ6Z3Vlc3M=\r\nConnection: close\r\n\r\n' >&5; head -n 1 <&5; exec 5>&-; done`
	out, err := w.sh(script, nil)
	must(t, err)
	if !strings.HasPrefix(string(out.Stdout.Data), "HTTP/1.1 407 ") {
		t.Errorf("got %s%s", out.Stdout.Data, out.Stderr.Data)
	}
	if len(out.Connections) == 0 || out.Connections[0].Rule != "credentials" {
		t.Errorf("recorded %+v", out.Connections)
	}
	select {
	case <-reached:
		t.Error("the host was reached")
	default:
	}
}
