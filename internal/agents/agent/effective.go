package agent

import (
	"context"
	"encoding/json"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Effective is what an agent's definition comes to: what its next session would work with.
type Effective struct {
	Agent        string                `json:"agent_id,omitempty" format:"uuid" doc:"Missing: it is not saved"`
	Version      int                   `json:"version" doc:"Of the agent; 0: it is not saved"`
	Model        string                `json:"model,omitempty" doc:"Missing: none is named, and there is no default"`
	SystemPrompt string                `json:"system_prompt" doc:"The prompts of the capabilities, in order, and the agent's own"`
	Capabilities []EffectiveCapability `json:"capabilities" nullable:"false" doc:"In order, with those that others require"`
	Tools        []EffectiveTool       `json:"tools" nullable:"false" doc:"As the model sees them"`
	Limits       Limits                `json:"limits" doc:"With the defaults of the settings"`
	Warnings     []string              `json:"warnings,omitempty"`
	Problem      *Problem              `json:"problem,omitempty" doc:"Why no session can work with the agent as it is"`
}

// EffectiveCapability is a capability that an agent has.
type EffectiveCapability struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	RequiredBy string `json:"required_by,omitempty" doc:"The capability that requires it; missing: the agent names it"`
	Prompt     string `json:"prompt,omitempty"`
}

// EffectiveTool is a tool that an agent has, with the capability that brings it.
type EffectiveTool struct {
	Name        string          `json:"name" doc:"That the model calls it by"`
	ID          tool.ID         `json:"id" doc:"That policies name it by"`
	Capability  string          `json:"capability"`
	Description string          `json:"description,omitempty"`
	Risk        string          `json:"risk,omitempty"`
	Effects     []string        `json:"effects,omitempty"`
	Input       json.RawMessage `json:"input_schema,omitempty"`
	Problem     *Problem        `json:"problem,omitempty" doc:"Why it cannot be used"`
}

// Effective tells what an agent's definition comes to now.
func (s *Service) Effective(ctx context.Context, id string) (Effective, error) {
	a, err := s.Agent(ctx, id)
	if err != nil {
		return Effective{}, err
	}
	out := s.effective(a)
	out.Agent = a.ID.String()
	return out, nil
}

// Preview returns the effective settings of a definition that is not saved. A definition that could
// not be saved is refused.
func (s *Service) Preview(_ context.Context, a Agent) (Effective, error) {
	if err := s.Check(a); err != nil {
		return Effective{}, err
	}
	return s.effective(a), nil
}

func (s *Service) effective(a Agent) Effective {
	out := Effective{Version: a.Version, Model: a.Model, Limits: s.limits(a), SystemPrompt: a.SystemPrompt, Capabilities: []EffectiveCapability{}, Tools: []EffectiveTool{}}
	if out.Model == "" {
		out.Model = s.o.Models.Default
	}
	if _, _, err := s.o.Models.Find(out.Model); err != nil {
		out.Problem = problemOf(err)
	}
	res, err := s.resolve(a, capability.Session{Match: s.o.Match})
	if err != nil {
		out.Problem = problemOf(err)
		return out
	}
	out.SystemPrompt, out.Warnings = prompt(res, a.SystemPrompt), res.Warnings
	seen := map[string]bool{}
	for _, p := range res.Parts {
		out.Capabilities = append(out.Capabilities, EffectiveCapability{ID: p.Info.ID, Name: p.Info.Name, RequiredBy: p.For, Prompt: p.Part.Prompt})
		for _, o := range p.Part.Tools {
			if !seen[o.Name] { // two capabilities can offer the same tool
				seen[o.Name] = true
				out.Tools = append(out.Tools, s.effectiveTool(p.Info.ID, o))
			}
		}
	}
	return out
}

func (s *Service) effectiveTool(from string, o capability.Offer) EffectiveTool {
	out := EffectiveTool{Name: o.Name, ID: o.ID, Capability: from}
	spec := (*tool.Spec)(nil)
	if o.Tool != nil {
		spec = o.Tool.Spec()
	} else if e, err := s.o.Lookup(o.ID); err != nil {
		out.Problem = problemOf(err)
	} else {
		spec = e.Spec
	}
	if spec == nil {
		if out.Problem == nil {
			out.Problem = problemOf(fault.New(fault.ToolUnknown, "no tool has the ID %q", o.ID))
		}
		return out
	}
	out.Description, out.Risk, out.Input = spec.Description, spec.Risk.String(), o.Input(spec.Input)
	for _, e := range spec.Effects.List() {
		out.Effects = append(out.Effects, e.String())
	}
	return out
}
