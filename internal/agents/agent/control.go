package agent

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
)

// Cancel ends the turn that is under way, and those of the session's sub-agents. A turn
// that was interrupted will not be continued by itself.
func (s *Service) Cancel(ctx context.Context, by Caller, id string) (Session, error) {
	r, _, err := s.session(ctx, id)
	if err != nil {
		return Session{}, err
	}
	l := s.acquire(r.ID)
	defer s.release(l)
	for {
		stopped, err := s.stopTree(ctx, l, fault.New(fault.ToolCancelled, "the turn was cancelled"))
		if err != nil {
			return Session{}, err
		}
		t, err := l.reserve(ctx, by)
		if err == nil {
			out, err := l.abandonTurn(ctx, by)
			l.freeStopped(t, err)
			return out, err
		}
		if stopped { // and another turn has started since, or Remit is ending
			return s.Session(ctx, id)
		}
		if !errors.Is(err, fault.SessionBusy) {
			return Session{}, err
		}
	}
}

// EndRun ends the run of a session in which no turn is under way, so that its record is whole.
// The next turn starts another run.
func (s *Service) EndRun(ctx context.Context, by Caller, id string) error {
	r, _, err := s.session(ctx, id)
	if err != nil {
		return err
	}
	l := s.acquire(r.ID)
	defer s.release(l)
	t, err := l.reserve(ctx, by)
	if err != nil {
		return err
	}
	l.do(func(o *owner) { o.closeErr = nil }) // of an earlier run
	l.free(t, stepRelease, nil, true)
	l.openRun() // waits until it has ended
	l.do(func(o *owner) { err = o.closeErr })
	return err
}

// reserve keeps turns from starting, on all nodes, until the reservation is freed.
func (l *session) reserve(ctx context.Context, by Caller) (*turn, error) {
	t := &turn{session: l, by: by, cancel: func(error) {}, done: make(chan struct{})}
	if err := l.claim(t, stepReserve); err != nil {
		return nil, err
	}
	if err := l.take(ctx, by); err != nil {
		l.free(t, stepRelease, err, false)
		return nil, err
	}
	return t, nil
}

// freeStopped releases the reservation of a caller that stopped the session's turn. If err kept
// that from being recorded, the turn is left to be cancelled.
func (l *session) freeStopped(t *turn, err error) {
	if err != nil {
		err = errors.Join(fault.New(fault.ToolCancelled, "the turn was cancelled"), err)
	}
	l.free(t, stepRelease, err, false)
}

// abandonTurn records that an interrupted turn will not be continued, if there is one.
// No turn can start here meanwhile; if one starts in another process, the session has
// another version by then.
func (l *session) abandonTurn(ctx context.Context, by Caller) (Session, error) {
	return l.record(ctx, by.Name, fixed(turnAbandoned), func(r *store.SessionRecord, d *sessionDoc, was State) error {
		if d.State == was {
			return errUnchanged
		}
		elsewhere, err := l.svc.leasedElsewhere(ctx, r.ID)
		if err == nil && elsewhere {
			err = errBusy("another process works on the session")
		}
		return err
	})
}

// stopTree stops the turn of a session and those of all sessions below it, and waits
// until they are over. It reports whether the session itself had one here: that of a node that
// died may be continued. A call that is under way can still start a turn below, so it looks again until there is none.
func (s *Service) stopTree(ctx context.Context, l *session, why error) (stopped bool, err error) {
	own := l.stop(why)
	for own == nil {
		there, err := s.stopElsewhere(ctx, l.id)
		if err != nil {
			return false, err
		}
		if there == nil {
			break
		}
		select {
		case <-there:
		case <-ctx.Done():
			return false, ctx.Err()
		}
		own = l.stop(why) // its node may have died, and this one taken the turn over
	}
	stopped = own != nil
	for range maxDepth {
		turns, err := s.stopBelow(ctx, l.id, why, maxDepth)
		if own != nil {
			turns = append(turns, own)
			own = nil
		}
		if err != nil || len(turns) == 0 {
			return stopped, err
		}
		for _, done := range turns {
			select {
			case <-done:
			case <-ctx.Done():
				return stopped, ctx.Err()
			}
		}
	}
	return stopped, nil
}

// stopBelow stops the turns of all sub-agents down to a depth, and gives channels that
// are closed when they are over. A sub-agent that is idle can have one that works.
func (s *Service) stopBelow(ctx context.Context, parent uuid.UUID, why error, depth int) ([]<-chan struct{}, error) {
	if depth == 0 {
		return nil, nil
	}
	children, err := s.o.Record.Sessions(ctx, store.SessionFilter{Parent: parent, PageFilter: store.PageFilter{Limit: maxChildren}})
	var turns []<-chan struct{}
	for _, child := range children {
		var done <-chan struct{}
		if l := s.acquireKnown(child.ID); l != nil {
			done = l.stop(why)
			s.release(l)
		}
		if d, derr := readSession(child); done == nil && derr == nil && d.State.interrupted() {
			done, derr = s.stopElsewhere(ctx, child.ID)
			err = errors.Join(err, derr)
		}
		if done != nil {
			turns = append(turns, done)
		}
		below, berr := s.stopBelow(ctx, child.ID, why, depth-1)
		turns, err = append(turns, below...), errors.Join(err, berr)
	}
	return turns, err
}

