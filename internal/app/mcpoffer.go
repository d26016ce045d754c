package app

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/remitrun/remit/internal/base/inspect"
	"github.com/remitrun/remit/internal/doors/gateway"
	mcpsource "github.com/remitrun/remit/internal/tools/source/mcp"
)

// mcpServers are the MCP servers of the catalog, for what they offer besides tools.
// The zero value is ready to use.
type mcpServers struct {
	mu       sync.Mutex
	byName   map[string]*mcpsource.Server
	watchers map[int]func(server, uri string)
	next     int
}

func (m *mcpServers) add(name string, s *mcpsource.Server) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byName == nil {
		m.byName = map[string]*mcpsource.Server{}
	}
	m.byName[name] = s
}

func (m *mcpServers) any() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.byName) > 0
}

// offers gives what the servers offer, as far as it is known.
func (m *mcpServers) offers() []gateway.Offer {
	m.mu.Lock()
	all := maps.Clone(m.byName)
	m.mu.Unlock()
	out := make([]gateway.Offer, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, offer(name, all[name].Offered()))
	}
	return out
}

// offer copies what a server offers, without what cannot be seen: it says what a
// model reads.
func offer(name string, o mcpsource.Offered) gateway.Offer {
	out := gateway.Offer{Server: name}
	for _, r := range o.Resources {
		x := *r
		x.Meta, x.Name, x.Title, x.Description = nil, inspect.Clean(x.Name), inspect.Clean(x.Title), inspect.Clean(x.Description)
		out.Resources = append(out.Resources, &x)
	}
	for _, t := range o.Templates {
		x := *t
		x.Meta, x.Name, x.Title, x.Description = nil, inspect.Clean(x.Name), inspect.Clean(x.Title), inspect.Clean(x.Description)
		out.Templates = append(out.Templates, &x)
	}
	for _, p := range o.Prompts {
		x := *p
		x.Meta, x.Title, x.Description = nil, inspect.Clean(x.Title), inspect.Clean(x.Description)
		out.Prompts = append(out.Prompts, &x)
	}
	return out
}

// watch calls f for each change until stop is called.
func (m *mcpServers) watch(f func(server, uri string)) (stop func()) {
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

func (m *mcpServers) tell(server, uri string) {
	m.mu.Lock()
	fs := slices.Collect(maps.Values(m.watchers))
	m.mu.Unlock()
	for _, f := range fs {
		f(server, uri)
	}
}

func (m *mcpServers) unwatch(ctx context.Context, server, uri string) {
	m.mu.Lock()
	s := m.byName[server]
	m.mu.Unlock()
	if s != nil {
		s.Unwatch(ctx, uri)
	}
}
