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
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/doors/hookrelay"
	"github.com/remitrun/remit/internal/doors/hookwire"
	"github.com/remitrun/remit/internal/doors/keeper"
)

// runScript is the shell of the tests' keepers. The script is the last argument.
func runScript(ctx context.Context, r hookwire.Request, in io.Reader, out, errs io.Writer) byte {
	switch script := r.Args[len(r.Args)-1]; script {
	case "cat": // begins before its end: the input may never end
		_, _ = io.WriteString(errs, "reads\n")
		if n, err := io.Copy(out, in); err != nil {
			_, _ = fmt.Fprintln(errs, n, err)
			return 5
		}
	case "wait":
		_, _ = io.WriteString(out, "waits\n")
		<-ctx.Done()
		return 130
	case "read":
		_, _ = io.WriteString(out, "reads\n")
		go func() { _, _ = io.Copy(io.Discard, in) }() // as a command that ends before its input
	case "yes":
		for ctx.Err() == nil {
			if _, err := out.Write(make([]byte, 64<<10)); err != nil {
				return 141
			}
		}
	case "panic":
		panic("on purpose")
	default:
		_, _ = fmt.Fprintf(out, "kept %q\n", r.Args)
		_, _ = io.WriteString(errs, "e")
		return 7
	}
	return 0
}

// shell is remit-hook sh with a script.
func (w world) shell(script string) *exec.Cmd {
	c := w.command("")
	c.Args = []string{c.Path, "sh", "-w", w.bin, "-c", script}
	return c
}

// runs starts a command, and returns once its script is known to run.
func (w world) runs(c *exec.Cmd) {
	w.t.Helper()
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 6)); err != nil {
		w.t.Error(err)
	}
}

// ended waits for a command and returns its status.
func (w world) ended(c *exec.Cmd) int {
	w.t.Helper()
	var exit *exec.ExitError
	if err := c.Wait(); err != nil && !errors.As(err, &exit) {
		w.t.Error(err)
	}
	return c.ProcessState.ExitCode()
}

func TestTheKeeperRunsAScript(t *testing.T) {
	w := newWorld(t)
	asked := make(chan hookwire.Request, 1)
	w.served(func(k *keeper.Keeper) {
		k.Shell = func(ctx context.Context, r hookwire.Request, in io.Reader, out, errs io.Writer) byte {
			asked <- r
			return runScript(ctx, r, in, out, errs)
		}
	})
	c := w.shell("a b")
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); c.ProcessState.ExitCode() != 7 || out.String() != fmt.Sprintf("kept %q\n", c.Args[2:]) || errs.String() != "e" {
		t.Errorf("%v, %q, %q", err, out.String(), errs.String())
	}
	got := <-asked
	dir, err := os.Getwd()
	if err != nil || !slices.Equal(got.Args, c.Args[2:]) || got.Dir != dir || !slices.Equal(got.Env, w.command("").Environ()) {
		t.Errorf("it got %+v, %v", got, err)
	}
}

// Every byte passes, by every kind of stream.
func TestStreamsPassThroughTheKeeper(t *testing.T) {
	w := newWorld(t)
	w.serve(nil)
	data := bytes.Repeat([]byte("\x00\xff\r\n\x1a binary"), 1<<20)
	file := filepath.Join(w.bin, "data")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, pair := range map[string]func() (*os.File, *os.File, error){"pipes": os.Pipe, "sockets": socketPair, "files": func() (*os.File, *os.File, error) {
		r, err := os.Open(file)
		return r, nil, err
	}} {
		t.Run(name, func(t *testing.T) {
			in, feed, err := pair()
			if err != nil {
				t.Fatal(err)
			}
			if feed != nil {
				go func() { _, _ = feed.Write(data); _ = feed.Close() }()
			}
			c := w.shell("cat")
			c.Stdin = in
			got, err := c.Output()
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d bytes of %d, %v", len(got), len(data), err)
			}
			_ = in.Close()
		})
	}
}

