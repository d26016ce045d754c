package httpapi

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/base/fault"
)

// Sessions keeps the sessions of agents.
type Sessions interface {
	CreateSession(ctx context.Context, by agent.Caller, agentID, title string, mode agent.Mode) (agent.Session, error)
	Session(ctx context.Context, id string) (agent.Session, error)
	Sessions(ctx context.Context, q agent.SessionFilter, before uuid.UUID, limit int) ([]agent.Session, error)
	DeleteSession(ctx context.Context, by agent.Caller, id string) error
	// Fork makes a session with the conversation of another one up to a message; 0: all
	// of it. A nil mode is that of the other session.
	Fork(ctx context.Context, by agent.Caller, id string, upTo int, mode *agent.Mode) (agent.Session, error)
}

// Turns controls the turns of sessions.
type Turns interface {
	Cancel(ctx context.Context, by agent.Caller, id string) (agent.Session, error)
	Pause(ctx context.Context, by agent.Caller, id string) (agent.Session, error)
	Resume(ctx context.Context, by agent.Caller, id string) (agent.Session, error)
	// EndRun ends the run of a session in which no turn is under way: its record is whole then.
	EndRun(ctx context.Context, by agent.Caller, id string) error
}

// SessionList is a page of sessions, newest first.
type SessionList struct {
	Items []agent.Session `json:"items"`
	Next  string          `json:"next,omitempty"`
}

type sessionAnswer struct {
	ETag     string `header:"ETag"`
	Location string `header:"Location"`
	Body     agent.Session
}

func answerSession(s agent.Session) *sessionAnswer {
	return &sessionAnswer{ETag: etag(s.Version), Location: "/v1/sessions/" + s.ID.String(), Body: s}
}

const sampleSession = "019a1fe7-0b1c-7a52-9e55-7e0f3a1c2b44"

var exampleSession = map[string]any{
	"id": sampleSession, "agent_id": "019a1fe6-f191-7e8b-a5c1-4c1f6a9f9a11", "title": "A first talk", "status": "idle", "version": 1, "messages": 0,
	"usage": map[string]any{"input": 0, "output": 0}, "created_at": "2026-11-21T12:00:00Z", "updated_at": "2026-11-21T12:00:00Z",
}

// SessionPath has the ID of a session.
type SessionPath struct {
	ID string `path:"session_id" maxLength:"100" example:"019a1fe7-0b1c-7a52-9e55-7e0f3a1c2b44"`
}

type sessionIn struct {
	asked
	SessionPath
}

// session finds a session that the caller may use.
func (s *Server) session(ctx context.Context, in *asked, id string) (agent.Session, error) {
	return reachable(ctx, fault.SessionUnknown, "session", id, s.o.Sessions.Session, func(found agent.Session) (bool, error) {
		return s.reachesSession(ctx, in, found)
	})
}

func (s *Server) reachesSession(ctx context.Context, in *asked, found agent.Session) (bool, error) {
	return in.reaches(func() ([]string, error) { return s.o.Lineage.OfSession(ctx, found) })
}

func (s *Server) sessions() {
	type create struct {
		asked
		Body struct {
			Agent string `json:"agent_id" format:"uuid" maxLength:"100" example:"019a1fe6-f191-7e8b-a5c1-4c1f6a9f9a11"`
			Title string `json:"title,omitempty" maxLength:"500"`
			CallMode
		} `nameHint:"NewSession"`
	}
	route(s, operation{
		id: "createSession", method: http.MethodPost, path: "/v1/sessions", tag: "sessions", action: "sessions.write", status: http.StatusCreated,
		summary: "Start a session", text: "The session's grant derives from the caller's, and never allows more than the caller can hand on.", errors: []int{404, 409},
		request: map[string]any{"agent_id": "019a1fe6-f191-7e8b-a5c1-4c1f6a9f9a11", "title": "A first talk"}, answer: exampleSession,
	}, func(ctx context.Context, in *create) (*sessionAnswer, error) {
		if err := checkWholeID(fault.AgentUnknown, "agent", in.Body.Agent); err != nil {
			return nil, err
		}
		mode, err := in.Body.mode()
		if err != nil {
			return nil, err
		}
		made, err := s.o.Sessions.CreateSession(ctx, in.agentCaller(), in.Body.Agent, in.Body.Title, mode)
		return answerSession(made), err
	})
	s.listSessions()
	route(s, operation{
		id: "getSession", method: http.MethodGet, path: "/v1/sessions/{session_id}", tag: "sessions", action: "sessions.read", summary: "Get a session",
		errors: []int{404}, answer: exampleSession,
	}, func(ctx context.Context, in *sessionIn) (*sessionAnswer, error) {
		found, err := s.session(ctx, &in.asked, in.ID)
		return answerSession(found), err
	})
	route(s, operation{
		id: "deleteSession", method: http.MethodDelete, path: "/v1/sessions/{session_id}", tag: "sessions", action: "sessions.write", status: http.StatusNoContent,
		summary: "End a session", text: "Stops the session and ends it for good. The record keeps it.", errors: []int{404, 409},
	}, func(ctx context.Context, in *sessionIn) (*struct{}, error) {
		if _, err := s.session(ctx, &in.asked, in.ID); err != nil {
			return nil, err
		}
		return nil, s.o.Sessions.DeleteSession(ctx, in.agentCaller(), in.ID)
	})
	s.steerSessions()
}

