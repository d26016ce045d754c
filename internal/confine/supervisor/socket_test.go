//go:build linux && (amd64 || arm64)

package supervisor_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// socketOps makes random calls with sockets in the working folder, and prints what each returned.
func socketOps(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	here, _ := os.Getwd()
	abstract := "\x00" + strconv.Itoa(os.Getppid()) // the same with and without a supervisor
	var socks []int
	for range 5 {
		socks = append(socks, newSocket(r))
	}
	path := func() string {
		p := []string{"", "", "./", here + "/", "/proc/self/cwd/", "a/", "l//", "abs/", "a/./b/", "a/../", "../5/", "cwd/", "loop/", "nothing/", here + "/a/up/", "f/"}[r.IntN(16)]
		p += []string{"s", "t", "u", "f", "a", "dang", "s/", "s", "t", ".", ".."}[r.IntN(11)]
		switch r.IntN(20) {
		case 0:
			return abstract + p
		case 1:
			if long := p + strings.Repeat("x", r.IntN(110)); !strings.Contains(p, "..") { // a long one is refused
				return long
			}
		case 2:
			return ""
		}
		return p
	}
	pick := func() int { return socks[r.IntN(len(socks))] }
	for range 150 {
		text := ""
		var errno unix.Errno
		switch r.IntN(10) {
		case 0:
			i := r.IntN(len(socks))
			_ = unix.Close(socks[i])
			socks[i] = newSocket(r)
		case 1, 2, 3:
			raw := rawAddress(r, path())
			if r.IntN(8) == 0 {
				raw = []byte{unix.AF_INET, 0, 0, 0, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0}
			}
			text, errno = "bind", call3(unix.SYS_BIND, pick(), raw)
			text = fmt.Sprintf("%s %q", text, raw)
		case 4, 5, 6:
			raw := rawAddress(r, path())
			text, errno = "connect", call3(unix.SYS_CONNECT, pick(), raw)
			text = fmt.Sprintf("%s %q", text, raw)
		case 7:
			text, errno = "listen", errnoOf(unix.Listen(pick(), 128))
		case 8:
			unix.Umask(r.IntN(0o1000))
		default:
			text = "bad"
			switch r.IntN(5) {
			case 0:
				errno = call3(unix.SYS_CONNECT, 999, []byte("xxxx"))
			case 1:
				errno = call3(unix.SYS_BIND, 0, []byte("xxxx"))
			case 2:
				errno = call3(unix.SYS_CONNECT, 0, []byte("xxxx"))
			case 3:
				_, _, errno = unix.Syscall(unix.SYS_CONNECT, uintptr(pick()), 8, 16)
			case 4:
				_, _, errno = unix.Syscall(unix.SYS_BIND, uintptr(pick()), 8, uintptr(r.IntN(300)-100))
			}
		}
		for _, fd := range socks {
			text += describe(fd)
		}
		text = strings.ReplaceAll(text, here, "HERE")
		fmt.Println(text, int(errno), unix.ErrnoName(errno))
	}
}

func errnoOf(err error) (errno unix.Errno) {
	_ = errors.As(err, &errno)
	return errno
}

// newSocket mostly makes one that does not wait: it could for ever.
func newSocket(r *rand.Rand) int {
	family := []int{unix.AF_UNIX, unix.AF_UNIX, unix.AF_UNIX, unix.AF_INET}[r.IntN(4)]
	kind := unix.SOCK_STREAM
	if family == unix.AF_UNIX && r.IntN(3) == 0 {
		kind = unix.SOCK_SEQPACKET
	}
	fd, err := unix.Socket(family, kind|[]int{0, unix.SOCK_NONBLOCK}[r.IntN(2)]|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		panic(err)
	}
	return fd
}

// rawAddress is an address of a path, sometimes with a wrong family or length.
func rawAddress(r *rand.Rand, path string) []byte {
	raw := append([]byte{unix.AF_UNIX, 0}, path...)
	if r.IntN(2) == 0 && path != "" { // the empty abstract name is one for all programs of the machine
		raw = append(raw, 0)
	}
	switch r.IntN(16) {
	case 0:
		raw[0] = byte([]int{unix.AF_UNSPEC, unix.AF_MAX}[r.IntN(2)])
	case 1:
		raw = append(raw, "\x00more"...)
	}
	return raw
}