// A named pipe whose writer has closed it before the keeper sees it ends, too.
func TestAWrittenNamedPipeEnds(t *testing.T) {
	w := newWorld(t)
	w.serve(nil)
	name := filepath.Join(w.bin, "fifo")
	if err := unix.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := unix.Open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	in := os.NewFile(uintptr(r), name)
	defer in.Close()
	if err := errors.Join(os.WriteFile(name, []byte("said"), 0), unix.SetNonblock(r, false)); err != nil {
		t.Fatal(err)
	}
	c := w.shell("cat")
	c.Stdin = in
	if out, err := c.Output(); err != nil || string(out) != "said" {
		t.Errorf("%q, %v", out, err)
	}
}

// socketPair is a pipe made of sockets, as some agents have.
func socketPair() (r, w *os.File, err error) {
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	return os.NewFile(uintptr(p[0]), "r"), os.NewFile(uintptr(p[1]), "w"), err
}

// The agent uses the same open files, whose flags stay as they are.
func TestTheFlagsOfStreamsStay(t *testing.T) {
	w := newWorld(t)
	w.serve(nil)
	for name, pair := range map[string]func() (*os.File, *os.File, error){"pipe": blockingPipe, "socket": socketPair, "terminal": openTerminal} {
		r, to, err := pair()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer to.Close()
		c := w.shell("wait")
		c.Stdin, c.Stderr = r, to
		before := [2]int{flagsOf(t, r), flagsOf(t, to)}
		w.runs(c)
		during := [2]int{flagsOf(t, r), flagsOf(t, to)}
		if err := c.Process.Kill(); err != nil {
			t.Error(err)
		}
		w.ended(c)
		if after := [2]int{flagsOf(t, r), flagsOf(t, to)}; before != during || before != after || before[0]&unix.O_NONBLOCK != 0 {
			t.Errorf("%s: the flags were %o, then %o and %o", name, before, during, after)
		}
	}
}

// flagsOf are the flags of an open file.
func flagsOf(t *testing.T, f *os.File) int {
	t.Helper()
	raw, err := f.SyscallConn() // f.Fd would change them
	if err != nil {
		t.Fatal(err)
	}
	flags := 0
	if cerr := raw.Control(func(fd uintptr) { flags, err = unix.FcntlInt(fd, unix.F_GETFL, 0) }); cerr != nil || err != nil {
		t.Fatal(cerr, err)
	}
	return flags
}

// blockingPipe is a pipe as a shell makes it.
func blockingPipe() (r, w *os.File, err error) {
	var p [2]int
	err = unix.Pipe2(p[:], unix.O_CLOEXEC)
	return os.NewFile(uintptr(p[0]), "r"), os.NewFile(uintptr(p[1]), "w"), err
}

// openTerminal returns the command's side of a terminal twice.
func openTerminal() (r, w *os.File, err error) {
	master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	if err = unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, err
	}
	n, err := unix.IoctlGetInt(master, unix.TIOCGPTN)
	if err != nil {
		return nil, nil, err
	}
	side, err := unix.Open(fmt.Sprintf("/dev/pts/%d", n), unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	two, err := unix.Dup(side)
	return os.NewFile(uintptr(side), "terminal"), os.NewFile(uintptr(two), "terminal"), err
}

// Calls leave nothing behind, also where the agent never ends their input or reads their output.
func TestScriptsLeaveNothingBehind(t *testing.T) {
	w := newWorld(t)
	w.serve(nil)
	r, feed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer feed.Close()
	unread, full, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer unread.Close()
	defer full.Close()
	n := 40
	if os.Getenv("REMIT_SOAK") != "" {
		n = 10_000
	}
	once := func(i int) {
		c := w.shell([]string{"read", "yes", "panic", "exit"}[i%4])
		if c.Stdin = r; i%4 != 1 {
			if _, err := c.Output(); c.ProcessState.ExitCode() != []int{0, 0, 1, 7}[i%4] {
				t.Errorf("%s: %v", c, err)
			}
			return
		}
		c.Stdout = full
		if err := errors.Join(c.Start(), waitFull(unread), c.Process.Kill()); err != nil {
			t.Error(err)
		}
		w.ended(c)
	}
	for i := range 8 {
		once(i)
	}
	before := w.settled(1 << 20)
	for i := range n {
		once(i)
	}
	if after := w.settled(before + 2); after > before+2 { // threads of the runtime come and go
		t.Errorf("%d descriptors, goroutines and threads became %d", before, after)
	}
}

