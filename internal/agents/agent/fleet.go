package agent

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/pause"
	"github.com/remitrun/remit/internal/record/store"
)

// In a database that several nodes share, a row says which node works on a session. It is
// taken before each turn and ends with it, so that the next message may reach any node.
// Other nodes put their requests (cancel, pause, continue) into the row. After the death of
// its node, another one takes the row and continues the turn.

const (
	// turnsEvery is how often a node looks for requests to its turns and for dead nodes.
	turnsEvery = 100 * time.Millisecond
	// handOver is how long a turn waits for another node to close the run of the turn before.
	handOver = 3 * time.Second
	// maxContinued is how many turns of a dead node are prepared at once.
	maxContinued = 8
)

// take takes the session's turn from all other nodes. It waits for a node whose turn is
// over, but not for one that works.
func (l *session) take(ctx context.Context, by Caller) error {
	turns := l.svc.o.Turns
	if turns == nil {
		return nil
	}
	l.openRun() // the end of an earlier run gives up an earlier turn
	caller, err := l.svc.successor(by)
	if err != nil {
		return err
	}
	for until := time.Now().Add(handOver); ; {
		epoch, err := turns.TakeTurn(ctx, l.id, caller)
		if err == nil {
			l.do(func(o *owner) { o.epoch = epoch })
			return nil
		}
		if !errors.Is(err, fault.SessionBusy) || time.Now().After(until) {
			return err
		}
		if _, d, serr := l.svc.session(ctx, l.id.String()); serr != nil || d.State.interrupted() || pause.For(ctx, turnsEvery/5) != nil {
			return err
		}
	}
}

// successor encodes the caller for another node that continues a turn; nothing, if no other node
// may: without a grant, a turn is bound to the policies of its machine.
func (s *Service) successor(by Caller) ([]byte, error) {
	if !s.o.Adopt || by.Token == "" {
		return nil, nil
	}
	b, err := json.Marshal(by)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the caller cannot be written as JSON")
	}
	return b, nil
}

// turnEnd is a turn that this node does not work on any more.
type turnEnd struct {
	session uuid.UUID
	epoch   int64
	left    store.TurnRequest // the remaining request, as its end could not be recorded
}

// turnEnds are the ended turns that the database does not know of yet.
type turnEnds struct {
	mu   sync.Mutex
	list []turnEnd
}

// endTurn gives a turn up for all nodes. If the database does not answer, it is told later: the
// row would keep the session from the other nodes.
func (s *Service) endTurn(e turnEnd) error {
	if e.epoch == 0 {
		return nil
	}
	var err error
	if e.left == store.NoRequest {
		err = s.o.Turns.EndTurn(context.Background(), e.session, e.epoch)
	} else {
		err = s.o.Turns.LeaveTurn(context.Background(), e.session, e.epoch, e.left)
	}
	if fault.Passing(err) {
		s.ends.mu.Lock()
		defer s.ends.mu.Unlock()
		s.ends.list = append(s.ends.list, e)
	}
	return err
}

// endTurns tells the database of the ends that it does not know yet.
func (s *Service) endTurns() {
	s.ends.mu.Lock()
	list := s.ends.list
	s.ends.list = nil
	s.ends.mu.Unlock()
	for _, e := range list {
		_ = s.endTurn(e) // a failed one is in the list again
	}
}

// errLeaseLost ends a turn of a node whose lease is over.
var errLeaseLost = fault.New(fault.StoreFailed, "this node could not renew its lease in the middle of the turn")

// maxLeft is how often in a row a session's turns are left because the ledger failed.
const maxLeft = 20

// leave reports whether the turn goes on later, on any node, although it ended with an error: the
// ledger failed in a way that passes.
func (t *turn) leave(err error) (leave bool) {
	s := t.session.svc
	if next, serr := s.successor(t.by); serr != nil || next == nil || s.o.Turns == nil {
		return false
	}
	t.session.do(func(o *owner) {
		if requestAfter(err) != store.BeginTurn {
			o.left = 0
			return
		}
		o.left++
		leave = o.left <= maxLeft
	})
	return leave
}

// requestAfter is the remaining request for a turn that ended with err. If the ledger failed, its end may
// not be recorded; a turn of which it is has nothing left to continue.
func requestAfter(err error) store.TurnRequest {
	switch {
	case !fault.Passing(err):
		return store.NoRequest
	case errors.Is(err, fault.ToolCancelled):
		return store.CancelTurn
	}
	return store.BeginTurn
}

// ask asks the node that has a session's turn for something; false: no other node has it.
func (s *Service) ask(ctx context.Context, id uuid.UUID, r store.TurnRequest) (bool, error) {
	if s.o.Turns == nil {
		return false, nil
	}
	return s.o.Turns.AskTurn(ctx, id, r)
}

