package anthropic

import (
	"cmp"
	"encoding/json"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/remitrun/remit/internal/tools/model"
)

// defaultOutput is how many tokens an answer may have where nobody says; the API
// wants a number.
const (
	defaultOutput = 8192
	mostByDefault = 32_000
)

// params makes the SDK's request.
func (p *Provider) params(r model.Request) (sdk.MessageNewParams, error) {
	out := sdk.MessageNewParams{Model: r.Model, MaxTokens: r.MaxTokens}
	if out.MaxTokens <= 0 {
		out.MaxTokens = min(cmp.Or(p.Limits(r.Model).MaxOutput, defaultOutput), mostByDefault)
	}
	if r.System != "" {
		out.System = []sdk.TextBlockParam{{Text: r.System}}
	}
	if r.Temperature != nil {
		out.Temperature = param.NewOpt(*r.Temperature)
	}
	if p.o.Base == Base { // other services may not know it
		out.CacheControl = sdk.NewCacheControlEphemeralParam()
	}
	for _, t := range r.Tools {
		tool := sdk.ToolParam{Name: t.Name, InputSchema: param.Override[sdk.ToolInputSchemaParam](t.Input)}
		if t.Description != "" {
			tool.Description = param.NewOpt(t.Description)
		}
		out.Tools = append(out.Tools, sdk.ToolUnionParam{OfTool: &tool})
	}
	for i := range r.Messages {
		add(&out, &r.Messages[i])
	}
	return out, nil
}

// add appends a message. The results of tool calls, and what the person says
// after them, are one message of the user.
func add(out *sdk.MessageNewParams, m *model.Message) {
	role, blocks := sdk.MessageParamRoleUser, []sdk.ContentBlockParamUnion(nil)
	switch m.Role {
	case model.Assistant:
		role, blocks = sdk.MessageParamRoleAssistant, said(m)
	case model.ToolRole:
		blocks = append(blocks, sdk.NewToolResultBlock(model.SafeID(m.CallID), text(m.Text), m.Failed))
	default:
		blocks = append(blocks, sdk.NewTextBlock(text(m.Text)))
	}
	if len(blocks) == 0 {
		return
	}
	if n := len(out.Messages); n > 0 && out.Messages[n-1].Role == role {
		last := &out.Messages[n-1]
		last.Content = append(last.Content, blocks...)
		return
	}
	out.Messages = append(out.Messages, sdk.MessageParam{Role: role, Content: blocks})
}

// text is a text that is not blank, which the API refuses.
func text(s string) string {
	if strings.TrimSpace(s) == "" {
		return "(empty)"
	}
	return s
}

// said returns the blocks of a message of the assistant; none if it said nothing.
func said(m *model.Message) []sdk.ContentBlockParamUnion {
	var out []sdk.ContentBlockParamUnion
	for _, raw := range m.Reasoning {
		var kind struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(raw, &kind) == nil && (kind.Type == "thinking" || kind.Type == "redacted_thinking") {
			out = append(out, param.Override[sdk.ContentBlockParamUnion](raw))
		}
	}
	if strings.TrimSpace(m.Text) != "" {
		out = append(out, sdk.NewTextBlock(m.Text))
	}
	for _, c := range m.Calls {
		input := c.Args
		if c.Malformed != "" {
			input = json.RawMessage(`{"malformed":` + string(c.Args) + `}`)
		}
		out = append(out, sdk.NewToolUseBlock(model.SafeID(c.ID), input, model.SafeName(c.Name)))
	}
	return out
}