func call3(nr uintptr, fd int, raw []byte) unix.Errno {
	_, _, errno := unix.Syscall(nr, uintptr(fd), uintptr(unsafe.Pointer(&raw[0])), uintptr(len(raw)))
	return errno
}

// describe prints the names of a Unix socket and the user of its peer. A name with ".." is printed as what it leads to.
func describe(fd int) string {
	name := func(sa unix.Sockaddr, err error) string {
		u, ok := sa.(*unix.SockaddrUnix)
		if !ok {
			return fmt.Sprint(errnoOf(err))
		}
		if len(u.Name) == 6 && u.Name[0] == '@' {
			return "@any" // the kernel chose it
		}
		if strings.Contains(u.Name, "..") {
			dir, _ := filepath.EvalSymlinks(filepath.Dir(u.Name))
			abs, _ := filepath.Abs(dir)
			return abs + "/" + filepath.Base(u.Name)
		}
		return u.Name
	}
	if domain, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN); domain != unix.AF_UNIX {
		return " [inet]"
	}
	own, peer := name(unix.Getsockname(fd)), name(unix.Getpeername(fd))
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	return fmt.Sprintf(" [%s, %s, %d %d %v]", own, peer, cred.Uid, cred.Gid, err)
}

// TestSocketsDoWhatTheKernelDoes: random calls with sockets give the same results, names and files as without a supervisor.
func TestSocketsDoWhatTheKernelDoes(t *testing.T) {
	seeds := 12
	if os.Getenv("REMIT_SOAK") != "" {
		seeds = 600
	}
	for seed := range seeds {
		sameOps(t, "-sockets", seed, allow)
	}
}

// TestSocketsOfAnotherUserNamespace: the supervisor may use the sockets of a process whose user namespace it created, but not
// with the capabilities that it has there.
func TestSocketsOfAnotherUserNamespace(t *testing.T) {
	if err := exec.Command("unshare", "-Un", "true").Run(); err != nil {
		t.Skip("no user namespaces: ", err)
	}
	script := `import os, struct
from socket import *
def tried(f, *a):
    try: print(f(*a))
    except OSError as e: print(e)
u = socket(AF_UNIX, SOCK_STREAM); tried(u.bind, os.getcwd() + "/s"); tried(u.listen, 9)
c = socket(AF_UNIX, SOCK_STREAM); tried(c.connect, "s"); a, _ = u.accept()
for x in (a, c): print(struct.unpack("iii", x.getsockopt(SOL_SOCKET, SO_PEERCRED, 12))[1:])
x = socket(AF_UNIX, SOCK_STREAM); tried(x.bind, "\0name"); tried(x.listen, 9); y = socket(AF_UNIX, SOCK_STREAM); tried(y.connect, "\0name")
e = socket(AF_UNIX, SOCK_STREAM); tried(e.bind, "\0"); tried(socket(AF_UNIX, SOCK_STREAM).bind, "\0")
for port in (0, 1, 80, 1023, 1024, 8080):
    for family, host in ((AF_INET, "0.0.0.0"), (AF_INET6, "::")): tried(socket(family, SOCK_STREAM).bind, (host, port))
tried(socket(AF_INET, SOCK_DGRAM).bind, ("0.0.0.0", 53))
tried(socket(AF_INET, SOCK_STREAM).connect, ("127.0.0.1", 80))
os.chmod("s", 0); print(os.stat("s").st_uid == os.getuid())`
	one, two := t.TempDir(), t.TempDir()
	want, _ := bareIn(t, one, namespaces(), "python3", "-c", script)
	s := supervised{dir: two, decide: allow, namespaces: true}
	if got, _ := s.run(t, "python3", "-c", script); got != want || !strings.Contains(want, "Permission denied") {
		t.Errorf("%s\nwithout supervisor:\n%s", got, want)
	}
}