// DeleteSession stops a session and removes it for good, with its sub-agents.
func (s *Service) DeleteSession(ctx context.Context, by Caller, id string) error {
	r, d, err := s.session(ctx, id)
	if err != nil {
		return err
	}
	return s.endSession(ctx, by, r, d, true)
}

// endSession ends a session for good: its turn, its run, its grant, and its sub-agents.
func (s *Service) endSession(ctx context.Context, by Caller, r store.SessionRecord, d sessionDoc, remove bool) (err error) {
	l := s.acquire(r.ID)
	defer s.release(l)
	t, err := s.stopAndReserve(ctx, by, l)
	if err != nil {
		return err
	}
	defer func() { l.freeStopped(t, err) }()
	children, err := s.o.Record.Sessions(ctx, store.SessionFilter{Parent: r.ID, PageFilter: store.PageFilter{Limit: maxChildren}})
	if err != nil {
		return err
	}
	var errs []error
	for _, child := range children {
		if cd, err := readSession(child); err == nil && !child.Deleted {
			errs = append(errs, s.endSession(ctx, by, child, cd, remove))
		}
	}
	if act := l.openRun(); act != nil {
		l.setRun(nil)
		errs = append(errs, act.run.End(context.WithoutCancel(ctx)))
	}
	if d.Granted {
		errs = append(errs, s.o.Grants.Revoke(ctx, d.Grant, by.Name, "the session has ended"))
	}
	_, err = l.record(ctx, by.Name, fixed(sessionEnded), func(r *store.SessionRecord, _ *sessionDoc, _ State) error {
		r.Deleted = remove
		return nil
	})
	return errors.Join(append(errs, err)...)
}

// stopAndReserve stops all activity of a session, and keeps turns from starting until the
// reservation is freed.
func (s *Service) stopAndReserve(ctx context.Context, by Caller, l *session) (*turn, error) {
	for {
		if _, err := s.stopTree(ctx, l, fault.New(fault.ToolCancelled, "the session was ended")); err != nil {
			return nil, err
		}
		if t, err := l.reserve(ctx, by); !errors.Is(err, fault.SessionBusy) {
			return t, err
		}
	}
}

// Pause has the turn that is under way stop before its next step.
func (s *Service) Pause(ctx context.Context, _ Caller, id string) (Session, error) {
	r, d, err := s.session(ctx, id)
	if err != nil {
		return Session{}, err
	}
	held := false
	if l := s.acquireKnown(r.ID); l != nil {
		defer s.release(l)
		held = l.holdTurn()
	}
	if !held {
		if _, err := s.ask(ctx, r.ID, store.PauseTurn); err != nil {
			return Session{}, err
		}
	}
	return s.current(ctx, r, d)
}

// holdTurn has the turn stop before its next step; false: there is none.
func (l *session) holdTurn() (underWay bool) {
	l.do(func(o *owner) {
		if underWay = o.turn != nil && o.phase != phaseReserved; underWay && o.pause == nil {
			o.pause = make(chan struct{})
		}
	})
	return underWay
}

// letGo lets a turn go on that was held, or is to be; false: there is none.
func (l *session) letGo() (underWay bool) {
	l.do(func(o *owner) {
		if underWay = o.turn != nil && o.phase != phaseReserved; underWay && o.pause != nil {
			close(o.pause)
			o.pause = nil
		}
	})
	return underWay
}

// Resume continues a turn that was paused or interrupted.
func (s *Service) Resume(ctx context.Context, by Caller, id string) (Session, error) {
	r, d, err := s.session(ctx, id)
	if err != nil {
		return Session{}, err
	}
	l := s.acquire(r.ID)
	defer s.release(l)
	underWay := l.letGo()
	if !underWay {
		if underWay, err = s.ask(ctx, r.ID, store.ContinueTurn); err != nil {
			return Session{}, err
		}
	}
	if underWay {
		return s.current(ctx, r, d)
	}
	if err := s.continueTurn(ctx, by, l, turnResumed); err != nil {
		return Session{}, err
	}
	return s.Session(ctx, id)
}

// Recover continues the turns that were under way when their process ended, of
// sessions that were started without a grant. Those under a grant wait for its holder.
// It gives the sessions that it resumed.
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
			if err != nil || r.Deleted || d.Under != "" {
				continue
			}
			if to, err := sessionTable.nextState(d.State, turnRecovered); err != nil || to != Working {
				continue
			}
			one, err := s.Resume(ctx, by, r.ID.String())
			if errors.Is(err, fault.SessionBusy) {
				continue // a live process works on it
			}
			if errs = append(errs, err); err == nil {
				out = append(out, one)
			}
		}
	}
}

// Wait waits until the turn that is under way in this process, or on another node, has
// ended, and gives why it ended in this process; nil: the model was done, or there was no
// turn here.
func (s *Service) Wait(ctx context.Context, id string) error {
	r, _, err := s.session(ctx, id)
	if err != nil {
		return err
	}
	t := s.currentTurn(r.ID)
	if t == nil {
		return s.waitElsewhere(ctx, r.ID, store.NoRequest)
	}
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
		return ctx.Err()
	}
}
