package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/tools/model"
)

// chatParams makes the SDK's request of chat completions.
func (p *Provider) chatParams(r model.Request) (sdk.ChatCompletionNewParams, error) {
	out := sdk.ChatCompletionNewParams{Model: r.Model}
	out.StreamOptions.IncludeUsage = param.NewOpt(true)
	switch {
	case r.MaxTokens <= 0:
	case p.own():
		out.MaxCompletionTokens = param.NewOpt(r.MaxTokens)
	default: // others know the older name
		out.MaxTokens = param.NewOpt(r.MaxTokens)
	}
	if r.Temperature != nil {
		out.Temperature = param.NewOpt(*r.Temperature)
	}
	for _, t := range r.Tools {
		f := sdk.FunctionDefinitionParam{Name: t.Name}
		if t.Description != "" {
			f.Description = param.NewOpt(t.Description)
		}
		if err := json.Unmarshal(t.Input, &f.Parameters); err != nil {
			return out, schema(t, err)
		}
		out.Tools = append(out.Tools, sdk.ChatCompletionFunctionTool(f))
	}
	if r.System != "" {
		out.Messages = append(out.Messages, sdk.SystemMessage(r.System))
	}
	for i := range r.Messages {
		out.Messages = append(out.Messages, chatMessage(&r.Messages[i]))
	}
	return out, nil
}

func schema(t model.Tool, err error) error {
	return fault.Wrap(fault.ArgsInvalid, err, "the input schema of the tool %q is not a JSON object", t.Name)
}

// result is the result of a tool call as a text: the API has no other sign for a
// failure.
func result(m *model.Message) string {
	if m.Failed && !strings.HasPrefix(strings.ToLower(m.Text), "error") {
		return "error: " + m.Text
	}
	return m.Text
}

// thoughts is the name of the field in which some services give, and want back,
// what a model thought.
const thoughts = "reasoning_content"

func chatMessage(m *model.Message) sdk.ChatCompletionMessageParamUnion {
	switch m.Role {
	case model.ToolRole:
		return sdk.ToolMessage(result(m), model.SafeID(m.CallID))
	case model.Assistant:
	default:
		return sdk.UserMessage(m.Text)
	}
	var a sdk.ChatCompletionAssistantMessageParam
	if m.Text != "" || len(m.Calls) == 0 {
		a.Content.OfString = param.NewOpt(m.Text)
	}
	for _, c := range m.Calls {
		a.ToolCalls = append(a.ToolCalls, sdk.ChatCompletionMessageToolCallUnionParam{OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{
			ID:       model.SafeID(c.ID),
			Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{Name: model.SafeName(c.Name), Arguments: arguments(c)},
		}})
	}
	for _, raw := range m.Reasoning {
		var kept struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}
		if json.Unmarshal(raw, &kept) == nil && kept.Type == thoughts {
			a.SetExtraFields(map[string]any{thoughts: kept.Text})
		}
	}
	return sdk.ChatCompletionMessageParamUnion{OfAssistant: &a}
}

// arguments returns a call's arguments as the model wrote them, as JSON of an object.
func arguments(c model.Call) string {
	if c.Malformed != "" {
		return `{"malformed":` + string(c.Args) + `}`
	}
	return string(c.Args)
}

// complete sends one request and reads its answer.
func (p *Provider) complete(ctx context.Context, rt http.RoundTripper, params sdk.ChatCompletionNewParams, on func(model.Delta)) (model.Response, error) {
	end := &ending{rt: rt}
	api := sdk.NewChatCompletionService(p.options(end)...)
	return read(ctx, p, api.NewStreaming(ctx, params), &completion{
		draft: &model.Draft{On: on}, calls: map[int64]*model.Piece{}, end: end,
	})
}

// ending notes whether a stream came to the end that the API gives streams.
type ending struct {
	rt   http.RoundTripper
	tail []byte
}

// RoundTrip sends a request.
func (e *ending) RoundTrip(req *http.Request) (*http.Response, error) {
	if e.rt == nil {
		return nil, fault.New(fault.HandleRefused, "the model's service cannot be reached here")
	}
	resp, err := e.rt.RoundTrip(req)
	if err == nil {
		resp.Body = &tailed{resp.Body, e}
	}
	return resp, err
}

func (e *ending) reached() bool { return bytes.Contains(e.tail, []byte("[DONE]")) }

type tailed struct {
	io.ReadCloser
	e *ending
}

func (t *tailed) Read(p []byte) (int, error) {
	const most = 64
	n, err := t.ReadCloser.Read(p)
	t.e.tail = append(t.e.tail, p[max(0, n-most):n]...)
	t.e.tail = t.e.tail[max(0, len(t.e.tail)-most):]
	return n, err
}

// completion puts an answer of chat completions together.
type completion struct {
	draft *model.Draft
	calls map[int64]*model.Piece
	end   *ending

	think   strings.Builder
	refused bool
	reason  string // why it ended
	model   string
	usage   model.Usage
	counted bool // usage came with, or after, the reason
}

func (a *completion) begun() bool       { return a.draft.Begun() }
func (a *completion) used() model.Usage { return a.usage }

// take takes the next event. Of several answers the first counts; there is but
// one that was asked for.
func (a *completion) take(c sdk.ChatCompletionChunk) error {
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
	if c.JSON.Usage.Valid() {
		a.usage = usage(c.Usage.PromptTokens, c.Usage.CompletionTokens, c.Usage.TotalTokens, c.Usage.PromptTokensDetails.CachedTokens)
		a.counted = a.counted || a.reason != ""
	}
	return nil
}

// usage counts tokens as budgets do: those from a cache apart, and with those that
// only the total has.
func usage(in, out, total, cached int64) model.Usage {
	cached = min(max(cached, 0), max(in, 0))
	return model.Usage{Input: in - cached, Output: max(out, total-in), CacheRead: cached}
}

func (a *completion) choice(c *sdk.ChatCompletionChunkChoice) error {
	if err := a.draft.Text(c.Delta.Content); err != nil {
		return err
	}
	if c.Delta.Refusal != "" {
		a.refused = true
		if err := a.draft.Text(c.Delta.Refusal); err != nil {
			return err
		}
	}
	if f, ok := c.Delta.JSON.ExtraFields[thoughts]; ok {
		var s string
		if json.Unmarshal([]byte(f.Raw()), &s) == nil {
			a.think.WriteString(s)
		}
		if err := a.draft.Count(len(f.Raw())); err != nil {
			return err
		}
	}
	for i := range c.Delta.ToolCalls {
		if err := a.call(&c.Delta.ToolCalls[i]); err != nil {
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
func (a *completion) call(d *sdk.ChatCompletionChunkChoiceDeltaToolCall) (err error) {
	p := a.calls[d.Index]
	if p == nil || d.ID != "" && p.ID != "" && d.ID != p.ID && d.Function.Name != "" {
		if p, err = a.draft.Call(d.ID, d.Function.Name); err != nil {
			return err
		}
		a.calls[d.Index] = p
	} else {
		if p.ID == "" {
			p.ID = d.ID
		}
		if p.Name == "" {
			p.Name = d.Function.Name
		}
	}
	return a.draft.Args(p, d.Function.Arguments)
}

// finish returns the answer, if it is whole.
func (a *completion) finish() (model.Response, error) {
	left := model.Response{Usage: a.usage}
	if a.reason == "" || !a.end.reached() && !a.counted {
		return left, model.Cut(a.begun())
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
