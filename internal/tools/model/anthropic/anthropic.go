// Package anthropic is the provider for Anthropic's models, and for services with the same
// Messages API. Start at [New].
//
// It gets no key and no environment, and sends requests only through the call's transport,
// each once (model.Retry repeats them).
package anthropic

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/base/pause"
	"github.com/remitrun/remit/internal/tools/model"
)

// Base is where Anthropic's service is.
const Base = "https://api.anthropic.com"

// Options are the settings of a provider. The zero value of a field means its default.
type Options struct {
	Name string // "anthropic"
	Base string // the URL before /v1/messages: Base
	Key  string // the name of the key; "": none is sent
	// Sleep waits between requests: pause.For.
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
		o.Sleep = pause.For
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

// Limits returns the known limits of a model.
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
	body := p.request(r)
	return model.Retry(ctx, p.o.Sleep, func() (model.Response, error) {
		a := newAnswer(p, on)
		x := model.Exchange{Provider: p, RT: via.HTTP, Path: "/v1/messages", Header: http.Header{"Anthropic-Version": {"2023-06-01"}}, Body: body}
		if err := x.Send(ctx, a); err != nil {
			return model.Response{Usage: a.usage}, err
		}
		return a.finish()
	})
}
