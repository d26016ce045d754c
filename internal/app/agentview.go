package app

import (
	"context"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// SessionQuery chooses a page of sessions, newest first.
type SessionQuery struct {
	Agent  string // its ID or name; "": of any
	Before string // older than this one; "": from the newest
	Limit  int
}

// SessionView is a session and its agent's name.
type SessionView struct {
	agent.Session
	AgentName string `json:"agent_name,omitempty"`
}

// SessionWhole is a session with its runs and its conversation.
type SessionWhole struct {
	SessionView
	Runs         []ledger.Run    `json:"runs"`
	Conversation []agent.Message `json:"conversation"`
}

// looking is the ledger and the service over it, to look at agents and sessions:
// nothing is begun, and nothing has to be closed.
func (a *App) looking(ctx context.Context) (*agent.Service, store.Backend, error) {
	if _, err := a.Reader(ctx); err != nil {
		return nil, nil, err
	}
	s, err := a.agents(AgentsRequest{Capabilities: &capability.Registry{}, still: true})
	if err != nil {
		return nil, nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.store == nil {
		return nil, nil, fault.New(fault.StoreFailed, "the ledger is closed")
	}
	return s, a.store, nil
}

// AgentPage lists agents, newest first: those after the one that before names ("":
// from the newest). next is what to name for those that follow, "" after the last.
func (a *App) AgentPage(ctx context.Context, before string, limit int) (page []agent.Agent, next string, err error) {
	s, st, err := a.looking(ctx)
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
	list, err := s.Agents(ctx, from, limit+1)
	if err != nil {
		return nil, "", err
	}
	if len(list) > limit {
		list = list[:limit]
		next = list[limit-1].ID.String()
	}
	return list, next, nil
}

// AgentView finds an agent by its ID, the beginning of one, or its name.
func (a *App) AgentView(ctx context.Context, id string) (agent.Agent, error) {
	s, _, err := a.looking(ctx)
	if err != nil {
		return agent.Agent{}, err
	}
	return s.Agent(ctx, id)
}

// SessionPage lists sessions, newest first. next is the Before of those that follow,
// "" after the last.
func (a *App) SessionPage(ctx context.Context, q SessionQuery) (page []SessionView, next string, err error) {
	s, st, err := a.looking(ctx)
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
	list, err := s.Sessions(ctx, q.Agent, from, q.Limit+1)
	if err != nil {
		return nil, "", err
	}
	if len(list) > q.Limit {
		list = list[:q.Limit]
		next = list[q.Limit-1].ID.String()
	}
	page, names := []SessionView{}, map[uuid.UUID]string{}
	for _, one := range list {
		v, err := viewOf(ctx, st, one, names)
		if err != nil {
			return nil, "", err
		}
		page = append(page, v)
	}
	return page, next, nil
}

// viewOf adds the agent's name, also of one that was deleted. names are those that
// are known already.
func viewOf(ctx context.Context, st store.Sessions, s agent.Session, names map[uuid.UUID]string) (SessionView, error) {
	v := SessionView{Session: s}
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

// SessionWhole finds a session by its ID or the beginning of one, with its runs and
// its conversation.
func (a *App) SessionWhole(ctx context.Context, id string) (SessionWhole, error) {
	s, st, err := a.looking(ctx)
	if err != nil {
		return SessionWhole{}, err
	}
	found, err := s.Session(ctx, id)
	if err != nil {
		return SessionWhole{}, err
	}
	var out SessionWhole
	if out.SessionView, err = viewOf(ctx, st, found, map[uuid.UUID]string{}); err != nil {
		return out, err
	}
	if out.Runs, err = st.SessionRuns(ctx, found.ID); err != nil {
		return out, err
	}
	if out.Runs == nil {
		out.Runs = []ledger.Run{}
	}
	out.Conversation, err = s.Messages(ctx, found.ID.String(), 1, 0)
	return out, err
}
