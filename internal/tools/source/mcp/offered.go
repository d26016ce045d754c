package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/infer"
)

// Offered is everything that a server offers besides tools, as it describes it: nothing of it is
// trusted, and the lists are shared and must not be changed.
type Offered struct {
	Resources []*sdk.Resource
	Templates []*sdk.ResourceTemplate
	Prompts   []*sdk.Prompt
	// Subscribes: somebody can be told when a resource changes. Completes: the
	// server completes arguments.
	Subscribes, Completes bool
}

// Offered returns the server's offers besides tools from the last discovery, by [Server.Discover].
// Nothing is started.
func (s *Server) Offered() Offered {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.offered
}

const (
	maxOffered  = 5000 // of each kind
	offeredTime = 10 * time.Second
)

// standIn is a tool that stands for a request to the server other than a tool call.
type standIn struct {
	title, description, input, output string
}

var standIns = map[string]standIn{
	tool.ReadResource: {
		"Read a resource", "Reads one of the server's resources, by its URI.",
		`{"type":"object","additionalProperties":false,"required":["uri"],"properties":{"uri":{"type":"string","maxLength":8192}}}`,
		`{"type":"object","properties":{"contents":{"type":"array"}}}`,
	},
	tool.WatchResource: {
		"Watch a resource", "Has the server tell when one of its resources changes, by its URI.",
		`{"type":"object","additionalProperties":false,"required":["uri"],"properties":{"uri":{"type":"string","maxLength":8192}}}`,
		`{"type":"object"}`,
	},
	tool.GetPrompt: {
		"Get a prompt", "Gets one of the server's prompts, by its name, with arguments filled in.",
		`{"type":"object","additionalProperties":false,"required":["name"],"properties":{"name":{"type":"string"},"arguments":{"type":"object","additionalProperties":{"type":"string"}}}}`,
		`{"type":"object","properties":{"description":{"type":"string"},"messages":{"type":"array"}}}`,
	},
	tool.Complete: {
		"Complete an argument", "Has the server complete the argument of a prompt or of a resource's URI.",
		`{"type":"object","additionalProperties":false,"required":["ref","argument"],"properties":{"ref":{"type":"object"},"argument":{"type":"object"},"context":{"type":"object"}}}`,
		`{"type":"object","properties":{"values":{"type":"array"}}}`,
	},
}

// standsIn makes the tool for a kind of use.
func (s *Server) standsIn(name string) *Tool {
	k, reads := standIns[name], true
	return &Tool{server: s, name: name, hints: infer.Hints{Cannot: s.cfg.Cannot, ReadOnly: &reads}, spec: tool.Spec{
		ID: tool.ID("mcp:" + s.cfg.Name + ":" + name), Title: k.title, Description: k.description, Version: "1", Source: s.cfg.Source,
		Input: []byte(k.input), Output: []byte(k.output),
	}}
}

// offer lists the server's resources and prompts. A list that cannot be read is left out: the tools
// do not depend on it.
func (s *Server) offer(ctx context.Context, l *live) []*Tool {
	res := l.session.InitializeResult()
	if res == nil || res.Capabilities == nil {
		s.keep(Offered{})
		return nil
	}
	ctx, stop := context.WithTimeout(ctx, offeredTime)
	defer stop()
	var o Offered
	var each sync.WaitGroup
	var names []string
	c := res.Capabilities
	if c.Resources != nil {
		names = append(names, tool.ReadResource)
		each.Go(func() { o.Resources = pages(ctx, l.resources) })
		each.Go(func() { o.Templates = pages(ctx, l.templates) })
		if o.Subscribes = c.Resources.Subscribe; o.Subscribes {
			names = append(names, tool.WatchResource)
		}
	}
	if c.Prompts != nil {
		names = append(names, tool.GetPrompt)
		each.Go(func() { o.Prompts = pages(ctx, l.prompts) })
	}
	if o.Completes = c.Completions != nil; o.Completes {
		names = append(names, tool.Complete)
	}
	each.Wait()
	s.keep(o)
	out := make([]*Tool, len(names))
	for i, n := range names {
		out[i] = s.standsIn(n)
	}
	return out
}

// keep stores the offers, and reports a change of them.
func (s *Server) keep(o Offered) {
	now, err := json.Marshal(o)
	s.mu.Lock()
	was, werr := json.Marshal(s.offered)
	s.offered = o
	s.mu.Unlock()
	if (err != nil || werr != nil || !bytes.Equal(was, now)) && s.cfg.Reoffered != nil {
		s.cfg.Reoffered()
	}
}

