package agent

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// readID is the session's own tool that reads long outputs in parts; readName is
// how models call it.
const (
	readID   = tool.ID("output.read")
	readName = "output_read"
)

// readOutput reads what an earlier tool call of the session gave, of which the
// model was shown the beginning only.
type readOutput struct {
	find func(ctx context.Context, id string) ([]byte, error) // fault.NotFound
	most int                                                  // bytes at once
}

// Spec implements tool.Tool.
func (r *readOutput) Spec() *tool.Spec {
	return &tool.Spec{
		ID: readID, Title: "Read on in an output", Version: "1", Source: "builtin", Risk: tool.Low,
		Description: "Reads a part of a tool's output that was too long to be shown at once. " +
			"The output_id is the one that the shortened output told. Offsets and lengths are in bytes.",
		Input: json.RawMessage(fmt.Sprintf(`{"type":"object","additionalProperties":false,"required":["output_id"],"properties":{`+
			`"output_id":{"type":"string","maxLength":100},"offset":{"type":"integer","minimum":0},"length":{"type":"integer","minimum":1,"maximum":%d}}}`, r.most)),
		Output: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["output_id","offset","length","bytes","more","text"],"properties":{` +
			`"output_id":{"type":"string"},"offset":{"type":"integer"},"length":{"type":"integer"},"bytes":{"type":"integer"},"more":{"type":"boolean"},"text":{"type":"string"}}}`),
	}
}

// Actions implements tool.Tool: nothing of the world is needed but the session's
// own record.
func (r *readOutput) Actions(tool.Env, tool.Args) ([]tool.Action, error) { return nil, nil }

// Run implements runner.Tool.
func (r *readOutput) Run(ctx context.Context, _ permit.Permit, args tool.Args) (tool.Result, error) {
	id, _ := args["output_id"].(string)
	out, err := r.find(ctx, id)
	if err != nil {
		return tool.Result{}, err
	}
	offset, length := number(args["offset"], 0), number(args["length"], r.most)
	if offset > len(out) {
		return tool.Result{}, fault.New(fault.ArgsInvalid, "the output has %d bytes", len(out)).In("offset")
	}
	rest := out[offset:]
	for len(rest) > 0 && rest[0]&0xC0 == 0x80 { // not in the middle of a character
		rest, offset = rest[1:], offset+1
	}
	text := rest[:whole(rest, min(length, r.most))]
	if len(text) == 0 && len(rest) > 0 { // a character that is longer than what was asked for
		text = rest[:min(len(rest), 4)]
		text = text[:whole(rest, len(text))]
	}
	return tool.Result{Output: map[string]any{
		"output_id": id, "offset": offset, "length": len(text), "bytes": len(out), "more": offset+len(text) < len(out), "text": string(text),
	}}, nil
}

func number(v any, otherwise int) int {
	n, ok := v.(json.Number)
	if !ok {
		return otherwise
	}
	i, err := n.Int64()
	if err != nil || i < 0 || i > 1<<40 {
		return otherwise
	}
	return int(i)
}
