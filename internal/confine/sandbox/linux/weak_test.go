//go:build linux && (amd64 || arm64)

package linux_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

// weaker is a world on a machine that lacks something, with a policy that takes
// less than full isolation.
func weaker(t *testing.T, src, isolation string, lacking linux.Lacking) *world {
	t.Helper()
	w := newWorld(t, src+"isolation: "+isolation+"\n")
	exe, err := os.Executable()
	must(t, err)
	for _, dir := range []string{w.dir, filepath.Dir(exe)} {
		for ; dir != "/"; dir = filepath.Dir(dir) { // for the unprivileged user
			if st, err := os.Stat(dir); err == nil && st.Mode()&0o5 != 0o5 && os.Getuid() == 0 {
				must(t, os.Chmod(dir, st.Mode()|0o5))
			}
		}
	}
	must(t, os.Chmod(filepath.Join(w.dir, "out"), 0o777))
	w.box = linux.New(linux.Config{Getenv: os.LookupEnv, Lacking: lacking})
	t.Cleanup(func() { must(t, w.box.Close()) })
	return w
}

func TestTheStrongestIsolationIsUsedOrTheCommandRefused(t *testing.T) {
	const ns, both = linux.NoNamespaces, linux.NoNamespaces | linux.NoLandlock
	tests := map[string]struct {
		policy  string
		lacking linux.Lacking
		want    string // "": refused
	}{
		"full asked, all there":              {"full", 0, "full"},
		"landlock asked, all there":          {"landlock", 0, "full"},
		"none asked, all there":              {"none", 0, "full"},
		"full asked, no namespaces":          {"full", ns, ""},
		"landlock asked, no namespaces":      {"landlock", ns, "landlock"},
		"none asked, no namespaces":          {"none", ns, "landlock"},
		"full asked, nothing there":          {"full", both, ""},
		"landlock asked, nothing there":      {"landlock", both, ""},
		"none asked, nothing there":          {"none", both, "none"},
		"full asked, no Landlock":            {"full", linux.NoLandlock, ""},
		"landlock asked, namespaces but not": {"landlock", linux.NoLandlock, ""},
	}
	newWorld(t, openPolicy).sh("true") // skips where nothing can be confined
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := weaker(t, openPolicy, tc.policy, tc.lacking)
			out, err := w.box.Run(context.Background(), w.p, sandbox.Command{Argv: []string{"/bin/sh", "-c", ": > out/ran"}, Shell: true, Dir: w.dir})
			_, ran := os.Stat(filepath.Join(w.dir, "out/ran"))
			if tc.want == "" {
				if !errors.Is(err, fault.SandboxMissing) || ran == nil {
					t.Errorf("got %+v, %v, ran: %v", out, err, ran == nil)
				}
				return
			}
			if err != nil || out.Isolation != tc.want || out.ExitCode != 0 || ran != nil {
				t.Errorf("got %+v %s, %v, ran: %v", out, out.Stderr.Data, err, ran == nil)
			}
			if said := strings.Contains(strings.Join(out.Notes, "\n"), "isolation is "+tc.want); said != (tc.want != "full") {
				t.Errorf("notes: %q", out.Notes)
			}
		})
	}
}

