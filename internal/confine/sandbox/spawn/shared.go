//go:build linux && (amd64 || arm64)

package spawn

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Start starts the command of a program in a shared sandbox ([Program.Share]). Other commands may be
// running there. The program begins with [Program.HandSelf]. The command is over when its first process has
// ended; [Child.Gone] tells when the processes that it left behind have ended, too. A kill ends all of these.
func (z *Zygote) Start(p *Program, files [3]int) (*Child, error) {
	p.before = z.first.prog
	program, err := p.rest()
	if err != nil {
		return nil, err
	}
	status, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(status[1]) }()
	_ = unix.SetNonblock(status[0], true)
	c := &Child{shares: z, loose: true, started: make(chan struct{}), ended: make(chan struct{}), done: make(chan struct{}), pidfd: -1, prog: p,
		handed: make(chan *os.File, 1), status: os.NewFile(uintptr(status[0]), "status")}
	err = z.first.give(program, files[0], files[1], files[2], status[1])
	if err != nil && !errors.Is(err, errGone) {
		_ = c.status.Close()
		return nil, err
	}
	go c.follow()
	return c, nil
}

// Alive reports whether the sandbox is there.
func (z *Zygote) Alive() bool {
	return !isClosed(z.first.ended)
}

// PID is the process ID of the sandbox's first process; 0 if it has ended.
func (z *Zygote) PID() int { return max(0, z.first.pid()) }

// lostTime is longer than the report of the spawner's end takes.
const lostTime = 100 * time.Millisecond

// lost reports whether the sandbox ended because the spawner did. The processes of both end
// shortly before that is known.
func (z *Zygote) lost() bool {
	select {
	case <-z.first.ended:
		return z.first.lost
	case <-time.After(lostTime):
		return false
	}
}

// Threads is the number of threads in the sandbox. Those of zombies count, too.
func (z *Zygote) Threads() (sum int) {
	walk(z.first.pid(), func(_ int, p process) bool {
		sum += p.threads
		return true
	})
	return sum
}

// Gone is closed when the command of a shared sandbox and everything that it left behind has ended, or when that cannot be known
// any more.
func (c *Child) Gone() <-chan struct{} { return c.ended }

// IsGone reports whether Gone is closed and no process of the command is left. Of a command's processes that killed its first one,
// which waits for them, that is never known.
func (c *Child) IsGone() bool { return isClosed(c.ended) && c.swept.Load() }

// follow reads the records of a command in a shared sandbox until no process of the command is left.
func (c *Child) follow() {
	defer c.finish()
	for handed := 0; ; {
		r, fd, err := c.next()
		if err != nil {
			c.interrupted(handed)
			return
		}
		kind := r.What >> 32
		if kind == recordExited {
			c.swept.Store(true)
		}
		switch {
		case kind == recordHanded:
			handed++
			c.keepHanded(fd)
		case isClosed(c.done): // the resources that the other processes used
		case kind == recordFailed && c.exit.Failed == "":
			c.exit.Failed, c.exit.Errno = c.prog.Step(int(uint32(r.What))), unix.Errno(r.Val)
		case kind == recordLeft || kind == recordExited:
			c.exit.Known, c.exit.Status = c.exit.Failed == "", uint32(r.Val)
			c.exit.CPU, c.exit.MaxRSS = time.Duration(r.CPU)*time.Microsecond, int64(r.MaxRSS)
			c.exit.In, c.exit.Out = int64(r.In), int64(r.Out)
			c.over()
		}
	}
}

// keepHanded takes a descriptor of the command's sandbox, or -1. The first one is that of the command's first process.
func (c *Child) keepHanded(fd int) {
	switch {
	case fd >= 0 && !isClosed(c.started):
		c.pidfd = fd
		close(c.started)
	case fd >= 0 && !isClosed(c.done):
		c.handed <- os.NewFile(uintptr(fd), "handed")
	case fd >= 0:
		_ = unix.Close(fd)
	case !isClosed(c.done):
		c.exit.Failed, c.exit.Errno = stepHand, unix.EMFILE
		c.begin()
		c.Kill()
	}
}

// interrupted is called when the records end. Before all descriptors were handed over, the command has not started.
func (c *Child) interrupted(handed int) {
	if isClosed(c.done) {
		return
	}
	c.exit.CPU = time.Duration(c.used.Load())
	c.exit.Lost = c.shares.lost()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.exit.Lost || c.exit.Failed != "":
	case !isClosed(c.started): // its process hands itself over first
		c.exit.Stale = true
	case handed < c.prog.hands && !c.killed:
		c.exit.Failed, c.exit.Errno = stepHand, unix.EPIPE
	}
}

func (c *Child) begin() {
	if !isClosed(c.started) {
		close(c.started)
	}
}

// over tells that the command has ended.
func (c *Child) over() {
	c.begin()
	if !isClosed(c.done) {
		close(c.handed)
		close(c.done)
	}
}

// finish tells that no process of the command is left.
func (c *Child) finish() {
	c.over()
	c.mu.Lock()
	close(c.ended)
	c.mu.Unlock()
	c.felling.Wait()
	_ = c.status.Close()
	if c.pidfd >= 0 {
		_ = unix.Close(c.pidfd)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Continue lets the first process of a command in a shared sandbox go on, if other processes have stopped it.
func (c *Child) Continue() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shares != nil && !c.killed && isClosed(c.started) && !isClosed(c.ended) && c.pidfd >= 0 {
		_ = unix.PidfdSendSignal(c.pidfd, unix.SIGCONT, nil, 0)
	}
}

// killShared kills the processes of a command in a shared sandbox.
func (c *Child) killShared() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.killed = true
	if !isClosed(c.ended) { // else the descriptor of its process may be another one by now
		c.felling.Go(c.fellShared)
	}
}

// fellShared stops the first process of the command, so that it collects none of the others, and ends
// it last.
func (c *Child) fellShared() {
	<-c.started
	if c.pidfd < 0 {
		return
	}
	c.used.Store(int64(c.usedSoFar()))
	_ = unix.PidfdSendSignal(c.pidfd, unix.SIGSTOP, nil, 0)
	c.fell()
	if root := c.pid(); root > 0 {
		if _, alive := parentOf(root); alive && len(descendants(root)) == 0 { // while it lives, no other process gets its children
			c.swept.Store(true)
		}
	}
	_ = unix.PidfdSendSignal(c.pidfd, unix.SIGKILL, nil, 0)
}
