package agent

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/tools/model"
)

// maxTitle bounds a session's title, in bytes.
const maxTitle = 200

// CreateSession implements [API].
func (s *Service) CreateSession(ctx context.Context, by Caller, agent, title string) (Session, error) {
	a, err := s.Agent(ctx, agent)
	if err != nil {
		return Session{}, err
	}
	if len(title) > maxTitle || !printable(title) {
		return Session{}, fault.New(fault.AgentInvalid, "a title has at most %d bytes that can be seen", maxTitle).In("title")
	}
	return s.create(ctx, by, a, sessionDoc{Title: title, State: Idle}, uuid.Nil)
}

// create keeps a new session, after its grant was made: one that could never do
// anything is refused here.
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
	if r, err = s.put(ctx, r, d, by.Name); err != nil {
		return Session{}, err
	}
	return show(r, d), nil
}

// Session implements [API].
func (s *Service) Session(ctx context.Context, id string) (Session, error) {
	r, d, err := s.session(ctx, id)
	if err != nil {
		return Session{}, err
	}
	return s.seen(ctx, r, d)
}

// seen is a session as it is now: one that was at work when its process ended is
// paused until somebody resumes it.
func (s *Service) seen(ctx context.Context, r store.SessionRecord, d sessionDoc) (Session, error) {
	for d.State == Working || d.State == Waiting || d.State == Paused {
		if l := s.known(r.ID); l != nil && l.under() != nil {
			break
		}
		going, err := s.elsewhere(ctx, r.ID)
		if err != nil {
			return Session{}, err
		}
		if going {
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
	return show(r, d), nil
}

// elsewhere reports whether another process works on a session. Where nothing can be
// written, a run that the record has not closed counts as under way.
func (s *Service) elsewhere(ctx context.Context, id uuid.UUID) (bool, error) {
	if _, err := s.o.Record.Recover(ctx); err != nil && !errors.Is(err, fault.StoreReadOnly) {
		return false, err
	}
	runs, err := s.o.Record.SessionRuns(ctx, id)
	for _, r := range runs {
		if r.Status == ledger.Running {
			return true, err
		}
	}
	return false, err
}

// Sessions implements [API].
func (s *Service) Sessions(ctx context.Context, agent string, before uuid.UUID, limit int) ([]Session, error) {
	f := store.SessionFilter{PageFilter: store.PageFilter{Before: before, Limit: limit}}
	if agent != "" {
		r, err := s.o.Record.Agent(ctx, agent)
		if err != nil {
			return nil, err
		}
		f.Agent = r.ID
	}
	return s.list(ctx, f)
}

func (s *Service) list(ctx context.Context, f store.SessionFilter) ([]Session, error) {
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
		one, err := s.seen(ctx, r, d)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// DeleteSession implements [API]. What it spawned ends with it.
func (s *Service) DeleteSession(ctx context.Context, by Caller, id string) error {
	r, d, err := s.session(ctx, id)
	if err != nil {
		return err
	}
	return s.end(ctx, by, r, d, true)
}

// end ends a session for good: its turn, its run, its grant, and its sub-agents.
func (s *Service) end(ctx context.Context, by Caller, r store.SessionRecord, d sessionDoc, remove bool) error {
	l := s.hold(r.ID)
	defer s.let(l)
	t, err := s.quiet(ctx, by, l)
	if err != nil {
		return err
	}
	defer s.release(l, t)
	kids, err := s.o.Record.Sessions(ctx, store.SessionFilter{Parent: r.ID, PageFilter: store.PageFilter{Limit: maxChildren}})
	if err != nil {
		return err
	}
	var errs []error
	for _, k := range kids {
		if kd, err := readSession(k); err == nil && !k.Deleted {
			errs = append(errs, s.end(ctx, by, k, kd, remove))
		}
	}
	errs = append(errs, l.restUnder(ctx, t))
	if d.Granted {
		errs = append(errs, s.o.House.Revoke(ctx, d.Grant, by.Name, "the session has ended"))
	}
	l.saving.Lock()
	defer l.saving.Unlock()
	now, nd, err := s.session(ctx, r.ID.String())
	if err == nil {
		nd.State, nd.Error, now.Deleted = Ended, nil, remove
		_, err = s.put(context.WithoutCancel(ctx), now, nd, by.Name)
	}
	l.hub.tell(Event{Type: StateChanged, State: Ended})
	return errors.Join(append(errs, err)...)
}

// quiet stops whatever a session does, and keeps turns from beginning until release.
func (s *Service) quiet(ctx context.Context, by Caller, l *live) (*turn, error) {
	for {
		if _, err := s.halt(ctx, l, fault.New(fault.ToolCancelled, "the session was ended")); err != nil {
			return nil, err
		}
		if t, err := s.still(l, by); !errors.Is(err, fault.SessionBusy) {
			return t, err
		}
	}
}

// Fork implements [API]. Tool calls that have no result by then are made anew when
// the fork is resumed.
func (s *Service) Fork(ctx context.Context, by Caller, id string, upTo int) (Session, error) {
	r, d, err := s.session(ctx, id)
	if err != nil {
		return Session{}, err
	}
	if upTo == 0 {
		upTo = r.Last
	}
	if upTo < 0 || upTo > r.Last {
		return Session{}, fault.New(fault.MessageUnknown, "the session has messages 1 to %d", r.Last)
	}
	a, err := s.agentOf(ctx, r.Agent)
	if err != nil {
		return Session{}, err
	}
	var copies []store.MessageRecord
	for m, err := range s.o.Record.Messages(ctx, r.ID, 1, false) {
		if err != nil {
			return Session{}, err
		}
		if m.Number > upTo {
			break
		}
		copies = append(copies, store.MessageRecord{Number: m.Number, Doc: m.Doc, At: m.At})
	}
	to := sessionDoc{Title: clip(d.Title, maxTitle), State: Idle, ForkOf: r.ID}
	if n := len(copies); n > 0 {
		last, err := decode(copies[n-1])
		if err != nil {
			return Session{}, err
		}
		if last.Role != model.Assistant || len(last.Calls) > 0 {
			to.State = Paused
		}
	}
	out, err := s.create(ctx, by, a, to, uuid.Nil)
	if err != nil || len(copies) == 0 {
		return out, err
	}
	if _, err = s.o.Record.AddMessages(ctx, out.ID, 0, copies...); err != nil {
		return out, err
	}
	return s.Session(ctx, out.ID.String())
}

// Messages implements [API]. The first is number from; limit 0 gives all.
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

// Cancel implements [API]. The turns of its sub-agents are cancelled as well.
func (s *Service) Cancel(ctx context.Context, by Caller, id string) (Session, error) {
	r, _, err := s.session(ctx, id)
	if err != nil {
		return Session{}, err
	}
	l := s.hold(r.ID)
	defer s.let(l)
	for {
		was, err := s.halt(ctx, l, fault.New(fault.ToolCancelled, "the turn was cancelled"))
		if err != nil {
			return Session{}, err
		}
		t, err := s.still(l, by)
		if err == nil {
			defer s.release(l, t)
			return s.giveUp(ctx, by, l)
		}
		if was { // and another turn has begun since, or Remit is ending
			return s.Session(ctx, id)
		}
		if !errors.Is(err, fault.SessionBusy) {
			return Session{}, err
		}
	}
}

// giveUp keeps that a turn which was interrupted does not go on, if there is one.
// No turn begins here meanwhile; if one does in another process, the session has
// another version by then.
func (s *Service) giveUp(ctx context.Context, by Caller, l *live) (Session, error) {
	l.saving.Lock()
	defer l.saving.Unlock()
	for try := 0; ; try++ {
		r, d, err := s.session(ctx, l.id.String())
		if err != nil {
			return Session{}, err
		}
		if !leftAtWork(d.State) && d.State != Paused {
			return show(r, d), nil
		}
		going, err := s.elsewhere(ctx, r.ID)
		if err != nil {
			return Session{}, err
		}
		if going {
			return Session{}, busy("the session is at work in another process")
		}
		d.State, d.Error = Cancelled, nil
		if r, err = s.put(context.WithoutCancel(ctx), r, d, by.Name); err == nil {
			l.hub.tell(Event{Type: StateChanged, State: Cancelled})
			return show(r, d), nil
		}
		if !errors.Is(err, fault.Stale) || try == 4 {
			return Session{}, err
		}
	}
}

// halt stops the turn of a session and those of all sessions below it, and waits
// until they are over; it reports whether the session itself had one. A call that
// is under way can still begin a turn below, so it looks again until there is none.
func (s *Service) halt(ctx context.Context, l *live, why error) (was bool, err error) {
	over := l.stop(why)
	was = over != nil
	for range maxDepth {
		all, err := s.stopBelow(ctx, l.id, why, maxDepth)
		if over != nil {
			all = append(all, over)
			over = nil
		}
		if err != nil || len(all) == 0 {
			return was, err
		}
		for _, done := range all {
			select {
			case <-done:
			case <-ctx.Done():
				return was, ctx.Err()
			}
		}
	}
	return was, nil
}

// stopBelow stops the turns of all sub-agents down to a depth, and gives what tells
// that they have ended. One that is idle can have one that is at work.
func (s *Service) stopBelow(ctx context.Context, parent uuid.UUID, why error, depth int) ([]<-chan struct{}, error) {
	if depth == 0 {
		return nil, nil
	}
	kids, err := s.o.Record.Sessions(ctx, store.SessionFilter{Parent: parent, PageFilter: store.PageFilter{Limit: maxChildren}})
	var all []<-chan struct{}
	for _, k := range kids {
		if l := s.known(k.ID); l != nil {
			if over := l.stop(why); over != nil {
				all = append(all, over)
			}
		}
		below, berr := s.stopBelow(ctx, k.ID, why, depth-1)
		all, err = append(all, below...), errors.Join(err, berr)
	}
	return all, err
}

// Pause implements [API].
func (s *Service) Pause(ctx context.Context, _ Caller, id string) (Session, error) {
	r, d, err := s.session(ctx, id)
	if err != nil {
		return Session{}, err
	}
	if l := s.known(r.ID); l != nil {
		if t := l.under(); t != nil {
			t.mu.Lock()
			if t.paused == nil {
				t.paused = make(chan struct{})
			}
			t.mu.Unlock()
		}
	}
	return s.seen(ctx, r, d)
}

// Resume implements [API].
func (s *Service) Resume(ctx context.Context, by Caller, id string) (Session, error) {
	r, d, err := s.session(ctx, id)
	if err != nil {
		return Session{}, err
	}
	l := s.hold(r.ID)
	defer s.let(l)
	if t := l.under(); t != nil {
		t.mu.Lock()
		if t.paused != nil {
			close(t.paused)
			t.paused = nil
		}
		t.mu.Unlock()
		return s.seen(ctx, r, d)
	}
	if err := s.goOn(ctx, by, l, func(was State) bool { return was != Idle }); err != nil {
		return Session{}, err
	}
	return s.Session(ctx, id)
}

// goOn goes on with the turn that a session was left in, if it is in a state to go
// on from.
func (s *Service) goOn(ctx context.Context, by Caller, l *live, may func(State) bool) error {
	_, _, err := s.start(ctx, by, l, nil, may)
	if errors.Is(err, errNotLeft) {
		return nil
	}
	return err
}

// leftAtWork are the states of a session whose process ended in the middle of a turn.
func leftAtWork(was State) bool { return was == Working || was == Waiting }

// Recover resumes the sessions that were at work when their process ended, where
// they were begun under the policies that hold. Those under a grant wait for who
// has it. It gives those that it resumed.
func (s *Service) Recover(ctx context.Context, by Caller) ([]Session, error) {
	var out []Session
	var errs []error
	for f := (store.SessionFilter{PageFilter: store.PageFilter{Limit: 100}}); ; {
		list, err := s.o.Record.Sessions(ctx, f)
		if err != nil || len(list) == 0 {
			return out, errors.Join(append(errs, err)...)
		}
		f.Before = list[len(list)-1].ID
		for _, r := range list {
			d, err := readSession(r)
			if err != nil || r.Deleted || d.Under != "" || !leftAtWork(d.State) {
				continue
			}
			one, err := s.Resume(ctx, by, r.ID.String())
			if errors.Is(err, fault.SessionBusy) {
				continue // a living process works on it
			}
			if errs = append(errs, err); err == nil {
				out = append(out, one)
			}
		}
	}
}

// Wait waits until the turn that is under way here has ended, and gives why;
// nil: the model was done, or there was none.
func (s *Service) Wait(ctx context.Context, id string) error {
	r, _, err := s.session(ctx, id)
	if err != nil {
		return err
	}
	if l := s.known(r.ID); l != nil {
		if t := l.under(); t != nil {
			select {
			case <-t.done:
				return t.err
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}
