package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/doors/hookwire"
	"github.com/remitrun/remit/internal/doors/keeper"
)

// TestMain lets this binary be three programs: remit-hook, and the remit beside it, as which it says
// what it was started with, or is a keeper that does.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "remit-hook":
		if os.Getenv(askVariable) != "" {
			_, err := keeper.Ask(context.Background(), os.Args[2])
			fmt.Println(err)
			os.Exit(0)
		}
		main()
	case "remit":
		os.Exit(beRemit(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// askVariable has this binary ask the keeper of a folder, whoever owns it.
const askVariable = "TEST_ASK"

func beRemit(args []string) int {
	if args[0] == "hook" {
		event, err := io.ReadAll(os.Stdin)
		fmt.Printf("alone %v %d %v\n", args[1:], len(event), err)
		return 0
	}
	if args[0] == "sh" {
		fmt.Printf("alone %q\n", args[1:])
		return 0
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	k := keeperOf(args[2])
	k.Lock = os.NewFile(3, "lock")
	if err := k.Serve(ctx); err != nil {
		return 1
	}
	return 0
}

func keeperOf(dir string) *keeper.Keeper {
	return &keeper.Keeper{Home: dir, Idle: time.Minute, Env: os.LookupEnv, Look: 10 * time.Millisecond, Stale: func() bool { return false }, Shell: runScript, Kept: func() int { return 0 }, Answer: func(_ context.Context, r hookwire.Request) hookwire.Answer {
		f, err := os.OpenFile(filepath.Join(dir, "answered"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = fmt.Fprintf(f, "%d\n", os.Getpid())
		}
		return hookwire.Answer{Out: fmt.Appendf(nil, "kept %v %d %v\n", r.Args, len(r.Event), err), Err: []byte("e"), Status: 3}
	}}
}

// world is an installation and a home folder.
type world struct {
	t         *testing.T
	bin, home string
}

func newWorld(t *testing.T) world {
	t.Helper()
	w := world{t, t.TempDir(), filepath.Join(t.TempDir(), strings.Repeat("long", 40))} // longer than a socket's path may be
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	copyFile(t, exe, filepath.Join(w.bin, "remit-hook")) // it finds remit beside its own file
	if err := errors.Join(os.Symlink(exe, filepath.Join(w.bin, "remit")), os.Mkdir(w.home, 0o700)); err != nil {
		t.Fatal(err)
	}
	return w
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// serve runs a keeper until the test ends, or stop is called.
func (w world) serve(answer func(ctx context.Context, r hookwire.Request) hookwire.Answer) (stop func()) {
	w.t.Helper()
	return w.served(func(k *keeper.Keeper) {
		if answer != nil {
			k.Answer = answer
		}
	})
}

// served runs a keeper that was changed.
func (w world) served(change func(k *keeper.Keeper)) (stop func()) {
	w.t.Helper()
	k := keeperOf(w.home)
	change(k)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- k.Serve(ctx) }()
	w.untilListening()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
	})
	w.t.Cleanup(stop)
	return stop
}

// untilListening waits for the keeper's socket.
func (w world) untilListening() {
	w.t.Helper()
	for {
		if _, err := keeper.Ask(w.t.Context(), w.home); err == nil {
			return
		} else if w.t.Context().Err() != nil {
			w.t.Fatal(err)
		}
	}
}

// hook runs remit-hook with an event.
func (w world) hook(event string, args ...string) (out string, status int) {
	w.t.Helper()
	var b bytes.Buffer
	c := w.command(event, args...)
	c.Stdout, c.Stderr = &b, &b
	err := c.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		w.t.Fatal(err)
	}
	return b.String(), c.ProcessState.ExitCode()
}

func (w world) command(event string, args ...string) *exec.Cmd {
	c := exec.CommandContext(w.t.Context(), filepath.Join(w.bin, "remit-hook"), append([]string{"claude"}, args...)...)
	c.Env = append(hookwire.KeeperEnv(os.LookupEnv), "REMIT_HOME="+w.home, "HOME=/nowhere", "GORACE="+os.Getenv("GORACE"))
	c.Stdin = strings.NewReader(event)
	return c
}

const alone, kept = "alone [claude] 5 <nil>\n", "kept [claude] 5 <nil>\ne"

func (w world) expect(want string) {
	w.t.Helper()
	if out, status := w.hook("event"); out != want || (status == 3) != strings.HasPrefix(want, "kept") {
		w.t.Errorf("status %d, %q; want %q", status, out, want)
	}
}

func TestTheKeeperAnswers(t *testing.T) {
	w := newWorld(t)
	asked := make(chan hookwire.Request, 1)
	w.serve(func(_ context.Context, r hookwire.Request) hookwire.Answer {
		asked <- r
		return hookwire.Answer{Out: []byte("out"), Err: []byte("err"), Status: 7}
	})
	if out, status := w.hook("event", "--confine", "-w", "a b"); out != "outerr" || status != 7 {
		t.Errorf("status %d, %q", status, out)
	}
	got := <-asked
	dir, err := os.Getwd()
	if err != nil || strings.Join(got.Args, "|") != "claude|--confine|-w|a b" || string(got.Event) != "event" || got.Dir != dir || !slices.Equal(got.Env, w.command("").Environ()) {
		t.Errorf("it got %+v, %v", got, err)
	}
}

// A client with other files or fewer rights than the keeper's gets no answer, as from a sandbox.
func TestASandboxedClientIsRefused(t *testing.T) {
	w := newWorld(t)
	w.serve(nil)
	w.expect(kept)
	for name, change := range map[string]func(c *exec.Cmd){
		"another mount namespace": func(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS} },
		"no new privileges": func(c *exec.Cmd) {
			if c.Path, c.Err = exec.LookPath("setpriv"); c.Err == nil {
				c.Args = append([]string{"setpriv", "--no-new-privs", filepath.Join(w.bin, "remit-hook")}, c.Args[1:]...)
			}
		},
	} {
		for _, c := range []*exec.Cmd{w.command("event"), w.shell("event")} {
			change(c)
			out, err := c.CombinedOutput()
			switch {
			case errors.Is(err, exec.ErrNotFound), errors.Is(err, syscall.EPERM):
				t.Logf("NOT TESTED: %s: %v", name, err)
			case err != nil || !strings.HasPrefix(string(out), "alone"):
				t.Errorf("%s: %q, %v", name, out, err)
			}
		}
	}
	w.expect(kept)
}

