package httpapi

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/base/fault"
)

// Capabilities lists the capabilities that agents can have.
type Capabilities interface {
	Capabilities(ctx context.Context) ([]capability.Info, error) // by ID
	// Capability adds to a capability what it adds to an agent without configuration.
	Capability(ctx context.Context, id string) (CapabilityDetail, error)
}

// CapabilityDetail is a capability with its additions to an agent that does not configure it.
type CapabilityDetail struct {
	Capability

	Prompt   string           `json:"prompt,omitempty" doc:"That it adds to the agent's prompt"`
	Tools    []CapabilityTool `json:"tools,omitempty" nullable:"false"`
	Warnings []string         `json:"warnings,omitempty"`
	Problem  string           `json:"problem,omitempty" doc:"Why prompt and tools are unknown, as a configuration that is required"`
}

// CapabilityTool is a tool that a capability brings.
type CapabilityTool struct {
	Name        string   `json:"name" doc:"That the model calls it by"`
	ID          string   `json:"id" doc:"That policies name it by"`
	Description string   `json:"description,omitempty"`
	Risk        string   `json:"risk,omitempty"`
	Effects     []string `json:"effects,omitempty"`
}

// Capability is a capability as clients see it.
type Capability struct {
	ID          string          `json:"id" example:"current_time"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Status      string          `json:"status" enum:"available,coming_soon,deprecated"`
	Icon        string          `json:"icon,omitempty"`
	Category    string          `json:"category,omitempty"`
	Version     string          `json:"version,omitempty"`
	Requires    []string        `json:"requires,omitempty" doc:"Capabilities that it requires; they are added before it"`
	Config      json.RawMessage `json:"config_schema,omitempty" doc:"JSON Schema of its configuration"`
	Wants       []string        `json:"wants,omitempty" doc:"The authority that it needs, in the words of policies"`
	ReadOnly    bool            `json:"is_readonly,omitempty" doc:"Its tools change nothing; a call that could have a side effect is denied"`
}

// CapabilityList has all capabilities.
type CapabilityList struct {
	Items []Capability `json:"items"`
	Total int          `json:"total"`
}

var exampleCapability = map[string]any{"id": "current_time", "name": "Current Time", "description": "Tells date and time in any zone.",
	"status": "available", "icon": "clock", "category": "Utilities", "version": "1"}

func (s *Server) capabilities() {
	route(s, operation{
		id: "listCapabilities", method: http.MethodGet, path: "/v1/capabilities", tag: "capabilities", action: "capabilities.read",
		summary: "List capabilities", text: "All capabilities that agents can have, by ID.",
		answer: map[string]any{"items": []any{exampleCapability}, "total": 1},
	}, func(ctx context.Context, _ *struct{ asked }) (*struct{ Body CapabilityList }, error) {
		list, err := s.capabilityList(ctx)
		return &struct{ Body CapabilityList }{CapabilityList{list, len(list)}}, err
	})
	type one struct {
		asked
		ID string `path:"capability_id" maxLength:"200" example:"current_time"`
	}
	route(s, operation{
		id: "getCapability", method: http.MethodGet, path: "/v1/capabilities/{capability_id}", tag: "capabilities", action: "capabilities.read",
		summary: "Get a capability", text: "With its prompt and tools as an agent gets them that does not configure it.", errors: []int{404}, answer: exampleCapability,
	}, func(ctx context.Context, in *one) (*struct{ Body CapabilityDetail }, error) {
		list, err := s.capabilityList(ctx)
		if err != nil {
			return nil, err
		}
		for _, c := range list {
			if c.ID != in.ID {
				continue
			}
			d, err := s.o.Capabilities.Capability(ctx, in.ID)
			d.Capability = c
			return &struct{ Body CapabilityDetail }{d}, err
		}
		return nil, problem(missing(fault.CapabilityUnknown, "capability", in.ID)).as(http.StatusNotFound)
	})
}

func (s *Server) capabilityList(ctx context.Context) ([]Capability, error) {
	out := []Capability{}
	if s.o.Capabilities == nil {
		return out, nil
	}
	list, err := s.o.Capabilities.Capabilities(ctx)
	for _, c := range list {
		out = append(out, Capability{c.ID, c.Name, c.Description, string(c.Status), c.Icon, c.Category, c.Version, c.Requires, c.Config, c.Wants, c.ReadOnly})
	}
	return out, err
}
