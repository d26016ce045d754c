package agent

import (
	"context"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/provenance"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// GrantSource makes and revokes the grants of sessions: a Service decides nothing
// itself.
type GrantSource interface {
	// Grant makes the grant of a session from today's policies and from the caller's grant as it is
	// now. The ledger has its name, its status and its spending, but never its permissions.
	Grant(ctx context.Context, q GrantRequest) (Granted, error)
	// Revoke ends the grant of a session that has ended for good.
	Revoke(ctx context.Context, id uuid.UUID, by, why string) error
}

// GrantRequest asks for a session's grant.
type GrantRequest struct {
	ID        uuid.UUID // of the grant; the session keeps it
	New       bool      // the ledger does not have it yet
	Session   uuid.UUID
	Agent     Agent
	By        Caller
	Under     string   // the grant that the session was started under; "": the policies in force
	Parent    *Granted // of a sub-agent: its parent's grant; nil: none
	Policy    string   // that narrows a sub-agent's grant; "": none
	Workspace string   // "": the default of the grant source
}

// Granted is a session's grant, and where its policies come from.
type Granted struct {
	Grant     grant.Grant
	Sources   []ledger.PolicySource
	Under     string // ID of the grant that the caller presented; "": none
	Workspace string
	Handovers []int // positions in Grant.Nodes at which one holder handed the grant on to another
}

// RunStarter starts the runs of sessions: a Service runs nothing itself.
type RunStarter interface {
	// Begin starts a run of a session and records it.
	Begin(ctx context.Context, q RunRequest) (Run, error)
	// Labels returns the labels of all data that a session has seen, which its runs share. chain
	// says which labels the answers of quarantined sub-agents lose.
	Labels(ctx context.Context, session uuid.UUID, chain policy.Chain) (*runner.Context, error)
}

// RunRequest asks for a run of a session.
type RunRequest struct {
	Session uuid.UUID
	Name    string
	Granted Granted
	Tools   []permit.Tool // that the session has besides the catalog's
	Hooks   []runner.Hook // of its capabilities
	Mode    Mode
	Inputs  map[string]any
	Outputs runner.Outputs // that arguments can refer to
	// Asking is called when a call of the run waits for a person's approval; answered
	// must be called when it no longer waits.
	Asking func(question string, c runner.Call) (answered func())
	// Keep is called before a question about a call is filed: it keeps the turn for the next process.
	Keep func(ctx context.Context)
	// Observe, if not nil, is told when a call of the run enters a state.
	Observe func(runner.Notice)
	Queued  *Queued // nil: the run was not queued
}

// Queued says how the run of a queued turn begins.
type Queued struct {
	ID     uuid.UUID // of the run
	Record func(ctx context.Context, e ledger.Entry) (ledger.Seq, error)
}

// Run is a session's run. It is safe for concurrent use.
type Run interface {
	caller
	ID() uuid.UUID
	Seq() ledger.Seq
	// Timed reports whether the run's time is limited, so that it should not be kept
	// open for the next message.
	Timed() bool
	// Said gives the run a text of the operator or of a person in the session.
	Said(kind provenance.Kind, text string)
	// Lost is closed once this node may not carry the run out any more; nil: it always may.
	Lost() <-chan struct{}
	// End records the run's end.
	End(ctx context.Context) error
}

// grant makes a session's grant from all that it derives from, as that is today.
func (s *Service) grant(ctx context.Context, r store.SessionRecord, d sessionDoc, a Agent, by Caller) (Granted, error) {
	q := GrantRequest{ID: d.Grant, New: !d.Granted, Session: r.ID, Agent: a, By: by, Under: d.Under, Workspace: d.Workspace}
	if r.Parent != uuid.Nil {
		parent, err := s.grantOf(ctx, r.Parent, by)
		if err != nil {
			return Granted{}, err
		}
		q.Parent, q.Policy = &parent, d.Child.Policy
	}
	return s.o.Grants.Grant(ctx, q)
}

// grantOf gives the grant of a session that may have an open run.
func (s *Service) grantOf(ctx context.Context, id uuid.UUID, by Caller) (Granted, error) {
	if act := s.activation(id); act != nil && act.by.Token == by.Token {
		return act.granted, nil
	}
	r, d, err := s.session(ctx, id.String())
	if err != nil {
		return Granted{}, err
	}
	a, err := s.agentOf(ctx, r.Agent)
	if err != nil {
		return Granted{}, err
	}
	return s.grant(ctx, r, d, a, by)
}
