package agent

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
)

// dyingNode has a turn until it is asked to cancel it: then it dies, and the node that asks
// takes the turn over.
type dyingNode struct {
	store.Turns
	asked atomic.Int32
	adopt func()
}

func (d *dyingNode) AskTurn(context.Context, uuid.UUID, store.TurnRequest) (bool, error) {
	if d.asked.Add(1) == 1 {
		return true, nil
	}
	if d.asked.Load() == 2 {
		d.adopt()
	}
	return false, nil
}

func (*dyingNode) PollTurns(context.Context) ([]store.AskedTurn, bool, error) { return nil, false, nil }

// childless is a record without sub-agents.
type childless struct{ Record }

func (childless) Sessions(context.Context, store.SessionFilter) ([]store.SessionRecord, error) {
	return nil, nil
}

// A turn is cancelled also if its node dies meanwhile, and this one takes it over. Else an
// approval that comes after the cancellation would still start its call.
func TestATurnThatIsTakenOverMeanwhileIsCancelled(t *testing.T) {
	node := &dyingNode{}
	s := New(Options{Turns: node, Record: childless{}})
	defer func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	l := s.acquire(uuid.New())
	defer s.release(l)
	ctx, cancel := context.WithCancelCause(context.Background())
	own := &turn{session: l, cancel: cancel, done: make(chan struct{})}
	node.adopt = func() {
		if err := l.claim(own, stepClaim); err != nil {
			t.Error(err)
		}
		context.AfterFunc(ctx, func() { l.free(own, stepFinish, nil, false) })
	}
	defer cancel(nil) // where the test fails
	if stopped, err := s.stopTree(context.Background(), l, fault.ToolCancelled); err != nil || !stopped {
		t.Errorf("stopped %t, %v", stopped, err)
	}
	if why := context.Cause(ctx); !errors.Is(why, fault.ToolCancelled) {
		t.Errorf("the turn that was taken over goes on: %v", why)
	}
}

// answeredTurns counts the requests that a node answers, and the turns that it ends.
type answeredTurns struct {
	store.Turns
	answered, ended atomic.Int32
}

func (*answeredTurns) PollTurns(context.Context) ([]store.AskedTurn, bool, error) {
	return nil, false, nil
}

func (a *answeredTurns) AnswerTurn(context.Context, store.AskedTurn) error {
	a.answered.Add(1)
	return nil
}

func (a *answeredTurns) EndTurn(context.Context, uuid.UUID, int64) error {
	a.ended.Add(1)
	return nil
}

// A node that lost its lease has joined anew, and taken its own turn over, before the run of that turn is
// closed. The request stays until it can be carried out: with its answer the turn would be lost.
func TestNoRequestIsAnsweredWhileARunIsClosed(t *testing.T) {
	for _, request := range []store.TurnRequest{store.CancelTurn, store.PauseTurn, store.ContinueTurn, store.BeginTurn} {
		node := &answeredTurns{}
		s := New(Options{Turns: node, Record: childless{}})
		asked := store.AskedTurn{Session: uuid.New(), Epoch: 2, Request: request}
		l := s.acquire(asked.Session)
		l.do(func(o *owner) { o.closed = make(chan struct{}) })
		s.answer(context.Background(), asked)
		if a, e := node.answered.Load(), node.ended.Load(); a+e != 0 {
			t.Errorf("request %v: answered %d times, ended %d times", request, a, e)
		}
		l.do(func(o *owner) { o.closed = nil })
		if request == store.PauseTurn || request == store.ContinueTurn { // else the turn begins
			s.answer(context.Background(), asked)
			if e := node.ended.Load(); e != 1 {
				t.Errorf("request %v: afterwards ended %d times", request, e)
			}
		}
		s.release(l)
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}
