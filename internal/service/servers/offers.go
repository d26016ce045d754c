package servers

import (
	"context"
	"maps"
	"slices"
	"sync"

	mcpsource "github.com/remitrun/remit/internal/tools/source/mcp"
)

// Offers are the MCP servers of the catalog, for what they offer besides tools.
// The zero value is ready to use.
type Offers struct {
	mu       sync.Mutex
	byName   map[string]*mcpsource.Server
	watchers map[int]func(server, uri string)
	next     int
}

func (m *Offers) add(name string, s *mcpsource.Server) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byName == nil {
		m.byName = map[string]*mcpsource.Server{}
	}
	m.byName[name] = s
}

// Any reports whether there is a server at all.
func (m *Offers) Any() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.byName) > 0
}

// All returns the known offers of each server, by its name.
func (m *Offers) All() map[string]mcpsource.Offered {
	m.mu.Lock()
	all := maps.Clone(m.byName)
	m.mu.Unlock()
	out := make(map[string]mcpsource.Offered, len(all))
	for name, s := range all {
		out[name] = s.Offered()
	}
	return out
}

// Watch calls f for each change until stop is called.
func (m *Offers) Watch(f func(server, uri string)) (stop func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.watchers == nil {
		m.watchers = map[int]func(string, string){}
	}
	n := m.next
	m.next++
	m.watchers[n] = f
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.watchers, n)
	}
}

func (m *Offers) announceUpdate(server, uri string) {
	m.mu.Lock()
	fs := slices.Collect(maps.Values(m.watchers))
	m.mu.Unlock()
	for _, f := range fs {
		f(server, uri)
	}
}

// Unwatch ends the subscription to a resource of a server.
func (m *Offers) Unwatch(ctx context.Context, server, uri string) {
	m.mu.Lock()
	s := m.byName[server]
	m.mu.Unlock()
	if s != nil {
		s.Unwatch(ctx, uri)
	}
}
