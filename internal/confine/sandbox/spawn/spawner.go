//go:build linux && (amd64 || arm64)

package spawn

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Spawner is a running spawner process. Its methods may be called at any time
// from any goroutine.
type Spawner struct {
	conn *os.File
	done chan struct{} // closed once nothing more will be reported

	mu   sync.Mutex
	seq  uint64
	jobs map[uint64]*Child
	err  error
	wait chan struct{} // closed when the process has been waited for
}

// Child is one sandbox.
type Child struct {
	started chan struct{}
	ended   chan struct{} // the first process is gone, and its pid namespace with it
	done    chan struct{} // every process of the command is gone
	pidfd   int
	errno   unix.Errno
	status  *os.File
	handed  chan *os.File
	prog    *Program
	stays   *Zygote        // whose first process this command runs beside
	shares  *Zygote        // the shared sandbox that the command runs in
	mu      sync.Mutex     // held while ended is closed, of such a command, and for killed
	killed  bool           // of such a command
	swept   atomic.Bool    // of such a command: its first process saw, or a kill made sure, that no other one was left
	gone    bool           // it had ended before the command could be given to it
	loose   bool           // there is no pid namespace, with which all processes would end
	felling sync.WaitGroup // of fell: the number of pidfd means this sandbox until it is done

	exit Exit         // known once done is closed
	used atomic.Int64 // of a first process that is killed: the processor time until then

	// Known once ended is closed.
	cpu    time.Duration // of the first process and of the processes that it has waited for
	maxRSS int64
	lost   bool
}

// Exit says what became of a sandbox.
type Exit struct {
	Known  bool          // the command's own end was seen: Status holds
	Status uint32        // wait status of the command
	Failed string        // the step that failed before the command ran, or ""
	Errno  unix.Errno    // why
	CPU    time.Duration // of the whole tree
	MaxRSS int64         // of its largest process, in bytes
	In     int64         // bytes read from disks
	Out    int64         // bytes written to disks
	Lost   bool          // the spawner ended first, and the sandbox with it
	Stale  bool          // the sandbox was made before and is not as it was, or has ended: the command was not run
	Dirty  bool          // of a Zygote: it ended after the command, which left something
}

// Start starts the spawner process: this very binary under another name, with
// no environment and no descriptors but its socket.
func Start() (*Spawner, error) {
	if self < 0 {
		return nil, errors.New("/proc/self/exe could not be opened: is /proc mounted?")
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socketpair: %w", err)
	}
	remote := os.NewFile(uintptr(pair[1]), "spawner")
	_ = unix.SetNonblock(pair[0], true)
	s := &Spawner{conn: os.NewFile(uintptr(pair[0]), "control"), done: make(chan struct{}),
		jobs: map[uint64]*Child{}, wait: make(chan struct{})}
	begun := make(chan error)
	go s.process(remote, begun)
	err = <-begun
	_ = remote.Close()
	if err != nil {
		_ = s.conn.Close()
		return nil, err
	}
	go s.listen()
	return s, nil
}

// process holds one thread from the start to the end of the spawner, because
// the kernel kills the spawner when the thread that started it goes.
func (s *Spawner) process(remote *os.File, begun chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(s.wait)
	cmd := &exec.Cmd{
		Path:        fmt.Sprintf("/proc/self/fd/%d", self),
		Args:        []string{processName},
		Env:         []string{"GOMAXPROCS=1"},
		Dir:         "/",
		ExtraFiles:  []*os.File{remote},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	}
	err := cmd.Start()
	begun <- err
	if err == nil {
		_ = cmd.Wait() // how it ended changes nothing: its sandboxes ended with it
	}
}

// Close ends the spawner and every sandbox, and waits for them.
func (s *Spawner) Close() error {
	err := s.conn.Close()
	<-s.done
	<-s.wait
	return err
}

// Alive reports whether the spawner still answers.
func (s *Spawner) Alive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err == nil // known before the sandboxes are told, and so before the next request for one
}

// listen hands reports to the sandboxes that they are about.
func (s *Spawner) listen() {
	defer close(s.done)
	for {
		var r report
		pidfd, err := s.receive(&r)
		if err != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.err = errors.New("the spawner process has ended")
			for _, c := range s.jobs {
				c.lose()
			}
			s.jobs = nil
			return
		}
		s.mu.Lock()
		if c := s.jobs[r.Seq]; c != nil {
			if r.Kind == reportStarted {
				c.pidfd, c.errno = pidfd, unix.Errno(r.Errno)
				if pidfd < 0 && c.errno == 0 {
					// There was no room for it here, so the sandbox could not be ended:
					// it ends itself, because its status socket is let go of.
					c.errno = unix.EMFILE
				}
				close(c.started)
				pidfd = -1
			}
			if r.Kind == reportEnded || r.Errno != 0 {
				c.cpu, c.maxRSS = time.Duration(r.CPU)*time.Microsecond, int64(r.MaxRSS)
				delete(s.jobs, r.Seq)
				close(c.ended)
			}
		}
		s.mu.Unlock()
		if pidfd >= 0 {
			_ = unix.Close(pidfd)
		}
	}
}

