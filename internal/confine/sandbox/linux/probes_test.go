//go:build linux && (amd64 || arm64)

package linux_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

// The test binary is its own probe: "probe NAME ARG" tries one thing that a
// confined command must not be able to do and says whether it could.
func TestMain(m *testing.M) {
	if len(os.Args) >= 3 && os.Args[1] == "probe" {
		if err := probes[os.Args[2]](strings.Join(os.Args[3:], " ")); err != nil {
			fmt.Println("REFUSED", err)
		} else {
			fmt.Println("SUCCEEDED")
		}
		unix.Exit(0) // os.Exit would wait a second for the race detector
	}
	os.Exit(m.Run())
}

func call(nr uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, e := unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]); e != 0 {
		return e
	}
	return nil
}

var probes = map[string]func(arg string) error{
	"write": func(p string) error { return os.WriteFile(p, []byte("overwritten"), 0o644) },
	"chmod": func(p string) error { return os.Chmod(p, 0o600) },
	"setuid": func(p string) error {
		_ = os.Remove(p) // of another try
		fd, err := unix.Open(p, unix.O_CREAT|unix.O_WRONLY, 0o4755)
		if err == nil {
			return unix.Close(fd)
		}
		if err := os.WriteFile(p, nil, 0o755); err != nil {
			return err
		}
		return unix.Chmod(p, 0o4755)
	},
	"utime":  func(p string) error { return os.Chtimes(p, time.Unix(1, 0), time.Unix(1, 0)) },
	"remove": os.Remove,
	"link": func(p string) error {
		old, dst, _ := strings.Cut(p, " ")
		return os.Link(old, dst)
	},
	"dial": func(a string) error {
		c, err := net.DialTimeout("tcp", a, time.Second)
		if err == nil {
			err = c.Close()
		}
		return err
	},
	"datagram": func(a string) error {
		c, err := net.Dial("udp", a)
		if err == nil {
			_, err = c.Write([]byte("x"))
		}
		return err
	},
	"listen": func(a string) error {
		l, err := net.Listen("tcp", a)
		if err == nil {
			err = l.Close()
		}
		return err
	},
	"fetch": func(a string) error {
		resp, err := http.Get(a)
		if err != nil {
			return err
		}
		_, err = io.Copy(os.Stdout, resp.Body)
		return err
	},
	"unix": func(a string) error {
		c, err := net.Dial("unix", a)
		if err == nil {
			err = c.Close()
		}
		return err
	},
	"saylate": func(a string) error {
		if err := os.WriteFile("out/begun", nil, 0o644); err != nil {
			return err
		}
		for {
			if _, err := os.Stat("out/swapped"); err == nil {
				return say(a)
			}
		}
	},
	"say": say,
	"userns": func(string) error {
		cmd := exec.Command("/bin/true")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}
		return cmd.Run()
	},
	"mount": func(p string) error { return unix.Mount("none", p, "tmpfs", 0, "size=4k") },
	"ptrace": func(string) error {
		cmd := exec.Command("/bin/true")
		cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
		if err := cmd.Start(); err != nil {
			return err
		}
		return cmd.Process.Kill()
	},
	"keyctl": func(string) error { _, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_PROCESS_KEYRING, true); return err },
	"add_key": func(string) error {
		_, err := unix.AddKey("user", "canary", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
		return err
	},
	"io_uring": func(string) error {
		var p [120]byte
		return call(unix.SYS_IO_URING_SETUP, 2, uintptr(unsafe.Pointer(&p)))
	},
	"userfaultfd": func(string) error { return call(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|1) },
	"handle":      func(p string) error { _, _, err := unix.NameToHandleAt(unix.AT_FDCWD, p, 0); return err },
	"personality": func(string) error { return call(unix.SYS_PERSONALITY, 0x0040000) },
	"socket": func(f string) error {
		family, err := strconv.Atoi(f)
		if err != nil {
			return err
		}
		_, err = unix.Socket(family, unix.SOCK_DGRAM, 0)
		return err
	},
	"env": func(name string) error {
		if v, ok := os.LookupEnv(name); ok && v != "" {
			return tell([]byte(v), nil)
		}
		return fmt.Errorf("not set")
	},
	"fds": func(string) error {
		own, err := os.Executable() // the spawner's hook holds it open
		if err != nil {
			return err
		}
		for fd := 3; fd < 1024; fd++ {
			link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
			if err == nil && link != own && !strings.HasPrefix(link, "anon_inode:") && !strings.HasPrefix(link, "/proc/") && !strings.HasPrefix(link, "/sys/") {
				return nil
			}
		}
		return fmt.Errorf("none")
	},
	"daemon": func(token string) error {
		cmd := exec.Command("/bin/sh", "-c", "trap '' TERM HUP INT; exec sleep "+token)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		return cmd.Start()
	},
	"deaf": func(string) error {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		time.Sleep(time.Minute)
		return nil
	},
	"forks": func(string) error {
		for i := range 1000 {
			pid, err := syscall.ForkExec("/bin/sleep", []string{"sleep", "30"}, &syscall.ProcAttr{})
			if err != nil || pid == 0 {
				return fmt.Errorf("after %d: %w", i, err)
			}
		}
		return nil
	},
	"memory": func(string) error {
		keep := [][]byte{}
		for range 600 {
			b, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
			if err != nil {
				return err
			}
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			keep = append(keep, b)
		}
		_ = keep
		return nil
	},
	// parent makes a sandbox itself and waits in it, to be killed.
	"parent": func(arg string) error {
		dir, token, _ := strings.Cut(arg, " ")
		return boxed(dir, "sleep", token)
	},
	// touch makes a file from a sandbox that it makes itself.
	"touch": func(arg string) error {
		dir, file, _ := strings.Cut(arg, " ")
		return boxed(dir, "touch", file)
	},
}

