package anthropic

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/remitrun/remit/internal/tools/model"
)

// defaultOutput is how many tokens an answer may have where nobody says; the API
// wants a number.
const (
	defaultOutput = 8192
	mostByDefault = 32_000
)

// request is a request of the Messages API, as far as Remit uses it.
type request struct {
	Model        string   `json:"model"`
	MaxTokens    int64    `json:"max_tokens"`
	Stream       bool     `json:"stream"`
	System       []part   `json:"system,omitempty"`
	Temperature  *float64 `json:"temperature,omitempty"`
	CacheControl *part    `json:"cache_control,omitempty"`
	Tools        []offer  `json:"tools,omitempty"`
	Messages     []turn   `json:"messages"`
}

// offer is a tool that the model may call.
type offer struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema"`
}

// turn is a message of the conversation. An element of Content is a part, a toolUse,
// a toolResult, or a json.RawMessage that the service sent.
type turn struct {
	Role    string `json:"role"`
	Content []any  `json:"content"`
}

// part is a piece of content that has at most text.
type part struct {
	Type string `json:"type"`
	Text string `json:"text,omitempty"`
}

type toolUse struct {
	Type  string          `json:"type"`
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

type toolResult struct {
	Type      string `json:"type"`
	ToolUseID string `json:"tool_use_id"`
	Content   []part `json:"content"`
	IsError   bool   `json:"is_error"`
}

func textPart(s string) part { return part{Type: "text", Text: s} }

// request makes the API's request.
func (p *Provider) request(r model.Request) request {
	out := request{Model: r.Model, MaxTokens: r.MaxTokens, Stream: true, Temperature: r.Temperature}
	if out.MaxTokens <= 0 {
		out.MaxTokens = min(cmp.Or(p.Limits(r.Model).MaxOutput, defaultOutput), mostByDefault)
	}
	if r.System != "" {
		out.System = []part{textPart(r.System)}
	}
	if p.o.Base == Base { // other services may not know it
		out.CacheControl = &part{Type: "ephemeral"}
	}
	for _, t := range r.Tools {
		out.Tools = append(out.Tools, offer{t.Name, t.Description, t.Input})
	}
	for i := range r.Messages {
		out.add(&r.Messages[i])
	}
	return out
}

// add appends a message. The results of tool calls, and the person's text after them, are one
// message of the user.
func (r *request) add(m *model.Message) {
	role, content := "user", []any(nil)
	switch m.Role {
	case model.Assistant:
		role, content = "assistant", assistantContent(m)
	case model.ToolRole:
		content = append(content, toolResult{"tool_result", model.SafeID(m.CallID), []part{textPart(notBlank(m.Text))}, m.Failed})
	default:
		content = append(content, textPart(notBlank(m.Text)))
	}
	if len(content) == 0 {
		return
	}
	if n := len(r.Messages); n > 0 && r.Messages[n-1].Role == role {
		last := &r.Messages[n-1]
		last.Content = append(last.Content, content...)
		return
	}
	r.Messages = append(r.Messages, turn{role, content})
}

// notBlank replaces a blank text, which the API refuses.
func notBlank(s string) string {
	if strings.TrimSpace(s) == "" {
		return "(empty)"
	}
	return s
}

// assistantContent returns the content of a message of the assistant; none if it said nothing.
func assistantContent(m *model.Message) []any {
	var out []any
	for _, raw := range m.Reasoning {
		var kind struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(raw, &kind) == nil && (kind.Type == "thinking" || kind.Type == "redacted_thinking") {
			out = append(out, raw)
		}
	}
	if strings.TrimSpace(m.Text) != "" {
		out = append(out, textPart(m.Text))
	}
	for _, c := range m.Calls {
		input := c.Args
		if c.Malformed != "" {
			input = json.RawMessage(`{"malformed":` + string(c.Args) + `}`)
		}
		out = append(out, toolUse{"tool_use", model.SafeID(c.ID), model.SafeName(c.Name), input})
	}
	return out
}
