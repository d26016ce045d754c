package agent

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
)

// TestCloseStopsATurnThatJustBegins: a turn is counted and made the session's in
// one section. If Close came in between, it would stop nothing and wait for all of
// the turn. The test holds the session's lock, where that in between would be.
func TestCloseStopsATurnThatJustBegins(t *testing.T) {
	s := New(Options{})
	l := s.hold(uuid.New())
	defer s.let(l)
	turning, cancel := context.WithCancelCause(context.Background())
	own := &turn{cancel: cancel, done: make(chan struct{})}
	l.mu.Lock()
	claimed := make(chan error, 1)
	go func() { claimed <- s.claim(l, own) }()
	end := time.Now().Add(3 * time.Second)
	for held := 0; held < 20 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		if held++; s.mu.TryLock() {
			s.mu.Unlock()
			held = 0
		}
	}
	if s.mu.TryLock() {
		s.mu.Unlock()
		t.Error("Close can come in between")
	}
	closed := make(chan error, 1)
	go func() { closed <- s.Close(context.Background()) }()
	l.mu.Unlock()
	if err := <-claimed; err != nil {
		t.Fatal(err)
	}
	<-turning.Done()
	if why := context.Cause(turning); !errors.Is(why, errClosing) {
		t.Errorf("the turn was stopped because of %v", why)
	}
	s.free(l, own)
	s.work.Done()
	if err := <-closed; err != nil {
		t.Error(err)
	}
}