// Whatever the keeper says that is not a whole answer, remit hook decides, once.
func TestABrokenKeeperDecidesNothing(t *testing.T) {
	answer := hookwire.Answer{Out: []byte("allowed")}.Bytes()
	for name, reply := range map[string][]byte{
		"nothing": nil, "a greeting": []byte(hookwire.Greeting), "half an answer": answer[:len(answer)-3], "more than an answer": append(answer[:len(answer):len(answer)], '!'),
		"another version": append([]byte("+remit said 2"), answer[13:]...), "JSON": []byte(`{"out":""}`), "it declines": hookwire.Answer{Decline: true, Out: []byte("allowed")}.Bytes(),
		"an endless answer": bytes.Repeat([]byte("x"), hookwire.MaxAnswer+10),
	} {
		for _, read := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, read %t", name, read), func(t *testing.T) {
				w := newWorld(t)
				w.fake(func(conn net.Conn) {
					if read {
						_, _ = io.ReadAll(conn)
					}
					_, _ = conn.Write(reply)
				})
				w.expect(alone)
			})
		}
	}
}

// fake answers at the keeper's socket in another way.
func (w world) fake(serve func(conn net.Conn)) {
	w.t.Helper()
	folder, err := os.Open(w.home)
	if err != nil {
		w.t.Fatal(err)
	}
	defer folder.Close()
	l, err := net.Listen("unix", hookwire.KeeperSocket(int(folder.Fd())))
	if err != nil {
		w.t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serve(conn)
			_ = conn.Close()
		}
	}()
	w.t.Cleanup(func() { _ = l.Close(); <-done })
}

func TestTheKeeperIsLeftOut(t *testing.T) {
	w := newWorld(t)
	w.serve(nil)
	w.expect(kept)
	for name, change := range map[string]func(c *exec.Cmd) error{
		"by a variable":        func(c *exec.Cmd) error { c.Env = append(c.Env, "REMIT_NO_KEEPER=1"); return nil },
		"by a flag":            func(c *exec.Cmd) error { c.Args = append(c.Args, "--no-keeper"); return nil },
		"with another TZ":      func(c *exec.Cmd) error { c.Env = append(c.Env, "TZ=Asia/Tokyo"); return nil },
		"with another home":    func(c *exec.Cmd) error { c.Args = append(c.Args, "--home", "/nowhere"); return nil },
		"with a read-only one": func(c *exec.Cmd) error { c.Args = append(c.Args, "--home=/sys"); return nil },
		"with a relative one":  func(c *exec.Cmd) error { c.Env = append(c.Env, "REMIT_HOME=relative"); return nil },
		"with an open folder":  func(*exec.Cmd) error { return os.Chmod(w.home, 0o770) },
		"of another version": func(*exec.Cmd) error {
			exe, err := os.Executable()
			if err == nil {
				err = os.Remove(filepath.Join(w.bin, "remit"))
			}
			copyFile(t, exe, filepath.Join(w.bin, "remit"))
			return errors.Join(err, os.Chmod(w.home, 0o700))
		},
	} {
		c := w.command("event")
		if err := change(c); err != nil {
			t.Fatal(err)
		}
		if out, err := c.CombinedOutput(); err != nil || !bytes.HasPrefix(out, []byte("alone")) {
			t.Errorf("%s: %q, %v", name, out, err)
		}
		if err := os.Chmod(w.home, 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWithoutRemitTheCallIsBlocked(t *testing.T) {
	w := newWorld(t)
	if err := os.Remove(filepath.Join(w.bin, "remit")); err != nil {
		t.Fatal(err)
	}
	if out, status := w.hook("event"); status != 2 || !strings.HasPrefix(out, "remit hook: no answer, so a call that was not made yet is blocked: ") {
		t.Errorf("status %d, %q", status, out)
	}
}
