// Package openai is the provider for OpenAI's models, and for the many services with the
// same API (Ollama, vLLM, llama.cpp, ...). It uses OpenAI's SDK: chat completions, or the
// Responses API if configured. Start at [New].
//
// The SDK gets no key and no environment, and sends requests only through the call's
// transport, each once (model.Retry repeats them).
package openai

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/remitrun/remit/internal/tools/model"
)

// Base is where OpenAI's service is.
const Base = "https://api.openai.com/v1"

// API says which of the service's interfaces is used.
type API string

// The interfaces.
const (
	Chat      API = "chat"      // chat completions, which every compatible service has
	Responses API = "responses" // keeps the reasoning of a conversation, encrypted
)

// Options is what a provider is made of. The zero value of a field means its
// default.
type Options struct {
	Name string // "openai"
	Base string // the URL before /chat/completions: Base
	Key  string // the name of the key; "": none is sent
	API  API    // Chat
	// Sleep waits between requests: model.Sleep.
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
		o.Sleep = model.Sleep
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

// own reports whether the service is OpenAI's own.
func (p *Provider) own() bool { return p.o.Base == Base }

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

// Limits is what is known of a model: of OpenAI's own service.
func (p *Provider) Limits(name string) model.Limits {
	for _, l := range limits {
		if p.own() && strings.HasPrefix(name, l.head) {
			return model.Limits{Context: l.context, MaxOutput: l.output}
		}
	}
	return model.Limits{}
}

// Chat asks for the next message.
func (p *Provider) Chat(ctx context.Context, via model.Reach, r model.Request, on func(model.Delta)) (model.Response, error) {
	if p.o.API == Responses {
		params, err := p.responsesParams(r)
		if err != nil {
			return model.Response{}, err
		}
		return model.Retry(ctx, p.o.Sleep, func() (model.Response, error) { return p.respond(ctx, via.HTTP, params, on) })
	}
	params, err := p.chatParams(r)
	if err != nil {
		return model.Response{}, err
	}
	return model.Retry(ctx, p.o.Sleep, func() (model.Response, error) { return p.complete(ctx, via.HTTP, params, on) })
}

// options are those of one request.
func (p *Provider) options(rt http.RoundTripper) []option.RequestOption {
	return []option.RequestOption{
		option.WithBaseURL(p.o.Base), option.WithHTTPClient(model.Client(rt)), option.WithMaxRetries(0),
	}
}

// taker puts an answer together from the events of its stream.
type taker[T any] interface {
	take(event T) error
	begun() bool
	used() model.Usage
	finish() (model.Response, error)
}

// read reads a stream to its end.
func read[T any](ctx context.Context, p *Provider, stream *ssestream.Stream[T], a taker[T]) (model.Response, error) {
	var err error
	for err == nil && stream.Next() {
		err = a.take(stream.Current())
	}
	if cerr := stream.Close(); err == nil && stream.Err() == nil && cerr != nil {
		err = cerr
	}
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case err == nil:
		err = p.trouble(ctx, stream.Err(), a.begun())
	}
	if err != nil {
		return model.Response{Usage: a.used()}, err
	}
	return a.finish()
}

// trouble makes an error of what the SDK gave.
func (p *Provider) trouble(ctx context.Context, err error, begun bool) error {
	if err == nil {
		return nil
	}
	var said *sdk.Error
	var within *ssestream.StreamError
	switch {
	case errors.As(err, &said):
		var h http.Header
		if said.Response != nil {
			h = said.Response.Header
		}
		body := said.RawJSON()
		if body == "" {
			body = said.Message
		}
		return model.Once(model.Refusal(model.Hear(said.StatusCode, h, body), p), begun)
	case errors.As(err, &within):
		return model.Once(model.Refusal(model.Hear(0, nil, string(within.Event.Data)), p), begun)
	}
	return model.Failure(ctx, err, begun)
}
