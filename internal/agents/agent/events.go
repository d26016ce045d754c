package agent

import (
	"context"
	"strconv"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
)

// lookEvery is how often a session that another process works on is looked at.
const lookEvery = 2 * time.Second

// Events implements [API].
func (s *Service) Events(ctx context.Context, id, last string, on func(Event) error) error {
	r, d, err := s.session(ctx, id)
	if err != nil {
		return err
	}
	l := s.hold(r.ID)
	defer s.let(l)
	w := &watcher{s: s, l: l, on: on, told: r.Last}
	l.hub.from(r.Last)
	if last == "" {
		w.at = l.hub.end()
	} else {
		n, ok := message(last)
		if !ok {
			return fault.New(fault.MessageUnknown, "%.100q is no event's ID", last)
		}
		w.told = n
		if w.at, ok = l.hub.after(last); !ok {
			if err := w.catchUp(ctx); err != nil {
				return err
			}
		}
	}
	now, err := s.seen(ctx, r, d)
	if err == nil {
		err = on(Event{ID: last, Type: StateChanged, At: s.o.Now(), State: now.State, Error: now.Error})
	}
	if err != nil {
		return err
	}
	return w.watch(ctx)
}

// watcher is one who listens to a session.
type watcher struct {
	s    *Service
	l    *live
	on   func(Event) error
	at   uint64 // in the hub
	told int    // the last message
}

// watch tells of what happens until the context ends.
func (w *watcher) watch(ctx context.Context) error {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		es, to, more, lost := w.l.hub.next(w.at)
		if w.at = to; lost {
			if err := w.catchUp(ctx); err != nil {
				return err
			}
			continue
		}
		for _, e := range es {
			if err := w.tell(e); err != nil {
				return err
			}
		}
		select {
		case <-more:
		case <-look.C:
			if w.l.under() == nil { // another process may work on it
				if err := w.catchUp(ctx); err != nil {
					return err
				}
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// follow tells of what happens until a turn is over and all of it is told.
func (w *watcher) follow(ctx context.Context, t *turn) error {
	for over := false; ; {
		es, to, more, lost := w.l.hub.next(w.at)
		w.at = to
		if lost {
			if err := w.catchUp(ctx); err != nil {
				return err
			}
		}
		for _, e := range es {
			if err := w.tell(e); err != nil {
				return err
			}
		}
		if over {
			return nil
		}
		select {
		case <-more:
		case <-t.done:
			over = true // once more, for what came last
		}
	}
}

// tell tells of an event, a message once.
func (w *watcher) tell(e Event) error {
	if e.Type == MessageAdded {
		if e.Message.Number <= w.told {
			return nil
		}
		w.told = e.Message.Number
	}
	return w.on(e)
}

// catchUp tells of the messages of the record that were not told yet.
func (w *watcher) catchUp(ctx context.Context) error {
	for r, err := range w.s.o.Record.Messages(ctx, w.l.id, w.told+1, false) {
		if ctx.Err() != nil {
			return nil // who watched has gone
		}
		if err != nil {
			return err
		}
		m, err := decode(r)
		if err != nil {
			return err
		}
		if err := w.tell(Event{ID: strconv.Itoa(r.Number), Type: MessageAdded, At: r.At, Message: &m}); err != nil {
			return err
		}
	}
	return nil
}