// What Landlock alone must keep in.
func TestEscapesFromLandlock(t *testing.T) {
	racetest.Skip(t, oneByOne)
	newWorld(t, openPolicy).sh("true")
	w := weaker(t, denyingPolicy, "landlock", linux.NoNamespaces)
	outside, err := os.MkdirTemp("/tmp", "remit-outside-")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(outside)) })
	must(t, os.Chmod(outside, 0o777))
	canary := filepath.Join(outside, "canary")
	must(t, os.WriteFile(canary, []byte("canary"), 0o666))
	must(t, os.Chmod(canary, 0o666))
	must(t, os.Symlink(canary, filepath.Join(w.dir, "link")))
	for name, content := range map[string]string{"a.bak": "secret", "sub/b.bak": "secret", "private/c": "secret", "plain": "plain", "out/keep.txt": "kept"} {
		must(t, os.Chmod(w.file(name, content), 0o666))
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { must(t, tcp.Close()) }()
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	defer func() { must(t, udp.Close()) }()
	socket, err := net.Listen("unix", filepath.Join(outside, "host.sock"))
	must(t, err)
	defer func() { must(t, socket.Close()) }()
	const key = 0x7e318
	shm, err := unix.SysvShmGet(key, 4096, unix.IPC_CREAT|0o666)
	must(t, err)
	t.Cleanup(func() { _, _ = unix.SysvShmCtl(shm, unix.IPC_RMID, nil) })
	t.Setenv("CANARY_SECRET", "canary")
	tests := []struct {
		name    string
		probe   []string
		control bool // false: TestKernelEscapes and TestNoDescriptorIsInherited show that the probe works
	}{
		{"file outside", []string{"read", canary}, true},
		{"file outside, written", []string{"write", canary}, true},
		{"file outside through a link", []string{"read", filepath.Join(w.dir, "link")}, true},
		{"new file outside", []string{"write", filepath.Join(outside, "new")}, true},
		{"mode of a file outside", []string{"chmod", canary}, true},
		{"time of a file outside", []string{"utime", canary}, true},
		{"removal of a file outside", []string{"remove", filepath.Join(outside, "new")}, true},
		{"denied file", []string{"read", filepath.Join(w.dir, "a.bak")}, true},
		{"denied file in a folder", []string{"read", filepath.Join(w.dir, "sub/b.bak")}, true},
		{"file in a denied folder", []string{"read", filepath.Join(w.dir, "private/c")}, true},
		{"write to what is readable", []string{"write", filepath.Join(w.dir, "plain")}, true},
		{"write to what is denied", []string{"write", filepath.Join(w.dir, "out/keep.txt")}, true},
		{"hard link", []string{"link", filepath.Join(w.dir, "plain"), filepath.Join(w.dir, "out/hard")}, true},
		{"shadow file", []string{"read", "/etc/shadow"}, os.Getuid() == 0},
		{"environment of this process", []string{"read", "/proc/" + strconv.Itoa(os.Getpid()) + "/environ"}, true},
		{"memory map of this process", []string{"read", "/proc/" + strconv.Itoa(os.Getpid()) + "/maps"}, true},
		{"host's listener", []string{"dial", tcp.Addr().String()}, true},
		{"datagram", []string{"datagram", udp.LocalAddr().String()}, true},
		{"host's socket", []string{"unix", filepath.Join(outside, "host.sock")}, true},
		{"netlink socket", []string{"socket", strconv.Itoa(unix.AF_NETLINK)}, true},
		{"variable that is not listed", []string{"env", "CANARY_SECRET"}, true},
		{"inherited descriptors", []string{"fds"}, false},
		{"user namespace", []string{"userns"}, true},
		{"ptrace", []string{"ptrace"}, true},
		{"keyctl", []string{"keyctl"}, true},
		{"io_uring", []string{"io_uring"}, false},
		{"shared memory of the host", []string{"shm", strconv.Itoa(key)}, true},
		{"capabilities", []string{"capabilities-now"}, os.Getuid() == 0},
		{"new privileges", []string{"new-privileges"}, true},
		{"kill this process", []string{"kill", strconv.Itoa(os.Getpid())}, true},
		{"mount", []string{"mount", w.dir}, false},
		{"kernel settings", []string{"read", "/proc/sys/kernel/hostname"}, true},
		{"setuid file", []string{"setuid", filepath.Join(w.dir, "out/suid")}, true},
		{"datagram pair", []string{"datagram-pair", filepath.Join(outside, "host.sock")}, true},
		{"another's limits", []string{"limits-of", strconv.Itoa(os.Getpid())}, true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			w := &world{t: t, dir: w.dir, box: w.box, p: w.p}
			if got := w.confined(tc.probe...); !strings.HasPrefix(got, "REFUSED") {
				t.Errorf("in the sandbox: %s", got)
			}
			if b, err := os.ReadFile(canary); err != nil || string(b) != "canary" {
				t.Errorf("on the host the canary holds %q, %v", b, err)
			}
			if tc.control {
				if got := bare(t, tc.probe...); !strings.HasSuffix(got, "SUCCEEDED") {
					t.Errorf("the probe proves nothing: outside the sandbox: %s", got)
				}
				must(t, errors.Join(os.WriteFile(canary, []byte("canary"), 0o666), os.Chmod(canary, 0o666)))
			}
		})
	}
}

func init() {
	probes["datagram-pair"] = func(string) error {
		_, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
		return err
	}
	probes["capabilities-now"] = func(string) error { // an ordinary user keeps the bounding set, and cannot use it
		b, err := os.ReadFile("/proc/self/status")
		for line := range strings.Lines(string(b)) {
			if f := strings.Fields(line); len(f) == 2 && strings.HasPrefix(f[0], "Cap") && f[0] != "CapBnd:" && strings.Trim(f[1], "0") != "" {
				return nil
			}
		}
		return fmt.Errorf("none, %v", err)
	}
	probes["limits-of"] = func(pid string) error {
		n, err := strconv.Atoi(pid)
		if err != nil {
			return err
		}
		var l unix.Rlimit
		return unix.Prlimit(n, unix.RLIMIT_NOFILE, nil, &l)
	}
}

