//go:build linux && (amd64 || arm64)

package supervisor_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/confine/supervisor"
)

// server listens on a Unix socket and counts the clients. Each must have the user and group of the test.
func server(t *testing.T, at string) *atomic.Int32 {
	t.Helper()
	l, err := net.Listen("unix", at)
	must(t, err)
	var clients atomic.Int32
	done := make(chan struct{})
	t.Cleanup(func() { _ = l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			clients.Add(1)
			raw, _ := conn.(*net.UnixConn).SyscallConn()
			_ = raw.Control(func(fd uintptr) {
				cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
				if err != nil || int(cred.Uid) != os.Getuid() || int(cred.Gid) != os.Getgid() {
					t.Errorf("a client has the credentials %+v, %v", cred, err)
				}
			})
			_ = conn.Close()
		}
	}()
	return &clients
}

// TestSocketsAreRefused: a protected socket can be neither reached nor made.
func TestSocketsAreRefused(t *testing.T) {
	for _, there := range []bool{true, false} {
		for name, script := range map[string]string{
			"plain":    "c('.env'); b('.env')",
			"absolute": "c(os.getcwd()+'/.env'); b(os.getcwd()+'/.env')",
			"dots":     "c('d/.././.env'); b('d/../.env'); b('./.env')",
			"links":    "os.symlink('.env','l'); os.symlink('..','d/up'); c('l'); c('d/up/.env'); b('d/up/.env'); b('l')",
			"process":  "c('/proc/self/cwd/.env'); b('/proc/self/cwd/.env'); f=os.open('d',os.O_PATH); c('/proc/self/fd/%d/../.env'%f); b('/proc/self/fd/%d/../.env'%f)",
			"kinds":    "c('.env',SOCK_SEQPACKET); b('.env',SOCK_SEQPACKET); d(); c('.env',SOCK_DGRAM); b('.env',SOCK_DGRAM)",
			"moved":    "os.rename('.env','o') ; c('o')",
			"linked":   "os.link('.env','o') ; c('o')",
			"another":  "b('o'); os.rename('o','.env')",
			"threads":  "import threading; [threading.Thread(target=lambda: (c('.env'),b('.env'))).start() for i in range(9)]",
		} {
			t.Run(fmt.Sprint(name, " ", there), func(t *testing.T) {
				t.Parallel()
				dir, err := os.MkdirTemp("", "") // short, as addresses are
				must(t, err)
				t.Cleanup(func() { _ = os.RemoveAll(dir) })
				must(t, os.Mkdir(filepath.Join(dir, "d"), 0o700))
				clients := new(atomic.Int32)
				if there {
					clients = server(t, filepath.Join(dir, ".env"))
				}
				s := supervised{dir: dir, decide: protect}
				out, _ := s.run(t, "python3", "-c", `import os
from socket import *
def tried(f):
    def g(*a):
        try: f(*a); print("done", a)
        except OSError as e: print(e)
    return g
@tried
def c(p, kind=SOCK_STREAM): socket(AF_UNIX, kind).connect(p)
@tried
def b(p, kind=SOCK_STREAM): socket(AF_UNIX, kind).bind(p)
@tried
def d(): socket(AF_UNIX, SOCK_DGRAM).sendto(b"x", ".env")
`+"for step in "+strconv.Quote(script)+".split(';'):\n    try: exec(step.strip())\n    except OSError as e: print(e)\n")
				if n := clients.Load(); n != 0 {
					t.Errorf("%d clients\n%s", n, out)
				}
				if _, err := os.Lstat(filepath.Join(dir, ".env")); there != (err == nil) {
					t.Errorf("the file: %v\n%s", err, out)
				}
				if out == "" {
					t.Error("nothing was tried")
				}
			})
		}
	}
}

// TestDatagramSocketsAreRefused: no Unix socket can send to a path.
func TestDatagramSocketsAreRefused(t *testing.T) {
	s := supervised{dir: t.TempDir(), decide: allow}
	out, _ := s.run(t, os.Args[0], "-kinds", "0")
	if want := "[EACCES EACCES EACCES EACCES   ]\n"; out != want {
		t.Errorf("%q, want %q", out, want)
	}
}

