// Package policyreview answers questions about policies without running a call: which entries have no effect, how a
// policy decides a call or a file of cases, how two policies differ, which entries recorded runs did not need, and
// the smallest policy that they need. Start at [Reviewer.Check] and [Reviewer.Explain].
package policyreview

import (
	"context"
	"slices"
	"sync"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/apis"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/modules"
	"github.com/remitrun/remit/internal/service/policies"
	"github.com/remitrun/remit/internal/service/replays"
	"github.com/remitrun/remit/internal/service/runs"
	"github.com/remitrun/remit/internal/service/servers"
	"github.com/remitrun/remit/internal/tools/model"
)

// Reviewer answers questions about policies. Its fields are set before it is used.
type Reviewer struct {
	Home     *home.Home
	Policies *policies.Policies
	Replays  *replays.Replays // judges recorded calls
	Catalog  *catalog.Catalog
	Servers  *servers.Servers
	APIs     *apis.APIs
	Modules  *modules.Modules
	Facts    *runs.Facts // looks up what a call would touch

	BuiltIn func() []permit.Tool // the tools that are compiled in
	Models  *model.Registry
	// Capabilities returns the capabilities that agents can have.
	Capabilities func(own ...capability.Capability) (*capability.Registry, error)
	// Reader opens the ledger to look at, also one that cannot be written.
	Reader func(context.Context) (store.Backend, error)

	asking sync.Mutex
}

// Parsed reads a policy that came with a request, and finds out whether it can be used.
func (s *Reviewer) Parsed(text, workspace string) (*policy.Policy, error) {
	p, err := policy.Parse("policy", []byte(text))
	if err == nil {
		_, err = p.Bind(s.Home.Env(workspace))
	}
	return p, err
}

// Check finds entries of a policy without effect in this installation. A mistake can never match; a
// warning is probably not intended.
func (s *Reviewer) Check(p *policy.Policy) (mistakes, warnings fault.List, err error) {
	in := policy.Installation{Env: sandbox.SetVariables()}
	for _, t := range s.BuiltIn() {
		in.Tools = append(in.Tools, t.Spec())
	}
	in.Unlisted = append(slices.Concat(servers.Unlisted(), apis.Unlisted(), catalog.Unlisted()), runs.TypedSpec())
	for _, p := range s.Models.Providers {
		in.Providers = append(in.Providers, p.Name())
	}
	caps, err := s.Capabilities()
	if err != nil {
		return nil, nil, err
	}
	list, _ := caps.List() // broken ones offer no tools
	for _, c := range list {
		in.Groups = append(in.Groups, c.Info().ID)
	}
	in.Groups = append(in.Groups, "output") // the rest of a long output, for agents
	if in.Sources, err = s.policySources(); err != nil {
		return nil, nil, err
	}
	mistakes, warnings = p.Check(in)
	return mistakes, warnings, nil
}

// policySources lists the configured sources of tools.
func (s *Reviewer) policySources() ([]policy.ToolSource, error) {
	servers, err := s.Servers.List()
	if err != nil {
		return nil, err
	}
	apis, err := s.APIs.List()
	if err != nil {
		return nil, err
	}
	modules, err := s.Modules.List()
	if err != nil {
		return nil, err
	}
	var out []policy.ToolSource
	for _, one := range servers {
		src := policy.ToolSource{Name: "mcp:" + one.Name}
		for _, w := range one.Within {
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
