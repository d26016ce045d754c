package agent

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
)

// session is a session that this process works on or watches. One goroutine owns its
// state; all others send that goroutine commands. Commands never wait for anything, so
// that a session always answers. What takes time (a turn, a cancellation, the end of a
// run) has a goroutine of its own, and the owner's phase keeps it alone.
type session struct {
	id       uuid.UUID
	svc      *Service
	commands chan func(*owner)
	unused   chan struct{} // closed when nobody uses the session any more: its goroutine ends
	users    int           // guarded by Service.mu
}

// owner is the state of a session's goroutine. Nobody else reads or writes it.
type owner struct {
	*session

	phase     phase
	turn      *turn         // that has the session, also a reservation; nil: none
	run       *activation   // open run; nil: none
	idle      *time.Timer   // closes the run
	epoch     int64         // of the turn among the nodes; 0: this node has none
	closed    chan struct{} // of the run that is being closed: closed when that is done; nil: there is none
	questions int           // that the turn's calls wait for
	left      int           // how many turns in a row were left because the ledger failed
	told      []string      // violations of sub-agents, for the next step
	pause     chan struct{} // closed when the turn may go on; nil: no pause was asked for
	hub       hub
	version   int // of the record whose state was published last

	closing  bool          // the service ends: no turn may start
	drained  chan struct{} // closed when the session is closing, free, and has no run
	closeErr error         // of the run that was closed last
	inUse    bool          // the goroutine counts as a user of the session
}

// activation is a session at work: the lease on it, its run, and the loop that carries
// out its turns. It does not change; a new turn may replace it.
type activation struct {
	lease   lease
	run     Run
	loop    *loop
	by      Caller
	granted Granted
	agent   int  // version of the agent that the loop was prepared from
	child   bool // of a sub-agent
}

// acquire gives a session for use until release. The first use starts its goroutine.
func (s *Service) acquire(id uuid.UUID) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.sessions[id]
	if l == nil {
		l = &session{id: id, svc: s, commands: make(chan func(*owner)), unused: make(chan struct{})}
		s.sessions[id] = l
		o := &owner{session: l, phase: phaseFree, hub: newHub(s.process), closing: s.closed, drained: make(chan struct{})}
		o.idle = time.NewTimer(time.Hour)
		o.idle.Stop()
		go o.serve()
	}
	l.users++
	return l
}

// acquireKnown is acquire for a session that this process already works on or watches;
// nil: it does not.
func (s *Service) acquireKnown(id uuid.UUID) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.sessions[id]
	if l != nil {
		l.users++
	}
	return l
}

// release ends a use of a session.
func (s *Service) release(l *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(s.sessions, l.id)
		close(l.unused)
	}
}

// serve is the session's goroutine.
func (o *owner) serve() {
	for {
		select {
		case command := <-o.commands:
			command(o)
		case <-o.idle.C:
			if o.phase == phaseFree {
				o.closeRun(store.NoRequest)
			}
		case <-o.unused:
			return
		}
		o.update()
	}
}

// update notes whether the goroutine itself still uses the session, and whether a
// closing session is drained.
func (o *owner) update() {
	busy := o.turn != nil || o.run != nil || o.closed != nil
	if o.closing && !busy && o.drained != nil {
		close(o.drained)
		o.drained = nil
	}
	if busy == o.inUse {
		return
	}
	if o.inUse = busy; busy {
		o.svc.acquireKnown(o.id)
		return
	}
	o.svc.release(o.session)
}

// do has the session's goroutine carry out a command, and waits until it has.
func (l *session) do(command func(*owner)) {
	done := make(chan struct{})
	l.commands <- func(o *owner) {
		command(o)
		close(done)
	}
	<-done
}

// hubEnd gives the position of the next event.
func (l *session) hubEnd() (at uint64) {
	l.do(func(o *owner) { at = o.hub.end() })
	return at
}

// publish sends an event to those who watch the session.
func (l *session) publish(e Event) { l.commands <- func(o *owner) { o.hub.publish(e) } }

// advance takes a step of the turn table.
func (o *owner) advance(s step) error {
	to, err := turnTable.nextState(o.phase, s)
	o.phase = to
	return err
}

// claim makes a turn, or a reservation, the session's. Only one at a time has it;
// anybody else gets fault.SessionBusy.
func (l *session) claim(t *turn, s step) (err error) {
	l.do(func(o *owner) {
		if o.closing {
			err = errClosing
			return
		}
		if err = o.advance(s); err == nil {
			o.turn = t
			o.idle.Stop()
		}
	})
	return err
}

// free ends a turn or a reservation. closeRun: its run can record nothing more.
func (l *session) free(t *turn, s step, err error, closeRun bool) {
	l.do(func(o *owner) {
		_ = o.advance(s) // finish and release are possible wherever t has the session
		o.turn, o.pause, o.questions = nil, nil, 0
		if errors.Is(err, errClosing) && l.svc.o.Adopt {
			o.epoch = 0 // another node takes it once this one has left
		}
		t.cancel(nil)
		t.err = err
		close(t.done)
		switch {
		case o.closing || closeRun || l.svc.o.Turns != nil: // the next turn may be another node's
			o.closeRun(requestAfter(err))
		case o.run == nil:
		default:
			o.idle.Reset(l.svc.o.Idle)
		}
	})
}