// waitFull waits until a pipe has no more room.
func waitFull(r *os.File) error {
	for {
		n, err := unix.IoctlGetInt(int(r.Fd()), unix.TIOCINQ)
		if err != nil || n >= 60<<10 {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// settled is how many descriptors, goroutines and threads this process has, once there are not more than most.
func (w world) settled(most int) int {
	w.t.Helper()
	for wait := 0; ; wait++ {
		n := countOf(w.t)
		if wait > 0 && n <= most || wait > 200 {
			return n
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Whoever kills the client ends the script, whatever it waits for.
func TestAKilledClientEndsItsScript(t *testing.T) {
	w := newWorld(t)
	ended := make(chan byte, 1)
	w.served(func(k *keeper.Keeper) {
		k.Shell = func(ctx context.Context, r hookwire.Request, in io.Reader, out, errs io.Writer) byte {
			status := runScript(ctx, r, in, out, errs)
			ended <- status
			return status
		}
	})
	for _, script := range []string{"wait", "yes", "cat"} {
		c := w.shell(script)
		r, feed, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if c.Stdin = r; script == "cat" {
			_, err = feed.WriteString("begins")
		}
		if err != nil {
			t.Fatal(err)
		}
		w.runs(c)
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if status := <-ended; (status == 0) != (script == "yes") && status == 0 {
			t.Errorf("%s ends with %d", script, status)
		}
		w.ended(c)
		_ = errors.Join(r.Close(), feed.Close())
	}
}

// The first signal ends the script, whose status is the client's. A signal that the client was started
// to ignore does nothing.
func TestSignalsEndTheScript(t *testing.T) {
	w := newWorld(t)
	w.serve(nil)
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		c := w.shell("wait")
		w.runs(c)
		if err := c.Process.Signal(s); err != nil {
			t.Error(err)
		}
		if status := w.ended(c); status != 130 {
			t.Errorf("%s: status %d", s, status)
		}
	}
	c := w.shell("wait")
	c.Path, c.Args = "/bin/sh", append([]string{"sh", "-c", `trap "" HUP; exec "$0" "$@"`}, c.Args...)
	w.runs(c)
	if err := errors.Join(c.Process.Signal(syscall.SIGHUP), c.Process.Signal(syscall.SIGTERM)); err != nil {
		t.Error(err)
	}
	if status := w.ended(c); status != 130 {
		t.Errorf("status %d", status)
	}
}

const broken = "remit: the keeper ended while the command ran; the command was ended, too\n"

// A script that may have begun is never begun again, and one that has not begun is.
func TestABrokenKeeperNeverDoublesAScript(t *testing.T) {
	whole := hookwire.Answer{Status: 4}.Bytes()[1:]
	for name, c := range map[string]struct {
		said  string
		keeps bool // the control pipe, until the client has said that the script may start
		end   []byte
		want  string
	}{
		"nothing":             {"", true, nil, "alone"},
		"it declines":         {string(hookwire.Answer{Decline: true}.Bytes()[1:]), true, nil, "alone"},
		"an answer at once":   {string(whole), true, nil, "alone"},
		"another word":        {"?", true, nil, "alone"},
		"ready, and it ends":  {hookwire.Ready, false, nil, "alone"},
		"it started":          {hookwire.Ready, true, nil, broken},
		"half an answer":      {hookwire.Ready, true, whole[:len(whole)-1], broken},
		"more than an answer": {hookwire.Ready, true, append(slices.Clip(whole), 0), broken},
		"it declines then":    {hookwire.Ready, true, hookwire.Answer{Decline: true}.Bytes()[1:], broken},
		"an endless answer":   {hookwire.Ready, true, bytes.Repeat([]byte("x"), hookwire.MaxAnswer+10), broken},
		"an answer":           {hookwire.Ready, true, whole, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fakeShell(func(conn *net.UnixConn, control *os.File) {
				if !c.keeps {
					_ = control.Close()
				}
				_, _ = io.WriteString(conn, c.said)
				if _, err := control.Read(make([]byte, 1)); err == nil {
					_, _ = conn.Write(c.end)
				}
			})
			out, err := w.shell("x").CombinedOutput()
			if !strings.HasPrefix(string(out), c.want) || c.want == "" && len(out) > 0 || (c.want == "alone") != (err == nil) {
				t.Errorf("%q, %v", out, err)
			}
		})
	}
}

// fakeShell answers scripts at the keeper's socket in another way.
func (w world) fakeShell(serve func(conn *net.UnixConn, control *os.File)) {
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
		_ = hookrelay.Relay{Max: hookwire.MaxRequest, Time: time.Minute, Shell: func(conn *net.UnixConn, _ hookwire.Request, files []int) {
			control := os.NewFile(uintptr(files[3]), "control")
			serve(conn, control)
			_ = errors.Join(conn.Close(), control.Close(), unix.Close(files[0]), unix.Close(files[1]), unix.Close(files[2]))
		}}.Serve(l)
	}()
	w.t.Cleanup(func() { _ = l.Close(); <-done })
}

// A keeper that ends cancels its scripts, and says nothing in their place.
func TestAStoppedKeeperEndsItsScripts(t *testing.T) {
	w := newWorld(t)
	stop := w.serve(nil)
	c := w.shell("wait")
	var errs bytes.Buffer
	c.Stderr = &errs
	w.runs(c)
	stop()
	if status := w.ended(c); status != 1 || errs.String() != broken {
		t.Errorf("status %d, %q", status, errs.String())
	}
}

// A script outlasts the keeper's place: another keeper answers meanwhile.
func TestAReplacedKeeperKeepsItsScripts(t *testing.T) {
	w := newWorld(t)
	stale := make(chan struct{})
	w.served(func(k *keeper.Keeper) {
		k.Stale = func() bool {
			select {
			case <-stale:
				return true
			default:
				return false
			}
		}
	})
	c := w.shell("cat")
	c.Stdin = nil
	in, err := c.StdinPipe()
	if err == nil {
		_, err = io.WriteString(in, "begins")
	}
	if err != nil {
		t.Fatal(err)
	}
	w.runs(c)
	close(stale)
	for k := keeperOf(w.home); ; time.Sleep(time.Millisecond) {
		k.Idle = time.Millisecond
		if k.Serve(t.Context()) == nil {
			break
		}
	}
	_ = in.Close()
	if status := w.ended(c); status != 0 {
		t.Errorf("status %d", status)
	}
}

// Scripts take no place from hooks, and those that are too many run in processes of their own.
func TestManyScripts(t *testing.T) {
	w := newWorld(t)
	w.serve(nil)
	for range 64 {
		c := w.shell("wait")
		w.runs(c)
		defer w.ended(c)
		defer func() { _ = c.Process.Kill() }()
	}
	if out, err := w.shell("x").Output(); err != nil || !strings.HasPrefix(string(out), "alone") {
		t.Errorf("%q, %v", out, err)
	}
	w.expect(kept)
}

// Where a process of its own would work in another way, the client has one.
func TestTheKeeperRunsNoOtherScripts(t *testing.T) {
	w := newWorld(t)
	w.serve(nil)
	within := func(script string) func(c *exec.Cmd) error {
		return func(c *exec.Cmd) error {
			c.Path, c.Args = "/bin/sh", append([]string{"sh", "-c", script + `; exec "$0" "$@"`}, c.Args...)
			return nil
		}
	}
	for name, change := range map[string]func(c *exec.Cmd) error{
		"by a variable":            func(c *exec.Cmd) error { c.Env = append(c.Env, "REMIT_NO_KEEPER=1"); return nil },
		"with another TZ":          func(c *exec.Cmd) error { c.Env = append(c.Env, "TZ=Asia/Tokyo"); return nil },
		"with another home":        func(c *exec.Cmd) error { c.Args = slices.Insert(c.Args, 2, "--home", "/nowhere"); return nil },
		"with the same at its end": func(c *exec.Cmd) error { c.Args = append(c.Args, "--home=/nowhere"); return nil },
		"with a relative one":      func(c *exec.Cmd) error { c.Env = append(c.Env, "REMIT_HOME=relative"); return nil },
		"with joined flags":        func(c *exec.Cmd) error { c.Args = slices.Insert(c.Args, 2, "-p/x"); return nil },
		"without a script":         func(c *exec.Cmd) error { c.Args = c.Args[:len(c.Args)-1]; return nil },
		"with a limit":             within("ulimit -t 1000"),
		"with less priority":       within("renice -n 5 -p $$ >/dev/null"),
		"in a folder's place":      within("exec <."),
	} {
		c := w.shell("x")
		if err := change(c); err != nil {
			t.Fatal(err)
		}
		if out, err := c.CombinedOutput(); err != nil || !bytes.HasPrefix(out, []byte("alone")) {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}
	for _, script := range []string{"--home=/nowhere", "--home", "-c", "--no-keeper", "sh"} { // words of a script are no flags
		if out, err := w.shell(script).Output(); err == nil || !strings.HasPrefix(string(out), "kept") {
			t.Errorf("%s: %q, %v", script, out, err)
		}
	}
}

// A client that has not agreed starts nothing.
func TestNoScriptStartsWithoutAWord(t *testing.T) {
	w := newWorld(t)
	w.serve(nil)
	exe, err := hookwire.Identify(filepath.Join(w.bin, "remit"))
	if err != nil {
		t.Fatal(err)
	}
	whole, err := hookwire.Request{Shell: true, Program: exe, Args: []string{"-c", "x"}, Env: w.command("").Env, Dir: "/"}.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	folder, err := os.Open(w.home)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	before := countOf(t)
	for name, say := range map[string]string{"nothing": "", "a stop": hookwire.Stop} {
		for _, files := range []int{0, 3, 4, 5} {
			conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: hookwire.KeeperSocket(int(folder.Fd())), Net: "unix"})
			if err != nil {
				t.Fatal(err)
			}
			r, to, err := os.Pipe()
			out, from, perr := os.Pipe()
			if err := errors.Join(err, perr); err != nil {
				t.Fatal(err)
			}
			list := slices.Repeat([]int{int(from.Fd())}, files)
			if files > 0 {
				list[files-1] = int(r.Fd())
			}
			_, _, err = conn.WriteMsgUnix(whole, unix.UnixRights(list...), nil)
			_, serr := io.WriteString(to, say)
			if err := errors.Join(err, serr, conn.CloseWrite(), to.Close(), r.Close(), from.Close()); err != nil {
				t.Fatal(err)
			}
			if b, err := io.ReadAll(conn); files == 4 && string(b) != hookwire.Greeting+hookwire.Ready || bytes.Contains(b, []byte("kept")) {
				t.Errorf("%s, %d files: it answers %q, %v", name, files, b, err)
			}
			if b, err := io.ReadAll(out); len(b) > 0 || err != nil { // it ends: the keeper has closed what it got
				t.Errorf("%s, %d files: the script ran: %q, %v", name, files, b, err)
			}
			_ = errors.Join(conn.Close(), out.Close())
		}
	}
	if after := w.settled(before + 2); after > before+2 {
		t.Errorf("%d descriptors, goroutines and threads became %d", before, after)
	}
}

// countOf counts what this process has.
func countOf(t *testing.T) (n int) {
	t.Helper()
	for _, dir := range []string{"/proc/self/fd", "/proc/self/task"} {
		list, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		n += len(list)
	}
	return n + runtime.NumGoroutine()
}
