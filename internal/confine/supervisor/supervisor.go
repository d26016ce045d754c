//go:build linux && (amd64 || arm64)

package supervisor

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
)

// Act is a set of things that a call does to a path.
type Act uint8

// The acts. Moved comes with Remove and Create of a name that may be a folder with all its content.
const (
	Read   Act = 1 << iota // the content, or the names in a folder
	Write                  // the content of a file that exists
	Create                 // a name that does not exist, or is replaced
	Remove                 // a name
	Change                 // mode, owner, times or attributes
	Moved
)

// Request asks whether a process may do something.
type Request struct {
	Act  Act
	Path string // where it is, in the process's file tree, when the call is made; without links
	PID  int    // of the thread
}

// Decide returns nil if the process may do the acts of a request. Several goroutines call it. It must be
// quick: one process waits for each call.
type Decide func(Request) error

// Supervisor answers the calls of the processes of one filter.
type Supervisor struct {
	listener Listener
	decide   Decide
	denied   func(Request, error)
	ids      IDs
	procDev  uint64 // of the processes' /proc; 0: they have none
	over     atomic.Bool
	running  sync.WaitGroup
	mu       sync.Mutex
	threads  map[int]bool // those that wait for a call
	rootOnce sync.Once
	root     int
}

// Start answers calls until all processes of the filter are gone, or Stop. denied is told of each
// refused request. An error closes f, so the calls fail with ENOSYS.
func Start(f *os.File, ids IDs, decide Decide, denied func(Request, error)) (*Supervisor, error) {
	s := &Supervisor{listener: Listen(f), ids: ids, decide: decide, denied: denied, threads: map[int]bool{}, root: -1}
	const answering = 2 // more of them slow each other down where few processors are
	ready := make(chan error, answering)
	for range answering {
		s.running.Go(func() { s.serve(ready) })
	}
	for range answering {
		if err := <-ready; err != nil {
			s.Stop()
			return nil, fault.Wrap(fault.SandboxMissing, err, "an unprivileged thread cannot be started: %v", err)
		}
	}
	return s, nil
}

// Stop ends answering. Calls that wait then fail with ENOSYS.
func (s *Supervisor) Stop() {
	s.over.Store(true)
	gone := make(chan struct{})
	go func() { s.running.Wait(); close(gone) }()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for waiting := true; waiting; {
		s.wake()
		select {
		case <-gone:
			waiting = false
		case <-tick.C: // a thread that was about to wait
		}
	}
	_ = s.listener.file.Close() // the end of the filter
	drop(s.root)
}

// wake interrupts the threads that wait, by a signal that Go itself uses.
func (s *Supervisor) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for tid := range s.threads {
		interrupt(tid)
	}
}

func interrupt(tid int) {
	_ = unix.Tgkill(os.Getpid(), tid, unix.SIGURG) // it may have ended
}

// serve answers calls, one after the other, on a thread of its own: umask and privileges belong to
// it.
func (s *Supervisor) serve(ready chan<- error) {
	runtime.LockOSThread() // the thread ends with the goroutine
	err := unix.Unshare(unix.CLONE_FS)
	if err == nil {
		err = dropPrivileges()
	}
	if ready <- err; err != nil {
		return
	}
	tid := unix.Gettid()
	s.mu.Lock()
	s.threads[tid] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.threads, tid)
		s.mu.Unlock()
	}()
	poll := []unix.PollFd{{Fd: int32(s.listener.file.Fd()), Events: unix.POLLIN}}
	for !s.over.Load() {
		if _, err := unix.Poll(poll, -1); err != nil {
			continue // a signal
		}
		if poll[0].Revents&unix.POLLIN == 0 {
			return // all processes are gone
		}
		var n Notification
		if s.listener.receive(&n) == 0 {
			undisturbed(func() { s.answer(&n) })
		}
	}
}

// undisturbed does something on the goroutine's own thread, to which no signal comes meanwhile. Go itself sends
// signals to its threads. One that came while a descriptor is handed over would end the call with
// 0 and no descriptor.
func undisturbed(do func()) {
	all := unix.Sigset_t{}
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	var before unix.Sigset_t
	if unix.PthreadSigmask(unix.SIG_SETMASK, &all, &before) != nil {
		panic("the arguments are fixed: any test finds it")
	}
	do()
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil) // the same call succeeded
}

