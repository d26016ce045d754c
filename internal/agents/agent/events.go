package agent

import (
	"context"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
)

// pollInterval is how often a watcher looks for the messages of a session that another
// process may work on.
const pollInterval = 2 * time.Second

// pollNodes is the same where nodes share a database.
const pollNodes = 200 * time.Millisecond

// Events gives on the events of a session, until ctx ends. It starts after the event with
// the ID last, which is the last one that the client saw ("": from now on). Messages that
// the client missed come first, from the record; the pieces of their text do not come
// again.
func (s *Service) Events(ctx context.Context, id, last string, on func(Event) error) error {
	r, d, err := s.session(ctx, id)
	if err != nil {
		return err
	}
	l := s.acquire(r.ID)
	defer s.release(l)
	w := &watcher{svc: s, session: l, on: on, told: r.Last}
	if last != "" {
		n, ok := parseEventID(last)
		if !ok {
			return fault.New(fault.MessageUnknown, "%.100q is not a valid event ID", last)
		}
		w.told = n
	}
	known := true
	l.do(func(o *owner) {
		o.hub.countFrom(r.Last)
		o.version = max(o.version, r.Version) // its present state is told below
		if w.position = o.hub.end(); last != "" {
			w.position, known = o.hub.positionAfter(last)
		}
	})
	if !known {
		if err := w.catchUp(ctx); err != nil {
			return err
		}
	}
	now, err := s.current(ctx, r, d)
	if err == nil {
		err = on(Event{ID: last, Type: StateChanged, At: s.o.Now(), State: now.State, Error: now.Error})
	}
	if err != nil {
		return err
	}
	return w.watch(ctx)
}

// watcher is a client that watches a session.
type watcher struct {
	svc      *Service
	session  *session
	on       func(Event) error
	position uint64 // in the hub
	told     int    // number of the last message that it got
}

// watch passes on events until the context ends.
func (w *watcher) watch(ctx context.Context) error {
	every := pollInterval
	if w.svc.o.Turns != nil {
		every = pollNodes
	}
	poll := time.NewTicker(every)
	defer poll.Stop()
	for {
		n, err := w.passOn(ctx)
		if err != nil {
			return err
		}
		if n.lost {
			continue
		}
		select {
		case <-n.more:
		case <-poll.C:
			if w.session.currentTurn() == nil { // another process may work on it
				if err := w.look(ctx); err != nil {
					return err
				}
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// follow passes on events until a turn is over and all its events are passed on.
func (w *watcher) follow(ctx context.Context, t *turn) error {
	for over := false; ; {
		n, err := w.passOn(ctx)
		if err != nil || over {
			return err
		}
		select {
		case <-n.more:
		case <-t.done:
			over = true // once more, for what came last
		}
	}
}

// passOn passes on the events since the last call.
func (w *watcher) passOn(ctx context.Context) (n news, err error) {
	w.session.do(func(o *owner) { n = o.hub.eventsSince(w.position) })
	w.position = n.next
	if n.lost {
		return n, store.Patiently(ctx, store.LongPatience, store.PatientEvery, func() error { return w.catchUp(ctx) })
	}
	for _, e := range n.events {
		if err := w.sendEvent(e); err != nil {
			return n, err
		}
	}
	return n, nil
}

// sendEvent passes on an event, and each message once.
func (w *watcher) sendEvent(e Event) error {
	if e.Type == MessageAdded {
		if e.Message.Number <= w.told {
			return nil
		}
		w.told = e.Message.Number
	}
	return w.on(e)
}

// look passes on the session's newer events of other processes. A ledger that is away for a moment
// delays it.
func (w *watcher) look(ctx context.Context) error {
	return store.Patiently(ctx, store.LongPatience, store.PatientEvery, func() error { return w.lookOnce(ctx) })
}

func (w *watcher) lookOnce(ctx context.Context) error {
	r, d, err := w.svc.session(ctx, w.session.id.String())
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the client has gone
	}
	if err == nil && r.Last > w.told {
		err = w.catchUp(ctx)
	}
	if err == nil {
		w.session.showState(r.Version, d)
	}
	return err
}

// catchUp passes on the recorded messages that the client did not get yet.
func (w *watcher) catchUp(ctx context.Context) error {
	for r, err := range w.svc.o.Record.Messages(ctx, w.session.id, w.told+1, false) {
		if ctx.Err() != nil {
			return nil // the client has gone
		}
		if err != nil {
			return err
		}
		m, err := decode(r)
		if err != nil {
			return err
		}
		if err := w.sendEvent(Event{ID: strconv.Itoa(r.Number), Type: MessageAdded, At: r.At, Message: &m}); err != nil {
			return err
		}
	}
	return nil
}

// publishToParents sends an event to those who watch the sessions above a sub-agent.
func (s *Service) publishToParents(ctx context.Context, id uuid.UUID, e Event) {
	for range maxDepth {
		r, err := s.o.Record.Session(ctx, id.String())
		if err != nil || r.Parent == uuid.Nil {
			return
		}
		if l := s.acquireKnown(r.Parent); l != nil {
			l.publish(e)
			s.release(l)
		}
		id = r.Parent
	}
}

// maxDepth bounds how far up publishToParents goes, and how far down turns are stopped.
const maxDepth = 64
