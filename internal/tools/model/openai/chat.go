package openai

import (
	"encoding/json"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/tools/model"
)

// chatRequest is a request of chat completions, as far as Remit uses it.
type chatRequest struct {
	Model               string        `json:"model"`
	Stream              bool          `json:"stream"`
	StreamOptions       streamOptions `json:"stream_options"`
	MaxTokens           int64         `json:"max_tokens,omitempty"`
	MaxCompletionTokens int64         `json:"max_completion_tokens,omitempty"`
	Temperature         *float64      `json:"temperature,omitempty"`
	Tools               []chatTool    `json:"tools,omitempty"`
	Messages            []chatMessage `json:"messages"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type chatTool struct {
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name        string                     `json:"name"`
	Description string                     `json:"description,omitempty"`
	Parameters  map[string]json.RawMessage `json:"parameters,omitzero"`
}

type chatMessage struct {
	Role             string     `json:"role"`
	Content          *string    `json:"content,omitempty"`
	ReasoningContent string     `json:"reasoning_content,omitempty"` // what a model thought; some services give it and want it back
	ToolCallID       string     `json:"tool_call_id,omitempty"`
	ToolCalls        []chatCall `json:"tool_calls,omitempty"`
}

type chatCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// chatRequest makes the request of chat completions.
func (p *Provider) chatRequest(r model.Request) (chatRequest, error) {
	out := chatRequest{Model: r.Model, Stream: true, StreamOptions: streamOptions{IncludeUsage: true}, Temperature: r.Temperature}
	switch {
	case r.MaxTokens <= 0:
	case p.isOpenAI():
		out.MaxCompletionTokens = r.MaxTokens
	default: // others know the older name
		out.MaxTokens = r.MaxTokens
	}
	for _, t := range r.Tools {
		parameters, err := schemaOf(t)
		if err != nil {
			return out, err
		}
		out.Tools = append(out.Tools, chatTool{"function", chatFunction{t.Name, t.Description, parameters}})
	}
	if r.System != "" {
		out.Messages = append(out.Messages, chatMessage{Role: "system", Content: &r.System})
	}
	for i := range r.Messages {
		out.Messages = append(out.Messages, newChatMessage(&r.Messages[i]))
	}
	return out, nil
}

// result is the result of a tool call as a text: the API has no other sign for a
// failure.
func result(m *model.Message) string {
	if m.Failed && !strings.HasPrefix(strings.ToLower(m.Text), "error") {
		return "error: " + m.Text
	}
	return m.Text
}

// thoughts marks the reasoning of a message that is kept, by the name of the field.
const thoughts = "reasoning_content"

func newChatMessage(m *model.Message) chatMessage {
	switch m.Role {
	case model.ToolRole:
		text := result(m)
		return chatMessage{Role: "tool", Content: &text, ToolCallID: model.SafeID(m.CallID)}
	case model.Assistant:
	default:
		return chatMessage{Role: "user", Content: &m.Text}
	}
	out := chatMessage{Role: "assistant"}
	if m.Text != "" || len(m.Calls) == 0 {
		out.Content = &m.Text
	}
	for _, c := range m.Calls {
		call := chatCall{ID: model.SafeID(c.ID), Type: "function"}
		call.Function.Name, call.Function.Arguments = model.SafeName(c.Name), arguments(c)
		out.ToolCalls = append(out.ToolCalls, call)
	}
	for _, raw := range m.Reasoning {
		var kept struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}
		if json.Unmarshal(raw, &kept) == nil && kept.Type == thoughts {
			out.ReasoningContent = kept.Text
		}
	}
	return out
}

// arguments returns a call's arguments as the model wrote them, as JSON of an object.
func arguments(c model.Call) string {
	if c.Malformed != "" {
		return `{"malformed":` + string(c.Args) + `}`
	}
	return string(c.Args)
}

// chunk is an event of the stream of chat completions, as far as Remit reads it.
type chunk struct {
	Error   json.RawMessage `json:"error"`
	Model   string          `json:"model"`
	Choices []chatChoice    `json:"choices"`
	Usage   *struct {
		PromptTokens        int64 `json:"prompt_tokens"`
		CompletionTokens    int64 `json:"completion_tokens"`
		TotalTokens         int64 `json:"total_tokens"`
		PromptTokensDetails struct {
			CachedTokens int64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
}

type chatChoice struct {
	Index        int64  `json:"index"`
	FinishReason string `json:"finish_reason"`
	Delta        piece  `json:"delta"`
	Message      *piece `json:"message"` // in place of Delta, if the answer is one JSON document
}

// piece is a part of the model's message.
type piece struct {
	Content          parts           `json:"content"`
	Refusal          parts           `json:"refusal"`
	ReasoningContent json.RawMessage `json:"reasoning_content"`
	ToolCalls        []callPiece     `json:"tool_calls"`
}

type callPiece struct {
	Index    int64     `json:"index"`
	ID       looseText `json:"id"`
	Function struct {
		Name      string    `json:"name"`
		Arguments looseText `json:"arguments"`
	} `json:"function"`
}

// completion puts an answer of chat completions together.
type completion struct {
	p     *Provider
	draft *model.Draft
	calls map[int64]*model.Piece

	think   strings.Builder
	refused bool
	reason  string // why it ended
	model   string
	usage   model.Usage
}

func newCompletion(p *Provider, on func(model.Delta)) *completion {
	return &completion{p: p, draft: &model.Draft{On: on}, calls: map[int64]*model.Piece{}}
}

// Begun reports whether a part of the answer came in.
func (a *completion) Begun() bool       { return a.draft.Begun() }
func (a *completion) used() model.Usage { return a.usage }

// Take takes the next event. Of several answers the first counts; there is but
// one that was asked for.
func (a *completion) Take(e model.Event) error {
	if e.EndsStream() {
		return model.ErrEndOfAnswer
	}
	var c chunk
	if err := e.Decode(&c); err != nil {
		return err
	}
	if present(c.Error) || e.Name == "error" {
		return e.Refusal(a.p, a.Begun())
	}
	if e.Whole && len(c.Choices) == 0 {
		return e.NotAnswer()
	}
	if c.Model != "" {
		a.model = c.Model
	}
	for i := range c.Choices {
		if c.Choices[i].Index != 0 {
			continue
		}
		if err := a.choice(&c.Choices[i]); err != nil {
			return err
		}
	}
	if u := c.Usage; u != nil {
		a.usage = usage(u.PromptTokens, u.CompletionTokens, u.TotalTokens, u.PromptTokensDetails.CachedTokens)
	}
	return nil
}

// present reports whether a member is there, and not null.
func present(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// usage counts tokens as budgets do: tokens from a cache apart, and with tokens that only the total
// includes.
func usage(in, out, total, cached int64) model.Usage {
	cached = min(max(cached, 0), max(in, 0))
	return model.Usage{Input: in - cached, Output: max(out, total-in), CacheRead: cached}
}

func (a *completion) choice(c *chatChoice) error {
	d := &c.Delta
	if c.Message != nil {
		d = c.Message
	}
	for _, s := range []parts{d.Content, d.Refusal} {
		if err := a.draft.Text(string(s)); err != nil {
			return err
		}
	}
	a.refused = a.refused || d.Refusal != ""
	if raw := d.ReasoningContent; raw != nil {
		var s string
		if json.Unmarshal(raw, &s) == nil {
			a.think.WriteString(s)
		}
		if err := a.draft.Count(len(raw)); err != nil {
			return err
		}
	}
	for i := range d.ToolCalls {
		if c.Message != nil {
			d.ToolCalls[i].Index = int64(i)
		}
		if err := a.call(&d.ToolCalls[i]); err != nil {
			return err
		}
	}
	if c.FinishReason != "" {
		a.reason = c.FinishReason
	}
	return nil
}

// call takes a piece of a tool call. Some services number all calls alike: then a
// new ID with a name begins another.
func (a *completion) call(d *callPiece) (err error) {
	p, id := a.calls[d.Index], string(d.ID)
	if p == nil || id != "" && p.ID != "" && id != p.ID && d.Function.Name != "" {
		if p, err = a.draft.Call(id, d.Function.Name); err != nil {
			return err
		}
		a.calls[d.Index] = p
	} else {
		if p.ID == "" {
			p.ID = id
		}
		if p.Name == "" {
			p.Name = d.Function.Name
		}
	}
	return a.draft.Args(p, string(d.Function.Arguments))
}

// finish returns the answer, if it is whole.
func (a *completion) finish() (model.Response, error) {
	left := model.Response{Usage: a.usage}
	if a.reason == "" { // without it, half an answer looks like a whole one
		return left, model.Cut(a.Begun())
	}
	stop := model.StopEnd
	switch a.reason {
	case "tool_calls", "function_call":
		stop = model.StopCalls
	case "length", "model_length", "max_tokens":
		stop = model.StopLength
	case "content_filter", "refusal":
		stop = model.StopRefused
	case "error":
		return left, fault.New(fault.ModelFailed, "the service ended the answer with an error").WithHint("ask again")
	}
	if a.refused {
		stop = model.StopRefused
	}
	if a.think.Len() > 0 {
		raw, err := json.Marshal(map[string]string{"type": thoughts, "text": a.think.String()})
		if err != nil {
			return left, err
		}
		if err := a.draft.Reasoning(string(raw)); err != nil {
			return left, err
		}
	}
	m, stop, err := a.draft.Finish(stop)
	if err != nil {
		return left, err
	}
	return model.Response{Message: m, Stop: stop, Usage: a.usage, Model: a.model}, nil
}
