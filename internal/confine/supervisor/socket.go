//go:build linux && (amd64 || arm64)

package supervisor

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// SocketRules are more rules for the filter of [Rules]: the supervisor then carries out bind(2) and connect(2), and
// decides about Unix sockets with a path. Without them the kernel carries out both.
//
// The kernel must not go on with such a call after a look at it: another thread can change the address, and
// can put another socket in the place of the descriptor. So the supervisor makes all the calls itself, also for
// other addresses, with a duplicate of the socket (pidfd_getfd(2)) and an address of its own. A duplicate takes
// the same right as reading the memory of the process: to trace it. The creator of the process's user
// namespace has it. The socket stays in its network namespace, and abstract names belong to that.
//
// Landlock's rules about sockets do not bind the supervisor. So processes with these rules
// need a network namespace of their own. In it the supervisor refuses the ports below 1024 by itself.
//
// The kernel takes the credentials of a peer (SO_PEERCRED) from the process that calls connect(2) or listen(2). A
// client sees those of the server, which calls listen by itself. A server sees the user and group of the client, but the
// process number and the security label (SO_PEERSEC) of the supervisor. In another pid namespace the number is 0, and a
// descriptor of the peer (SO_PEERPIDFD) cannot be signalled. A server outside that authorizes by the number takes the client
// for the supervisor: Decide should refuse such servers. Where a server needs the number, and no socket within reach is
// protected, leave out the rules. SCM_CREDENTIALS are right in all cases.
//
// Datagram sockets can name a path with each message, in memory that a filter cannot read. The
// supervisor would have to send each message of each socket itself, with the descriptors and credentials
// beside it. So processes get no Unix datagram sockets: EACCES. The other kinds send to their peer only.
func SocketRules() map[uint32][]bpf.Instruction {
	ask, leave := bpf.RetConstant{Val: unix.SECCOMP_RET_USER_NOTIF}, bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}
	refuse := bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.EACCES)}
	kinds := []bpf.Instruction{
		bpf.LoadAbsolute{Off: argsOffset, Size: 4}, bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_UNIX, SkipFalse: 5},
		bpf.LoadAbsolute{Off: argsOffset + 8, Size: 4}, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: socketKinds},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SOCK_DGRAM, SkipTrue: 1}, bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SOCK_RAW, SkipFalse: 1}, // which are datagrams, too
		refuse, leave,
	}
	out := map[uint32][]bpf.Instruction{unix.SYS_SOCKET: kinds, unix.SYS_SOCKETPAIR: kinds}
	for nr := range socketCalls {
		out[nr] = []bpf.Instruction{ask}
	}
	return out
}

// socketCalls are the calls of SocketRules that the supervisor carries out.
var socketCalls = map[uint32]func(*call) (int, unix.Errno){unix.SYS_BIND: (*call).bind, unix.SYS_CONNECT: (*call).connect}

// socketKinds are the bits of a socket's type without its flags.
const socketKinds = 0xf

// address is a socket address as the process gave it, and the path in it, if it has one.
type address struct {
	raw  []byte
	path string
}

const (
	addressMax = 128 // of any family
	unixMax    = 110 // sizeof(struct sockaddr_un)
	pathOffset = 2   // of sun_path
)

// address reads the address of a call.
func (c *call) address() (a address, errno unix.Errno) {
	size := int(int32(uint32(c.n.Args[2])))
	if size < 0 || size > addressMax {
		return a, unix.EINVAL
	}
	a.raw = make([]byte, size, addressMax)
	if size == 0 {
		return a, 0
	}
	n, err := unix.ProcessVMReadv(int(c.n.PID), []unix.Iovec{{Base: &a.raw[0], Len: uint64(size)}}, []unix.RemoteIovec{{Base: uintptr(c.n.Args[1]), Len: size}}, 0)
	if err != nil || n != size {
		return a, unix.EFAULT
	}
	if size > pathOffset && size <= unixMax && a.raw[pathOffset] != 0 && binary.NativeEndian.Uint16(a.raw) == unix.AF_UNIX {
		name, _, _ := bytes.Cut(a.raw[pathOffset:], []byte{0})
		a.path = string(name)
	}
	return a, 0
}

// with makes a system call with a socket and the address.
func (a address) with(nr uintptr, socket int) unix.Errno {
	_, _, errno := unix.Syscall(nr, uintptr(socket), uintptr(unsafe.Pointer(unsafe.SliceData(a.raw))), uintptr(len(a.raw)))
	return errno
}

// duplicate opens a descriptor of the process once more.
func (c *call) duplicate(arg int) (int, unix.Errno) {
	number := int(int32(uint32(c.n.Args[arg])))
	pidfd, err := unix.PidfdOpen(int(c.n.PID), unix.O_EXCL) // PIDFD_THREAD
	leader := errnoOf(err) == unix.EINVAL                   // before Linux 6.9
	if leader {
		s, errno := c.status()
		if errno != 0 {
			return -1, errno
		}
		pidfd, err = unix.PidfdOpen(s.leader, 0)
	}
	if err != nil {
		return -1, errnoOf(err)
	}
	defer drop(pidfd)
	if errno := c.still(); errno != 0 {
		return -1, errno
	}
	fd, err := unix.PidfdGetfd(pidfd, number, 0)
	if err != nil {
		return -1, errnoOf(err)
	}
	c.opened, c.early = append(c.opened, fd), true
	if leader { // the thread may have descriptors of its own
		var got, want unix.Stat_t
		if unix.Fstat(fd, &got) != nil || unix.Stat(procPath(c.n.PID, "fd/"+strconv.Itoa(number)), &want) != nil || got.Dev != want.Dev || got.Ino != want.Ino {
			return -1, unix.EBADF
		}
	}
	return fd, 0
}

