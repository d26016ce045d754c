//go:build linux && (amd64 || arm64)

package linux

import (
	"slices"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/spawn"
)

// agentSandboxes are sandboxes that the commands of one agent's session share. Commands
// may run there at the same time. The files in /tmp, the servers at the loopback addresses
// and the processes that one command left are there for the next ones.
type agentSandboxes struct {
	mu     sync.Mutex
	closed bool
	open   map[agentSession]*agentSandbox
	port   uint16 // of the last proxy, from firstPort
	timer  *time.Timer
	ending sync.WaitGroup
}

// agentSession is an agent's session in one workspace.
type agentSession struct{ id, workspace string }

// agentSandbox is the sandbox of one session.
type agentSandbox struct {
	standing
	key     string // of its profile and policies
	chain   policy.Chain
	now     func() (policy.Chain, error) // the same policies, as they are now
	by      *spawn.Spawner
	running int            // commands
	taken   int            // how many commands have begun
	left    []*spawn.Child // commands that have ended, and some that left no process
	last    time.Time      // the end of the last command
	retired bool           // it gets no further commands, and ends when none is running
}

const (
	// maxAgentSandboxes is the most sandboxes of a process. Each stays for agentTime after its last command.
	maxAgentSandboxes = 64
	agentTime         = 30 * time.Minute
	lookTime          = time.Second // between two looks at the policies of processes that were left

	// Each command's proxy has another port. They are above Linux's default range for outgoing connections.
	firstPort, lastPort = 61100, 65500
)

// sharesSandbox reports whether a command runs in the sandbox of its agent's session. It does not
// if something in the sandbox must belong to this command alone.
func sharesSandbox(chain policy.Chain, c command, prof sandbox.Profile) bool {
	return c.Session.ID != "" && prof.Supervised && prof.Isolation == policy.FullIsolation && !chain.FreshTier() &&
		c.Stdio != nil && c.Stdio.Terminal == nil && c.layers == nil && c.Folder == nil && c.Proxy == nil && !c.Observe &&
		len(listeners(prof)) == 0 && len(prof.Publish) == 0
}

// nextPort is the port for the proxy of the next command.
func (s *agentSandboxes) nextPort() uint16 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.port++
	if s.port < firstPort || s.port > lastPort {
		s.port = firstPort
	}
	return s.port
}

// take returns the sandbox of a session. A sandbox with another key is replaced. The caller calls leave at
// the end of its command.
func (s *agentSandboxes) take(sp *spawn.Spawner, session agentSession, key string, make func() (*agentSandbox, error)) (*agentSandbox, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fault.New(fault.Internal, "the sandbox is closed already")
	}
	one := s.open[session]
	if one != nil && (one.by != sp || one.key != key || !one.zygote.Alive()) {
		s.retire(session)
		one = nil
	}
	if one == nil {
		s.limit()
		var err error
		if one, err = make(); err != nil {
			return nil, err
		}
		one.key, one.by = key, sp
		if s.open == nil {
			s.open = map[agentSession]*agentSandbox{}
		}
		s.open[session] = one
	}
	one.running++
	one.taken++
	return one, nil
}

// alone reports whether no process of another command is in the sandbox. The result holds as long as taken stays.
func (s *agentSandboxes) alone(one *agentSandbox) (taken int, is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return one.taken, one.running == 1 && !slices.ContainsFunc(one.left, func(c *spawn.Child) bool { return !c.IsGone() })
}

// leave is called at the end of a command; child is nil if it did not start. A spoiled sandbox gets no further ones: one in which
// a command could not start, one whose memory was full (a full /tmp would have the kernel kill each further command), and one
// that left a failed command few processes.
func (s *agentSandboxes) leave(one *agentSandbox, child *spawn.Child, spoiled bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for session, now := range s.open {
		if spoiled && now == one {
			s.retire(session)
		}
	}
	one.running--
	one.last = time.Now()
	one.left = slices.DeleteFunc(one.left, (*spawn.Child).IsGone)
	if child != nil && !child.IsGone() {
		one.left = append(one.left, child)
	}
	if one.retired {
		s.end(one)
	}
	if s.timer == nil && !s.closed {
		s.timer = time.AfterFunc(lookTime, s.look)
	}
}

// retire ends a session's sandbox: at once the processes that earlier commands left, and the rest after the commands that run
// there. It is called with the lock held.
func (s *agentSandboxes) retire(session agentSession) {
	one := s.open[session]
	delete(s.open, session)
	one.retired = true
	s.end(one)
}

// end ends the processes that no running command has in a retired sandbox. It is called with the lock held.
func (s *agentSandboxes) end(one *agentSandbox) {
	if one.running == 0 {
		s.drop(one)
		return
	}
	for _, c := range one.left {
		c.Kill()
	}
	one.left = nil
}

