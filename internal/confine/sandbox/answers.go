package sandbox

import (
	"context"
	"sync"
)

// maxQuestions bounds the questions of one command.
const maxQuestions = 64

// Answers remembers the answers of a person to one command, so that each thing is asked about once.
type Answers[K comparable] struct {
	mu    sync.Mutex
	asked int
	list  map[K]*answer
}

type answer struct {
	done     chan struct{}
	yes      bool // set before done is closed
	answered bool // as yes; false: whoever asked gave up first
}

// Get returns the answer about t, and asks for it at the first time. When ctx ends first, that is no answer for
// the others who wait for it.
func (a *Answers[K]) Get(ctx context.Context, t K, ask func() bool) bool {
	for ctx.Err() == nil {
		a.mu.Lock()
		q := a.list[t]
		if q == nil {
			return a.first(ctx, t, ask)
		}
		a.mu.Unlock()
		select {
		case <-q.done:
			if q.answered {
				return q.yes
			}
		case <-ctx.Done():
		}
	}
	return false
}

// first asks about t. The caller holds the lock, and first releases it.
func (a *Answers[K]) first(ctx context.Context, t K, ask func() bool) bool {
	if a.asked >= maxQuestions {
		a.mu.Unlock()
		return false
	}
	if a.list == nil {
		a.list = map[K]*answer{}
	}
	q := &answer{done: make(chan struct{})}
	a.asked, a.list[t] = a.asked+1, q
	a.mu.Unlock()
	defer close(q.done)
	yes := ask()
	a.mu.Lock()
	defer a.mu.Unlock()
	if q.yes, q.answered = yes, yes || ctx.Err() == nil; !q.answered {
		delete(a.list, t)
	}
	return q.yes
}