// domainOf is the address family of a socket, which cannot change.
func domainOf(fd int) (int, unix.Errno) {
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	return domain, errnoOf(err)
}

// connect is connect(2).
func (c *call) connect() (int, unix.Errno) {
	socket, errno := c.duplicate(0)
	if errno != 0 {
		return -1, errno
	}
	a, errno := c.address()
	if errno != 0 {
		return -1, errno
	}
	domain, errno := domainOf(socket)
	if errno == 0 && domain == unix.AF_UNIX && a.path != "" {
		a, errno = c.decided(a)
	}
	if errno == 0 {
		errno = c.still()
	}
	if errno != 0 {
		return -1, errno
	}
	if d := c.detour(socket, domain, a); d != nil {
		return c.apart(func(c *call) (int, unix.Errno) { return c.follow(d, socket, domain) })
	}
	flags, err := unix.FcntlInt(uintptr(socket), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_NONBLOCK != 0 {
		return -1, a.with(unix.SYS_CONNECT, socket)
	}
	return c.apart(func(*call) (int, unix.Errno) { return -1, a.with(unix.SYS_CONNECT, socket) })
}

// decided finds the socket of a path, and returns an address that leads to it and nowhere else.
func (c *call) decided(a address) (address, unix.Errno) {
	base, errno := c.base(-1, a.path)
	if errno != 0 {
		return a, errno
	}
	to, errno := c.find(base, a.path, true)
	if errno == 0 && to.is(unix.S_IFSOCK) { // else the kernel refuses it
		_, errno = c.askAt(Request{Act: Read | Write | Connect, Own: c.made.has(to.fd)}, to)
	}
	raw := append(make([]byte, 0, unixMax), a.raw[:pathOffset]...)
	return address{raw: append(append(raw, fdPath(to.fd)...), 0)}, errno
}

// made holds the files of the sockets that the processes bound. A file can have another name by now.
type made struct {
	sync.Mutex
	files map[FileID]bool
}

// maxMade bounds how many sockets are remembered.
const maxMade = 10_000

func (m *made) add(fd int) {
	id, _, err := Identify(fd, "")
	if err != nil {
		return // no process connects to it
	}
	m.Lock()
	defer m.Unlock()
	if m.files == nil || len(m.files) >= maxMade {
		m.files = map[FileID]bool{}
	}
	m.files[id] = true
}

func (m *made) has(fd int) bool {
	id, _, err := Identify(fd, "")
	m.Lock()
	defer m.Unlock()
	return err == nil && m.files[id]
}

// bind is bind(2).
func (c *call) bind() (int, unix.Errno) {
	socket, errno := c.duplicate(0)
	if errno != 0 {
		return -1, errno
	}
	domain, errno := domainOf(socket)
	if errno != 0 {
		return -1, errno
	}
	a, errno := c.address()
	switch {
	case errno != 0:
		return -1, errno
	case domain == unix.AF_UNIX && a.path != "":
		return c.bindPath(socket, a)
	case domain != unix.AF_UNIX && a.privileged() && c.elsewhere():
		return -1, unix.EACCES
	}
	if errno = c.still(); errno != 0 {
		return -1, errno
	}
	return -1, a.with(unix.SYS_BIND, socket)
}

// privileged reports whether an address of the Internet has a port that takes a capability.
func (a address) privileged() bool {
	const privileged = 1024
	if len(a.raw) < 4 {
		return false
	}
	port := binary.BigEndian.Uint16(a.raw[2:])
	return port > 0 && port < privileged
}

// elsewhere reports whether the process is in another network namespace, in which the supervisor has all
// capabilities as the creator of its user namespace.
func (c *call) elsewhere() bool {
	var theirs, own unix.Stat_t
	return unix.Stat(procPath(c.n.PID, "ns/net"), &theirs) != nil || unix.Stat("/proc/self/ns/net", &own) != nil || theirs.Ino != own.Ino
}

// bindPath makes a socket's file. The kernel keeps the text of the path, and tells it to the socket's peers.
func (c *call) bindPath(socket int, a address) (int, unix.Errno) {
	base, errno := c.base(-1, a.path)
	if errno != 0 {
		return -1, errno
	}
	s, errno := c.spot(base, a.path)
	if errno == 0 && s.special() {
		errno = unix.EEXIST
	}
	if errno == 0 {
		errno = c.mayName(s, Create|Connect)
	}
	switch errno {
	case 0:
	case unix.EEXIST:
		return -1, unix.EADDRINUSE
	default:
		return -1, errno
	}
	of, errno := c.status()
	if errno != 0 {
		return -1, errno
	}
	b, errno := newBinding(s, a, of.umask)
	if errno != 0 {
		return -1, errno
	}
	return c.apart(func(c *call) (int, unix.Errno) {
		c.Names.RLock()
		defer c.Names.RUnlock()
		now := s
		if errno := c.locate(&now); errno != 0 || now.real != s.real {
			return -1, cmp.Or(errno, unix.ENOENT) // the folder was moved since the decision
		}
		if errno := c.still(); errno != 0 {
			return -1, errno
		}
		errno := b.make(c.Spawner, socket, s.dir)
		if file, unknown := c.open(s.dir, strings.TrimRight(s.name, "/"), unix.O_NOFOLLOW); errno == 0 && unknown == 0 {
			c.made.add(file)
		}
		return -1, errno
	})
}
