package agent

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
)

// A turn that claims its session while the service is closed is refused or stopped:
// otherwise Close would wait for all of it.
func TestCloseStopsATurnThatJustStarts(t *testing.T) {
	for range 100 {
		s := New(Options{})
		l := s.acquire(uuid.New())
		ctx, cancel := context.WithCancelCause(context.Background())
		own := &turn{session: l, cancel: cancel, done: make(chan struct{})}
		closed := make(chan error, 1)
		go func() { closed <- s.Close(context.Background()) }()
		if err := l.claim(own, stepClaim); err == nil {
			<-ctx.Done()
			if why := context.Cause(ctx); !errors.Is(why, errClosing) {
				t.Errorf("the turn was stopped because of %v", why)
			}
			l.free(own, stepFinish, nil, false)
		} else if !errors.Is(err, errClosing) {
			t.Errorf("the turn was refused because of %v", err)
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
		s.release(l)
	}
}

// Only one turn or reservation has a session, and the next one only after it.
func TestASessionHasOneTurnAtATime(t *testing.T) {
	s := New(Options{})
	l := s.acquire(uuid.New())
	defer s.release(l)
	for _, first := range []struct{ claim, free step }{{stepClaim, stepFinish}, {stepReserve, stepRelease}} {
		own := &turn{session: l, cancel: func(error) {}, done: make(chan struct{})}
		if err := l.claim(own, first.claim); err != nil {
			t.Fatal(err)
		}
		for _, other := range []step{stepClaim, stepReserve} {
			if err := l.claim(&turn{session: l}, other); !errors.Is(err, fault.SessionBusy) {
				t.Errorf("%s during %s: %v", other, first.claim, err)
			}
		}
		l.free(own, first.free, nil, false)
		<-own.done
	}
}

// A session that nobody uses is forgotten, and its goroutine ends.
func TestAnUnusedSessionIsForgotten(t *testing.T) {
	s := New(Options{})
	id := uuid.New()
	l := s.acquire(id)
	if again := s.acquire(id); again != l {
		t.Error("a session has two goroutines")
	}
	s.release(l)
	if s.acquireKnown(id) == nil {
		t.Fatal("a session in use was forgotten")
	}
	s.release(l)
	s.release(l)
	<-l.unused
	if s.acquireKnown(id) != nil {
		t.Error("an unused session is still known")
	}
}
