package app

import (
	"context"
	"time"

	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/doors/gateway"
	"github.com/remitrun/remit/internal/service/servers"
)

// openCatalog makes the catalog of all tools. No source is asked yet.
func (a *App) openCatalog() (*catalog.Catalog, error) {
	return catalog.Open(catalog.Config{
		BuiltIn: a.builtIn(), Sources: a.sources(), Memory: servers.Memory(a.Home), Said: servers.ToolsSaid(a.Home.Settings.Tools),
		Fresh: a.Home.Settings.Fresh,
	})
}

// offered are the callable tools, as listed to clients and models. Listing a tool counts as a use,
// so listed tools are pinned.
func (a *App) offered(ctx context.Context) []*tool.Spec { return a.offeredOf(ctx, "") }

// offerWait is how long a client's list waits for servers that have to be started or
// reached. The client is told once they answer.
const offerWait = 2 * time.Second

// offeredOf are the callable tools of one source, with a wait as long as it takes; "": of all.
func (a *App) offeredOf(ctx context.Context, source string) []*tool.Spec {
	_ = a.Extensions.Sync() // where they cannot be read, their calls are refused with the reason
	f := catalog.Filter{Source: source, Enabled: true, Use: true}
	if source == "" {
		f.Wait = offerWait
	}
	list := a.catalog.List(ctx, f)
	out := make([]*tool.Spec, len(list.Tools))
	for i, t := range list.Tools {
		out[i] = t.Spec
	}
	return out
}

// findings are what in a tool's text should be read with care, for clients.
func (a *App) findings(id tool.ID) []gateway.Finding {
	var out []gateway.Finding
	for _, f := range a.catalog.Findings(id) {
		out = append(out, gateway.Finding{Kind: string(f.Kind), Where: f.Where, Why: f.Why})
	}
	return out
}
