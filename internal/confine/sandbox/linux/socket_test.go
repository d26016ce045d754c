//go:build linux && (amd64 || arm64)

package linux_test

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/egress"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

// hostSocket serves a socket of the host. It answers each connection with its name and what it
// got, and tells how many descriptors came with that.
func hostSocket(t *testing.T, at string) (descriptors func() int) {
	t.Helper()
	l, err := net.Listen("unix", at)
	must(t, err)
	fds := make(chan int, 100)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			buf, oob := make([]byte, 100), make([]byte, 100)
			n, m, _, _, err := c.(*net.UnixConn).ReadMsgUnix(buf, oob)
			if err == nil && n > 0 {
				msgs, _ := unix.ParseSocketControlMessage(oob[:m])
				fds <- len(msgs)
				_, _ = c.Write([]byte(filepath.Base(at) + " got " + string(buf[:n])))
			}
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { must(t, l.Close()); <-ended })
	return func() int {
		n := 0
		for len(fds) > 0 {
			n += <-fds
		}
		return n
	}
}

// socketWorld is a world whose commands have the real proxy.
func socketWorld(t *testing.T, sources ...string) (w *world, connections func() []sandbox.Connection) {
	t.Helper()
	w = newWorld(t, openPolicy)
	w.allow(sources...)
	var made *egress.Proxy
	w.box = linux.New(linux.Config{Egress: func(p permit.Permit, _ sandbox.Command) (sandbox.Proxy, error) {
		made = egress.New(egress.Options{Permit: p})
		return made, nil
	}})
	t.Cleanup(func() { must(t, w.box.Close()) })
	return w, func() []sandbox.Connection { return made.Connections() }
}

func allowSocket(at ...string) string {
	return openPolicy + `network: {allow: ["unix:` + strings.Join(at, `", "unix:`) + "\"]}\n"
}

// A socket that the policy names is reached through the proxy, which records it; bytes pass and
// descriptors do not. Every other socket stays out of reach.
func TestEscapeNamedSockets(t *testing.T) {
	w, connections := socketWorld(t, openPolicy)
	outside, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	inside, beside, named := filepath.Join(w.dir, "inside.sock"), filepath.Join(w.dir, "beside.sock"), filepath.Join(outside, "named.sock")
	other, linked := filepath.Join(outside, "other.sock"), filepath.Join(w.dir, "linked.sock")
	descriptors := 0
	for _, at := range []string{inside, beside, named, other} {
		got := hostSocket(t, at)
		defer func() {
			if descriptors += got(); descriptors > 0 {
				t.Errorf("%d descriptors came out of the sandbox", descriptors)
			}
		}()
	}
	must(t, os.Symlink(other, linked))
	file := w.file("file.sock", "text")
	exe, err := os.Executable()
	must(t, err)
	all := allowSocket(inside, named, linked, file, filepath.Join(w.dir, "gone.sock"))
	for name, tt := range map[string]struct {
		policies []string
		at       string
		reached  bool
		record   string // the reason of the refusal that the proxy records; "": it was not asked
	}{
		"named, in the workspace":           {[]string{all}, inside, true, ""},
		"named, in a folder out of sight":   {[]string{all}, named, true, ""},
		"not named, beside a named one":     {[]string{all}, beside, false, ""},
		"not named, in the same folder":     {[]string{all}, other, false, ""},
		"a link to another socket":          {[]string{all}, linked, false, ""},
		"a file":                            {[]string{all}, file, false, ""},
		"not there":                         {[]string{all}, filepath.Join(w.dir, "gone.sock"), false, ""},
		"named by one policy of two":        {[]string{all, allowSocket(named)}, inside, false, ""},
		"named by both":                     {[]string{all, allowSocket(inside)}, inside, true, ""},
		"allowed and denied":                {[]string{strings.Replace(all, "network: {", "network: {deny: [\"unix:"+inside+"\"], ", 1)}, inside, false, ""},
		"every host is allowed":             {[]string{openPolicy + "network: {allow: [\"*\", \"http://*\"]}\n"}, inside, false, ""},
		"the socket's policy has a session": {[]string{all + "sandbox: {tier: session}\n"}, inside, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w.allow(tt.policies...)
			out, err := w.run(sandbox.Command{Argv: []string{exe, "probe", "say", tt.at}, Timeout: time.Minute})
			must(t, err)
			got := string(out.Stdout.Data)
			if reached := strings.HasPrefix(got, filepath.Base(tt.at)+" got hello"); reached != tt.reached {
				t.Fatalf("reached %v, want %v: %q %s", reached, tt.reached, got, out.Stderr.Data)
			}
			list := connections()
			if !tt.reached {
				if len(list) > 0 {
					t.Errorf("connections: %+v", list)
				}
				return
			}
			if len(list) != 1 || list[0].Target() != "unix:"+tt.at || list[0].Refused() || list[0].Out != 5 || list[0].In == 0 || !strings.Contains(list[0].Rule, "network.allow") {
				t.Errorf("connections: %+v", list)
			}
			// The connection and the command end at about the same time.
			reaching := func(h tool.Happened) bool { return h.On == "unix:"+tt.at }
			if list, more := w.p.Happened(); len(list) != 2 || more != 0 || !slices.ContainsFunc(list, reaching) {
				t.Errorf("what happened: %+v", list)
			}
		})
	}
}

// What stands at the path on the host when a connection is made is what counts: a link that was
// put there after the start leads nowhere, and the refusal is recorded.
func TestEscapeSwappedSocket(t *testing.T) {
	w, connections := socketWorld(t, openPolicy)
	outside, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	at, other := filepath.Join(outside, "named.sock"), filepath.Join(w.dir, "other.sock")
	hostSocket(t, other)
	l, err := net.Listen("unix", at)
	must(t, err)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	must(t, l.Close())
	w.allow(allowSocket(at))
	exe, err := os.Executable()
	must(t, err)
	go func() { // once the command has begun
		for {
			if _, err := os.Stat(filepath.Join(w.dir, "out", "begun")); err == nil {
				break
			}
		}
		_ = os.Remove(at)
		_ = os.Symlink(other, at)
		_ = os.WriteFile(filepath.Join(w.dir, "out", "swapped"), nil, 0o644)
	}()
	out, err := w.run(sandbox.Command{Argv: []string{exe, "probe", "saylate", at}, Timeout: time.Minute})
	must(t, err)
	if strings.Contains(string(out.Stdout.Data), "got hello") {
		t.Errorf("the other socket was reached: %s", out.Stdout.Data)
	}
	if list := connections(); len(list) != 1 || !list[0].Refused() || !strings.Contains(list[0].Reason, "a link leads to the socket") {
		t.Errorf("connections: %+v; %s", list, out.Stderr.Data)
	}
}
