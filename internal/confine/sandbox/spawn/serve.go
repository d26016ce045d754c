//go:build linux && (amd64 || arm64)

package spawn

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	processName = "remit: spawner" // argv[0] of the spawner, alone
	controlFD   = 3                // its end of the socket
	requestFDs  = 2                // program, status
)

// request asks for one sandbox; its descriptors travel beside it.
type request struct {
	Seq   uint64
	Flags uint64 // of clone
}

// report is the spawner's answer to a request.
type report struct {
	Seq    uint64
	Kind   uint64 // reportStarted (with a pidfd beside it) or reportEnded
	Errno  uint64
	CPU    uint64 // microseconds of the whole tree
	MaxRSS uint64 // bytes of its largest process
}

const (
	reportStarted = 1
	reportEnded   = 2
)

// self is the running binary, opened before it could be replaced.
var self = -1

// The one init with an effect in Remit: a process that was started as the
// spawner becomes it here, before anything else of the program has run.
func init() {
	if isSpawner() {
		unix.Exit(serve())
	}
	if fd, err := unix.Open("/proc/self/exe", unix.O_PATH|unix.O_CLOEXEC, 0); err == nil {
		self = fd
	}
}

// isSpawner reports whether Start has started this process: the name alone, or an
// inherited socket alone, is not enough, and no variable plays a part.
func isSpawner() bool {
	if len(os.Args) != 1 || os.Args[0] != processName {
		return false
	}
	kind, err := unix.GetsockoptInt(controlFD, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil || kind != unix.SOCK_SEQPACKET {
		return false
	}
	cred, err := unix.GetsockoptUcred(controlFD, unix.SOL_SOCKET, unix.SO_PEERCRED)
	return err == nil && int(cred.Pid) == unix.Getppid() && int(cred.Uid) == unix.Getuid()
}

type job struct {
	seq   uint64
	pid   int
	pidfd int
}

// serve runs on the process's first thread, which lives as long as the process:
// sandboxes ask to be killed with the thread that made them.
func serve() int {
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
	heedSignals()
	if unix.Getuid() == 0 {
		if err := unix.Setgroups(nil); err != nil {
			return 1
		}
	}
	var jobs []job
	for {
		fds := make([]unix.PollFd, 1, len(jobs)+1)
		fds[0] = unix.PollFd{Fd: controlFD, Events: unix.POLLIN}
		for _, j := range jobs {
			fds = append(fds, unix.PollFd{Fd: int32(j.pidfd), Events: unix.POLLIN})
		}
		if err := wait(fds); err != nil {
			if err == unix.EINTR {
				continue
			}
			return 1
		}
		left := jobs[:0]
		for i, j := range jobs {
			if fds[i+1].Revents == 0 || !reap(j) {
				left = append(left, j)
			}
		}
		jobs = left
		if fds[0].Revents == 0 {
			continue
		}
		j, ok := accept()
		if !ok {
			return 0 // the runtime is gone, and with this process every sandbox
		}
		if j.pid != 0 {
			jobs = append(jobs, j)
		}
	}
}

// soon is how many milliseconds a further event is waited for without telling
// the Go runtime, which would wake other threads meanwhile.
const soon = 20

// wait waits for an event.
func wait(fds []unix.PollFd) error {
	limit := unix.Timespec{Nsec: soon * 1e6}
	n, _, e := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&fds[0])), uintptr(len(fds)), uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
	if e != 0 {
		return e
	}
	if n > 0 {
		return nil
	}
	_, err := unix.Poll(fds, -1)
	return err
}

// heedSignals stops ignoring signals, which commands would inherit.
func heedSignals() {
	for sig := uintptr(1); sig <= 64; sig++ {
		var act, none [4]uint64 // the kernel's struct sigaction: its first word is the handler
		_, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, 0, uintptr(unsafe.Pointer(&act)), 8, 0, 0)
		if e == 0 && act[0] == 1 {
			_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&none)), 0, 8, 0, 0)
		}
	}
}

func reap(j job) bool {
	var ws unix.WaitStatus
	var ru unix.Rusage
	pid, err := unix.Wait4(j.pid, &ws, unix.WNOHANG|unix.WALL, &ru)
	if err == unix.EINTR || err == nil && pid == 0 {
		return false
	}
	_ = unix.Close(j.pidfd)
	tell(report{Seq: j.seq, Kind: reportEnded, MaxRSS: uint64(ru.Maxrss) << 10,
		CPU: uint64(ru.Utime.Nano()+ru.Stime.Nano()) / 1000}, nil)
	return true
}

func tell(r report, fds []int) {
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	msg := unsafe.Slice((*byte)(unsafe.Pointer(&r)), unsafe.Sizeof(r))
	for {
		if err := unix.Sendmsg(controlFD, msg, oob, nil, unix.MSG_NOSIGNAL); err != unix.EINTR {
			return // a runtime that no longer listens is noticed as the end of its requests
		}
	}
}

// accept reads one request and starts its sandbox.
func accept() (j job, ok bool) {
	var req request
	buf := unsafe.Slice((*byte)(unsafe.Pointer(&req)), unsafe.Sizeof(req))
	oob := make([]byte, unix.CmsgSpace(4*requestFDs))
	n, oobn, flags, _, err := unix.Recvmsg(controlFD, buf, oob, unix.MSG_CMSG_CLOEXEC)
	if err == unix.EINTR {
		return job{}, true
	}
	if err != nil || n == 0 {
		return job{}, false
	}
	fds := rights(oob[:oobn])
	defer func() {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	}()
	if n != len(buf) || flags&unix.MSG_CTRUNC != 0 || len(fds) != requestFDs {
		tell(report{Seq: req.Seq, Kind: reportStarted, Errno: uint64(unix.EPROTO)}, nil)
		return job{}, true
	}
	l, err := load(fds[0])
	if err != nil {
		errno, _ := err.(unix.Errno)
		tell(report{Seq: req.Seq, Kind: reportStarted, Errno: uint64(errno)}, nil)
		return job{}, true
	}
	defer l.unload()
	l.h.Regs[RegStatus] = uint64(fds[1])
	var pidfd int32
	pid, errno := launch(l, uintptr(req.Flags), &pidfd)
	if errno != 0 {
		tell(report{Seq: req.Seq, Kind: reportStarted, Errno: uint64(errno)}, nil)
		return job{}, true
	}
	tell(report{Seq: req.Seq, Kind: reportStarted}, []int{int(pidfd)})
	return job{seq: req.Seq, pid: int(pid), pidfd: int(pidfd)}, true
}

func rights(oob []byte) []int {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	var out []int
	for i := range msgs {
		if fds, err := unix.ParseUnixRights(&msgs[i]); err == nil {
			out = append(out, fds...)
		}
	}
	return out
}
