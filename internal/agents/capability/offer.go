package capability

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/tool"
)

// Args returns the arguments of a call: the model's, and the defaults of those that it left
// out. They are decided and recorded.
func (o Offer) Args(model tool.Args) tool.Args {
	if len(o.Defaults) == 0 {
		return model
	}
	out := maps.Clone(o.Defaults)
	maps.Copy(out, model)
	return out
}

// Input returns a tool's input schema for the model: arguments with a default are not
// required, and have their default. A schema that cannot be read is not changed.
func (o Offer) Input(schema json.RawMessage) json.RawMessage {
	if len(o.Defaults) == 0 {
		return schema
	}
	doc, err := canon.Decode(schema)
	m, ok := doc.(map[string]any)
	if err != nil || !ok {
		return schema
	}
	if list, ok := m["required"].([]any); ok {
		m["required"] = slices.DeleteFunc(list, func(v any) bool {
			name, _ := v.(string)
			_, has := o.Defaults[name]
			return has
		})
	}
	if props, ok := m["properties"].(map[string]any); ok {
		for name, v := range o.Defaults {
			if p, ok := props[name].(map[string]any); ok {
				p["default"] = v
			}
		}
	}
	out, err := json.Marshal(m)
	if err != nil {
		return schema
	}
	return out
}
