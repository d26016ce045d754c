//go:build linux && (amd64 || arm64)

package remote_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/changeset"
	"github.com/remitrun/remit/internal/confine/egress"
	"github.com/remitrun/remit/internal/confine/remote"
	"github.com/remitrun/remit/internal/confine/remote/worker"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

// world is a node with a workspace, and a worker on another folder of this machine.
type world struct {
	*testing.T

	work, far string // the workspace, and the worker's folder
	hub       *remote.Hub
	box       *linux.Box
	conn      net.Conn // the node's end
	secrets   map[string]string
	roots     *x509.CertPool // of servers outside; nil: the system's
	permit    permit.Permit
	set       *changeset.Set
	hold      *changeset.Hold
	key       ed25519.PrivateKey
}

const remotePolicy = `
version: 1
name: far
where: remote
files:
  read:  {allow: ["**"], deny: ["**/*.secret"]}
  write: {allow: ["out/**", "src/**"]}
commands: {allow: ["**", "./tool.sh"], timeout: 30s}
`

func newWorld(t *testing.T, files map[string]string) *world {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	w := &world{T: t, work: filepath.Join(dir, "work"), far: filepath.Join(dir, "far"), secrets: map[string]string{}}
	for name, text := range files {
		p := filepath.Join(w.work, name)
		must(t, os.MkdirAll(filepath.Dir(p), 0o755))
		mode := os.FileMode(0o644)
		if strings.HasSuffix(name, ".sh") {
			mode = 0o755
		}
		must(t, os.WriteFile(p, []byte(text), mode))
	}
	w.box = linux.New(linux.Config{})
	t.Cleanup(func() { must(t, w.box.Close()) })
	_, w.key, err = ed25519.GenerateKey(nil)
	must(t, err)
	w.hub = remote.New(remote.Config{
		Key: w.key, Node: "n1", Overlay: w.box.Overlay,
		Egress: func(p permit.Permit, c sandbox.Command) (sandbox.Proxy, error) {
			return egress.New(egress.Options{Permit: p, TrustFile: sandbox.TrustFile, RootCAs: w.roots, Secret: func(key string) (string, bool) {
				v, ok := w.secrets[key]
				return v, ok
			}}), nil
		},
		Leaf: func(context.Context, uint64) (string, tool.Digest, error) { return "ledger", tool.Digest{9}, nil },
	})
	w.join("far-1", "gpu")
	return w
}

// join connects a worker.
func (w *world) join(name string, labels ...string) {
	w.Helper()
	pub, key, err := ed25519.GenerateKey(nil)
	must(w.T, err)
	far, err := worker.New(worker.Config{Dir: w.far, Key: key, Node: w.key.Public().(ed25519.PublicKey)})
	must(w.T, err)
	var there net.Conn
	w.conn, there = tcpPair(w.T)
	ended := make(chan struct{}, 2)
	go func() { far.Serve(w.Context(), there); ended <- struct{}{} }()
	go func() {
		w.hub.Attach(w.Context(), w.conn, remote.Identity{Name: name, Key: pub, Labels: labels})
		ended <- struct{}{}
	}()
	w.Cleanup(func() {
		_ = w.conn.Close()
		<-ended
		<-ended
		must(w.T, far.Close())
	})
	for len(w.hub.Workers()) == 0 {
		time.Sleep(time.Millisecond)
	}
}

// tcpPair is a connection of this machine with itself.
func tcpPair(t testing.TB) (here, there net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	there, err = net.Dial("tcp", l.Addr().String())
	must(t, err)
	here, err = l.Accept()
	must(t, err)
	_ = l.Close() // it took the only one
	return here, there
}

// dialed gives a connection that is there.
func dialed(conn net.Conn) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) { return conn, nil }
}

// start begins a held run under a policy.
func (w *world) start(src string) {
	w.Helper()
	p, err := policy.Parse("far.yaml", []byte(src))
	must(w.T, err)
	r, err := p.Bind(policy.Env{Workspace: w.work, Path: []string{"/usr/local/bin", "/usr/bin", "/bin"}})
	must(w.T, err)
	chain := policy.Chain{r}
	run := uuid.NewString()
	w.set, err = changeset.In(filepath.Join(filepath.Dir(w.work), "home")).Begin(run, w.work)
	must(w.T, err)
	w.hold = w.set.Hold(w.box.Overlay)
	w.hold.Bound(10 << 20)
	hold := w.hold
	w.Cleanup(hold.Close)
	w.permit = permit.Mint(permit.Terms{Chain: chain, Limits: chain.Limits(), Env: chain.Limits().ToolEnv(w.work, ""), Held: w.hold, Tool: "shell.run",
		Call: tool.Digest{1}, Intent: permit.Intent{Run: run, Call: 1, Seq: 5, Tool: tool.Digest{2}}})
}

