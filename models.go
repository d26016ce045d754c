package remit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/tools/model"
)

// ModelProvider asks language models by this program's own code. Its models' IDs begin with its
// name, as "harbour/large", and a policy must allow them: models: {allow: ["harbour/*"]}. A
// request is decided, charged to budgets, recorded and replayed as one to any other model.
type ModelProvider struct {
	Name string // a small letter, then small letters, digits, _ and -
	// URL is the address of the service, and Key the name of the variable, or of the stored
	// secret, with the key that it wants. The client that Chat is given leads to that
	// address and nowhere else, and puts the key into each request. "": it leads nowhere.
	URL, Key string
	// Header has the key, after KeyPrefix. Default: Authorization, and "Bearer ".
	KeyHeader, KeyPrefix string
	// Limits returns the known limits of a model; nil: none. The settings' models.limits and
	// models.prices count before it.
	Limits func(name string) ModelLimits
	// Chat asks for the next message of a conversation. It may call say with pieces of the
	// answer's text as they come in; they must be how Text of the answer begins. An error is
	// told as [ModelFailed], unless it is a [ModelBusy], [ModelContext], [ModelKey] or
	// [ModelUnknown]. It is called from several goroutines at once, and must end when ctx does.
	Chat func(ctx context.Context, client *http.Client, q ModelRequest, say func(text string)) (ModelAnswer, error)
}

// ModelRequest is a request to a model.
type ModelRequest struct {
	Model       string // without the provider's name
	System      string
	Messages    []Message // of the roles "user", "assistant" and "tool"
	Tools       []ModelTool
	MaxTokens   int64    // of the answer; 0: as the provider likes
	Temperature *float64 // nil: as the provider likes
}

// ModelTool is a tool as a model is told of it.
type ModelTool struct {
	Name, Description string
	Input             json.RawMessage // JSON Schema of the arguments
}

// ModelAnswer is a model's answer.
type ModelAnswer struct {
	Text    string
	Calls   []ToolCall // that it wants to be made: Name, Args and, where the service gives one, ID
	Cut     bool       // it ends early, since MaxTokens or the model's context is used up
	Refused bool       // the model, or its service, would not answer
	Tokens  ModelTokens
}

// ModelTokens counts the tokens of a request and its answer. All zero: they are estimated.
type ModelTokens struct {
	Input, Output         int64 // Input without those from a cache
	CacheRead, CacheWrite int64
}

// ModelLimits are the known limits of a model. Zero: not known.
type ModelLimits struct {
	Context, MaxOutput int64        // tokens
	Prices             *ModelTokens // millionths of a dollar for a million tokens of each kind; nil: not known
}

// programModels is a ModelProvider as the engine takes it.
type programModels struct{ p ModelProvider }

// programProviders makes the providers of [Options.Models].
func programProviders(list []ModelProvider) ([]model.Provider, error) {
	var out []model.Provider
	for _, p := range list {
		switch {
		case !model.ValidProvider(p.Name):
			return nil, fault.New(fault.Usage, "%q is not a valid name for a program's models; expected a small letter, then small letters, digits, _ and -", p.Name)
		case p.Chat == nil:
			return nil, fault.New(fault.Usage, "the models of %q have no function Chat", p.Name)
		}
		if p.URL = strings.TrimRight(p.URL, "/"); p.KeyHeader == "" {
			p.KeyHeader = "Authorization"
			if p.KeyPrefix == "" {
				p.KeyPrefix = "Bearer "
			}
		}
		out = append(out, programModels{p})
	}
	return out, nil
}

func (m programModels) Name() string { return m.p.Name }

func (m programModels) Endpoint() model.Endpoint {
	if m.p.URL == "" {
		return model.Endpoint{}
	}
	return model.Endpoint{Base: m.p.URL, Header: m.p.KeyHeader, Prefix: m.p.KeyPrefix, Key: m.p.Key}
}

func (m programModels) Limits(name string) model.Limits {
	if m.p.Limits == nil {
		return model.Limits{}
	}
	l := m.p.Limits(name)
	out := model.Limits{Context: l.Context, MaxOutput: l.MaxOutput}
	if p := l.Prices; p != nil {
		out.Prices = &model.Prices{Input: p.Input, Output: p.Output, CacheRead: p.CacheRead, CacheWrite: p.CacheWrite}
	}
	return out
}

func (m programModels) Chat(ctx context.Context, via model.Reach, r model.Request, on func(model.Delta)) (model.Response, error) {
	d := model.Draft{On: on}
	var told strings.Builder
	var failed error
	a, err := m.p.Chat(ctx, via.Client(), requestOf(r), func(text string) {
		told.WriteString(text)
		failed = errors.Join(failed, d.Text(text))
	})
	u := model.Usage{Input: a.Tokens.Input, Output: a.Tokens.Output, CacheRead: a.Tokens.CacheRead, CacheWrite: a.Tokens.CacheWrite}
	rest, begins := strings.CutPrefix(a.Text, told.String())
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case err != nil:
		err = modelFailure(err)
	case !begins:
		err = fault.New(fault.ModelFailed, "the program's models %q told an answer by pieces, and gave another one", m.p.Name)
	default:
		err = errors.Join(failed, d.Text(rest), draftCalls(&d, r, a.Calls), u.Check())
	}
	if u.Tokens() == 0 {
		u = model.Usage{Input: model.EstimateRequest(r), Output: max(model.Estimate(d.Size()), 1), Estimated: true}
	}
	if err != nil {
		return model.Response{Usage: u}, err
	}
	stop := model.StopEnd
	switch {
	case a.Cut:
		stop = model.StopLength
	case a.Refused:
		stop = model.StopRefused
	}
	message, stop, err := d.Finish(stop)
	if err != nil {
		return model.Response{Usage: u}, err
	}
	return model.Response{Message: message, Stop: stop, Usage: u, Model: m.p.Name + "/" + r.Model}, nil
}

// modelFailure is the error of a program's provider as callers are told it.
func modelFailure(err error) error {
	for _, code := range []Code{ModelBusy, ModelContext, ModelKey, ModelUnknown} {
		if errors.Is(err, code) {
			return fault.Wrap(code, err, "%v", err)
		}
	}
	return fault.Wrap(ModelFailed, err, "%v", err)
}

func requestOf(r model.Request) ModelRequest {
	q := ModelRequest{Model: r.Model, System: r.System, MaxTokens: r.MaxTokens, Temperature: r.Temperature}
	for _, t := range r.Tools {
		q.Tools = append(q.Tools, ModelTool(t))
	}
	for i, m := range r.Messages {
		out := Message{Number: i + 1, Role: string(m.Role), Text: m.Text, CallID: m.CallID, Failed: m.Failed}
		for _, c := range m.Calls {
			out.Calls = append(out.Calls, ToolCall{ID: c.ID, Name: c.Name, Args: c.Args})
		}
		q.Messages = append(q.Messages, out)
	}
	return q
}

// draftCalls adds the tool calls of an answer.
func draftCalls(d *model.Draft, r model.Request, list []ToolCall) error {
	for i, c := range list {
		piece, err := d.Call(cmp.Or(c.ID, fmt.Sprintf("call_%d_%d", r.Answers()+1, i+1)), c.Name)
		if err == nil {
			err = d.Args(piece, string(c.Args))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