func (c *Child) lose() {
	c.lost = true
	select {
	case <-c.started:
	default:
		c.errno = unix.EPIPE
		close(c.started)
	}
	close(c.ended)
}

func (s *Spawner) receive(r *report) (pidfd int, err error) {
	n, fds, err := receive(s.conn, unsafe.Slice((*byte)(unsafe.Pointer(r)), unsafe.Sizeof(*r)))
	if err == nil && n != int(unsafe.Sizeof(*r)) {
		err = io.ErrUnexpectedEOF
	}
	return only(fds), err
}

// Spawn starts a sandbox: flags are clone's, files are the command's stdin,
// stdout and stderr (their descriptors; the caller closes them afterwards).
func (s *Spawner) Spawn(p *Program, flags uintptr, files [3]int) (*Child, error) {
	c, err := s.Prepare(p, flags)
	if err != nil {
		return nil, err
	}
	if err := c.Resume(p, files); err != nil {
		c.Kill()
		c.Wait()
		return nil, err
	}
	return c, nil
}

// Prepare starts a sandbox, which makes only the calls before the program's
// pause. It then waits to be resumed, or ended.
func (s *Spawner) Prepare(p *Program, flags uintptr) (*Child, error) {
	prog, err := memory(p.Head())
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(prog) }()
	status, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(status[1]) }()
	_ = unix.SetNonblock(status[0], true)
	c := &Child{loose: flags&unix.CLONE_NEWPID == 0, started: make(chan struct{}), ended: make(chan struct{}), done: make(chan struct{}), pidfd: -1, prog: p,
		handed: make(chan *os.File, 1), status: os.NewFile(uintptr(status[0]), "status")}
	if err = s.send(c, flags, []int{prog, status[1]}); err == nil {
		<-c.started
		if c.errno != 0 {
			err = c.errno
		}
	}
	if err != nil {
		_ = c.status.Close()
		return nil, err
	}
	return c, nil
}

// Resume gives a prepared sandbox the rest of a program, whose head must be that
// of the one it was prepared with, and the command's streams.
func (c *Child) Resume(p *Program, files [3]int) error {
	c.prog = p
	defer func() { go c.watch() }() // which tells why, if it has ended already
	program, err := p.rest()
	if err != nil {
		return err
	}
	if err = c.give(program, files[:]...); errors.Is(err, errGone) {
		c.gone, err = true, nil
	}
	return err
}

// Drop ends a prepared sandbox that is not resumed.
func (c *Child) Drop() {
	go c.watch()
	c.kill()
	c.Wait()
}

func (s *Spawner) send(c *Child, flags uintptr, fds []int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	s.seq++
	req := request{Seq: s.seq, Flags: uint64(flags)}
	s.jobs[req.Seq] = c
	err := send(s.conn, unsafe.Slice((*byte)(unsafe.Pointer(&req)), unsafe.Sizeof(req)), unix.UnixRights(fds...))
	if err != nil {
		delete(s.jobs, req.Seq)
	}
	return err
}

// send writes one message with descriptors beside it.
func send(f *os.File, msg, oob []byte) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	werr := raw.Write(func(fd uintptr) bool {
		err = unix.Sendmsg(int(fd), msg, oob, nil, unix.MSG_NOSIGNAL)
		return err != unix.EAGAIN && err != unix.EINTR
	})
	return errors.Join(werr, err)
}

// stepHand is the step that fails where a descriptor of the sandbox cannot be taken.
const stepHand = "hand over a descriptor"

