package agent

import (
	"context"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
)

// maxTitle is the longest title of a session, in bytes.
const maxTitle = 200

// CreateSession makes a session of an agent, given by its ID or name.
func (s *Service) CreateSession(ctx context.Context, by Caller, agent, title string, mode Mode) (Session, error) {
	a, err := s.Agent(ctx, agent)
	if err != nil {
		return Session{}, err
	}
	if len(title) > maxTitle || !printable(title) {
		return Session{}, fault.New(fault.AgentInvalid, "a title must have at most %d bytes of visible characters", maxTitle).In("title")
	}
	m, err := mode.doc()
	if err != nil {
		return Session{}, err
	}
	return s.create(ctx, by, a, sessionDoc{Title: title, State: Idle, Mode: m}, uuid.Nil)
}

// create records a new session. Its grant is made first, so that a session that could
// never do anything is refused.
func (s *Service) create(ctx context.Context, by Caller, a Agent, d sessionDoc, parent uuid.UUID) (Session, error) {
	r := store.SessionRecord{Agent: a.ID, Parent: parent, By: by.Name, Created: s.o.Now().UTC()}
	var err error
	if r.ID, err = newID(); err != nil {
		return Session{}, err
	}
	if d.Grant, err = newID(); err != nil {
		return Session{}, err
	}
	if d.Child == nil || !d.Child.Pending {
		g, err := s.grant(ctx, r, d, a, by)
		if err != nil {
			return Session{}, err
		}
		d.Granted, d.Under, d.Workspace = true, g.Under, g.Workspace
	}
	if r, err = s.save(ctx, r, d, by.Name); err != nil {
		return Session{}, err
	}
	return sessionOf(r, d), nil
}

// Session finds a session by its ID.
func (s *Service) Session(ctx context.Context, id string) (Session, error) {
	r, d, err := s.session(ctx, id)
	if err != nil {
		return Session{}, err
	}
	return s.current(ctx, r, d)
}

// current is a session as it is now: one whose process ended in the middle of a turn
// is paused until somebody resumes it.
func (s *Service) current(ctx context.Context, r store.SessionRecord, d sessionDoc) (Session, error) {
	for d.State.interrupted() && s.currentTurn(r.ID) == nil {
		elsewhere, err := s.leasedElsewhere(ctx, r.ID)
		if err != nil {
			return Session{}, err
		}
		if elsewhere {
			break
		}
		now, doc, err := s.session(ctx, r.ID.String())
		if err != nil {
			return Session{}, err
		}
		if now.Version == r.Version { // its turn did not end meanwhile
			d.State = Paused
			break
		}
		r, d = now, doc
	}
	return sessionOf(r, d), nil
}

// SessionFilter selects sessions. The zero SessionFilter selects all.
type SessionFilter struct {
	Agent  string    // only sessions of this agent, by its ID or name
	Parent uuid.UUID // only sessions that this session spawned
}

// Sessions lists sessions, newest first: the ones older than before (uuid.Nil: from the newest on).
func (s *Service) Sessions(ctx context.Context, q SessionFilter, before uuid.UUID, limit int) ([]Session, error) {
	f := store.SessionFilter{Parent: q.Parent, PageFilter: store.PageFilter{Before: before, Limit: limit}}
	if q.Agent != "" {
		r, err := s.o.Record.Agent(ctx, q.Agent)
		if err != nil {
			return nil, err
		}
		f.Agent = r.ID
	}
	list, err := s.o.Record.Sessions(ctx, f)
	if err != nil {
		return nil, err
	}
	out := make([]Session, 0, len(list))
	for _, r := range list {
		if r.Deleted {
			continue
		}
		d, err := readSession(r)
		if err != nil {
			return nil, err
		}
		one, err := s.current(ctx, r, d)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// Fork makes a session that starts with another's conversation up to a message; 0: all
// of it. Tool calls without a result by then are made again when the fork is resumed. A nil
// mode is that of the other session.
func (s *Service) Fork(ctx context.Context, by Caller, id string, upTo int, mode *Mode) (Session, error) {
	r, d, err := s.session(ctx, id)
	if err != nil {
		return Session{}, err
	}
	if upTo == 0 {
		upTo = r.Last
	}
	if upTo < 0 || upTo > r.Last {
		return Session{}, fault.New(fault.MessageUnknown, "message %d is unknown: the session has messages 1 to %d", upTo, r.Last)
	}
	a, err := s.agentOf(ctx, r.Agent)
	if err != nil {
		return Session{}, err
	}
	var copies []store.MessageRecord
	var said []Message
	for m, err := range s.o.Record.Messages(ctx, r.ID, 1, false) {
		if err != nil {
			return Session{}, err
		}
		if m.Number > upTo {
			break
		}
		one, err := decode(m)
		if err != nil {
			return Session{}, err
		}
		said, copies = append(said, one), append(copies, store.MessageRecord{Number: m.Number, Doc: m.Doc, At: m.At})
	}
	to := sessionDoc{Title: clip.Text(d.Title, maxTitle), State: Idle, ForkOf: r.ID, Mode: d.Mode}
	if mode != nil {
		if to.Mode, err = mode.doc(); err != nil {
			return Session{}, err
		}
	}
	to.State = forkState(said)
	out, err := s.create(ctx, by, a, to, uuid.Nil)
	if err != nil || len(copies) == 0 {
		return out, err
	}
	if _, err = s.o.Record.AddMessages(ctx, out.ID, 0, copies...); err != nil {
		return out, err
	}
	return s.Session(ctx, out.ID.String())
}

// Messages gives a session's messages, the first being number from; limit 0 gives all.
func (s *Service) Messages(ctx context.Context, id string, from, limit int) ([]Message, error) {
	r, _, err := s.session(ctx, id)
	if err != nil {
		return nil, err
	}
	out := []Message{}
	for m, err := range s.o.Record.Messages(ctx, r.ID, max(from, 1), false) {
		if err != nil {
			return nil, err
		}
		one, err := decode(m)
		if err != nil {
			return nil, err
		}
		if out = append(out, one); len(out) == limit {
			break
		}
	}
	return out, nil
}
