package openai

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/tools/model"
)

// responsesRequest is a request of the Responses API, as far as Remit uses it. The service
// keeps nothing of it.
type responsesRequest struct {
	Model           string          `json:"model"`
	Stream          bool            `json:"stream"`
	Store           bool            `json:"store"`
	Instructions    string          `json:"instructions,omitempty"`
	MaxOutputTokens int64           `json:"max_output_tokens,omitempty"`
	Temperature     *float64        `json:"temperature,omitempty"`
	Include         []string        `json:"include,omitempty"`
	Tools           []responsesTool `json:"tools,omitempty"`
	Input           []any           `json:"input"` // of input, or json.RawMessage that the service sent
}

type responsesTool struct {
	Type string `json:"type"`
	chatFunction
	Strict bool `json:"strict"`
}

// input is an item of the conversation.
type input struct {
	Type      string  `json:"type,omitempty"`
	Role      string  `json:"role,omitempty"`
	Content   *string `json:"content,omitempty"`
	CallID    string  `json:"call_id,omitempty"`
	Name      string  `json:"name,omitempty"`
	Arguments string  `json:"arguments,omitempty"`
	Output    *string `json:"output,omitempty"`
}

// responsesRequestOf makes the request of the Responses API.
func responsesRequestOf(r model.Request) (responsesRequest, error) {
	out := responsesRequest{Model: r.Model, Stream: true, Instructions: r.System, MaxOutputTokens: max(r.MaxTokens, 0), Temperature: r.Temperature}
	if reasons(r.Model) {
		out.Include = []string{"reasoning.encrypted_content"}
	}
	for _, t := range r.Tools {
		parameters, err := schemaOf(t)
		if err != nil {
			return out, err
		}
		out.Tools = append(out.Tools, responsesTool{Type: "function", chatFunction: chatFunction{t.Name, t.Description, parameters}})
	}
	for i := range r.Messages {
		out.Input = append(out.Input, items(&r.Messages[i])...)
	}
	return out, nil
}

// reasons reports whether a model is one of OpenAI's that think before they answer.
func reasons(name string) bool {
	return slices.ContainsFunc([]string{"o1", "o3", "o4", "gpt-5", "codex"}, func(head string) bool { return strings.HasPrefix(name, head) })
}

// items returns a message in the form of the API.
func items(m *model.Message) []any {
	switch m.Role {
	case model.ToolRole:
		text := result(m)
		return []any{input{Type: "function_call_output", CallID: model.SafeID(m.CallID), Output: &text}}
	case model.Assistant:
	default:
		return []any{input{Role: "user", Content: &m.Text}}
	}
	var out []any
	for _, raw := range m.Reasoning {
		var kind struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(raw, &kind) == nil && kind.Type == "reasoning" {
			out = append(out, raw)
		}
	}
	if m.Text != "" {
		out = append(out, input{Role: "assistant", Content: &m.Text})
	}
	for _, c := range m.Calls {
		out = append(out, input{Type: "function_call", CallID: model.SafeID(c.ID), Name: model.SafeName(c.Name), Arguments: arguments(c)})
	}
	return out
}

// responsesEvent is an event of the API's stream, as far as Remit reads it.
type responsesEvent struct {
	Type        string          `json:"type"`
	Error       json.RawMessage `json:"error"`
	OutputIndex int64           `json:"output_index"`
	Delta       looseText       `json:"delta"`
	Item        json.RawMessage `json:"item"`
	Response    responseState   `json:"response"`
}

// responseState is the whole answer, as the last event has it.
type responseState struct {
	Model             string            `json:"model"`
	Status            string            `json:"status"`
	Error             json.RawMessage   `json:"error"`
	Output            []json.RawMessage `json:"output"`
	IncompleteDetails struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Usage struct {
		InputTokens        int64 `json:"input_tokens"`
		OutputTokens       int64 `json:"output_tokens"`
		TotalTokens        int64 `json:"total_tokens"`
		InputTokensDetails struct {
			CachedTokens int64 `json:"cached_tokens"`
		} `json:"input_tokens_details"`
	} `json:"usage"`
}

// outputItem is a part of the answer.
type outputItem struct {
	Type             string    `json:"type"`
	CallID           looseText `json:"call_id"`
	Name             string    `json:"name"`
	Arguments        looseText `json:"arguments"`
	Input            looseText `json:"input"`
	EncryptedContent string    `json:"encrypted_content"`
	Content          []struct {
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
	} `json:"content"`
}

// response puts an answer of the Responses API together.
type response struct {
	p     *Provider
	draft *model.Draft
	said  map[int64]bool // messages of which pieces came, by their place
	calls map[int64]*model.Piece
	done  map[int64]bool

	refused bool
	whole   *responseState // as the last event has it
}

func newResponse(p *Provider, on func(model.Delta)) *response {
	return &response{
		p: p, draft: &model.Draft{On: on}, said: map[int64]bool{}, calls: map[int64]*model.Piece{}, done: map[int64]bool{},
	}
}

