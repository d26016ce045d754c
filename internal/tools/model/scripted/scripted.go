// Package scripted is the provider whose models are files of answers, for tests,
// demonstrations and CI. It needs no network and no key, costs nothing, and always gives
// the same answers. Start at [New]; [Parse] reads the files.
package scripted

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/memo"
	"github.com/remitrun/remit/internal/tools/model"
)

// MaxSize is how large a file of answers may be, in bytes.
const MaxSize = 4 << 20

// keptScripts bounds the memory of the files that a provider keeps parsed.
const keptScripts = 4 * MaxSize

// Provider serves files of answers; New makes one.
type Provider struct {
	parsed *memo.Memo[*Script] // by name and content
}

// New makes the provider.
func New() *Provider { return &Provider{parsed: memo.New[*Script](keptScripts)} }

// Name is what its models' IDs begin with.
func (*Provider) Name() string { return model.Scripted }

// Endpoint is empty: no network is needed.
func (*Provider) Endpoint() model.Endpoint { return model.Endpoint{} }

// Limits says that answers cost nothing.
func (*Provider) Limits(string) model.Limits { return model.Limits{Prices: &model.Prices{}} }

// Chat returns the turn of the file that belongs to the request: after n answers of
// the assistant that is the turn with the number n+1, so that a conversation that
// is resumed, forked or replayed goes on where it was.
func (p *Provider) Chat(ctx context.Context, via model.Reach, r model.Request, on func(model.Delta)) (model.Response, error) {
	if ctx.Err() != nil {
		return model.Response{}, ctx.Err()
	}
	if via.File == nil {
		return model.Response{}, fault.New(fault.HandleRefused, "the model's file cannot be reached here")
	}
	content, err := via.File(r.Model, MaxSize)
	if err != nil {
		return model.Response{}, err
	}
	s, err := p.parse(r.Model, content)
	if err != nil {
		return model.Response{}, err
	}
	t, err := s.turn(r)
	if err != nil {
		return model.Response{}, err
	}
	return t.answer(ctx, r, on)
}

// parse is Parse, once for the same file with the same content.
func (p *Provider) parse(name string, content []byte) (*Script, error) {
	sum := sha256.Sum256(content)
	key := string(sum[:]) + name
	if s, ok := p.parsed.Get(key); ok {
		return s, nil
	}
	s, err := Parse(name, content)
	if err == nil {
		p.parsed.Put(key, s, 2*len(content))
	}
	return s, err
}

// summary is the answer to a request aside of the conversation, where the file has none.
const summary = "A summary of the conversation, as the scripted model writes it."

// turn finds the turn that belongs to a request.
func (s *Script) turn(r model.Request) (Turn, error) {
	if r.Aside {
		if len(s.Asides) > 0 {
			return s.Asides[0], nil
		}
		return Turn{Text: summary}, nil
	}
	n := r.Answers()
	switch last := len(s.Turns) - 1; {
	case n <= last:
		return s.Turns[n], nil
	case last >= 0 && s.Turns[last].Repeat:
		return s.Turns[last], nil
	}
	return Turn{}, fault.New(fault.ModelFailed, "the script has %d turns; the conversation needs turn %d", len(s.Turns), n+1).
		WithHint("add turns, or repeat the last one with repeat: true")
}

// answer says a turn.
func (t Turn) answer(ctx context.Context, r model.Request, on func(model.Delta)) (model.Response, error) {
	d := model.Draft{On: on}
	text, stop, left := t.Text, t.Stop, r.MaxTokens
	if stop == "" {
		stop = model.StopEnd
	}
	if left > 0 && model.Estimate(len(text)) > left {
		text, stop = clip.Prefix(text, int(left)*4), model.StopLength
	}
	for _, word := range strings.SplitAfter(text, " ") {
		if ctx.Err() != nil {
			return model.Response{}, ctx.Err()
		}
		if err := d.Text(word); err != nil {
			return model.Response{}, err
		}
	}
	if len(text) == len(t.Text) {
		for i, c := range t.Calls {
			id := c.ID
			if id == "" {
				id = fmt.Sprintf("call_%d_%d", r.Answers()+1, i+1)
			}
			p, err := d.Call(id, c.Name)
			if err == nil {
				err = d.Args(p, c.Args)
			}
			if err != nil {
				return model.Response{}, err
			}
		}
	}
	u := model.Usage{Input: model.EstimateRequest(r), Output: max(model.Estimate(d.Size()), 1)}
	m, stop, err := d.Finish(stop)
	if err != nil {
		return model.Response{Usage: u}, err
	}
	return model.Response{Message: m, Stop: stop, Usage: u, Model: model.Scripted}, nil
}
