//go:build linux && (amd64 || arm64)

package supervisor

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/sandbox/spawn"
)

// Act is a set of things that a call does to a path.
type Act uint16

// The acts. Connect comes with Read and Write of a socket that the process connects to, and with Create of one that it
// listens on.
const (
	Read   Act = 1 << iota // the content, or the names in a folder
	Write                  // the content of a file that exists
	Create                 // a name that does not exist, or is replaced
	Remove                 // a name
	Change                 // mode, owner, times or attributes
	Moved                  // with Remove and Create: the file or folder keeps its content
	Folder                 // with Create and Remove: the name becomes, or was, that of an empty folder
	Connect
	Anew // with Write: nothing of the old content stays
	Link // with Create: the name becomes a symbolic link
)

// Request asks whether a process may do something.
type Request struct {
	Act  Act
	Path string // where it is, in the process's file tree, when the call is made; without links
	PID  int    // of the thread

	Own     bool // of Connect without Create: a process of the supervisor bound the socket
	Beneath bool // the process named it from the descriptor of a folder

	// Of Create with Moved: the path that something had before, and a descriptor of it (O_PATH), which lasts
	// as long as the question.
	From string
	File int
}

// alike reports whether two requests differ in their descriptors at most.
func (r Request) alike(as Request) bool {
	r.File = as.File
	return r == as
}

// Instead is an answer about a file that is moved: its new name gets a new file with this content, and
// the file itself is removed. What the process writes to the file that it holds open then changes nothing.
type Instead struct{ Content []byte }

// Error implements error.
func (Instead) Error() string { return "the file is replaced by a copy" }

// Blank is an answer about a regular file that is only read: the process gets an empty one in its place. Err is the refusal,
// which is told as any other.
type Blank struct{ Err error }

// Error implements error.
func (b Blank) Error() string { return b.Err.Error() }

// Unwrap implements the interface of [errors.As].
func (b Blank) Unwrap() error { return b.Err }

// Decide returns nil if the process may do the acts of a request. Several goroutines call it. It must be
// quick: all calls of the filter wait for it. A decision that takes time is an error of type [*Ask].
type Decide func(Request) error

// Options are the parts of a supervisor.
type Options struct {
	IDs
	Spawner *spawn.Spawner // makes the files of sockets; nil: they are refused
	Decide  Decide
	Denied  func(Request, error) // is told of each refused request

	// Detour says where a TCP connection to an address leads, for filters with [SocketRules]. nil: to that address.
	Detour func(to netip.AddrPort) *Detour

	// Names is shared by supervisors whose processes use the same folders. Each call that makes a name holds it from the
	// decision to the effect, and each that moves one holds it alone: Decide looks through a folder that is moved, and
	// nothing may come into it meanwhile. nil: the supervisor has its own.
	Names *sync.RWMutex

	// Seen is told of each call before it is carried out, by several goroutines. With it, the filter may ask about
	// other calls than those of the rules: the kernel goes on with them. nil: nobody is told.
	Seen func(*Notification)

	// Changed is told of each file that processes can write to from now on, or that they gave a name, by its path; -1: the file was
	// not found there any more. Gone is told of files without a name, after processes removed one. nil: neither is told.
	Changed func(path string, file int)
	Gone    func(file int)
}

// Supervisor answers the calls of the processes of one filter.
type Supervisor struct {
	Options
	listener Listener
	procDev  uint64 // of the processes' /proc; 0: they have none
	over     atomic.Bool
	stopping sync.Once
	running  sync.WaitGroup
	mu       sync.Mutex
	threads  map[int]bool             // those that wait for a call
	watched  map[*Notification]func() // by whenGone
	rootMu   sync.Mutex
	root     int // -1 until it is found

	// self is the folder of the own descriptors, from which the kernel finds one sooner than by its whole path.
	self int

	asking  atomic.Int32 // calls that wait for approval
	anew    chan *call   // approved ones
	wakeup  int          // an eventfd that counts them
	waiting atomic.Int32 // calls on threads of their own

	draftsMu  sync.Mutex
	drafts    []*draft
	drafted   atomic.Bool // there are some
	namespace *os.File    // of the processes' mounts; nil: it is not kept

	made      made
	receiver  atomic.Pointer[receiver]
	receivers atomic.Int32 // including relieved ones
	looking   atomic.Bool  // at the receiver
}

