//go:build linux && (amd64 || arm64)

package linux_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func init() {
	for name, probe := range kernelProbes {
		probes[name] = probe
	}
}

// cstring is a string for the kernel. It stays in memory.
func cstring(s string) uintptr {
	b := append([]byte(s), 0)
	cstrings.Store(&b[0], nil)
	return uintptr(unsafe.Pointer(&b[0]))
}

var cstrings sync.Map

// unshared tries new namespaces on a thread that is thrown away.
func unshared(flags int) error {
	errs := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		errs <- unix.Unshare(flags)
	}()
	return <-errs
}

// kernelProbes ask the kernel for what no command may have.
var kernelProbes = map[string]func(arg string) error{
	"unshare-mounts":  func(string) error { return unshared(unix.CLONE_NEWNS | unix.CLONE_FS) },
	"unshare-network": func(string) error { return unshared(unix.CLONE_NEWNET) },
	"unshare-user":    func(string) error { return unix.Unshare(unix.CLONE_NEWUSER) },
	"clone3": func(string) error {
		args := [11]uint64{0: unix.CLONE_NEWUSER | unix.CLONE_VFORK, 4: uint64(unix.SIGCHLD)}
		pid, _, e := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
		if e != 0 {
			return e
		}
		if pid == 0 {
			_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		return nil
	},
	"setns": func(string) error {
		fd, err := unix.Open("/proc/self/ns/uts", unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		return unix.Setns(fd, unix.CLONE_NEWUTS)
	},
	"fsopen":    func(string) error { return call(unix.SYS_FSOPEN, cstring("tmpfs"), 0) },
	"open_tree": func(string) error { return call(unix.SYS_OPEN_TREE, 0, cstring("/tmp"), 0) },
	"umount":    func(string) error { return unix.Unmount("/proc", unix.MNT_DETACH) },
	"chroot":    func(p string) error { return unix.Chroot(p) },
	"mknod":     func(p string) error { return unix.Mknod(p, unix.S_IFBLK|0o600, int(unix.Mkdev(7, 0))) },
	"whiteout":  func(p string) error { return unix.Mknod(p, unix.S_IFCHR|0o600, 0) },
	"bpf": func(string) error {
		a := [32]uint32{2, 4, 4, 1} // an array of one number
		return call(unix.SYS_BPF, 0, uintptr(unsafe.Pointer(&a)), 48)
	},
	"perf": func(string) error {
		var a unix.PerfEventAttr
		a.Type, a.Size, a.Config = 1, uint32(unsafe.Sizeof(a)), 9
		a.Bits = 1 << 5
		_, err := unix.PerfEventOpen(&a, 0, -1, -1, 0)
		return err
	},
	"vm_readv": func(arg string) error {
		of, at := two(arg)
		n, err := strconv.Atoi(of)
		if err != nil {
			return err
		}
		addr, err := strconv.Atoi(at)
		if err != nil {
			return err
		}
		b := make([]byte, 40)
		local := []unix.Iovec{{Base: &b[0], Len: 40}}
		_, err = unix.ProcessVMReadv(n, local, []unix.RemoteIovec{{Base: uintptr(addr), Len: 40}}, 0)
		return tell(b, err)
	},
	"pidfd_getfd": func(string) error {
		fd, err := unix.PidfdOpen(os.Getpid(), 0)
		if err != nil {
			return err
		}
		_, err = unix.PidfdGetfd(fd, 1, 0)
		return err
	},
	"kill": func(pid string) error {
		n, err := strconv.Atoi(pid)
		if err != nil {
			return err
		}
		return unix.Kill(n, 0)
	},
	"sethostname": func(string) error {
		n, err := os.Hostname()
		if err != nil {
			return err
		}
		return unix.Sethostname([]byte(n))
	},
	"settime": func(string) error {
		var ts unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_REALTIME, &ts)
		var tx unix.Timex
		_, err := unix.Adjtimex(&tx)
		return err
	},
	"nice": func(string) error { return unix.Setpriority(unix.PRIO_PROCESS, 0, -20) },
	"realtime": func(string) error {
		p := int32(1)
		return call(unix.SYS_SCHED_SETSCHEDULER, 0, 1, uintptr(unsafe.Pointer(&p)))
	},
	"x32":     func(string) error { return call(0x40000000 | 39) },
	"unknown": func(string) error { return call(467) },
	"new-privileges": func(string) error {
		v, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
		if err == nil && v == 0 {
			return nil
		}
		return fmt.Errorf("%d, %v", v, err)
	},
	"capabilities": func(string) error {
		b, err := os.ReadFile("/proc/self/status")
		if err != nil {
			return err
		}
		for _, l := range strings.Split(string(b), "\n") {
			if f := strings.Fields(l); len(f) == 2 && strings.HasPrefix(f[0], "Cap") && strings.Trim(f[1], "0") != "" {
				return nil
			}
		}
		return fmt.Errorf("none")
	},
	"core": func(string) error {
		var l unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_CORE, &l); err != nil || l.Max == 0 {
			return fmt.Errorf("%v %v", l, err)
		}
		return nil
	},
	"inject": func(string) error {
		c := byte('x')
		return call(unix.SYS_IOCTL, 0, unix.TIOCSTI, uintptr(unsafe.Pointer(&c)))
	},
	"inject-wide": func(string) error {
		c := byte('x')
		return call(unix.SYS_IOCTL, 0, 1<<32|unix.TIOCSTI, uintptr(unsafe.Pointer(&c)))
	},
	"shm": func(key string) error {
		k, err := strconv.Atoi(key)
		if err == nil {
			_, err = unix.SysvShmGet(k, 4096, 0)
		}
		return err
	},
	"fd-of": func(arg string) error {
		of, n := two(arg)
		pid, err := strconv.Atoi(of)
		if err != nil {
			return err
		}
		target, err := strconv.Atoi(n)
		if err != nil {
			return err
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return err
		}
		got, err := unix.PidfdGetfd(fd, target, 0)
		if err != nil {
			return err
		}
		b := make([]byte, 40)
		_, err = unix.Pread(got, b, 0)
		return tell(b, err)
	},
	"signal": func(pid string) error {
		n, err := strconv.Atoi(pid)
		if err != nil {
			return err
		}
		return unix.Kill(n, unix.SIGTERM)
	},
	"signal-pidfd": func(pid string) error {
		n, err := strconv.Atoi(pid)
		if err != nil {
			return err
		}
		fd, err := unix.PidfdOpen(n, 0)
		if err != nil {
			return err
		}
		return unix.PidfdSendSignal(fd, unix.SIGTERM, nil, 0)
	},
	"signal-all": func(string) error {
		signal.Ignore(unix.SIGTERM, unix.SIGUSR1)
		return errors.Join(unix.Kill(-1, unix.SIGUSR1), unix.Kill(-1, unix.SIGTERM))
	},
	// owner has the kernel send a signal for it.
	"owner": func(pid string) error {
		n, err := strconv.Atoi(pid)
		if err != nil {
			return err
		}
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		if _, err := unix.FcntlInt(uintptr(pair[0]), unix.F_SETOWN, n); err != nil {
			return err
		}
		if _, err := unix.FcntlInt(uintptr(pair[0]), unix.F_SETFL, unix.O_ASYNC|unix.O_NONBLOCK); err != nil {
			return err
		}
		_, err = unix.Write(pair[1], []byte("x"))
		return err
	},
	"attach": func(pid string) error {
		n, err := strconv.Atoi(pid)
		if err != nil {
			return err
		}
		runtime.LockOSThread()
		return unix.PtraceSeize(n)
	},
	"kcmp": func(pid string) error {
		n, err := strconv.Atoi(pid)
		if err != nil {
			return err
		}
		return call(unix.SYS_KCMP, uintptr(n), uintptr(n), 1, 0, 0)
	},
	"limits": func(pid string) error {
		n, err := strconv.Atoi(pid)
		if err != nil {
			return err
		}
		var l unix.Rlimit
		return unix.Prlimit(n, unix.RLIMIT_NOFILE, nil, &l)
	},
	"ioprio": func(string) error { return call(unix.SYS_IOPRIO_SET, 1, 0, 1<<13) },
	"getattr": func(string) error {
		var a [24]byte
		return call(468, ^uintptr(99), cstring("/"), uintptr(unsafe.Pointer(&a)), 24, 0)
	},
	"mq":  func(name string) error { return call(unix.SYS_MQ_OPEN, cstring(name), unix.O_RDONLY, 0, 0) },
	"sem": func(key string) error { n, _ := strconv.Atoi(key); return call(unix.SYS_SEMGET, uintptr(n), 0, 0) },
	"msg": func(key string) error { n, _ := strconv.Atoi(key); return call(unix.SYS_MSGGET, uintptr(n), 0) },
	// netlink opens a socket of each of its protocols but the one of addresses and routes, and changes a route with that one.
	"netlink": func(string) error {
		for protocol := 1; protocol < 32; protocol++ {
			if err := opened(unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, protocol)); err == nil {
				return nil
			}
		}
		if err := opened(pairOf(unix.AF_NETLINK)); err == nil {
			return nil
		}
		return linkDown()
	},
	"raw":        func(string) error { return opened(unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)) },
	"raw6":       func(string) error { return opened(unix.Socket(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6)) },
	"pivot":      func(p string) error { return unix.PivotRoot(p, p) },
	"bind":       func(p string) error { return unix.Mount(p, p, "", unix.MS_BIND, "") },
	"remount":    func(string) error { return unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, "") },
	"cgroupfs":   func(p string) error { return unix.Mount("none", p, "cgroup2", 0, "") },
	"dumpable":   func(string) error { return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}) },
	"user-write": func(p string) error { return os.WriteFile(p, []byte("remit-canary"), 0) },
	// families opens a socket of every other family there is.
	"families": func(string) error {
		var got []string
		for f := range 64 {
			if f == unix.AF_UNIX || f == unix.AF_INET || f == unix.AF_INET6 || f == unix.AF_NETLINK {
				continue
			}
			for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_RAW, unix.SOCK_SEQPACKET} {
				if fd, err := unix.Socket(f, kind, 0); err == nil {
					got = append(got, strconv.Itoa(f))
					_ = unix.Close(fd)
				}
				if pair, err := unix.Socketpair(f, kind, 0); err == nil {
					got = append(got, strconv.Itoa(f))
					_, _ = unix.Close(pair[0]), unix.Close(pair[1])
				}
			}
		}
		if len(got) == 0 {
			return errors.New("none")
		}
		return tell([]byte(strings.Join(got, " ")), nil)
	},
	// numbers makes system calls with arguments that none of them takes, and says
	// how each was refused.
	"numbers": func(list string) error {
		for _, nr := range strings.Fields(list) {
			n, err := strconv.Atoi(nr)
			if err != nil {
				return err
			}
			bad := ^uintptr(0)
			_, _, e := unix.RawSyscall6(uintptr(n), bad, bad, bad, bad, bad, bad)
			fmt.Printf("%s %d\n", nr, e)
		}
		return errors.New("as above")
	},
	// compat makes system calls by the door for programs of 32 bits.
	"compat": func(string) error {
		exe, err := os.Executable()
		if err != nil {
			return err
		}
		out, err := exec.Command(exe, "probe", "compat-now", "").CombinedOutput()
		if bytes.Contains(out, []byte("SUCCEEDED")) {
			return nil
		}
		if bytes.Contains(out, []byte("unexpected fault address")) { // as where the machine starts its kernel without programs of 32 bits
			return unix.ENOSYS
		}
		return fmt.Errorf("%w, %q", err, out[:min(len(out), 80)])
	},
	"compat-now": compat,
	// exhaust takes all it can get of what the kernel counts for a user, and
	// keeps it until a file is there.
	"exhaust": func(arg string) error {
		ready, stop := two(arg)
		counts := map[string]int{}
		for name, one := range map[string]func() error{
			"inotify": func() error { _, err := unix.InotifyInit(); return err },
			"queues": func() error {
				return call(unix.SYS_MQ_OPEN, cstring(strconv.Itoa(counts["queues"])), unix.O_CREAT|unix.O_RDWR, 0o600, 0)
			},
			"pipes": func() error {
				var p [2]int
				if err := unix.Pipe(p[:]); err != nil {
					return err
				}
				_, err := unix.FcntlInt(uintptr(p[0]), unix.F_SETPIPE_SZ, 1<<20)
				return err
			},
			"semaphores": func() error { return call(unix.SYS_SEMGET, 0, 100, unix.IPC_CREAT|0o600) },
			"timers":     func() error { var id int32; return call(unix.SYS_TIMER_CREATE, 0, 0, uintptr(unsafe.Pointer(&id))) },
			"events":     func() error { _, err := unix.Eventfd(0, 0); return err },
		} {
			for counts[name] < 400 && one() == nil {
				counts[name]++
			}
		}
		if err := os.WriteFile(ready, []byte(fmt.Sprint(counts)), 0o644); err != nil {
			return err
		}
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			if _, err := os.Stat(stop); err == nil {
				return errors.New("stopped")
			}
		}
		return errors.New("nobody stopped it")
	},
}

func pairOf(family int) (int, error) {
	pair, err := unix.Socketpair(family, unix.SOCK_RAW, 0)
	return pair[0], err
}

// linkDown asks the kernel to take the loopback interface down.
func linkDown() error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	b := make([]byte, unix.NLMSG_HDRLEN+unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(b, uint32(len(b))) //nolint:gosec // it is short
	binary.NativeEndian.PutUint16(b[4:], unix.RTM_NEWLINK)
	binary.NativeEndian.PutUint16(b[6:], unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	binary.NativeEndian.PutUint32(b[unix.NLMSG_HDRLEN+4:], 1)            // the index of lo
	binary.NativeEndian.PutUint32(b[unix.NLMSG_HDRLEN+12:], unix.IFF_UP) // the flag that changes, to 0
	if err := unix.Sendto(fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 1<<12)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return err
	}
	if n < unix.NLMSG_HDRLEN+4 || binary.NativeEndian.Uint16(answer[4:]) != unix.NLMSG_ERROR {
		return unix.EPROTO
	}
	if code := int32(binary.NativeEndian.Uint32(answer[unix.NLMSG_HDRLEN:])); code != 0 { //nolint:gosec // it is signed
		return unix.Errno(-code)
	}
	return nil
}
