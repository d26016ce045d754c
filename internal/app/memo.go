package app

import (
	"container/list"
	"sync"
)

// memo keeps values by text within a bound of memory. What was not used for longest
// goes first. It is safe for concurrent use; newMemo makes one.
type memo[V any] struct {
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

// newMemo makes a memo of at most so many bytes.
func newMemo[V any](most int) *memo[V] {
	return &memo[V]{most: most, known: map[string]*list.Element{}, order: list.New()}
}

func (m *memo[V]) get(key string) (v V, ok bool) {
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

// put keeps a value that takes about cost bytes. One that takes more than the whole
// memo is not kept.
func (m *memo[V]) put(key string, v V, cost int) {
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

// drop forgets an element. The caller holds the lock.
func (m *memo[V]) drop(e *list.Element) {
	n, _ := m.order.Remove(e).(*noted[V]) // as above
	delete(m.known, n.key)
	m.size -= n.cost
}
