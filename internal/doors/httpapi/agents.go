package httpapi

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/base/commitment"
	"github.com/remitrun/remit/internal/base/fault"
)

// Agents keeps agents.
type Agents interface {
	CreateAgent(ctx context.Context, by agent.Caller, a agent.Agent) (agent.Agent, error)
	// UpdateAgent changes an agent if it is at a version; 0: at any.
	UpdateAgent(ctx context.Context, by agent.Caller, id string, ifVersion int, change func(*agent.Agent) error) (agent.Agent, error)
	Agent(ctx context.Context, id string) (agent.Agent, error)
	Agents(ctx context.Context, before uuid.UUID, limit int) ([]agent.Agent, error)
	DeleteAgent(ctx context.Context, by agent.Caller, id string) error
	Effective(ctx context.Context, id string) (agent.Effective, error)
	// Preview tells what a definition would come to, and saves nothing.
	Preview(ctx context.Context, a agent.Agent) (agent.Effective, error)
}

// NewAgent is the request to create an agent.
type NewAgent struct {
	Name         string                  `json:"name" minLength:"1" maxLength:"200" example:"Clock"`
	SystemPrompt string                  `json:"system_prompt,omitempty" maxLength:"200000"`
	Model        string                  `json:"model,omitempty" maxLength:"500" doc:"Default: that of the settings" example:"anthropic/claude-opus-4-5"`
	Capabilities []agent.CapabilityRef   `json:"capabilities,omitempty" maxItems:"200" nullable:"false"`
	Policy       string                  `json:"policy,omitempty" maxLength:"500000"`
	Limits       agent.Limits            `json:"limits,omitempty"`
	Commitments  []commitment.Commitment `json:"commitments,omitempty" maxItems:"20" nullable:"false" doc:"Conditions that must hold before a turn counts as done"`
	Quarantine   bool                    `json:"quarantine,omitempty" doc:"As a sub-agent it always runs in quarantine, and gives its answer alone"`
	Answer       json.RawMessage         `json:"answer,omitempty" doc:"JSON Schema of its answer, with type object. Needed with quarantine"`
}

func (n NewAgent) agent() agent.Agent {
	return agent.Agent{Name: n.Name, SystemPrompt: n.SystemPrompt, Model: n.Model, Policy: n.Policy, Capabilities: n.Capabilities, Limits: n.Limits, Commitments: n.Commitments, Quarantine: n.Quarantine, Answer: n.Answer}
}

// AgentPatch is the request to change an agent. Missing fields do not change.
type AgentPatch struct {
	Name         *string                  `json:"name,omitempty" minLength:"1" maxLength:"200"`
	SystemPrompt *string                  `json:"system_prompt,omitempty" maxLength:"200000"`
	Model        *string                  `json:"model,omitempty" maxLength:"500"`
	Capabilities *[]agent.CapabilityRef   `json:"capabilities,omitempty" maxItems:"200" nullable:"false" doc:"The complete list, in order"`
	Policy       *string                  `json:"policy,omitempty" maxLength:"500000"`
	Limits       *agent.Limits            `json:"limits,omitempty"`
	Commitments  *[]commitment.Commitment `json:"commitments,omitempty" maxItems:"20" nullable:"false" doc:"The complete list"`
	Quarantine   *bool                    `json:"quarantine,omitempty" doc:"false also removes answer"`
	Answer       json.RawMessage          `json:"answer,omitempty"`
}

