package app

import (
	"github.com/remitrun/remit/internal/service/settings"
	"slices"

	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/call/runner"
)

// sources is every source of tools that are not built in: a kind of source is a line. One that
// cannot be made is catalog.Broken, so that it is listed with the reason. Nothing is started here.
func (a *App) sources() []catalog.Source {
	return slices.Concat(a.Servers.Sources(), a.APIs.Sources(), a.Modules.Sources(), a.Extensions.Sources())
}

// tierLimits makes the limits that runners share.
func tierLimits(t settings.Tiers) *runner.Sources {
	if t == (settings.Tiers{}) {
		t = settings.Default().Tiers
	}
	return runner.NewSources(map[runner.Tier]runner.TierLimits{runner.Extension: runner.TierLimits(t.Extension), runner.LocalMCP: runner.TierLimits(t.LocalMCP),
		runner.RemoteMCP: runner.TierLimits(t.RemoteMCP), runner.Cloud: runner.TierLimits(t.Cloud)}, nil)
}
