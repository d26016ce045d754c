// Package openai is the provider for OpenAI's models, and for the many services with the
// same API (Ollama, vLLM, llama.cpp, ...): chat completions, or the Responses API if
// configured. Start at [New].
//
// It gets no key and no environment, and sends requests only through the call's transport,
// each once (model.Retry repeats them).
package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/pause"
	"github.com/remitrun/remit/internal/tools/model"
)

// Base is where OpenAI's service is.
const Base = "https://api.openai.com/v1"

// API names one of the service's interfaces.
type API string

// The interfaces.
const (
	Chat      API = "chat"      // chat completions, which every compatible service has
	Responses API = "responses" // keeps the reasoning of a conversation, encrypted
)

// Options are the settings of a provider. The zero value of a field means its default.
type Options struct {
	Name string // "openai"
	Base string // the URL before /chat/completions: Base
	Key  string // the name of the key; "": none is sent
	API  API    // Chat
	// Sleep waits between requests: pause.For.
	Sleep func(context.Context, time.Duration) error
}

// Provider is a service that speaks OpenAI's API.
type Provider struct{ o Options }

// New makes a provider.
func New(o Options) *Provider {
	if o.Name == "" {
		o.Name = "openai"
	}
	if o.Base == "" {
		o.Base = Base
	}
	if o.API == "" {
		o.API = Chat
	}
	if o.Sleep == nil {
		o.Sleep = pause.For
	}
	o.Base = strings.TrimRight(o.Base, "/")
	return &Provider{o}
}

// Name is what its models' IDs begin with.
func (p *Provider) Name() string { return p.o.Name }

// Endpoint is where requests go.
func (p *Provider) Endpoint() model.Endpoint {
	return model.Endpoint{Base: p.o.Base, Header: "Authorization", Prefix: "Bearer ", Key: p.o.Key}
}

// isOpenAI reports whether the service is OpenAI's own.
func (p *Provider) isOpenAI() bool { return p.o.Base == Base }

// limits are those of OpenAI's models, by the beginning of their names: the first
// that fits counts. (platform.openai.com, models)
var limits = []struct {
	head            string
	context, output int64
}{
	{"gpt-4.1", 1_047_576, 32_768},
	{"gpt-4o", 128_000, 16_384},
	{"gpt-4-turbo", 128_000, 4096},
	{"gpt-3.5-turbo", 16_385, 4096},
	{"gpt-5", 400_000, 128_000},
	{"o1", 200_000, 100_000},
	{"o3", 200_000, 100_000},
	{"o4-mini", 200_000, 100_000},
}

// Limits returns the known limits of a model: of OpenAI's own service.
func (p *Provider) Limits(name string) model.Limits {
	for _, l := range limits {
		if p.isOpenAI() && strings.HasPrefix(name, l.head) {
			return model.Limits{Context: l.context, MaxOutput: l.output}
		}
	}
	return model.Limits{}
}

// Chat asks for the next message.
func (p *Provider) Chat(ctx context.Context, via model.Reach, r model.Request, on func(model.Delta)) (model.Response, error) {
	x := model.Exchange{Provider: p, RT: via.HTTP}
	begin := func() answer { return newCompletion(p, on) }
	var err error
	if p.o.API == Responses {
		begin = func() answer { return newResponse(p, on) }
		x.Path = "/responses"
		x.Body, err = responsesRequestOf(r)
	} else {
		x.Path = "/chat/completions"
		x.Body, err = p.chatRequest(r)
	}
	if err != nil {
		return model.Response{}, err
	}
	return model.Retry(ctx, p.o.Sleep, func() (model.Response, error) {
		a := begin()
		if err := x.Send(ctx, a); err != nil {
			return model.Response{Usage: a.used()}, err
		}
		return a.finish()
	})
}

// answer puts an answer together from the events of its stream.
type answer interface {
	model.Taker
	used() model.Usage
	finish() (model.Response, error)
}

// schemaOf returns a tool's input schema, which must be an object.
func schemaOf(t model.Tool) (map[string]json.RawMessage, error) {
	var out map[string]json.RawMessage
	if err := json.Unmarshal(t.Input, &out); err != nil {
		return nil, fault.Wrap(fault.ArgsInvalid, err, "the input schema of the tool %q is not a JSON object", t.Name)
	}
	return out, nil
}

// looseText is a string that some services send as another JSON value.
type looseText string

// UnmarshalJSON reads a string, and takes another value as its JSON.
func (s *looseText) UnmarshalJSON(b []byte) error {
	var text string // stays empty for null
	if err := json.Unmarshal(b, &text); err != nil {
		text = string(b)
	}
	*s = looseText(text)
	return nil
}

// parts is content that is a string, or, as some services send it, a list of parts that have text.
type parts string

// UnmarshalJSON reads a string, a part, or a list of them. A part of an unknown kind is named.
// Thoughts and references are not part of the text.
func (s *parts) UnmarshalJSON(b []byte) error {
	var list []parts
	if json.Unmarshal(b, &list) == nil {
		*s = ""
		for _, p := range list {
			*s += p
		}
		return nil
	}
	var p *struct {
		Type string  `json:"type"`
		Text *string `json:"text"`
	}
	if json.Unmarshal(b, &p) != nil || p == nil {
		return (*looseText)(s).UnmarshalJSON(b)
	}
	switch {
	case p.Text != nil:
		*s = parts(*p.Text)
	case p.Type == "thinking" || p.Type == "reasoning" || p.Type == "reference":
		*s = ""
	default:
		*s = parts(fmt.Sprintf("(left out: content of the kind %.60q)", p.Type))
	}
	return nil
}