// dropPrivileges takes all capabilities from this thread, as the confined processes have none.
func dropPrivileges() error {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return unix.Capset(&head, &none[0])
}

// answer carries out one call.
func (s *Supervisor) answer(n *Notification) {
	s.rootOnce.Do(func() { s.findRoot(n.PID) })
	c := &call{Supervisor: s, n: n, root: s.root}
	defer c.end()
	do := calls[uint32(n.Nr)]
	if do == nil || s.root < 0 {
		s.listener.fail(n, unix.ENOSYS)
		return
	}
	if fd, errno := do(c); errno != errLater {
		c.finish(fd, errno)
	}
}

// finish ends the call. A descriptor is handed to the process, and closed here.
func (c *call) finish(fd int, errno unix.Errno) {
	if errno != 0 || fd < 0 {
		c.listener.fail(c.n, errno)
		return
	}
	arg, ok := opens[uint32(c.n.Nr)]
	flags := uint64(unix.O_CREAT) // of creat(2)
	if ok {
		flags = c.n.Args[arg]
	}
	reads := flags&(unix.O_ACCMODE|unix.O_CREAT|unix.O_TRUNC|unix.O_NONBLOCK) == 0
	c.listener.hand(c.n, fd, flags&unix.O_CLOEXEC != 0, reads)
}

// findRoot opens the root of the processes, which have one in common, as they cannot change it.
func (s *Supervisor) findRoot(pid uint32) {
	fd, err := unix.Open(procPath(pid, "root"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	s.root = fd
	proc, err := unix.Openat(fd, "proc", unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer drop(proc)
	var fs unix.Statfs_t
	var st unix.Stat_t
	if unix.Fstatfs(proc, &fs) == nil && fs.Type == unix.PROC_SUPER_MAGIC && unix.Fstat(proc, &st) == nil {
		s.procDev = st.Dev
	}
}

// may asks the policy. EACCES: it refuses.
func (c *call) may(act Act, where string) unix.Errno {
	if where == "" || where[0] != '/' { // a pipe or a socket has no path
		return 0
	}
	r := Request{Act: act, Path: where, PID: int(c.n.PID)}
	err := c.decide(r)
	if err == nil {
		return 0
	}
	c.denied(r, err)
	return unix.EACCES
}

// deleted ends the path of a file that was removed after it was found. A name can end so as well.
const deleted = " (deleted)"

// mayAt is may for something that is open. A file that was removed meanwhile is one with its last name:
// another program can replace a protected file between the look and the question.
func (c *call) mayAt(act Act, p place) (string, unix.Errno) {
	where, errno := whereIs(p.fd)
	if errno == 0 {
		errno = c.may(act, where)
	}
	if name, gone := strings.CutSuffix(where, deleted); gone && errno == 0 {
		errno = c.may(act, name)
	}
	return where, errno
}

// still returns EINTR if the process no longer waits. It comes before each effect.
func (c *call) still() unix.Errno {
	if !c.listener.valid(c.n) {
		return unix.EINTR
	}
	return 0
}

// String implements fmt.Stringer.
func (a Act) String() string {
	var out string
	for i, name := range []string{"read", "write", "create", "remove", "change", "moved"} {
		if a&(1<<i) != 0 {
			out += "," + name
		}
	}
	if out == "" {
		return fmt.Sprintf("Act(%d)", uint8(a))
	}
	return out[1:]
}

// IDs are the user and group that the processes have, as they see them. Outside they are those of
// the supervisor, and others do not exist for them.
type IDs struct{ User, Group int }

// outside gives the IDs in the supervisor's user namespace; -1 stays.
func (c *call) outside(uid, gid int) (int, int, unix.Errno) {
	switch uid {
	case -1:
	case c.ids.User:
		uid = unix.Geteuid()
	default:
		return 0, 0, unix.EPERM
	}
	switch gid {
	case -1:
	case c.ids.Group:
		gid = unix.Getegid()
	default:
		return 0, 0, unix.EPERM
	}
	return uid, gid, 0
}
