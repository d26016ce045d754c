package telemetry

import "sync"

// Turns knows the spans under which sessions work, so that the spans of their calls
// can be put below them. The nil Turns knows none. It is safe for concurrent use.
type Turns struct {
	mu sync.Mutex
	of map[string]*Span
}

// Enter notes that a session works under a span, until the function that it gives
// is called.
func (t *Turns) Enter(session string, s *Span) (leave func()) {
	if t == nil || s == nil {
		return func() {}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = map[string]*Span{}
	}
	t.of[session] = s
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.of[session] == s {
			delete(t.of, session)
		}
	}
}

// Of is the span that a session works under, nil if none is known.
func (t *Turns) Of(session string) *Span {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.of[session]
}