func (p AgentPatch) apply(a *agent.Agent) error {
	set(&a.Name, p.Name)
	set(&a.SystemPrompt, p.SystemPrompt)
	set(&a.Model, p.Model)
	set(&a.Policy, p.Policy)
	if p.Capabilities != nil {
		a.Capabilities = *p.Capabilities
	}
	set(&a.Limits, p.Limits)
	set(&a.Commitments, p.Commitments)
	if p.Quarantine != nil {
		if a.Quarantine = *p.Quarantine; !a.Quarantine {
			a.Answer = nil
		}
	}
	if p.Answer != nil {
		a.Answer = p.Answer
	}
	return nil
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// AgentList is a page of agents, newest first.
type AgentList struct {
	Items []agent.Agent `json:"items"`
	Next  string        `json:"next,omitempty" doc:"The cursor of the next page; missing on the last one"`
}

type agentAnswer struct {
	ETag     string `header:"ETag"`
	Location string `header:"Location"`
	Body     agent.Agent
}

var exampleAgent = map[string]any{
	"id": "019a1fe6-f191-7e8b-a5c1-4c1f6a9f9a11", "name": "Clock", "system_prompt": "Answer briefly.", "model": "scripted:clock.yaml",
	"capabilities": []any{"current_time", map[string]any{"ref": "web_fetch", "config": map[string]any{}}}, "limits": map[string]any{}, "status": "active", "version": 1,
	"created_at": "2026-11-21T12:00:00Z", "updated_at": "2026-11-21T12:00:00Z",
}

// agentCaller gives the caller in the form of package agent.
func (a *asked) agentCaller() agent.Caller {
	return agent.Caller{Name: a.who.Name, Token: a.who.Token, Proven: a.who.Proven}
}

func (s *Server) agents() {
	type create struct {
		asked
		Body NewAgent
	}
	route(s, operation{
		id: "createAgent", method: http.MethodPost, path: "/v1/agents", tag: "agents", action: "agents.write", status: http.StatusCreated,
		summary: "Create an agent", text: "An agent is a prompt, capabilities in order, and a model. Its sessions are limited by the grant under which they are started, and by the agent's policy.",
		errors:  []int{409},
		request: map[string]any{"name": "Clock", "system_prompt": "Answer briefly.", "model": "scripted:clock.yaml", "capabilities": []any{"current_time"}}, answer: exampleAgent,
	}, func(ctx context.Context, in *create) (*agentAnswer, error) {
		a, err := s.o.Agents.CreateAgent(ctx, in.agentCaller(), in.Body.agent())
		return answerAgent(a), err
	})
	route(s, operation{
		id: "previewAgent", method: http.MethodPost, path: "/v1/agents/effective", tag: "agents", action: "agents.write", summary: "Preview what an agent would come to",
		text:    "As getEffectiveAgent, of a definition that is not saved. Nothing is saved; a definition that could not be saved is refused.",
		errors:  []int{409},
		request: map[string]any{"name": "Clock", "model": "scripted:clock.yaml", "capabilities": []any{"current_time"}},
		answer:  map[string]any{"version": 0, "model": "scripted:clock.yaml", "system_prompt": "", "limits": map[string]any{"steps": 50}, "capabilities": []any{}, "tools": []any{}},
	}, func(ctx context.Context, in *create) (*struct{ Body agent.Effective }, error) {
		v, err := s.o.Agents.Preview(ctx, in.Body.agent())
		return &struct{ Body agent.Effective }{v}, err
	})
	s.readAgents()
	s.changeAgents()
}

func answerAgent(a agent.Agent) *agentAnswer {
	return &agentAnswer{ETag: etag(a.Version), Location: "/v1/agents/" + a.ID.String(), Body: a}
}

func (s *Server) readAgents() {
	type list struct {
		asked
		Page
	}
	route(s, operation{
		id: "listAgents", method: http.MethodGet, path: "/v1/agents", tag: "agents", action: "agents.read", summary: "List agents", text: "Newest first.",
		answer: map[string]any{"items": []any{exampleAgent}},
	}, func(ctx context.Context, in *list) (*struct{ Body AgentList }, error) {
		before, err := in.uuid("agents")
		if err != nil {
			return nil, err
		}
		all, err := s.o.Agents.Agents(ctx, before, in.Limit+1)
		if err != nil {
			return nil, err
		}
		out := AgentList{Items: []agent.Agent{}}
		for i, a := range all {
			if i == in.Limit {
				out.Next = cursor("agents", all[i-1].ID.String())
				break
			}
			out.Items = append(out.Items, a)
		}
		return &struct{ Body AgentList }{out}, nil
	})
	type one struct {
		asked
		ID string `path:"agent_id" maxLength:"100" example:"019a1fe6-f191-7e8b-a5c1-4c1f6a9f9a11"`
	}
	route(s, operation{
		id: "getAgent", method: http.MethodGet, path: "/v1/agents/{agent_id}", tag: "agents", action: "agents.read", summary: "Get an agent",
		errors: []int{404}, answer: exampleAgent,
	}, func(ctx context.Context, in *one) (*agentAnswer, error) {
		if err := checkWholeID(fault.AgentUnknown, "agent", in.ID); err != nil {
			return nil, err
		}
		a, err := s.o.Agents.Agent(ctx, in.ID)
		return answerAgent(a), err
	})
	route(s, operation{
		id: "getEffectiveAgent", method: http.MethodGet, path: "/v1/agents/{agent_id}/effective", tag: "agents", action: "agents.read", summary: "Get what an agent comes to",
		text:   "The whole prompt, the capabilities with those that others require, and the tools with the capability that brings each, as its next session would have them.",
		errors: []int{404}, answer: map[string]any{"agent_id": "019a1fe6-f191-7e8b-a5c1-4c1f6a9f9a11", "version": 1, "model": "scripted:clock.yaml", "system_prompt": "Answer briefly.", "limits": map[string]any{"steps": 50},
			"capabilities": []any{map[string]any{"id": "current_time", "name": "Current Time"}},
			"tools":        []any{map[string]any{"name": "get_current_time", "id": "current_time.get_current_time", "capability": "current_time", "risk": "low"}}},
	}, func(ctx context.Context, in *one) (*struct{ Body agent.Effective }, error) {
		if err := checkWholeID(fault.AgentUnknown, "agent", in.ID); err != nil {
			return nil, err
		}
		v, err := s.o.Agents.Effective(ctx, in.ID)
		return &struct{ Body agent.Effective }{v}, err
	})
}

func (s *Server) changeAgents() {
	type patch struct {
		asked
		ID    string `path:"agent_id" maxLength:"100" example:"019a1fe6-f191-7e8b-a5c1-4c1f6a9f9a11"`
		Match string `header:"If-Match" maxLength:"200" doc:"Change it only if it has this ETag"`
		Body  AgentPatch
	}
	route(s, operation{
		id: "updateAgent", method: http.MethodPatch, path: "/v1/agents/{agent_id}", tag: "agents", action: "agents.write", summary: "Change an agent",
		text:    "Fields left out stay unchanged; capabilities are replaced as a whole. Sessions take the change at their next turn.",
		errors:  []int{404, 409, 412},
		request: map[string]any{"capabilities": []any{"current_time", "session_file_system"}}, answer: exampleAgent,
	}, func(ctx context.Context, in *patch) (*agentAnswer, error) {
		if err := checkWholeID(fault.AgentUnknown, "agent", in.ID); err != nil {
			return nil, err
		}
		version, err := ifMatch(in.Match)
		if err != nil {
			return nil, err
		}
		a, err := s.o.Agents.UpdateAgent(ctx, in.agentCaller(), in.ID, version, in.Body.apply)
		if err != nil {
			return nil, stale(err, version)
		}
		return answerAgent(a), nil
	})
	type remove struct {
		asked
		ID string `path:"agent_id" maxLength:"100" example:"019a1fe6-f191-7e8b-a5c1-4c1f6a9f9a11"`
	}
	route(s, operation{
		id: "deleteAgent", method: http.MethodDelete, path: "/v1/agents/{agent_id}", tag: "agents", action: "agents.write", status: http.StatusNoContent,
		summary: "Delete an agent", text: "Its sessions can still be read, but take no more messages. The record keeps the agent.", errors: []int{404, 409},
	}, func(ctx context.Context, in *remove) (*struct{}, error) {
		if err := checkWholeID(fault.AgentUnknown, "agent", in.ID); err != nil {
			return nil, err
		}
		return nil, s.o.Agents.DeleteAgent(ctx, in.agentCaller(), in.ID)
	})
}