// socketKinds prints the errors of new sockets.
func socketKinds() {
	var got []string
	for _, kind := range []int{unix.SOCK_DGRAM, unix.SOCK_RAW | unix.SOCK_CLOEXEC, unix.SOCK_DGRAM | unix.SOCK_NONBLOCK} {
		_, err := unix.Socket(unix.AF_UNIX, kind, 0)
		got = append(got, unix.ErrnoName(errnoOf(err)))
	}
	_, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	got = append(got, unix.ErrnoName(errnoOf(err)))
	_, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	got = append(got, unix.ErrnoName(errnoOf(err)))
	for _, family := range []int{unix.AF_UNIX, unix.AF_INET} {
		_, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		got = append(got, unix.ErrnoName(errnoOf(err)))
	}
	fmt.Println(got)
}

// flipSockets connects and binds while other threads change the address and what the descriptor stands for.
func flipSockets(n int) {
	raw := append([]byte{unix.AF_UNIX, 0}, "good"...)
	const at = 100
	inet, _ := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	var over atomic.Bool
	go func() {
		for !over.Load() {
			copy(raw[2:], ".env")
			copy(raw[2:], "good")
		}
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !over.Load() {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				continue
			}
			_ = unix.Dup3(inet, at, unix.O_CLOEXEC)
			_ = unix.Dup3(fd, at, unix.O_CLOEXEC)
			_ = unix.Close(fd)
		}
	}()
	got := map[string]int{}
	for i := 0; i < n || i < 20*n && (got[""] == 0 || got["EACCES"] == 0); i++ {
		nr := []uintptr{unix.SYS_CONNECT, unix.SYS_BIND}[i%16/15]
		_, _, errno := unix.Syscall(nr, at, uintptr(unsafe.Pointer(&raw[0])), uintptr(len(raw)))
		got[unix.ErrnoName(errno)]++
	}
	fmt.Println(got)
	over.Store(true)
	<-done
}

// TestAnAddressThatChangesMeanwhile: a socket reaches, and makes, only what was decided on.
func TestAnAddressThatChangesMeanwhile(t *testing.T) {
	n := "600"
	if os.Getenv("REMIT_SOAK") != "" {
		n = "100000"
	}
	for _, there := range []bool{true, false} {
		dir, err := os.MkdirTemp("", "")
		must(t, err)
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		clients := new(atomic.Int32)
		if there {
			clients = server(t, filepath.Join(dir, ".env"))
		}
		good := server(t, filepath.Join(dir, "good"))
		s := supervised{dir: dir, decide: protect}
		out, _ := s.run(t, os.Args[0], "-flipsockets", n)
		if clients.Load() != 0 || good.Load() == 0 || s.refused() == 0 {
			t.Errorf("%d clients of the protected socket, %d of the other, %d refused: %s", clients.Load(), good.Load(), s.refused(), out)
		}
		if _, err := os.Lstat(filepath.Join(dir, ".env")); there != (err == nil) {
			t.Error(err)
		}
	}
}

// TestASocketFileThatChangesMeanwhile: a link that leads to one socket or another reaches the one that was decided on.
func TestASocketFileThatChangesMeanwhile(t *testing.T) {
	dir, err := os.MkdirTemp("", "")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must(t, os.Mkdir(filepath.Join(dir, ".env"), 0o700)) // a folder, in which the flipped path ends
	must(t, os.Mkdir(filepath.Join(dir, "fine"), 0o700))
	clients, good := server(t, filepath.Join(dir, ".env/s")), server(t, filepath.Join(dir, "fine/s"))
	var over atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; !over.Load(); i++ {
			_ = os.Symlink([]string{".env", "fine"}[i%2], filepath.Join(dir, "next"))
			_ = os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, "l"))
		}
	}()
	s := supervised{dir: dir, decide: protect}
	out, _ := s.run(t, "python3", "-c", `from socket import *
import os
done = set()
for i in range(30000):
    if i >= 600 and len(done) == 2: break
    try:
        s = socket(AF_UNIX, SOCK_STREAM)
        if i % 8 == 0: s.bind(os.getcwd() + "/l/%d" % i)
        else: s.connect("l/s")
        done.add(i % 8 == 0)
    except OSError: pass
print("end")`)
	over.Store(true)
	<-done
	made, err := os.ReadDir(filepath.Join(dir, ".env"))
	must(t, err)
	others, err := os.ReadDir(filepath.Join(dir, "fine"))
	must(t, err)
	if clients.Load() != 0 || good.Load() == 0 || len(made) != 1 || len(others) < 2 || out != "end\n" {
		t.Errorf("%d clients of the protected socket, %d of the other, files %v and %v, %q", clients.Load(), good.Load(), made, others, out)
	}
}

