//go:build linux && (amd64 || arm64)

package linux_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/confine/egress"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

func init() { // before TestMain, as the other probes
	probes["sockets"] = socketsOfAllKinds
	probes["lookups"] = lookups
	probes["crowd"] = crowd
	probes["stuck"] = stuck
}

// socketsOfAllKinds connects sockets of all kinds to a port, and prints for each what came back.
func socketsOfAllKinds(port string) error {
	to, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	for _, protocol := range []int{unix.IPPROTO_TCP, unix.IPPROTO_MPTCP} {
		for _, address := range []unix.Sockaddr{&unix.SockaddrInet4{Port: to, Addr: [4]byte{127, 0, 0, 1}}, &unix.SockaddrInet6{Port: to, Addr: [16]byte{15: 1}},
			&unix.SockaddrInet6{Port: to, Addr: [16]byte{10: 255, 11: 255, 12: 127, 15: 1}}, &unix.SockaddrInet4{Port: to}} {
			for flags := range 64 {
				has := func(i int) bool { return flags&(1<<i) != 0 }
				got, err := oneSocket(protocol, address, has(0), has(1), has(2), has(3), has(4), has(5))
				if err != nil {
					got = "error: " + err.Error()
				}
				fmt.Printf("%d %T nonblocking=%v only6=%v bound=%v noport=%v twice=%v anew=%v: %s\n", protocol, address, has(0), has(1), has(2), has(3), has(4), has(5), got)
			}
		}
	}
	return errors.New("that is all")
}

func oneSocket(protocol int, to unix.Sockaddr, nonblocking, only6, bound, noPort, twice, anew bool) (string, error) {
	domain, kind := unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC
	var any unix.Sockaddr = &unix.SockaddrInet4{}
	if _, ok := to.(*unix.SockaddrInet6); ok {
		domain, any = unix.AF_INET6, &unix.SockaddrInet6{}
	}
	if nonblocking {
		kind |= unix.SOCK_NONBLOCK
	}
	fd, err := unix.Socket(domain, kind, protocol)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	if only6 && domain == unix.AF_INET6 {
		if err := unix.SetsockoptInt(fd, unix.SOL_IPV6, unix.IPV6_V6ONLY, 1); err != nil {
			return "", err
		}
	}
	if noPort && protocol == unix.IPPROTO_TCP {
		if err := unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1); err != nil {
			return "", err
		}
	}
	if bound {
		if err := unix.Bind(fd, any); err != nil {
			return "", err
		}
	}
	err = unix.Connect(fd, to)
	if anew && err == nil {
		dissolve := make([]byte, 16) // AF_UNSPEC
		if _, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&dissolve[0])), uintptr(len(dissolve))); errno != 0 {
			return "", errno
		}
		err = unix.Connect(fd, to)
	}
	if twice && (err == nil || err == unix.EINPROGRESS) {
		if err = unix.Connect(fd, to); err == unix.EISCONN || err == unix.EALREADY {
			err = nil
		}
	}
	if err != nil && err != unix.EINPROGRESS {
		return "", err
	}
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(conn, "?"); err != nil {
		return "", err
	}
	b, err := io.ReadAll(conn)
	return string(b), err
}

// lookups resolves names, one in each line, and connects to a port of each.
func lookups(list string) error {
	for line := range strings.Lines(list) {
		name, port := two(strings.TrimSpace(line))
		addrs, err := (&net.Resolver{PreferGo: true}).LookupHost(context.Background(), name)
		if err != nil {
			fmt.Printf("%s: no address\n", name)
			continue
		}
		conn, err := (&net.Dialer{Timeout: 20 * time.Second}).Dial("tcp", net.JoinHostPort(addrs[0], port))
		if err != nil {
			fmt.Printf("%s: %v\n", name, errors.Unwrap(err))
			continue
		}
		_ = conn.Close()
		fmt.Printf("%s: connected\n", name)
	}
	return errors.New("that is all")
}

