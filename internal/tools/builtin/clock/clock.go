// Package clock holds the built-in tool time.now. Start at [Tools].
package clock

import (
	"context"
	"encoding/json"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/typed"
)

const input = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{},"additionalProperties":false}`

const output = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{
 "utc":{"type":"string","description":"RFC 3339, UTC, up to nanoseconds"},
 "unix_ms":{"type":"integer","description":"milliseconds since 1970-01-01T00:00:00Z"},
 "timezone":{"type":"string","description":"the machine's time zone and its offset, as CET +01:00"}},
 "required":["utc","unix_ms","timezone"],"additionalProperties":false}`

// Tools returns the tools of this package, which take the time from now.
func Tools(now func() time.Time) []permit.Tool {
	return []permit.Tool{typed.Func(tool.Spec{
		ID: "time.now", Title: "Tell the time", Version: "1", Source: "builtin", Risk: tool.Low,
		Description: "Returns the current time.",
		Input:       json.RawMessage(input), Output: json.RawMessage(output),
	}, func(context.Context, permit.Permit, struct{}) (map[string]any, error) {
		t := now()
		return map[string]any{
			"utc": t.UTC().Format(time.RFC3339Nano), "unix_ms": t.UnixMilli(), "timezone": t.Format("MST -07:00"),
		}, nil
	})}
}
