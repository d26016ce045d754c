//go:build linux && (amd64 || arm64)

package linux

import (
	"sync"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/sandbox/spawn"
)

// Sandboxes can be shared by the Boxes of one process: a spawner process, which starts with the first command, and
// the sandboxes that stay after a command.
type Sandboxes struct {
	machine func() (machine, error) // asked until there is an answer
	groups  func() (*groups, error) // never nil; retried until it succeeds

	mu      sync.Mutex
	spawner *spawn.Spawner
	closed  bool

	workspaces sync.Map // *sync.RWMutex by workspace, see namesOf

	spares   spares
	sessions sessions
	agents   agentSandboxes
	late     lateRefusals
	systems  systems

	tried    sync.Once
	strength strength // known once it was tried
}

// NewSandboxes makes Sandboxes. They must be closed, after the Boxes that have them.
func NewSandboxes() *Sandboxes {
	return &Sandboxes{machine: onceGood(thisMachine), groups: onceGood(newGroups)}
}

// Kept is the number of sandboxes that stay for the next commands of an agent's session.
func (s *Sandboxes) Kept() int { return s.agents.count() }

// Renew ends the processes that commands of an agent's session left under policies that do not hold any more. Without it, that
// happens a moment later.
func (s *Sandboxes) Renew(session string) { s.agents.renew(session) }

// EndSession ends the sandboxes of an agent's session, each after the commands that run there.
func (s *Sandboxes) EndSession(session string) { s.agents.endSession(session) }

// Close ends every sandbox.
func (s *Sandboxes) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.spares.close()
	s.sessions.close()
	s.agents.close()
	if s.spawner == nil {
		return nil
	}
	err := s.spawner.Close()
	s.spawner = nil
	groups, _ := s.groups() // the error is about making some
	groups.close()
	return err
}

// ready gives a spawner that lives.
func (s *Sandboxes) ready() (*spawn.Spawner, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fault.New(fault.Internal, "the sandbox is closed already")
	}
	if s.spawner != nil && s.spawner.Alive() {
		return s.spawner, nil
	}
	if s.spawner != nil {
		_ = s.spawner.Close() // it has ended; this only lets go of its socket
		s.spawner = nil
	}
	sp, err := spawn.Start()
	if err != nil {
		return nil, fault.Wrap(fault.SandboxMissing, err, "the process that makes sandboxes cannot be started: %v", err).
			ForOperator("%s", hintFor(err, "`remit doctor` shows which confinement this machine supports"))
	}
	s.spawner = sp
	return sp, nil
}
