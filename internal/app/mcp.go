package app

import (
	"context"
	"io"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/remitrun/remit/internal/base/garbage"
	"github.com/remitrun/remit/internal/base/inspect"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/frozen"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/doors/admission"
	"github.com/remitrun/remit/internal/doors/credential"
	"github.com/remitrun/remit/internal/doors/gateway"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/callers"
	"github.com/remitrun/remit/internal/service/grants"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/policies"
	"github.com/remitrun/remit/internal/service/runs"
	mcpsource "github.com/remitrun/remit/internal/tools/source/mcp"
)

// MCPRequest describes the service for MCP clients.
type MCPRequest struct {
	Policy    string // a policy file; "": the workspace's, if trusted
	Workspace string // absolute, as Workspace makes it
	Grant     grants.Presented
	Changeset bool         // hold writes
	Planning  bool         // refuse calls with side effects
	Frozen    *frozen.Plan // refuse other calls, in each run; nil: do not
	Wait      bool         // let calls wait for approvals that nobody at the client can give
	// Elicit lets the person at the client answer the policy's questions. Under a grant, the person
	// does only where it is the one that was issued to them.
	Elicit bool
	// Server is the one MCP server that is served, under the names that it gives its
	// tools, resources and prompts; "": the whole catalog.
	Server string
	// Started is told of each run as it begins; nil: nobody is.
	Started func(run *runner.Run, h policies.Hint)
	Door    admission.Door // bounds connections and slow clients over HTTP

	gate gateway.Gate // nil: there are no clients over HTTP
}

// ServeMCP serves one MCP client on a pair of streams, as a run of its own, until
// the client goes or ctx ends.
func (a *App) ServeMCP(ctx context.Context, q MCPRequest, in io.ReadCloser, out io.WriteCloser) error {
	defer garbage.Less()()
	return a.gateway(q).Serve(ctx, in, out)
}

func (a *App) gateway(q MCPRequest) *gateway.Gateway {
	o := gateway.Options{
		Server: q.Server, Door: q.Door, Clients: a.Home.Settings.Limits.Clients,
		Version: a.Home.Version, Tools: a.offered, Findings: a.findings, Elicit: q.Elicit, Person: home.Person(), Gate: q.gate, Shared: a.Grants.SharedEphemera,
		Watch: func(f func()) func() { return a.catalog.Watch(func(string) { f() }) },
		Begin: func(ctx context.Context, granted grants.Presented, ask gateway.Asker) (gateway.Session, error) {
			if granted.Token == "" {
				granted = q.Grant
			}
			here := ask
			if granted.Token != "" {
				here = gateway.UnderOwnGrant(ask)
			}
			s, err := a.Runs.Begin(ctx, runs.Request{
				Name: "mcp", Policy: q.Policy, Workspace: q.Workspace, Grant: granted, Changeset: q.Changeset, Planning: q.Planning, Frozen: q.Frozen, Wait: q.Wait,
				Here: here, Advice: adviseMCP, Started: q.Started,
			})
			if err != nil {
				return nil, err
			}
			return s, nil
		},
	}
	if q.Server != "" { // no other source is asked, or started
		o.Tools = func(ctx context.Context) []*tool.Spec { return a.offeredOf(ctx, "mcp:"+q.Server) }
	}
	if all := a.Servers; all.Offers.Any() {
		o.Offers = func() []gateway.Offer { return offersOf(all.Offers.All()) }
		o.Changes, o.Unwatch = all.Offers.Watch, all.Offers.Unwatch
	}
	return gateway.New(o)
}

// adviseMCP tells a client how a person answers a question.
func adviseMCP(q store.Approval) string {
	return "a person answers with: remit approvals approve " + q.ID.String() +
		"; then make exactly the same call again, before " + q.Until.UTC().Format(time.RFC3339)
}

// ServeMCPOverHTTP serves MCP clients on a listener until ctx ends. Each presents
// a grant, which q's policy narrows further, and has a run of its own. Hosts are
// names by which clients may call it, besides loopback's.
func (a *App) ServeMCPOverHTTP(ctx context.Context, q MCPRequest, l net.Listener, hosts []string) error {
	q.Grant = grants.Presented{}
	g, err := credential.Limited(callers.Open(ctx, a.Home, a.Policies, a.Grants, q.Workspace))
	if err != nil {
		return err
	}
	q.gate = g
	defer garbage.Less()()
	return a.gateway(q).ServeHTTP(ctx, l, hosts)
}

// offersOf gives what MCP servers offer besides tools.
func offersOf(all map[string]mcpsource.Offered) []gateway.Offer {
	out := make([]gateway.Offer, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, offer(name, all[name]))
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
