// Package clock holds the built-in tool time.now. Start at [Tools].
package clock

import (
	"context"
	"encoding/json"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Now is the tool time.now.
type Now struct {
	spec tool.Spec
	now  func() time.Time
}

// Tools gives the tools of this package; now tells the time.
func Tools(now func() time.Time) []*Now {
	return []*Now{{now: now, spec: tool.Spec{
		ID: "time.now", Title: "Tell the time", Version: "1", Source: "builtin", Risk: tool.Low,
		Description: "Tells the current time. A replay gives the time that was recorded.",
		Input:       json.RawMessage(input), Output: json.RawMessage(output),
	}}}
}

const input = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{},"additionalProperties":false}`

const output = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{
 "utc":{"type":"string","description":"RFC 3339, UTC, up to nanoseconds"},
 "unix_ms":{"type":"integer","description":"milliseconds since 1970-01-01T00:00:00Z"},
 "timezone":{"type":"string","description":"the machine's time zone and its offset, as CET +01:00"}},
 "required":["utc","unix_ms","timezone"],"additionalProperties":false}`

// Spec describes the tool.
func (n *Now) Spec() *tool.Spec { return &n.spec }

// Actions is empty: the time needs nothing from the world that a policy bounds.
func (n *Now) Actions(tool.Env, tool.Args) ([]tool.Action, error) { return nil, nil }

// Run tells the time.
func (n *Now) Run(ctx context.Context, p permit.Permit, _ tool.Args) (tool.Result, error) {
	if ctx.Err() != nil {
		return tool.Result{}, fault.Wrap(fault.ToolCancelled, ctx.Err(), "the call was cancelled")
	}
	if !p.Live() {
		return tool.Result{}, fault.New(fault.HandleRefused, "time.now: the call that this belongs to is over")
	}
	t := n.now()
	return tool.Result{Output: map[string]any{
		"utc": t.UTC().Format(time.RFC3339Nano), "unix_ms": t.UnixMilli(), "timezone": t.Format("MST -07:00"),
	}}, nil
}
