//go:build linux && (amd64 || arm64)

package supervisor

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Notification is a stopped system call, struct seccomp_notif of seccomp_unotify(2).
type Notification struct {
	ID   uint64
	PID  uint32 // of the thread
	_    uint32
	Nr   int32
	Arch uint32
	_    uint64
	Args [6]uint64
}

// reply is struct seccomp_notif_resp.
type reply struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

// addfd is struct seccomp_notif_addfd.
type addfd struct {
	id         uint64
	flags      uint32
	from       uint32
	to         uint32
	descriptor uint32 // its flags
}

// ioctlAddFD is SECCOMP_IOCTL_NOTIF_ADDFD, ioctlValid SECCOMP_IOCTL_NOTIF_ID_VALID,
// ioctlSetFlags SECCOMP_IOCTL_NOTIF_SET_FLAGS.
const (
	ioctlAddFD    = 0x40182103
	ioctlValid    = 0x40082102
	ioctlSetFlags = 0x40082104
)

// Listener is the descriptor of a filter with notifications.
type Listener struct{ file *os.File }

// Listen uses a descriptor that seccomp(2) returned for SECCOMP_FILTER_FLAG_NEW_LISTENER. Where the
// kernel can (Linux 6.6), it wakes who listens on the processor of the stopped call.
func Listen(f *os.File) Listener {
	l := Listener{f}
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, f.Fd(), ioctlSetFlags, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP) // it is only slower
	return l
}

// control repeats a request that a signal interrupted, but that for the next call.
func (l Listener) control(request uintptr, with unsafe.Pointer) unix.Errno {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, l.file.Fd(), request, uintptr(with))
		if errno != unix.EINTR || request == unix.SECCOMP_IOCTL_NOTIF_RECV {
			return errno
		}
	}
}

// receive waits for a call. ENOENT: the process was killed meanwhile.
func (l Listener) receive(n *Notification) unix.Errno {
	*n = Notification{}
	return l.control(unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(n))
}

// valid reports whether the call still waits. Otherwise its process may be gone, and another one may have
// its number.
func (l Listener) valid(n *Notification) bool {
	return l.control(ioctlValid, unsafe.Pointer(&n.ID)) == 0
}

// fail ends a call with an error; 0: it returns 0.
func (l Listener) fail(n *Notification, with unix.Errno) {
	_ = l.control(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&reply{id: n.ID, errno: -int32(with)})) // else it is gone
}

// give ends a call with a number.
func (l Listener) give(n *Notification, value int64) {
	_ = l.control(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&reply{id: n.ID, value: value})) // else it is gone
}

// goOn ends a notification: the kernel carries the call out. The process may have changed its arguments.
func (l Listener) goOn(n *Notification) {
	_ = l.control(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&reply{id: n.ID, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE})) // else it is gone
}

// install gives the process a descriptor for the same open file as fd. at is its number there.
func (l Listener) install(n *Notification, fd int, closeOnExec bool) (at int64, errno unix.Errno) {
	a := addfd{id: n.ID, from: uint32(fd)}
	if closeOnExec {
		a.descriptor = unix.O_CLOEXEC
	}
	got, _, errno := unix.Syscall(unix.SYS_IOCTL, l.file.Fd(), ioctlAddFD, uintptr(unsafe.Pointer(&a)))
	return int64(got), errno
}

// hand ends a call with a new descriptor of the process. had is called when the process has it, undo when it does not get it,
// before the call ends; each may be nil. hand closes fd first. Otherwise a lock or the end of a FIFO would stay open for a
// moment after the process has closed it.
func (l Listener) hand(n *Notification, fd int, closeOnExec bool, had func() unix.Errno, undo func()) {
	at, errno := l.install(n, fd, closeOnExec)
	switch {
	case errno != 0 && undo != nil: // as EMFILE, of the process; or it is gone
		undo()
	case errno == 0 && had != nil:
		errno = had()
	}
	drop(fd)
	if errno != 0 {
		l.fail(n, errno)
		return
	}
	l.give(n, at)
}
