//go:build linux && (amd64 || arm64)

package linux

import (
	"strings"
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
	key     string // of its profile and policies
	texts   string // the digests of its policies
	why     string // the reason if group is nil
	by      *spawn.Spawner
	group   *group
	zygote  *spawn.Zygote
	running int       // commands
	last    time.Time // the end of the last command
	retired bool      // it gets no further commands, and ends when none is running
}

const (
	// maxAgentSandboxes is the most sandboxes of a process. Each stays for agentTime after its last command.
	maxAgentSandboxes = 64
	agentTime         = 30 * time.Minute

	// Each command's proxy has another port. They are above Linux's default range for outgoing connections.
	firstPort, lastPort = 61100, 65500
)

// sharesSandbox reports whether a command runs in the sandbox of its agent's session. It does not
// if something in the sandbox must belong to this command alone.
func sharesSandbox(chain policy.Chain, c command, prof sandbox.Profile) bool {
	return c.Session != "" && prof.Supervised && prof.Isolation == policy.FullIsolation && !chain.FreshTier() &&
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
	return one, nil
}

// leave is called at the end of a command. A spoiled sandbox gets no further ones. One whose memory was full is spoiled, too: a
// full /tmp would have the kernel kill each further command.
func (s *agentSandboxes) leave(one *agentSandbox, spoiled bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for session, now := range s.open {
		if spoiled && now == one {
			s.retire(session)
		}
	}
	one.running--
	one.last = time.Now()
	if one.running == 0 && one.retired {
		s.drop(one)
	}
	if s.timer == nil && !s.closed {
		s.timer = time.AfterFunc(agentTime, s.expire)
	}
}

// retire ends a session's sandbox, after the commands that run there. It is called with the lock held.
func (s *agentSandboxes) retire(session agentSession) {
	one := s.open[session]
	delete(s.open, session)
	if one.retired = true; one.running == 0 {
		s.drop(one)
	}
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

// expire retires the sandboxes that nobody used for a while.
func (s *agentSandboxes) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = nil
	for session, one := range s.open {
		if one.running == 0 && time.Since(one.last) >= agentTime {
			s.retire(session)
		}
	}
	if len(s.open) > 0 && !s.closed {
		s.timer = time.AfterFunc(agentTime/8, s.expire)
	}
}

// renew retires the sandbox of a session unless its policies have these texts.
func (s *agentSandboxes) renew(session agentSession, texts string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.open[session]; one != nil && one.texts != texts {
		s.retire(session)
	}
}

// textsOf identifies the texts of a chain's policies.
func textsOf(chain policy.Chain) string {
	var b strings.Builder
	for _, r := range chain {
		b.WriteString(r.Policy().Digest().String() + "\n")
	}
	return b.String()
}

// end retires the sandboxes of a session.
func (s *agentSandboxes) end(id string) {
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
	s.ending.Go(func() {
		one.zygote.End()
		one.group.release()
	})
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
func (b *Box) agentSeat(sp *spawn.Spawner, m machine, chain policy.Chain, key, session string, prof sandbox.Profile, st start) (seat, error) {
	one, err := b.agents.take(sp, agentSession{session, chain[0].Env().Workspace}, key, func() (*agentSandbox, error) {
		var made agentSandbox
		var err error
		made.texts = textsOf(chain)
		made.zygote, made.group, made.why, err = b.standing(sp, m, prof, start{stays: true, shares: true})
		return &made, err
	})
	if err != nil {
		return seat{}, err
	}
	prog := sharedCommand(m, prof, st)
	s := seat{tier: tierAgent, group: one.group.sharedView(), why: one.why}
	s.start = func(files [3]int) (*spawn.Child, error) { return one.zygote.Start(prog, files) }
	s.end = func(exit spawn.Exit) { b.agents.leave(one, spoiled(exit) || s.group.killed() > 0) }
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