// stuck has connections that never come about, since their sockets take no packet of this machine.
func stuck(port string) error {
	to, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	for i := range 40 {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|i%2*unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		if err := unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_MINTTL, 255); err != nil {
			return err
		}
		go func() { _ = unix.Connect(fd, &unix.SockaddrInet4{Port: to, Addr: [4]byte{127, 0, 0, 1}}) }()
	}
	fmt.Println("begun")
	time.Sleep(time.Second) // each has reached the kernel, or will not be waited for
	if _, err := os.ReadFile("/etc/passwd"); err != nil {
		return err
	}
	fmt.Println("read")
	select {}
}

// crowd makes many connections to a port, a hundred at a time.
func crowd(arg string) error {
	port, count := two(arg)
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	got := make(chan error, n)
	slots := make(chan struct{}, 100)
	for i := range n {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			conn, err := net.DialTimeout("tcp", "127.0.0.1:"+port, time.Minute)
			if err == nil {
				_, _ = fmt.Fprintf(conn, "%d", i)
				var b []byte
				b, err = io.ReadAll(conn)
				if err == nil && string(b) != fmt.Sprintf("outside %d", i) {
					err = fmt.Errorf("%q came back to %d", b, i)
				}
				_ = conn.Close()
			}
			got <- err
		})
	}
	wg.Wait()
	close(got)
	for err := range got {
		if err != nil {
			return err
		}
	}
	return errors.New("that is all")
}

// echo is a server of this machine that sends back the first bytes of each connection.
func echo(t *testing.T) (port string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				b := make([]byte, 16)
				n, _ := conn.Read(b)
				_, _ = conn.Write(append([]byte("outside "), b[:n]...))
			}()
		}
	}()
	_, port, err = net.SplitHostPort(l.Addr().String())
	must(t, err)
	return port
}

// directWorld is a world with the real proxy. It returns those that were made.
func directWorld(t *testing.T, src string) (*world, func() *egress.Proxy) {
	t.Helper()
	w := newWorld(t, src)
	var mu sync.Mutex
	var last *egress.Proxy
	w.box = linux.New(linux.Config{Getenv: os.LookupEnv, Egress: func(p permit.Permit, _ sandbox.Command) (sandbox.Proxy, error) {
		mu.Lock()
		defer mu.Unlock()
		last = egress.New(egress.Options{Permit: p})
		return last, nil
	}})
	t.Cleanup(func() { must(t, w.box.Close()) })
	return w, func() *egress.Proxy {
		mu.Lock()
		defer mu.Unlock()
		return last
	}
}

// A program that knows no proxy reaches what the policy allows, with whatever socket, and in each kind of sandbox.
func TestSocketsOfAllKindsAreLedToTheProxy(t *testing.T) {
	exe, err := os.Executable()
	must(t, err)
	port := echo(t)
	src := openPolicy + "network: {allow: ['tcp://localhost:" + port + "']}\n"
	check := func(t *testing.T, out, errs string) {
		t.Helper()
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if n := len(lines) - 1; n != 512 || !strings.Contains(lines[n], "that is all") {
			t.Fatalf("the probe did not end: %s%s", out, errs)
		}
		for _, line := range lines[:512] {
			// Such a socket has its port already, for IPv6 alone.
			refused := strings.Contains(line, "Inet6") && strings.Contains(line, "only6=true bound=true") && (strings.Contains(line, "noport=false") || strings.HasPrefix(line, "262 "))
			if strings.Contains(line, "outside ?") == refused {
				t.Errorf("%s", line)
			}
		}
	}
	everyTier(t, src, func(t *testing.T, src string) {
		w, _ := directWorld(t, src)
		for range 2 { // the second one may find the sandbox of the first one
			out, err := w.run(sandbox.Command{Argv: []string{exe, "probe", "sockets", port}, Timeout: time.Minute})
			must(t, err)
			check(t, string(out.Stdout.Data), string(out.Stderr.Data))
		}
	})
	t.Run("of an agent's session", func(t *testing.T) {
		w, _ := directWorld(t, src)
		program, err := os.ReadFile(exe) // its own folder is not seen there
		must(t, err)
		must(t, os.WriteFile(w.dir+"/probe", program, 0o755))
		for range 2 {
			out, err := w.inSession(t.Context(), "s", "./probe probe sockets "+port)
			must(t, err)
			check(t, out.out, out.err)
		}
	})
}

