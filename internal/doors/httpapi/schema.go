package httpapi

import (
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/service/grants"
	"github.com/remitrun/remit/internal/tools/model"
)

// schemaNames are the names in the OpenAPI document of types that have another name in
// Go. Generated clients use these names, so they do not change.
var schemaNames = map[reflect.Type]string{
	reflect.TypeFor[agent.Limits]():      "AgentLimits",
	reflect.TypeFor[agent.Problem]():     "TurnError",
	reflect.TypeFor[model.Call]():        "ToolCall",
	reflect.TypeFor[grants.Described]():  "Grant",
	reflect.TypeFor[grants.Meter]():      "BudgetMeter",
	reflect.TypeFor[grants.PolicyText](): "PolicySource",
	reflect.TypeFor[catalog.Described](): "Tool",
}

// schemas returns the registry of the OpenAPI document's schemas.
func schemas() huma.Registry {
	r := huma.NewMapRegistry("#/components/schemas/", func(t reflect.Type, hint string) string {
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if name, ok := schemaNames[t]; ok {
			return name
		}
		return huma.DefaultSchemaNamer(t, hint)
	})
	r.RegisterTypeAlias(reflect.TypeFor[agent.CapabilityRef](), reflect.TypeFor[capabilityRef]())
	return r
}

// capabilityRef has the schema of agent.CapabilityRef, which writes itself as JSON.
type capabilityRef struct{}

// Schema implements huma.SchemaProvider.
func (capabilityRef) Schema(huma.Registry) *huma.Schema {
	one, most := 1, 200
	ref := &huma.Schema{Type: huma.TypeString, MinLength: &one, MaxLength: &most, Description: "The capability's ID"}
	object := &huma.Schema{Type: huma.TypeObject, Properties: map[string]*huma.Schema{
		"ref": ref, "config": {Type: huma.TypeObject, AdditionalProperties: true, Description: "As the capability's config_schema says"},
	}, Required: []string{"ref"}, AdditionalProperties: false}
	s := &huma.Schema{OneOf: []*huma.Schema{ref, object}, Examples: []any{"current_time"}}
	for _, x := range []*huma.Schema{ref, object.Properties["config"], object, s} {
		x.PrecomputeMessages()
	}
	return s
}