// permitFor is a permit for a workspace under a policy.
func permitFor(dir, src string) (permit.Permit, error) {
	pol, err := policy.Parse("test.yaml", []byte(src))
	if err != nil {
		return permit.Permit{}, err
	}
	rules, err := pol.Bind(policy.Env{Workspace: dir, Path: []string{"/usr/bin", "/bin"}})
	if err != nil {
		return permit.Permit{}, err
	}
	chain := policy.Chain{rules}
	return permit.Mint(permit.Terms{Chain: chain, Limits: chain.Limits(), Env: tool.Env{Workspace: dir}}), nil
}

// boxed runs a command in a sandbox of this process's own.
func boxed(dir string, argv ...string) error {
	p, err := permitFor(dir, openPolicy)
	if err != nil {
		return err
	}
	_, err = linux.New(linux.Config{}).Run(context.Background(), p, sandbox.Command{Argv: argv, Dir: dir})
	return err
}

// bare runs a probe without a sandbox.
func bare(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(os.Args[0], append([]string{"probe"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("probe %v: %v\n%s", args, err, out)
	}
	return string(bytes.TrimSpace(out))
}

// confined runs a probe in the sandbox.
func (w *world) confined(args ...string) string {
	w.t.Helper()
	exe, err := os.Executable()
	must(w.t, err)
	out, err := w.run(sandbox.Command{Argv: append([]string{exe, "probe"}, args...), Timeout: time.Minute})
	if err != nil {
		w.t.Fatalf("probe %v: %v", args, err)
	}
	if len(out.Stdout.Data) == 0 {
		w.t.Fatalf("probe %v said nothing: %+v\n%s", args, out, out.Stderr.Data)
	}
	return string(bytes.TrimSpace(out.Stdout.Data))
}

// survivors counts the processes whose command line holds the token.
func survivors(t *testing.T, token string) int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	must(t, err)
	n := 0
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		b, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if err == nil && bytes.Contains(b, []byte(token)) && e.Name() != strconv.Itoa(os.Getpid()) {
			n++
		}
	}
	return n
}

// childrenNamed lists this process's children with that command line.
func childrenNamed(t *testing.T, name string) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	must(t, err)
	var out []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		line, err1 := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		stat, err2 := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err1 != nil || err2 != nil || string(line) != name+"\x00" {
			continue
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		if f := strings.Fields(rest); len(f) > 1 && f[1] == strconv.Itoa(os.Getpid()) {
			out = append(out, pid)
		}
	}
	return out
}

// say connects to a socket, says hello with a descriptor, which must not arrive, and prints what
// it is answered.
func say(a string) error {
	c, err := net.Dial("unix", a)
	if err != nil {
		return err
	}
	rights := unix.UnixRights(int(os.Stdout.Fd()))
	if _, _, err := c.(*net.UnixConn).WriteMsgUnix([]byte("hello"), rights, nil); err != nil {
		return err
	}
	if err := c.(*net.UnixConn).CloseWrite(); err != nil {
		return err
	}
	b, err := io.ReadAll(c)
	fmt.Printf("%s", b)
	if err == nil && len(b) == 0 {
		return errors.New("no answer")
	}
	return err
}