// sh runs a script on the worker.
func (w *world) sh(script string) (sandbox.Outcome, error) {
	w.Helper()
	return w.hub.Run(w.Context(), w.permit, sandbox.Command{Argv: []string{"/bin/sh", "-c", script}, Shell: true, Dir: w.work})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// upper lists what the held layer of the node has.
func (w *world) changes() map[string]changeset.Change {
	w.Helper()
	w.hold.Close()
	list, err := w.set.Review(w.Context(), func(string, changeset.Use) error { return nil })
	must(w.T, err)
	out := map[string]changeset.Change{}
	for _, c := range list {
		out[c.Path] = c
	}
	return out
}

func TestACommandRunsOnAWorkerAndItsWritesAreHeldHere(t *testing.T) {
	w := newWorld(t, map[string]string{"src/a.txt": "alpha\n", "src/gone.txt": "x", "out/keep": "", "tool.sh": "#!/bin/sh\necho tool > out/tool\n", "deep/er/b.txt": "beta"})
	must(t, os.Symlink("a.txt", filepath.Join(w.work, "src/link")))
	w.start(remotePolicy)
	out, err := w.sh("pwd; cat src/a.txt src/link deep/er/b.txt; echo more >> src/a.txt; rm src/gone.txt; mkdir out/new; echo made > out/new/f; chmod 700 out/new/f; ln -s f out/new/l; ./tool.sh; echo oops >&2; exit 3")
	must(t, err)
	if want := w.work + "\nalpha\nalpha\nbeta"; string(out.Stdout.Data) != want || string(out.Stderr.Data) != "oops\n" || out.ExitCode != 3 || out.Place != "worker far-1" {
		t.Errorf("got %q, %q, %d, %q", out.Stdout.Data, out.Stderr.Data, out.ExitCode, out.Place)
	}
	if b, err := os.ReadFile(filepath.Join(w.work, "src/a.txt")); string(b) != "alpha\n" || err != nil {
		t.Errorf("the workspace itself was written: %q, %v", b, err)
	}
	got := w.changes()
	for p, kind := range map[string]changeset.Kind{"src/a.txt": changeset.Modified, "src/gone.txt": changeset.Deleted, "out/new": changeset.Added, "out/new/f": changeset.Added, "out/new/l": changeset.Added, "out/tool": changeset.Added} {
		if got[p].Kind != kind {
			t.Errorf("%s is %q, want %q", p, got[p].Kind, kind)
		}
		delete(got, p)
	}
	if len(got) > 0 {
		t.Errorf("further changes: %v", got)
	}
	list, _ := w.permit.Happened()
	if !slices.ContainsFunc(list, func(h tool.Happened) bool { return h.Effect == tool.SystemExec && h.Place == "worker far-1" }) {
		t.Errorf("the record does not say where it ran: %v", list)
	}
}

func TestOnlyWhatMayBeReadIsSent(t *testing.T) {
	w := newWorld(t, map[string]string{"a.txt": "yes", "x.secret": "canary-4711", ".env": "canary-4711", "sub/y.secret": "canary-4711"})
	must(t, os.Symlink("/etc/passwd", filepath.Join(w.work, "out-link")))
	w.start(remotePolicy)
	out, err := w.sh("find . | sort; cat x.secret .env; cat " + filepath.Join(w.work, "x.secret"))
	must(t, err)
	if got := string(out.Stdout.Data); got != ".\n./a.txt\n./sub\n" {
		t.Errorf("the command saw %q", got)
	}
	if len(out.Notes) == 0 || !strings.Contains(strings.Join(out.Notes, " "), "out-link") {
		t.Errorf("the link that leads out is not told: %q", out.Notes)
	}
	canaryFree(t, w.far)
}

// canaryFree fails if the worker's folder has the canary anywhere.
func canaryFree(t *testing.T, dir string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the worker is tidying up
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(p)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if bytes.Contains(b, []byte("canary-4711")) {
			t.Errorf("the worker has the canary in %s", p)
		}
		return err
	}))
}

func TestTheWorkersSandboxKeepsThePolicies(t *testing.T) {
	w := newWorld(t, map[string]string{"a.txt": "yes", "out/k": "", "ro/b.txt": "b"})
	w.start(remotePolicy)
	out, err := w.sh("echo x > ro/b.txt; echo x > new.txt; ls " + w.far + " /root 2>&1; cat /proc/1/environ; echo fine > out/ok")
	must(t, err)
	if s := string(out.Stdout.Data); strings.Contains(s, "blobs") || strings.Contains(s, "used") {
		t.Errorf("the command sees the worker's folder: %q", s)
	}
	if got := w.changes(); len(got) != 1 || got["out/ok"].Kind != changeset.Added {
		t.Errorf("got %v", got)
	}
}