// Start answers calls until all processes of the filter are gone, or Stop. An error closes f, so the calls
// fail with ENOSYS.
func Start(f *os.File, o Options) (*Supervisor, error) {
	s := &Supervisor{Options: o, listener: Listen(f), threads: map[int]bool{}, root: -1, anew: make(chan *call, maxAsking)}
	if s.Names == nil {
		s.Names = new(sync.RWMutex)
	}
	var err error
	if s.self, err = unix.Open("/proc/self/fd", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		_ = f.Close()
		return nil, fault.Wrap(fault.SandboxMissing, err, "the runtime's own descriptors cannot be found: %v", err)
	}
	if s.wakeup, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK|unix.EFD_SEMAPHORE); err != nil {
		_ = f.Close()
		drop(s.self)
		return nil, fault.Wrap(fault.SandboxMissing, err, "an eventfd cannot be made: %v", err)
	}
	if err := s.relieve(); err != nil {
		s.Stop()
		return nil, fault.Wrap(fault.SandboxMissing, err, "an unprivileged thread cannot be started: %v", err)
	}
	return s, nil
}

// Stop ends answering. Calls that wait then fail with ENOSYS.
func (s *Supervisor) Stop() { s.stopping.Do(s.stop) }

func (s *Supervisor) stop() {
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
	if s.drafted.Load() {
		_ = unprivileged(func() { // without a thread, nothing is made
			c := &call{Supervisor: s, root: s.root}
			defer c.end()
			c.settle(true)
		})
	}
	if s.namespace != nil {
		_ = s.namespace.Close() // it was only held
	}
	drop(s.root)
	drop(s.wakeup)
	drop(s.self)
}

// wake interrupts the threads that wait.
func (s *Supervisor) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for tid := range s.threads {
		interrupt(tid)
	}
}

// undisturbed does something on the goroutine's own thread, to which no signal comes meanwhile. Go itself sends
// signals to its threads. One that came while a descriptor is handed over would end the call with
// 0 and no descriptor. usual are the signals that are blocked otherwise.
func undisturbed(do func(usual *unix.Sigset_t)) {
	all := unix.Sigset_t{}
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	var before unix.Sigset_t
	if unix.PthreadSigmask(unix.SIG_SETMASK, &all, &before) != nil {
		panic("the arguments are fixed: any test finds it")
	}
	do(&before)
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil) // the same call succeeded
}

// dropPrivileges takes all capabilities and, from root, further groups from this thread, as the confined processes have
// none.
func dropPrivileges() error {
	_, _, _ = unix.Syscall(unix.SYS_SETGROUPS, 0, 0, 0) // of this thread only; another user has those of the processes
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return unix.Capset(&head, &none[0])
}

// answer carries out one call.
func (s *Supervisor) answer(n *Notification, files statusFiles) {
	root := s.rootOf(n.PID)
	if s.Seen != nil {
		s.Seen(n)
		if leave(n) {
			s.listener.goOn(n)
			return
		}
	}
	c := &call{Supervisor: s, n: n, root: root, files: files}
	c.settle(false)
	c.carryOut()
}

// leave reports whether the rules do not ask about a call.
func leave(n *Notification) bool {
	nr := uint32(n.Nr)
	arg, opens := opens[nr]
	return calls[nr] == nil && socketCalls[nr] == nil || opens && n.Args[arg]&unix.O_PATH != 0
}

func (c *call) carryOut() {
	defer c.end()
	do := calls[uint32(c.n.Nr)]
	if do == nil {
		do = socketCalls[uint32(c.n.Nr)]
	}
	switch {
	case do == nil:
		c.listener.fail(c.n, unix.ENOSYS)
		return
	case c.root < 0: // the supervisor has no descriptor left for it
		c.listener.fail(c.n, unix.EMFILE)
		return
	}
	switch fd, errno := do(c); errno {
	case errLater:
	case errAsk:
		c.await()
	default:
		c.finish(fd, errno)
	}
}