// TestAConnectionThatWaits: a process that waits for a place in a server's queue can be killed and stopped.
func TestAConnectionThatWaits(t *testing.T) {
	for name, signals := range map[string]string{"killed": "KILL", "stopped and killed": "STOP KILL", "goes on": "STOP CONT"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, err := os.MkdirTemp("", "")
			must(t, err)
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			s := supervised{dir: dir, decide: allow}
			out, _ := s.run(t, "bash", "-c", `python3 -c '
import os, sys
from socket import *
l = socket(AF_UNIX, SOCK_STREAM); l.bind("s"); l.listen(0)
socket(AF_UNIX, SOCK_STREAM).connect("s")
r, w = os.pipe()
pid = os.fork()
if pid == 0:
    os.write(w, b"x"); socket(AF_UNIX, SOCK_STREAM).connect("s"); os._exit(7)
os.read(r, 1)
for sig in sys.argv[1:]: os.kill(pid, getattr(__import__("signal"), "SIG" + sig))
if "CONT" in sys.argv: l.accept()
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
' `+signals)
			want := "-9\n"
			if strings.Contains(signals, "CONT") {
				want = "7\n"
			}
			if out != want {
				t.Errorf("%q, want %q", out, want)
			}
		})
	}
}

// TestNoDescriptorsAreLeft: calls fail while the supervisor can open nothing, and work afterwards.
func TestNoDescriptorsAreLeft(t *testing.T) {
	var before unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
	low := make(chan struct{})
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "f"), []byte("content"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "low"), nil, 0o600))
	s := supervised{dir: dir, decide: func(r supervisor.Request) error {
		if filepath.Base(r.Path) == "low" {
			must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: before.Max}))
			close(low)
		}
		return nil
	}}
	s.started = func(*supervisor.Supervisor) {
		<-low
		time.Sleep(20 * time.Millisecond) // some calls fail, or none
		must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &before))
	}
	out, code := s.run(t, "bash", "-c", "exec 2>/dev/null; read -r x <low; until read -r -N 7 x <f; do :; done; echo $x")
	if out != "content\n" || code != 0 {
		t.Errorf("%q, exit status %d", out, code)
	}
}

// TestConnectionsOverTheNetwork: programs serve and connect over TCP and Unix sockets as without a supervisor.
func TestConnectionsOverTheNetwork(t *testing.T) {
	script := `import asyncio, os, socket, threading
from multiprocessing.connection import Listener, Client
def both(l, c):
    t = threading.Thread(target=lambda: l.accept()[0].sendall(b"hello")); t.start()
    print(c.recv(9)); t.join()
l = socket.create_server(("127.0.0.1", 0)); both(l, socket.create_connection(l.getsockname()))
l = socket.create_server(("127.0.0.1", 0)); c = socket.socket(); c.settimeout(5); c.connect(l.getsockname()); both(l, c)
try: socket.socket().bind(l.getsockname())
except OSError as e: print(e.errno)
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(("127.0.0.1", 0)); v = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); v.connect(u.getsockname()); v.send(b"x"); print(u.recv(9))
for i in range(20):
    l = Listener("s%d" % i, "AF_UNIX"); c = Client(l.address); print(l.address); c.close(); l.close()
async def main():
    async def serve(r, w): w.write(await r.read(3)); w.close()
    s = await asyncio.start_unix_server(serve, os.getcwd() + "/a"); print(s.sockets[0].getsockname() == os.getcwd() + "/a")
    r, w = await asyncio.open_unix_connection("a"); w.write(b"abc"); print(await r.read(), w.get_extra_info("peername") == os.getcwd() + "/a")
asyncio.run(main()); print(oct(os.stat("a").st_mode))`
	dir, err := os.MkdirTemp("", "")
	must(t, err)
	defer os.RemoveAll(dir)
	want, _ := bare(t, dir, "python3", "-c", script)
	_ = os.Remove(filepath.Join(dir, "a"))
	s := supervised{dir: dir, decide: allow}
	if got, _ := s.run(t, "python3", "-c", script); got != want || !strings.Contains(want, "abc") {
		t.Errorf("%s\nwithout supervisor:\n%s", got, want)
	}
}