// closeRun ends the session's run, which gives up the lease, and its turn among the nodes, for
// which something may be left to do.
func (o *owner) closeRun(left store.TurnRequest) {
	act, epoch := o.run, o.epoch
	if act == nil && epoch == 0 {
		return
	}
	done := make(chan struct{})
	o.run, o.epoch, o.closed = nil, 0, done
	o.idle.Stop()
	l := o.session
	go func() {
		var err error
		if act != nil {
			err = act.run.End(context.Background())
		}
		err = errors.Join(err, l.svc.endTurn(turnEnd{l.id, epoch, left}))
		l.do(func(o *owner) {
			o.closed, o.closeErr = nil, err // but for Close, the next turn tells of a store that fails
			close(done)
		})
	}()
}

// openRun gives the session's run to its turn, after a run that is being closed is
// closed; nil: it has none.
func (l *session) openRun() (act *activation) {
	var closed chan struct{}
	l.do(func(o *owner) { act, closed = o.run, o.closed })
	if closed != nil {
		<-closed
	}
	return act
}

// setRun gives the session another run, or none.
func (l *session) setRun(act *activation) { l.do(func(o *owner) { o.run = act }) }

// stop ends the session's turn, and returns a channel that is closed when the turn has ended; nil:
// there is no turn.
func (l *session) stop(why error) (done <-chan struct{}) {
	l.do(func(o *owner) {
		if o.turn == nil {
			return
		}
		_ = o.advance(stepStop) // possible wherever there is a turn
		o.turn.cancel(why)
		done = o.turn.done
	})
	return done
}

// currentTurn gives the turn that is under way; nil: there is none.
func (l *session) currentTurn() (t *turn) {
	l.do(func(o *owner) {
		if o.phase != phaseReserved {
			t = o.turn
		}
	})
	return t
}

// currentTurn gives the turn of a session that is under way in this process; nil:
// there is none.
func (s *Service) currentTurn(id uuid.UUID) *turn {
	l := s.acquireKnown(id)
	if l == nil {
		return nil
	}
	defer s.release(l)
	return l.currentTurn()
}

// activation gives the run that a session has in this process; nil: none.
func (s *Service) activation(id uuid.UUID) (act *activation) {
	l := s.acquireKnown(id)
	if l == nil {
		return nil
	}
	defer s.release(l)
	l.do(func(o *owner) { act = o.run })
	return act
}

// close has the session accept no more turns and end its run and turn. drained is closed when that
// is done.
func (l *session) close() (drained <-chan struct{}) {
	l.do(func(o *owner) {
		if !o.closing {
			o.closing, o.closeErr = true, nil
		}
		if drained = o.drained; drained == nil {
			closed := make(chan struct{})
			close(closed)
			drained = closed
		}
		if o.turn == nil {
			o.closeRun(store.NoRequest)
			return
		}
		_ = o.advance(stepStop) // possible wherever there is a turn
		o.turn.cancel(errClosing)
	})
	return drained
}

// errUnchanged says that a session need not be recorded again.
var errUnchanged = errors.New("unchanged")

// record records what a change makes of the session, and shows it to those who watch.
// It writes only if the record still is what it read, and reads again otherwise: the
// change is then decided again, on the newer state. edit may change more of the
// record; errUnchanged from it leaves the record as it is.
func (l *session) record(ctx context.Context, by string, what func() change, edit func(r *store.SessionRecord, d *sessionDoc, was State) error) (Session, error) {
	ctx = context.WithoutCancel(ctx)
	for try := 0; ; try++ {
		r, d, err := l.svc.session(ctx, l.id.String())
		if err != nil {
			return Session{}, err
		}
		was, problem := d.State, d.Error
		if d.State, err = sessionTable.nextState(was, what()); err != nil {
			return Session{}, err
		}
		d.Error = nil
		if edit != nil {
			switch err := edit(&r, &d, was); {
			case errors.Is(err, errUnchanged):
				d.Error = problem
				return sessionOf(r, d), nil
			case err != nil:
				return Session{}, err
			}
		}
		if r, err = l.svc.save(ctx, r, d, by); err == nil {
			l.showState(r.Version, d)
			return sessionOf(r, d), nil
		}
		if !errors.Is(err, fault.Stale) || try == 4 {
			return Session{}, err
		}
	}
}

// fixed is a change that does not depend on when it is recorded.
func fixed(c change) func() change { return func() change { return c } }

// onlyIfChanged is an edit that leaves a record alone whose state stays the same.
func onlyIfChanged(_ *store.SessionRecord, d *sessionDoc, was State) error {
	if d.State == was {
		return errUnchanged
	}
	return nil
}

// showState publishes a recorded state, unless a newer one was published.
func (l *session) showState(version int, d sessionDoc) {
	l.do(func(o *owner) {
		if version > o.version {
			o.version = version
			o.hub.publish(Event{Type: StateChanged, State: d.State, Error: d.Error})
		}
	})
}

// save records a session, if its record is at the version that r has.
func (s *Service) save(ctx context.Context, r store.SessionRecord, d sessionDoc, by string) (store.SessionRecord, error) {
	doc, err := json.Marshal(d)
	if err != nil {
		return r, fault.Wrap(fault.Internal, err, "the session cannot be written as JSON")
	}
	r.Doc, r.Saved = doc, s.o.Now().UTC()
	if by != "" {
		r.By = by
	}
	return s.o.Record.SaveSession(ctx, r)
}
