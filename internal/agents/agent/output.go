package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/typed"
)

// readID is the session's own tool that reads long outputs in parts; readName is its name
// for models.
const (
	readID   = tool.ID("output.read")
	readName = "output_read"
)

// readOutputArgs is the arguments of output.read.
type readOutputArgs struct {
	Output string `json:"output_id"`
	Offset int    `json:"offset"`
	Length int    `json:"length"`
}

// newReadOutput makes the tool that reads an earlier output of the session in parts. find
// returns an output by its ID, or fault.NotFound; most is the largest part in bytes.
func newReadOutput(find func(ctx context.Context, id string) ([]byte, error), most int) permit.Tool {
	return typed.Func(tool.Spec{
		ID: readID, Title: "Read on in an output", Version: "1", Source: "builtin", Risk: tool.Low,
		Description: "Reads a part of a tool's output that was too long to be shown at once. " +
			"The output_id is the one that the shortened output told. Offsets and lengths are in bytes.",
		Input: json.RawMessage(fmt.Sprintf(`{"type":"object","additionalProperties":false,"required":["output_id"],"properties":{`+
			`"output_id":{"type":"string","maxLength":100},"offset":{"type":"integer","minimum":0},"length":{"type":"integer","minimum":1,"maximum":%d}}}`, most)),
		Output: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["output_id","offset","length","bytes","more","text"],"properties":{` +
			`"output_id":{"type":"string"},"offset":{"type":"integer"},"length":{"type":"integer"},"bytes":{"type":"integer"},"more":{"type":"boolean"},"text":{"type":"string"}}}`),
	}, func(ctx context.Context, _ permit.Permit, a readOutputArgs) (map[string]any, error) {
		out, err := find(ctx, a.Output)
		if err != nil {
			return nil, err
		}
		return readPart(out, a, most)
	})
}

// readPart returns a part of an output that neither begins nor ends within a character.
func readPart(out []byte, a readOutputArgs, most int) (map[string]any, error) {
	offset, length := a.Offset, min(cmp.Or(a.Length, most), most)
	if offset > len(out) {
		return nil, fault.New(fault.ArgsInvalid, "must be at most %d, the length of the output", len(out)).In("offset")
	}
	rest := out[offset:]
	for len(rest) > 0 && rest[0]&0xC0 == 0x80 { // not in the middle of a character
		rest, offset = rest[1:], offset+1
	}
	text := rest[:wholeLength(rest, length)]
	if len(text) == 0 && len(rest) > 0 { // a character that is longer than the length asked for
		text = rest[:min(len(rest), 4)]
		text = text[:wholeLength(rest, len(text))]
	}
	return map[string]any{
		"output_id": a.Output, "offset": offset, "length": len(text), "bytes": len(out), "more": offset+len(text) < len(out), "text": string(text),
	}, nil
}