// limit retires the sandbox that was not used for the longest time, where there are too many.
// It is called with the lock held.
func (s *agentSandboxes) limit() {
	var oldest agentSession
	for session, one := range s.open {
		if one.running == 0 && (oldest.id == "" || one.last.Before(s.open[oldest].last)) {
			oldest = session
		}
	}
	if len(s.open) >= maxAgentSandboxes && oldest.id != "" {
		s.retire(oldest)
	}
}

// look retires the sandboxes without a command for a while, and the sandboxes of policies that do not hold any more.
func (s *agentSandboxes) look() {
	s.mu.Lock()
	for session, one := range s.open {
		if one.running == 0 && time.Since(one.last) >= agentTime {
			s.retire(session)
		}
	}
	s.mu.Unlock()
	s.renew("")
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer = nil; len(s.open) > 0 && !s.closed {
		s.timer = time.AfterFunc(lookTime, s.look)
	}
}

// renew retires the sandboxes of a session, or of all sessions, in which commands left processes and whose policies have
// changed.
func (s *agentSandboxes) renew(id string) {
	s.mu.Lock()
	var some []*agentSandbox
	for session, one := range s.open {
		if one.left = slices.DeleteFunc(one.left, (*spawn.Child).IsGone); len(one.left) > 0 && (id == "" || session.id == id) {
			some = append(some, one)
		}
	}
	s.mu.Unlock()
	some = slices.DeleteFunc(some, func(one *agentSandbox) bool { // files are read without the lock
		chain, err := one.now()
		return err == nil && authorityOf(chain) == authorityOf(one.chain)
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	for session, one := range s.open {
		if slices.Contains(some, one) {
			s.retire(session)
		}
	}
}

// endSession retires the sandboxes of a session.
func (s *agentSandboxes) endSession(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for session := range s.open {
		if session.id == id {
			s.retire(session)
		}
	}
}

// drop ends a sandbox and all its processes in the background. It is called with the lock held.
func (s *agentSandboxes) drop(one *agentSandbox) {
	s.ending.Go(one.end)
}

// count is the number of sandboxes.
func (s *agentSandboxes) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// close ends all sandboxes, and waits.
func (s *agentSandboxes) close() {
	s.mu.Lock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	for session, one := range s.open {
		delete(s.open, session)
		one.retired = false // dropped here
		s.drop(one)
	}
	s.mu.Unlock()
	s.ending.Wait()
}

// agentSeat is a seat in the sandbox of the command's session.
func (b *Box) agentSeat(sp *spawn.Spawner, m machine, chain policy.Chain, key string, session sandbox.Session, prof sandbox.Profile, st start) (seat, error) {
	one, err := b.agents.take(sp, agentSession{session.ID, chain[0].Env().Workspace}, key, func() (*agentSandbox, error) {
		made := agentSandbox{chain: chain, now: session.Policies}
		var err error
		made.standing, err = b.standing(sp, m, prof, start{stays: true, shares: true, ca: st.ca, direct: st.direct})
		return &made, err
	})
	if err != nil {
		return seat{}, err
	}
	taken, first := b.agents.alone(one)
	prog := sharedCommand(m, prof, st)
	s := seat{tier: tierAgent, group: one.group.sharedView(), why: one.why, names: one.names}
	s.alone = func() bool {
		now, is := b.agents.alone(one)
		return first && is && now == taken
	}
	var child *spawn.Child
	s.start = func(files [3]int) (_ *spawn.Child, err error) {
		if err := one.begin(); err != nil {
			return nil, err
		}
		child, err = one.zygote.Start(prog, files)
		return child, err
	}
	s.end = func(exit spawn.Exit) {
		failed := !exit.Known || exit.Status != 0
		b.agents.leave(one, child, spoiled(exit) || s.group.killed() > 0 || failed && prof.Processes-one.zygote.Threads() < prof.Processes/8)
	}
	return s, nil
}

// spoiled reports whether a command could not start because of the state of its sandbox: other commands
// may have changed limits, used up resources, or taken the port of its proxy.
func spoiled(exit spawn.Exit) bool {
	return exit.Failed != "" && exit.Failed != stepExec && exit.Failed != stepDir && exit.Failed != stepSupervise
}

// sharedCommand is the program that starts one command in an agent's sandbox.
func sharedCommand(m machine, p sandbox.Profile, s start) *spawn.Program {
	b := &builder{Program: spawn.NewProgram(64), m: m, p: p}
	b.fd = b.Reg()
	b.zero = b.Bytes(make([]byte, 64))
	b.HandSelf("process", b.Reg())
	if p.Proxy {
		b.listen(s.port)
	}
	b.Fork()
	b.endWithParent()
	b.streams()
	b.closeAll()
	b.command(s)
	return b.Program
}