func TestALostWorkerLeavesAnUnknownOutcome(t *testing.T) {
	w := newWorld(t, map[string]string{"out/k": ""})
	w.start(remotePolicy)
	go func() {
		whenRunning("60.4712")
		_ = w.conn.Close()
	}()
	began := time.Now()
	_, err := w.sh("echo begun > out/begun; sleep 60.4712")
	if !errors.Is(err, fault.Interrupted) || !strings.Contains(err.Error(), "may or may not") {
		t.Errorf("got %v", err)
	}
	if d := time.Since(began); d > 40*time.Second {
		t.Errorf("it took %s to notice", d)
	}
	if got := w.changes(); len(got) != 0 {
		t.Errorf("changes of a lost worker were taken over: %v", got)
	}
	if err := w.hub.Available(w.permit.Chain().Placement(), sandbox.Command{}); !errors.Is(err, fault.SandboxMissing) {
		t.Errorf("a lost worker is available: %v", err)
	}
}

func TestACallIsCancelledOnItsWorker(t *testing.T) {
	w := newWorld(t, map[string]string{"out/k": ""})
	w.start(remotePolicy)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		whenRunning("61.4711")
		cancel()
	}()
	_, err := w.hub.Run(ctx, w.permit, sandbox.Command{Argv: []string{"sleep", "61.4711"}, Dir: w.work})
	if !errors.Is(err, fault.ToolCancelled) {
		t.Errorf("got %v", err)
	}
	for deadline := time.Now().Add(40 * time.Second); running("61.4711"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the command goes on")
		}
	}
}

// whenRunning waits for a process of this machine with an argument.
func whenRunning(arg string) {
	for deadline := time.Now().Add(40 * time.Second); !running(arg) && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
}

// running reports whether a process of this machine has an argument.
func running(arg string) bool {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is valid
	return slices.ContainsFunc(all, func(p string) bool {
		b, err := os.ReadFile(p)
		return err == nil && bytes.Contains(b, []byte(arg))
	})
}

func TestWhatMayNotLeaveThisMachineIsRefused(t *testing.T) {
	w := newWorld(t, map[string]string{"out/k": ""})
	w.start(remotePolicy + "secrets: [{name: deploy, tools: [shell.run], env: DEPLOY_KEY}]\n")
	if _, err := w.sh("true"); !errors.Is(err, fault.HandleRefused) || !strings.Contains(err.Error(), "never sent to a worker") {
		t.Errorf("a secret in a variable: %v", err)
	}
	w.start(strings.Replace(remotePolicy, "where: remote", "where: local", 1))
	if _, err := w.sh("true"); !errors.Is(err, fault.HandleRefused) {
		t.Errorf("a policy of where: local: %v", err)
	}
	w.start(strings.Replace(remotePolicy, "where: remote", "where: remote\nlabels: [eu]", 1))
	if _, err := w.sh("true"); !errors.Is(err, fault.SandboxMissing) || !strings.Contains(err.Error(), "labels eu") {
		t.Errorf("a label that no worker has: %v", err)
	}
	w.start(remotePolicy)
	if _, err := w.hub.Run(t.Context(), w.permit, sandbox.Command{Argv: []string{"true"}, Dir: w.work, Observe: true}); !errors.Is(err, fault.SandboxMissing) {
		t.Errorf("an observed command: %v", err)
	}
}

func TestTheNodeDecidesConnectionsAndAddsSecrets(t *testing.T) {
	var got atomic.Value
	site := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		got.Store(r.Header.Get("Authorization"))
		_, _ = io.WriteString(rw, "answer")
	}))
	defer site.Close()
	w := newWorld(t, map[string]string{"out/k": ""})
	w.roots = x509.NewCertPool()
	w.roots.AddCert(site.Certificate())
	w.secrets["CANARY"] = "canary-4711"
	w.start(remotePolicy + "network:\n  allow:\n    - {url: \"GET " + site.URL + "/ok\", secret: {header: Authorization, env: CANARY, prefix: \"Bearer \"}}\n")
	out, err := w.sh("curl -s " + site.URL + "/ok; curl -s -o /dev/null -w ' %{http_code}' " + site.URL + "/other; env; cat /proc/*/environ")
	must(t, err)
	if s := string(out.Stdout.Data); !strings.HasPrefix(s, "answer 403") || strings.Contains(s, "canary-4711") {
		t.Errorf("the command got %q", s)
	}
	if got.Load() != "Bearer canary-4711" {
		t.Errorf("the server got %v", got.Load())
	}
	if len(out.Connections) != 2 {
		t.Errorf("the node recorded %v", out.Connections)
	}
	canaryFree(t, w.far)
}
