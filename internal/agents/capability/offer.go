package capability

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/tool"
)

// Args is what the runner is to be given of a call: the model's arguments, and
// the defaults of what it does not say. It is these that are decided and
// recorded.
func (o Offer) Args(model tool.Args) tool.Args {
	if len(o.Defaults) == 0 {
		return model
	}
	out := maps.Clone(o.Defaults)
	maps.Copy(out, model)
	return out
}

// Input is a tool's input schema as a model is to be told it: what has a default
// is not required, and says its default. A schema that cannot be read stays as it
// is.
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
