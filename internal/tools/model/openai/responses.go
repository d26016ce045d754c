package openai

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/tools/model"
)

// responsesParams makes the SDK's request of the Responses API. Nothing is kept by
// the service.
func (p *Provider) responsesParams(r model.Request) (responses.ResponseNewParams, error) {
	out := responses.ResponseNewParams{Model: r.Model, Store: param.NewOpt(false)}
	if r.System != "" {
		out.Instructions = param.NewOpt(r.System)
	}
	if r.MaxTokens > 0 {
		out.MaxOutputTokens = param.NewOpt(r.MaxTokens)
	}
	if r.Temperature != nil {
		out.Temperature = param.NewOpt(*r.Temperature)
	}
	if reasons(r.Model) {
		out.Include = []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
	}
	for _, t := range r.Tools {
		f := responses.FunctionToolParam{Name: t.Name, Strict: param.NewOpt(false)}
		if t.Description != "" {
			f.Description = param.NewOpt(t.Description)
		}
		if err := json.Unmarshal(t.Input, &f.Parameters); err != nil {
			return out, schema(t, err)
		}
		out.Tools = append(out.Tools, responses.ToolUnionParam{OfFunction: &f})
	}
	for i := range r.Messages {
		out.Input.OfInputItemList = append(out.Input.OfInputItemList, items(&r.Messages[i])...)
	}
	return out, nil
}

// reasons reports whether a model is one of OpenAI's that think before they answer.
func reasons(name string) bool {
	return slices.ContainsFunc([]string{"o1", "o3", "o4", "gpt-5", "codex"}, func(head string) bool { return strings.HasPrefix(name, head) })
}

// items returns a message in the form of the API.
func items(m *model.Message) []responses.ResponseInputItemUnionParam {
	switch m.Role {
	case model.ToolRole:
		var o responses.ResponseInputItemFunctionCallOutputParam
		o.CallID = param.NewOpt(model.SafeID(m.CallID))
		o.Output.OfString = param.NewOpt(result(m))
		return []responses.ResponseInputItemUnionParam{{OfFunctionCallOutput: &o}}
	case model.Assistant:
	default:
		return []responses.ResponseInputItemUnionParam{responses.ResponseInputItemParamOfMessage(m.Text, responses.EasyInputMessageRoleUser)}
	}
	var out []responses.ResponseInputItemUnionParam
	for _, raw := range m.Reasoning {
		var kind struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(raw, &kind) == nil && kind.Type == "reasoning" {
			out = append(out, param.Override[responses.ResponseInputItemUnionParam](raw))
		}
	}
	if m.Text != "" {
		out = append(out, responses.ResponseInputItemParamOfMessage(m.Text, responses.EasyInputMessageRoleAssistant))
	}
	for _, c := range m.Calls {
		out = append(out, responses.ResponseInputItemParamOfFunctionCall(arguments(c), model.SafeID(c.ID), model.SafeName(c.Name)))
	}
	return out
}

// respond sends one request and reads its answer.
func (p *Provider) respond(ctx context.Context, rt http.RoundTripper, params responses.ResponseNewParams, on func(model.Delta)) (model.Response, error) {
	api := responses.NewResponseService(p.options(rt)...)
	return read(ctx, p, api.NewStreaming(ctx, params), &response{
		p: p, draft: &model.Draft{On: on}, said: map[int64]bool{}, calls: map[int64]*model.Piece{}, done: map[int64]bool{},
	})
}

// response puts an answer of the Responses API together.
type response struct {
	p     *Provider
	draft *model.Draft
	said  map[int64]bool // messages of which pieces came, by their place
	calls map[int64]*model.Piece
	done  map[int64]bool

	refused bool
	whole   *responses.Response // as the last event has it
}

func (a *response) begun() bool { return a.draft.Begun() }

func (a *response) used() model.Usage {
	if a.whole == nil {
		return model.Usage{}
	}
	u := a.whole.Usage
	return usage(u.InputTokens, u.OutputTokens, u.TotalTokens, u.InputTokensDetails.CachedTokens)
}

// take takes the next event. Those of kinds that are not known say nothing that
// matters here.
func (a *response) take(e responses.ResponseStreamEventUnion) error {
	switch e.Type {
	case "response.output_text.delta", "response.refusal.delta":
		a.refused = a.refused || e.Type == "response.refusal.delta"
		return a.text(e.OutputIndex, e.Delta)
	case "response.output_item.added":
		return a.begin(e.OutputIndex, &e.Item)
	case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
		if p := a.calls[e.OutputIndex]; p != nil {
			return a.draft.Args(p, e.Delta)
		}
	case "response.output_item.done":
		return a.end(e.OutputIndex, &e.Item)
	case "response.completed", "response.incomplete":
		return a.close(&e.Response)
	case "response.failed":
		a.whole = &e.Response
		err := e.Response.Error
		return model.Once(model.Refusal(model.Said{Kind: string(err.Code), Text: err.Message}, a.p), a.begun())
	case "error":
		return model.Once(model.Refusal(model.Said{Kind: e.Code, Text: e.Message}, a.p), a.begun())
	}
	return a.draft.Count(len(e.Delta))
}

func (a *response) text(at int64, s string) error {
	a.said[at] = true
	return a.draft.Text(s)
}

func (a *response) begin(at int64, item *responses.ResponseOutputItemUnion) (err error) {
	if item.Type == "function_call" || item.Type == "custom_tool_call" {
		a.calls[at], err = a.draft.Call(item.CallID, item.Name)
	}
	return err
}

// end takes an item as it is when it is whole: it may have come in pieces, in one
// piece, or all at once.
func (a *response) end(at int64, item *responses.ResponseOutputItemUnion) error {
	a.done[at] = true
	switch item.Type {
	case "function_call":
		return a.called(at, item, item.Arguments.OfString)
	case "custom_tool_call":
		return a.called(at, item, item.Input)
	case "reasoning":
		if item.EncryptedContent != "" { // without, nobody can take it back
			return a.draft.Reasoning(item.RawJSON())
		}
		return a.draft.Count(len(item.RawJSON()))
	case "message":
	default:
		return a.draft.Count(len(item.RawJSON()))
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
func (a *response) called(at int64, item *responses.ResponseOutputItemUnion, args string) error {
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
func (a *response) close(r *responses.Response) error {
	a.whole = r
	for i := range r.Output {
		if at := int64(i); len(a.done) == 0 && !a.said[at] && a.calls[at] == nil {
			if err := a.take(responses.ResponseStreamEventUnion{Type: "response.output_item.done", OutputIndex: at, Item: r.Output[i]}); err != nil {
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
		return left, model.Cut(a.begun())
	}
	stop := model.StopEnd
	switch a.whole.Status {
	case responses.ResponseStatusCompleted, "":
	case responses.ResponseStatusIncomplete:
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
