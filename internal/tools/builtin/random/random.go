// Package random holds the built-in tool random.bytes. Start at [Tools].
package random

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/typed"
)

// MaxCount is the number of bytes that one call may ask for.
const MaxCount = 65536

const input = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{
 "count":{"type":"integer","minimum":1,"maximum":65536},
 "encoding":{"type":"string","enum":["hex","base64"],"default":"hex"}},
 "required":["count"],"additionalProperties":false}`

const output = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{
 "bytes":{"type":"string","description":"the bytes as hexadecimal or base64"},
 "count":{"type":"integer","description":"how many bytes"},
 "encoding":{"type":"string","enum":["hex","base64"]}},
 "required":["bytes","count","encoding"],"additionalProperties":false}`

// Tools returns the tools of this package.
func Tools() []permit.Tool {
	return []permit.Tool{typed.Func(tool.Spec{
		ID: "random.bytes", Title: "Make random bytes", Version: "1", Source: "builtin", Risk: tool.Low,
		Description: "Makes random bytes, secure enough for keys.",
		Input:       json.RawMessage(input), Output: json.RawMessage(output),
	}, makeBytes)}
}

type arguments struct {
	Count    int    `json:"count"`
	Encoding string `json:"encoding"`
}

func makeBytes(_ context.Context, _ permit.Permit, a arguments) (map[string]any, error) {
	if a.Count < 1 || a.Count > MaxCount {
		return nil, fault.New(fault.ArgsInvalid, "count must be a whole number from 1 to %d", MaxCount).In("count")
	}
	b := make([]byte, a.Count)
	_, _ = rand.Read(b) // never fails: it ends the program instead
	enc, text := cmp.Or(a.Encoding, "hex"), ""
	switch enc {
	case "hex":
		text = hex.EncodeToString(b)
	case "base64":
		text = base64.StdEncoding.EncodeToString(b)
	default:
		return nil, fault.New(fault.ArgsInvalid, "encoding must be hex or base64").In("encoding")
	}
	return map[string]any{"bytes": text, "count": int64(len(b)), "encoding": enc}, nil
}