func (s *Server) listSessions() {
	type list struct {
		asked
		Page
		Agent  string `query:"agent_id" format:"uuid" maxLength:"100" doc:"Only sessions of this agent"`
		Parent string `query:"parent_id" format:"uuid" maxLength:"100" doc:"Only sessions that this session spawned"`
		Status string `query:"status" enum:"idle,working,waiting,paused,failed,cancelled,ended" doc:"Only sessions that are in this state now"`
	}
	route(s, operation{
		id: "listSessions", method: http.MethodGet, path: "/v1/sessions", tag: "sessions", action: "sessions.read", summary: "List sessions",
		text:   "Newest first: sessions begun under the caller's grant or below it, or by the person whose own grant it is.",
		answer: map[string]any{"items": []any{exampleSession}},
	}, func(ctx context.Context, in *list) (*struct{ Body SessionList }, error) {
		before, err := in.uuid("sessions")
		if err != nil {
			return nil, err
		}
		q := agent.SessionFilter{Agent: in.Agent}
		if in.Parent != "" {
			parent, err := s.session(ctx, &in.asked, in.Parent)
			if err != nil {
				return nil, err
			}
			q.Parent = parent.ID
		}
		out := SessionList{Items: []agent.Session{}}
		out.Next, err = pages("sessions", in.Limit, before, func(before uuid.UUID, n int) ([]agent.Session, error) {
			return s.o.Sessions.Sessions(ctx, q, before, n)
		}, func(a agent.Session) uuid.UUID { return a.ID }, func(a agent.Session) error {
			if in.Status != "" && string(a.State) != in.Status {
				return nil
			}
			ok, err := s.reachesSession(ctx, &in.asked, a)
			if ok && err == nil {
				out.Items = append(out.Items, a)
			}
			return err
		}, func() int { return len(out.Items) })
		return &struct{ Body SessionList }{out}, err
	})
}

// maxScan is how many records are read for one page of records that the caller may see. The cursor
// continues from there.
const maxScan = 2000

// pages reads records, newest first, until a page is full. It gives the cursor of the next
// page.
func pages[T any](kind string, limit int, before uuid.UUID, read func(uuid.UUID, int) ([]T, error), id func(T) uuid.UUID, take func(T) error, have func() int) (string, error) {
	for scanned := 0; ; {
		list, err := read(before, limit+1)
		if err != nil {
			return "", err
		}
		for _, one := range list {
			if have() == limit || scanned >= maxScan {
				return cursor(kind, before.String()), nil
			}
			if err := take(one); err != nil {
				return "", err
			}
			before = id(one)
			scanned++
		}
		if len(list) == 0 { // a short list is not the end: some records may be left out
			return "", nil
		}
	}
}

func (s *Server) steerSessions() {
	steer := func(name, summary, text string, do func(context.Context, agent.Caller, string) (agent.Session, error)) {
		route(s, operation{
			id: name + "Session", method: http.MethodPost, path: "/v1/sessions/{session_id}/" + name, tag: "sessions", action: "sessions.write",
			summary: summary, text: text, errors: []int{404, 409}, answer: exampleSession,
		}, func(ctx context.Context, in *sessionIn) (*sessionAnswer, error) {
			if _, err := s.session(ctx, &in.asked, in.ID); err != nil {
				return nil, err
			}
			after, err := do(ctx, in.agentCaller(), in.ID)
			return answerSession(after), err
		})
	}
	steer("cancel", "Cancel the turn", "Ends the turn that is under way, and its calls. A message starts the next one.", s.o.Turns.Cancel)
	steer("pause", "Pause the turn", "Holds the turn before its next step.", s.o.Turns.Pause)
	steer("resume", "Resume the turn", "Continues a turn that was paused or interrupted. No call that was made is made again.", s.o.Turns.Resume)
	type fork struct {
		asked
		SessionPath
		Body *struct {
			UpTo     int             `json:"up_to,omitempty" minimum:"0" maximum:"10000000" doc:"The last message that the new session has; 0: all"`
			Planning *bool           `json:"planning,omitempty" doc:"Refuse calls with side effects; missing, with frozen: as the other session"`
			Frozen   json.RawMessage `json:"frozen,omitempty" doc:"A frozen plan: other calls are refused"`
		} `nameHint:"ForkOf"`
	}
	route(s, operation{
		id: "forkSession", method: http.MethodPost, path: "/v1/sessions/{session_id}/fork", tag: "sessions", action: "sessions.write", status: http.StatusCreated,
		summary: "Fork a session", text: "Makes a session with another's conversation up to a message.", errors: []int{404, 409},
		request: map[string]any{"up_to": 2}, answer: exampleSession,
	}, func(ctx context.Context, in *fork) (*sessionAnswer, error) {
		if _, err := s.session(ctx, &in.asked, in.ID); err != nil {
			return nil, err
		}
		upTo, mode := 0, (*agent.Mode)(nil)
		if in.Body != nil {
			upTo = in.Body.UpTo
			if in.Body.Planning != nil || in.Body.Frozen != nil {
				m, err := CallMode{Planning: in.Body.Planning != nil && *in.Body.Planning, Frozen: in.Body.Frozen}.mode()
				if err != nil {
					return nil, err
				}
				mode = &m
			}
		}
		made, err := s.o.Sessions.Fork(ctx, in.agentCaller(), in.ID, upTo, mode)
		return answerSession(made), err
	})
}