func TestAllowedThingsWorkInWeakerTiers(t *testing.T) {
	racetest.Skip(t, oneByOne)
	newWorld(t, openPolicy).sh("true")
	for name, lacking := range map[string]linux.Lacking{"landlock": linux.NoNamespaces, "none": linux.NoNamespaces | linux.NoLandlock} {
		t.Run(name, func(t *testing.T) {
			w := weaker(t, denyingPolicy, name, lacking)
			must(t, os.Chmod(w.file("plain", "plain text"), 0o644))
			must(t, os.Chmod(w.file("sub/deep/x", "x"), 0o644))
			t.Setenv("CANARY_OK", "passed")
			for script, want := range map[string]string{
				"cat plain sub/deep/x":                               "plain textx",
				"echo $CANARY_OK":                                    "passed\n",
				"echo hi > out/new && cat out/new":                   "hi\n",
				"echo hi > $TMPDIR/x && cat $TMPDIR/x && ls -A ~":    "hi\n",
				"mkdir out/d && mv out/d out/e && rmdir out/e; echo": "\n",
				"head -c 4 /dev/zero | wc -c; echo x > /dev/null":    "4\n",
				"exec cat /proc/self/comm":                           "cat\n",
				"ulimit -c":                                          "0\n",
			} {
				out := w.sh(script)
				if string(out.Stdout.Data) != want || out.ExitCode != 0 || out.Isolation != name {
					t.Errorf("%q: got %q, exit %d, stderr %q, isolation %s", script, out.Stdout.Data, out.ExitCode, out.Stderr.Data, out.Isolation)
				}
			}
			if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "remit-tmp-*")); len(left) != 0 {
				t.Errorf("folders are left: %q", left)
			}
		})
	}
}

func TestNothingOutlivesACommandOfWeakerTiers(t *testing.T) {
	newWorld(t, openPolicy).sh("true")
	for name, lacking := range map[string]linux.Lacking{"landlock": linux.NoNamespaces, "none": linux.NoNamespaces | linux.NoLandlock} {
		for what, tc := range map[string]struct {
			script  string
			timeout time.Duration
			timed   bool
		}{
			"a daemon":                  {"(setsid sh -c 'trap \"\" HUP TERM; sleep TOKEN; sleep TOKEN' &) ; exit 0", time.Minute, false},
			"a child that holds stdout": {"sleep TOKEN & exit 0", time.Minute, false},
			"deaf to SIGTERM":           {"trap '' TERM INT HUP; (setsid sleep TOKEN &) ; sleep TOKEN; sleep TOKEN", time.Second, true},
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				w := weaker(t, openPolicy, name, lacking)
				tok, begun := token(), time.Now()
				out, err := w.run(sandbox.Command{Argv: []string{"/bin/sh", "-c", strings.ReplaceAll(tc.script, "TOKEN", tok)}, Shell: true, Timeout: tc.timeout})
				if err != nil || out.TimedOut != tc.timed {
					t.Errorf("got %+v, %v", out, err)
				}
				if took := time.Since(begun); took > 30*time.Second {
					t.Errorf("it took %v", took)
				}
				if n := survivors(t, tok); n != 0 {
					t.Errorf("%d processes are left", n)
				}
			})
		}
	}
}

func TestWhatNeedsFullIsolationIsRefused(t *testing.T) {
	newWorld(t, openPolicy).sh("true")
	w := weaker(t, openPolicy, "none", linux.NoNamespaces)
	if _, err := w.box.Run(context.Background(), w.p, sandbox.Command{Argv: []string{"true"}, Dir: w.dir, Observe: true}); !errors.Is(err, fault.SandboxMissing) {
		t.Errorf("observing: %v", err)
	}
}

func TestTheProfileOfAWeakerIsolation(t *testing.T) {
	w := weaker(t, denyingPolicy+"network: {allow: [\"example.com\"]}\n", "landlock", linux.NoNamespaces)
	w.file("a.bak", "secret")
	w.file("sub/x", "x")
	prof, err := w.box.Profile(w.p.Chain(), sandbox.Command{Argv: []string{"true"}, Dir: w.dir})
	must(t, err)
	if prof.Isolation != policy.LandlockIsolation || prof.Proxy {
		t.Errorf("got %+v", prof)
	}
	text := strings.ReplaceAll(prof.String(), w.dir, "WS")
	for _, want := range []string{"isolation  landlock\n", "network    none\n", "read       \"WS/sub\"\n", "out of reach"} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "a.bak") || strings.Contains(text, "\"WS\"\n") && strings.Contains(text, "read       \"WS\"") {
		t.Errorf("it shows what is denied:\n%s", text)
	}
}

// A policy further out keeps one further in from weakening anything.
func TestAStricterLinkKeepsIsolation(t *testing.T) {
	w := weaker(t, openPolicy, "none", linux.NoNamespaces)
	outer := newWorld(t, openPolicy)
	chain := append(policy.Chain{outer.p.Chain()[0]}, w.p.Chain()...)
	p := permit.Mint(permit.Terms{Chain: chain, Limits: chain.Limits(), Env: tool.Env{Workspace: w.dir}})
	if _, err := w.box.Run(context.Background(), p, sandbox.Command{Argv: []string{"true"}, Dir: w.dir}); !errors.Is(err, fault.SandboxMissing) {
		t.Errorf("got %v", err)
	}
}
