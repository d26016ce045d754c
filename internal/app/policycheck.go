package app

import (
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/service/runs"
	"github.com/remitrun/remit/internal/service/servers"
)

// CheckPolicy finds what a policy says that has no effect in this installation:
// mistakes can never match, warnings are probably not what was meant.
func (a *App) CheckPolicy(p *policy.Policy) (mistakes, warnings fault.List, err error) {
	in := policy.Installation{Env: sandbox.SetVariables()}
	for _, t := range a.builtIn() {
		in.Tools = append(in.Tools, t.Spec())
	}
	in.Unlisted = append(servers.Unlisted(), runs.TypedSpec())
	for _, p := range a.Models().Providers {
		in.Providers = append(in.Providers, p.Name())
	}
	caps, err := a.Capabilities()
	if err != nil {
		return nil, nil, err
	}
	list, _ := caps.List() // broken ones offer no tools
	for _, c := range list {
		in.Groups = append(in.Groups, c.Info().ID)
	}
	in.Groups = append(in.Groups, "output") // the rest of a long output, for agents
	if in.Sources, err = a.policySources(); err != nil {
		return nil, nil, err
	}
	mistakes, warnings = p.Check(in)
	return mistakes, warnings, nil
}

// policySources are the sources of tools that are configured.
func (a *App) policySources() ([]policy.ToolSource, error) {
	servers, err := a.Servers.List()
	if err != nil {
		return nil, err
	}
	apis, err := a.APIs.List()
	if err != nil {
		return nil, err
	}
	modules, err := a.Modules.List()
	if err != nil {
		return nil, err
	}
	var out []policy.ToolSource
	for _, s := range servers {
		src := policy.ToolSource{Name: "mcp:" + s.Name}
		for _, w := range s.Within {
			src.Within = append(src.Within, w.Section)
		}
		out = append(out, src)
	}
	for _, one := range apis {
		out = append(out, policy.ToolSource{Name: "api:" + one.Name})
	}
	for _, one := range modules {
		out = append(out, policy.ToolSource{Name: "wasm:" + one.Name})
	}
	return out, nil
}
