// Package memo keeps computed values within a bound of memory. Start at [New].
package memo

import (
	"container/list"
	"sync"
)

// Memo keeps values by key. The least recently used values are dropped first. It is safe for
// concurrent use; New makes one.
type Memo[V any] struct {
	most int

	mu    sync.Mutex
	size  int
	known map[string]*list.Element
	order *list.List // of *noted[V], the last used first
}

type noted[V any] struct {
	key   string
	value V
	cost  int
}

// New makes a memo that keeps at most this many bytes.
func New[V any](most int) *Memo[V] {
	return &Memo[V]{most: most, known: map[string]*list.Element{}, order: list.New()}
}

// Get gives the value of a key.
func (m *Memo[V]) Get(key string) (v V, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.known[key]
	if e == nil {
		return v, false
	}
	m.order.MoveToFront(e)
	n, _ := e.Value.(*noted[V]) // nothing else is put in
	return n.value, true
}

// Put keeps a value that takes about cost bytes. A value larger than the memo is not kept.
func (m *Memo[V]) Put(key string, v V, cost int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.known[key]; e != nil {
		m.drop(e)
	}
	if cost += len(key); cost > m.most {
		return
	}
	m.known[key] = m.order.PushFront(&noted[V]{key, v, cost})
	for m.size += cost; m.size > m.most; {
		m.drop(m.order.Back())
	}
}

// drop removes an element. The caller holds the lock.
func (m *Memo[V]) drop(e *list.Element) {
	n, _ := m.order.Remove(e).(*noted[V]) // as above
	delete(m.known, n.key)
	m.size -= n.cost
}
