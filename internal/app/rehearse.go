package app

import (
	"maps"
	"slices"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/agents/capability/custom"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/replay"
	"github.com/remitrun/remit/internal/call/runner"
)

// rehearse prepares a recorded run of a session, and the tools that it had. With caps nil
// it has the capabilities of today.
func (a *App) rehearse(rec *replay.Recording, caps *capability.Registry) (*agent.Rehearsal, runner.Catalog, error) {
	in, ok := agent.ReadInputs(rec.Inputs)
	if !ok {
		return nil, nil, fault.New(fault.ReplayMismatch, "the record of run %s does not say which agent it was of", rec.Run.ID)
	}
	q := AgentsRequest{Workspace: rec.Bound.Workspace, still: true}
	var err error
	if q.Capabilities, err = a.capabilitiesThen(caps, in.Sources); err != nil {
		return nil, nil, err
	}
	s, err := a.agents(q)
	if err != nil {
		return nil, nil, err
	}
	r, err := s.Rehearse(in)
	if err != nil {
		return nil, nil, err
	}
	tools, err := overlay(r.Tools(), a.catalog.Still())
	return r, tools, err
}

// capabilitiesThen gives the capabilities that a recorded run had. Custom capabilities come
// from the record, not from the files of today. reg may be nil.
func (a *App) capabilitiesThen(reg *capability.Registry, sources map[string]string) (*capability.Registry, error) {
	if len(sources) == 0 {
		return reg, nil
	}
	if reg == nil {
		var err error
		if reg, err = a.Capabilities(); err != nil {
			return nil, err
		}
	}
	var then []capability.Capability
	for _, id := range slices.Sorted(maps.Keys(sources)) {
		c, err := custom.Parse("(record) "+id+".yaml", []byte(sources[id]))
		if err != nil {
			return nil, err
		}
		then = append(then, c)
	}
	return reg.With(func() ([]capability.Capability, []capability.Broken) { return then, nil }), nil
}