// watch reads the records of the sandbox until the command's end. Without a record
// of that end, the first process was killed, and its end is the sandbox's.
func (c *Child) watch() {
	defer close(c.done)
	defer close(c.handed)
	for {
		r, fd, err := c.next()
		switch {
		case err != nil:
			<-c.ended
			first := c
			if c.stays != nil {
				first = c.stays.first
			}
			c.exit.CPU = max(0, max(first.cpu, time.Duration(first.used.Load()))-c.earlier())
			c.exit.MaxRSS, c.exit.Lost = first.maxRSS, first.lost
			c.exit.Stale = c.gone && !first.lost && c.exit.Failed == ""
			if first.lost {
				c.outlived()
			}
			return
		case r.What>>32 == recordStale:
			c.exit.Stale = true
			return
		case r.What>>32 == recordLeft:
			c.felling.Go(c.fell)
		case r.What>>32 == recordHanded && fd >= 0:
			c.handed <- os.NewFile(uintptr(fd), "handed")
		case r.What>>32 == recordHanded: // this process had no room for it
			c.exit.Failed, c.exit.Errno = stepHand, unix.EMFILE
			c.Kill()
		case r.What>>32 == recordFailed && c.exit.Failed == "":
			c.exit.Failed, c.exit.Errno = c.prog.Step(int(uint32(r.What))), unix.Errno(r.Val)
		case r.What>>32 == recordExited:
			c.exit.Known, c.exit.Status = c.exit.Failed == "", uint32(r.Val)
			c.exit.CPU, c.exit.MaxRSS = time.Duration(r.CPU)*time.Microsecond, int64(r.MaxRSS)
			c.exit.In, c.exit.Out, c.exit.Dirty = int64(r.In), int64(r.Out), r.Dirty != 0
			if c.stays != nil {
				c.stays.spent += c.exit.CPU
			}
			return
		}
	}
}

// outlived waits for the first process, which the kernel kills with the spawner:
// its descriptors are closed, but with it go the others of its pid namespace.
func (c *Child) outlived() {
	for end := time.Now().Add(treeTime); c.pidfd >= 0 && time.Now().Before(end); {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(c.pidfd), Events: unix.POLLIN}}, int(treeTime.Milliseconds()))
		if n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// next reads one record and the descriptor beside it, or -1.
func (c *Child) next() (r record, fd int, err error) {
	n, fds, err := receive(c.status, unsafe.Slice((*byte)(unsafe.Pointer(&r)), unsafe.Sizeof(r)))
	if err == nil && n != int(unsafe.Sizeof(r)) {
		err = io.EOF
	}
	return r, only(fds), err
}

// only gives the one descriptor that was expected, or -1.
func only(fds []int) int {
	if len(fds) == 1 {
		return fds[0]
	}
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
	return -1
}

// receive reads one message and the descriptors beside it.
func receive(f *os.File, buf []byte) (n int, fds []int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, nil, err
	}
	oob := make([]byte, unix.CmsgSpace(4))
	rerr := raw.Read(func(fd uintptr) bool {
		var oobn int
		n, oobn, _, _, err = unix.Recvmsg(int(fd), buf, oob, unix.MSG_CMSG_CLOEXEC)
		if err == unix.ECONNRESET { // it ended with something unread; its earlier messages are still there
			n, oobn, _, _, err = unix.Recvmsg(int(fd), buf, oob, unix.MSG_CMSG_CLOEXEC)
		}
		if err == unix.EAGAIN || err == unix.EINTR {
			return false
		}
		fds = rights(oob[:max(oobn, 0)])
		return true
	})
	return n, fds, errors.Join(rerr, err)
}

// Take waits for the descriptor that the program hands out ([Program.Hand]). It
// gives nil when the sandbox ends before it does, of which Wait tells more.
func (c *Child) Take() *os.File { return <-c.handed }

// TakeUntil is Take, or nil once the channel is closed.
func (c *Child) TakeUntil(over <-chan struct{}) *os.File {
	select {
	case f := <-c.handed:
		return f
	case <-over:
		return nil
	}
}

// Done is closed when every process of the command is gone.
func (c *Child) Done() <-chan struct{} { return c.done }

// Kill ends every process of the sandbox. It does not wait for them; see Done.
func (c *Child) Kill() {
	switch {
	case c.shares != nil:
		c.killShared()
		return
	case c.loose:
		c.felling.Go(c.fell)
		return
	}
	first := c
	if c.stays != nil {
		first = c.stays.first
	}
	first.used.Store(int64(c.usedSoFar()))
	c.kill()
}

// kill ends the first process, and with its pid namespace all others.
func (c *Child) kill() { _ = unix.PidfdSendSignal(c.pidfd, unix.SIGKILL, nil, 0) }

// earlier is the processor time of the commands before this one that the first
// process has waited for.
func (c *Child) earlier() time.Duration {
	if c.stays == nil {
		return 0
	}
	return c.stays.spent
}

// Wait waits for the end and gives what became of the sandbox. It must be
// called exactly once.
func (c *Child) Wait() Exit {
	<-c.done
	if c.shares == nil {
		c.felling.Wait()
	}
	if c.stays == nil && c.shares == nil {
		_ = c.status.Close()
		if c.pidfd >= 0 {
			_ = unix.Close(c.pidfd)
		}
	}
	for f := range c.handed {
		_ = f.Close() // not taken
	}
	return c.exit
}
