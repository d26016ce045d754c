// Package anthropic is the provider for Anthropic's models, and for services with the same
// Messages API. It uses Anthropic's SDK. Start at [New].
//
// The SDK gets no key and no environment, and sends requests only through the call's
// transport, each once (model.Retry repeats them).
package anthropic

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/remitrun/remit/internal/tools/model"
)

// Base is where Anthropic's service is.
const Base = "https://api.anthropic.com"

// Options is what a provider is made of. The zero value of a field means its
// default.
type Options struct {
	Name string // "anthropic"
	Base string // the URL before /v1/messages: Base
	Key  string // the name of the key; "": none is sent
	// Sleep waits between requests: model.Sleep.
	Sleep func(context.Context, time.Duration) error
}

// Provider is a service that speaks Anthropic's API.
type Provider struct{ o Options }

// New makes a provider.
func New(o Options) *Provider {
	if o.Name == "" {
		o.Name = "anthropic"
	}
	if o.Base == "" {
		o.Base = Base
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
	return model.Endpoint{Base: p.o.Base, Header: "X-Api-Key", Key: p.o.Key}
}

// limits are those of Anthropic's models, by the beginning of their names: the
// first that fits counts. (docs.anthropic.com, models overview)
var limits = []struct {
	head            string
	context, output int64
}{
	{"claude-3-haiku", 200_000, 4096},
	{"claude-3-opus", 200_000, 4096},
	{"claude-3-sonnet", 200_000, 4096},
	{"claude-3-5-", 200_000, 8192},
	{"claude-3-7-sonnet", 200_000, 64_000},
	{"claude-opus-4-5", 200_000, 64_000},
	{"claude-opus-4-", 200_000, 32_000},
	{"claude-sonnet-4", 200_000, 64_000},
	{"claude-haiku-4", 200_000, 64_000},
}

// Limits is what is known of a model.
func (p *Provider) Limits(name string) model.Limits {
	for _, l := range limits {
		if strings.HasPrefix(name, l.head) {
			return model.Limits{Context: l.context, MaxOutput: l.output}
		}
	}
	return model.Limits{}
}

// Chat asks for the next message.
func (p *Provider) Chat(ctx context.Context, via model.Reach, r model.Request, on func(model.Delta)) (model.Response, error) {
	params, err := p.params(r)
	if err != nil {
		return model.Response{}, err
	}
	return model.Retry(ctx, p.o.Sleep, func() (model.Response, error) { return p.once(ctx, via.HTTP, params, on) })
}

// once sends one request and reads its answer.
func (p *Provider) once(ctx context.Context, rt http.RoundTripper, params sdk.MessageNewParams, on func(model.Delta)) (model.Response, error) {
	api := sdk.NewMessageService(option.WithBaseURL(p.o.Base+"/"), option.WithHTTPClient(model.Client(rt)), option.WithMaxRetries(0),
		option.WithoutOpenTelemetry(), option.WithHeader("anthropic-version", "2023-06-01"))
	stream := api.NewStreaming(ctx, params)
	a := newAnswer(on)
	var err error
	for err == nil && stream.Next() {
		err = a.take(stream.Current())
	}
	if cerr := stream.Close(); err == nil && stream.Err() == nil && cerr != nil {
		err = cerr
	}
	if err == nil {
		err = p.trouble(ctx, stream.Err(), a.begun())
	} else if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return model.Response{Usage: a.usage}, err
	}
	return a.finish()
}

// trouble makes an error of what the SDK gave.
func (p *Provider) trouble(ctx context.Context, err error, begun bool) error {
	var said *sdk.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() == nil && errors.As(err, &said):
		status := said.StatusCode
		if status < 400 {
			status = 0 // said within an answer
		}
		var h http.Header
		if said.Response != nil {
			h = said.Response.Header
		}
		err = model.Refusal(model.Hear(status, h, said.RawJSON()), p)
		return model.Once(err, begun)
	}
	return model.Failure(ctx, err, begun)
}
