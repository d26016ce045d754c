package gateway

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/remitrun/remit/internal/base/schema"
	"github.com/remitrun/remit/internal/base/tool"
)

// Models read the descriptions and the results of tools, and each byte costs. For Remit's own tools
// the client gets the short form: the parts that a model needs for its next step, once. The record,
// the other doors and the checks of arguments keep the complete form.

// builtin is the source of Remit's own tools.
const builtin = "builtin"

// describeBriefly writes one of Remit's own tools in the form of MCP. The output
// schema is left out: its names are in the results.
func describeBriefly(name string, t *tool.Spec, about aboutTool) *mcp.Tool {
	hints := annotations(t)
	hints.Title = "" // the tool has it
	return &mcp.Tool{Name: name, Title: t.Title, Description: t.Description, InputSchema: briefSchema(schema.Flat(t.Input)),
		Annotations: hints, Meta: mcp.Meta{aboutKey: about}}
}

// briefSchema removes the bounds and forms that a model does not need to choose arguments.
// Arguments are still checked against the complete schema, whose message names the bound.
func briefSchema(src json.RawMessage) json.RawMessage {
	var s map[string]any
	if json.Unmarshal(src, &s) != nil {
		return src
	}
	trim(s)
	out, err := json.Marshal(s)
	if err != nil {
		return src
	}
	return out
}

// trim removes from a schema, and from those within it, the keywords that guide no model.
func trim(s map[string]any) {
	for _, key := range []string{"$schema", "minLength", "maxLength", "minItems", "maxItems", "maxProperties", "pattern", "contentEncoding",
		"exclusiveMinimum"} {
		delete(s, key)
	}
	if s["additionalProperties"] == false {
		delete(s, "additionalProperties")
	}
	if s["default"] == false || s["default"] == 0.0 {
		delete(s, "default")
	}
	if low, ok := s["minimum"].(float64); ok && low >= 0 && low <= 4 {
		delete(s, "minimum")
	}
	if high, ok := s["maximum"].(float64); ok && high >= 1<<30 {
		delete(s, "maximum")
	}
	if required, ok := s["required"].([]any); ok && len(required) == 0 {
		delete(s, "required")
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if below, ok := s[key].(map[string]any); ok {
			trim(below)
		}
	}
	properties, _ := s["properties"].(map[string]any)
	for _, below := range properties {
		if below, ok := below.(map[string]any); ok {
			trim(below)
		}
	}
	alternatives, _ := s["anyOf"].([]any)
	for _, below := range alternatives {
		if below, ok := below.(map[string]any); ok {
			trim(below)
		}
	}
}

// omission says which fields of a tool's output a model does not need.
type omission struct {
	always []string // measures, and repetitions of other fields
	whole  []string // matter only if the output was truncated
	empty  []string // matter only if they are not zero, false or empty
	plain  string   // a field that is left out if it has its usual value
	usual  string
}

// omissions has the omissions of Remit's own tools. Fields that are not listed are shown.
var omissions = map[tool.ID]omission{
	"fs.edit":      {always: []string{"bytes_written", "sha256_before"}, empty: []string{"places_truncated"}},
	"fs.grep":      {empty: []string{"truncated", "files_binary", "files_cut", "files_failed", "denied"}},
	"fs.list":      {whole: []string{"entries_total"}, empty: []string{"truncated", "denied"}},
	"fs.read":      {always: []string{"mode", "bytes_returned"}, whole: []string{"bytes_total"}, empty: []string{"truncated"}, plain: "encoding", usual: "text"},
	"fs.write":     {always: []string{"bytes_written"}},
	"http.get":     {always: []string{"status_text", "bytes_returned"}, whole: []string{"bytes_total"}, empty: []string{"truncated", "redirects"}, plain: "encoding", usual: "utf-8"},
	"http.request": {always: []string{"status_text", "bytes_returned"}, whole: []string{"bytes_total"}, empty: []string{"truncated", "redirects"}, plain: "encoding", usual: "utf-8"},
	"shell.run": {always: []string{"duration_ms", "cpu_ms", "peak_memory_bytes", "disk_read_bytes", "disk_written_bytes", "limits", "sandbox"},
		empty: []string{"stdout", "stderr"}},
}

// BriefOutput gives the fields of an output that a model needs. The output of another tool
// is given as it is.
func BriefOutput(id tool.ID, out map[string]any) map[string]any {
	o, ok := omissions[id]
	if !ok {
		return out
	}
	short := maps.Clone(out)
	for _, name := range o.always {
		delete(short, name)
	}
	if out["truncated"] == false {
		for _, name := range o.whole {
			delete(short, name)
		}
	}
	for _, name := range o.empty {
		if isEmpty(short[name]) {
			delete(short, name)
		}
	}
	if o.plain != "" && short[o.plain] == o.usual {
		delete(short, o.plain)
	}
	if code, ok := out["exit_code"]; ok && isEmpty(code) {
		delete(short, "sandbox_notes")
	}
	for _, name := range []string{"stdout_info", "stderr_info"} {
		if info, ok := short[name].(map[string]any); ok && info["truncated"] == false {
			delete(short, name)
		}
	}
	return short
}

// isEmpty reports whether a value of an output is absent, false, zero or empty.
func isEmpty(v any) bool {
	text, err := json.Marshal(v)
	return err == nil && slices.Contains([]string{"null", "false", "0", `""`, "[]", "{}"}, string(text))
}