// Begun reports whether a part of the answer came in.
func (a *response) Begun() bool { return a.draft.Begun() }

func (a *response) used() model.Usage {
	if a.whole == nil {
		return model.Usage{}
	}
	u := a.whole.Usage
	return usage(u.InputTokens, u.OutputTokens, u.TotalTokens, u.InputTokensDetails.CachedTokens)
}

// Take takes the next event. Events of unknown kinds carry nothing that matters here.
func (a *response) Take(in model.Event) error {
	if in.EndsStream() {
		return model.ErrEndOfAnswer
	}
	var e responsesEvent
	if err := in.Decode(&e); err != nil {
		return err
	}
	switch {
	case present(e.Error), e.Type == "error", in.Name == "error":
		return in.Refusal(a.p, a.Begun())
	case in.Whole:
		if err := in.Decode(&e.Response); err != nil {
			return err
		}
		if len(e.Response.Output) == 0 {
			return in.NotAnswer()
		}
		return a.close(&e.Response)
	case e.Type == "response.failed":
		a.whole = &e.Response
		if present(e.Response.Error) {
			in.Data = e.Response.Error
		}
		return in.Refusal(a.p, a.Begun())
	}
	return a.take(&e)
}

func (a *response) take(e *responsesEvent) error {
	switch e.Type {
	case "response.output_text.delta", "response.refusal.delta":
		a.refused = a.refused || e.Type == "response.refusal.delta"
		return a.text(e.OutputIndex, string(e.Delta))
	case "response.output_item.added", "response.output_item.done":
		var item outputItem
		if err := (model.Event{Data: e.Item}).Decode(&item); err != nil {
			return err
		}
		if e.Type == "response.output_item.added" {
			return a.begin(e.OutputIndex, &item)
		}
		return a.end(e.OutputIndex, &item, e.Item)
	case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
		if p := a.calls[e.OutputIndex]; p != nil {
			return a.draft.Args(p, string(e.Delta))
		}
	case "response.completed", "response.incomplete":
		return a.close(&e.Response)
	}
	return a.draft.Count(len(e.Delta))
}

func (a *response) text(at int64, s string) error {
	a.said[at] = true
	return a.draft.Text(s)
}

func (a *response) begin(at int64, item *outputItem) (err error) {
	if item.Type == "function_call" || item.Type == "custom_tool_call" {
		a.calls[at], err = a.draft.Call(string(item.CallID), item.Name)
	}
	return err
}

// end takes an item as it is when it is whole: it may have come in pieces, in one
// piece, or all at once.
func (a *response) end(at int64, item *outputItem, raw json.RawMessage) error {
	a.done[at] = true
	switch item.Type {
	case "function_call":
		return a.called(at, item, string(item.Arguments))
	case "custom_tool_call":
		return a.called(at, item, string(item.Input))
	case "reasoning":
		if item.EncryptedContent != "" { // without, nobody can take it back
			return a.draft.Reasoning(string(raw))
		}
		return a.draft.Count(len(raw))
	case "message":
	default:
		return a.draft.Count(len(raw))
	}
	var full strings.Builder
	for _, c := range item.Content {
		full.WriteString(c.Text)
		full.WriteString(c.Refusal)
		a.refused = a.refused || c.Refusal != ""
	}
	if a.said[at] { // it came in pieces: they count
		return nil
	}
	return a.text(at, full.String())
}

// called takes the arguments of a tool call as they are when it is whole.
func (a *response) called(at int64, item *outputItem, args string) error {
	if a.calls[at] == nil {
		if err := a.begin(at, item); err != nil {
			return err
		}
	}
	p := a.calls[at]
	if p.Args.String() == args || args == "" {
		return nil
	}
	p.Args.Reset()
	return a.draft.Args(p, args)
}

// close takes the last event, which has all of the answer once more.
func (a *response) close(r *responseState) error {
	a.whole = r
	for i := range r.Output {
		if at := int64(i); len(a.done) == 0 && !a.said[at] && a.calls[at] == nil {
			if err := a.take(&responsesEvent{Type: "response.output_item.done", OutputIndex: at, Item: r.Output[i]}); err != nil {
				return err
			}
			delete(a.done, at)
		}
	}
	return nil
}

// finish returns the answer, if it is whole.
func (a *response) finish() (model.Response, error) {
	left := model.Response{Usage: a.used()}
	if a.whole == nil {
		return left, model.Cut(a.Begun())
	}
	stop := model.StopEnd
	switch a.whole.Status {
	case "completed", "":
	case "incomplete":
		stop = model.StopLength
		if a.whole.IncompleteDetails.Reason == "content_filter" {
			stop = model.StopRefused
		}
	default:
		return left, fault.New(fault.ModelFailed, "the answer ended as %.40q", a.whole.Status).WithHint("ask again")
	}
	if a.refused {
		stop = model.StopRefused
	}
	m, stop, err := a.draft.Finish(stop)
	if err != nil {
		return left, err
	}
	return model.Response{Message: m, Stop: stop, Usage: left.Usage, Model: a.whole.Model}, nil
}
