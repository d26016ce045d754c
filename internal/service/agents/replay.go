package agents

import (
	"context"
	"maps"
	"slices"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/agents/capability/custom"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/replay"
	"github.com/remitrun/remit/internal/call/runner"
)

// Rehearse prepares the replay of a session's recorded run, and gives the tools that it had.
// It starts no source of tools. A nil registry means the capabilities of this installation.
func (s *Agents) Rehearse(ctx context.Context, rec *replay.Recording, reg *capability.Registry) (*agent.Rehearsal, runner.Catalog, error) {
	in, ok := agent.ReadInputs(rec.Inputs)
	if !ok {
		return nil, nil, fault.New(fault.ReplayMismatch, "the record of run %s does not say which agent it was of", rec.Run.ID)
	}
	st, err := s.Reader(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := recollect(ctx, st, rec, in); err != nil {
		return nil, nil, err
	}
	if reg, err = s.recordedCapabilities(reg, in.Sources); err != nil {
		return nil, nil, err
	}
	known := s.Tools.Still()
	svc, err := s.service(st, Request{Workspace: rec.Bound.Workspace, Capabilities: reg}, known)
	if err != nil {
		return nil, nil, err
	}
	r, err := svc.Rehearse(in)
	if err != nil {
		return nil, nil, err
	}
	tools, err := overlay(r.Tools(), known)
	return r, tools, err
}

// recordedCapabilities returns the capabilities that a recorded run had: capabilities of files as
// the record has them.
func (s *Agents) recordedCapabilities(reg *capability.Registry, sources map[string]string) (*capability.Registry, error) {
	if len(sources) == 0 {
		return reg, nil
	}
	if reg == nil {
		var err error
		if reg, err = s.Capabilities(); err != nil {
			return nil, err
		}
	}
	var recorded []capability.Capability
	for _, id := range slices.Sorted(maps.Keys(sources)) {
		c, err := custom.Parse("(record) "+id+".yaml", []byte(sources[id]))
		if err != nil {
			return nil, err
		}
		recorded = append(recorded, c)
	}
	return reg.With(func() ([]capability.Capability, []capability.Broken) { return recorded, nil }), nil
}