// finish ends the call. A descriptor is handed to the process, and closed here.
func (c *call) finish(fd int, errno unix.Errno) {
	if c.early {
		c.end()
	}
	if errno != 0 || fd < 0 {
		c.listener.fail(c.n, errno)
		return
	}
	arg, ok := opens[uint32(c.n.Nr)] // creat(2) has no flags
	c.listener.hand(c.n, fd, ok && c.n.Args[arg]&unix.O_CLOEXEC != 0, c.had, c.undo)
}

// rootOf opens the root of the processes, which they have in common, as they cannot change it. It returns -1 when the root
// or its /proc cannot be opened now. Without the device of /proc, a process could read the files of another one there.
func (s *Supervisor) rootOf(pid uint32) int {
	s.rootMu.Lock()
	defer s.rootMu.Unlock()
	if s.root >= 0 {
		return s.root
	}
	fd, err := unix.Open(procPath(pid, "root"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	proc, err := unix.Openat(fd, "proc", unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		s.root = fd
		return fd
	}
	defer drop(proc)
	var fs unix.Statfs_t
	var st unix.Stat_t
	if err != nil || unix.Fstatfs(proc, &fs) != nil || unix.Fstat(proc, &st) != nil {
		drop(fd)
		return -1
	}
	if s.root = fd; fs.Type == unix.PROC_SUPER_MAGIC {
		s.procDev = st.Dev
	}
	return fd
}

// may asks the policy. EACCES: it refuses. errAsk: it needs approval, and the call must have had no effect yet.
func (c *call) may(act Act, where string) unix.Errno { return c.ask(Request{Act: act, Path: where}) }

func (c *call) ask(r Request) unix.Errno {
	if r.Act&(Write|Create) != 0 && strings.HasPrefix(path.Base(r.Path), copyPrefix) || staged(r.Path) || staged(r.From) {
		return unix.EACCES
	}
	r.PID = int(c.n.PID)
	err := c.Decide(r)
	var ask *Ask
	switch {
	case err == nil, errors.As(err, &ask) && slices.ContainsFunc(c.approved, func(q question) bool { return q.of(r, ask) }):
		return 0
	case ask != nil:
		c.question = question{r, ask}
		return errAsk
	}
	if with, ok := err.(Instead); ok && r.Act&Moved != 0 {
		c.instead = &with
		return 0
	}
	if with, ok := err.(Draft); ok && (r.Act == Create|Write || r.Act&^Read == Write|Anew) {
		c.draft = &with
		return 0
	}
	c.Denied(r, err)
	if _, ok := err.(Blank); ok && r.Act == Read {
		c.blank = true
		return 0
	}
	return unix.EACCES
}

// deleted ends the path of a file that was removed after it was found. A name can end so as well.
const deleted = " (deleted)"

// mayAt is may for something that is open. A file that was removed meanwhile is one with its last name:
// another program can replace a protected file between the look and the question.
func (c *call) mayAt(act Act, p place) (string, unix.Errno) { return c.askAt(Request{Act: act}, p) }

// askAt is mayAt for a request without its path.
func (c *call) askAt(r Request, p place) (string, unix.Errno) {
	where, errno := c.where(p)
	if errno != 0 || where == "" || where[0] != '/' { // a pipe or a socket has no path
		return where, errno
	}
	r.Path = where
	errno = c.ask(r)
	if name, gone := strings.CutSuffix(where, deleted); gone && errno == 0 {
		r.Path = name
		errno = c.ask(r)
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
	for i, name := range []string{"read", "write", "create", "remove", "change", "moved", "folder", "connect", "anew", "link"} {
		if a&(1<<i) != 0 {
			out += "," + name
		}
	}
	if out == "" {
		return fmt.Sprintf("Act(%d)", uint16(a))
	}
	return out[1:]
}

// IDs are the user and group that the processes have, as they see them. Outside, the supervisor has
// these IDs. No other IDs exist for the processes.
type IDs struct{ User, Group int }

// outside gives the IDs in the supervisor's user namespace; -1 stays.
func (c *call) outside(uid, gid int) (int, int, unix.Errno) {
	switch uid {
	case -1:
	case c.IDs.User:
		uid = unix.Geteuid()
	default:
		return 0, 0, unix.EPERM
	}
	switch gid {
	case -1:
	case c.IDs.Group:
		gid = unix.Getegid()
	default:
		return 0, 0, unix.EPERM
	}
	return uid, gid, 0
}
