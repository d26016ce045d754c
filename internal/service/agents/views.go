package agents

import (
	"context"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// SessionQuery selects a page of sessions, newest first.
type SessionQuery struct {
	Agent  string // its ID or name; "": any
	Before string // sessions older than this one; "": the newest
	Limit  int
}

// Named is a session with the name of its agent.
type Named struct {
	agent.Session

	AgentName string `json:"agent_name,omitempty"`
}

// Record is a session with its runs and its conversation.
type Record struct {
	Named

	Runs         []ledger.Run    `json:"runs"`
	Conversation []agent.Message `json:"conversation"`
}

// open opens the ledger for reading, and a service over it that starts nothing and need
// not be closed.
func (s *Agents) open(ctx context.Context) (*agent.Service, store.Backend, error) {
	st, err := s.Reader(ctx)
	if err != nil {
		return nil, nil, err
	}
	svc, err := s.service(st, Request{Capabilities: &capability.Registry{}}, s.Tools.Still())
	return svc, st, err
}

// List lists agents, newest first: those older than the agent before ("": the newest).
// next is the before of the next page, "" after the last.
func (s *Agents) List(ctx context.Context, before string, limit int) (page []agent.Agent, next string, err error) {
	svc, st, err := s.open(ctx)
	if err != nil {
		return nil, "", err
	}
	var from uuid.UUID
	if before != "" {
		r, err := st.Agent(ctx, before)
		if err != nil {
			return nil, "", err
		}
		from = r.ID
	}
	if page, err = svc.Agents(ctx, from, limit+1); err != nil {
		return nil, "", err
	}
	if len(page) > limit {
		page = page[:limit]
		next = page[limit-1].ID.String()
	}
	return page, next, nil
}

// Find finds an agent by its ID, the beginning of one, or its name.
func (s *Agents) Find(ctx context.Context, id string) (agent.Agent, error) {
	svc, _, err := s.open(ctx)
	if err != nil {
		return agent.Agent{}, err
	}
	return svc.Agent(ctx, id)
}

// Sessions lists sessions, newest first. next is the Before of the next page, "" after the
// last.
func (s *Agents) Sessions(ctx context.Context, q SessionQuery) (page []Named, next string, err error) {
	svc, st, err := s.open(ctx)
	if err != nil {
		return nil, "", err
	}
	var from uuid.UUID
	if q.Before != "" {
		r, err := st.Session(ctx, q.Before)
		if err != nil {
			return nil, "", err
		}
		from = r.ID
	}
	list, err := svc.Sessions(ctx, agent.SessionFilter{Agent: q.Agent}, from, q.Limit+1)
	if err != nil {
		return nil, "", err
	}
	if len(list) > q.Limit {
		list = list[:q.Limit]
		next = list[q.Limit-1].ID.String()
	}
	page, names := []Named{}, map[uuid.UUID]string{}
	for _, one := range list {
		v, err := withAgent(ctx, st, one, names)
		if err != nil {
			return nil, "", err
		}
		page = append(page, v)
	}
	return page, next, nil
}

// withAgent adds the name of a session's agent, also of a deleted one. names are those
// found before.
func withAgent(ctx context.Context, st store.Sessions, s agent.Session, names map[uuid.UUID]string) (Named, error) {
	v := Named{Session: s}
	if _, known := names[s.Agent]; !known && s.Agent != uuid.Nil {
		r, err := st.Agent(ctx, s.Agent.String())
		if err != nil {
			return v, err
		}
		names[s.Agent] = r.Name
	}
	v.AgentName = names[s.Agent]
	return v, nil
}

// Session finds a session by its ID or the beginning of one, with its runs and its
// conversation.
func (s *Agents) Session(ctx context.Context, id string) (Record, error) {
	svc, st, err := s.open(ctx)
	if err != nil {
		return Record{}, err
	}
	found, err := svc.Session(ctx, id)
	if err != nil {
		return Record{}, err
	}
	var out Record
	if out.Named, err = withAgent(ctx, st, found, map[uuid.UUID]string{}); err != nil {
		return out, err
	}
	if out.Runs, err = st.SessionRuns(ctx, found.ID); err != nil {
		return out, err
	}
	if out.Runs == nil {
		out.Runs = []ledger.Run{}
	}
	out.Conversation, err = svc.Messages(ctx, found.ID.String(), 1, 0)
	return out, err
}
