package agent

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
)

// live is what this process knows of a session that somebody works on or watches.
type live struct {
	id  uuid.UUID
	s   *Service
	hub *hub

	mu       sync.Mutex
	turn     *turn       // under way; nil: none
	act      *activation // its run; nil: none
	idle     *time.Timer // ends the run
	watchers int

	ending  sync.Mutex // held while its run is ended
	saving  sync.Mutex // held while its state is saved
	waiting int        // questions that its calls wait for
}

// activation is a session at work: its run, and its loop.
type activation struct {
	run     Run
	loop    *loop
	by      Caller
	granted Granted
	agent   int // version of the agent that it was prepared from
}

// hold gives what is known of a session, for use until let.
func (s *Service) hold(id uuid.UUID) *live {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.live[id]
	if l == nil {
		l = &live{id: id, s: s, hub: newHub(s.boot)}
		s.live[id] = l
	}
	l.mu.Lock()
	l.watchers++
	l.mu.Unlock()
	return l
}

// let gives it up: what nobody uses is forgotten.
func (s *Service) let(l *live) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watchers--; l.watchers == 0 && l.turn == nil && l.act == nil && s.live[l.id] == l {
		delete(s.live, l.id)
	}
}

// known is what is known of a session, nil for nothing.
func (s *Service) known(id uuid.UUID) *live {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live[id]
}

// active is the session's work under way or lately done here; nil for none.
func (s *Service) active(id uuid.UUID) *activation {
	l := s.known(id)
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.act
}

// stop ends the turn that is under way, and gives what tells that it has ended;
// nil: there is none.
func (l *live) stop(why error) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.turn == nil {
		return nil
	}
	l.turn.cancel(why)
	return l.turn.done
}

// under gives the turn that is under way; nil: there is none.
func (l *live) under() *turn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.turn != nil && l.turn.still {
		return nil
	}
	return l.turn
}

// rest ends the session's run unless a turn is under way.
func (l *live) rest(ctx context.Context) error { return l.restUnder(ctx, nil) }

// restUnder ends the session's run unless a turn other than t is under way.
func (l *live) restUnder(ctx context.Context, t *turn) error {
	l.ending.Lock()
	defer l.ending.Unlock()
	l.mu.Lock()
	act := l.act
	if l.turn != t || act == nil {
		l.mu.Unlock()
		return nil
	}
	l.act = nil
	if l.idle != nil {
		l.idle.Stop()
		l.idle = nil
	}
	l.mu.Unlock()
	return act.run.End(context.WithoutCancel(ctx))
}

// restLater ends the run once the session has done nothing for a while.
func (l *live) restLater() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.act == nil || l.turn != nil {
		return
	}
	if l.idle != nil {
		l.idle.Stop()
	}
	l.idle = time.AfterFunc(l.s.o.Idle, func() {
		if !l.s.begin() {
			return
		}
		defer l.s.work.Done()
		held := l.s.hold(l.id)
		defer l.s.let(held)
		_ = l.rest(context.Background()) // a store that fails tells so with the next turn
	})
}

// begin counts a piece of work that Close waits for; false: there is no more.
func (s *Service) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.work.Add(1)
	return true
}

// save changes what is kept of the session.
func (l *live) save(ctx context.Context, by string, change func(*sessionDoc)) (Session, error) {
	l.saving.Lock()
	defer l.saving.Unlock()
	ctx = context.WithoutCancel(ctx)
	for try := 0; ; try++ {
		r, d, err := l.s.session(ctx, l.id.String())
		if err != nil {
			return Session{}, err
		}
		change(&d)
		if r, err = l.s.put(ctx, r, d, by); err == nil {
			return show(r, d), nil
		}
		if !errors.Is(err, fault.Stale) || try == 4 {
			return Session{}, err
		}
	}
}

// put keeps a session's state.
func (s *Service) put(ctx context.Context, r store.SessionRecord, d sessionDoc, by string) (store.SessionRecord, error) {
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

// state keeps a new state and tells of it.
func (l *live) state(ctx context.Context, by string, to State, why error, more func(*sessionDoc)) (Session, error) {
	p := problem(why)
	out, err := l.save(ctx, by, func(d *sessionDoc) {
		d.State, d.Error = to, p
		if more != nil {
			more(d)
		}
	})
	if err == nil {
		l.hub.tell(Event{Type: StateChanged, State: to, Error: p})
	}
	return out, err
}
