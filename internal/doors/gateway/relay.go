package gateway

import (
	"bytes"
	"encoding/json"
	"maps"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/remitrun/remit/internal/call/runner"
)

// The revisions of the protocol that know structured content: at first it was an object.
const (
	structuredObjects = "2025-06-18"
	structuredValues  = "2026-07-28"
)

// give writes an output: as structured content, and as text for older clients.
func (c *conn) give(res *mcp.CallToolResult, o runner.Outcome, revision string) *mcp.CallToolResult {
	out := BriefOutput(o.Tool, o.Output)
	if out == nil {
		out = map[string]any{}
	}
	text, err := json.Marshal(out)
	if err != nil {
		res.IsError = true
		res.Content = []mcp.Content{&mcp.TextContent{Text: "the output cannot be written as JSON"}}
		return res
	}
	text, rules := maskKeys(text, o)
	defer func() { noteKeys(res, rules) }()
	if c.relay(res, text, o, revision) {
		return res
	}
	res.Content = []mcp.Content{&mcp.TextContent{Text: string(text)}}
	setStructured(res, text, revision)
	return res
}

// relay gives the client the answer of another server, block by block. It returns false if the
// output, as JSON, is not such an answer.
func (c *conn) relay(res *mcp.CallToolResult, output []byte, o runner.Outcome, revision string) bool {
	if _, there := o.Output["content"].([]any); !there || !strings.HasPrefix(string(o.Tool), "mcp:") {
		return false
	}
	var own struct {
		Content    json.RawMessage            `json:"content"`
		Structured json.RawMessage            `json:"structured"`
		Meta       map[string]json.RawMessage `json:"_meta"`
	}
	if json.Unmarshal(output, &own) != nil {
		return false
	}
	raw, err := json.Marshal(map[string]json.RawMessage{"content": own.Content})
	var parsed mcp.CallToolResult
	if err != nil || json.Unmarshal(raw, &parsed) != nil {
		return false
	}
	for _, b := range parsed.Content {
		if link, ok := b.(*mcp.ResourceLink); ok {
			link.URI = c.shownURI(serverOf(o.Tool), link.URI)
		}
	}
	res.Content = parsed.Content
	if len(own.Structured) > 0 && len(res.Content) == 0 { // a client may show nothing else
		res.Content = []mcp.Content{&mcp.TextContent{Text: string(own.Structured)}}
	}
	setStructured(res, own.Structured, revision)
	meta := mcp.Meta{}
	for key, v := range own.Meta {
		if !strings.HasPrefix(key, "run.remit/") { // the gateway's own
			meta[key] = v
		}
	}
	maps.Copy(meta, res.Meta)
	res.Meta = meta
	return true
}

// setStructured sets structured content that the client's revision knows.
func setStructured(res *mcp.CallToolResult, content json.RawMessage, revision string) {
	isObject := bytes.HasPrefix(content, []byte("{"))
	if len(content) > 0 && (revision >= structuredValues || isObject && revision >= structuredObjects) {
		res.StructuredContent = content
	}
}

// callResult is a result that is written with its _meta at the end: what the model reads comes first.
type callResult struct{ *mcp.CallToolResult }

// MarshalJSON implements json.Marshaler.
func (r callResult) MarshalJSON() ([]byte, error) {
	b, err := r.CallToolResult.MarshalJSON()
	head := []byte(`{"_meta":`)
	if err != nil || !bytes.HasPrefix(b, head) {
		return b, err
	}
	var meta json.RawMessage
	d := json.NewDecoder(bytes.NewReader(b[len(head):]))
	if err := d.Decode(&meta); err != nil {
		return nil, err
	}
	rest := b[len(head)+len(meta):] // ,"content":…}
	if len(rest) < 2 || rest[0] != ',' {
		return b, nil
	}
	out := make([]byte, 0, len(b))
	out = append(append(out, '{'), rest[1:len(rest)-1]...)
	out = append(append(append(out, `,"_meta":`...), meta...), '}')
	return out, nil
}

// contentFirst gives a result of tools/call the order in which it is written.
func contentFirst(res mcp.Result) mcp.Result {
	if r, ok := res.(*mcp.CallToolResult); ok && r != nil {
		return callResult{r}
	}
	return res
}
