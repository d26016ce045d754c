package catalog

import (
	"encoding/json"
	"time"

	"github.com/remitrun/remit/internal/base/inspect"
	"github.com/remitrun/remit/internal/base/tool"
)

// Described is a tool as people and programs are shown it.
type Described struct {
	ID          tool.ID           `json:"id" example:"time.now"`
	Title       string            `json:"title,omitempty"`
	Description string            `json:"description"`
	Version     string            `json:"version,omitempty"`
	Source      string            `json:"source" doc:"The source's name, as mcp:github; builtin for built-in tools"`
	Kind        string            `json:"kind,omitempty" doc:"The kind of the source: builtin, extension, mcp, api or wasm"`
	Risk        string            `json:"risk" enum:"low,medium,high,critical"`
	Effects     []string          `json:"effects" nullable:"false" doc:"Every side effect that a call may have"`
	Digest      string            `json:"digest"`
	Enabled     bool              `json:"enabled" doc:"It can be called"`
	Disabled    string            `json:"disabled,omitempty" doc:"Why it is switched off"`
	Changed     bool              `json:"changed,omitempty" doc:"The tool differs from the accepted one"`
	First       time.Time         `json:"first_seen,omitzero"`
	Last        time.Time         `json:"last_seen,omitzero"`
	Accepted    time.Time         `json:"accepted_at,omitzero"`
	Findings    []inspect.Finding `json:"findings,omitempty" nullable:"false" doc:"Parts of its texts that should be read with care"`
	Why         []RiskReason      `json:"why,omitempty" nullable:"false" doc:"Why it has its risk; with the schemas"`
	Input       json.RawMessage   `json:"input_schema,omitempty"`
	Output      json.RawMessage   `json:"output_schema,omitempty"`
}

// RiskReason is a reason for a tool's risk.
type RiskReason struct {
	Risk    string   `json:"risk"`
	Effects []string `json:"effects" nullable:"false"`
	Why     string   `json:"why"`
}

// Describe describes the tool; whole includes its schemas and the reasons for its risk.
func (t Tool) Describe(whole bool) Described {
	s := t.Spec
	out := Described{
		ID: s.ID, Title: s.Title, Description: s.Description, Version: s.Version, Source: t.Source, Kind: s.Source, Risk: s.Risk.String(), Effects: effectNames(s.Effects),
		Digest: t.Digest.String(), Enabled: t.Disabled == "", Disabled: t.Disabled, Changed: t.Changed, First: t.First, Last: t.Last, Accepted: t.Accepted, Findings: t.Findings,
	}
	if !whole {
		return out
	}
	out.Input, out.Output = s.Input, s.Output
	for _, r := range t.Verdict.Reasons {
		out.Why = append(out.Why, RiskReason{r.Risk.String(), effectNames(r.Effects), r.Why})
	}
	return out
}

func effectNames(e tool.Effects) []string {
	out := []string{}
	for _, one := range e.List() {
		out = append(out, one.String())
	}
	return out
}