// waitElsewhere repeats a request until no other node has the session's turn.
func (s *Service) waitElsewhere(ctx context.Context, id uuid.UUID, r store.TurnRequest) error {
	for {
		elsewhere, err := s.ask(ctx, id, r)
		if err != nil || !elsewhere {
			return err
		}
		if pause.For(ctx, turnsEvery/2) != nil {
			return ctx.Err()
		}
	}
}

// stopElsewhere has another node stop the session's turn, and gives a channel that is
// closed when it has; nil: no other node has it.
func (s *Service) stopElsewhere(ctx context.Context, id uuid.UUID) (<-chan struct{}, error) {
	elsewhere, err := s.ask(ctx, id, store.CancelTurn)
	if err != nil || !elsewhere {
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.waitElsewhere(ctx, id, store.CancelTurn) // who waits looks again
	}()
	return done, nil
}

// followTurns answers other nodes, and takes over the turns of dead ones if it may adopt.
func (s *Service) followTurns(ctx context.Context) {
	for pause.For(ctx, turnsEvery) == nil {
		asked, dead, err := s.o.Turns.PollTurns(ctx)
		if err == nil && dead && s.o.Adopt {
			if _, err = s.o.Record.Recover(ctx); err == nil { // their runs end first
				err = s.o.Turns.AdoptTurns(ctx)
			}
			if err == nil {
				asked, _, err = s.o.Turns.PollTurns(ctx)
			}
		}
		if err != nil {
			continue // the lease says how long that may last
		}
		s.endTurns()
		var all sync.WaitGroup
		room := make(chan struct{}, maxContinued)
		for _, a := range asked {
			room <- struct{}{}
			all.Go(func() {
				defer func() { <-room }()
				s.answer(ctx, a)
			})
		}
		all.Wait()
	}
}

// answer carries out a request of another node for a turn.
func (s *Service) answer(ctx context.Context, a store.AskedTurn) {
	l := s.acquire(a.Session)
	defer s.release(l)
	var own, unused bool
	l.do(func(o *owner) {
		own = o.turn != nil && o.epoch == a.Epoch
		unused = o.turn == nil && o.closed == nil
	})
	switch {
	case own && a.Request == store.CancelTurn:
		why := fault.New(fault.ToolCancelled, "the turn was cancelled")
		l.stop(why)
		_, _ = s.stopBelow(ctx, a.Session, why, maxDepth) // the node that asks looks again
	case own && a.Request == store.PauseTurn:
		l.holdTurn()
	case own && a.Request == store.ContinueTurn:
		l.letGo()
	case unused && a.Request == store.BeginTurn:
		s.adopt(ctx, l, a)
		return
	case unused && a.Request == store.CancelTurn: // before it was continued; the asker may have stopped waiting
		by, _ := callerOf(a) // only its name is needed
		if t, err := l.reserve(ctx, by); err == nil {
			_, err = l.abandonTurn(ctx, by)
			l.freeStopped(t, err) // a node that still asks looks again
		}
		return
	case unused: // a turn that was taken over and has not begun
		_ = s.o.Turns.EndTurn(ctx, a.Session, a.Epoch)
	case !own: // the run of the turn before is being closed, or another turn begins: it is asked again
		return
	}
	_ = s.o.Turns.AnswerTurn(ctx, a) // else it is asked again, which changes nothing
}

// callerOf gives the caller whose turn was taken over.
func callerOf(a store.AskedTurn) (by Caller, err error) {
	if err = json.Unmarshal(a.Caller, &by); err != nil {
		err = fault.Wrap(fault.StoreCorrupt, err, "who started the turn cannot be read")
	}
	return by, err
}

// adopt continues the turn of a node that died. One that cannot be continued waits for a
// person to resume it.
func (s *Service) adopt(ctx context.Context, l *session, a store.AskedTurn) {
	if len(a.Caller) == 0 { // see successor
		_ = s.o.Turns.EndTurn(ctx, a.Session, a.Epoch)
		return
	}
	by, err := callerOf(a)
	if err == nil {
		err = s.continueTurn(ctx, by, l, turnRecovered)
	}
	if errors.Is(err, fault.SessionBusy) || errors.Is(err, errClosing) || fault.Passing(err) || err == nil {
		return // somebody else's message has started a turn, another node will continue it, or the next look will
	}
	if s.o.Report != nil {
		s.o.Report(a.Session, err)
	}
	_ = s.o.Turns.EndTurn(ctx, a.Session, a.Epoch) // else the next look finds it again
}
