//go:build linux && (amd64 || arm64)

package linux_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

func init() {
	probes["reaches"] = reaches
	probes["receives"] = receives
}

// lateKinds are the sockets that the host makes while the command runs.
var lateKinds = map[string]int{"stream": unix.SOCK_STREAM, "packets": unix.SOCK_SEQPACKET, "datagrams": unix.SOCK_DGRAM}

// reaches tries to reach sockets that another program makes after the command has bound and removed some of that name.
func reaches(string) error {
	for name := range lateKinds {
		for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_SEQPACKET} {
			fd, err := unix.Socket(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			_ = unix.Bind(fd, &unix.SockaddrUnix{Name: name})
			_ = os.Remove(name)
		}
	}
	if err := ownSockets(); err != nil {
		fmt.Println("SUCCEEDED no", err) // what is allowed does not work
		return nil
	}
	if err := os.WriteFile("out/ready", nil, 0o644); err != nil {
		return err
	}
	await("out/late")
	for name := range lateKinds {
		file, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		_ = os.Symlink(name, name+"-link")
		_ = os.Link(name, name+"-hard")
		for _, path := range []string{name, "./sub/../" + name, name + "-link", name + "-hard", fmt.Sprintf("/proc/self/fd/%d", file), "/proc/self/cwd/" + name, "@" + name} {
			for _, kind := range lateKinds {
				reach(path, kind)
			}
		}
		_ = os.Rename(name, name+"-moved")
		reach(name+"-moved", lateKinds[name])
		_ = os.Rename(name+"-moved", name)
	}
	return errors.New("all")
}

// reach sends to a socket in each way that there is.
func reach(path string, kind int) {
	to := &unix.SockaddrUnix{Name: path}
	for _, send := range []func(fd int) error{
		func(fd int) error { return unix.Connect(fd, to) },
		func(fd int) error { return unix.Sendto(fd, []byte("x"), unix.MSG_DONTWAIT, to) },
		func(fd int) error { return unix.Sendmsg(fd, []byte("x"), unix.UnixRights(1), to, unix.MSG_DONTWAIT) },
	} {
		fd, err := unix.Socket(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			continue
		}
		if send(fd) == nil {
			_, _ = unix.Write(fd, []byte("x"))
		}
		_ = unix.Close(fd)
	}
}

// ownSockets uses sockets of the command's own: by their name, after a link and a rename as ssh does, and by a new file of the name.
func ownSockets() error {
	for range 2 {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: "own-1", Net: "unix"})
		if err != nil {
			return err
		}
		for _, move := range []func() error{func() error { return nil }, func() error { return os.Link("own-1", "own-2") }, func() error { return os.Rename("own-2", "own-3") }} {
			if err := move(); err != nil {
				return err
			}
			for _, name := range []string{"own-1", "own-2", "own-3"} {
				if _, err := os.Lstat(name); err != nil {
					continue
				}
				c, err := net.Dial("unix", name)
				if err != nil {
					return err
				}
				_ = c.Close()
			}
		}
		if err := errors.Join(l.Close(), os.Remove("own-3")); err != nil {
			return err
		}
	}
	return nil
}

// receives prints how many descriptors come with the answer of a socket.
func receives(at string) error {
	c, err := net.Dial("unix", at)
	if err != nil {
		return err
	}
	if _, err := c.Write([]byte("hello")); err != nil {
		return err
	}
	oob := make([]byte, 1000)
	buf := make([]byte, 100)
	n, m, _, _, err := c.(*net.UnixConn).ReadMsgUnix(buf, oob)
	if err != nil || n == 0 {
		return fmt.Errorf("no answer: %w", err)
	}
	if m > 0 {
		return nil
	}
	return errors.New("only bytes")
}

// TestSocketsThatComeLater: a socket that another program makes while a command runs is out of its reach, under each name.
func TestSocketsThatComeLater(t *testing.T) {
	racetest.Skip(t, oneByOne)
	everyTier(t, motionPolicy, func(t *testing.T, src string) {
		w := motionWorld(t, src)
		t.Chdir(w.dir) // names of sockets are short
		var clients atomic.Int32
		host := func(w *world) {
			await(filepath.Join(w.dir, "out/ready"))
			for name, kind := range lateKinds {
				for _, at := range []string{name, "@" + name} {
					hear(w.t.(*testing.T), at, kind, &clients)
				}
			}
			must(w.t, os.WriteFile(filepath.Join(w.dir, "out/late"), nil, 0o644))
		}
		motion{probe: []string{"reaches", ""}, host: host}.tryIn(t, w)
		if n := clients.Load(); n > 0 {
			t.Errorf("%d clients", n)
		}
	})
}

// hear counts who comes to a socket of the host.
func hear(t *testing.T, at string, kind int, clients *atomic.Int32) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	must(t, err)
	must(t, unix.Bind(fd, &unix.SockaddrUnix{Name: at}))
	if kind != unix.SOCK_DGRAM {
		must(t, unix.Listen(fd, 100))
	}
	t.Cleanup(func() {
		for {
			c, _, err := unix.Accept(fd)
			if kind == unix.SOCK_DGRAM {
				_, err = unix.Read(fd, make([]byte, 1))
			} else if err == nil {
				_ = unix.Close(c)
			}
			if err != nil {
				break
			}
			clients.Add(1)
			t.Errorf("%s has a client", at)
		}
		_ = unix.Close(fd)
	})
}

// TestNoDescriptorComesIn: a socket that the policy names gives a command bytes, and no file of the host.
func TestNoDescriptorComesIn(t *testing.T) {
	w, _ := socketWorld(t, openPolicy)
	outside, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	at := filepath.Join(outside, "gives.sock")
	l, err := net.Listen("unix", at)
	must(t, err)
	dir, err := os.Open("/")
	must(t, err)
	gave := make(chan error, 10)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				close(gave)
				return
			}
			_, _ = c.Read(make([]byte, 10))
			_, _, err = c.(*net.UnixConn).WriteMsgUnix([]byte("given"), unix.UnixRights(int(dir.Fd())), nil)
			gave <- err
			_ = c.Close()
		}
	}()
	w.allow(allowSocket(at))
	exe, err := os.Executable()
	must(t, err)
	out, err := w.run(sandbox.Command{Argv: []string{exe, "probe", "receives", at}, Timeout: time.Minute})
	must(t, errors.Join(err, l.Close(), dir.Close()))
	if v := verdictOf(string(out.Stdout.Data)); v != "REFUSED only bytes" {
		t.Errorf("%q %s", v, strings.TrimSpace(string(out.Stderr.Data)))
	}
	if err, ok := <-gave; !ok || err != nil {
		t.Errorf("the host gave nothing: %v", err)
	}
}