// Connections that never come about keep neither the command's other calls waiting nor its end.
func TestStuckConnectionsHoldNothingUp(t *testing.T) {
	exe, err := os.Executable()
	must(t, err)
	port := echo(t)
	w, _ := directWorld(t, openPolicy+"network: {allow: ['tcp://localhost:"+port+"']}\n")
	begun := time.Now()
	out, err := w.run(sandbox.Command{Argv: []string{exe, "probe", "stuck", port}, Timeout: 10 * time.Second})
	must(t, err)
	if got := string(out.Stdout.Data); !out.TimedOut || got != "begun\nread\n" {
		t.Errorf("%+v %q %q", out.TimedOut, got, out.Stderr.Data)
	}
	if took := time.Since(begun); took > 60*time.Second { // the kernel tries for 127 s
		t.Errorf("the command ended after %v", took)
	}
}

// Names have addresses that stand for them, and each connection is decided and recorded by its name.
func TestConnectionsAreDecidedByTheName(t *testing.T) {
	exe, err := os.Executable()
	must(t, err)
	everyTier(t, openPolicy+"network: {allow: ['tcp://good.invalid:7000']}\n", func(t *testing.T, src string) {
		w, made := directWorld(t, src)
		list := []string{"good.invalid 7000", "GOOD.invalid 7000", "good.invalid 7001", "bad.invalid 7000", "xn--bcher-kva.invalid 443", "a_b.invalid 80", "198.18.0.1 7000", "203.0.113.9 443", "2001:db8::9 443", "o'dd.invalid 7000"}
		out, err := w.run(sandbox.Command{Argv: []string{exe, "probe", "lookups", strings.Join(list, "\n")}, Timeout: time.Minute})
		must(t, err)
		var want strings.Builder
		for i, line := range list {
			name, _ := two(line)
			switch i {
			case 0, 1, 6: // the first name has the first address
				fmt.Fprintf(&want, "%s: connected\n", name)
			case 9:
				fmt.Fprintf(&want, "%s: no address\n", name)
			default:
				fmt.Fprintf(&want, "%s: connect: permission denied\n", name)
			}
		}
		if got := string(out.Stdout.Data); got != want.String()+"REFUSED that is all\n" {
			t.Errorf("got\n%swant\n%s%s", got, &want, out.Stderr.Data)
		}
		var reported []string
		for _, c := range made().Connections() {
			reported = append(reported, fmt.Sprintf("%s %s:%d %v", c.Via, c.Host, c.Port, c.Refused()))
		}
		got := strings.Join(reported, "\n")
		for _, line := range []string{"direct good.invalid:7000 false", "direct good.invalid:7001 true", "direct bad.invalid:7000 true", "direct xn--bcher-kva.invalid:443 true", "direct a_b.invalid:80 true", "direct 203.0.113.9:443 true", "direct 2001:db8::9:443 true"} {
			if !strings.Contains(got, line) {
				t.Errorf("%q is not in the report:\n%s", line, got)
			}
		}
		if strings.Contains(got, "198.18") {
			t.Errorf("the report has an address in place of its name:\n%s", got)
		}
	})
}

// Each of many connections at once comes to its own end, and the sandbox's own servers are reached beside them.
func TestManyDirectConnections(t *testing.T) {
	exe, err := os.Executable()
	must(t, err)
	port, count := echo(t), 10_000
	if os.Getenv("REMIT_SOAK") == "" {
		count = 500
	}
	w, made := directWorld(t, openPolicy+"network: {allow: ['tcp://127.0.0.1:"+port+"']}\n")
	out, err := w.run(sandbox.Command{Argv: []string{exe, "probe", "crowd", port + " " + strconv.Itoa(count)}, Timeout: time.Minute})
	must(t, err)
	if got := string(out.Stdout.Data); !strings.Contains(got, "that is all") {
		t.Errorf("%s%s", got, out.Stderr.Data)
	}
	if got := len(made().Connections()); got != count {
		t.Errorf("%d connections are reported, want %d", got, count)
	}
}
