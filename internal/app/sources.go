package app

import (
	"slices"
	"time"

	"github.com/remitrun/remit/internal/catalog"
	"github.com/remitrun/remit/internal/fault"
	"github.com/remitrun/remit/internal/runner"
)

// sources is every source of tools besides those that are built in: a kind of
// source is a line. One that cannot be made is catalog.Broken, so that it is
// listed with the reason. Nothing is started here.
func (a *App) sources() []catalog.Source {
	return slices.Concat(a.mcpSources(), a.apiSources(), a.wasmSources(), a.extSources())
}

// SourcesSettings bounds the calls of tools by where they come from, over all
// runs of the process. Built-in tools are not bounded by it.
type SourcesSettings struct {
	Extension TierSettings `yaml:"extension"`  // extensions that are installed here
	LocalMCP  TierSettings `yaml:"mcp_local"`  // MCP servers that Remit starts
	RemoteMCP TierSettings `yaml:"mcp_remote"` // MCP servers elsewhere
	Cloud     TierSettings `yaml:"cloud"`      // services elsewhere, and sources that are not known
}

// TierSettings are the limits of one tier.
type TierSettings struct {
	PerMinute int           `yaml:"per_minute"` // calls begun in any minute
	AtOnce    int           `yaml:"at_once"`    // calls under way
	RunTime   time.Duration `yaml:"run_time"`   // of one call
}

var defaultSources = SourcesSettings{
	Extension: TierSettings{600, 16, 5 * time.Minute},
	LocalMCP:  TierSettings{300, 8, 5 * time.Minute},
	RemoteMCP: TierSettings{60, 4, 2 * time.Minute},
	Cloud:     TierSettings{30, 2, time.Minute},
}

func (s SourcesSettings) byTier() map[runner.Tier]TierSettings {
	return map[runner.Tier]TierSettings{runner.Extension: s.Extension, runner.LocalMCP: s.LocalMCP, runner.RemoteMCP: s.RemoteMCP, runner.Cloud: s.Cloud}
}

// check reports limits that make no sense, with their field.
func (s SourcesSettings) check() error {
	tiers := s.byTier()
	for _, t := range runner.Tiers {
		l, field := tiers[t], "sources."+string(t)
		switch {
		case l.PerMinute < 1:
			return fault.New(fault.Usage, "%d is no number of calls from 1", l.PerMinute).In(field + ".per_minute")
		case l.AtOnce < 1:
			return fault.New(fault.Usage, "%d is no number of calls from 1", l.AtOnce).In(field + ".at_once")
		case l.RunTime < time.Millisecond:
			return fault.New(fault.Usage, "%s is no time such as 30s or 5m", l.RunTime).In(field + ".run_time")
		}
	}
	return nil
}

// tiers makes the limits that runners share.
func (s SourcesSettings) tiers() *runner.Sources {
	if s == (SourcesSettings{}) {
		s = defaultSources
	}
	limits := map[runner.Tier]runner.TierLimits{}
	for t, l := range s.byTier() {
		limits[t] = runner.TierLimits(l)
	}
	return runner.NewSources(limits, nil)
}
