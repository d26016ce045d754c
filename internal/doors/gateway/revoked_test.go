package gateway_test

import (
	"context"
	"io"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	rules "github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/doors/gateway"
	"github.com/remitrun/remit/internal/service/grants"
)

// revocable is a session whose grant can be revoked.
type revocable struct {
	lister
	revoked atomic.Bool
}

func (r *revocable) Usable(context.Context) error {
	if r.revoked.Load() {
		return fault.New(fault.GrantRevoked, "the grant was revoked")
	}
	return nil
}

// TestARevokedGrantListsNothing: a session that goes on after its grant was revoked is
// shown neither tools nor anything else, and what it had is shown again once the grant
// can be used.
func TestARevokedGrantListsNothing(t *testing.T) {
	p, err := rules.Parse("p", []byte("version: 1\nname: p\ntools: {allow: ['mcp:s:*']}\n"))
	if err != nil {
		t.Fatal(err)
	}
	bound, err := p.Bind(rules.Env{Workspace: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	s := &revocable{lister: lister{rules.Chain{bound}}}
	var specs []*tool.Spec
	for _, name := range []string{"one", tool.ReadResource, tool.GetPrompt} {
		specs = append(specs, &tool.Spec{ID: tool.ID("mcp:s:" + name), Source: "mcp", Description: "does one thing", Input: []byte(`{"type":"object"}`)})
	}
	g := gateway.New(gateway.Options{
		Tools: func(context.Context) []*tool.Spec { return specs },
		Begin: func(context.Context, grants.Presented, gateway.Asker) (gateway.Session, error) { return s, nil },
		Offers: func() []gateway.Offer {
			return []gateway.Offer{{
				Server: "s", Resources: []*mcp.Resource{{URI: "note:1", Name: "note"}}, Prompts: []*mcp.Prompt{{Name: "greet"}},
				Templates: []*mcp.ResourceTemplate{{URITemplate: "note:{id}", Name: "notes"}},
			}}
		},
		Changes: func(func(server, uri string)) func() { return func() {} },
		Unwatch: func(context.Context, string, string) {},
	})
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- g.Serve(context.Background(), inR, outW) }()
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "test client", Version: "1"}, nil).Connect(t.Context(), &mcp.IOTransport{Reader: outR, Writer: inW}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cs.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	listed := func() [4]int {
		t.Helper()
		tools, terr := cs.ListTools(t.Context(), nil)
		resources, rerr := cs.ListResources(t.Context(), nil)
		templates, merr := cs.ListResourceTemplates(t.Context(), nil)
		prompts, perr := cs.ListPrompts(t.Context(), nil)
		for _, err := range []error{terr, rerr, merr, perr} {
			if err != nil {
				t.Fatal(err)
			}
		}
		return [4]int{len(tools.Tools), len(resources.Resources), len(templates.ResourceTemplates), len(prompts.Prompts)}
	}
	all := listed()
	for i, n := range all {
		if n == 0 {
			t.Fatalf("before: list %d of %v is empty", i, all)
		}
	}
	s.revoked.Store(true)
	if got := listed(); got != [4]int{} {
		t.Errorf("revoked: %v are listed", got)
	}
	s.revoked.Store(false)
	if got := listed(); got != all {
		t.Errorf("again usable: %v are listed, want %v", got, all)
	}
}
