// Package random holds the built-in tool random.bytes. Start at [Tools].
package random

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// MaxCount is how many bytes one call may ask for.
const MaxCount = 65536

// Bytes is the tool random.bytes.
type Bytes struct{ spec tool.Spec }

// Tools gives the tools of this package.
func Tools() []*Bytes {
	return []*Bytes{{spec: tool.Spec{
		ID: "random.bytes", Title: "Make random bytes", Version: "1", Source: "builtin", Risk: tool.Low,
		Description: "Makes random bytes that are fit for keys. A replay gives the bytes that were recorded.",
		Input:       json.RawMessage(input), Output: json.RawMessage(output),
	}}}
}

const input = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{
 "count":{"type":"integer","description":"how many bytes","minimum":1,"maximum":65536},
 "encoding":{"type":"string","description":"how they are written","enum":["hex","base64"],"default":"hex"}},
 "required":["count"],"additionalProperties":false}`

const output = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{
 "bytes":{"type":"string","description":"the bytes as hexadecimal or base64"},
 "count":{"type":"integer","description":"how many bytes"},
 "encoding":{"type":"string","enum":["hex","base64"]}},
 "required":["bytes","count","encoding"],"additionalProperties":false}`

// Spec describes the tool.
func (r *Bytes) Spec() *tool.Spec { return &r.spec }

// Actions is empty: random bytes need nothing from the world that a policy bounds.
func (r *Bytes) Actions(tool.Env, tool.Args) ([]tool.Action, error) { return nil, nil }

// Run makes the bytes.
func (r *Bytes) Run(ctx context.Context, p permit.Permit, args tool.Args) (tool.Result, error) {
	if ctx.Err() != nil {
		return tool.Result{}, fault.Wrap(fault.ToolCancelled, ctx.Err(), "the call was cancelled")
	}
	if !p.Live() {
		return tool.Result{}, fault.New(fault.HandleRefused, "random.bytes: the call that this belongs to is over")
	}
	n, ok := args["count"].(json.Number)
	if !ok {
		return tool.Result{}, fault.New(fault.ArgsInvalid, "count is no number").In("count")
	}
	x, err := n.Float64() // JSON Schema counts 1.0 and 1e3 as whole numbers
	if err != nil || x < 1 || x > MaxCount || x != float64(int(x)) {
		return tool.Result{}, fault.New(fault.ArgsInvalid, "count is not a whole number from 1 to %d", MaxCount).In("count")
	}
	b := make([]byte, int(x))
	_, _ = rand.Read(b) // never fails: it ends the program instead
	enc, text := "hex", ""
	if s, ok := args["encoding"].(string); ok {
		enc = s
	}
	switch enc {
	case "hex":
		text = hex.EncodeToString(b)
	case "base64":
		text = base64.StdEncoding.EncodeToString(b)
	default:
		return tool.Result{}, fault.New(fault.ArgsInvalid, "encoding is none of hex, base64").In("encoding")
	}
	return tool.Result{Output: map[string]any{"bytes": text, "count": int64(len(b)), "encoding": enc}}, nil
}
