package app

import (
	"context"
	"github.com/remitrun/remit/internal/service/settings"
	"github.com/remitrun/remit/internal/tools/infer"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/doors/gateway"
	"github.com/remitrun/remit/internal/record/ledger"
)

// openCatalog makes the catalog of all tools. No source is asked yet.
func (a *App) openCatalog() (*catalog.Catalog, error) {
	return catalog.Open(catalog.Config{
		BuiltIn: a.builtIn(), Sources: a.sources(), Memory: &toolMemory{app: a}, Said: toolsSaid(a.Home.Settings.Tools),
	})
}

// toolsSaid finds what the settings say of a tool. A key is an ID, or the beginning
// of IDs before a final "*"; the longest that fits holds.
func toolsSaid(set map[string]settings.Tool) func(tool.ID) catalog.Said {
	said := make(map[string]catalog.Said, len(set))
	for key, t := range set {
		said[key] = catalog.Said{Said: infer.Said{Risk: t.Risk, Effects: t.Effects}, Trusted: t.Trusted, Name: t.AnyName}
	}
	return func(id tool.ID) catalog.Said {
		if s, ok := said[string(id)]; ok {
			return s
		}
		best, found := "", catalog.Said{}
		for key, s := range said {
			if head, open := strings.CutSuffix(key, "*"); open && len(key) > len(best) && strings.HasPrefix(string(id), head) {
				best, found = key, s
			}
		}
		return found
	}
}

// ParseEffects reads names of side effects.
func ParseEffects(names []string) (tool.Effects, error) {
	var set tool.Effects
	for _, name := range names {
		var e tool.Effect
		if err := e.UnmarshalText([]byte(name)); err != nil {
			return 0, err
		}
		set |= tool.EffectSet(e)
	}
	return set, nil
}

// offered are the tools that clients and models are shown: those that can be
// called. Being shown counts as a use, so what is shown is pinned.
func (a *App) offered(ctx context.Context) []*tool.Spec { return a.offeredOf(ctx, "") }

// offerWait is how long a client's list waits for servers that have to be started or
// reached. The client is told once they answer.
const offerWait = 2 * time.Second

// offeredOf are those of one source, which is waited for as long as it takes; "": of
// all.
func (a *App) offeredOf(ctx context.Context, source string) []*tool.Spec {
	_ = a.SyncExtensions() // where they cannot be read, their calls are refused with the reason
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

// SwitchTool switches a tool on or off, and reports whether that changed it.
func (a *App) SwitchTool(ctx context.Context, id tool.ID, on bool) (changed bool, err error) {
	action := "tools.disable"
	if on {
		action = "tools.enable"
	}
	err = a.Home.Recorded(action, ledger.OperatorAction{Target: string(id)}, func() (err error) {
		changed, err = a.catalog.Switch(ctx, id, on)
		return err
	})
	return changed, err
}

// findings are what in a tool's text should be read with care, for clients.
func (a *App) findings(id tool.ID) []gateway.Finding {
	var out []gateway.Finding
	for _, f := range a.catalog.Findings(id) {
		out = append(out, gateway.Finding{Kind: string(f.Kind), Where: f.Where, Why: f.Why})
	}
	return out
}

// AcceptTools accepts tools as they were seen last, and all changed tools of the
// named sources. It gives what it accepted up to the first error.
func (a *App) AcceptTools(ctx context.Context, ids []tool.ID, sources []string) ([]catalog.Change, error) {
	for _, name := range sources {
		changed, err := a.catalog.Changed(ctx, name)
		if err != nil {
			return nil, err
		}
		ids = append(ids, changed...)
	}
	var out []catalog.Change
	for _, id := range ids {
		err := a.Home.Recorded("tools.accept", ledger.OperatorAction{Target: string(id)}, func() error {
			change, err := a.catalog.Accept(ctx, id)
			if err == nil {
				out = append(out, change)
			}
			return err
		})
		if err != nil {
			return out, err
		}
	}
	return out, nil
}