// pages collects a list that comes in pages, as far as it goes.
func pages[T any](ctx context.Context, page func(ctx context.Context, cursor string) ([]*T, string, error)) []*T {
	var out []*T
	asked := map[string]bool{}
	for cursor, n := "", 0; n < maxPages; n++ {
		asked[cursor] = true
		list, next, err := page(ctx, cursor)
		if err != nil {
			return out
		}
		for _, x := range list {
			if x != nil && len(out) < maxOffered {
				out = append(out, x)
			}
		}
		if asked[next] || len(out) >= maxOffered {
			return out
		}
		cursor = next
	}
	return out
}

func (l *live) resources(ctx context.Context, cursor string) ([]*sdk.Resource, string, error) {
	r, err := l.session.ListResources(ctx, &sdk.ListResourcesParams{Cursor: cursor})
	if err != nil {
		return nil, "", err
	}
	return r.Resources, r.NextCursor, nil
}

func (l *live) templates(ctx context.Context, cursor string) ([]*sdk.ResourceTemplate, string, error) {
	r, err := l.session.ListResourceTemplates(ctx, &sdk.ListResourceTemplatesParams{Cursor: cursor})
	if err != nil {
		return nil, "", err
	}
	return r.ResourceTemplates, r.NextCursor, nil
}

func (l *live) prompts(ctx context.Context, cursor string) ([]*sdk.Prompt, string, error) {
	r, err := l.session.ListPrompts(ctx, &sdk.ListPromptsParams{Cursor: cursor})
	if err != nil {
		return nil, "", err
	}
	return r.Prompts, r.NextCursor, nil
}

// readKey finds where the content of a resource goes.
type readKey struct{}

// uncached keeps the SDK from storing a server's answers: lists are asked for when the catalog
// wants them, despite the server's words about how long they are good, and the content of resources
// is not kept at all.
func uncached(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		res, err := next(ctx, method, req)
		if err != nil {
			return res, err
		}
		switch r := res.(type) {
		case *sdk.ListToolsResult:
			r.TTLMs = 0
		case *sdk.ListResourcesResult:
			r.TTLMs = 0
		case *sdk.ListResourceTemplatesResult:
			r.TTLMs = 0
		case *sdk.ListPromptsResult:
			r.TTLMs = 0
		case *sdk.ReadResourceResult:
			if to, ok := ctx.Value(readKey{}).(**sdk.ReadResourceResult); ok {
				*to = r
				return &sdk.ReadResourceResult{}, nil
			}
		}
		return res, nil
	}
}

// updated tells that a resource changed, if somebody watches it.
func (s *Server) updated(uri string) {
	s.mu.Lock()
	watched := s.subs[uri] > 0
	s.mu.Unlock()
	if watched && s.cfg.Updated != nil {
		s.cfg.Updated(uri)
	}
}

// maxWatched bounds the resources of a server that are watched.
const maxWatched = 1000

// watch has the server tell when a resource changes. The server runs as long as
// anything of it is watched.
func (s *Server) watch(ctx context.Context, l *live, uri string) error {
	s.mu.Lock()
	n := s.subs[uri]
	if n == 0 && len(s.subs) >= maxWatched {
		s.mu.Unlock()
		return fault.New(fault.LimitReached, "%d resources of the MCP server %q are watched already", maxWatched, s.cfg.Name)
	}
	s.subs[uri]++
	s.mu.Unlock()
	if n > 0 {
		return nil
	}
	err := l.session.Subscribe(ctx, &sdk.SubscribeParams{URI: uri})
	if err != nil {
		s.forget(uri)
	}
	return err
}

// forget counts one less who watches a resource, and tells whether it was the last.
func (s *Server) forget(uri string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.subs[uri] > 1 {
		s.subs[uri]--
		return false
	}
	_, there := s.subs[uri]
	delete(s.subs, uri)
	return there
}

// Unwatch ends what a call of [tool.WatchResource] began, once for each call.
func (s *Server) Unwatch(ctx context.Context, uri string) {
	if !s.forget(uri) {
		return
	}
	s.mu.Lock()
	l := s.cur
	if l != nil && !s.closed {
		l.take()
	}
	closed := s.closed
	s.mu.Unlock()
	if l == nil || closed {
		return // it does not run: there is nothing to end
	}
	defer s.release(l)
	ctx, stop := context.WithTimeout(ctx, offeredTime)
	defer stop()
	_ = l.session.Unsubscribe(ctx, &sdk.UnsubscribeParams{URI: uri}) // later messages are dropped
}

// resubscribe watches on a new connection the resources watched on the last.
func (s *Server) resubscribe(ctx context.Context, l *live) {
	s.mu.Lock()
	uris := make([]string, 0, len(s.subs))
	for uri := range s.subs {
		uris = append(uris, uri)
	}
	s.mu.Unlock()
	for _, uri := range uris {
		_ = l.session.Subscribe(ctx, &sdk.SubscribeParams{URI: uri}) // it is told when it is read that it is gone
	}
}
